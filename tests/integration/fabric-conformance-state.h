/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of the stage share.  Not for the cases. */
#ifndef TESTS_FABRIC_CONFORMANCE_STATE_H
#define TESTS_FABRIC_CONFORMANCE_STATE_H

#include <pthread.h>

#include "fabric-conformance-stage.h"

#define PARTIES_MAX 8

/* All under lock but `server`, which is the loop thread's while that runs. */
struct stage {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t loop;
	bool running;
	int wake_fd;
	void (*call)(void *arg);
	void *call_arg;
	struct fabric_server *server;
	unsigned endpoint;
	struct fabric_endpoint endpoint_copy;
	struct party *parties[PARTIES_MAX];
};
extern struct stage stage;

/* Whom a hello belongs to, NULL: nobody.  Under the lock. */
struct party *stage_party(const struct fabric_hello *hello);
/* Direct channels: tell the client's side that this one has ended, 0: all.  Under the
 * lock. */
void party_tell_ended(struct party *party, uint32_t channel);

/* Wait until it is reached, which is asked under the lock; `name`: what did not happen. */
void stage_await(const char *name, bool (*reached)(void *arg), void *arg);

#endif
