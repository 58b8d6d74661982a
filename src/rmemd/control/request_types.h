/* SPDX-License-Identifier: BSD-3-Clause */
/* Every request that a client may make, one row each, and what happens to it when it is
 * repeated or loses its connection.  The dispatcher's handlers and the rule which replies are
 * remembered are both made of this table; a test's proxy may use it, too.
 * Threads: [any]. */
#ifndef RMEMD_CONTROL_REQUEST_TYPES_H
#define RMEMD_CONTROL_REQUEST_TYPES_H

#include "wire/msg.h"

/* Its effect outlives its connection, and doing it twice would be wrong: the reply is
 * remembered, and a client that repeats the request gets that reply. */
#define REQUEST_REMEMBERED (1u << 0)
/* It takes effect at once, and keys die with the process, too: the reply is recorded before
 * the request is handled. */
#define REQUEST_ENDS (1u << 1)
/* It cannot be undone and goes on when its connection is lost. */
#define REQUEST_GOES_ON (1u << 2)

/* ANSWERED is a request that is answered at once, by handle_NAME(); STARTED one that waits for
 * the leases, by start_NAME().  The hello comes before there is a session. */
#define REQUEST_TYPES(ANSWERED, STARTED)                                     \
	ANSWERED(open_channel, 0)                                            \
	ANSWERED(close_channel, 0)                                           \
	ANSWERED(join_channel, 0)                                            \
	STARTED(allocate, REQUEST_REMEMBERED)                                \
	STARTED(free, REQUEST_REMEMBERED | REQUEST_ENDS | REQUEST_GOES_ON)   \
	STARTED(attach, REQUEST_REMEMBERED) /* by name only */               \
	STARTED(detach, REQUEST_REMEMBERED | REQUEST_ENDS | REQUEST_GOES_ON) \
	ANSWERED(renew, REQUEST_REMEMBERED)                                  \
	STARTED(rename, REQUEST_REMEMBERED | REQUEST_GOES_ON)                \
	STARTED(resize, REQUEST_REMEMBERED)                                  \
	STARTED(remove, REQUEST_REMEMBERED | REQUEST_ENDS | REQUEST_GOES_ON) \
	ANSWERED(stat, 0)                                                    \
	ANSWERED(list, 0)                                                    \
	ANSWERED(ping, 0)                                                    \
	ANSWERED(bye, 0)                                                     \
	ANSWERED(fix_home, 0)                                                \
	ANSWERED(watch, 0)                                                   \
	ANSWERED(unwatch, 0)

/* REQUEST_* of this request.  0 for messages that are none. */
unsigned request_flags(const struct wire_msg *msg);

#endif
