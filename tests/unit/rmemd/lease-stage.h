/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of leases share: a table over fake pools, two clients at a fake fabric,
 * a fake clock, requests that record their replies, a record of events. */
#ifndef TESTS_UNIT_LEASE_STAGE_H
#define TESTS_UNIT_LEASE_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "unit/rmemd/stage-fabric.h"
#include "unit/rmemd/stage-pools.h"
#include "unit/rmemd/stage-state.h"
#include "rmemd/lease/lease.h"
#include "rmemd/loop/slices.h"

/* The owner in requests by name: the client's tenant. */
extern const struct lease_owner stage_own;

#define STAGE_RW (WIRE_RIGHT_READ | WIRE_RIGHT_WRITE)

/* A request and its reply. */
struct call {
	struct lease_waiter waiter;
	unsigned replies; /* their number */
	int err;
	char text[256];
	struct wire_lease lease; /* of a reply that has one */
};

extern struct ledger *stage_ledger;
extern struct leases *stage_leases;
extern struct tenant stage_tenant;
extern struct lease_client stage_a, stage_b;
/* Work in slices: it is done at once while stage_turn has time left. */
extern struct turn stage_turn;
extern struct slices stage_slices;

/* The last event of a kind, and their number. */
struct stage_event {
	unsigned n;
	struct lease_client *client;
	uint64_t lease;
	unsigned reason;
};
extern struct stage_event stage_revoked, stage_changed, stage_shrinking;
extern struct wire_shrinking stage_shrinking_last;
extern unsigned stage_expired; /* number of leases */
/* Clients take no events until stage_take_events(). */
extern bool stage_hold_events;
void stage_take_events(struct lease_client *client);

/* Checked fixtures, with and without events of keys.  The teardown fences both
 * clients, delivers all events and checks that no key is left and no memory is lent. */
void stage_setup(void);
void stage_setup_now(void);
void stage_teardown(void);

/* Open a fabric_session for the client on this port. */
void stage_connect(struct lease_client *client, unsigned port);
/* Close its fabric_sessions; all its keys end. */
void stage_fence(struct lease_client *client);
/* Time passes; leases and requests that are due end. */
void stage_pass(uint64_t ms);
/* All memory is clean; serve the requests that wait for it, with their events. */
void stage_scrub(void);

/* Start a request; returns its waiter. */
struct lease_waiter *call_begin(struct call *call);
/* The request is accepted; its reply may come later. */
void send_allocate(struct call *call, struct lease_client *client, uint64_t bytes,
		   const char *name);
void send_allocate_with(struct call *call, struct lease_client *client,
			const struct lease_params *params);
void send_attach(struct call *call, struct lease_client *client, const char *name);
void send_detach(struct call *call, struct lease_client *client, uint64_t id);
void send_resize(struct call *call, struct lease_client *client, uint64_t id,
		 uint64_t bytes);
void send_free(struct call *call, struct lease_client *client, uint64_t id);
/* The request has one reply, with this result. */
void expect_reply(const struct call *call, int err);

/* Send a request and deliver all events; return the result of the function or the
 * reply. */
int call_allocate(struct call *call, struct lease_client *client, uint64_t bytes,
		  const char *name);
int call_attach(struct call *call, struct lease_client *client, const char *name,
		unsigned rights);
int call_rekey(struct call *call, struct lease_client *client, uint64_t id);
int call_resize(struct call *call, struct lease_client *client, uint64_t id,
		uint64_t bytes);
int call_free(struct lease_client *client, uint64_t id);
int call_rename(struct lease_client *client, uint64_t id, const char *name,
		bool replace);
/* call_allocate() succeeds; returns the id. */
uint64_t new_lease(struct call *call, struct lease_client *client, uint64_t bytes,
		   const char *name);

/* As leases_each() has it; false: there is no such lease. */
bool stage_status(uint64_t id, struct lease_status *ret_status);

#endif
