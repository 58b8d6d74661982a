/* SPDX-License-Identifier: BSD-3-Clause */
/* The consequences of changed leases: requests that wait for a lease are done or fail, its extents
 * lose their unused ends, and when it has ended and its keys are dead it is freed. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/ledger_record.h"
#include "rmemd/state/ledger.h"

/* Restore the state before the request. */
static void waiter_undo(struct lease_waiter *waiter)
{
	struct attachment *attachment = waiter->attachment;
	struct lease *lease = waiter->lease;

	if (lease->state == LEASE_ENDED)
		return;
	switch (waiter->kind) {
	case LEASE_WAIT_GRANT:
		lease_terminate(lease, WIRE_REASON_FREED, NULL);
		break;
	case LEASE_WAIT_ATTACH:
		/* NULL: the request fails because the attachment ended */
		if (attachment)
			attachment_end(attachment);
		break;
	case LEASE_WAIT_GROW:
		lease->resizing = false;
		/* for this client nothing changes: its keys cover the old length */
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

/* The error's text is err_text(), unless the request has failed already. */
static void waiter_fail_now(struct lease_waiter *waiter, int err)
{
	char text[LEASE_TEXT_MAX];

	waiter_fail(waiter, err, err_text());
	list_remove(&waiter->link);
	waiter_undo(waiter);
	if (waiter->ends_lease && waiter->lease->state == LEASE_READY)
		lease_terminate(waiter->lease, WIRE_REASON_FREED, NULL);
	waiter->attachment = NULL;
	/* done() may free the waiter before it uses the text */
	memcpy(text, waiter->text, sizeof(text));
	waiter->done(waiter, waiter->err, text);
}

/* 1: the waiter's condition is met; 0: not yet; or -errno. */
static int waiter_check(const struct lease_waiter *waiter)
{
	int missing;

	if (waiter->err)
		return waiter->err;
	if (!list_empty(&waiter->waiting))
		return 0;
	if (waiter->kind == LEASE_WAIT_END)
		return list_empty(&waiter->lease->dying);
	if (waiter->attachment->pending)
		return 0;
	/* segments or ports may have changed while the keys were made */
	missing = attachment_register_missing(waiter->attachment);
	if (missing)
		return missing < 0 ? missing : 0;
	return waiter->kind != LEASE_WAIT_TRIM || list_empty(&waiter->lease->dying);
}

static int lease_grant(struct lease *lease)
{
	struct lease_status status;
	int err;

	/* without a name it ends with its session; see make_named() */
	if (!lease->owner)
		lease_set_ttl(lease, lease->ttl_ms);
	lease->granted_ms = clock_now_ms();
	err = lease_record(lease);
	if (err)
		return err;
	lease->state = LEASE_READY;
	lease->leases->counters.granted++;
	status = lease_status(lease);
	lease->leases->events->granted(lease->leases->ctx, &status);
	return 0;
}

static void waiter_finish(struct lease_waiter *waiter)
{
	enum lease_wait kind = waiter->kind;
	struct lease *lease = waiter->lease;
	int err = 0;

	if (kind == LEASE_WAIT_GRANT)
		err = lease_grant(lease);
	/* any reply may tell the new length before the resize is answered: record it first */
	if (!err && waiter->attachment && lease->resizing)
		err = lease_record(lease);
	if (!err && (kind == LEASE_WAIT_GRANT || kind == LEASE_WAIT_ATTACH ||
		     kind == LEASE_WAIT_REKEY))
		err = attachment_record(waiter->attachment);
	if (err) {
		waiter_fail_now(waiter, err);
		return;
	}
	if (kind == LEASE_WAIT_GRANT)
		durations_add(&lease->leases->counters.grants,
			      clock_now_ns() - waiter->begun_ns);
	if (kind == LEASE_WAIT_GROW || kind == LEASE_WAIT_TRIM)
		lease->resizing = false;
	if (kind == LEASE_WAIT_GROW && lease->bytes > waiter->old_bytes)
		lease_send_changed(lease, waiter->attachment->client, 0);
	list_remove(&waiter->link);
	waiter->done(waiter, 0, "");
}

/* End one waiter whose condition is met or which has failed.  False: there is none. */
static bool lease_end_one_waiter(struct lease *lease)
{
	list_for_each_entry(struct lease_waiter, waiter, &lease->waiters, link) {
		int result = waiter_check(waiter);

		if (result == 0)
			continue;
		if (result > 0)
			waiter_finish(waiter);
		else
			waiter_fail_now(waiter, result);
		return true;
	}
	return false;
}

static void lease_process_changes(struct lease *lease)
{
	while (lease_end_one_waiter(lease))
		;
	if (list_empty(&lease->dying)) {
		/* no key reaches behind the segments any more */
		for (unsigned i = 0; lease->cut && i < lease->n_segments; i++)
			segment_shed(lease->segments[i]);
		lease->cut = false;
		if (lease->state == LEASE_ENDED) {
			struct leases *leases = lease->leases;

			list_remove(&lease->changed);
			list_remove(&lease->all);
			lease_delete(lease);
			if (leases_none_left(leases) && leases->events->none_left)
				leases->events->none_left(leases->ctx);
			return;
		}
	}
	if (lease->leases->reclaiming && lease->state == LEASE_READY)
		lease_send_wanted(lease);
}

void leases_run(struct leases *leases)
{
	struct lease *lease;

	/* changes made by done() are handled by the loop below */
	if (leases->running)
		return;
	leases->running = true;
	while ((lease = list_first(&leases->changed, struct lease, changed))) {
		list_remove(&lease->changed);
		lease_process_changes(lease);
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
		/* the memory is allocated already: keep the growth */
		lease->resizing = false;
		lease_send_changed(lease, waiter->attachment->client, 0);
	} else {
		waiter_undo(waiter);
	}
	lease_changed(lease);
	leases_run(leases);
	return undone;
}
