/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/lease/buffer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/err.h"
#include "base/params.h"
#include "librmem/channel/device_recovery.h"
#include "librmem/session/session.h"
#include "librmem/lease/dmabuf.h"
#include "librmem/lease/inflight.h"

#define PAGES_AT_ONCE 4096

/* ---- the table ---- */

/* Number of buffers that begin at or before the address. */
static inline unsigned table_search(const struct buffer_table *table, const void *addr)
{
	unsigned low = 0, high = table->n;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if ((uintptr_t)table->all[middle]->addr <= (uintptr_t)addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct rmem_buffer *buffer_search(struct buffer_table *table, const void *addr,
				  uint64_t bytes)
{
	unsigned i = table_search(table, addr);

	/* buffers may overlap: a longer buffer may begin earlier */
	for (; i > 0; i--) {
		struct rmem_buffer *buffer = table->all[i - 1];

		if (buffer->reach <= (uintptr_t)addr ||
		    buffer->reach - (uintptr_t)addr < bytes)
			return NULL;
		if (buffer_holds(buffer, addr, bytes))
			return table->last = buffer;
	}
	return NULL;
}

bool buffer_is_device_only(struct buffer_table *table, const void *addr, uint64_t bytes)
{
	struct rmem_buffer *found;
	bool device_only;

	if (atomic_load_explicit(&table->n_device_only, memory_order_relaxed) == 0)
		return false;
	found = buffer_find(table, addr, bytes);
	if (!found)
		return false;
	device_only = found->device_only;
	buffer_unuse(found);
	return device_only;
}

/* Compute `reach` of the buffers from index i on. */
static void table_reach(struct buffer_table *table, unsigned i)
{
	uintptr_t reach = i > 0 ? table->all[i - 1]->reach : 0;

	for (; i < table->n; i++) {
		struct rmem_buffer *buffer = table->all[i];
		uintptr_t end = (uintptr_t)buffer->addr + buffer->bytes;

		reach = buffer->reach = end > reach ? end : reach;
	}
}

/* Under the session's lock, as table_remove().  -ENOMEM */
static int table_insert(struct buffer_table *table, struct rmem_buffer *buffer)
{
	unsigned i = table_search(table, buffer->addr);
	int err = 0;

	quick_lock_acquire(&table->lock);
	if (table->n == table->room) {
		unsigned room = table->room ? 2 * table->room : 8;
		struct rmem_buffer **all =
			reallocarray(table->all, room, sizeof(struct rmem_buffer *));

		if (all) {
			table->all = all;
			table->room = room;
		} else {
			err = err_set(-ENOMEM, "no memory for a buffer's handle");
		}
	}
	if (!err) {
		memmove(&table->all[i + 1], &table->all[i],
			(table->n++ - i) * sizeof(table->all[0]));
		table->all[i] = buffer;
		table->n_device_only += buffer->device_only;
		table_reach(table, i);
	}
	quick_lock_release(&table->lock);
	return err;
}

static void table_remove(struct buffer_table *table, const struct rmem_buffer *buffer)
{
	unsigned i = table_search(table, buffer->addr);

	quick_lock_acquire(&table->lock);
	while (table->all[--i] != buffer)
		;
	memmove(&table->all[i], &table->all[i + 1],
		(--table->n - i) * sizeof(table->all[0]));
	table_reach(table, i);
	table->last = NULL;
	table->n_device_only -= buffer->device_only;
	quick_lock_release(&table->lock);
}

/* ---- memory ---- */

static void region_free(struct rmem_buffer *buffer, unsigned domain)
{
	if (buffer->mrs[domain])
		buffer->session->domains->ops->dereg_mr(buffer->mrs[domain]);
	buffer->mrs[domain] = NULL;
}

/* Register the buffer in a domain.  A closed domain registers the buffer when it is opened
 * again. */
static int region_create(struct rmem_buffer *buffer, unsigned domain)
{
	const struct domain_set *set = buffer->session->domains;
	struct fabric_domain *fabric = set->domains[domain].fabric;

	if (!set->ops->needs_local_mr || !fabric)
		return 0;
	if (buffer->device_only)
		return set->ops->reg_dmabuf_mr(
			fabric, buffer->dmabuf_fd, buffer->dmabuf_offset, buffer->addr,
			(size_t)buffer->bytes, &buffer->mrs[domain]);
	return set->ops->reg_mr(fabric, buffer->addr, (size_t)buffer->bytes,
				&buffer->mrs[domain]);
}

static int regions_create(struct rmem_buffer *buffer)
{
	int err = 0;

	for (unsigned i = 0; i < buffer->session->domains->n && !err; i++)
		err = region_create(buffer, i);
	return err;
}

/* Without registration no device checks the pages: check that they are mapped. */
static int range_check(const unsigned char *addr, uint64_t bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uint64_t at = (uintptr_t)addr & ~(page - 1), end;
	unsigned char present[PAGES_AT_ONCE];

	if (!checked_add((uintptr_t)addr, bytes, &end))
		return err_set(-EFAULT, "%p has no %" PRIu64 " bytes behind it",
			       (const void *)addr, bytes);
	while (at < end) {
		uint64_t n = end - at;

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

/* The memory of a dma-buf.  On a fabric that registers memory only devices access it: the CPU would
 * have to tell the exporter about each access, and may not reach the memory at all. */
static int dmabuf_acquire(struct rmem_buffer *buffer,
			  const struct rmem_buffer_params *params)
{
	const struct fabric_client_ops *ops = buffer->session->domains->ops;
	void *addr;
	int refused, err = dmabuf_map(params, &addr, &refused);

	if (err)
		return err;
	buffer->addr = addr;
	buffer->owned = true;
	if (!ops->needs_local_mr && refused)
		return err_set(-ENOTSUP,
			       "the dma-buf cannot be mapped (%s), and over %s the CPU "
			       "moves the bytes",
			       strerror(-refused), ops->name);
	if (!ops->needs_local_mr)
		return 0;
	buffer->device_only = true;
	buffer->run_bytes = 0;
	buffer->dmabuf_offset = params->dmabuf_offset;
	return dmabuf_fd_copy(params->dmabuf_fd, &buffer->dmabuf_fd);
}

static int memory_acquire(struct rmem_buffer *buffer,
			  const struct rmem_buffer_params *params)
{
	void *addr;

	if (params->dmabuf_fd != -1)
		return dmabuf_acquire(buffer, params);
	if (params->addr) {
		buffer->addr = params->addr;
		return buffer->session->domains->ops->needs_local_mr
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

static void buffer_drop(struct rmem_buffer *buffer)
{
	for (unsigned i = 0; i < buffer->session->domains->n; i++)
		region_free(buffer, i);
	if (buffer->owned)
		(void)munmap(buffer->addr, (size_t)buffer->bytes);
	if (buffer->dmabuf_fd >= 0)
		(void)close(buffer->dmabuf_fd);
	free(buffer);
}

static int params_check(const struct rmem_buffer_params *params)
{
	if (params->bytes == 0 || params->bytes > SIZE_MAX / 2)
		return err_set(-EINVAL, "bytes is %" PRIu64, params->bytes);
	if (params->addr && params->bytes > UINTPTR_MAX - (uintptr_t)params->addr)
		return err_set(-EINVAL, "addr and bytes go beyond the address space");
	if (params->addr && params->dmabuf_fd != -1)
		return err_set(-EINVAL, "both addr and dmabuf_fd are set");
	return 0;
}

static int buffer_make(struct rmem *session, const struct rmem_buffer_params *params,
		       struct rmem_buffer **ret_buffer)
{
	struct rmem_buffer *buffer;
	int err = params_check(params);

	if (err)
		return err;
	buffer = calloc(1, sizeof(*buffer));
	if (!buffer)
		return err_set(-ENOMEM, "no memory for a buffer's handle");
	buffer->session = session;
	buffer->bytes = buffer->run_bytes = params->bytes;
	buffer->dmabuf_fd = -1;
	err = memory_acquire(buffer, params);
	if (!err)
		err = regions_create(buffer);
	if (!err) {
		(void)pthread_mutex_lock(&session->lock);
		err = table_insert(session->buffers, buffer);
		/* queues then send no inline data of memory without a named buffer */
		if (!err && buffer->device_only)
			SESSION_NOTIFY(session, wake, session);
		(void)pthread_mutex_unlock(&session->lock);
	}
	if (err) {
		buffer_drop(buffer);
		return err;
	}
	*ret_buffer = buffer;
	return 0;
}

void buffers_destroy(struct rmem *session)
{
	struct buffer_table *table = session->buffers;

	for (unsigned i = 0; i < table->n; i++)
		buffer_drop(table->all[i]);
	free(table->all);
	*table = (struct buffer_table){ .n = 0 };
}

/* ---- as a layer of the session ---- */

static int buffers_register(struct rmem *session, unsigned domain)
{
	int err = 0;

	for (unsigned i = 0; i < session->buffers->n && !err; i++)
		err = region_create(session->buffers->all[i], domain);
	return err;
}

static void buffers_deregister(struct rmem *session, unsigned domain)
{
	for (unsigned i = 0; i < session->buffers->n; i++)
		region_free(session->buffers->all[i], domain);
}

/* In the child of a fork(). */
static void descriptors_close(struct rmem *session)
{
	for (unsigned i = 0; i < session->buffers->n; i++)
		if (session->buffers->all[i]->dmabuf_fd >= 0)
			(void)close(session->buffers->all[i]->dmabuf_fd);
}

const struct session_observer buffer_observer = {
	.inherited = descriptors_close,
	.domain_opened = buffers_register,
	.domain_closing = buffers_deregister,
};

/* ---- the calls ---- */

int rmem_buffer_create(rmem *session, const struct rmem_buffer_params *params,
		       rmem_buffer **ret_buffer)
{
	struct rmem_buffer_params all = rmem_buffer_params_init();
	int err;

	if (!session || !params || !ret_buffer)
		return err_set(-EINVAL, "rmem_buffer_create: an argument is NULL");
	err = params_import(&all, sizeof(all), params, params->size, sizeof(all),
			    "rmem_buffer_params");
	if (!err)
		err = session_own(session);
	if (!err) {
		recovery_hold(session);
		err = buffer_make(session, &all, ret_buffer);
		recovery_release(session);
	}
	return err_end(err ? err_prefix(err, "rmem_buffer_create") : 0);
}

int rmem_buffer_free(rmem_buffer *buffer)
{
	struct rmem *session;
	unsigned outstanding;

	if (!buffer)
		return err_end(0);
	session = buffer->session;
	if (session_own(session))
		return err_prefix(-ESTALE, "rmem_buffer_free");
	recovery_hold(session);
	(void)pthread_mutex_lock(&session->lock);
	outstanding = buffer_inflight(buffer);
	if (outstanding == 0)
		table_remove(session->buffers, buffer);
	(void)pthread_mutex_unlock(&session->lock);
	if (outstanding == 0)
		buffer_drop(buffer);
	recovery_release(session);
	if (outstanding > 0)
		return err_set(-EBUSY,
			       "rmem_buffer_free: %u operations on the buffer are "
			       "outstanding",
			       outstanding);
	return err_end(0);
}

void *rmem_buffer_addr(const rmem_buffer *buffer)
{
	return buffer->addr;
}

uint64_t rmem_buffer_bytes(const rmem_buffer *buffer)
{
	return buffer->bytes;
}
