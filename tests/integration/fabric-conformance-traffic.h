/* SPDX-License-Identifier: BSD-3-Clause */
/* Continuous reads and writes of one party by a thread, until one fails.  Threads: those of the
 * case. */
#ifndef TESTS_FABRIC_CONFORMANCE_TRAFFIC_H
#define TESTS_FABRIC_CONFORMANCE_TRAFFIC_H

#include <pthread.h>
#include <stdatomic.h>

#include "fabric-conformance-stage.h"

/* The case fills memory with it after the deregistration; reads must not return it. */
#define POISON 0xee

struct traffic {
	struct scene scene;
	uint32_t bytes;
	atomic_uint done; /* operations without an error */
	atomic_bool stop; /* set by the case to end the traffic */
	int status;       /* of the first error */
	bool poisoned;    /* a read returned POISON */
	pthread_t thread;
};

/* Start operations of this length on a new scene. */
void traffic_start(struct traffic *t, uint32_t bytes);
/* Wait until this number of further operations has succeeded. */
void traffic_await(struct traffic *t, unsigned more);
/* Wait until the traffic has ended. */
void traffic_join(struct traffic *t);
void traffic_free(struct traffic *t);

#endif
