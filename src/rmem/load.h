/* SPDX-License-Identifier: BSD-3-Clause */
/* One thread of `rmem bench`: a queue and its operations on one lease, as many as the queue takes
 * or as many a second as was asked for.  Threads: [main], unless a function says otherwise. */
#ifndef RMEM_LOAD_H
#define RMEM_LOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rmem/rmem.h>

#include "rmem/histogram.h"

enum load_op {
	LOAD_READ,
	LOAD_WRITE,
	LOAD_MIXED, /* reads and writes */
	LOAD_CAS,
	LOAD_FETCH_ADD,
};

/* What the threads do; each has all of it but for `region_bytes` and `rate`, which they share. */
struct load_plan {
	rmem_lease *lease;
	enum load_op op;
	unsigned read_percent; /* of LOAD_MIXED */
	uint64_t size_bytes;   /* of one operation */
	uint64_t region_bytes; /* of the lease */
	bool random;           /* offsets, not one after the other */
	unsigned depth;        /* operations outstanding */
	unsigned batch;        /* submitted by one call, up to depth */
	unsigned threads;
	uint64_t rate;   /* operations a second, in even intervals; 0: no limit */
	bool has_recent; /* load_take_recent() is called */
	uint64_t seed;   /* of the random numbers */
	/* request to end for the threads: also set by one whose operation has failed */
	atomic_bool stop;
};

struct load_result {
	uint64_t errors;
	uint64_t end_ns;       /* when the last operation completed */
	char first_error[256]; /* "": none */
	/* of the operations that succeeded, from their submission, or with a rate from when they
	 * were due, to their completion */
	struct histogram latency_ns;
};

struct load;

/* Open the queue of the thread with this index, from 0.  `plan` is borrowed.  -errno with text. */
int load_open(rmem *session, struct load_plan *plan, unsigned index,
	      struct load **ret_load);
/* Start the thread; operations of all threads are due as counted from start_ns.  -errno with
 * text. */
int load_start(struct load *load, uint64_t start_ns);
/* Add the latencies since the last call.  While the thread runs. */
void load_take_recent(struct load *load, struct histogram *to);
/* Wait until the thread has ended, and add its result.  Operations that failed are in the result;
 * other errors are returned, with text. */
int load_join(struct load *load, struct load_result *result);
/* Not while its thread runs.  NULL: no effect. */
void load_close(struct load *load);

#endif
