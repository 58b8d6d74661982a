/* SPDX-License-Identifier: BSD-3-Clause */
/* A verbs client over the fake libraries: a domain, a local mr, a CQ and a channel, and
 * functions that post operations and check completions. */
#ifndef TESTS_UNIT_VERBS_CLIENT_STAGE_H
#define TESTS_UNIT_VERBS_CLIENT_STAGE_H

#include "fabric/client.h"
#include "unit/fabric/verbs/verbs-fake.h"
#include "unit/fabric/wr.h"

#define CLIENT (&fabric_verbs_client)
#define DEPTH 40
#define WAIT_MS 10000
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

extern struct fabric_endpoint endpoint;
extern struct fabric_client_params params;
/* NULL: not open */
extern struct fabric_domain *domain;
extern struct fabric_local_mr *region; /* all of `memory` */
extern struct fabric_cq *cq;           /* for 2 * DEPTH operations */
extern struct fabric_channel *channel;
extern char memory[4096];

int open_domain(void);
/* Connect another channel of the CQ. */
int connect_one(unsigned depth, struct fabric_channel **ret_channel);
/* Open all but the channel, or all. */
void setup_cq(void);
void setup(void);
/* Free `channel`. */
void channel_close(void);
/* Free all that is open. */
void close_all(void);
/* The same, then check that no object is left.  Also a fixture. */
void teardown(void);

struct wr wr_make(enum fabric_opcode opcode, uint64_t cookie, uint32_t bytes);
/* Post n operations with cookies from `first` on as one batch. */
int post(enum fabric_opcode opcode, unsigned first, unsigned n);
/* Expect completions with these cookies, in order, with this status. */
void expect(unsigned first, unsigned n, int status);
/* The same, and no other completion. */
void expect_only(unsigned first, unsigned n, int status);
void expect_nothing(void);
/* Whether a descriptor is readable within that time. */
bool readable(int fd, int timeout_ms);

#endif
