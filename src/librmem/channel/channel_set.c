/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/channel/channel_set.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"

static bool domain_local(const struct domain *domain, int node)
{
	return node >= 0 && domain->endpoint.node == node;
}

/* All domains, those on the node first. */
static void domains_order(const struct domain_set *domains, int node,
			  unsigned order[WIRE_ENDPOINTS_MAX])
{
	unsigned n = 0;

	for (unsigned i = 0; i < domains->n; i++)
		if (domain_local(&domains->domains[i], node))
			order[n++] = i;
	for (unsigned i = 0; i < domains->n; i++)
		if (!domain_local(&domains->domains[i], node))
			order[n++] = i;
}

/* Of n channels that go round; those of domains that none goes to, but one has to, come last.
 * Returns how many there are then. */
static unsigned domains_deal(const struct domain_set *domains, int node, unsigned n,
			     unsigned *deal)
{
	unsigned order[WIRE_ENDPOINTS_MAX], total = n;

	domains_order(domains, node, order);
	for (unsigned i = 0; i < n; i++)
		deal[i] = order[i % domains->n];
	for (unsigned i = n; i < domains->n; i++)
		if (domain_sole(&domains->domains[order[i]]))
			deal[total++] = order[i];
	return total;
}

int channel_set_create(const struct domain_set *domains, int node, unsigned n,
		       unsigned depth, struct channel_set *ret_set)
{
	unsigned deal[RMEM_CHANNELS_MAX + WIRE_ENDPOINTS_MAX];
	struct channel *channels;
	struct fragment **fragments;
	unsigned asked = n, places = 1;

	while (places < depth)
		places *= 2;
	n = domains_deal(domains, node, n, deal);
	channels = calloc(n, sizeof(*channels));
	fragments = calloc((size_t)n * places, sizeof(*fragments));
	if (!channels || !fragments) {
		free(channels);
		free(fragments);
		return err_set(-ENOMEM, "no memory for %u channels", n);
	}
	for (unsigned i = 0; i < n; i++) {
		channels[i].domain = deal[i];
		channels[i].endpoint = domains->domains[channels[i].domain].number;
		channels[i].fragments = &fragments[(size_t)i * places];
		channels[i].extra = i >= asked;
		channels[i].stage = CHANNEL_USED;
		channels[i].follower = &channels[i + 1 < n ? i + 1 : 0];
	}
	*ret_set = (struct channel_set){
		.ops = domains->ops,
		.n = n,
		.depth = depth,
		.mask = places - 1,
		.all = channels,
		.next = channels,
	};
	return 0;
}

void channel_set_destroy(struct channel_set *set)
{
	if (!set->all)
		return;
	free(set->all[0].fragments);
	free(set->all);
	set->all = NULL;
}

unsigned channel_set_endpoints(const struct channel_set *set)
{
	unsigned endpoints = 0;

	for (unsigned i = 0; i < set->n; i++)
		endpoints |= 1u << set->all[i].endpoint;
	return endpoints;
}

/* Whether a channel that takes the segment may come to have a credit. */
static enum pick none_takes(const struct channel_set *set, unsigned endpoints,
			    const struct attachment *attachment, unsigned segment)
{
	enum pick result = PICK_WAIT;

	/* it is still asked where they are done */
	if (!endpoints)
		return PICK_WAIT;
	endpoints &= attachment->endpoints[segment];
	if (!(endpoints & channel_set_endpoints(set)))
		return PICK_NEVER;
	for (unsigned i = 0; i < set->n; i++) {
		const struct channel *channel = &set->all[i];

		if (!channel->live || !(endpoints & (1u << channel->endpoint)))
			continue;
		if (attachment->keys[segment][channel->endpoint].present)
			return PICK_WAIT;
		result = PICK_NO_KEY;
	}
	return result;
}

enum pick channel_set_search(struct channel_set *set, unsigned endpoints,
			     const struct attachment *attachment, unsigned segment,
			     struct channel **ret_channel)
{
	for (unsigned i = 1; i < set->n; i++) {
		struct channel *channel = channel_set_next(set);

		if (channel_set_takes(set, channel, endpoints, attachment, segment)) {
			*ret_channel = channel;
			return PICK_OK;
		}
	}
	return none_takes(set, endpoints, attachment, segment);
}

void channel_set_kill(struct channel_set *set, struct channel *channel, uint64_t now_ns)
{
	if (!channel->live)
		return;
	channel->live = false;
	channel->flush_ns = now_ns + CHANNEL_FLUSH_MS * UINT64_C(1000000);
	set->n_dead++;
	set->ops->abort(channel->fabric);
}
