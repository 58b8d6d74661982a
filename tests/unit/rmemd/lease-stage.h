/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of leases share: a table over fake pools, two sessions at a fake fabric, a
 * fake clock, requests that note their answers, events that are noted. */
#ifndef TESTS_UNIT_LEASE_STAGE_H
#define TESTS_UNIT_LEASE_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "unit/rmemd/stage-fabric.h"
#include "unit/rmemd/stage-pools.h"
#include "rmemd/lease/lease.h"

#define STAGE_RW (WIRE_RIGHT_READ | WIRE_RIGHT_WRITE)

/* One request and its answer. */
struct asked {
	struct lease_waiter waiter;
	unsigned answers;
	int err;
	char text[256];
	struct wire_lease lease; /* when it was answered by one */
};

extern struct ledger *stage_ledger;
extern struct leases *stage_leases;
extern struct tenant stage_tenant;
extern struct lease_client stage_a, stage_b;
extern uint64_t stage_now_ms;

/* The last event, and how many there were. */
struct stage_event {
	unsigned n;
	struct lease_client *client;
	uint64_t lease;
	unsigned reason;
};
extern struct stage_event stage_revoked, stage_changed, stage_wanted;
extern struct wire_shrinking stage_wanted_last;
extern unsigned stage_expired;
/* Holders take no news, until stage_take(). */
extern bool stage_busy;
void stage_take(struct lease_client *client);

/* Checked fixtures.  The teardown ends both sessions, delivers what is under way and
 * checks that all memory came back and no key is left. */
void stage_setup(void);
/* With a fabric that needs no news. */
void stage_setup_now(void);
void stage_teardown(void);

/* Give the client a port at the fake fabric, or another one. */
void stage_connect(struct lease_client *client, unsigned port);
/* Its keys die, as when a session is fenced. */
void stage_fence(struct lease_client *client);

struct lease_waiter *ask(struct asked *asked);
/* Ask and let everything come to rest; the result, however it came. */
int granted(struct asked *asked, struct lease_client *client, uint64_t bytes,
	    const char *name);
int attached(struct asked *asked, struct lease_client *client, const char *name,
	     unsigned rights);
int rekeyed(struct asked *asked, struct lease_client *client, uint64_t id);
int resized(struct asked *asked, struct lease_client *client, uint64_t id,
	    uint64_t bytes);
int freed(struct lease_client *client, uint64_t id);
int renamed(struct lease_client *client, uint64_t id, const char *name, bool replace);
/* What leases_each() tells of it; false: there is no such lease. */
bool stage_status(uint64_t id, struct lease_status *ret_status);

#endif
