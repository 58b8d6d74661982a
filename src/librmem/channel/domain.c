/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/channel/domain.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "librmem/session/service.h"
#include "librmem/session/session.h"

#define NS_PER_MS UINT64_C(1000000)
/* What a connect may take at first, and how often that is doubled where it was not enough:
 * a peer that is slow is reached in the end, one that is gone does not hold up others. */
#define CONNECT_MS 500u
#define CONNECT_DOUBLINGS 3u
/* The least that makes sense. */
#define CONNECT_MIN_MS 50u

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

/* Nobody sends heartbeats meanwhile: the next one may be late by half the time between two,
 * or after failures by as much as leaves half the time to the fence. */
static uint64_t heartbeats_ms(const struct rmem *session, uint64_t now_ns,
			      unsigned failures)
{
	uint64_t ms = session->welcome.heartbeat_ms / 2 * (UINT64_C(1) << failures);

	if (ms > session->welcome.fence_ms / 2)
		ms = session->welcome.fence_ms / 2;
	if (session->state == SESSION_UP && session->ping_ns > now_ns)
		ms += (session->ping_ns - now_ns) / NS_PER_MS;
	return ms;
}

unsigned connect_patience_ms(const struct rmem *session, uint64_t now_ns)
{
	unsigned failures = 0;
	uint64_t ms, late_ms;

	for (unsigned i = 0; i < session->domains.n; i++)
		if (session->domains.domains[i].failures > failures)
			failures = session->domains.domains[i].failures;
	if (failures > CONNECT_DOUBLINGS)
		failures = CONNECT_DOUBLINGS;
	ms = CONNECT_MS << failures;
	late_ms = heartbeats_ms(session, now_ns, failures);
	if (!session->served && ms > late_ms)
		ms = late_ms;
	return ms < CONNECT_MIN_MS ? CONNECT_MIN_MS : (unsigned)ms;
}

/* One attempt; -ETIMEDOUT when its time is over. */
static int domain_try(struct rmem *session, const struct fabric_client_ops *ops,
		      const struct fabric_client_params *params, struct domain *domain,
		      uint64_t end_ns)
{
	uint64_t now = clock_now_ns(), left_ms;
	unsigned ms;

	left_ms = now < end_ns ? (end_ns - now) / NS_PER_MS + 1 : 1;
	(void)pthread_mutex_lock(&session->lock);
	if (!session->served && session->welcomed)
		(void)session_tend(session);
	ms = connect_patience_ms(session, now);
	(void)pthread_mutex_unlock(&session->lock);
	/* before the welcome no heartbeat is due */
	if (session->served || !session->welcomed || left_ms < ms)
		ms = (unsigned)left_ms;
	return ops->domain_open(&domain->endpoint, params, ms, &domain->fabric);
}

/* Where it takes longer than heartbeats may wait, the service thread sends them, or they are
 * sent between attempts. */
static int domain_open(struct rmem *session, const struct fabric_client_ops *ops,
		       const struct fabric_client_params *params, struct domain *domain,
		       unsigned timeout_ms)
{
	uint64_t end = clock_now_ns() + timeout_ms * NS_PER_MS;
	int err;

	do {
		err = domain_try(session, ops, params, domain, end);
		if (err == -ETIMEDOUT && clock_now_ns() < end &&
		    service_hand_over(session))
			break;
	} while (err == -ETIMEDOUT && clock_now_ns() < end);
	return err;
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

	/* the thread that drives the session may get another one meanwhile */
	(void)pthread_mutex_lock(&session->lock);
	welcome = session->welcome;
	(void)pthread_mutex_unlock(&session->lock);
	for (unsigned i = 0; i < welcome.n_endpoints; i++) {
		struct domain *domain = &set.domains[set.n];
		struct fabric_client_params params = session->uri.devices;
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
		err = domain_open(session, ops, &params, domain,
				  beyond && timeout_ms > DOMAIN_SOLE_MS ? DOMAIN_SOLE_MS
									: timeout_ms);
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
