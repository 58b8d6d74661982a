/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's side of one session on one endpoint: the address, and what the server
 * supports.
 * Threads: [any]. */
#ifndef FABRIC_TCP_DOMAIN_H
#define FABRIC_TCP_DOMAIN_H

#include "fabric/fabric.h"

/* The table's functions of these names. */
int tcp_domain_open(const struct fabric_endpoint *endpoint,
		    const struct fabric_client_params *params, unsigned timeout_ms,
		    struct fabric_domain **ret_domain);
void tcp_domain_close(struct fabric_domain *domain);
const char *tcp_domain_device(const struct fabric_domain *domain);
int tcp_domain_supports(const struct fabric_domain *domain,
			enum fabric_capability capability);

/* Borrowed from the domain. */
const struct fabric_address *tcp_domain_address(const struct fabric_domain *domain);

#endif
