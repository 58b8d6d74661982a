/* SPDX-License-Identifier: BSD-3-Clause */
/* A verbs server over the faked libraries, driven step by step, with what it told. */
#ifndef TESTS_UNIT_VERBS_SERVER_STAGE_H
#define TESTS_UNIT_VERBS_SERVER_STAGE_H

#include "fabric/fabric.h"
#include "unit/fabric/verbs/verbs-fake.h"

#define SERVER (&fabric_verbs_server)
#define PORT 7000

/* What the server told. */
struct seen {
	struct fabric_session *admitted; /* to whom requests with a good token belong */
	unsigned admits, ups, downs, exposeds, withdrawns, closeds, news;
	uint32_t channel;
	int err;
	struct fabric_key key;
	char why[256], text[256], news_text[256];
	unsigned news_endpoint;
	unsigned gones, gone_endpoint;
	unsigned notifieds;
	uint32_t note, lost; /* the last one */
	unsigned note_ms;    /* what taking one takes */
};
extern struct seen seen;

extern struct fabric_server *server;
extern char memory[4096];

int open_with(struct fabric_server_params params);
int open_plain(void);

/* Until the server's descriptor is readable. */
void await_readable(void);
/* Until the counter, one of `seen`, has come to exactly this. */
void await(const unsigned *counter, unsigned value);

struct fabric_session *session_new(unsigned endpoint);
/* A peer asks endpoint 0 for a channel; session 1 is `seen.admitted`. */
struct rdma_cm_id *request(uint64_t session, uint32_t channel);
/* A channel that is up. */
struct rdma_cm_id *channel_new(struct fabric_session *session, uint32_t channel);
/* All of `memory`, live. */
struct fabric_mr *exposure_new(struct fabric_session *session);
/* Of endpoint 0. */
struct fabric_endpoint_stats stats(void);

/* Close the server; nothing may be left. */
void close_all(void);

#endif
