/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the blocks of puts one behind the other, those that come together in one operation.
 * Threads: [owner] of the cache. */
#ifndef CACHE_APPEND_H
#define CACHE_APPEND_H

struct server;

/* Give places to the puts that wait for one, and write them, as far as there is room. */
void append_run(struct server *server);
/* Free those that were outstanding when the queue ended. */
void appends_forget(struct server *server);

#endif
