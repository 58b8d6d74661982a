/* SPDX-License-Identifier: BSD-3-Clause */
/* The replies to a session's latest requests that change something.  A client that repeats a
 * request, because the reply was lost with its connection, gets the remembered reply.  The
 * number of replies is bounded, and lower without memory.  Threads: [loop]. */
#ifndef RMEMD_CONTROL_REPLY_CACHE_H
#define RMEMD_CONTROL_REPLY_CACHE_H

#include <stdint.h>

#include "wire/msg.h"

/* As many as may wait for their answer at a time. */
#define REPLY_CACHE_MAX 256

struct reply {
	uint64_t id; /* of the request; 0: nothing is kept here */
	uint64_t
		lease; /* answered by the description of this lease; 0: it was not.  Its
			 * keys live shorter than the answer, so it is described anew */
	enum wire_type type; /* of the request */
	int err;             /* answered by this error; 0: by OK, or a lease */
	char *text;          /* of the error; NULL: there was no memory for it */
};

struct reply_cache {
	uint64_t
		dropped_id; /* the highest id of which the answer is not kept any more */
	unsigned n, oldest, room;
	struct reply *ring; /* of `room`, the first n are kept; NULL: none was yet */
};

/* None yet. */
void reply_cache_init(struct reply_cache *answers);
/* Keep one with a copy of the error's text, NULL: it has none; the oldest makes room, or
 * without any memory the new one is dropped itself.  Returns the id of the one dropped, 0:
 * none was. */
uint64_t reply_cache_add(struct reply_cache *answers, const struct reply *answer,
			 const char *text);
/* The answer to this request, or NULL. */
const struct reply *reply_cache_find(const struct reply_cache *answers, uint64_t id);
/* Keep none. */
void reply_cache_clear(struct reply_cache *answers);

#endif
