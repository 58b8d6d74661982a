/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/attachment.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/err.h"
#include "rmemd/lease/ledger_record.h"

/* Keys that longer ones replaced stay alive for operations that still use them; a
 * program that grows a lease again and again must not pile them up. */
#define RETIRED_MAX 16

static int attachment_new(struct lease *lease, struct lease_client *client,
			  unsigned rights, struct attachment **ret_attachment)
{
	struct attachment *attachment;

	attachment = malloc(sizeof(*attachment));
	if (!attachment)
		return err_set(-ENOMEM, "no memory for an attachment");
	*attachment = (struct attachment){
		.lease = lease,
		.client = client,
		.rights = rights,
	};
	list_init(&attachment->mrs);
	list_init(&attachment->watching);
	list_init(&attachment->in_events);
	notice_source_init(&attachment->notices);
	list_append(&lease->attachments, &attachment->in_lease);
	list_append(&client->attachments, &attachment->in_holder);
	lease->n_attachments++;
	client->n_attachments++;
	client->tenant->n_attachments++;
	*ret_attachment = attachment;
	return 0;
}

int attachment_create(struct lease *lease, struct lease_client *client, unsigned rights,
		      struct attachment **ret_attachment)
{
	int err = tenant_check_attachment(client->tenant);

	return err ? err : attachment_new(lease, client, rights, ret_attachment);
}

int attachment_restore(struct lease *lease, struct lease_client *client,
		       unsigned rights, struct attachment **ret_attachment)
{
	int err = attachment_new(lease, client, rights, ret_attachment);

	if (!err)
		(*ret_attachment)->fenced = true;
	return err;
}

bool attachment_ended(const struct attachment *attachment)
{
	return list_empty(&attachment->in_lease);
}

void attachment_free(struct attachment *attachment)
{
	attachment->client->tenant->n_attachments--;
	free(attachment);
}

/* It is nobody's any more. */
static void attachment_detach(struct attachment *attachment)
{
	struct lease_client *client = attachment->client;
	struct lease *lease = attachment->lease;
	struct lease_waiter *waiter = lease->memory_waiter;

	list_for_each_safe(node, &attachment->mrs)
		mr_deregister(container_of(node, struct mr, link), false);
	attachment_unwatch(attachment);
	attachment_unrecord(attachment);
	list_remove(&attachment->in_events);
	list_remove(&attachment->in_lease);
	list_remove(&attachment->in_holder);
	lease->n_attachments--;
	client->n_attachments--;
	if (waiter && waiter->attachment == attachment)
		lease_wait(lease, attachment, waiter->kind, lease_stop_waiting(lease));
	lease_fail_waiters(lease, attachment, -ESTALE,
			   "the lease was given up meanwhile");
}

void attachment_end(struct attachment *attachment)
{
	attachment_detach(attachment);
	attachment_free(attachment);
}

void attachment_revoke(struct attachment *attachment, enum wire_reason reason)
{
	const struct lease *lease = attachment->lease;

	attachment_detach(attachment);
	attachment->lease = NULL;
	attachment->ended = lease->id;
	attachment->why = (unsigned)reason;
	attachment->news = 0;
	attachment_tell(attachment, lease->leases, EVENT_ENDED);
}

static bool exposed(const struct attachment *attachment, const struct segment *segment,
		    unsigned port)
{
	list_for_each(node, &attachment->mrs) {
		const struct mr *mr = container_of(node, struct mr, link);

		if (mr->segment == segment && mr->port == port &&
		    mr->bytes == segment->bytes)
			return true;
	}
	return false;
}

int attachment_complete(struct attachment *attachment)
{
	struct lease *lease = attachment->lease;
	int err;

	for (unsigned i = 0; i < lease->n_segments; i++) {
		for (unsigned port = 0; port < WIRE_ENDPOINTS_MAX; port++) {
			if (!attachment->client->ports[port].session ||
			    !segment_lent_through(lease->segments[i], 1u << port) ||
			    exposed(attachment, lease->segments[i], port))
				continue;
			err = mr_register(attachment, lease->segments[i], port);
			if (err)
				return err;
		}
	}
	if (!attachment->pending)
		attachment_retire(attachment);
	return (int)attachment->pending;
}

void attachment_cut(struct attachment *attachment, const struct segment *segment)
{
	list_for_each_safe(node, &attachment->mrs) {
		struct mr *mr = container_of(node, struct mr, link);

		if (mr->segment == segment && mr->bytes > segment->bytes)
			mr_deregister(mr, false);
	}
}

static bool retired(const struct mr *mr)
{
	return mr->state == MR_LIVE && mr->bytes != mr->segment->bytes;
}

void attachment_retire(struct attachment *attachment)
{
	unsigned n = 0;

	list_for_each(node, &attachment->mrs)
		n += retired(container_of(node, struct mr, link));
	list_for_each_safe(node, &attachment->mrs) {
		struct mr *mr = container_of(node, struct mr, link);

		if (n <= RETIRED_MAX)
			return;
		if (!retired(mr))
			continue;
		mr_deregister(mr, false);
		n--;
	}
}

bool attachment_leave(struct attachment *attachment, unsigned port)
{
	bool any = false;

	list_for_each_safe(node, &attachment->mrs) {
		struct mr *mr = container_of(node, struct mr, link);

		if (mr->port != port)
			continue;
		any = true;
		mr_deregister(mr, true);
	}
	return any;
}

void attachment_fence(struct attachment *attachment)
{
	attachment->fenced = true;
	/* who comes back is told anew */
	attachment->wanted = 0;
	list_for_each_safe(node, &attachment->mrs)
		mr_deregister(container_of(node, struct mr, link), true);
}
