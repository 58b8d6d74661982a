/* SPDX-License-Identifier: BSD-3-Clause */
/* A log sink that keeps what clients do over and over from filling the log, and the loop
 * from doing little else: so many lines of every event pass in a while, the rest is counted
 * and told in one line.  Debug lines were asked for, and all pass.  Threads: [loop]. */
#ifndef RMEMD_THROTTLE_H
#define RMEMD_THROTTLE_H

#include "base/log.h"

/* A large host may say as much about its pools at the start. */
#define THROTTLE_LINES 100
#define THROTTLE_PERIOD_MS 10000

/* Pass lines on to this sink; before throttle_sink() is set.  What was held back is
 * forgotten. */
void throttle_open(log_sink *to);
/* Borrows the event's name for good. */
log_sink throttle_sink;
/* Tell what was held back in periods that are over, where no other line has followed. */
void throttle_flush(void);

#endif
