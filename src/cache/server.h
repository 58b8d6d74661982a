/* SPDX-License-Identifier: BSD-3-Clause */
/* One memory server of a cache, as a client sees it: its memory, what is known of it, and the work
 * that goes on there.  Threads: [owner] of the cache. */
#ifndef CACHE_SERVER_H
#define CACHE_SERVER_H

#include "base/backoff.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/random.h"
#include "cache/claim.h"
#include "cache/evict.h"
#include "cache/io.h"
#include "cache/known.h"
#include "cache/policy.h"
#include "cache/room.h"
#include "cache/scratch.h"
#include "cache/table.h"

#define TABLE_MS 20 /* after which the copy of an active client is read again */

struct server {
	struct counters counters;
	struct io io;
	struct geometry geometry;
	struct table table;
	struct known known;
	struct policy policy;
	struct scratch *scratch; /* borrowed from the link; NULL: the server is down */
	union piece *free_pieces;
	unsigned n_requests, n_appends, n_claims; /* that have a piece */
	struct claim *claims[SEGMENT_CLASSES];
	struct list all_claims, all_appends;
	struct room room;
	struct evict evict;
	struct task refresh;
	uint64_t refresh_ms;  /* when it began */
	struct list waiting;  /* requests that wait for a piece */
	struct list placing;  /* puts that wait for a place */
	struct list finished; /* requests, for the program */
	uint32_t client;      /* number, 20 bits */
	/* of the value ids; begins anywhere, as another client may have the same number */
	uint64_t next_value;
	int64_t clock_ms;  /* cache time less the time of this host */
	uint64_t claim_ms; /* T of the page */
	uint64_t rest_ms;  /* R */
	uint64_t random;
	unsigned hint_share; /* one of so many hits may write a hint */
	bool read_only;
	bool up;      /* there is a session */
	bool leaving; /* it is about to be closed: no more segments are claimed */
	bool silent;  /* it did not answer: it is not asked until it answers a probe */
	uint64_t retry_ms; /* when it is probed */
	struct backoff pause;
	char reason[160]; /* why it is down, or is not asked */
};

/* Cache time, which all clients have in common. */
static inline uint64_t server_now_ms(const struct server *server)
{
	return clock_now_ms() + (uint64_t)server->clock_ms;
}

static inline union piece *piece_take(struct server *server)
{
	union piece *piece = server->free_pieces;

	if (piece)
		server->free_pieces = piece->next;
	return piece;
}

static inline void piece_give(struct server *server, union piece *piece)
{
	if (!server->scratch) /* the memory is gone */
		return;
	piece->next = server->free_pieces;
	server->free_pieces = piece;
}

#endif
