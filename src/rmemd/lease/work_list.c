/* SPDX-License-Identifier: BSD-3-Clause */
/* The consequences of changed leases: requests that wait for a lease are done or fail, its extents
 * lose their unused ends, and when it has ended and its keys are dead it is freed. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/ledger_record.h"
#include "rmemd/state/ledger.h"

/* Requests that are looked at before others get their turn. */
#define CHECKS_PER_SLICE 64

/* Restore the state before the request. */
static void waiter_undo(struct lease_waiter *waiter)
{
	struct attachment *attachment = waiter->attachment;
	struct lease *lease = waiter->lease;

	if (lease->state == WIRE_LEASE_ENDED)
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

/* The client takes the error for that of its first request: it does not have the lease. */
static void waiter_end(struct lease_waiter *waiter)
{
	struct lease *lease = waiter->lease;

	if (lease->state != WIRE_LEASE_READY)
		return;
	if (waiter->ends_lease && !lease->visited)
		lease_terminate(lease, WIRE_REASON_FREED, NULL);
	else if ((waiter->ends_lease || waiter->ends_attachment) && waiter->attachment)
		attachment_end(waiter->attachment);
}

/* The error's text is err_text(), unless the request has failed already. */
static void waiter_fail_now(struct lease_waiter *waiter, int err)
{
	char text[LEASE_TEXT_MAX];

	waiter_fail(waiter, err, err_text());
	list_remove(&waiter->link);
	list_remove(&waiter->in_attachment);
	waiter_undo(waiter);
	waiter_end(waiter);
	waiter->attachment = NULL;
	/* done() may free the waiter before it uses the text */
	memcpy(text, waiter->text, sizeof(text));
	waiter->done(waiter, waiter->err, text);
}

/* Whether the attachments and keys that the lease has lost have ended, and the keys are dead. */
static bool lease_is_swept(const struct lease *lease)
{
	return !lease->sweep.runs && list_empty(&lease->dying);
}

/* 1: the waiter's condition is met; 0: not yet; or -errno. */
static int waiter_check(const struct lease_waiter *waiter)
{
	int keys;

	if (waiter->err)
		return waiter->err;
	if (waiter->kind == LEASE_WAIT_END)
		return lease_is_swept(waiter->lease);
	/* the sweep may not have come to the attachment */
	if (waiter->lease->state == WIRE_LEASE_ENDED)
		return err_set(-ESTALE, LEASE_ENDED_TEXT);
	if (!list_empty(&waiter->waiting))
		return 0;
	keys = attachment_check_keys(waiter->attachment);
	if (keys <= 0)
		return keys;
	return waiter->kind != LEASE_WAIT_TRIM || lease_is_swept(waiter->lease);
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
	assert(lease->n_attachments > 0);
	wire_lease_move(&lease->state, WIRE_STEP_GRANT);
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
		lease_send_grown(lease, waiter->attachment->client);
	list_remove(&waiter->link);
	list_remove(&waiter->in_attachment);
	waiter->done(waiter, 0, "");
}

/* The next waiter to be checked, which goes behind those that were in this round; NULL: all were,
 * and nothing has changed since it began. */
static struct lease_waiter *next_waiter(struct lease *lease)
{
	struct lease_waiter *waiter =
		list_first(&lease->waiters, struct lease_waiter, link);

	if (!waiter)
		return NULL;
	if (waiter->checked == lease->round) {
		if (!lease->again)
			return NULL;
		lease->again = false;
		lease->round = !lease->round;
	}
	waiter->checked = lease->round;
	list_move(&lease->waiters, &waiter->link);
	return waiter;
}

/* End the waiters whose conditions are met or which have failed.  False: it has looked at `max`. */
static bool lease_end_waiters(struct lease *lease, unsigned max)
{
	for (unsigned n = 0; n < max; n++) {
		struct lease_waiter *waiter = next_waiter(lease);
		int result;

		if (!waiter)
			return true;
		result = waiter_check(waiter);
		/* the end of one may end others, and changes the lease then */
		if (result > 0)
			waiter_finish(waiter);
		else if (result < 0)
			waiter_fail_now(waiter, result);
	}
	return false;
}

static bool tenant_answer(struct slice_work *work)
{
	struct tenant *tenant = container_of(work, struct tenant, answer);
	struct lease *lease = list_first(&tenant->answering, struct lease, changed);
	struct leases *leases = lease->leases;
	bool more;

	tenant_ref(tenant);
	list_move(&leases->changed, &lease->changed);
	/* this may free the lease */
	leases_run(leases);
	more = !list_empty(&tenant->answering);
	tenant_unref(tenant);
	return more;
}

static void lease_answer_later(struct lease *lease)
{
	struct tenant *tenant = lease->tenant;

	list_move(&tenant->answering, &lease->changed);
	tenant->answer.run = tenant_answer;
	slices_add(lease->leases->slices, &tenant->slices, &tenant->answer);
}

static void lease_free_now(struct lease *lease)
{
	struct leases *leases = lease->leases;

	assert(!lease->n_segments && !lease->n_attachments);
	assert(list_empty(&lease->waiters) || leases->closing);
	list_remove(&lease->changed);
	list_remove(&lease->all);
	lease_delete(lease);
	if (leases_none_left(leases) && leases->events->none_left)
		leases->events->none_left(leases->ctx);
}

static void lease_process_changes(struct lease *lease)
{
	const struct leases *leases = lease->leases;

	if (lease_is_swept(lease)) {
		/* no key reaches behind the segments any more */
		for (unsigned i = 0; lease->cut && i < lease->n_segments; i++)
			segment_shed(lease->segments[i]);
		lease->cut = false;
	}
	if (!lease_end_waiters(lease, leases->closing ? UINT_MAX : CHECKS_PER_SLICE))
		lease_answer_later(lease);
	else if (lease->state == WIRE_LEASE_ENDED && lease_is_swept(lease))
		lease_free_now(lease);
	else if (leases->reclaiming && lease->state == WIRE_LEASE_READY)
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
	bool grown = lease->state != WIRE_LEASE_ENDED &&
		     waiter->kind == LEASE_WAIT_GROW &&
		     lease->bytes > waiter->old_bytes;
	bool undone = !grown && waiter->kind != LEASE_WAIT_TRIM &&
		      waiter->kind != LEASE_WAIT_END;

	waiter_end_memory(waiter);
	list_remove(&waiter->link);
	list_remove(&waiter->in_attachment);
	if (grown && !lease_record(lease)) {
		ledger_commit(leases->ledger);
		/* the memory is allocated already: keep the growth */
		lease->resizing = false;
		lease_send_grown(lease, waiter->attachment->client);
	} else {
		waiter_undo(waiter);
	}
	lease_changed(lease);
	leases_run(leases);
	return undone;
}
