/* SPDX-License-Identifier: BSD-3-Clause */
/* Traffic of one party without pause, from a thread of its own, until something ends in
 * an error.  Threads: the case's. */
#ifndef TESTS_FABRIC_CONFORMANCE_TRAFFIC_H
#define TESTS_FABRIC_CONFORMANCE_TRAFFIC_H

#include <pthread.h>
#include <stdatomic.h>

#include "fabric-conformance-stage.h"

/* What the case fills memory with that reads must not see any more. */
#define POISON 0xee

struct traffic {
	struct party *party;
	struct fabric_channel *channel;
	struct lent *lent;
	struct local *local;
	uint32_t bytes;
	atomic_uint done; /* without error */
	atomic_bool stop; /* ends it without an error as well */
	int status;       /* of the first error */
	bool poisoned;    /* a read returned what was there after withdrawn() */
	pthread_t thread;
};

/* With operations of so many bytes, on a party, a channel and memory of its own. */
void traffic_start(struct traffic *t, uint32_t bytes);
/* Until so many more have gone well. */
void traffic_await(struct traffic *t, unsigned more);
/* Until it has ended. */
void traffic_join(struct traffic *t);
void traffic_free(struct traffic *t);

#endif
