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

/* Returns the number of its keys that were ended. */
static unsigned cut_attachment(const struct sweep *sweep, struct attachment *attachment)
{
	unsigned n = attachment_cut(attachment);

	if (attachment->client->id != sweep->cut_except)
		attachment_add_changed(attachment, WIRE_REASON_TRIMMED);
	return n;
}

static unsigned sweep_attachment(const struct sweep *sweep,
				 struct attachment *attachment)
{
	if (sweep->ends && !(sweep->stays && sweep->stays(attachment)))
		return end_attachment(sweep, attachment);
	return sweep->cuts ? cut_attachment(sweep, attachment) : 0;
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
		n += sweep_attachment(sweep, attachment);
	}
	sweep->runs = sweep_next(lease);
	if (!sweep->runs)
		sweep->ends = sweep->cuts = false;
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

static void sweep_begin(struct lease *lease)
{
	struct leases *leases = lease->leases;
	struct sweep *sweep = &lease->sweep;

	sweep->runs = true;
	sweep->after = 0;
	sweep_some(lease, leases->closing ? UINT_MAX : KEYS_PER_SLICE);
	if (sweep->runs)
		slices_add(leases->slices, &lease->tenant->slices, &sweep->work);
}

void sweep_start(struct lease *lease,
		 bool (*stays)(const struct attachment *attachment), unsigned reason,
		 uint64_t except)
{
	lease->sweep.ends = true;
	lease->sweep.stays = stays;
	lease->sweep.reason = reason;
	lease->sweep.except = except;
	sweep_begin(lease);
}

void sweep_cut(struct lease *lease, uint64_t except)
{
	lease->sweep.cuts = true;
	lease->sweep.cut_except = except;
	sweep_begin(lease);
}

void sweep_end(struct sweep *sweep)
{
	slices_remove(&sweep->work);
}
