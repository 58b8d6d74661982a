/* SPDX-License-Identifier: BSD-3-Clause */
/* The recent events of the daemon, in memory, for the administrator: the lines of the log, of all
 * levels whatever the level of the log, with their fields.  Each has a number, one more than that
 * of the one before.  Of one event and tenant a limited number is kept in a period, as in the log.
 * Administrators' acts have room of their own, so that clients cannot push them out.  Threads:
 * [loop]. */
#ifndef RMEMD_SYSTEM_RECENT_H
#define RMEMD_SYSTEM_RECENT_H

#include <stdint.h>

#include "rmemd/config/config.h"

#define RECENT_MAX 4096
#define RECENT_ACTS_MAX 1024
#define RECENT_TEXT_BYTES 256

struct recent_event {
	uint64_t number;
	uint64_t time_ms; /* since 1970 */
	int level;        /* LOG_* */
	const char *event;
	uint64_t session, lease; /* 0: none */
	/* "": none; longer texts are cut */
	char tenant[TENANT_NAME_MAX + 1];
	char peer[64], pool[64], device[64];
	char text[RECENT_TEXT_BYTES];
};

/* Keep the events from now on; the first one has the number behind `begin`, which is above those of
 * all processes before. */
void recent_open(uint64_t begin);
/* The number of the last event; `begin`: none. */
uint64_t recent_last(void);
/* Behind which number to go on for somebody who has seen the events up to this one: `begin`, if it
 * is of another process, or 0. */
uint64_t recent_resume(uint64_t number);
/* The first event that is kept with a higher number, or NULL.  Borrowed until the next event. */
const struct recent_event *recent_after(uint64_t number);
/* Call on_event() for each event, which must not log; NULL: not any more. */
void recent_watch(void (*on_event)(void *ctx), void *ctx);

#endif
