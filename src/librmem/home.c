/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/home.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "librmem/lease.h"
#include "librmem/queue.h"
#include "librmem/session.h"

/* ---- the queue's side ---- */

static int slot_able(const struct rmem_queue *queue, const struct channel_slot *slot)
{
	const struct domain_set *domains = &queue->session->domains;

	/* one that is away is not asked, but waited for */
	if (!queue->cqs[slot->domain])
		return 0;
	return queue->ops->domain_supports(domains->domains[slot->domain].fabric,
				       FABRIC_CAN_ATOMICS);
}

int home_able(const struct rmem_queue *queue)
{
	int err = -ENOTSUP;

	for (unsigned i = 0; i < queue->channels.n && err; i++)
		err = slot_able(queue, &queue->channels.slots[i]);
	return err;
}

/* Those of `among` to which the queue has channels that carry atomics. */
static unsigned endpoints_able(const struct rmem_queue *queue, unsigned among)
{
	unsigned endpoints = 0;

	for (unsigned i = 0; i < queue->channels.n; i++) {
		const struct channel_slot *slot = &queue->channels.slots[i];
		unsigned bit = 1u << slot->endpoint;

		if ((among & bit) && !(endpoints & bit) && slot_able(queue, slot) == 0)
			endpoints |= bit;
	}
	return endpoints;
}

/* Have the server asked, unless it is already.  False: the queue leads to none of these. */
static bool home_want(struct rmem_queue *queue, struct rmem_lease *lease,
		      unsigned among)
{
	unsigned endpoints = endpoints_able(queue, among), nobody = 0;

	if (endpoints == 0)
		return false;
	if (atomic_compare_exchange_strong(&lease->home.wanted, &nobody,
					   (unsigned)__builtin_ctz(endpoints) + 1)) {
		leases_want(lease->session);
		session_wake(lease->session);
	}
	return true;
}

int home_find(struct rmem_queue *queue, struct rmem_lease *lease, unsigned among,
	      unsigned *ret_endpoints, const char **ret_why)
{
	struct home *home = &lease->home;
	int state = atomic_load_explicit(&home->state, memory_order_acquire);
	unsigned endpoints;

	if (state == HOME_UNKNOWN) {
		*ret_why = "its memory is not lent through a device with atomics that "
			   "this queue has a channel to";
		return home_want(queue, lease, among) ? -EAGAIN : -ENOTSUP;
	}
	/* those that wait for these news go first */
	if (atomic_load_explicit(&queue->news, memory_order_acquire))
		return -EAGAIN;
	*ret_why = home->text;
	if (state == HOME_REFUSED)
		return home->err;
	if (home->endpoints && !(home->endpoints & among)) {
		*ret_why =
			"this part of the lease is not lent through the device that is "
			"its atomic home";
		return -ENOTSUP;
	}
	endpoints = endpoints_able(queue, home->endpoints & among);
	if (endpoints == 0)
		return -ENOTSUP;
	*ret_endpoints = endpoints;
	return 0;
}

/* ---- the session's side ---- */

static bool is_there(const struct wire_endpoint *endpoint, const struct wire_home *home)
{
	return endpoint->fabric == home->fabric &&
	       strcmp(endpoint->device, home->device) == 0;
}

static void home_set(struct rmem_lease *lease, const struct wire_home *answer)
{
	const struct wire_welcome *welcome = &lease->session->welcome;
	struct home *home = &lease->home;

	for (unsigned i = 0; i < welcome->n_endpoints; i++)
		if (is_there(&welcome->endpoints[i], answer))
			home->endpoints |= 1u << i;
	(void)snprintf(home->text, sizeof(home->text),
		       "the atomic home of the lease is %s%s, and this queue has no "
		       "channel there",
		       answer->fabric == WIRE_FABRIC_TCP ? "tcp"
							 : "the server's RDMA device ",
		       answer->device);
	atomic_store_explicit(&home->state, HOME_KNOWN, memory_order_release);
}

static int home_done(void *ctx, int err, const struct wire_msg *reply)
{
	struct rmem_lease *lease = ctx;
	struct home *home = &lease->home;

	home->call = NULL;
	/* a queue that sees the state must see that there is news, too: home_find() */
	queues_news(lease->session);
	if (err) {
		home->err = err;
		(void)snprintf(home->text, sizeof(home->text), "%.*s",
			       HOME_TEXT_BYTES - 1, err_text());
		atomic_store_explicit(&home->state, HOME_REFUSED, memory_order_release);
	} else {
		home_set(lease, &reply->home);
	}
	return 0;
}

void home_work(struct rmem_lease *lease)
{
	struct home *home = &lease->home;
	unsigned wanted = atomic_load_explicit(&home->wanted, memory_order_acquire);
	struct wire_msg *request;

	if (wanted == 0 || home->call || atomic_load(&home->state) != HOME_UNKNOWN)
		return;
	/* where it cannot be asked for, it is at the next occasion: look again */
	leases_want(lease->session);
	request = calloc(1, sizeof(*request));
	if (!request)
		return;
	request->type = WIRE_TYPE_fix_home;
	request->fix_home.lease = lease->id;
	request->fix_home.endpoint = (uint8_t)(wanted - 1);
	(void)control_call(lease->session->control, request, home_done, lease,
			   &home->call);
	free(request);
}

void home_forget(struct rmem_lease *lease)
{
	if (lease->home.call)
		session_abandon(lease->session, lease->home.call);
	lease->home.call = NULL;
}
