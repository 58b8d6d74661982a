/* SPDX-License-Identifier: BSD-3-Clause */
/* A fabric_address as the kernel and people write it, and this host's own addresses.
 * Threads: [any]. */
#ifndef FABRIC_VERBS_COMMON_ADDRESS_H
#define FABRIC_VERBS_COMMON_ADDRESS_H

#include <stddef.h>
#include <sys/socket.h>

#include "fabric/fabric.h"

#define VERBS_ADDRESS_TEXT 64

void verbs_address_to_sockaddr(const struct fabric_address *address,
			       struct sockaddr_storage *ret_sockaddr);

/* "10.0.0.1:7000", "[fd00::1]:7000"; returns buf. */
const char *verbs_address_text(const struct fabric_address *address,
			       char buf[VERBS_ADDRESS_TEXT]);

/* The addresses of this host at which it can be reached, best first: interfaces that
 * are up, IPv4 before IPv6, no loopback, nothing link-local.  Limited to those that
 * params->listen or one of params->also covers, and with the port of the first.  The
 * caller frees *ret_addresses.  -ENOMEM ... with text. */
int verbs_address_list(const struct fabric_server_params *params,
		       struct fabric_address **ret_addresses, size_t *ret_n);

#endif
