/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/channel/device_recovery.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "fabric/address.h"
#include "librmem/session/session.h"

/* How long a device that is being removed waits for queues' owners. */
#define CUT_MS 500u
/* The wait between two attempts to open a domain. */
#define RETRY_MS 500u
/* After this number of failed connects in a row the device may be gone. */
#define FAILURES_MAX 3u

/* ---- leaving ---- */

static void domain_leave(struct rmem *session, struct domain *domain)
{
	if (domain->state != DOMAIN_OPEN)
		return;
	domain->state = DOMAIN_LEAVING;
	domain->due_ns = clock_now_ns() + CUT_MS * NS_PER_MS;
	session->sync_due = true;
	SESSION_NOTIFY(session, wake, session);
	/* the driver aborts the domain's connections */
	session_wake(session);
}

static bool address_equal(const struct fabric_address *a,
			  const struct fabric_address *b)
{
	return a->port == b->port && fabric_address_host_equal(a, b);
}

void recovery_moved(struct rmem *session, unsigned endpoint,
		    const struct wire_channel *grant)
{
	struct fabric_address address = { .family = grant->family,
					  .port = grant->port };

	memcpy(address.bytes, grant->address, sizeof(address.bytes));
	domains_for_each(domain, session->domains) {
		if (domain->number != endpoint || fabric_address_is_any(&address) ||
		    address_equal(&domain->endpoint.address, &address))
			continue;
		domain->endpoint.address = address;
		domain_address_scope(&domain->endpoint.address,
				     (const struct sockaddr *)&session->peer);
		domain_leave(session, domain);
	}
}

void recovery_follow(struct rmem *session)
{
	const struct sockaddr *peer = (const struct sockaddr *)&session->peer;

	domains_for_each(domain, session->domains) {
		const struct fabric_endpoint before = domain->endpoint;

		domain->served =
			endpoint_is_present(&session->endpoint_map, domain->number);
		if (!domain->served)
			continue;
		domain_endpoint_parse(&session->welcome.endpoints[domain->number], peer,
				      &domain->endpoint);
		/* where it was reached before */
		if (fabric_address_is_any(&domain->endpoint.address))
			domain->endpoint.address = before.address;
		/* the fabric reads all flags but this one when a domain is opened */
		if (!address_equal(&domain->endpoint.address, &before.address) ||
		    ((domain->endpoint.flags ^ before.flags) & ~WIRE_ENDPOINT_SOLE))
			domain_leave(session, domain);
	}
}

/* The domain has a connection that is not known to be dead. */
static bool domain_used(const struct rmem *session, const struct domain *domain)
{
	const unsigned number = domain_index(session->domains, domain);

	list_for_each_entry(const struct channel, channel, &session->channels->all,
			    node) {
		if (channel->domain == number && !channel->doomed &&
		    (channel->fabric || channel->fresh))
			return true;
	}
	return false;
}

void recovery_missed(struct rmem *session, unsigned number, bool in_time)
{
	struct domain *domain = &session->domains->domains[number];
	uint64_t gone_ns = clock_now_ns() + (in_time ? 0 : DOMAIN_SOLE_MS * NS_PER_MS);

	/* if the server is away or refuses one more channel, the route may still work */
	if (session->state != SESSION_UP || domain_used(session, domain))
		return;
	if (domain->gone_ns == 0 || gone_ns < domain->gone_ns)
		domain->gone_ns = gone_ns;
}

void recovery_resumed(struct rmem *session)
{
	domains_for_each(domain, session->domains)
		domain->gone_ns = 0;
}

void recovery_found(struct rmem *session, unsigned number)
{
	session->domains->domains[number].failures = 0;
	session->domains->domains[number].reached = true;
	session->domains->domains[number].gone_ns = 0;
}

uint32_t recovery_reach(const struct rmem *session)
{
	unsigned all = 0, reach = 0;
	uint64_t now_ns = clock_now_ns();

	domains_for_each(domain, session->domains) {
		all |= 1u << domain->number;
		if (domain->gone_ns == 0 || now_ns < domain->gone_ns ||
		    domain_used(session, domain))
			reach |= 1u << domain->number;
	}
	/* requests made while the server is away are answered after the session has resumed */
	if (reach == 0 || session->state != SESSION_UP)
		reach = all;
	return endpoint_mask_to_server(&session->endpoint_map, reach);
}

bool recovery_spares(const struct rmem *session, unsigned number)
{
	if (session->domains->domains[number].reached)
		return false;
	domains_for_each(domain, session->domains)
		if (domain->reached)
			return true;
	return false;
}

/* The error says that this host has no route to the peer. */
static bool no_way(int err)
{
	return err == -ENODEV || err == -EADDRNOTAVAIL || err == -EHOSTUNREACH ||
	       err == -ENETUNREACH;
}

void recovery_connect_failed(struct rmem *session, unsigned number, int err)
{
	struct domain *domain = &session->domains->domains[number];

	domain->failures++;
	if (!session->domains->ops->domain_removed || domain->failures % FAILURES_MAX)
		return;
	/* a slow server must not cost connections that work */
	if (no_way(err) || !domain_used(session, domain))
		domain_leave(session, domain);
}

static bool device_is_removed(const struct fabric_client_ops *ops,
			      struct fabric_domain *fabric)
{
	return ops->domain_removed && ops->domain_removed(fabric);
}

static void left_close(const struct fabric_client_ops *ops, struct domain *domain)
{
	ops->domain_close(domain->left);
	domain->left = NULL;
}

static void domain_close(struct rmem *session, struct domain *domain)
{
	const struct fabric_client_ops *ops = session->domains->ops;

	SESSION_NOTIFY(session, domain_closing, session,
		       domain_index(session->domains, domain));
	left_close(ops, domain);
	domain->left = domain->fabric;
	domain->fabric = NULL;
	if (!ops->domain_holds_device || !ops->domain_holds_device(domain->left) ||
	    device_is_removed(ops, domain->left))
		left_close(ops, domain);
	domain->state = DOMAIN_AWAY;
	domain->due_ns = 0;
}

static void domain_work(struct rmem *session, struct domain *domain, uint64_t now_ns)
{
	const struct fabric_client_ops *ops = session->domains->ops;

	if (domain->state == DOMAIN_OPEN && device_is_removed(ops, domain->fabric))
		domain_leave(session, domain);
	if (domain->left && device_is_removed(ops, domain->left))
		left_close(ops, domain);
	if (domain->state == DOMAIN_AWAY && now_ns >= domain->due_ns)
		domain->due_ns = 0;
	if (domain->state != DOMAIN_LEAVING)
		return;
	if (domain->users == 0 && session->channels->holds == 0) {
		domain_close(session, domain);
	} else if (now_ns >= domain->due_ns && device_is_removed(ops, domain->fabric)) {
		ops->domain_disassociate(domain->fabric);
		domain->due_ns = UINT64_MAX;
	} else if (now_ns >= domain->due_ns) {
		/* an endpoint that has moved can wait, but its device may be removed later */
		domain->due_ns = now_ns + CUT_MS * NS_PER_MS;
	}
}

void recovery_work(struct rmem *session, uint64_t now_ns)
{
	domains_for_each(domain, session->domains)
		domain_work(session, domain, now_ns);
}

/* ---- coming back ---- */

/* The domain is closed, and the server has its endpoint. */
static bool domain_returns(const struct domain *domain)
{
	return domain->state == DOMAIN_AWAY && domain->served;
}

static bool domain_pending(const struct rmem *session, const struct domain *domain)
{
	return domain->state == DOMAIN_LEAVING ||
	       (domain_returns(domain) && session->state == SESSION_UP);
}

uint64_t recovery_due(const struct rmem *session)
{
	uint64_t due = UINT64_MAX;

	domains_for_each(domain, session->domains) {
		/* a domain that can be opened now waits for the thread that connects, and needs no
		 * timer */
		if (domain_pending(session, domain) && domain->due_ns < due &&
		    (domain->due_ns > 0 || domain->state == DOMAIN_LEAVING))
			due = domain->due_ns;
	}
	return due;
}

/* Some domain is to be closed, or opened again. */
static bool domains_pending(const struct rmem *session)
{
	domains_for_each(domain, session->domains)
		if (domain_pending(session, domain))
			return true;
	return false;
}

/* A domain that can be opened again now, or NULL. */
static struct domain *domain_next(const struct rmem *session)
{
	uint64_t now_ns = clock_now_ns();

	if (session->state != SESSION_UP || session->channels->holds > 0)
		return NULL;
	domains_for_each(domain, session->domains)
		if (domain_returns(domain) && domain->due_ns <= now_ns)
			return domain;
	return NULL;
}

bool recovery_ready(const struct rmem *session)
{
	return domain_next(session) != NULL;
}

/* Register the program's buffers in the domain.  Under the lock. */
static int buffers_register(struct rmem *session, unsigned number)
{
	const struct session_observer *const *at = session->observers;
	int err = 0;

	for (; *at && !err; at++)
		if ((*at)->domain_opened)
			err = (*at)->domain_opened(session, number);
	return err;
}

/* Open a domain again, without the lock meanwhile.  False: opening failed. */
static bool domain_return(struct rmem *session, struct domain *domain)
{
	unsigned number = domain_index(session->domains, domain);
	unsigned timeout_ms = connect_patience_ms(session);
	struct fabric_client_params params = session->uri.devices;
	struct fabric_endpoint endpoint = domain->endpoint;
	struct fabric_domain *fabric = NULL;
	int err;

	params.cancelled = &session->cancelled;
	domain->state = DOMAIN_OPENING;
	(void)pthread_mutex_unlock(&session->lock);
	err = session->domains->ops->domain_open(&endpoint, &params, timeout_ms,
						 &fabric);
	(void)pthread_mutex_lock(&session->lock);
	domain->state = DOMAIN_AWAY;
	domain->due_ns = clock_now_ns() + RETRY_MS * NS_PER_MS;
	if (err) {
		domain->failures++;
		recovery_missed(session, number, false);
		return false;
	}
	domain->fabric = fabric;
	/* another thread that registers memory now does not know this domain */
	if (session->channels->holds > 0 || buffers_register(session, number)) {
		domain_close(session, domain);
		domain->due_ns = clock_now_ns() + RETRY_MS * NS_PER_MS;
		return true;
	}
	left_close(session->domains->ops, domain);
	domain->state = DOMAIN_OPEN;
	session->sync_due = true;
	SESSION_NOTIFY(session, wake, session);
	return true;
}

int recovery_next(struct rmem *session)
{
	struct domain *domain = domain_next(session);

	if (!domain || domain_return(session, domain))
		return -1;
	return (int)domain_index(session->domains, domain);
}

bool recovery_askable(const struct rmem *session, const struct channel *channel)
{
	return recovery_usable(session, channel) ||
	       domain_returns(&session->domains->domains[channel->domain]);
}

bool recovery_usable(const struct rmem *session, const struct channel *channel)
{
	const struct domain *domain = &session->domains->domains[channel->domain];

	return domain->state == DOMAIN_OPEN && domain->served && *channel->cq;
}

void recovery_hold(struct rmem *session)
{
	(void)pthread_mutex_lock(&session->lock);
	session->channels->holds++;
	(void)pthread_mutex_unlock(&session->lock);
}

void recovery_release(struct rmem *session)
{
	bool waited;

	(void)pthread_mutex_lock(&session->lock);
	waited = --session->channels->holds == 0 && domains_pending(session);
	(void)pthread_mutex_unlock(&session->lock);
	if (waited)
		session_wake(session);
}
