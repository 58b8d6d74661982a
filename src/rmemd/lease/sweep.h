/* SPDX-License-Identifier: BSD-3-Clause */
/* A sweep ends the attachments that a lease may not have any more: all of them when it has ended,
 * and when a share has ended or lost a right those that it does not cover.  When the lease was cut,
 * it ends the keys that reach behind its end.  There may be as many attachments as there are
 * sessions, each with hundreds of keys: the first are swept at once, and the others in slices, as
 * work of the lease's tenant.  Threads: [loop]. */
#ifndef RMEMD_LEASE_SWEEP_H
#define RMEMD_LEASE_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "rmemd/loop/slices.h"

struct attachment;
struct lease;

/* Embedded in the lease. */
struct sweep {
	struct slice_work work;
	bool runs;
	uint64_t after; /* the session whose attachment was looked at last */
	bool ends;      /* attachments, of which stays() is false */
	bool (*stays)(const struct attachment *attachment);
	/* enum wire_reason for the clients; 0: they are not told */
	unsigned reason;
	uint64_t except;     /* a session that is not told */
	bool cuts;           /* keys of the others */
	uint64_t cut_except; /* a session that is not told of that */
};

void sweep_init(struct sweep *sweep);
/* Begin, or begin again, beside what it does already.  The lease is not freed before the sweep is
 * done.  An attachment of which stays() is true does not end; NULL: all end. */
void sweep_start(struct lease *lease,
		 bool (*stays)(const struct attachment *attachment), unsigned reason,
		 uint64_t except);
/* The lease was cut: end the keys behind its end, and tell the clients. */
void sweep_cut(struct lease *lease, uint64_t except);
/* As the lease is freed. */
void sweep_end(struct sweep *sweep);

#endif
