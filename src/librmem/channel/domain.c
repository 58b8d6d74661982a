/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/channel/domain.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "librmem/session/session.h"

/* All but the port. */
static void address_of(const struct sockaddr *peer, struct fabric_address *address)
{
	if (peer->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, peer, sizeof(in));
		address->family = 4;
		memcpy(address->bytes, &in.sin_addr, 4);
	} else {
		struct sockaddr_in6 in6;

		memcpy(&in6, peer, sizeof(in6));
		address->family = 6;
		memcpy(address->bytes, &in6.sin6_addr, 16);
	}
}

static void endpoint_take(const struct wire_endpoint *wire, const struct sockaddr *peer,
			  struct fabric_endpoint *endpoint)
{
	*endpoint = (struct fabric_endpoint){
		.kind = (enum fabric_kind)wire->fabric,
		.address = { .family = wire->family, .port = wire->port },
		.node = wire->node,
		.flags = wire->flags,
	};
	memcpy(endpoint->address.bytes, wire->address, sizeof(wire->address));
	(void)snprintf(endpoint->device, sizeof(endpoint->device), "%.*s",
		       FABRIC_DEVICE_MAX - 1, wire->device);
	/* one without an address is on the host that the control connection reached */
	if (wire->family == 0)
		address_of(peer, &endpoint->address);
}

/* Where the endpoint is at the address that the control connection has reached, that tells
 * the way. */
static void near_find(struct rmem *session, const struct fabric_endpoint *endpoint,
		      struct fabric_address *ret_near)
{
	struct fabric_address peer = { 0 }, near = { 0 };
	struct sockaddr_storage local;

	address_of((const struct sockaddr *)&session->peer, &peer);
	(void)pthread_mutex_lock(&session->lock);
	if (peer.family == endpoint->address.family &&
	    !memcmp(peer.bytes, endpoint->address.bytes, sizeof(peer.bytes)) &&
	    !connection_local(session->connection, &local))
		address_of((const struct sockaddr *)&local, &near);
	(void)pthread_mutex_unlock(&session->lock);
	*ret_near = near;
}

struct opening {
	const struct fabric_client_ops *ops;
	const struct fabric_client_params *params;
	struct domain *domain;
};

static int domain_try(void *ctx, unsigned timeout_ms)
{
	const struct opening *opening = ctx;

	return opening->ops->domain_open(&opening->domain->endpoint, opening->params,
					 timeout_ms, &opening->domain->fabric);
}

int domain_set_open(struct rmem *session, const struct fabric_client_ops *ops,
		    unsigned max, unsigned timeout_ms, struct domain_set *ret_set)
{
	struct wire_welcome welcome;
	struct domain_set set = { .ops = ops };
	int err = err_set(-ENODEV, "the server does not serve %s",
			  ops->kind == FABRIC_VERBS ? "RDMA: it has no RDMA device"
						    : "TCP");
	bool served = false;
	char why[SESSION_TEXT_BYTES];

	/* who drives the session may get another one meanwhile */
	(void)pthread_mutex_lock(&session->lock);
	welcome = session->welcome;
	(void)pthread_mutex_unlock(&session->lock);
	for (unsigned i = 0; i < welcome.n_endpoints; i++) {
		struct domain *domain = &set.domains[set.n];
		struct fabric_client_params params = session->uri.devices;
		struct opening opening = { ops, &params, domain };
		bool beyond = set.n >= max;

		if (welcome.endpoints[i].fabric != (unsigned)ops->kind ||
		    (beyond && !(welcome.endpoints[i].flags & WIRE_ENDPOINT_SOLE)))
			continue;
		served = true;
		endpoint_take(&welcome.endpoints[i],
			      (const struct sockaddr *)&session->peer,
			      &domain->endpoint);
		domain->number = (uint8_t)i;
		if (domain->endpoint.flags & FABRIC_ENDPOINT_DIRECT)
			near_find(session, &domain->endpoint, &params.near);
		err = session_patiently(session,
					beyond && timeout_ms > DOMAIN_SOLE_MS
						? DOMAIN_SOLE_MS
						: timeout_ms,
					domain_try, &opening);
		if (!err)
			set.n++;
	}
	if (set.n > 0) {
		*ret_set = set;
		return 0;
	}
	if (!served)
		return err;
	/* a look at all devices is a better reason, but takes longer than to connect */
	(void)snprintf(why, sizeof(why), "%.*s", SESSION_TEXT_BYTES - 1, err_text());
	if (ops->available())
		return err_prefix(-ENODEV, "this host");
	return err_set(err, "%s", why);
}

bool domain_sole(const struct domain *domain)
{
	return (domain->endpoint.flags & WIRE_ENDPOINT_SOLE) != 0;
}

void domain_set_close(struct domain_set *set)
{
	for (unsigned i = 0; i < set->n; i++) {
		set->ops->domain_close(set->domains[i].left);
		set->ops->domain_close(set->domains[i].fabric);
	}
	*set = (struct domain_set){ .ops = NULL };
}
