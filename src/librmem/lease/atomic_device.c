/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/lease/atomic_device.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "librmem/lease/lease.h"
#include "librmem/queue/queue.h"
#include "librmem/session/session.h"

/* ---- the queue's side ---- */

static int channel_able(const struct rmem_queue *queue, const struct channel *channel)
{
	const struct domain_set *domains = &queue->session->domains;

	/* one that is away is not asked, but waited for */
	if (!queue->cqs[channel->domain])
		return 0;
	return queue->ops->domain_supports(domains->domains[channel->domain].fabric,
					   FABRIC_CAN_ATOMICS);
}

int atomic_device_able(const struct rmem_queue *queue)
{
	int err = -ENOTSUP;

	for (unsigned i = 0; i < queue->channels.n && err; i++)
		err = channel_able(queue, &queue->channels.all[i]);
	return err;
}

/* Those of `among` to which the queue has channels that carry atomics. */
static unsigned endpoints_able(const struct rmem_queue *queue, unsigned among)
{
	unsigned endpoints = 0;

	for (unsigned i = 0; i < queue->channels.n; i++) {
		const struct channel *channel = &queue->channels.all[i];
		unsigned bit = 1u << channel->endpoint;

		if ((among & bit) && !(endpoints & bit) &&
		    channel_able(queue, channel) == 0)
			endpoints |= bit;
	}
	return endpoints;
}

/* Have the server asked, unless it is already.  False: the queue leads to none of these. */
static bool atomic_device_want(struct rmem_queue *queue, struct rmem_lease *lease,
			       unsigned among)
{
	unsigned endpoints = endpoints_able(queue, among), nobody = 0;

	if (endpoints == 0)
		return false;
	if (atomic_compare_exchange_strong(&lease->atomic_device.wanted, &nobody,
					   (unsigned)__builtin_ctz(endpoints) + 1)) {
		leases_want(lease->session);
		session_wake(lease->session);
	}
	return true;
}

int atomic_device_find(struct rmem_queue *queue, struct rmem_lease *lease,
		       unsigned among, unsigned *ret_endpoints, const char **ret_why)
{
	struct atomic_device *atomic_device = &lease->atomic_device;
	int state = atomic_load_explicit(&atomic_device->state, memory_order_acquire);
	unsigned endpoints;

	if (state == HOME_UNKNOWN) {
		*ret_why = "its memory is not lent through a device with atomics that "
			   "this queue has a channel to";
		return atomic_device_want(queue, lease, among) ? -EAGAIN : -ENOTSUP;
	}
	/* those that wait for these news go first */
	if (atomic_load_explicit(&queue->woken, memory_order_acquire))
		return -EAGAIN;
	*ret_why = atomic_device->text;
	if (state == HOME_REFUSED)
		return atomic_device->err;
	if (atomic_device->endpoints && !(atomic_device->endpoints & among)) {
		*ret_why =
			"this part of the lease is not lent through the device that is "
			"its atomic home";
		return -ENOTSUP;
	}
	endpoints = endpoints_able(queue, atomic_device->endpoints & among);
	if (endpoints == 0)
		return -ENOTSUP;
	*ret_endpoints = endpoints;
	return 0;
}

/* ---- the session's side ---- */

static bool is_there(const struct wire_endpoint *endpoint,
		     const struct wire_home *atomic_device)
{
	return endpoint->fabric == atomic_device->fabric &&
	       strcmp(endpoint->device, atomic_device->device) == 0;
}

static void atomic_device_set(struct rmem_lease *lease, const struct wire_home *answer)
{
	const struct wire_welcome *welcome = &lease->session->welcome;
	struct atomic_device *atomic_device = &lease->atomic_device;

	for (unsigned i = 0; i < welcome->n_endpoints; i++)
		if (is_there(&welcome->endpoints[i], answer))
			atomic_device->endpoints |= 1u << i;
	(void)snprintf(atomic_device->text, sizeof(atomic_device->text),
		       "the atomic home of the lease is %s%s, and this queue has no "
		       "channel there",
		       answer->fabric == WIRE_FABRIC_TCP ? "tcp"
							 : "the server's RDMA device ",
		       answer->device);
	atomic_store_explicit(&atomic_device->state, HOME_KNOWN, memory_order_release);
}

static int atomic_device_done(void *ctx, int err, const struct wire_msg *reply)
{
	struct rmem_lease *lease = ctx;
	struct atomic_device *atomic_device = &lease->atomic_device;

	atomic_device->call = NULL;
	/* a queue that sees the state must see that there is news, too: atomic_device_find() */
	queues_wake(lease->session);
	if (err) {
		atomic_device->err = err;
		(void)snprintf(atomic_device->text, sizeof(atomic_device->text), "%.*s",
			       HOME_TEXT_BYTES - 1, err_text());
		atomic_store_explicit(&atomic_device->state, HOME_REFUSED,
				      memory_order_release);
	} else {
		atomic_device_set(lease, &reply->home);
	}
	return 0;
}

void atomic_device_work(struct rmem_lease *lease)
{
	struct atomic_device *atomic_device = &lease->atomic_device;
	unsigned wanted =
		atomic_load_explicit(&atomic_device->wanted, memory_order_acquire);
	struct wire_msg *request;

	if (wanted == 0 || atomic_device->call ||
	    atomic_load(&atomic_device->state) != HOME_UNKNOWN)
		return;
	/* where it cannot be asked for, it is at the next occasion: look again */
	leases_want(lease->session);
	request = calloc(1, sizeof(*request));
	if (!request)
		return;
	request->type = WIRE_TYPE_fix_home;
	request->fix_home.lease = lease->id;
	request->fix_home.endpoint = (uint8_t)(wanted - 1);
	(void)connection_call(lease->session->connection, request, atomic_device_done,
			      lease, &atomic_device->call);
	free(request);
}

void atomic_device_forget(struct rmem_lease *lease)
{
	if (lease->atomic_device.call)
		session_abandon(lease->session, lease->atomic_device.call);
	lease->atomic_device.call = NULL;
}
