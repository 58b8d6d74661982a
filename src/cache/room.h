/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds segments to write to: free ones, the rest of those that short-lived clients left, or the
 * oldest ones, which are evicted.  Claims of clients that are gone are sealed on the way.  It never
 * waits for another client.  Threads: [owner] of the cache. */
#ifndef CACHE_ROOM_H
#define CACHE_ROOM_H

#include "cache/format.h"
#include "cache/task.h"

struct server;

struct room {
	struct task task;
	bool busy;
	bool want[SEGMENT_CLASSES];
	/* there is none now; read and cleared by who waits */
	bool failed[SEGMENT_CLASSES];
	unsigned rounds, tries, at, start, phase;
	unsigned rests; /* claimed in a row that had no room for a block */
	bool spends;    /* also what is kept for evictions: nothing else was found */
	enum segment_class class;
	uint64_t word, asked_ms;
	uint64_t fill;
	unsigned entries;
};

/* A segment of the class is wanted: then server->claims[class] is set, or room.failed[class]. */
void room_want(struct server *server, enum segment_class class);

#endif
