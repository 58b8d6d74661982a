/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/channel_set.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"

/* First those on the node, and last those to be avoided. */
static unsigned domain_rank(const struct domain_set *domains, unsigned domain, int node,
			    unsigned avoided)
{
	if (avoided & (1u << domain))
		return 2;
	return node >= 0 && domains->domains[domain].endpoint.node == node ? 0 : 1;
}

static void domains_order(const struct domain_set *domains, int node, unsigned avoided,
			  unsigned order[WIRE_ENDPOINTS_MAX])
{
	unsigned n = 0;

	for (unsigned rank = 0; rank <= 2; rank++)
		for (unsigned i = 0; i < domains->n; i++)
			if (domain_rank(domains, i, node, avoided) == rank)
				order[n++] = i;
}

/* Deal n channels to the domains in turn, then one to each sole domain that has none.  Returns the
 * number of channels. */
static unsigned domains_deal(const struct domain_set *domains, int node,
			     unsigned avoided, unsigned n, unsigned *deal)
{
	unsigned order[WIRE_ENDPOINTS_MAX], total = n;

	domains_order(domains, node, avoided, order);
	for (unsigned i = 0; i < n; i++)
		deal[i] = order[i % domains->n];
	for (unsigned i = n; i < domains->n; i++)
		if (domain_sole(&domains->domains[order[i]]))
			deal[total++] = order[i];
	return total;
}

static void send_sides_init(struct channel_set *set, const struct domain_set *domains,
			    const unsigned *deal, unsigned asked)
{
	for (unsigned i = 0; i < set->n; i++) {
		struct channel *channel = &set->all[i];
		struct send_side *side = &set->sides[i];

		channel->domain = side->domain = deal[i];
		channel->endpoint = side->endpoint = domains->domains[deal[i]].number;
		side->deaf = domains->domains[deal[i]].endpoint.flags &
			     FABRIC_ENDPOINT_CONFIRM;
		channel->extra = i >= asked;
		channel->backoff.max_ms = CHANNEL_BACKOFF_MAX_MS;
		channel->owner = side;
		side->channel = channel;
		side->posted = &set->posted[(size_t)i * (set->mask + 1)];
		side->runs = &set->runs[(size_t)i * (set->mask + 1)];
		side->follower = &set->sides[i + 1 < set->n ? i + 1 : 0];
	}
}

int channel_set_create(const struct domain_set *domains, int node, unsigned avoided,
		       unsigned n, unsigned depth, struct channel_set *ret_set)
{
	unsigned deal[RMEM_CHANNELS_MAX + WIRE_ENDPOINTS_MAX];
	unsigned total = domains_deal(domains, node, avoided, n, deal), slots = 1;
	struct channel_set *set = ret_set;

	while (slots < depth)
		slots *= 2;
	*set = (struct channel_set){
		.ops = domains->ops,
		.n = total,
		.depth = depth,
		.mask = slots - 1,
		.all = calloc(total, sizeof(*set->all)),
		.sides = calloc(total, sizeof(*set->sides)),
		.posted = calloc((size_t)total * slots, sizeof(*set->posted)),
		.runs = calloc((size_t)total * slots, sizeof(*set->runs)),
	};
	if (!set->all || !set->sides || !set->posted || !set->runs) {
		channel_set_destroy(set);
		return err_set(-ENOMEM, "no memory for %u channels", total);
	}
	set->next = set->sides;
	for (unsigned i = 0; i <= FABRIC_FETCH_ADD; i++)
		set->direct_max[i] = domains->ops->needs_local_mr ? 0 : UINT64_MAX;
	send_sides_init(set, domains, deal, n);
	return 0;
}

void channel_set_destroy(struct channel_set *set)
{
	free(set->runs);
	free(set->posted);
	free(set->sides);
	free(set->all);
	*set = (struct channel_set){ .n = 0 };
}

unsigned channel_set_endpoints(const struct channel_set *set)
{
	unsigned endpoints = 0;

	sides_for_each(side, set)
		endpoints |= 1u << side->endpoint;
	return endpoints;
}

/* The result of channel_set_pick() when no channel has both a credit and an rkey now. */
static enum pick none_can_post(const struct channel_set *set, unsigned endpoints,
			       const struct attachment *attachment, unsigned segment)
{
	enum pick result = PICK_WAIT;

	endpoints &= attachment->endpoints[segment];
	if (!(endpoints & channel_set_endpoints(set)))
		return PICK_NEVER;
	sides_for_each(side, set) {
		if (!side->live || !(endpoints & (1u << side->endpoint)))
			continue;
		if (attachment->keys[segment][side->endpoint].present)
			return PICK_WAIT;
		result = PICK_NO_KEY;
	}
	return result;
}

enum pick channel_set_search(struct channel_set *set, unsigned endpoints,
			     const struct attachment *attachment, unsigned segment,
			     struct send_side **ret_side)
{
	for (unsigned i = 1; i < set->n; i++) {
		struct send_side *side = channel_set_next(set);

		if (channel_set_can_post(set, side, endpoints, attachment, segment)) {
			*ret_side = side;
			return PICK_OK;
		}
	}
	return none_can_post(set, endpoints, attachment, segment);
}

enum pick channel_set_pick_large(struct channel_set *set, unsigned endpoints,
				 const struct attachment *attachment, unsigned segment,
				 struct send_side **ret_side)
{
	uint64_t max = set->ops->large_max ? set->ops->large_max : UINT64_MAX;

	for (unsigned i = 0; i < set->n; i++) {
		struct send_side *side = channel_set_next(set);

		if (side->large_bytes < max &&
		    channel_set_can_post(set, side, endpoints, attachment, segment)) {
			*ret_side = side;
			return PICK_OK;
		}
	}
	return none_can_post(set, endpoints, attachment, segment);
}

void channel_set_connected(struct channel_set *set, struct send_side *side,
			   struct fabric_channel *fabric)
{
	if (set->ops->needs_local_mr) {
		uint64_t *max = &set->direct_max[FABRIC_WRITE];
		uint32_t inline_max = set->ops->inline_max(fabric);

		if (!set->connected || inline_max < *max)
			*max = inline_max;
		set->connected = true;
	}
	assert(!side->fabric && !side->in_flight && !side->n_runs);
	side->fabric = fabric;
	side->live = true;
	side->retired = false;
	side->proven = false;
	side->failed = false;
}

void channel_set_inline_never(struct channel_set *set)
{
	set->direct_max[FABRIC_WRITE] = 0;
	/* later connections leave it so */
	set->connected = true;
}

void channel_set_disconnected(struct channel_set *set, struct send_side *side)
{
	assert(!side->live && set->n_dead > 0);
	side->fabric = NULL;
	set->n_dead--;
}

void channel_set_retire(struct channel_set *set, struct send_side *side)
{
	assert(side->live);
	side->live = false;
	side->retired = true;
	side->flush_ns = UINT64_MAX;
	set->n_dead++;
}

void channel_set_kill(struct channel_set *set, struct send_side *side, uint64_t now_ns)
{
	if (!channel_set_serves(side))
		return;
	set->n_dead += side->live;
	side->live = side->retired = false;
	side->flush_ns = now_ns + CHANNEL_FLUSH_MS * UINT64_C(1000000);
	set->ops->abort(side->fabric);
}
