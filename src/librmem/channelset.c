/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/channelset.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"

int channelset_create(const struct domain_set *domains, unsigned n, unsigned depth,
		      struct channelset *ret_set)
{
	struct channel_slot *slots = calloc(n, sizeof(*slots));
	struct fabric_wr *batches = calloc((size_t)n * CHANNEL_BATCH, sizeof(*batches));

	if (!slots || !batches) {
		free(slots);
		free(batches);
		return err_set(-ENOMEM, "no memory for %u channels", n);
	}
	for (unsigned i = 0; i < n; i++) {
		slots[i].domain = i % domains->n;
		slots[i].endpoint = domains->domains[slots[i].domain].number;
		slots[i].batch = &batches[(size_t)i * CHANNEL_BATCH];
		slots[i].stage = SLOT_USED;
	}
	*ret_set = (struct channelset){
		.ops = domains->ops,
		.n = n,
		.depth = depth,
		.slots = slots,
	};
	return 0;
}

void channelset_destroy(struct channelset *set)
{
	if (!set->slots)
		return;
	free(set->slots[0].batch);
	free(set->slots);
	set->slots = NULL;
}

enum pick channelset_pick(struct channelset *set, const struct attachment *attachment,
			  unsigned segment, struct channel_slot **ret_slot)
{
	enum pick result = PICK_WAIT;
	bool keyed = false;

	for (unsigned i = 0; i < set->n; i++) {
		unsigned at =
			set->next + i < set->n ? set->next + i : set->next + i - set->n;
		struct channel_slot *slot = &set->slots[at];

		if (!slot->live)
			continue;
		if (!attachment->keys[segment][slot->endpoint].present) {
			result = PICK_NO_KEY;
			continue;
		}
		keyed = true;
		if (slot->blocked || slot->in_flight >= set->depth)
			continue;
		set->next = at + 1 < set->n ? at + 1 : 0;
		*ret_slot = slot;
		return PICK_OK;
	}
	return keyed ? PICK_WAIT : result;
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
