/* SPDX-License-Identifier: BSD-3-Clause */
/* What `rmem bench` prints: a table, with a line for each interval, or one object.  Threads:
 * [main]. */
#ifndef RMEM_BENCH_REPORT_H
#define RMEM_BENCH_REPORT_H

#include <rmem/rmem.h>

#include "rmem/load.h"

/* Begin with what is measured; `plan` is borrowed until the end. */
int bench_report_begin(rmem *session, const struct load_plan *plan, bool json);
/* What happened in an interval that has ended: `at_ns` is the time since the beginning. */
int bench_report_interval(const struct histogram *latency_ns, uint64_t at_ns,
			  uint64_t interval_ns);
int bench_report_end(const struct load_result *result, uint64_t elapsed_ns);
/* After any of these. */
void bench_report_free(void);

#endif
