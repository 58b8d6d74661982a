/* SPDX-License-Identifier: BSD-3-Clause */
/* A bounded queue of notices from any number of sources.  While there is room, all notices are
 * kept in order.  When the queue is full, the last notice of each source is kept, with the number
 * of notices lost before it: a source is never forgotten, and memory is bounded by the room and
 * the number of sources.  Not thread-safe. */
#ifndef BASE_NOTICES_H
#define BASE_NOTICES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define NOTICES_LOST_MAX UINT32_MAX

struct notice_source;

struct notice {
	struct notice_source *source;
	unsigned type; /* defined by the user */
	uint32_t value;
	/* values of the source lost before this notice; NOTICES_LOST_MAX: or more */
	uint32_t lost;
};

/* Embedded in the object that the notices are about. */
struct notice_source {
	struct list late;   /* in notices->late */
	struct notice last; /* valid while in notices->late */
};

struct notices {
	struct notice *ring;
	unsigned room, first, n;
	/* sources whose last notice is outside the ring, which is full */
	struct list late;
};

void notice_source_init(struct notice_source *source);

/* An empty queue without room, as after notices_close(). */
void notices_init(struct notices *notices);
/* Create a queue with room for `room` notices.  -ENOMEM: there is no room, and the queue keeps
 * the last notice of each source. */
int notices_open(struct notices *notices, unsigned room);
/* Free a queue in which no source has a notice.  No effect on a queue of zeros or a closed
 * queue. */
void notices_close(struct notices *notices);

/* Never fails. */
void notices_put(struct notices *notices, const struct notice *notice);
/* Take up to n notices, the oldest first; returns their number. */
unsigned notices_read(struct notices *notices, struct notice *ret_notices, unsigned n);
/* Remove the notices of this source. */
void notices_drop(struct notices *notices, struct notice_source *source);

static inline bool notices_empty(const struct notices *notices)
{
	return notices->n == 0;
}

/* The next notice may cause a loss. */
static inline bool notices_full(const struct notices *notices)
{
	return notices->n == notices->room;
}

#endif
