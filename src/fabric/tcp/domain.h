/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's side of one session on one endpoint: for streams that is the address.
 * Threads: [any]. */
#ifndef FABRIC_TCP_DOMAIN_H
#define FABRIC_TCP_DOMAIN_H

#include "fabric/fabric.h"

/* Borrowed from the domain. */
const struct fabric_address *tcp_domain_address(const struct fabric_domain *domain);

#endif
