/* SPDX-License-Identifier: BSD-3-Clause */
/* What answers each request, and the errors that the server may answer instead; rmem-protocol(7)
 * has the same table, with the rights that a request needs, and tests/lint/names.sh compares them.
 * Pure functions.  Threads: [any]. */
#ifndef WIRE_REQUESTS_H
#define WIRE_REQUESTS_H

#include "wire/msg.h"

/* Of every request: the frame is no good, or the server or one of its devices fails. */
#define WIRE_ERRORS(E) E(malformed) E(no_memory) E(failed)

/* clang-format off */
/* Request, reply, errors besides those of every request. */
#define WIRE_ANSWERS(M, E)                                                                   \
	M(hello, welcome,                                                                    \
	  E(no_room) E(draining) E(invalid) E(unsupported) E(forbidden) E(stale) E(quota))   \
	M(open_channel, channel, E(no_room) E(invalid) E(no_device) E(quota))                \
	M(close_channel, ok, E(invalid))                                                     \
	M(allocate, lease,                                                                   \
	  E(no_room) E(draining) E(invalid) E(forbidden) E(stale) E(no_device) E(forgotten)  \
	  E(quota) E(exists))                                                                \
	M(free, ok, E(no_room) E(forbidden) E(stale) E(forgotten) E(quota))                  \
	M(attach, lease,                                                                     \
	  E(no_room) E(invalid) E(unsupported) E(forbidden) E(stale) E(missing) E(no_device) \
	  E(forgotten) E(quota) E(attached))                                                 \
	M(detach, ok, E(no_room) E(invalid) E(stale) E(forgotten) E(quota))                  \
	M(renew, ok, E(no_room) E(invalid) E(forbidden) E(stale) E(forgotten) E(quota))      \
	M(rename, ok,                                                                        \
	  E(no_room) E(invalid) E(forbidden) E(stale) E(forgotten) E(quota) E(exists))       \
	M(resize, lease,                                                                     \
	  E(busy) E(no_room) E(draining) E(forbidden) E(stale) E(no_device) E(forgotten)     \
	  E(quota))                                                                          \
	M(remove, ok, E(no_room) E(forbidden) E(missing) E(forgotten) E(quota))              \
	M(stat, entries, E(missing))                                                         \
	M(list, entries, E(quota))                                                           \
	M(ping, ok, )                                                                        \
	M(bye, ok, )                                                                         \
	M(fix_atomic_device, atomic_device,                                                  \
	  E(no_room) E(invalid) E(unsupported) E(forbidden) E(stale))                        \
	M(watch, ok, E(no_room) E(stale))                                                    \
	M(unwatch, ok, E(no_room) E(stale))                                                  \
	M(join_channel, joined,                                                              \
	  E(busy) E(invalid) E(unsupported) E(forbidden) E(stale) E(no_device)               \
	  E(unreachable) E(timed_out))                                                       \
	M(share, ok,                                                                         \
	  E(no_room) E(invalid) E(forbidden) E(stale) E(missing) E(forgotten) E(quota))
/* clang-format on */

/* The type of the reply to a request that is done. */
enum wire_type wire_reply_type(enum wire_type request);

#endif
