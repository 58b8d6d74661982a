/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/channel/domain.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "fabric/address.h"
#include "librmem/session/service.h"
#include "librmem/session/session.h"

/* The first time-out for a connect, and how often it is doubled after failures: a slow peer is
 * reached in the end, a dead peer does not hold up others. */
#define CONNECT_MS 500u
#define CONNECT_DOUBLINGS 3u
/* The lowest useful time-out, and the least time between the beginnings of two attempts. */
#define CONNECT_MIN_MS 50u
/* One of several ways has this part of the time, as the others need the rest. */
#define PART 4u

void domain_address_scope(struct fabric_address *address, const struct sockaddr *peer)
{
	struct sockaddr_in6 in6;

	if (!fabric_address_is_link_local(address) || peer->sa_family != AF_INET6)
		return;
	memcpy(&in6, peer, sizeof(in6));
	if (IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr))
		address->scope = in6.sin6_scope_id;
}

void domain_endpoint_parse(const struct wire_endpoint *wire,
			   const struct sockaddr *peer,
			   struct fabric_endpoint *ret_endpoint)
{
	*ret_endpoint = (struct fabric_endpoint){
		.kind = (enum fabric_kind)wire->fabric,
		.address = { .family = wire->family },
		.node = wire->node,
		.flags = wire->flags,
	};
	memcpy(ret_endpoint->address.bytes, wire->address, sizeof(wire->address));
	(void)snprintf(ret_endpoint->device, sizeof(ret_endpoint->device), "%.*s",
		       FABRIC_DEVICE_MAX - 1, wire->device);
	/* family 0: the address that the control connection has reached */
	if (wire->family == 0)
		(void)fabric_address_from_sockaddr(peer, &ret_endpoint->address);
	ret_endpoint->address.port = wire->port;
	domain_address_scope(&ret_endpoint->address, peer);
}

/* The control connection's local address, if its peer has the endpoint's address: a hint for the
 * route. */
static void route_source_find(struct rmem *session,
			      const struct fabric_endpoint *endpoint,
			      struct fabric_address *ret_source)
{
	struct fabric_address peer = { 0 }, source = { 0 };
	struct sockaddr_storage local;

	(void)pthread_mutex_lock(&session->lock);
	(void)fabric_address_from_sockaddr((const struct sockaddr *)&session->peer,
					   &peer);
	if (fabric_address_host_equal(&peer, &endpoint->address) &&
	    !connection_local(session->connection, &local)) {
		(void)fabric_address_from_sockaddr((const struct sockaddr *)&local,
						   &source);
		domain_address_scope(&source, (const struct sockaddr *)&local);
	}
	(void)pthread_mutex_unlock(&session->lock);
	*ret_source = source;
}

/* How long heartbeats can wait for a thread that blocks: until half an interval after the next is
 * due; after failures longer, but at most half the time to the fence. */
static uint64_t heartbeats_ms(const struct rmem *session, unsigned failures)
{
	uint64_t now_ns = clock_now_ns();
	uint64_t ms = session->welcome.heartbeat_ms / 2 * (UINT64_C(1) << failures);

	if (ms > session->welcome.fence_ms / 2)
		ms = session->welcome.fence_ms / 2;
	if (session->state == SESSION_UP && session->ping_ns > now_ns)
		ms += (session->ping_ns - now_ns) / NS_PER_MS;
	return ms;
}

unsigned connect_patience_ms(const struct rmem *session)
{
	unsigned failures = 0;
	uint64_t ms, late_ms;

	domains_for_each(domain, session->domains)
		if (domain->failures > failures)
			failures = domain->failures;
	if (failures > CONNECT_DOUBLINGS)
		failures = CONNECT_DOUBLINGS;
	ms = CONNECT_MS << failures;
	late_ms = heartbeats_ms(session, failures);
	if (!session->served && ms > late_ms)
		ms = late_ms;
	return ms < CONNECT_MIN_MS ? CONNECT_MIN_MS : (unsigned)ms;
}

unsigned connect_timeout_ms(const struct rmem *session, uint64_t end_ns)
{
	unsigned ms = connect_patience_ms(session), left_ms = session_left_ms(end_ns);

	return session->served || left_ms < ms ? left_ms : ms;
}

/* Open a domain.  If that takes longer than heartbeats may wait, the service thread sends them, or
 * this thread between attempts.  Some attempts time out at once, as when the kernel remembers a
 * neighbour that did not answer. */
static int domain_open(struct rmem *session, const struct fabric_client_ops *ops,
		       struct domain *domain, uint64_t end)
{
	struct fabric_client_params params = session->uri.devices;
	unsigned timeout_ms;
	uint64_t next;
	int err;

	if (domain->endpoint.flags & FABRIC_ENDPOINT_DIRECT)
		route_source_find(session, &domain->endpoint, &params.route_source);
	do {
		next = clock_now_ns() + CONNECT_MIN_MS * NS_PER_MS;
		(void)pthread_mutex_lock(&session->lock);
		if (!session->served)
			(void)session_tend(session);
		timeout_ms = connect_timeout_ms(session, end);
		session_unlock(session);
		err = ops->domain_open(&domain->endpoint, &params, timeout_ms,
				       &domain->fabric);
		if (err != -ETIMEDOUT || clock_now_ns() >= end ||
		    service_hand_over(session))
			return err;
		(void)poll(NULL, 0, (int)session_left_ms(next < end ? next : end));
	} while (clock_now_ns() < end);
	return err;
}

/* ---- choosing endpoints ---- */

/* The endpoint is at the address that the control connection has reached. */
static bool is_reached(const struct wire_endpoint *endpoint,
		       const struct sockaddr *peer)
{
	struct fabric_address reached = { .family = 0 };
	struct fabric_endpoint parsed;

	domain_endpoint_parse(endpoint, peer, &parsed);
	return fabric_address_from_sockaddr(peer, &reached) &&
	       fabric_address_host_equal(&parsed.address, &reached);
}

/* 0, or why this library cannot use the endpoint. */
static int endpoint_check(const struct wire_endpoint *wire, const struct sockaddr *peer)
{
	struct fabric_endpoint endpoint;

	if (wire->version != FABRIC_VERSION)
		return err_set(-ENOTSUP,
			       "the server's channels are of version %u, this "
			       "library's of %d",
			       wire->version, FABRIC_VERSION);
	domain_endpoint_parse(wire, peer, &endpoint);
	if (fabric_address_is_any(&endpoint.address) && endpoint.kind == FABRIC_VERBS)
		return err_set(-ENODEV,
			       "the server waits for its RDMA device%s%s, or for the "
			       "address of that",
			       *endpoint.device ? " " : "", endpoint.device);
	if (fabric_address_is_any(&endpoint.address))
		return err_set(-ENETUNREACH,
			       "the server's channels are over IPv%u, and its address "
			       "there is not known: name one in the URI",
			       wire->family);
	return 0;
}

/* Add those that are, or are not, at the address of the control connection.  0, or why one of them
 * cannot be used. */
static int candidates_add(struct domain_candidates *candidates, unsigned fabric,
			  unsigned away, bool reached)
{
	const struct sockaddr *peer = (const struct sockaddr *)&candidates->peer;
	int err = 0;

	for (unsigned i = 0; i < candidates->welcome.n_endpoints; i++) {
		const struct wire_endpoint *endpoint =
			&candidates->welcome.endpoints[i];
		int unusable;

		if (endpoint->fabric != fabric || (away & (1u << i)) ||
		    is_reached(endpoint, peer) != reached)
			continue;
		unusable = endpoint_check(endpoint, peer);
		if (unusable)
			err = unusable;
		else
			candidates->numbers[candidates->n++] = (uint8_t)i;
	}
	return err;
}

int domain_candidates_find(struct rmem *session, const struct fabric_client_ops *ops,
			   struct domain_candidates *ret_candidates)
{
	struct domain_candidates found = { .n = 0 };
	unsigned away;
	int err, other;

	/* the thread that drives the session may receive another welcome meanwhile */
	(void)pthread_mutex_lock(&session->lock);
	found.welcome = session->welcome;
	found.peer = session->peer;
	away = session->endpoint_map.away;
	(void)pthread_mutex_unlock(&session->lock);
	err = candidates_add(&found, ops->kind, away, true);
	other = candidates_add(&found, ops->kind, away, false);
	if (found.n > 0) {
		*ret_candidates = found;
		return 0;
	}
	if (err || other)
		return err ? err : other;
	return err_set(-ENODEV, "the server does not serve %s",
		       ops->kind == FABRIC_VERBS
			       ? "RDMA: it has no RDMA device, or [rdma] "
				 "enabled = no"
			       : "TCP");
}

void domain_candidates_drop(struct domain_candidates *candidates, unsigned i)
{
	candidates->n--;
	memmove(&candidates->numbers[i], &candidates->numbers[i + 1],
		candidates->n - i);
}

uint64_t domain_part_end_ns(uint64_t end_ns, unsigned others)
{
	uint64_t now_ns = clock_now_ns();
	unsigned ms = session_left_ms(end_ns) / PART;

	if (others == 0)
		return end_ns;
	return now_ns + (ms < DOMAIN_SOLE_MS ? ms : DOMAIN_SOLE_MS) * NS_PER_MS;
}

/* The end of the time for connecting to an endpoint beyond the number that the URI asks for. */
static uint64_t sole_end_ns(uint64_t end_ns)
{
	uint64_t sole_ns = clock_now_ns() + DOMAIN_SOLE_MS * NS_PER_MS;

	return sole_ns < end_ns ? sole_ns : end_ns;
}

/* Open a domain on candidate number `i`, if the set is to have it: 1, or 0. */
static int candidate_open(struct rmem *session,
			  const struct domain_candidates *candidates, unsigned i,
			  uint64_t end_ns, struct domain_set *set)
{
	struct domain *domain = &set->domains[set->n];
	unsigned number = candidates->numbers[i];
	const struct wire_endpoint *endpoint = &candidates->welcome.endpoints[number];
	bool beyond = set->n >= session->uri.channels;
	int err;

	if (beyond && !(endpoint->flags & WIRE_ENDPOINT_SOLE))
		return 0;
	domain_endpoint_parse(endpoint, (const struct sockaddr *)&candidates->peer,
			      &domain->endpoint);
	domain->number = (uint8_t)number;
	domain->served = true;
	end_ns = beyond ? sole_end_ns(end_ns)
			: domain_part_end_ns(end_ns, candidates->n - i - 1);
	err = domain_open(session, set->ops, domain, end_ns);
	if (err)
		return err;
	set->n++;
	return 1;
}

int domain_set_open(struct rmem *session, const struct fabric_client_ops *ops,
		    struct domain_candidates *candidates, uint64_t end_ns,
		    struct domain_set *ret_set)
{
	struct domain_set set = { .ops = ops };
	struct err_saved failed = { .err = 0 };

	for (unsigned i = 0; i < candidates->n;) {
		int err = candidate_open(session, candidates, i, end_ns, &set);

		if (err >= 0) {
			i++;
			continue;
		}
		err_join(&failed, err);
		domain_candidates_drop(candidates, i);
	}
	if (set.n > 0) {
		*ret_set = set;
		return 0;
	}
	/* a look at all devices gives a better reason, but takes longer than connecting */
	if (ops->available && ops->available())
		return err_prefix(-ENODEV, "this host");
	return err_restore(&failed);
}

void domain_set_close(struct domain_set *set)
{
	domains_for_each(domain, set) {
		set->ops->domain_close(domain->left);
		set->ops->domain_close(domain->fabric);
	}
	*set = (struct domain_set){ .ops = NULL };
}
