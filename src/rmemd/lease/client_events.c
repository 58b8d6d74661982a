/* SPDX-License-Identifier: BSD-3-Clause */
/* What clients are told of their leases without having asked: kept at the attachment until the
 * client takes it, so that it is once for each lease and as things are then. */
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/lease_table.h"

/* At once, or when the client takes it. */
void attachment_tell(struct attachment *attachment, const struct leases *leases,
		     unsigned news)
{
	struct lease_client *client = attachment->client;

	attachment->news |= news;
	if (list_empty(&attachment->in_events))
		list_append(&client->in_events, &attachment->in_events);
	leases->events->news(leases->ctx, client);
}

void attachment_tell_changed(struct attachment *attachment, unsigned reason)
{
	/* one that was cut is that also when it became longer since */
	if (reason || !(attachment->news & EVENT_CHANGED))
		attachment->why = reason;
	attachment_tell(attachment, attachment->lease->leases, EVENT_CHANGED);
}

static bool take_changed(const struct attachment *attachment, struct wire_msg *ret_msg)
{
	ret_msg->type = WIRE_TYPE_changed;
	ret_msg->changed.lease = attachment->lease->id;
	ret_msg->changed.reason = (uint8_t)attachment->why;
	return true;
}

static bool take_ended(struct attachment *attachment, struct wire_msg *ret_msg)
{
	ret_msg->type = WIRE_TYPE_revoked;
	ret_msg->revoked.lease = attachment->ended;
	ret_msg->revoked.reason = (uint8_t)attachment->why;
	attachment_free(attachment);
	return true;
}

/* The first of what is to be told of one.  False: it is over before the client heard of it. */
static bool take_one(struct attachment *attachment, struct wire_msg *ret_msg)
{
	unsigned first = attachment->news & -attachment->news;

	attachment->news &= ~first;
	if (!attachment->news)
		list_remove(&attachment->in_events);
	if (first == EVENT_ENDED)
		return take_ended(attachment, ret_msg);
	if (first == EVENT_CHANGED)
		return take_changed(attachment, ret_msg);
	ret_msg->type = WIRE_TYPE_shrinking;
	return attachment_take_wanted(attachment, &ret_msg->shrinking);
}

bool lease_next_event(struct lease_client *client, struct wire_msg *ret_msg)
{
	struct attachment *attachment;

	while ((attachment =
			list_first(&client->in_events, struct attachment, in_events)))
		if (take_one(attachment, ret_msg))
			return true;
	return false;
}

void lease_client_drop_events(struct lease_client *client)
{
	struct attachment *attachment;

	while ((attachment =
			list_first(&client->in_events, struct attachment, in_events))) {
		list_remove(&attachment->in_events);
		attachment->news = 0;
		if (attachment->ended)
			attachment_free(attachment);
	}
}
