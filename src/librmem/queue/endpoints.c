/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/endpoints.h"

#include <errno.h>

#include "librmem/lease/lease.h"
#include "librmem/session/session.h"

static int channel_able(const struct rmem_queue *queue, const struct channel *channel,
			enum fabric_capability capability)
{
	const struct domain_set *domains = queue->session->domains;

	/* a domain that is away is waited for, without a check */
	if (!queue->cqs[channel->domain])
		return 0;
	return queue->ops->domain_supports(domains->domains[channel->domain].fabric,
					   capability);
}

int endpoints_check(const struct rmem_queue *queue, enum fabric_capability capability)
{
	int err = -ENOTSUP;

	for (unsigned i = 0; i < queue->channels.n && err; i++)
		err = channel_able(queue, &queue->channels.all[i], capability);
	return err;
}

unsigned endpoints_able(const struct rmem_queue *queue, unsigned among,
			enum fabric_capability capability)
{
	unsigned endpoints = 0;

	for (unsigned i = 0; i < queue->channels.n; i++) {
		const struct channel *channel = &queue->channels.all[i];
		unsigned bit = 1u << channel->endpoint;

		if ((among & bit) && !(endpoints & bit) &&
		    channel_able(queue, channel, capability) == 0)
			endpoints |= bit;
	}
	return endpoints;
}

/* Ask the server for the atomic device, unless a queue has asked.  False: the queue has no capable
 * channel to `among`. */
static bool atomic_device_want(struct rmem_queue *queue, struct rmem_lease *lease,
			       unsigned among)
{
	unsigned endpoints = endpoints_able(queue, among, FABRIC_CAN_ATOMICS),
		 nobody = 0;

	if (endpoints == 0)
		return false;
	if (atomic_compare_exchange_strong(&lease->atomic_device.wanted, &nobody,
					   (unsigned)__builtin_ctz(endpoints) + 1))
		lease_want(lease);
	return true;
}

int endpoints_atomic(struct rmem_queue *queue, struct rmem_lease *lease, unsigned among,
		     unsigned *ret_endpoints, const char **ret_why)
{
	struct atomic_device *atomic_device = &lease->atomic_device;
	int state = atomic_load_explicit(&atomic_device->state, memory_order_acquire);
	unsigned endpoints;

	if (state == ATOMIC_DEVICE_UNKNOWN) {
		*ret_why = "its memory is not lent through a device with atomics that "
			   "this queue has a channel to";
		return atomic_device_want(queue, lease, among) ? -EAGAIN : -ENOTSUP;
	}
	/* atomics that wait for this answer go first */
	if (atomic_load_explicit(&queue->woken, memory_order_acquire))
		return -EAGAIN;
	*ret_why = atomic_device->text;
	if (state == ATOMIC_DEVICE_REFUSED)
		return atomic_device->err;
	if (atomic_device->endpoints && !(atomic_device->endpoints & among)) {
		*ret_why =
			"this part of the lease is not lent through the device that is "
			"its atomic device";
		return -ENOTSUP;
	}
	endpoints = endpoints_able(queue, atomic_device->endpoints & among,
				   FABRIC_CAN_ATOMICS);
	if (endpoints == 0)
		return -ENOTSUP;
	*ret_endpoints = endpoints;
	return 0;
}
