/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/channel_ids.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"

static void slot_deliver(struct verbs_message *message)
{
	struct verbs_slot *slot = container_of(message, struct verbs_slot, message);

	/* first: what comes after it needs a message of its own */
	atomic_store(&slot->posted, false);
	/* a channel has several receives, and ends once */
	if (!slot->channel || slot->told || atomic_load(&slot->flushed) != slot->use)
		return;
	slot->told = true;
	slot->slots->flushed(slot->channel);
}

int verbs_slots_init(struct verbs_slots *slots, unsigned n, struct mailbox *mailbox,
		     void (*flushed)(void *channel))
{
	*slots = (struct verbs_slots){ .n = n, .mailbox = mailbox, .flushed = flushed };
	slots->slot = calloc(n, sizeof(*slots->slot));
	if (!slots->slot)
		return err_errno(-ENOMEM, "room for %u channels", n);
	/* a default mutex cannot fail to initialise */
	(void)pthread_mutex_init(&slots->desks_lock, NULL);
	for (unsigned i = n; i-- > 0;) {
		slots->slot[i].slots = slots;
		slots->slot[i].message.deliver = slot_deliver;
		slots->slot[i].next_free = slots->free;
		slots->free = &slots->slot[i];
	}
	return 0;
}

void verbs_slots_destroy(struct verbs_slots *slots)
{
	if (!slots->slot)
		return;
	(void)pthread_mutex_destroy(&slots->desks_lock);
	free(slots->slot);
	slots->slot = NULL;
}

bool verbs_slots_idle(struct verbs_slots *slots)
{
	for (unsigned i = 0; i < slots->n; i++)
		if (atomic_load(&slots->slot[i].posted))
			return false;
	return true;
}

int verbs_slots_take(struct verbs_slots *slots, void *channel, uint64_t *ret_number)
{
	struct verbs_slot *slot = slots->free;

	if (!slot)
		return err_set(-ENOSPC, "all %u channels of the device are in use",
			       slots->n);
	slots->free = slot->next_free;
	slots->used++;
	(void)pthread_mutex_lock(&slots->desks_lock);
	slot->use++;
	(void)pthread_mutex_unlock(&slots->desks_lock);
	slot->channel = channel;
	slot->told = false;
	*ret_number = (uint64_t)slot->use << 32 | (uint64_t)(slot - slots->slot);
	return 0;
}

void verbs_slots_release(struct verbs_slots *slots, uint64_t number)
{
	struct verbs_slot *slot = &slots->slot[number & UINT32_MAX];

	slot->channel = NULL;
	slot->next_free = slots->free;
	slots->free = slot;
	slots->used--;
}

void verbs_slots_desk(struct verbs_slots *slots, uint64_t number,
		      struct verbs_desk *desk)
{
	struct verbs_slot *slot = &slots->slot[number & UINT32_MAX];
	struct verbs_desk *before;

	(void)pthread_mutex_lock(&slots->desks_lock);
	before = slot->desk;
	slot->desk = desk;
	(void)pthread_mutex_unlock(&slots->desks_lock);
	if (!before)
		return;
	verbs_gate_enter(before->gate);
	verbs_gate_leave(before->gate);
}

struct verbs_desk *verbs_slots_enter(struct verbs_slots *slots, uint64_t number)
{
	struct verbs_desk *desk = NULL;
	struct verbs_slot *slot;

	if ((number & UINT32_MAX) >= slots->n)
		return NULL;
	slot = &slots->slot[number & UINT32_MAX];
	(void)pthread_mutex_lock(&slots->desks_lock);
	if (slot->use == number >> 32)
		desk = slot->desk;
	/* before the lock is let go of, or the desk could be gone */
	if (desk)
		verbs_gate_enter(desk->gate);
	(void)pthread_mutex_unlock(&slots->desks_lock);
	return desk;
}

void verbs_slots_flush(struct verbs_slots *slots, uint64_t number)
{
	struct verbs_slot *slot;

	if ((number & UINT32_MAX) >= slots->n)
		return;
	slot = &slots->slot[number & UINT32_MAX];
	atomic_store(&slot->flushed, (unsigned)(number >> 32));
	if (!atomic_exchange(&slot->posted, true))
		mailbox_post(slots->mailbox, &slot->message.link);
}
