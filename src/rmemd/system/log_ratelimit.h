/* SPDX-License-Identifier: BSD-3-Clause */
/* A log sink that limits the rate of each event, so that a client cannot fill the log or keep
 * the loop busy with it: LOG_RATELIMIT_LINES lines of an event pass in each period, the others
 * are counted and reported in one line.  Each tenant has its own limits, so that it cannot hide
 * another's lines; lines without a tenant have theirs.  Debug lines and those of administrators'
 * acts all pass.  Threads: [loop]. */
#ifndef RMEMD_SYSTEM_LOG_RATELIMIT_H
#define RMEMD_SYSTEM_LOG_RATELIMIT_H

#include <stdbool.h>

#include "base/log.h"

/* A large host may log that many lines about its pools at the start. */
#define LOG_RATELIMIT_LINES 100
#define LOG_RATELIMIT_PERIOD_MS 10000

/* There is a limit for the log, and one for the events that recent.h keeps. */
enum log_ratelimit_of { LOG_RATELIMIT_LOG, LOG_RATELIMIT_RECENT, LOG_RATELIMITS };
struct log_ratelimit;

/* Reset all counts.  report() gets the lines that tell how many were suppressed; that of the log
 * also the lines of log_ratelimit_sink(). */
struct log_ratelimit *log_ratelimit_open(enum log_ratelimit_of of, log_sink *report);
/* Whether the line may pass; if not, it is counted.  Keeps the pointer to the event's name. */
bool log_ratelimit_passes(struct log_ratelimit *limit, int level, const char *event,
			  const struct log_ctx *ctx);
/* The sink of the log; after log_ratelimit_open(). */
log_sink log_ratelimit_sink;
/* Report lines suppressed in periods that are over, for events without a later line. */
void log_ratelimit_flush(void);

#endif
