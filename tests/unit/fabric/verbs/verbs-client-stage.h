/* SPDX-License-Identifier: BSD-3-Clause */
/* A verbs client over the faked libraries: a domain with a region, a queue's completions and
 * a channel, and short ways to post and to expect. */
#ifndef TESTS_UNIT_VERBS_CLIENT_STAGE_H
#define TESTS_UNIT_VERBS_CLIENT_STAGE_H

#include "fabric/fabric.h"
#include "unit/fabric/verbs/verbs-fake.h"
#include "unit/fabric/wr.h"

#define CLIENT (&fabric_verbs_client)
#define DEPTH 40
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

extern struct fabric_endpoint endpoint;
extern struct fabric_domain *domain;
extern struct fabric_local_mr *region; /* all of `memory` */
extern struct fabric_cq *cq;           /* for 2 * DEPTH operations */
extern struct fabric_channel *channel;
extern char memory[4096];

/* Another channel of the cq. */
int connect_one(unsigned depth, struct fabric_channel **ret_channel);
/* All but the channel, or all. */
void setup_cq(void);
void setup(void);
/* The same, and check that nothing is left. */
void teardown_cq(void);
void teardown(void);

struct wr wr_make(enum fabric_opcode opcode, uint64_t cookie, uint32_t bytes);
/* Post n operations with cookies from `first` on as one batch. */
int post(enum fabric_opcode opcode, unsigned first, unsigned n);
/* Exactly these cookies come, in order, with this status. */
void expect(unsigned first, unsigned n, int status);
void expect_nothing(void);

#endif
