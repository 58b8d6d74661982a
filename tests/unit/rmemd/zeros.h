/* SPDX-License-Identifier: BSD-3-Clause */
/* What the test that looks for other tenants' bytes is made of: a world that outlasts
 * processes, a daemon that lives in one, a fabric whose keys write when they like.
 * Threads: one, but for what is marked [any]. */
#ifndef TESTS_UNIT_ZEROS_H
#define TESTS_UNIT_ZEROS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "rmemd/control/control.h"

#define ZEROS_CLIENTS 6
#define ZEROS_LEASES 48
#define ZEROS_TENANTS 3
#define ZEROS_NAMES 5
#define ZEROS_ENDPOINTS 2
#define ZEROS_FENCE_MS 2000
#define ZEROS_GRACE_MS 60000

/* A client asks for one thing at a time, and asks again until it is answered. */
struct asking {
	enum wire_type type; /* 0: nothing */
	uint64_t id;         /* of the request */
	unsigned lease;      /* in world.leases, or ZEROS_LEASES */
	uint64_t bytes, ttl_ms, since_ms;
	uint64_t old_bytes; /* of what grows; UINT64_MAX: not known */
	unsigned name;      /* ZEROS_NAMES: none */
	bool doubtful;      /* the lease was, before it was asked */
};

struct zeros_client {
	unsigned tenant;
	uint64_t session; /* 0: none */
	uint8_t token[WIRE_TOKEN_BYTES];
	uint64_t next_id;
	struct asking asking;
};

/* As its tenant knows it. */
struct zeros_lease {
	uint64_t id; /* 0: none */
	unsigned tenant, owner, name;
	bool named, doubtful; /* doubtful: somebody has asked for its end, or change */
	uint64_t bytes, filled; /* so much of it is its pattern */
	uint64_t due_ms;        /* 0: it has no time to live */
};

/* What is left when a process ends, however it does; shared with all that come after. */
struct world {
	uint64_t random;
	_Atomic uint64_t now_ms;
	_Atomic int64_t
		fuse; /* so many points where it may die are passed, then it dies */
	uint64_t hours_ms; /* of all time that has passed */
	uint64_t steps;
	unsigned pools; /* which of the configurations */
	char state[64]; /* the directory */
	struct zeros_client clients[ZEROS_CLIENTS];
	struct zeros_lease leases[ZEROS_LEASES];
	/* counted */
	uint64_t grants, grows, trims, frees, expired, resumed, waits, late, restarts,
		crashes, reconfigured, looked;
};
extern struct world *world;

uint64_t zeros_random(uint64_t below);
/* The byte that a lease has at an offset once it is filled; never 0. */
unsigned char zeros_pattern(uint64_t lease, uint64_t offset);
/* Ends the process: the test has failed. */
_Noreturn void zeros_fail(const char *format, ...)
	__attribute__((format(printf, 1, 2)));
/* A point where the process may die.  [any] */
void zeros_point(void);

/* ---- the daemon ---- */

extern struct control zeros_control;

/* Start, with all that was there; and end in order. */
void zeros_start(void);
void zeros_stop(void);
/* What the loop does when it is time, and when scrubbers are done. */
void zeros_tick(void);
void zeros_scrubbed(unsigned patience_ms);
/* Memory that waits for it goes to the scrubbers. */
void zeros_given(void);
/* Look at every byte of every lease. */
void zeros_look(void);
/* The lease, if the daemon has it: its length, and whether it is zero from an offset on. */
bool zeros_lease_find(uint64_t id, uint64_t *ret_bytes);
bool zeros_lease_zero(uint64_t id, uint64_t from);

/* ---- its clients ---- */

/* One of them does something. */
void zeros_client_do(unsigned client);
/* All say that they are alive, but for those that are silent. */
void zeros_heartbeats(void);
/* Those that were fenced have lost their connections. */
void zeros_hang_up(void);
/* What nobody has asked to end is there, and as long as it was; whose session has lost its
 * connection it is as long as that lives. */
void zeros_leases_look(void);

/* ---- its fabrics: the first takes time for keys, the second does not always ---- */

extern const struct fabric_server_ops zeros_fabrics[ZEROS_ENDPOINTS];

/* Deliver a piece of news; false: there is none. */
bool zeros_fabric_step(void);
/* A client was told of a key; before, nobody can use it. */
void zeros_fabric_told(uint64_t rkey);
/* Somebody writes through some key that is alive, or dying. */
void zeros_fabric_write(void);
/* Whoever has the lease writes all of it that keys reach: how far, from its start. */
uint64_t zeros_fabric_fill(uint64_t lease);

#endif
