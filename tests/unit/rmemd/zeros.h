/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of the test that looks for bytes of other tenants: a world that outlasts
 * processes, a daemon that lives in one process, clients, a fabric that writes at
 * random.  Threads: one, but for what is marked [any]. */
#ifndef TESTS_UNIT_ZEROS_H
#define TESTS_UNIT_ZEROS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fabric/server.h"
#include "rmemd/control/control.h"

#define ZEROS_CLIENTS 6
#define ZEROS_LEASES 48
#define ZEROS_TENANTS 3
#define ZEROS_NAMES 5
#define ZEROS_ENDPOINTS 2
#define ZEROS_FENCE_MS 2000
#define ZEROS_GRACE_MS 60000

/* A client has one request at a time, and repeats it until it gets the reply. */
struct zeros_request {
	enum wire_type type; /* 0: none */
	uint64_t id;
	unsigned lease; /* in world.leases, or ZEROS_LEASES */
	uint64_t bytes, ttl_ms, since_ms;
	uint64_t old_bytes; /* before a resize; UINT64_MAX: unknown */
	unsigned name;      /* ZEROS_NAMES: none */
	bool uncertain;     /* the lease was, before the request */
};

struct zeros_client {
	unsigned tenant;
	uint64_t session; /* 0: none */
	uint8_t token[WIRE_TOKEN_BYTES];
	uint64_t next_id;
	struct zeros_request request;
};

/* What its tenant knows of a lease. */
struct zeros_lease {
	uint64_t id; /* 0: none */
	unsigned tenant, owner, name;
	bool named;
	bool uncertain;         /* a client has requested its end, or a change */
	uint64_t bytes, filled; /* filled: the size of the part that has the pattern */
	uint64_t due_ms;        /* 0: no time to live */
};

/* Outlasts the processes; they share it. */
struct world {
	uint64_t random;
	_Atomic uint64_t now_ms;
	_Atomic int64_t fuse; /* zeros_point() calls until the process dies */
	uint64_t steps;
	unsigned pools; /* number of the configuration */
	char state[64]; /* the directory */
	struct zeros_client clients[ZEROS_CLIENTS];
	struct zeros_lease leases[ZEROS_LEASES];
	/* counters */
	uint64_t grants, grows, trims, frees, expired, resumed, waits, late, restarts,
		crashes, reconfigured, looked;
};
extern struct world *world;

uint64_t zeros_random(uint64_t below);
/* The byte of a filled lease at an offset; never 0. */
unsigned char zeros_pattern(uint64_t lease, uint64_t offset);
/* End the process: the test has failed. */
_Noreturn void zeros_fail(const char *format, ...)
	__attribute__((format(printf, 1, 2)));
/* A point where the process may die.  [any] */
void zeros_point(void);

/* ---- the daemon ---- */

extern struct control zeros_control;

/* Start with the state that the last process left; stop in order. */
void zeros_start(void);
void zeros_stop(void);
/* Timers: end what is due. */
void zeros_tick(void);
/* Pass freed memory to the scrubbers, and handle their events, for which it waits up to
 * timeout_ms. */
void zeros_scrub(unsigned timeout_ms);
/* Check every byte of every lease. */
void zeros_check_bytes(void);
/* False: the daemon does not have the lease. */
bool zeros_lease_find(uint64_t id, uint64_t *ret_bytes);
/* Whether the daemon has the lease, and it is zero from an offset on. */
bool zeros_lease_zero(uint64_t id, uint64_t from);

/* ---- its clients ---- */

/* A client takes a step. */
void zeros_client_step(unsigned client);
/* All clients but the silent ones send a heartbeat. */
void zeros_heartbeats(void);
/* Close the connections that the daemon has ended. */
void zeros_hang_up(void);
/* Check that a lease whose end nobody has requested exists and has its size. */
void zeros_check_leases(void);

/* ---- its fabrics: keys of the second live and die without an event ---- */

void zeros_fabrics_init(void);
/* Deliver an event; false: there is none. */
bool zeros_fabric_step(void);
/* A client has received the key; from now on clients write through it. */
void zeros_key_sent(uint64_t rkey);
/* Write a random range through a random key, live or dying. */
void zeros_fabric_write(void);
/* Fill the lease as far as keys reach; returns the end of that part. */
uint64_t zeros_fabric_fill(uint64_t lease);

#endif
