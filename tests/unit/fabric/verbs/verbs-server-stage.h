/* SPDX-License-Identifier: BSD-3-Clause */
/* A verbs server over the fake libraries, driven step by step, and a record of its
 * events. */
#ifndef TESTS_UNIT_VERBS_SERVER_STAGE_H
#define TESTS_UNIT_VERBS_SERVER_STAGE_H

#include "unit/fabric/server-events.h"
#include "unit/fabric/verbs/verbs-fake.h"

#define SERVER (&fabric_verbs_server)
#define PORT 7000
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

extern struct fabric_server *server; /* NULL: not open */
extern char memory[4096];
extern bool peer_verified; /* for admit() */

int server_try_open(struct fabric_server_params params);
/* Open it with default parameters. */
void server_open(void);
/* Also open a session on endpoint 0. */
struct fabric_session *server_open_session(void);
/* Close the server, if it is open, and check that no object is left.  Also a
 * fixture. */
void server_close(void);

/* Wait until the server's descriptor is readable. */
void await_readable(void);
/* The same, then process(). */
void process_next(void);
/* Process until no channel is being opened or closed, and no id destroyed, but for those that wait
 * for their peer. */
void settle(void);
bool server_works(const struct fabric_server *verbs);
/* fake_live_qps(), once it is settled. */
unsigned live_qps(void);
/* Process until the counter, a member of `seen`, is exactly this. */
void await(const unsigned *counter, unsigned value);

struct fabric_session *session_new(unsigned endpoint);
/* Deregister all memory regions of the session. */
void session_deregister(struct fabric_session *session);
/* Close a session, deregister its memory regions, and wait for the event. */
void session_end(struct fabric_session *session);
/* Send a connect request with a hello to endpoint 0. */
struct rdma_cm_id *request(uint64_t session, uint32_t channel);
/* Connect a channel. */
struct rdma_cm_id *channel_new(struct fabric_session *session, uint32_t channel);
/* Call reg_mr() for the first bytes of `memory`. */
struct fabric_mr *mr_request(struct fabric_session *session, size_t bytes,
			     unsigned rights);
/* Register all of `memory` for reading and writing. */
struct fabric_mr *mr_new(struct fabric_session *session);
/* Expect that the server has one endpoint, on this device. */
void expect_one_endpoint(const char *device);
/* Expect that the endpoint waits for its device; "": for any. */
void expect_awaited(unsigned endpoint, const char *device);
/* The counters of endpoint 0. */
struct fabric_endpoint_stats stats(void);

#endif
