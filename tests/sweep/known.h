/* SPDX-License-Identifier: BSD-3-Clause */
/* Places in the libraries that rmem stands on where a call does not fail in the sweep, because the
 * library neither handles nor reports it: no code of rmem can see it.  Each has its reason.  A call
 * in a function of rmem itself is never such a place. */
#ifndef TESTS_SWEEP_KNOWN_H
#define TESTS_SWEEP_KNOWN_H

#include <stdbool.h>
#include <stddef.h>

struct known_place {
	const char *library;  /* a part of the file's name */
	const char *function; /* an exported one, on the stack; NULL: any */
	bool innermost;       /* it is the first frame outside of libc */
	const char *call;     /* call that does not fail there; NULL: any */
	const char *why;
};

static const struct known_place known_places[] = {
	{ "libasan", NULL, true, NULL,
	  "the sanitizer's own calls, as for the stack of a new thread" },
	/* OpenSSL 3.0 */
	{ "libcrypto", "CRYPTO_secure_malloc_init", false, NULL,
	  "it ends the process when it has no memory for its tables; the daemon has "
	  "not "
	  "begun then" },
	/* libevent 2.1.12; all are of the admin socket's HTTP server */
	{ "libevent", NULL, true, "getnameinfo",
	  "evhttp ends the process when an accepted connection has no name; a UNIX "
	  "socket always has one" },
	{ "libevent", "evhttp_connection_base_bufferevent_new", false, NULL,
	  "evhttp ends the process in its own error path for a new connection, or "
	  "loses its bufferevent" },
	{ "libevent", "evhttp_request_new", false, NULL,
	  "evhttp ends the process in its own error path for a new request" },
	{ "libevent", "bufferevent_enable", false, "epoll_ctl",
	  "evhttp ignores that it cannot watch a connection, which then waits" },
};

#define N_KNOWN_PLACES (sizeof(known_places) / sizeof(known_places[0]))

#endif
