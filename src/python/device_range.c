// SPDX-License-Identifier: BSD-3-Clause
#include "python/device_range.h"

#include <unistd.h>

#include "python/cuda.h"
#include "python/session.h"

struct device_range {
	struct registration registration; /* in no bucket */
	struct device_range *next;
	struct cuda_range range;
	int device;
};

/* Idle, and its allocation is gone. */
static bool is_stale(const struct device_range *one)
{
	struct cuda_range now;

	return !one->registration.uses &&
	       (cuda_range(one->device, one->range.base, &now) ||
		now.id != one->range.id);
}

static struct device_range *take_stale(struct device_ranges *all)
{
	struct device_range **link = &all->first, *one;

	while (*link && !is_stale(*link))
		link = &(*link)->next;
	one = *link;
	if (one)
		*link = one->next;
	return one;
}

static void end_stale(struct session *session)
{
	struct device_range *one;

	while ((one = take_stale(&session->device_ranges))) {
		session->registered_bytes -= one->range.bytes;
		Py_BEGIN_ALLOW_THREADS(void)
		rmem_buffer_free(one->registration.handle);
		Py_END_ALLOW_THREADS
		PyMem_Free(one);
	}
}

static struct device_range *find(const struct device_ranges *all, int device,
				 const struct cuda_range *range)
{
	struct device_range *one = all->first;

	while (one && (one->device != device || one->range.base != range->base ||
		       one->range.id != range->id))
		one = one->next;
	return one;
}

static int export_and_register(rmem *session, int device,
			       const struct cuda_range *range, rmem_buffer **ret_handle)
{
	struct rmem_buffer_params params = rmem_buffer_params_init();
	int err;

	params.bytes = range->bytes;
	params.dmabuf_fd = cuda_export(device, range);
	if (params.dmabuf_fd < 0)
		return 1;
	err = rmem_buffer_create(session, &params, ret_handle);
	(void)close(params.dmabuf_fd);
	return err;
}

static struct device_range *add(struct session *session, int device,
				const struct cuda_range *range)
{
	struct device_range *one = PyMem_Calloc(1, sizeof(*one));
	int err;

	if (!one)
		return NULL;
	end_stale(session);
	Py_BEGIN_ALLOW_THREADS
	err = export_and_register(session->handle, device, range,
				  &one->registration.handle);
	Py_END_ALLOW_THREADS
	if (err) {
		PyMem_Free(one);
		session->device_ranges.off = session->device_ranges.off || err < 0;
		return NULL;
	}
	one->registration.addr = rmem_buffer_addr(one->registration.handle);
	one->range = *range;
	one->device = device;
	one->next = session->device_ranges.first;
	session->device_ranges.first = one;
	session->n_registrations++;
	session->registered_bytes += range->bytes;
	return one;
}

bool device_range_hold(struct session *session, int device, struct memory *memory)
{
	uint64_t address = (uintptr_t)memory->addr;
	struct cuda_range range;
	struct device_range *one;
	bool known;

	if (session->device_ranges.off)
		return false;
	Py_BEGIN_ALLOW_THREADS
	known = cuda_exports(device) && !cuda_range(device, address, &range) &&
		!cuda_wait(device) &&
		memory->bytes <= range.bytes - (address - range.base);
	Py_END_ALLOW_THREADS
	if (!known)
		return false;
	one = find(&session->device_ranges, device, &range);
	if (one)
		session->registration_hits++;
	else
		one = add(session, device, &range);
	if (!one)
		return false;
	one->registration.uses++;
	memory->registration = &one->registration;
	memory->addr = (char *)one->registration.addr + (address - range.base);
	return true;
}

void device_ranges_end(struct device_ranges *all)
{
	while (all->first) {
		struct device_range *one = all->first;

		all->first = one->next;
		PyMem_Free(one);
	}
}
