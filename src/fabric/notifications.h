/* SPDX-License-Identifier: BSD-3-Clause */
/* The notifications on one memory region that wait for the loop: up to FABRIC_NOTIFICATIONS_MAX,
 * the last one always among them; the others are counted.  Threads: [any]. */
#ifndef FABRIC_NOTIFICATIONS_H
#define FABRIC_NOTIFICATIONS_H

#include <pthread.h>
#include <stdbool.h>

#include "base/notices.h"
#include "fabric/fabric.h"

/* Time for which the events of a fabric are delivered in one turn of the loop, so that others
 * get their turn: peers decide how many memory regions have notifications. */
#define FABRIC_NOTIFICATIONS_TURN_NS UINT64_C(10000000)

struct fabric_notifications {
	pthread_mutex_t lock;
	bool told; /* the loop was told to take them */
	struct notices queue;
	struct notice_source source;
};

struct fabric_notifications_taken {
	unsigned n;
	struct notice notices[FABRIC_NOTIFICATIONS_MAX];
};

void fabric_notifications_init(struct fabric_notifications *notifications);
void fabric_notifications_destroy(struct fabric_notifications *notifications);

/* Add one.  True: the caller must now tell the loop. */
bool fabric_notifications_add(struct fabric_notifications *notifications,
			      uint32_t value);
/* Take all; the loop has to be told again of later ones. */
void fabric_notifications_take(struct fabric_notifications *notifications,
			       struct fabric_notifications_taken *ret_taken);
/* Whether the loop was told and has not taken them yet. */
bool fabric_notifications_told(struct fabric_notifications *notifications);
/* Report them.  [loop] */
void fabric_notifications_report(const struct fabric_notifications_taken *taken,
				 const struct fabric_server_events *events, void *ctx,
				 void *session_cookie, void *mr_cookie);

#endif
