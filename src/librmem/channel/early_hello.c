/* SPDX-License-Identifier: BSD-3-Clause */
/* The first channel is prepared before the hello.  The hello carries the client's queue pair, the
 * welcome the server's.  This saves a round trip.  The endpoints of the last server are remembered
 * for that. */
#include "librmem/channel/channel.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/err.h"

static struct {
	pthread_mutex_t lock;
	struct sockaddr_storage peer;
	unsigned n_endpoints; /* 0: no server is known */
	struct wire_endpoint endpoints[WIRE_ENDPOINTS_MAX];
} known = { .lock = PTHREAD_MUTEX_INITIALIZER };

void early_hello_reset(void)
{
	const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;

	known.lock = unlocked;
	known.n_endpoints = 0;
}

/* Under known.lock. */
static bool is_known(const struct rmem *session)
{
	return known.n_endpoints > 0 &&
	       !memcmp(&known.peer, &session->peer, sizeof(known.peer));
}

bool early_hello_load(struct rmem *session)
{
	bool found;

	(void)pthread_mutex_lock(&known.lock);
	found = is_known(session);
	if (found) {
		session->welcome.n_endpoints = (uint16_t)known.n_endpoints;
		memcpy(session->welcome.endpoints, known.endpoints,
		       sizeof(known.endpoints));
	}
	(void)pthread_mutex_unlock(&known.lock);
	return found;
}

/* Whether the channel could be prepared before the hello: the server grants it through the first
 * RDMA endpoint, and that endpoint connects without rdma_cm. */
static bool is_first(const struct wire_welcome *welcome, unsigned endpoint)
{
	unsigned i = 0;

	while (i < welcome->n_endpoints &&
	       welcome->endpoints[i].fabric != WIRE_FABRIC_VERBS)
		i++;
	return i < welcome->n_endpoints && i == endpoint &&
	       (welcome->endpoints[i].flags & WIRE_ENDPOINT_DIRECT);
}

void early_hello_store(const struct rmem *session, unsigned endpoint)
{
	bool could = session->domains->ops->kind == FABRIC_VERBS &&
		     is_first(&session->welcome, endpoint);

	(void)pthread_mutex_lock(&known.lock);
	if (could) {
		known.peer = session->peer;
		known.n_endpoints = session->welcome.n_endpoints;
		memcpy(known.endpoints, session->welcome.endpoints,
		       sizeof(known.endpoints));
	} else if (is_known(session)) {
		known.n_endpoints = 0;
	}
	(void)pthread_mutex_unlock(&known.lock);
}

static bool endpoints_same(const struct wire_welcome *a, const struct wire_welcome *b)
{
	if (a->n_endpoints != b->n_endpoints)
		return false;
	for (unsigned i = 0; i < a->n_endpoints; i++) {
		const struct wire_endpoint *x = &a->endpoints[i], *y = &b->endpoints[i];

		if (x->fabric != y->fabric || x->family != y->family ||
		    memcmp(x->address, y->address, sizeof(x->address)) != 0 ||
		    x->port != y->port || x->node != y->node || x->flags != y->flags ||
		    strcmp(x->device, y->device) != 0)
			return false;
	}
	return true;
}

int early_hello_exchange(void *ctx, const struct fabric_qp_info *ours,
			 unsigned timeout_ms, struct fabric_qp_info *ret_theirs)
{
	struct channel *channel = ctx;
	struct rmem *session = channel->session;
	struct wire_welcome *welcome = &session->welcome;
	const struct wire_welcome before = *welcome;
	int err = session_hello(session, ours);

	/* the wait for the welcome has its own time limit */
	(void)timeout_ms;
	if (err)
		return err;
	channel->number = welcome->channel;
	welcome->channel = 0;
	if (!channel->number || !welcome->qpn ||
	    welcome->endpoint != channel->endpoint || !endpoints_same(welcome, &before))
		return err_set(-EAGAIN, "the server is not as it was");
	*ret_theirs = (struct fabric_qp_info){ .qpn = 0 };
	WIRE_END_COPY(ret_theirs, welcome);
	return 0;
}
