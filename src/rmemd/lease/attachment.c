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

static int attachment_new(struct lease *lease, struct holder *holder, unsigned rights,
			  struct attachment **ret_attachment)
{
	struct attachment *attachment;

	attachment = malloc(sizeof(*attachment));
	if (!attachment)
		return err_set(-ENOMEM, "no memory for an attachment");
	*attachment = (struct attachment){
		.lease = lease,
		.holder = holder,
		.rights = rights,
	};
	list_init(&attachment->exposures);
	list_init(&attachment->watching);
	list_init(&attachment->to_tell);
	notice_source_init(&attachment->notices);
	list_append(&lease->attachments, &attachment->in_lease);
	list_append(&holder->attachments, &attachment->in_holder);
	lease->n_attachments++;
	holder->n_attachments++;
	holder->tenant->n_attachments++;
	*ret_attachment = attachment;
	return 0;
}

int attachment_create(struct lease *lease, struct holder *holder, unsigned rights,
		      struct attachment **ret_attachment)
{
	int err = tenant_check_attachment(holder->tenant);

	return err ? err : attachment_new(lease, holder, rights, ret_attachment);
}

int attachment_restore(struct lease *lease, struct holder *holder, unsigned rights,
		       struct attachment **ret_attachment)
{
	int err = attachment_new(lease, holder, rights, ret_attachment);

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
	attachment->holder->tenant->n_attachments--;
	free(attachment);
}

/* It is nobody's any more. */
static void attachment_part(struct attachment *attachment)
{
	struct holder *holder = attachment->holder;
	struct lease *lease = attachment->lease;
	struct lease_waiter *waiter = lease->memory_waiter;

	list_for_each_safe(node, &attachment->exposures)
		exposure_end(container_of(node, struct exposure, link), false);
	attachment_unwatch(attachment);
	attachment_unrecord(attachment);
	list_remove(&attachment->to_tell);
	list_remove(&attachment->in_lease);
	list_remove(&attachment->in_holder);
	lease->n_attachments--;
	holder->n_attachments--;
	if (waiter && waiter->attachment == attachment)
		lease_wait(lease, attachment, waiter->kind, lease_stop_waiting(lease));
	lease_fail_waiters(lease, attachment, -ESTALE,
			   "the lease was given up meanwhile");
}

void attachment_end(struct attachment *attachment)
{
	attachment_part(attachment);
	attachment_free(attachment);
}

void attachment_revoke(struct attachment *attachment, enum wire_reason reason)
{
	const struct lease *lease = attachment->lease;

	attachment_part(attachment);
	attachment->lease = NULL;
	attachment->ended = lease->id;
	attachment->why = (unsigned)reason;
	attachment->news = 0;
	attachment_tell(attachment, lease->leases, NEWS_ENDED);
}

static bool exposed(const struct attachment *attachment, const struct segment *segment,
		    unsigned port)
{
	list_for_each(node, &attachment->exposures) {
		const struct exposure *exposure =
			container_of(node, struct exposure, link);

		if (exposure->segment == segment && exposure->port == port &&
		    exposure->bytes == segment->bytes)
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
			if (!attachment->holder->ports[port].session ||
			    !segment_lent_through(lease->segments[i], 1u << port) ||
			    exposed(attachment, lease->segments[i], port))
				continue;
			err = exposure_create(attachment, lease->segments[i], port);
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
	list_for_each_safe(node, &attachment->exposures) {
		struct exposure *exposure = container_of(node, struct exposure, link);

		if (exposure->segment == segment && exposure->bytes > segment->bytes)
			exposure_end(exposure, false);
	}
}

static bool retired(const struct exposure *exposure)
{
	return exposure->state == EXPOSURE_LIVE &&
	       exposure->bytes != exposure->segment->bytes;
}

void attachment_retire(struct attachment *attachment)
{
	unsigned n = 0;

	list_for_each(node, &attachment->exposures)
		n += retired(container_of(node, struct exposure, link));
	list_for_each_safe(node, &attachment->exposures) {
		struct exposure *exposure = container_of(node, struct exposure, link);

		if (n <= RETIRED_MAX)
			return;
		if (!retired(exposure))
			continue;
		exposure_end(exposure, false);
		n--;
	}
}

bool attachment_leave(struct attachment *attachment, unsigned port)
{
	bool any = false;

	list_for_each_safe(node, &attachment->exposures) {
		struct exposure *exposure = container_of(node, struct exposure, link);

		if (exposure->port != port)
			continue;
		any = true;
		exposure_end(exposure, true);
	}
	return any;
}

void attachment_fence(struct attachment *attachment)
{
	attachment->fenced = true;
	/* who comes back is told anew */
	attachment->wanted = 0;
	list_for_each_safe(node, &attachment->exposures)
		exposure_end(container_of(node, struct exposure, link), true);
}
