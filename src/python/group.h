/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of a cache that were given in one call, with what they hold until their results are
 * there. */
#ifndef PYTHON_GROUP_H
#define PYTHON_GROUP_H

#include <rmem/cache.h>

#include "python/memory.h"

struct group {
	/* what its caller knows it by; NULL: a thread waits for it, or did */
	PyObject *tag;
	PyObject *results;       /* a list: int, None, bool or Error for each key */
	PyObject *keys;          /* holds the keys' bytes */
	struct memory *memories; /* NULL: the operations have none */
	struct rmem_cache_op *ops;
	unsigned n;
	unsigned submitted;
	unsigned left;      /* results that are missing */
	bool orphaned;      /* its thread was interrupted */
	uint32_t index;     /* in the cache's table; of the upper half of the cookies */
	struct group *next; /* that is not submitted wholly, or that has ended */
};

/* Take keys, bytes or str, and for get and put as many memories.  Returns NULL with an exception
 * set. */
struct group *group_new(enum rmem_cache_opcode opcode, PyObject *keys,
			PyObject *memories, uint64_t ttl_ms, PyObject *tag);
void group_free(struct group *group);
/* A tp_traverse of what it holds. */
int group_traverse(const struct group *group, visitproc visit, void *arg);

/* The group got a place in the table of those that are outstanding. */
void group_place(struct group *group, uint32_t index);

/* Put a result, or an error, in its place.  Returns 0, or -1 with an exception set. */
int group_result(struct group *group, const struct module *module,
		 const rmem_cache *cache, const struct rmem_cache_result *result);
int group_error(struct group *group, const struct module *module, unsigned i,
		int status, const char *text);

#endif
