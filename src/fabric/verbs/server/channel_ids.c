/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/channel_ids.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"

static void slot_deliver(struct verbs_message *message)
{
	struct verbs_channel_id *slot =
		container_of(message, struct verbs_channel_id, message);

	/* first: what comes after it needs a message of its own */
	atomic_store(&slot->posted, false);
	/* a channel has several receives, and ends once */
	if (!slot->channel || slot->told || atomic_load(&slot->flushed) != slot->use)
		return;
	slot->told = true;
	slot->ids->flushed(slot->channel);
}

int verbs_channel_ids_init(struct verbs_channel_ids *ids, unsigned n,
			   struct mailbox *mailbox, void (*flushed)(void *channel))
{
	*ids = (struct verbs_channel_ids){ .n = n,
					   .mailbox = mailbox,
					   .flushed = flushed };
	ids->slot = calloc(n, sizeof(*ids->slot));
	if (!ids->slot)
		return err_errno(-ENOMEM, "room for %u channels", n);
	/* a default mutex cannot fail to initialise */
	(void)pthread_mutex_init(&ids->inband_lock, NULL);
	for (unsigned i = n; i-- > 0;) {
		ids->slot[i].ids = ids;
		ids->slot[i].message.deliver = slot_deliver;
		ids->slot[i].next_free = ids->free;
		ids->free = &ids->slot[i];
	}
	return 0;
}

void verbs_channel_ids_destroy(struct verbs_channel_ids *ids)
{
	if (!ids->slot)
		return;
	(void)pthread_mutex_destroy(&ids->inband_lock);
	free(ids->slot);
	ids->slot = NULL;
}

bool verbs_channel_ids_idle(struct verbs_channel_ids *ids)
{
	for (unsigned i = 0; i < ids->n; i++)
		if (atomic_load(&ids->slot[i].posted))
			return false;
	return true;
}

int verbs_channel_ids_alloc(struct verbs_channel_ids *ids, void *channel,
			    uint64_t *ret_number)
{
	struct verbs_channel_id *slot = ids->free;

	if (!slot)
		return err_set(-ENOSPC, "all %u channels of the device are in use",
			       ids->n);
	ids->free = slot->next_free;
	ids->used++;
	(void)pthread_mutex_lock(&ids->inband_lock);
	slot->use++;
	(void)pthread_mutex_unlock(&ids->inband_lock);
	slot->channel = channel;
	slot->told = false;
	*ret_number = (uint64_t)slot->use << 32 | (uint64_t)(slot - ids->slot);
	return 0;
}

void verbs_channel_ids_free(struct verbs_channel_ids *ids, uint64_t number)
{
	struct verbs_channel_id *slot = &ids->slot[number & UINT32_MAX];

	slot->channel = NULL;
	slot->next_free = ids->free;
	ids->free = slot;
	ids->used--;
}

void verbs_channel_ids_set_inband(struct verbs_channel_ids *ids, uint64_t number,
				  struct verbs_inband_server *inband)
{
	struct verbs_channel_id *slot = &ids->slot[number & UINT32_MAX];
	struct verbs_inband_server *before;

	(void)pthread_mutex_lock(&ids->inband_lock);
	before = slot->inband;
	slot->inband = inband;
	(void)pthread_mutex_unlock(&ids->inband_lock);
	if (!before)
		return;
	fair_lock_acquire(before->lock);
	fair_lock_release(before->lock);
}

struct verbs_inband_server *verbs_channel_ids_lock_inband(struct verbs_channel_ids *ids,
							  uint64_t number)
{
	struct verbs_inband_server *inband = NULL;
	struct verbs_channel_id *slot;

	if ((number & UINT32_MAX) >= ids->n)
		return NULL;
	slot = &ids->slot[number & UINT32_MAX];
	(void)pthread_mutex_lock(&ids->inband_lock);
	if (slot->use == number >> 32)
		inband = slot->inband;
	/* before inband_lock is released: afterwards *inband may be freed */
	if (inband)
		fair_lock_acquire(inband->lock);
	(void)pthread_mutex_unlock(&ids->inband_lock);
	return inband;
}

void verbs_channel_ids_flushed(struct verbs_channel_ids *ids, uint64_t number)
{
	struct verbs_channel_id *slot;

	if ((number & UINT32_MAX) >= ids->n)
		return;
	slot = &ids->slot[number & UINT32_MAX];
	atomic_store(&slot->flushed, (unsigned)(number >> 32));
	if (!atomic_exchange(&slot->posted, true))
		mailbox_post(ids->mailbox, &slot->message.link);
}
