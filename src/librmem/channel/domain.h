/* SPDX-License-Identifier: BSD-3-Clause */
/* The endpoints of the server that a session uses, all of one fabric, with a domain each.  A
 * queue's channels lead to the endpoints in turn.  The set of endpoints is constant while the
 * session is open; a domain is closed and opened again with its device (device_recovery.h). */
#ifndef LIBRMEM_CHANNEL_DOMAIN_H
#define LIBRMEM_CHANNEL_DOMAIN_H

#include <stdbool.h>
#include <sys/socket.h>

#include <rmem/rmem.h>

#include "fabric/client.h"
#include "wire/msg.h"

enum domain_state {
	DOMAIN_OPEN,
	DOMAIN_LEAVING, /* its users have to release it; disassociated at due_ns */
	DOMAIN_AWAY,    /* closed; opened again at due_ns, 0: as soon as a thread can */
	DOMAIN_OPENING, /* the driver opens the domain without the lock */
};

struct domain {
	/* NULL: closed; constant while there are users */
	struct fabric_domain *fabric;
	uint8_t number; /* index of the endpoint in the server's list */

	/* under the session's lock */
	/* the previous fabric domain, kept to learn of its device's removal; NULL: none */
	struct fabric_domain *left;
	struct fabric_endpoint endpoint;
	enum domain_state state;
	bool served;       /* the present server has the endpoint */
	bool reached;      /* a channel in it was connected */
	unsigned users;    /* number of queues with resources in the domain */
	unsigned failures; /* failed connects since the last success */
	uint64_t gone_ns;  /* unreachable from this time on; 0: reachable */
	uint64_t due_ns;
};

/* It was disassociated, which may have replaced descriptors of its completion queues.  Under the
 * session's lock. */
static inline bool domain_is_cut(const struct domain *domain)
{
	return domain->state == DOMAIN_LEAVING && domain->due_ns == UINT64_MAX;
}

struct domain_set {
	const struct fabric_client_ops *ops; /* NULL: nothing is open */
	unsigned n;
	struct domain domains[WIRE_ENDPOINTS_MAX];
};

#define domains_for_each(domain, set)                \
	for (struct domain *domain = (set)->domains; \
	     domain < (set)->domains + (set)->n; domain++)

/* The number of a domain, such as channel->domain. */
static inline unsigned domain_index(const struct domain_set *set,
				    const struct domain *domain)
{
	return (unsigned)(domain - set->domains);
}

/* Time-out for connecting to an endpoint that the session can do without. */
#define DOMAIN_SOLE_MS 2000u

/* The endpoints of one fabric that may be tried, in this order: those at the address that the
 * control connection has reached, then the others as the server lists them. */
struct domain_candidates {
	struct wire_welcome welcome;  /* description of them, */
	struct sockaddr_storage peer; /* of this server */
	unsigned n;
	uint8_t numbers[WIRE_ENDPOINTS_MAX];
};

/* At least one.
 *   -ENODEV   the server has no such endpoint
 *   -ENOTSUP, -ENETUNREACH  this library can use none of them  [any] */
int domain_candidates_find(struct rmem *session, const struct fabric_client_ops *ops,
			   struct domain_candidates *ret_candidates);
/* Number `i` of them is not tried again. */
void domain_candidates_drop(struct domain_candidates *candidates, unsigned i);
/* The end of the time for a way to connect, if there are others: a quarter of what is left, at most
 * DOMAIN_SOLE_MS. */
uint64_t domain_part_end_ns(uint64_t end_ns, unsigned others);
/* Open domains on candidates: on as many as the URI asks for, the first ones, and on all sole ones,
 * together until end_ns.  Those that cannot be reached are dropped.
 *   -ENODEV  this host has no such device
 *   or the fabric's errors, if none can be reached  [any] */
int domain_set_open(struct rmem *session, const struct fabric_client_ops *ops,
		    struct domain_candidates *candidates, uint64_t end_ns,
		    struct domain_set *ret_set);
/* The endpoint that a welcome from this peer describes.  Its address is a wildcard: the server does
 * not know at which address this client would reach it. */
void domain_endpoint_parse(const struct wire_endpoint *wire,
			   const struct sockaddr *peer,
			   struct fabric_endpoint *ret_endpoint);
/* A link-local address of the server is on the link of the control connection's peer: the wire has
 * no interface, as it is this host's. */
void domain_address_scope(struct fabric_address *address, const struct sockaddr *peer);
/* Some memory is lent only through this endpoint and not through all others: a queue that is to
 * reach all memory has a channel in the domain. */
static inline bool domain_sole(const struct domain *domain)
{
	return (domain->endpoint.flags & WIRE_ENDPOINT_SOLE) != 0;
}
/* The time for one attempt to connect, or to open a domain: longer after failed attempts, but no
 * longer than the heartbeats can wait if this thread sends them.  Under the lock. */
unsigned connect_patience_ms(const struct rmem *session);
/* That of a thread that waits until end_ns: all the time left, if another thread sends the
 * heartbeats, or none is due yet.  Under the lock. */
unsigned connect_timeout_ms(const struct rmem *session, uint64_t end_ns);
/* Nothing may use the set.  A set that is not open: nothing. */
void domain_set_close(struct domain_set *set);

#endif
