/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/attachment.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "rmemd/lease/ledger_record.h"

/* MRs that longer ones replaced stay alive for operations that still use them; a client that
 * grows a lease many times must not accumulate them. */
#define RETIRED_MAX 16

int attachment_add(struct lease *lease, struct lease_client *client, unsigned rights,
		   struct attachment **ret_attachment)
{
	struct attachment *attachment = malloc(sizeof(*attachment));

	if (!attachment)
		return err_set(-ENOMEM, "no memory for an attachment");
	*attachment = (struct attachment){
		.lease = lease,
		.client = client,
		.rights = rights,
		.n_leaves = client->n_leaves,
	};
	list_init(&attachment->mrs);
	list_init(&attachment->waiters);
	list_init(&attachment->watching);
	list_init(&attachment->in_events);
	notice_source_init(&attachment->notices);
	list_append(&lease->attachments, &attachment->in_lease);
	list_append(&client->attachments, &attachment->in_client);
	tree_insert(&lease->by_session, &attachment->by_session, client->id, 0);
	lease->n_writers += (rights & WIRE_RIGHT_WRITE) != 0;
	lease->n_attachments++;
	client->n_attachments++;
	client->lent_bytes += lease->bytes;
	client->tenant->n_attachments++;
	*ret_attachment = attachment;
	return 0;
}

struct attachment *attachment_next_after(const struct lease *lease, uint64_t session)
{
	struct tree_node *node = tree_above(&lease->by_session, session, 0);

	return node ? container_of(node, struct attachment, by_session) : NULL;
}

struct attachment *attachment_find(const struct lease *lease, uint64_t session)
{
	struct attachment *attachment = attachment_next_after(lease, session - 1);

	return attachment && attachment->client->id == session ? attachment : NULL;
}

void attachment_remove(struct attachment *attachment)
{
	attachment->client->tenant->n_attachments--;
	free(attachment);
}

/* Deregister all MRs; returns their number. */
static unsigned deregister_all(struct attachment *attachment)
{
	unsigned n = 0;

	list_for_each_entry_safe(struct mr, mr, &attachment->mrs, link) {
		mr_deregister(mr);
		n++;
	}
	return n;
}

/* Remove the attachment from its lease and client; its keys die. */
static void attachment_unlink(struct attachment *attachment)
{
	struct lease *lease = attachment->lease;

	(void)deregister_all(attachment);
	(void)waiters_fail(attachment, -ESTALE, LEASE_ENDED_TEXT);
	attachment_unwatch(attachment);
	attachment_unrecord(attachment);
	list_remove(&attachment->in_events);
	list_remove(&attachment->in_lease);
	list_remove(&attachment->in_client);
	tree_remove(&lease->by_session, &attachment->by_session);
	lease->n_writers -= (attachment->rights & WIRE_RIGHT_WRITE) != 0;
	lease->n_attachments--;
	assert(lease->n_writers <= lease->n_attachments);
	assert(list_empty(&lease->attachments) == !lease->n_attachments);
	attachment->client->n_attachments--;
	attachment->client->lent_bytes -= lease->bytes;
	lease_changed(lease);
}

void attachment_end(struct attachment *attachment)
{
	attachment_unlink(attachment);
	attachment_remove(attachment);
}

void attachment_revoke(struct attachment *attachment, enum wire_reason reason)
{
	struct lease *lease = attachment->lease;

	attachment_unlink(attachment);
	attachment->lease = NULL;
	attachment->ended_id = lease->id;
	attachment->reason = (unsigned)reason;
	attachment->events = 0;
	attachment_add_event(attachment, lease->leases, EVENT_ENDED);
}

static bool has_mr(const struct attachment *attachment, const struct segment *segment,
		   unsigned port)
{
	list_for_each_entry(const struct mr, mr, &attachment->mrs, link)
		if (mr->segment == segment && mr->port == port &&
		    mr->bytes == segment->bytes)
			return true;
	return false;
}

int attachment_check_keys(struct attachment *attachment)
{
	const struct lease *lease = attachment->lease;
	int err;

	if (attachment->pending)
		return 0;
	for (unsigned i = 0; i < lease->n_segments; i++) {
		struct segment *segment = lease->segments[i];
		unsigned endpoints = extent_pool(&segment->extent).endpoints;

		for (unsigned port = 0; port < WIRE_ENDPOINTS_MAX; port++) {
			if (!attachment->client->ports[port].session ||
			    !(endpoints & (1u << port)) ||
			    has_mr(attachment, segment, port))
				continue;
			err = mr_register(attachment, segment, port);
			if (err)
				return err;
		}
	}
	if (!attachment->pending)
		attachment_retire(attachment);
	return !attachment->pending;
}

unsigned attachment_cut(struct attachment *attachment)
{
	unsigned n = 0;

	list_for_each_entry_safe(struct mr, mr, &attachment->mrs, link) {
		if (mr->bytes <= mr->segment->bytes)
			continue;
		mr_deregister(mr);
		n++;
	}
	return n;
}

static bool mr_is_retired(const struct mr *mr)
{
	return mr->state == MR_LIVE && mr->bytes != mr->segment->bytes;
}

void attachment_retire(struct attachment *attachment)
{
	unsigned n = 0;

	list_for_each_entry(const struct mr, mr, &attachment->mrs, link)
		n += mr_is_retired(mr);
	list_for_each_entry_safe(struct mr, mr, &attachment->mrs, link) {
		if (n <= RETIRED_MAX)
			return;
		if (!mr_is_retired(mr))
			continue;
		mr_deregister(mr);
		n--;
	}
}

unsigned attachment_leave_ports(struct attachment *attachment, unsigned ports)
{
	unsigned n = 0;

	list_for_each_entry_safe(struct mr, mr, &attachment->mrs, link) {
		if (!(ports & (1u << mr->port)))
			continue;
		mr_deregister(mr);
		n++;
	}
	return n;
}

unsigned attachment_fence(struct attachment *attachment)
{
	attachment->fenced = true;
	/* a client that resumes is told again what is wanted back */
	attachment->wanted = 0;
	return deregister_all(attachment);
}

void attachment_add_traffic(const struct attachment *attachment,
			    struct fabric_mr_traffic *sum)
{
	list_for_each_entry(const struct mr, mr, &attachment->mrs, link)
		mr_add_traffic(mr, sum);
}

/* ---- what the client is told ---- */

void attachment_add_event(struct attachment *attachment, const struct leases *leases,
			  unsigned event)
{
	struct lease_client *client = attachment->client;

	attachment->events |= event;
	if (list_empty(&attachment->in_events))
		list_append(&client->with_events, &attachment->in_events);
	leases->events->client_event(leases->ctx, client);
}

void attachment_add_changed(struct attachment *attachment, unsigned reason)
{
	/* a lease that was cut and has grown since is reported as cut */
	if (reason == WIRE_REASON_TRIMMED || !(attachment->events & EVENT_CHANGED))
		attachment->reason = reason;
	attachment_add_event(attachment, attachment->lease->leases, EVENT_CHANGED);
}

void attachment_unwatch(struct attachment *attachment)
{
	struct lease_client *client = attachment->client;

	if (list_empty(&attachment->watching))
		return;
	list_remove(&attachment->watching);
	notices_drop(&client->notices, &attachment->notices);
	if (--client->n_watches == 0)
		notices_close(&client->notices);
}
