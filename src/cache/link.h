/* SPDX-License-Identifier: BSD-3-Clause */
/* The session with one server: a thread opens it, and what the cache needs there, and opens it
 * again after it was lost.  These calls wait for the server, so nothing else may make them.
 * Threads: [owner] of the cache. */
#ifndef CACHE_LINK_H
#define CACHE_LINK_H

#include <stdatomic.h>
#include <rmem/cache.h>

#include "cache/memory.h"
#include "cache/work.h"

struct link;

/* What is opened.  The strings are copied. */
struct link_params {
	const char *uri;  /* NULL: as rmem_open() */
	const char *name; /* of the lease */
	struct rmem_cache_options options;
	/* when the state has changed this is set, and the descriptor is written to */
	atomic_bool *news;
	int event_fd;
};

/* Start the thread, which begins to open.  -ENOMEM, -EAGAIN with text */
int link_create(const struct link_params *params, struct link **ret_link);
/* Begin what link_free() waits for. */
void link_end(struct link *link);
/* Close the session, if it is open, and end the thread.  NULL: nothing. */
void link_free(struct link *link);

/* Whether an attempt to open has ended, and how: 0, or -errno with its text, of the last one. */
int link_result(struct link *link, bool *ret_ended, char *text, size_t bytes);
/* What was opened, once; false: nothing yet. */
bool link_take(struct link *link, struct opened *ret_opened);
/* Nothing uses it any more: close it, and open it again after a while. */
void link_reopen(struct link *link);
/* Cache time less the time of this host, as the thread has asked now and then. */
int64_t link_clock_ms(struct link *link);
/* Memory of the program, which each session registers. */
struct memory *link_memory(struct link *link);
/* By the sessions until now, as rmem_info() tells. */
uint64_t link_copied_bytes(struct link *link);

#endif
