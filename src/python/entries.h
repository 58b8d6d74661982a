/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of a cache, collected without Python's lock, for rmem.CacheEntry. */
#ifndef PYTHON_ENTRIES_H
#define PYTHON_ENTRIES_H

#include "python/module.h"

#include <rmem/cache.h>

/* Begins as zeros. */
struct entries {
	struct found *all;
	size_t n;
	size_t room;
};

/* For rmem_cache_list(), with the entries.  Returns 0 or -ENOMEM. */
int entries_add(const struct rmem_cache_entry *entry, void *arg);
/* A list of CacheEntry, or NULL with an exception set. */
PyObject *entries_list(const struct module *module, const struct entries *entries);
void entries_free(struct entries *entries);

#endif
