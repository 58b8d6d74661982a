/* SPDX-License-Identifier: BSD-3-Clause */
/* The leases that a client has, and a program's errors: which may be, and which show a fault. */
#ifndef TESTS_SIMULATE_HELD_H
#define TESTS_SIMULATE_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include <rmem/rmem.h>

#include "simulate/model.h"

#define HELD_MAX 5
#define HELD_NAME_BYTES 24

/* A lease of a client. */
struct held {
	bool used;
	rmem_lease *lease; /* NULL: named, and not attached now */
	char name[HELD_NAME_BYTES], other_name[HELD_NAME_BYTES]; /* "": none */
	uint64_t ttl_ms, ttl_ns; /* its time to live, from when it was asked for */
	bool may_end;            /* its end was asked for, with unknown outcome */
	bool detaching;          /* it may be detached */
	struct model model;
};

#define MATES_LEASES 2u

/* What one thread has of the leases that all clients of its tenant attach and detach. */
struct mate {
	rmem_lease *lease[MATES_LEASES]; /* NULL: none */
	bool leaving[MATES_LEASES];      /* its detach was not answered in time */
	rmem_lease *old[MATES_LEASES]; /* such a one, and the lease is attached again */
};

struct program {
	unsigned number;
	const char *tenant;
	rmem *session; /* NULL: none */
	rmem_queue *queue;
	rmem_lease *visited; /* of another tenant; NULL: none */
	unsigned timeout_ms;
	unsigned names; /* number of names ever used */
	bool lost;      /* the session is lost for good */
	bool closing;   /* the session is about to be closed */
	unsigned calls; /* number of its threads that are in a call of mates.c */
	struct mate mates[2];
	bool proving; /* no error may be */
	struct held held[HELD_MAX];
};

/* The result of a call may be this error, at a time of faults, or `also`, a list of errors ended by
 * 0.  False: it is 0. */
bool program_failed(const struct program *program, const char *call, int err,
		    const int *also);
/* The lease has ended: is there a reason?  It is forgotten. */
void held_ended(struct program *program, struct held *held);
/* A call on the lease has failed: perhaps as it has ended. */
void held_failed(struct program *program, struct held *held, int err);
/* Forget it; its handle is gone. */
void held_drop(struct held *held);
/* A lease in use by this session, by chance; NULL: none. */
struct held *held_pick(struct program *program);
struct held *held_free_place(struct program *program);
/* Named ones stay, others have ended with the session. */
void held_session_gone(struct program *program);
/* The number of leases without a name; `doubtful`: also of those that may have ended. */
unsigned held_ephemeral(const struct program *program, bool doubtful);

#endif
