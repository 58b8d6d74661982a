/* SPDX-License-Identifier: BSD-3-Clause */
/* The control plane over a fake fabric, fake pools and a fake clock, and clients without sockets:
 * shared by the tests of sessions and requests. */
#ifndef TESTS_UNIT_CONTROL_STAGE_H
#define TESTS_UNIT_CONTROL_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "rmemd/control/connection.h"
#include "rmemd/control/session.h"
#include "rmemd/lease/lease.h"
#include "unit/rmemd/stage-fabric.h"
#include "unit/rmemd/stage-pools.h"
#include "unit/rmemd/stage-state.h"

#define STAGE_FENCE_MS 2000
/* A session is fenced after this silence: the rest is for the delays of the loop. */
#define STAGE_SILENCE_MS 1875
#define STAGE_GRACE_MS 60000
#define STAGE_ENDPOINTS 2

/* The client's end of a control connection. */
#define ASKED_MAX 1024
struct client {
	struct connection connection;
	unsigned answers, events;
	struct wire_msg answer, event;  /* the last ones */
	unsigned authenticated, closed; /* calls of these functions */
	bool busy;                      /* messages wait for transmission */
	bool unread;                    /* input waits to be handled */
	bool stalled;                   /* until it has read its answers */
	bool abandoned;                 /* the client has closed its end */
	uint64_t next_id;
	uint64_t last_id;          /* of the last request */
	uint16_t asked[ASKED_MAX]; /* types of the requests, by their ids */
	uint64_t session;          /* of the last welcome */
	uint8_t token[WIRE_TOKEN_BYTES];
	uint8_t secret[WIRE_SECRET_BYTES]; /* of its connection */
};

extern struct control stage_control;
extern const struct fabric_address stage_address; /* of all clients */
extern struct tenants stage_tenants;              /* "default" and "other" */
extern const struct tenant_limits stage_limits;
extern struct config stage_config;
extern struct fabric_endpoint stage_endpoint_info[STAGE_ENDPOINTS];
extern unsigned stage_timer_moves; /* calls for a changed timer */

/* Checked fixtures.  The teardown ends all sessions by time and checks that nothing is left. */
void control_setup(void);
void control_teardown(void);

/* Restart the daemon, after all clients have lost their connections. */
void control_restart(void);
/* The same with these functions, and without checks; returns the error of restoring. */
int control_restart_with(const struct leases_restore *with);
/* leases_restore.tenant */
struct tenant *control_find_tenant(void *ctx, const char *name);
/* As control_teardown(), with sessions and leases that are left. */
void control_close_tables(void);

void client_init(struct client *client);
/* Lose the connection. */
void client_lose(struct client *client);
/* Send a request under the next id, or under a given one. */
void client_send(struct client *client, struct wire_msg *msg);
void client_send_as(struct client *client, struct wire_msg *msg, uint64_t id);
/* Send a frame as it is. */
void client_send_frame(struct client *client, const uint8_t *frame, size_t bytes);
/* Send a request, deliver all events of the fabric, and expect one reply of this type. */
const struct wire_msg *client_ask(struct client *client, struct wire_msg *msg,
				  enum wire_type expected);
const struct wire_msg *client_ask_as(struct client *client, struct wire_msg *msg,
				     uint64_t id, enum wire_type expected);
/* Expect the reply OK. */
void client_ok(struct client *client, struct wire_msg *msg);
/* Expect this error as the reply. */
void client_fail(struct client *client, struct wire_msg *msg, int err);
/* Expect that the client has received n events, the last one of this type. */
const struct wire_msg *client_event(const struct client *client, unsigned n,
				    enum wire_type type);

/* A valid hello of the tenant "default", or of another tenant. */
struct wire_msg *hello(void);
struct wire_msg *hello_of(const char *tenant);
/* A hello that resumes the session of a lost connection. */
struct wire_msg *hello_resume(const struct client *lost);
/* Open a session of the tenant "default", or of another tenant. */
void client_open(struct client *client);
void client_open_as(struct client *client, const char *tenant);
/* Open a session with a channel through endpoint 0. */
void client_open_connected(struct client *client);
/* Resume the session of a lost connection; the ids of requests continue. */
void client_resume(struct client *client, const struct client *lost);
/* Send the hello only. */
void client_resume_start(struct client *client, const struct client *lost);
/* An empty message of a type, in a buffer that all messages share. */
struct wire_msg *message(enum wire_type type);
/* Messages with these fields; lease_message() is for types that begin with the lease's id,
 * by_name() for types that have a name only. */
struct wire_msg *to_allocate(uint64_t bytes, const char *name);
struct wire_msg *to_attach(const char *name);
struct wire_msg *lease_message(enum wire_type type, uint64_t lease);
struct wire_msg *to_rename(uint64_t lease, const char *name);
struct wire_msg *to_resize(uint64_t lease, uint64_t bytes);
struct wire_msg *by_name(enum wire_type type, const char *name);
/* Open a channel, without connecting it.  Returns its number. */
uint32_t client_open_channel(struct client *client, uint8_t endpoint);
/* Open and connect a channel.  Returns its number. */
uint32_t client_channel(struct client *client, uint8_t endpoint);
/* Returns the lease's id. */
uint64_t client_allocate(struct client *client, uint64_t bytes, const char *name);
/* Whether a data connection with this hello is admitted. */
bool client_admitted(const struct client *client, unsigned endpoint, uint32_t channel);

/* Advance the clock, and run the timers that are due. */
void pass(uint64_t ms);
/* The number of sessions in a state. */
unsigned sessions_in(enum wire_session_state state);

#endif
