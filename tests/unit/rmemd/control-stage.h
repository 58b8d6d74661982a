/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of sessions and requests share: the control plane over a fake fabric, fake
 * pools and a fake clock, and clients without sockets. */
#ifndef TESTS_UNIT_CONTROL_STAGE_H
#define TESTS_UNIT_CONTROL_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "rmemd/control/connection.h"
#include "rmemd/control/session.h"
#include "unit/rmemd/stage-fabric.h"
#include "unit/rmemd/stage-pools.h"

#define STAGE_FENCE_MS 2000
#define STAGE_GRACE_MS 60000
#define STAGE_ENDPOINTS 2

/* The client's end of a control connection. */
struct client {
	struct connection connection;
	unsigned answers;       /* to anything */
	unsigned events;        /* what nobody asked for */
	struct wire_msg answer; /* the last one */
	struct wire_msg event;  /* the last one */
	unsigned authenticated, closed;
	bool busy; /* its connection takes no more at the moment */
	uint64_t next_id;
	uint64_t last_id; /* of the last request */
	uint64_t session; /* of the last welcome */
	uint8_t token[WIRE_TOKEN_BYTES];
};

extern struct control stage_control;
/* Of "default" and "other". */
extern struct tenants stage_tenants;
extern struct config stage_config;
extern struct fabric_endpoint stage_facts[STAGE_ENDPOINTS];
extern uint64_t stage_now_ms;
extern unsigned stage_timer_moves; /* how often it was told that a timer has moved */

/* Checked fixtures; the teardown lets all sessions end and checks that nothing is left. */
void control_setup(void);
void control_teardown(void);

/* The daemon dies, and another one takes over; all clients have lost their connections. */
void control_restart(void);

void client_init(struct client *client);
/* The connection is lost. */
void client_lose(struct client *client);
/* Send as it is; the fields but type are the caller's. */
void client_send(struct client *client, struct wire_msg *msg);
/* The same, under an id of the caller's. */
void client_send_as(struct client *client, struct wire_msg *msg, uint64_t id);
/* Send, let everything come to rest, and expect one answer of this type. */
const struct wire_msg *client_ask(struct client *client, struct wire_msg *msg,
				  enum wire_type expected);
/* The same, expecting this error. */
void client_fail(struct client *client, struct wire_msg *msg, int err);

/* A hello that is in order, of the tenant "default", or of another one. */
struct wire_msg *hello(void);
struct wire_msg *hello_of(const char *tenant);
/* One that resumes the session of another connection. */
struct wire_msg *hello_again(const struct client *lost);
/* The limits of the tenants of the stage. */
extern const struct tenant_limits stage_limits;
/* Connect with one; the client has a session then. */
void client_open(struct client *client);
void client_open_as(struct client *client, const char *tenant);
/* Connect again and resume the session of another connection, and go on behind its ids. */
void client_resume(struct client *client, const struct client *lost);
/* An empty message of a type; the same buffer every time. */
struct wire_msg *message(enum wire_type type);
/* Open and connect a channel.  Its number. */
uint32_t client_channel(struct client *client, uint8_t endpoint);
/* Borrow memory.  The lease's id. */
uint64_t client_allocate(struct client *client, uint64_t bytes, const char *name);
/* What the fabric would ask for such a hello. */
bool client_admitted(const struct client *client, unsigned endpoint, uint32_t channel);

/* Time passes, and what is due happens. */
void pass(uint64_t ms);
unsigned sessions_in(const char *state);

#endif
