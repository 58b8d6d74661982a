/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/memory.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"

struct range {
	struct list link;
	void *addr;
	uint64_t bytes;
	rmem_buffer *buffer; /* NULL: it is not registered */
};

void memory_init(struct memory *memory)
{
	(void)pthread_mutex_init(&memory->lock, NULL);
	list_init(&memory->ranges);
	memory->session = NULL;
}

static void range_free(struct range *range)
{
	list_remove(&range->link);
	free(range);
}

void memory_free(struct memory *memory)
{
	list_for_each_entry_safe(struct range, range, &memory->ranges, link)
		range_free(range);
	(void)pthread_mutex_destroy(&memory->lock);
}

static int range_register(struct range *range, rmem *session)
{
	struct rmem_buffer_params params = rmem_buffer_params_init();
	int err;

	params.addr = range->addr;
	params.bytes = range->bytes;
	err = rmem_buffer_create(session, &params, &range->buffer);
	return err ? err_set(err, "%s", rmem_error()) : 0;
}

int memory_add(struct memory *memory, void *addr, uint64_t bytes)
{
	struct range *range = calloc(1, sizeof(*range));
	int err = 0;

	if (!range)
		return err_errno(-ENOMEM, "a range of memory");
	range->addr = addr;
	range->bytes = bytes;
	(void)pthread_mutex_lock(&memory->lock);
	if (memory->session)
		err = range_register(range, memory->session);
	if (err)
		free(range);
	else
		list_append(&memory->ranges, &range->link);
	(void)pthread_mutex_unlock(&memory->lock);
	return err;
}

static struct range *range_find(struct memory *memory, const void *addr, uint64_t bytes)
{
	list_for_each_entry(struct range, range, &memory->ranges, link)
		if (range->addr == addr && range->bytes == bytes)
			return range;
	return NULL;
}

int memory_remove(struct memory *memory, void *addr, uint64_t bytes)
{
	struct range *range;
	int err = 0;

	(void)pthread_mutex_lock(&memory->lock);
	range = range_find(memory, addr, bytes);
	if (!range)
		err = err_set(-ENOENT, "no such memory is registered");
	else if (range->buffer && (err = rmem_buffer_free(range->buffer)))
		err = err_set(err, "%s", rmem_error());
	else
		range_free(range);
	(void)pthread_mutex_unlock(&memory->lock);
	return err;
}

void memory_begin(struct memory *memory, rmem *session)
{
	(void)pthread_mutex_lock(&memory->lock);
	memory->session = session;
	list_for_each_entry(struct range, range, &memory->ranges, link)
		(void)range_register(range, session);
	(void)pthread_mutex_unlock(&memory->lock);
}

void memory_end(struct memory *memory)
{
	(void)pthread_mutex_lock(&memory->lock);
	memory->session = NULL;
	list_for_each_entry(struct range, range, &memory->ranges, link)
		range->buffer = NULL;
	(void)pthread_mutex_unlock(&memory->lock);
}
