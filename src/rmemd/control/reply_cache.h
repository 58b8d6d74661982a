/* SPDX-License-Identifier: BSD-3-Clause */
/* The answers to a session's latest requests that change something: who asks again, because
 * the answer was lost with its connection, is told the same.  What is kept is bounded, and
 * without memory it is less.  Threads: [loop]. */
#ifndef RMEMD_CONTROL_ANSWERS_H
#define RMEMD_CONTROL_ANSWERS_H

#include <stdint.h>

#include "wire/msg.h"

/* As many as may wait for their answer at a time. */
#define ANSWERS_MAX 256

struct answer {
	uint64_t id; /* of the request; 0: nothing is kept here */
	uint64_t
		lease; /* answered by the description of this lease; 0: it was not.  Its
			 * keys live shorter than the answer, so it is described anew */
	enum wire_type type; /* of the request */
	int err;             /* answered by this error; 0: by OK, or a lease */
	char *text;          /* of the error; NULL: there was no memory for it */
};

struct answers {
	uint64_t
		dropped_id; /* the highest id of which the answer is not kept any more */
	unsigned n, oldest, room;
	struct answer *ring; /* of `room`, the first n are kept; NULL: none was yet */
};

/* None yet. */
void answers_init(struct answers *answers);
/* Keep one with a copy of the error's text, NULL: it has none; the oldest makes room, or
 * without any memory the new one is dropped itself.  Returns the id of the one dropped, 0:
 * none was. */
uint64_t answers_keep(struct answers *answers, const struct answer *answer,
		      const char *text);
/* The answer to this request, or NULL. */
const struct answer *answers_find(const struct answers *answers, uint64_t id);
/* Keep none. */
void answers_clear(struct answers *answers);

#endif
