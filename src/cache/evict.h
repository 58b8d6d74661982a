/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes the oldest segment of a class and raises its generation.  Blocks that were asked for are
 * moved to an open segment if there is room; the slots of others stay, stale, and tell that their
 * keys were here.  Threads: [owner] of the cache. */
#ifndef CACHE_EVICT_H
#define CACHE_EVICT_H

#include "cache/format.h"
#include "cache/scratch.h"
#include "cache/task.h"

struct server;
struct claim;

/* A slot in its bucket, of a block of the segment. */
struct evictee {
	uint64_t slot;
	uint64_t bucket_at;
	unsigned index, count;
	/* of one that is moved: */
	struct claim *claim; /* has its new place; NULL: it stays behind */
	uint64_t moved;      /* the new slot */
	uint64_t hash;
	uint64_t part_bytes;
};

struct evict {
	struct task task;
	bool busy;
	int class;     /* that it is opened for; -1: it becomes free */
	unsigned keep; /* free ones, before it is opened */
	void (*done)(struct server *server, int err);
	unsigned segment, tries;
	struct segment state; /* as it was found */
	uint64_t word;        /* of the segment, while it is evicted */
	uint64_t since_ms, seen_ms;
	/* of the directory: its first entry, and their number */
	unsigned chunk, n_chunk;
	unsigned entry;  /* the next one of them */
	unsigned n_seen; /* valid ones in it */
	struct evictee some[EVICT_BUCKETS];
	unsigned n_some, at;
	unsigned next; /* the first of them that was not looked at to be moved */
	/* a segment that is claimed to move them to */
	unsigned target, extensions;
	uint64_t target_word;
	uint64_t moved_bytes;
};

/* Evict one segment.  `done` is called when it is free, or open for the class, if more than `keep`
 * would be free;
 * -ENOSPC: there is none now
 * -EAGAIN: another client was ahead, or an operation failed */
void evict_start(struct server *server, int class, unsigned keep,
		 void (*done)(struct server *server, int err));

#endif
