/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/sweep.h"

#include <errno.h>
#include <limits.h>

#include "rmemd/lease/attachment.h"

/* Attachments, keys and requests of one slice. */
#define KEYS_PER_SLICE 128

/* Returns the number of its keys, and of the requests that wait for them. */
static unsigned end_attachment(const struct sweep *sweep, struct attachment *attachment)
{
	unsigned n = attachment_fence(attachment) +
		     waiters_fail(attachment, -ESTALE, LEASE_ENDED_TEXT);

	if (sweep->reason && attachment->client->id != sweep->except)
		attachment_revoke(attachment, (enum wire_reason)sweep->reason);
	else
		attachment_end(attachment);
	return n;
}

static struct attachment *sweep_next(const struct lease *lease)
{
	return attachment_next_after(lease, lease->sweep.after);
}

static void sweep_some(struct lease *lease, unsigned max)
{
	struct sweep *sweep = &lease->sweep;
	struct attachment *attachment;

	for (unsigned n = 0; n < max && (attachment = sweep_next(lease)); n++) {
		sweep->after = attachment->client->id;
		if (!sweep->stays || !sweep->stays(attachment))
			n += end_attachment(sweep, attachment);
	}
	sweep->runs = sweep_next(lease);
}

static bool sweep_work(struct slice_work *work)
{
	struct lease *lease = container_of(work, struct lease, sweep.work);

	sweep_some(lease, KEYS_PER_SLICE);
	if (lease->sweep.runs)
		return true;
	/* this may free the lease */
	lease_changed(lease);
	lease->leases->run(lease->leases);
	return false;
}

void sweep_init(struct sweep *sweep)
{
	*sweep = (struct sweep){ 0 };
	slice_work_init(&sweep->work, sweep_work);
}

void sweep_start(struct lease *lease,
		 bool (*stays)(const struct attachment *attachment), unsigned reason,
		 uint64_t except)
{
	struct leases *leases = lease->leases;
	struct sweep *sweep = &lease->sweep;

	sweep->runs = true;
	sweep->stays = stays;
	sweep->after = 0;
	sweep->reason = reason;
	sweep->except = except;
	sweep_some(lease, leases->closing ? UINT_MAX : KEYS_PER_SLICE);
	if (sweep->runs)
		slices_add(leases->slices, &lease->tenant->slices, &sweep->work);
}

void sweep_end(struct sweep *sweep)
{
	slices_remove(&sweep->work);
}
