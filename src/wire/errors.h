/* SPDX-License-Identifier: BSD-3-Clause */
/* The errors of the protocols: `code` of the message error, and the status of a channel's hello, of
 * a request over TCP and of an in-band one.  0 is no error.  Numbers are grouped by what the client
 * has to do, so that a client knows that of a number which it does not know; rmem-protocol(7) has
 * both tables, which tests/lint/names.sh compares.  A number never gets another meaning.  Pure
 * functions.  Threads: [any]. */
#ifndef WIRE_ERRORS_H
#define WIRE_ERRORS_H

#include <errno.h>
#include <stdint.h>

/* The hundreds, what a program gets for a number that its library does not know, what to do. */
#define WIRE_CODE_GROUPS(M)                                                    \
	M(1, EBUSY, "not now: try again later, here or at another server")     \
	M(2, ENOTSUP, "wrong: this server will not do this request as it is")  \
	M(3, EACCES,                                                           \
	  "not permitted: not again before somebody changes rights or keys")   \
	M(4, ESTALE,                                                           \
	  "gone: give up what the request names, and ask for its state anew")  \
	M(5, EDQUOT,                                                           \
	  "over a limit of this client: give something back, or ask for less") \
	M(6, EEXIST, "in the way: look at what is there, and then decide")     \
	M(7, EIO,                                                              \
	  "failed at the server: try another endpoint or server, and tell people")

/* Name, number, the server's errno, which is of this number alone, the program's, meaning. */
#define WIRE_CODES(M)                                                                  \
	M(busy, 100, EBUSY, EBUSY,                                                     \
	  "something else is changing what the request names")                         \
	M(no_memory, 101, ENOMEM, ENOMEM, "the server itself lacks memory")            \
	M(no_room, 102, ENOSPC, ENOSPC, "its pools, or its file system, have no room") \
	M(draining, 103, ESHUTDOWN, ESHUTDOWN, "it will stop, and grants nothing new") \
	M(malformed, 200, EPROTO, EPROTO, "not this protocol; the connection ends")    \
	M(invalid, 201, EINVAL, EINVAL, "a value that cannot be, or not here")         \
	M(unsupported, 202, ENOTSUP, ENOTSUP,                                          \
	  "server, endpoint or device cannot do this")                                 \
	M(unknown, 203, ENOSYS, ENOTSUP, "the server does not know the request")       \
	M(outside, 204, ERANGE, EACCES, "not all of the range is that of the rkey")    \
	M(forbidden, 300, EACCES, EACCES, "this client may not do that")               \
	M(stale, 400, ESTALE, ESTALE,                                                  \
	  "session, lease or channel has ended, or is another client's")               \
	M(missing, 401, ENOENT, ENOENT, "no lease has the name, or no tenant")         \
	M(no_device, 402, ENODEV, ENODEV, "the device is not served, or not any more") \
	M(dead_key, 403, EKEYREVOKED, EACCES,                                          \
	  "the session has no such rkey, or it is dead")                               \
	M(forgotten, 404, ENODATA, ETIMEDOUT,                                          \
	  "the reply is not kept: its outcome is unknown")                             \
	M(quota, 500, EDQUOT, EDQUOT, "a limit of the session or of the tenant")       \
	M(exists, 600, EEXIST, EEXIST, "a lease has the name")                         \
	M(attached, 601, EALREADY, EBUSY, "the session holds the lease already")       \
	M(failed, 700, EIO, EIO, "the device, or what has no number of its own")       \
	M(unreachable, 701, EHOSTUNREACH, EHOSTUNREACH,                                \
	  "no way from the server to the client")                                      \
	M(timed_out, 702, ETIMEDOUT, ETIMEDOUT,                                        \
	  "nobody answers the server on the channel's network")

#define WIRE_CODE(name, number, own, shown, text) WIRE_CODE_##name = (number),
enum wire_code { WIRE_CODE_none = 0, WIRE_CODES(WIRE_CODE) };

/* The number for an error of the server, a negative errno; 0: WIRE_CODE_none. */
enum wire_code wire_code_of(int err);

/* The negative errno that a program gets; of a number that is not in the table, that of its
 * group. */
int wire_code_errno(uint32_t code);

#endif
