/* SPDX-License-Identifier: BSD-3-Clause */
/* Which packets arrive on the way to a server: a link in between may have a lesser MTU than both
 * hosts, and its router's message about that may be lost too.  Threads: [main]. */
#ifndef RMEM_PATH_H
#define RMEM_PATH_H

/* Lengths of IP packets, in bytes. */
struct path {
	unsigned sent; /* length that TCP gives packets of many bytes */
	/* longest that is acknowledged; 0: not even what every link carries */
	unsigned arrives;
	unsigned wait_ms; /* for an acknowledgement of others */
};

/* Connect to `server`, "192.0.2.1:7460" or "[2001:db8::1]:7460", which sees the beginning of a
 * handshake, once for each length that is tried.
 *   -EINVAL  `server` is no address
 *   -ETIMEDOUT, -ECONNREFUSED ...  with text */
int path_examine(const char *server, unsigned timeout_ms, struct path *ret_path);

#endif
