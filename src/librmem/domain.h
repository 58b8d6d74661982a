/* SPDX-License-Identifier: BSD-3-Clause */
/* The endpoints of the server that a session uses, all of one fabric, with a domain each.
 * The channels of a queue go to one after the other.  Constant while the session is
 * open. */
#ifndef LIBRMEM_DOMAIN_H
#define LIBRMEM_DOMAIN_H

#include <stdbool.h>

#include <rmem/rmem.h>

#include "fabric/fabric.h"
#include "wire/msg.h"

struct domain {
	struct fabric_domain *fabric;
	struct fabric_endpoint endpoint;
	uint8_t number; /* of the endpoint in the server's list */
};

struct domain_set {
	const struct fabric_client_ops *ops; /* NULL: nothing is open */
	unsigned n;
	struct domain domains[WIRE_ENDPOINTS_MAX];
};

/* Open domains on the endpoints of a session's server of a fabric, `max` at most, each
 * within timeout_ms; those that cannot be reached are left out as long as one can.
 *   -ENODEV  the server has no such endpoint, or this host no such device
 *   or what the fabric gave for the last one  [any] */
int domain_set_open(struct rmem *session, const struct fabric_client_ops *ops,
		    unsigned max, unsigned timeout_ms, struct domain_set *ret_set);
/* Nothing of the set may be in use.  A set that is not open: nothing. */
void domain_set_close(struct domain_set *set);

#endif
