/* SPDX-License-Identifier: BSD-3-Clause */
/* Resolves host names within a given time, which getaddrinfo(3) cannot do: silent name servers
 * take half a minute.  Threads: [any], one at a time for each look-up. */
#ifndef LIBRMEM_SESSION_RESOLVE_H
#define LIBRMEM_SESSION_RESOLVE_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/wakeup.h"

struct lookup;

/* The addresses of a host, for stream sockets; the caller frees the list with freeaddrinfo(3).
 *   -EHOSTUNREACH  there is no such host
 *   -ETIMEDOUT     no answer until end_ns
 *   -ENOMEM, -EAGAIN ... with text */
int resolve_host(const char *host, unsigned port, uint64_t end_ns,
		 struct addrinfo **ret_list);

/* Whether the host is an address, which is not looked up. */
bool resolve_is_address(const char *host);

/* Begin a look-up by a thread of its own, which sets the wake-up when it is done.  -ENOMEM,
 * -EAGAIN */
int lookup_begin(const char *host, unsigned port, const struct wakeup *wake,
		 struct lookup **ret_lookup);
bool lookup_is_done(struct lookup *lookup);
/* End one that is done: the errors of resolve_host(). */
int lookup_end(struct lookup *lookup, struct addrinfo **ret_list);
/* Nobody waits any more, nor has the wake-up.  NULL: nothing. */
void lookup_abandon(struct lookup *lookup);

/* Around a fork(): the C library's resolver takes locks in the first moments of a look-up, which
 * the child would find taken for ever.  No look-up begins between the first two, and those that
 * have just begun are waited for, at most 200 ms.  In the child there are none. */
void lookups_before_fork(void);
void lookups_after_fork(void);
void lookups_reset(void);

#endif
