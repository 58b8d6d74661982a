/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's worker threads (src/rmemd/pool/worker.c), as jobs that are run one at a time. */
#ifndef TESTS_SIMULATE_THREADS_H
#define TESTS_SIMULATE_THREADS_H

#include <stdbool.h>
#include <stdint.h>

/* Run a job that is due; false: none is. */
bool threads_step(void);
/* Run any job, due or not. */
bool threads_run(void);
/* When the next job is due. */
uint64_t threads_due_ns(void);

#endif
