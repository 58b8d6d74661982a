/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/domain.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "librmem/session.h"

/* An endpoint without an address is on the host that the control connection reached. */
static void address_of_peer(const struct sockaddr *peer, struct fabric_address *address)
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
	if (wire->family == 0)
		address_of_peer(peer, &endpoint->address);
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
	const struct wire_welcome *welcome = &session->welcome;
	struct domain_set set = { .ops = ops };
	int err = err_set(-ENODEV, "the server does not serve %s",
			  ops->kind == FABRIC_VERBS ? "RDMA: it has no RDMA device"
						    : "TCP");
	bool served = false;
	char why[SESSION_TEXT_BYTES];

	for (unsigned i = 0; i < welcome->n_endpoints && set.n < max; i++) {
		struct domain *domain = &set.domains[set.n];
		struct opening opening = { ops, &session->uri.devices, domain };

		if (welcome->endpoints[i].fabric != (unsigned)ops->kind)
			continue;
		served = true;
		endpoint_take(&welcome->endpoints[i],
			      (const struct sockaddr *)&session->peer,
			      &domain->endpoint);
		domain->number = (uint8_t)i;
		err = session_patiently(session, timeout_ms, domain_try, &opening);
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

void domain_set_close(struct domain_set *set)
{
	for (unsigned i = 0; i < set->n; i++)
		set->ops->domain_close(set->domains[i].fabric);
	*set = (struct domain_set){ .ops = NULL };
}
