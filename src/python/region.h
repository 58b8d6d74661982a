/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of Python objects that is registered with a cache, and held so long. */
#ifndef PYTHON_REGION_H
#define PYTHON_REGION_H

#include "python/module.h"

#include <rmem/cache.h>

struct region;

/* Register the memory of an object.  Returns 0, or -1 with an exception set. */
int region_add(struct region **regions, const struct module *module, rmem_cache *cache,
	       PyObject *object);
/* End a registration of the object's memory.  Returns what held it, to be freed, or NULL with an
 * exception set. */
struct region *region_take(struct region **regions, const struct module *module,
			   rmem_cache *cache, PyObject *object);
/* Release all of a list, which are not registered any more.  *regions is NULL before an object is
 * told, which may do anything. */
void regions_free(struct region **regions);
int regions_traverse(const struct region *regions, visitproc visit, void *arg);

#endif
