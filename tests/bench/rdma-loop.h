/* SPDX-License-Identifier: BSD-3-Clause */
/* What rdma.c compares: one stretch of operations done through librmem, and the same by bare
 * verbs calls, between the same registered memory and the same lease, through the same device
 * and server.  Threads: one. */
#ifndef TESTS_BENCH_RDMA_LOOP_H
#define TESTS_BENCH_RDMA_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include <rmem/rmem.h>

#define LOOP_DEPTH_MAX 64u
#define LOOP_BYTES_MAX (1u << 20)

/* n operations, `depth` of them outstanding at a time. */
struct work {
	bool write;
	uint32_t bytes;
	unsigned depth;
	unsigned n;
	unsigned rest_us; /* before each post, which no figure counts */
};

/* How it went. */
struct slice {
	double seconds;    /* from the first post to the last completion */
	double latency_us; /* of an operation from its post to its completion, mean */
};

/* What both loops work on; both fill it in. */
struct place {
	rmem *session;
	rmem_lease *
		lease; /* LOOP_DEPTH_MAX operations of LOOP_BYTES_MAX, in one segment */
	rmem_buffer *buffer; /* as large */
	bool yields;         /* who finds nothing done lets the device's threads run */
};

/* ---- when operations were posted, for both ---- */

struct stopwatch {
	uint64_t started_ns;
	uint64_t posted_ns[LOOP_DEPTH_MAX]; /* by number modulo depth */
	unsigned depth, posted, done;
	unsigned post_at, done_at;
	uint64_t latency_ns; /* of all that are done, together */
	uint64_t rest_ns;    /* before each post */
	uint64_t rested_ns;  /* of all of them */
};

uint64_t stopwatch_now_ns(void);
void stopwatch_start(struct stopwatch *watch, const struct work *work);
/* Rest; the time behind it, that of the post. */
uint64_t stopwatch_rest(struct stopwatch *watch);
/* n more are posted, at that time. */
void stopwatch_posted(struct stopwatch *watch, unsigned n, uint64_t now_ns);
/* The n oldest are done, now. */
void stopwatch_done(struct stopwatch *watch, unsigned n);
void stopwatch_stop(const struct stopwatch *watch, struct slice *ret_slice);

/* ---- the loops ---- */

/* Lease, buffer and a queue of one channel; ends the program when one can't be had. */
void library_open(struct place *place, const char *uri);
void library_run(struct place *place, const struct work *work, struct slice *ret_slice);
void library_close(struct place *place);

/* A queue pair of its own to the same server, admitted as one more channel of the session:
 * the keys of the lease and of the buffer are good for it, too. */
void bare_open(struct place *place);
void bare_run(struct place *place, const struct work *work, struct slice *ret_slice);
void bare_close(struct place *place);

/* The program cannot go on. */
_Noreturn void give_up(const char *what);

#endif
