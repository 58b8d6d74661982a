/* SPDX-License-Identifier: BSD-3-Clause */
/* Actions of the server after a fixed delay, in the order in which they were added.
 * Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_DELAYS_H
#define FABRIC_VERBS_SERVER_DELAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/* In one turn of the loop each part of process() begins nothing more after this time: peers decide
 * how much there is to do. */
#define VERBS_TURN_NS UINT64_C(1000000)

enum verbs_delay {
	VERBS_DELAY_ESTABLISH,       /* for the client to complete its connection */
	VERBS_DELAY_PEER_DISCONNECT, /* for the client to disconnect a failed channel */
	VERBS_DELAY_CAUSE, /* for the event that tells why iWARP has ended a channel */
	VERBS_DELAY_DISCONNECT_REPLY, /* for the peer's reply to our disconnect */
	VERBS_DELAY_RESCAN,
	VERBS_N_DELAYS
};

/* A delayed action, embedded in its object; list_remove(&link) cancels it. */
struct verbs_delayed {
	struct list link;
	uint64_t due_ms;
	/* Called after the action was removed from its queue; may free it or add it again. */
	void (*due)(struct verbs_delayed *delayed);
};

struct verbs_delays {
	/* sorted: the head is due first */
	struct list queues[VERBS_N_DELAYS];
	int fd; /* timerfd: polls readable when an action is due */
	bool armed;
};

/* -EMFILE, -ENFILE, -ENOMEM with text. */
int verbs_delays_init(struct verbs_delays *delays);
void verbs_delays_destroy(struct verbs_delays *delays);

void verbs_delays_add(struct verbs_delays *delays, enum verbs_delay delay,
		      struct verbs_delayed *delayed);
/* Call due() of the actions that are due; what is left after VERBS_TURN_NS, in the next turn. */
void verbs_delays_process(struct verbs_delays *delays);

#endif
