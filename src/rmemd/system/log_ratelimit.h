/* SPDX-License-Identifier: BSD-3-Clause */
/* A log sink that limits the rate of each event, so that a client cannot fill the log or keep
 * the loop busy with it: LOG_RATELIMIT_LINES lines of an event pass in each period, the others
 * are counted and reported in one line.  Each tenant has its own limits, so that it cannot hide
 * another's lines; lines without a tenant have theirs.  Debug lines all pass.  Threads: [loop]. */
#ifndef RMEMD_SYSTEM_LOG_RATELIMIT_H
#define RMEMD_SYSTEM_LOG_RATELIMIT_H

#include "base/log.h"

/* A large host may log that many lines about its pools at the start. */
#define LOG_RATELIMIT_LINES 100
#define LOG_RATELIMIT_PERIOD_MS 10000

/* Pass lines on to this sink; before log_ratelimit_sink() is used.  Resets all counts. */
void log_ratelimit_open(log_sink *to);
/* Keeps the pointer to the event's name. */
log_sink log_ratelimit_sink;
/* Report lines suppressed in periods that are over, for events without a later line. */
void log_ratelimit_flush(void);

#endif
