/* SPDX-License-Identifier: BSD-3-Clause */
/* Resolves host names within a given time, which getaddrinfo(3) cannot do: silent name servers
 * take half a minute.  Threads: [any]. */
#ifndef LIBRMEM_SESSION_RESOLVE_H
#define LIBRMEM_SESSION_RESOLVE_H

#include <netdb.h>
#include <stdint.h>

/* The addresses of a host, for stream sockets; the caller frees the list with freeaddrinfo(3).
 *   -EHOSTUNREACH  there is no such host
 *   -ETIMEDOUT     no answer until end_ns
 *   -ENOMEM, -EAGAIN ... with text */
int resolve_host(const char *host, unsigned port, uint64_t end_ns,
		 struct addrinfo **ret_list);

#endif
