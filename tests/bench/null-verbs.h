/* SPDX-License-Identifier: BSD-3-Clause */
/* The first device of the unit tests' fake libibverbs as a null device: it accepts every work
 * request, moves no byte and completes it at once.  So a benchmark counts only what runs above the
 * device.  Threads: posting and polling [owner of the completion queue], the rest [any]. */
#ifndef TESTS_BENCH_NULL_VERBS_H
#define TESTS_BENCH_NULL_VERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#define NULL_DEVICE "fake0"

/* Work requests that this thread has posted, the signaled ones among them, and calls of
 * ibv_post_send(). */
struct null_counts {
	uint64_t requests, signaled, doorbells;
};
extern _Thread_local struct null_counts null_counts;

/* Make it one; to be called first. */
void null_device(bool iwarp);

/* For the loop of bare verbs calls: a queue pair whose requests complete into `cq`. */
struct ibv_cq *null_cq_create(int entries);
struct ibv_qp *null_qp_create(struct ibv_cq *cq);

#endif
