/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/channelset.h"

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

int channelset_create(const struct domain_set *domains, int node, unsigned n,
		      unsigned depth, struct channelset *ret_set)
{
	unsigned deal[RMEM_CHANNELS_MAX + WIRE_ENDPOINTS_MAX];
	struct channel_slot *slots;
	struct piece **pieces;
	unsigned asked = n, places = 1;

	while (places < depth)
		places *= 2;
	n = domains_deal(domains, node, n, deal);
	slots = calloc(n, sizeof(*slots));
	pieces = calloc((size_t)n * places, sizeof(*pieces));
	if (!slots || !pieces) {
		free(slots);
		free(pieces);
		return err_set(-ENOMEM, "no memory for %u channels", n);
	}
	for (unsigned i = 0; i < n; i++) {
		slots[i].domain = deal[i];
		slots[i].endpoint = domains->domains[slots[i].domain].number;
		slots[i].pieces = &pieces[(size_t)i * places];
		slots[i].extra = i >= asked;
		slots[i].stage = SLOT_USED;
		slots[i].follower = &slots[i + 1 < n ? i + 1 : 0];
	}
	*ret_set = (struct channelset){
		.ops = domains->ops,
		.n = n,
		.depth = depth,
		.mask = places - 1,
		.slots = slots,
		.next = slots,
	};
	return 0;
}

void channelset_destroy(struct channelset *set)
{
	if (!set->slots)
		return;
	free(set->slots[0].pieces);
	free(set->slots);
	set->slots = NULL;
}

unsigned channelset_endpoints(const struct channelset *set)
{
	unsigned endpoints = 0;

	for (unsigned i = 0; i < set->n; i++)
		endpoints |= 1u << set->slots[i].endpoint;
	return endpoints;
}

/* Whether a channel that takes the segment may come to have a credit. */
static enum pick none_takes(const struct channelset *set, unsigned endpoints,
			    const struct attachment *attachment, unsigned segment)
{
	enum pick result = PICK_WAIT;

	/* it is still asked where they are done */
	if (!endpoints)
		return PICK_WAIT;
	endpoints &= attachment->endpoints[segment];
	if (!(endpoints & channelset_endpoints(set)))
		return PICK_NEVER;
	for (unsigned i = 0; i < set->n; i++) {
		const struct channel_slot *slot = &set->slots[i];

		if (!slot->live || !(endpoints & (1u << slot->endpoint)))
			continue;
		if (attachment->keys[segment][slot->endpoint].present)
			return PICK_WAIT;
		result = PICK_NO_KEY;
	}
	return result;
}

enum pick channelset_search(struct channelset *set, unsigned endpoints,
			    const struct attachment *attachment, unsigned segment,
			    struct channel_slot **ret_slot)
{
	for (unsigned i = 1; i < set->n; i++) {
		struct channel_slot *slot = channelset_next(set);

		if (channelset_takes(set, slot, endpoints, attachment, segment)) {
			*ret_slot = slot;
			return PICK_OK;
		}
	}
	return none_takes(set, endpoints, attachment, segment);
}

void channelset_kill(struct channelset *set, struct channel_slot *slot, uint64_t now_ns)
{
	if (!slot->live)
		return;
	slot->live = false;
	slot->flush_ns = now_ns + CHANNEL_FLUSH_MS * UINT64_C(1000000);
	set->n_dead++;
	set->ops->abort(slot->channel);
}
