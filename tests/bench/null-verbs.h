/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs and librdmacm, as far as the client's half of src/fabric/verbs uses them, over
 * a device that does nothing: it takes every work request, moves no byte and completes it
 * at once.  What is left to count is what runs above the device.  Threads: posting and
 * polling [owner of the completion queue], the rest [any]. */
#ifndef TESTS_BENCH_NULL_VERBS_H
#define TESTS_BENCH_NULL_VERBS_H

#include <infiniband/verbs.h>

#define NULL_DEVICE "null0"

/* Requests that this thread posted, and those of them that asked for an entry, since its
 * start. */
struct null_counts {
	uint64_t requests, signaled, doorbells;
};
extern _Thread_local struct null_counts null_counts;

/* The device is one of iWARP; before anything else. */
void null_iwarp(void);

/* For the loop of bare calls: a queue pair whose requests complete into `cq`. */
struct ibv_cq *null_cq_create(int entries);
struct ibv_qp *null_qp_create(struct ibv_cq *cq);

#endif
