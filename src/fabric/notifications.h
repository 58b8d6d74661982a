/* SPDX-License-Identifier: BSD-3-Clause */
/* The notifications on one memory region that wait for the loop: up to FABRIC_NOTIFICATIONS_MAX,
 * always with the last one; the number of those lost is kept.  Threads: [any]. */
#ifndef FABRIC_NOTIFICATIONS_H
#define FABRIC_NOTIFICATIONS_H

#include <pthread.h>
#include <stdbool.h>

#include "base/notices.h"
#include "fabric/server.h"

/* Time for which the events of a fabric are delivered in one turn of the loop, so that others
 * get their turn: peers decide how many memory regions have notifications. */
#define FABRIC_NOTIFICATIONS_TURN_NS UINT64_C(1000000)

struct fabric_notifications {
	pthread_mutex_t lock;
	bool event_pending; /* the loop has a message to take them */
	struct notices queue;
	struct notice_source source;
};

void fabric_notifications_init(struct fabric_notifications *notifications);
void fabric_notifications_destroy(struct fabric_notifications *notifications);

/* Add one.  True: the caller must send the loop a message. */
bool fabric_notifications_add(struct fabric_notifications *notifications,
			      uint32_t value);
/* Take and report all; later ones need another message.  The callees may free
 * them.  [loop] */
void fabric_notifications_deliver(struct fabric_notifications *notifications,
				  const struct fabric_server_events *events, void *ctx,
				  void *session_cookie, void *mr_cookie);
/* Whether a message to the loop is under way. */
bool fabric_notifications_pending(struct fabric_notifications *notifications);

#endif
