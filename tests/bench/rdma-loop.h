/* SPDX-License-Identifier: BSD-3-Clause */
/* The two loops that rdma.c compares: operations through librmem, and through bare verbs calls.
 * Both use one device, server, lease and buffer.  Threads: one. */
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
	unsigned rest_us; /* pause before each post; not part of any figure */
};

/* The result of one run of `struct work`. */
struct slice {
	double seconds; /* from the first post to the last completion, without pauses */
	double latency_us; /* mean time from post to completion of an operation */
};

/* What both loops work on; library_open() fills it in. */
struct bench_env {
	rmem *session;
	rmem_lease *lease;   /* one segment, room for LOOP_DEPTH_MAX * LOOP_BYTES_MAX */
	rmem_buffer *buffer; /* of the lease's size */
	bool yields;         /* sched_yield() after an empty poll: device threads run */
};

/* ---- the clock of both loops ---- */

struct stopwatch {
	uint64_t started_ns;
	uint64_t posted_ns[LOOP_DEPTH_MAX]; /* by operation number modulo depth */
	unsigned depth, posted, done;
	unsigned post_at, done_at;
	uint64_t latency_ns; /* sum over all completed operations */
	uint64_t rest_ns;    /* pause before each post */
	uint64_t rested_ns;  /* sum of the pauses */
};

void stopwatch_start(struct stopwatch *watch, const struct work *work);
/* Pause; returns the time of the post that follows. */
uint64_t stopwatch_rest(struct stopwatch *watch);
/* n more operations were posted at now_ns. */
void stopwatch_posted(struct stopwatch *watch, unsigned n, uint64_t now_ns);
/* The n oldest operations have completed now. */
void stopwatch_done(struct stopwatch *watch, unsigned n);
void stopwatch_stop(const struct stopwatch *watch, struct slice *ret_slice);

/* ---- the loops ---- */

/* Open a session, a lease, a buffer and a queue of one channel; ends the program on failure. */
void library_open(struct bench_env *env, const char *uri);
void library_run(struct bench_env *env, const struct work *work,
		 struct slice *ret_slice);
void library_close(struct bench_env *env);

/* Connect a queue pair to the server as one more channel of the session, so that the rkey of
 * the lease and the lkey of the buffer are valid for it. */
void bare_open(struct bench_env *env);
void bare_run(struct bench_env *env, const struct work *work, struct slice *ret_slice);
void bare_close(struct bench_env *env);

/* Print an error and exit. */
_Noreturn void give_up(const char *what);

#endif
