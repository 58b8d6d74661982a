/* SPDX-License-Identifier: BSD-3-Clause */
/* The notifications on one exposure that wait for the loop: so many at most, the latest
 * always among them, the others are counted.  Threads: [any]. */
#ifndef FABRIC_NOTIFICATIONS_H
#define FABRIC_NOTIFICATIONS_H

#include <pthread.h>
#include <stdbool.h>

#include "fabric/fabric.h"

/* What fabrics have for the loop is delivered for so long in one turn, so that it hears
 * others between: peers decide how many exposures have notifications, and of each it is
 * FABRIC_NOTIFICATIONS_MAX, for all who watch. */
#define FABRIC_NOTIFICATIONS_TURN_NS UINT64_C(10000000)

struct fabric_notifications {
	pthread_mutex_t lock;
	bool told; /* the loop: it will come and take them */
	unsigned n, room;
	uint32_t *values; /* NULL: there was none yet */
	uint32_t only;    /* in their place, without memory */
	uint32_t lost;    /* before the last of them */
};

/* What was taken at once. */
struct fabric_notifications_taken {
	unsigned n;
	uint32_t values[FABRIC_NOTIFICATIONS_MAX];
	uint32_t lost; /* before the last of them */
};

void fabric_notifications_init(struct fabric_notifications *notes);
void fabric_notifications_destroy(struct fabric_notifications *notes);

/* Add one.  True: the caller must now tell the loop. */
bool fabric_notifications_add(struct fabric_notifications *notes, uint32_t value);
/* Take all; from now on the loop has to be told again. */
void fabric_notifications_take(struct fabric_notifications *notes,
			       struct fabric_notifications_taken *ret_taken);
/* Whether the loop has been told and has not taken them yet. */
bool fabric_notifications_told(struct fabric_notifications *notes);
/* Report them.  [loop] */
void fabric_notifications_report(const struct fabric_notifications_taken *taken,
				 const struct fabric_server_events *events, void *ctx,
				 void *session_cookie, void *mr_cookie);

#endif
