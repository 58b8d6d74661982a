/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps one queue full of operations of one size for some time, and reports the results.
 * Threads: [main]. */
#ifndef RMEM_BENCH_H
#define RMEM_BENCH_H

#include <stdint.h>

#include <rmem/rmem.h>

#include "rmem/histogram.h"

struct options;

struct bench_params {
	const struct options *options;
	enum rmem_opcode opcode;
	uint64_t size_bytes;            /* of one operation */
	struct rmem_alloc_params alloc; /* memory to use in turn; at least size_bytes */
	unsigned depth;                 /* operations outstanding */
	unsigned batch;                 /* submitted by one call, up to depth */
	uint64_t duration_ms;
};

#define BENCH_TEXT_BYTES 256

struct bench_result {
	uint64_t operations; /* that succeeded */
	uint64_t errors;
	uint64_t elapsed_ns;
	char first_error[BENCH_TEXT_BYTES]; /* "": none */
	struct histogram latency_ns;        /* from submission to completion */
};

/* Run until the time is over, a signal comes or an operation fails; operations that
 * fail are counted, and are no error of this call.  The caller zeroes *result.  -errno with
 * err_text() when it cannot be run. */
int bench_measure(rmem *session, const struct bench_params *params,
		  struct bench_result *result);

/* Print for people, and for programs. */
void bench_print_table(const struct bench_params *params, const struct rmem_info *info,
		       const struct bench_result *result);
int bench_print_json(const struct bench_params *params, const struct rmem_info *info,
		     const struct bench_result *result);

#endif
