/* SPDX-License-Identifier: BSD-3-Clause */
/* What a change of a lease leads to: requests that wait for it are done or fail, its extents
 * lose their unused ends, and when it has ended and its keys are dead it is freed. */
#include <errno.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/ledger_record.h"
#include "rmemd/state/ledger.h"

/* The request is not done: leave things as they were before it. */
static void undo(struct lease_waiter *waiter)
{
	struct attachment *attachment = waiter->attachment;
	struct lease *lease = waiter->lease;

	if (lease->state == LEASE_ENDED)
		return;
	switch (waiter->kind) {
	case LEASE_WAIT_GRANT:
		lease_end(lease, WIRE_REASON_FREED, NULL);
		break;
	case LEASE_WAIT_ATTACH:
		/* NULL: its end is why the request fails */
		if (attachment)
			attachment_end(attachment);
		break;
	case LEASE_WAIT_GROW:
		lease->resizing = false;
		/* the keys of the client that asked still reach what they reached before */
		if (lease->bytes > waiter->old_bytes)
			lease_cut(lease, waiter->old_bytes,
				  attachment ? attachment->client : NULL);
		break;
	case LEASE_WAIT_TRIM:
		lease->resizing = false;
		break;
	case LEASE_WAIT_REKEY:
	case LEASE_WAIT_END:
		break;
	}
}

static void fail(struct lease_waiter *waiter)
{
	list_remove(&waiter->link);
	undo(waiter);
	waiter->attachment = NULL;
	waiter->done(waiter, waiter->err, waiter->text);
}

/* 1: the waiter has what it waits for; 0: not yet; or -errno. */
static int check(const struct lease_waiter *waiter)
{
	int pending;

	if (waiter->err)
		return waiter->err;
	if (!list_empty(&waiter->waiting))
		return 0;
	if (waiter->kind == LEASE_WAIT_END)
		return list_empty(&waiter->lease->dying);
	if (waiter->attachment->pending)
		return 0;
	/* segments or ports may have changed while the keys were made */
	pending = attachment_complete(waiter->attachment);
	if (pending)
		return pending < 0 ? pending : 0;
	return waiter->kind != LEASE_WAIT_TRIM || list_empty(&waiter->lease->dying);
}

static int grant(struct lease *lease)
{
	struct lease_status status;
	int err;

	err = lease_set_ttl(lease, lease->ttl_ms);
	lease->granted_ms = clock_now_ms();
	if (!err)
		err = lease_record(lease);
	if (err)
		return err;
	lease->state = LEASE_READY;
	lease->leases->counters.granted++;
	lease_fill_status(lease, &status);
	lease->leases->events->granted(lease->leases->ctx, &status);
	return 0;
}

static void finish(struct lease_waiter *waiter)
{
	enum lease_wait kind = waiter->kind;
	struct lease *lease = waiter->lease;
	int err = 0;

	if (kind == LEASE_WAIT_GRANT)
		err = grant(lease);
	/* another session may be told of a size before the one that asked for it */
	if (!err && waiter->attachment && lease->resizing)
		err = lease_record(lease);
	if (!err && (kind == LEASE_WAIT_GRANT || kind == LEASE_WAIT_ATTACH ||
		     kind == LEASE_WAIT_REKEY))
		err = attachment_record(waiter->attachment);
	if (err) {
		waiter_fail(waiter, err, err_text());
		fail(waiter);
		return;
	}
	if (kind == LEASE_WAIT_GROW || kind == LEASE_WAIT_TRIM)
		lease->resizing = false;
	if (kind == LEASE_WAIT_GROW && lease->bytes > waiter->old_bytes)
		lease_tell_grown(lease, waiter->attachment->client);
	list_remove(&waiter->link);
	waiter->done(waiter, 0, "");
}

/* One waiter that is done or has failed.  False: there is none. */
static bool end_one(struct lease *lease)
{
	list_for_each(node, &lease->waiters) {
		struct lease_waiter *waiter =
			container_of(node, struct lease_waiter, link);
		int result = check(waiter);

		if (result == 0)
			continue;
		if (result > 0) {
			finish(waiter);
		} else {
			waiter_fail(waiter, result, err_text());
			fail(waiter);
		}
		return true;
	}
	return false;
}

static void run(struct lease *lease)
{
	while (end_one(lease))
		;
	if (list_empty(&lease->dying)) {
		/* no key reaches behind the segments any more */
		for (unsigned i = 0; lease->cut && i < lease->n_segments; i++)
			segment_shed(lease->segments[i]);
		lease->cut = false;
		if (lease->state == LEASE_ENDED) {
			list_remove(&lease->changed);
			list_remove(&lease->all);
			lease_delete(lease);
			return;
		}
	}
	if (lease->leases->reclaiming && lease->state == LEASE_READY)
		lease_tell_wanted(lease);
}

void leases_run(struct leases *leases)
{
	struct lease *lease;

	/* what done() brings about is worked off by the loop below */
	if (leases->running)
		return;
	leases->running = true;
	while ((lease = list_first(&leases->changed, struct lease, changed))) {
		list_remove(&lease->changed);
		run(lease);
	}
	leases->running = false;
}

bool lease_waiter_cancel(struct lease_waiter *waiter)
{
	struct lease *lease = waiter->lease;
	struct leases *leases = lease->leases;
	bool grown =
		waiter->kind == LEASE_WAIT_GROW && lease->bytes > waiter->old_bytes;
	bool undone = !grown && waiter->kind != LEASE_WAIT_TRIM &&
		      waiter->kind != LEASE_WAIT_END;

	waiter_end_memory(waiter);
	list_remove(&waiter->link);
	if (grown && !lease_record(lease)) {
		ledger_commit(leases->ledger);
		/* the memory is there already: let the lease be longer */
		lease->resizing = false;
		lease_tell_grown(lease, waiter->attachment->client);
	} else {
		undo(waiter);
	}
	lease_changed(lease);
	leases_run(leases);
	return undone;
}
