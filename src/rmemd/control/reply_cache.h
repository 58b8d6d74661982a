/* SPDX-License-Identifier: BSD-3-Clause */
/* The replies to a session's latest requests that change something.  A client that repeats a
 * request, because the reply was lost with its connection, gets the remembered reply.  The number
 * of replies is bounded, and that of their texts; as they are in the ledger, which all tenants
 * share, that of all sessions of a tenant, too.  Threads: [loop]. */
#ifndef RMEMD_CONTROL_REPLY_CACHE_H
#define RMEMD_CONTROL_REPLY_CACHE_H

#include <stdint.h>

#include "base/list.h"
#include "wire/msg.h"

/* Equal to REQUESTS_MAX. */
#define REPLY_CACHE_MAX 256
/* Of all sessions of a tenant; then a reply takes the place of the oldest one of its session,
 * unless that has no more than REPLY_CACHE_MIN. */
#define REPLIES_TOGETHER_MAX 2048
#define REPLY_CACHE_MIN 8
/* The latest errors alone keep their text: hardly any client loses that many answers at once. */
#define REPLY_TEXTS_MAX 16

struct reply {
	struct list link; /* in cache->replies */
	uint64_t id;      /* of the request */
	/* The lease in the reply; 0: none.  A repeated reply describes its present state, as the
	 * former keys may be dead. */
	uint64_t lease;
	enum wire_type type; /* of the request */
	uint32_t code; /* of the error in the reply; WIRE_CODE_none: OK, or a lease */
	char *text;    /* of the error; NULL: it is not kept */
};

struct reply_cache {
	uint64_t dropped_id; /* the highest id whose reply was dropped */
	unsigned n, n_texts;
	uint32_t *n_together; /* of the tenant's sessions */
	struct list replies;  /* the oldest first */
	unsigned n_spare;
	struct list spare; /* memory for the replies of requests that are under way */
};

/* Borrows n_together, which counts the replies of several caches. */
void reply_cache_init(struct reply_cache *cache, uint32_t *n_together);
/* Have memory for the replies of n requests that are under way, before the last of them takes
 * effect.  -ENOMEM with text. */
int reply_cache_reserve(struct reply_cache *cache, unsigned n);
/* Add a reply with a copy of the error's text (may be NULL).  A full cache, or one that has its
 * share, drops its oldest reply; without memory, unless it was reserved, the new reply is dropped:
 * returns the dropped id, or 0. */
uint64_t reply_cache_add(struct reply_cache *cache, const struct reply *reply,
			 const char *text);
/* The reply to this request, or NULL. */
const struct reply *reply_cache_find(const struct reply_cache *cache, uint64_t id);
/* Drop all replies. */
void reply_cache_clear(struct reply_cache *cache);

#endif
