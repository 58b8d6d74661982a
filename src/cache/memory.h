/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the program, registered with the session of one server: while there is one, and again
 * when it was lost and opened.  Threads: [any] */
#ifndef CACHE_MEMORY_H
#define CACHE_MEMORY_H

#include <pthread.h>
#include <rmem/rmem.h>

#include "base/list.h"

struct memory {
	pthread_mutex_t lock; /* guards what follows; held while memory is registered */
	struct list ranges;
	rmem *session; /* that they are registered with; NULL: none is open */
};

void memory_init(struct memory *memory);
/* The session, if there was one, is closed. */
void memory_free(struct memory *memory);

/* Add a range, which is registered if there is a session.  -errno with text, and it is not added:
 * as rmem_buffer_create() */
int memory_add(struct memory *memory, void *addr, uint64_t bytes);
/* Remove one such range, which nothing uses.  -ENOENT, -EBUSY with text */
int memory_remove(struct memory *memory, void *addr, uint64_t bytes);

/* A session was opened: register with it.  What cannot be is copied. */
void memory_begin(struct memory *memory, rmem *session);
/* It is about to be closed, which ends its registrations. */
void memory_end(struct memory *memory);

#endif
