/* SPDX-License-Identifier: BSD-3-Clause */
/* An open segment of this client: places in it, renewal, and giving it up.
 * Threads: [owner] of the cache. */
#ifndef CACHE_CLAIM_H
#define CACHE_CLAIM_H

#include "base/list.h"
#include "cache/format.h"
#include "cache/task.h"

struct server;
union piece;

struct claim {
	struct task task;
	struct list link; /* of the server's claims, also those that are given up */
	struct server *server;
	union piece *piece; /* has the word that an atomic finds */
	unsigned segment;
	uint64_t word; /* of the segment */
	struct segment state;
	uint64_t since_ms; /* of this host's clock, before the claim or renewal began */
	uint64_t next_ms;  /* of a renewal that is under way */
	uint64_t next_word;
	uint64_t fill;    /* bytes */
	unsigned entries; /* of the directory */
	unsigned refs;    /* blocks that have a place and are not published yet */
	bool busy;        /* an atomic is outstanding */
	bool failed;      /* a write has failed, so nobody appends */
	bool lost;        /* the segment is another's */
	bool leaving;     /* there are no more places: it is given up */
	bool part;        /* what is left may be claimed by others */
};

/* A segment word of this client, OPEN or EVICT, as of now. */
struct segment claim_segment(const struct server *server, enum segment_state state,
			     enum segment_class class, uint32_t generation);
/* Whether claim_open() may be called: there are few at a time, and those that are given up end when
 * their blocks are published. */
bool claims_have_room(const struct server *server);
/* The segment was claimed with this word.  Makes the claim that of its class; if there is no
 * memory for it, others take the segment when its time is over.  -ENOMEM */
int claim_open(struct server *server, unsigned segment, uint64_t word,
	       uint64_t since_ms, uint64_t fill, unsigned entries);
/* Whether blocks may be written and published: the first half of its time. */
bool claim_is_fresh(const struct claim *claim);
/* Renew it if a quarter of its time is over. */
void claim_renew(struct claim *claim);
/* Take a place for a block, with a reference.  False: there is no room. */
bool claim_place(struct claim *claim, uint64_t bytes, uint32_t *ret_place,
		 unsigned *ret_entry);
void claim_unref(struct claim *claim);
/* Give it up, once its blocks are published.  The claim is freed.
 *   part  others may append */
void claim_leave(struct claim *claim, bool part);
/* The server is lost: forget the claim. */
void claim_drop(struct claim *claim);
/* Free those that were outstanding when the queue ended. */
void claims_forget(struct server *server);

#endif
