/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/lease_client.h"

#include <assert.h>
#include <string.h>

#include "rmemd/lease/attachment.h"
#include "rmemd/lease/ledger_record.h"
#include "rmemd/state/ledger.h"
#include "rmemd/lease/origin.h"

void lease_client_init(struct lease_client *client, uint64_t id, struct tenant *tenant)
{
	*client = (struct lease_client){ .id = id, .tenant = tenant };
	list_init(&client->attachments);
	list_init(&client->unfenced);
	list_init(&client->owned);
	list_init(&client->with_events);
	notices_init(&client->notices);
	tenant_ref(tenant);
	tenant->n_sessions++;
}

void lease_client_set_origin(struct lease_client *client, const char *name,
			     const char *peer)
{
	if (origin_is(client->origin, name, peer))
		return;
	origin_unref(client->origin);
	client->origin = origin_new(client->id, name, peer);
}

void lease_client_destroy(struct lease_client *client)
{
	lease_client_drop_events(client);
	assert(lease_client_is_vacant(client) && !client->n_attachments);
	assert(!client->lent_bytes && !client->n_keys && !client->n_watches);
	origin_unref(client->origin);
	client->tenant->n_sessions--;
	tenant_unref(client->tenant);
}

/* ---- the end of its keys ---- */

void lease_client_begin_fence(struct lease_client *client)
{
	lease_client_drop_events(client);
	client->leaving = 0;
	list_splice(&client->unfenced, &client->attachments);
}

bool lease_client_fence(struct lease_client *client, unsigned max)
{
	struct leases *leases = NULL;
	struct attachment *attachment;
	unsigned n = 0;

	while (n < max && (attachment = list_first(&client->unfenced, struct attachment,
						   in_client))) {
		struct lease *lease = attachment->lease;

		leases = lease->leases;
		list_move(&client->attachments, &attachment->in_client);
		n += 1 + attachment_fence(attachment);
		if (lease->state == WIRE_LEASE_GRANTING)
			lease_terminate(lease, WIRE_REASON_FREED, client);
		lease_changed(lease);
	}
	if (leases)
		leases_run(leases);
	return !list_empty(&client->unfenced);
}

void lease_client_begin_leave(struct lease_client *client, unsigned port)
{
	client->leaving |= 1u << port;
	client->n_leaves++;
}

/* The next attachment whose keys at the ports are not ended yet, or NULL.  Those that are done, and
 * new ones, are behind the others. */
static struct attachment *leave_next(const struct lease_client *client)
{
	struct attachment *next =
		list_first(&client->attachments, struct attachment, in_client);

	return next && next->n_leaves != client->n_leaves ? next : NULL;
}

bool lease_client_leave(struct lease_client *client, unsigned max)
{
	struct leases *leases = NULL;
	struct attachment *attachment;
	unsigned n = 0, keys;

	while (client->leaving && n < max && (attachment = leave_next(client))) {
		leases = attachment->lease->leases;
		attachment->n_leaves = client->n_leaves;
		list_move(&client->attachments, &attachment->in_client);
		keys = attachment_leave_ports(attachment, client->leaving);
		n += 1 + keys;
		if (!keys)
			continue;
		if (attachment->lease->state == WIRE_LEASE_READY)
			attachment_add_changed(attachment, WIRE_REASON_UNREACHED);
		lease_changed(attachment->lease);
	}
	if (!leave_next(client))
		client->leaving = 0;
	if (leases)
		leases_run(leases);
	return client->leaving != 0;
}

/* Remove owned leases with about `max` attachments from the ledger, with one commit for all;
 * returns their number. */
static unsigned unrecord_owned(const struct lease_client *client, unsigned max)
{
	struct ledger *ledger = NULL;
	unsigned n_leases = 0, n = 0;

	list_for_each_entry(struct lease, lease, &client->owned, in_owner) {
		if (n >= max)
			break;
		lease_unrecord(lease);
		lease->unrecorded = true;
		ledger = lease->leases->ledger;
		n += 1 + lease->n_attachments;
		n_leases++;
	}
	if (ledger)
		ledger_commit(ledger);
	return n_leases;
}

bool lease_client_release(struct lease_client *client, unsigned max)
{
	unsigned n = unrecord_owned(client, max);
	struct leases *leases = NULL;

	for (unsigned i = 0; i < n; i++) {
		struct lease *lease =
			list_first(&client->owned, struct lease, in_owner);

		leases = lease->leases;
		lease_terminate(lease, WIRE_REASON_FREED, client);
	}
	for (; n < max && !list_empty(&client->attachments); n++) {
		struct attachment *attachment =
			list_first(&client->attachments, struct attachment, in_client);

		leases = attachment->lease->leases;
		attachment_end(attachment);
	}
	if (leases)
		leases_run(leases);
	return !lease_client_is_vacant(client);
}

/* ---- events ---- */

/* Remove the first event of an attachment, and make its message.  False: it is obsolete. */
static bool event_pop(struct attachment *attachment, struct wire_msg *ret_msg)
{
	unsigned first = attachment->events & (~attachment->events + 1);

	attachment->events &= ~first;
	if (!attachment->events)
		list_remove(&attachment->in_events);
	switch (first) {
	case EVENT_ENDED:
		ret_msg->type = WIRE_TYPE_revoked;
		ret_msg->revoked.lease = attachment->ended_id;
		ret_msg->revoked.reason = (uint8_t)attachment->reason;
		attachment_remove(attachment);
		return true;
	case EVENT_CHANGED:
		ret_msg->type = WIRE_TYPE_changed;
		ret_msg->changed.lease = attachment->lease->id;
		ret_msg->changed.reason = (uint8_t)attachment->reason;
		return true;
	default:
		ret_msg->type = WIRE_TYPE_shrinking;
		return attachment_wanted_message(attachment, &ret_msg->shrinking);
	}
}

bool lease_next_event(struct lease_client *client, struct wire_msg *ret_msg)
{
	struct attachment *attachment;

	while ((attachment =
			list_first(&client->with_events, struct attachment, in_events)))
		if (event_pop(attachment, ret_msg))
			return true;
	return false;
}

void lease_client_drop_events(struct lease_client *client)
{
	struct attachment *attachment;

	while ((attachment = list_first(&client->with_events, struct attachment,
					in_events))) {
		list_remove(&attachment->in_events);
		attachment->events = 0;
		if (attachment->ended_id)
			attachment_remove(attachment);
	}
}

bool lease_next_notices(struct lease_client *client, struct wire_notified *ret_msg)
{
	struct notice taken[WIRE_NOTICES_MAX];
	unsigned n = notices_read(&client->notices, taken, WIRE_NOTICES_MAX);

	for (unsigned i = 0; i < n; i++)
		ret_msg->notices[i] = (struct wire_notice){
			.lease = container_of(taken[i].source, struct attachment,
					      notices)
					 ->lease->id,
			.value = taken[i].value,
			.lost = taken[i].lost,
		};
	ret_msg->n_notices = (uint16_t)n;
	return n > 0;
}

/* ---- leases and endpoints ---- */

struct fabric_mr_traffic lease_client_traffic(const struct lease_client *client)
{
	struct fabric_mr_traffic sum = client->traffic;

	list_for_each_entry(const struct attachment, attachment, &client->attachments,
			    in_client)
		attachment_add_traffic(attachment, &sum);
	return sum;
}

bool lease_client_is_vacant(const struct lease_client *client)
{
	return list_empty(&client->owned) && list_empty(&client->attachments);
}

unsigned lease_client_endpoints(const struct lease_client *client)
{
	unsigned endpoints = client->reach;

	for (unsigned i = 0; !client->reach && i < WIRE_ENDPOINTS_MAX; i++)
		if (client->ports[i].session)
			endpoints |= 1u << i;
	return endpoints;
}

unsigned lease_client_nodes(const struct lease_client *client,
			    int ret_nodes[WIRE_ENDPOINTS_MAX])
{
	unsigned n = 0, k;

	if (client->reach) {
		memcpy(ret_nodes, client->nodes, sizeof(client->nodes));
		return client->n_nodes;
	}
	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++) {
		const struct lease_client_port *port = &client->ports[i];

		if (!port->session || port->node < 0)
			continue;
		for (k = 0; k < n && ret_nodes[k] != port->node; k++)
			;
		if (k == n)
			ret_nodes[n++] = port->node;
	}
	return n;
}
