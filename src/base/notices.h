/* SPDX-License-Identifier: BSD-3-Clause */
/* A bounded queue of short notices from any number of sources.  As long as there is room
 * all are kept in their order.  When there is none, the latest of each source is, with the
 * count of those that were lost before it: nobody who looks misses that something came, and
 * what is kept is bounded by the room and the number of sources.  Not thread-safe. */
#ifndef BASE_NOTICES_H
#define BASE_NOTICES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define NOTICES_LOST_MAX UINT32_MAX

struct notice_source;

struct notice {
	struct notice_source *source;
	int status; /* 0: it brings a value; else the user's own */
	uint32_t value;
	uint32_t lost; /* of its source, before it; NOTICES_LOST_MAX: so many or more */
};

/* Embedded in what the notices are of. */
struct notice_source {
	struct list late;   /* in notices->late */
	struct notice last; /* while it is */
};

struct notices {
	struct notice *ring;
	unsigned room, first, n;
	struct list
		late; /* sources whose latest had no room; only when the ring is full */
};

void notice_source_init(struct notice_source *source);

/* Room for so many.  -ENOMEM */
int notices_open(struct notices *notices, unsigned room);
/* No source has anything in it.  All zero, or closed already: nothing. */
void notices_close(struct notices *notices);

/* Never fails. */
void notices_put(struct notices *notices, const struct notice *notice);
/* Take up to n, the oldest first; returns how many. */
unsigned notices_take(struct notices *notices, struct notice *ret_notices, unsigned n);
/* Forget what this source has in it. */
void notices_drop(struct notices *notices, struct notice_source *source);

static inline bool notices_empty(const struct notices *notices)
{
	return notices->n == 0;
}

/* More of them may be lost. */
static inline bool notices_full(const struct notices *notices)
{
	return notices->n == notices->room;
}

#endif
