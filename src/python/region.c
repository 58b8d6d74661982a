// SPDX-License-Identifier: BSD-3-Clause
#include "python/region.h"

#include <errno.h>

#include "python/failure.h"
#include "python/memory.h"

struct region {
	struct memory memory;
	struct region *next;
};

/* For reading alone if it cannot be written into: values are put from it. */
static int take_memory(PyObject *object, struct memory *memory)
{
	if (!memory_take(object, true, memory))
		return 0;
	PyErr_Clear();
	return memory_take(object, false, memory);
}

int region_add(struct region **regions, const struct module *module, rmem_cache *cache,
	       PyObject *object)
{
	struct region *region = PyMem_Calloc(1, sizeof(*region));
	int err;

	if (!region) {
		(void)PyErr_NoMemory();
		return -1;
	}
	if (take_memory(object, &region->memory)) {
		PyMem_Free(region);
		return -1;
	}
	Py_BEGIN_ALLOW_THREADS
	err = rmem_cache_register(cache, region->memory.addr, region->memory.bytes);
	Py_END_ALLOW_THREADS
	if (err) {
		(void)failure_raise(module, err, rmem_cache_error());
		regions_free(&region);
		return -1;
	}
	region->next = *regions;
	*regions = region;
	return 0;
}

static struct region **region_find(struct region **regions, const struct memory *memory)
{
	while (*regions && ((*regions)->memory.addr != memory->addr ||
			    (*regions)->memory.bytes != memory->bytes))
		regions = &(*regions)->next;
	return regions;
}

struct region *region_take(struct region **regions, const struct module *module,
			   rmem_cache *cache, PyObject *object)
{
	struct region *region = NULL, **place;
	struct memory memory;
	int err;

	if (take_memory(object, &memory))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	err = rmem_cache_unregister(cache, memory.addr, memory.bytes);
	Py_END_ALLOW_THREADS
	if (err) {
		(void)failure_raise(module, err, rmem_cache_error());
	} else {
		place = region_find(regions, &memory);
		region = *place;
		*place = region->next;
		region->next = NULL;
	}
	memory_release(&memory);
	return region;
}

void regions_free(struct region **regions)
{
	struct region *region = *regions;

	*regions = NULL;
	while (region) {
		struct region *next = region->next;

		memory_release(&region->memory);
		PyMem_Free(region);
		region = next;
	}
}

int regions_traverse(const struct region *regions, visitproc visit, void *arg)
{
	int stop = 0;

	for (; !stop && regions; regions = regions->next)
		stop = memory_traverse(&regions->memory, visit, arg);
	return stop;
}
