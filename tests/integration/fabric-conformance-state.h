/* SPDX-License-Identifier: BSD-3-Clause */
/* State that the files of the stage share; the cases do not use it. */
#ifndef TESTS_FABRIC_CONFORMANCE_STATE_H
#define TESTS_FABRIC_CONFORMANCE_STATE_H

#include <pthread.h>

#include "fabric-conformance-stage.h"

#define PARTIES_MAX 8

/* `lock` protects all members but `server`, which only the loop thread uses while it runs. */
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

/* The key of a channel under TLS. */
void stage_tls_key(const uint8_t token[FABRIC_TOKEN_BYTES], uint32_t channel,
		   uint8_t ret_key[FABRIC_TLS_KEY_BYTES]);
/* The session that a hello names and has the token of, or NULL.  Under the lock. */
struct fabric_session *stage_session(const struct fabric_hello *hello);
/* Direct channels: abort the client's end of a channel that the server has closed; 0: of all
 * channels.  Under the lock. */
void party_abort_ended(struct party *party, uint32_t channel);

/* A channel of the party was connected directly, or was not.  Under the lock. */
void party_joined(const struct party *party, uint32_t channel, int err,
		  const struct fabric_qp_info *ours);

/* Wait until reached() returns true; it is called under the lock.  `name` is for the message. */
void stage_await(const char *name, bool (*reached)(void *arg), void *arg);

#endif
