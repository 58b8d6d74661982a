/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/holder.h"

#include "rmemd/lease/attachment.h"

void holder_init(struct holder *holder, uint64_t id, struct tenant *tenant)
{
	*holder = (struct holder){ .id = id, .tenant = tenant };
	list_init(&holder->attachments);
	list_init(&holder->owned);
}

void holder_fence(struct holder *holder)
{
	list_for_each_safe(node, &holder->attachments) {
		struct attachment *attachment =
			container_of(node, struct attachment, in_holder);
		struct lease *lease = attachment->lease;

		attachment_fence(attachment);
		if (lease->state == LEASE_GRANTING)
			lease_end(lease, WIRE_REASON_FENCED, holder);
		lease_settle(lease);
	}
}

void holder_release(struct holder *holder)
{
	struct attachment *attachment;
	struct lease *lease;

	while ((lease = list_first(&holder->owned, struct lease, in_owner))) {
		lease_end(lease, WIRE_REASON_FREED, holder);
		lease_settle(lease);
	}
	while ((attachment = list_first(&holder->attachments, struct attachment,
					in_holder))) {
		lease = attachment->lease;
		attachment_end(attachment);
		lease_settle(lease);
	}
}

uint64_t holder_lent_bytes(const struct holder *holder)
{
	uint64_t bytes = 0;

	list_for_each(node, &holder->attachments)
		bytes += container_of(node, struct attachment, in_holder)->lease->bytes;
	return bytes;
}
