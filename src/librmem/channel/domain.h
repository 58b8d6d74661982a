/* SPDX-License-Identifier: BSD-3-Clause */
/* The endpoints of the server that a session uses, all of one fabric, with a domain each.
 * The channels of a queue go to one after the other.  Which they are is constant while the
 * session is open; a domain comes and goes with its device (renew.h). */
#ifndef LIBRMEM_CHANNEL_DOMAIN_H
#define LIBRMEM_CHANNEL_DOMAIN_H

#include <stdbool.h>

#include <rmem/rmem.h>

#include "fabric/fabric.h"
#include "wire/msg.h"

enum domain_state {
	DOMAIN_OPEN,
	DOMAIN_LEAVING, /* its users are to release it; at due_ns it is cut off */
	DOMAIN_AWAY,    /* closed; to be opened anew at due_ns */
	DOMAIN_OPENING, /* by the driver, without the lock */
};

struct domain {
	/* NULL: closed.  Stays while there are users */
	struct fabric_domain *fabric;
	uint8_t number; /* of the endpoint in the server's list */

	/* under the session's lock */
	/* the last one, which has the device still and hears of its removal; else NULL */
	struct fabric_domain *left;
	struct fabric_endpoint endpoint;
	enum domain_state state;
	unsigned users;    /* queues with something in it */
	unsigned failures; /* to connect in it, since the last that succeeded */
	uint64_t gone_ns;  /* not reached from then on; 0: a channel could be had */
	uint64_t due_ns;
};

struct domain_set {
	const struct fabric_client_ops *ops; /* NULL: nothing is open */
	unsigned n;
	struct domain domains[WIRE_ENDPOINTS_MAX];
};

/* A way to an endpoint beyond those that were asked for that takes longer is no way. */
#define DOMAIN_SOLE_MS 2000u

/* Open domains on the endpoints of a session's server of a fabric, `max` at most and those
 * with memory of their own, each within timeout_ms; those that cannot be reached are left out
 * as long as one can.
 *   -ENODEV  the server has no such endpoint, or this host no such device
 *   or what the fabric gave for the last one  [any] */
int domain_set_open(struct rmem *session, const struct fabric_client_ops *ops,
		    unsigned max, unsigned timeout_ms, struct domain_set *ret_set);
/* Memory is lent through its endpoint that is not through all others: a queue
 * that is to reach all memory has a channel in it. */
bool domain_sole(const struct domain *domain);
/* How long one attempt to connect, or to open a domain, may take: longer after one that failed,
 * and where it holds up the session's heartbeats not longer than they can wait.  Under the
 * lock. */
unsigned connect_patience_ms(const struct rmem *session, uint64_t now_ns);
/* Nothing of the set may be in use.  A set that is not open: nothing. */
void domain_set_close(struct domain_set *set);

#endif
