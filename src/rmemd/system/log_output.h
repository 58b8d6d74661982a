/* SPDX-License-Identifier: BSD-3-Clause */
/* The log's way out: standard error or the journal.  It never waits for who reads there: a line for
 * which there is no room is dropped and counted, and a line tells how many were once there is room
 * again.  Threads: [loop]. */
#ifndef RMEMD_SYSTEM_LOG_OUTPUT_H
#define RMEMD_SYSTEM_LOG_OUTPUT_H

#include <stdint.h>

#include "base/log.h"
#include "rmemd/config/config.h"

/* Choose where lines go from now on.  When stderr is a stream of the journal, CONFIG_LOG_AUTO is
 * the journal, and lines of CONFIG_LOG_STDERR have the prefix "<N>" for their level instead of time
 * and level.  The journal gets MESSAGE (from log_format()), PRIORITY, SYSLOG_IDENTIFIER and
 * RMEM_EVENT, _SESSION, _LEASE, _POOL, _DEVICE, _PEER, _TENANT as far as the context has them. */
void log_output_open(enum config_log_target target);
/* After log_output_open(). */
log_sink log_output_sink;
/* Tell of dropped lines of which no line has told. */
void log_output_flush(void);
/* Lines dropped since the start. */
uint64_t log_output_dropped(void);

#endif
