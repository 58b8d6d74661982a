/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/lease/buffer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "librmem/params.h"
#include "librmem/channel/device_recovery.h"
#include "librmem/session/session.h"
#include "librmem/lease/inflight.h"

#define PAGES_AT_ONCE 4096

struct rmem_buffer *buffer_find(struct rmem *session, const void *addr, uint64_t bytes)
{
	struct rmem_buffer *found = NULL;

	(void)pthread_mutex_lock(&session->lock);
	list_for_each(node, &session->buffers) {
		struct rmem_buffer *buffer =
			container_of(node, struct rmem_buffer, node);

		if (!buffer_holds(buffer, addr, bytes))
			continue;
		(void)atomic_fetch_add_explicit(&buffer->outstanding, 1,
						memory_order_relaxed);
		found = buffer;
		break;
	}
	(void)pthread_mutex_unlock(&session->lock);
	return found;
}

static void regions_free(struct rmem_buffer *buffer)
{
	const struct domain_set *set = &buffer->session->domains;

	for (unsigned i = 0; i < set->n; i++)
		if (buffer->mrs[i])
			set->ops->dereg_mr(buffer->mrs[i]);
}

static int regions_create(struct rmem_buffer *buffer)
{
	const struct domain_set *set = &buffer->session->domains;

	for (unsigned i = 0; i < set->n; i++) {
		/* one that is closed makes up for it when it is opened again */
		int err = set->domains[i].fabric
				  ? set->ops->reg_mr(
					    set->domains[i].fabric, buffer->addr,
					    (size_t)buffer->bytes, &buffer->mrs[i])
				  : 0;
		if (err) {
			regions_free(buffer);
			return err;
		}
	}
	return 0;
}

/* Where nothing is registered nobody looks at the pages: see that they are there. */
static int range_check(const unsigned char *addr, uint64_t bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t at = (uintptr_t)addr & ~(page - 1), end = (uintptr_t)addr + bytes;
	unsigned char present[PAGES_AT_ONCE];

	while (at < end) {
		uintptr_t n = end - at;

		if (n > page * PAGES_AT_ONCE)
			n = page * PAGES_AT_ONCE;
		if (mincore((void *)at, n, present) < 0)
			return err_set(errno == ENOMEM ? -EFAULT : -errno,
				       "%p is not mapped for %" PRIu64 " bytes",
				       (const void *)addr, bytes);
		at += n;
	}
	return 0;
}

static int memory_take(struct rmem_buffer *buffer,
		       const struct rmem_buffer_params *params)
{
	void *addr;

	if (params->addr) {
		buffer->addr = params->addr;
		return buffer->session->domains.ops->needs_local_mr
			       ? 0
			       : range_check(buffer->addr, buffer->bytes);
	}
	addr = mmap(NULL, (size_t)buffer->bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (addr == MAP_FAILED)
		return err_errno(-errno, "mapping a buffer of %" PRIu64 " bytes",
				 buffer->bytes);
	buffer->addr = addr;
	buffer->owned = true;
	return 0;
}

static void memory_give(struct rmem_buffer *buffer)
{
	if (buffer->owned)
		(void)munmap(buffer->addr, (size_t)buffer->bytes);
}

static int params_check(struct rmem *session, const struct rmem_buffer_params *params)
{
	if (params->dmabuf_fd != -1)
		return err_set(-ENOTSUP, "%s cannot register a dma-buf",
			       session->domains.ops->name);
	if (params->bytes == 0 || params->bytes > SIZE_MAX / 2)
		return err_set(-EINVAL, "bytes is %" PRIu64, params->bytes);
	if (params->addr && params->bytes > UINTPTR_MAX - (uintptr_t)params->addr)
		return err_set(-EINVAL, "addr and bytes go beyond the address space");
	return 0;
}

static int buffer_make(struct rmem *session, const struct rmem_buffer_params *params,
		       struct rmem_buffer **ret_buffer)
{
	struct rmem_buffer *buffer;
	int err = params_check(session, params);

	if (err)
		return err;
	buffer = calloc(1, sizeof(*buffer));
	if (!buffer)
		return err_set(-ENOMEM, "no memory for a buffer's handle");
	buffer->session = session;
	buffer->bytes = params->bytes;
	err = memory_take(buffer, params);
	if (err)
		goto err_free;
	if (session->domains.ops->needs_local_mr) {
		err = regions_create(buffer);
		if (err)
			goto err_memory;
	}
	(void)pthread_mutex_lock(&session->lock);
	list_append(&session->buffers, &buffer->node);
	(void)pthread_mutex_unlock(&session->lock);
	*ret_buffer = buffer;
	return 0;

err_memory:
	memory_give(buffer);
err_free:
	free(buffer);
	return err;
}

void buffer_drop(struct rmem_buffer *buffer)
{
	regions_free(buffer);
	memory_give(buffer);
	free(buffer);
}

static int buffer_create(struct rmem *session, const struct rmem_buffer_params *params,
			 struct rmem_buffer **ret_buffer)
{
	int err;

	recovery_hold(session);
	err = buffer_make(session, params, ret_buffer);
	recovery_release(session);
	return err;
}

int rmem_buffer_create(rmem *session, const struct rmem_buffer_params *params,
		       rmem_buffer **ret_buffer)
{
	struct rmem_buffer_params all = RMEM_BUFFER_INIT;
	int err;

	if (!session || !params || !ret_buffer)
		return err_set(-EINVAL, "rmem_buffer_create: an argument is NULL");
	err = params_take(&all, sizeof(all), params, params->size, sizeof(all),
			  "rmem_buffer_params");
	if (!err)
		err = buffer_create(session, &all, ret_buffer);
	return err ? err_prefix(err, "rmem_buffer_create") : 0;
}

int rmem_buffer_free(rmem_buffer *buffer)
{
	struct rmem *session;
	unsigned outstanding;

	if (!buffer)
		return 0;
	session = buffer->session;
	recovery_hold(session);
	(void)pthread_mutex_lock(&session->lock);
	outstanding = buffer_inflight(buffer);
	if (outstanding == 0)
		list_remove(&buffer->node);
	(void)pthread_mutex_unlock(&session->lock);
	if (outstanding == 0)
		buffer_drop(buffer);
	recovery_release(session);
	if (outstanding > 0)
		return err_set(-EBUSY,
			       "rmem_buffer_free: %u operations on the buffer are "
			       "outstanding",
			       outstanding);
	return 0;
}

void *rmem_buffer_addr(const rmem_buffer *buffer)
{
	return buffer->addr;
}

uint64_t rmem_buffer_bytes(const rmem_buffer *buffer)
{
	return buffer->bytes;
}
