/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that wait for keys to come or to die. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/ledger_record.h"
#include "rmemd/lease/lease_table.h"
#include "rmemd/state/ledger.h"

#define TEXT_MAX 256

void lease_wait(struct lease *lease, struct attachment *attachment,
		enum lease_wait kind, struct lease_waiter *waiter)
{
	waiter->lease = lease;
	waiter->attachment = attachment;
	waiter->kind = kind;
	list_append(&lease->waiters, &waiter->link);
}

/* The request is not done: leave things as they were before it. */
static void undo(struct lease_waiter *waiter)
{
	struct lease *lease = waiter->lease;

	if (lease->state == LEASE_ENDED)
		return;
	switch (waiter->kind) {
	case LEASE_WAIT_GRANT:
		lease_end(lease, WIRE_REASON_FREED, NULL);
		break;
	case LEASE_WAIT_ATTACH:
		/* it may be that very end which makes the request fail */
		if (!attachment_ended(waiter->attachment))
			attachment_end(waiter->attachment);
		break;
	case LEASE_WAIT_GROW:
		lease->resizing = false;
		/* the keys of the one who asked still reach what they reached before */
		if (lease->bytes > waiter->old_bytes)
			lease_cut(lease, waiter->old_bytes, waiter->attachment->client);
		break;
	case LEASE_WAIT_TRIM:
		lease->resizing = false;
		break;
	case LEASE_WAIT_REKEY:
	case LEASE_WAIT_END:
		break;
	}
}

void lease_fail(struct lease_waiter *waiter, int err, const char *text)
{
	char copy[TEXT_MAX];

	/* undoing may overwrite the text of the error */
	(void)snprintf(copy, sizeof(copy), "%s", text);
	list_remove(&waiter->link);
	undo(waiter);
	waiter->attachment = NULL;
	waiter->done(waiter, err, copy);
}

static struct lease_waiter *find_waiter(struct lease *lease,
					const struct attachment *attachment)
{
	list_for_each(node, &lease->waiters) {
		struct lease_waiter *waiter =
			container_of(node, struct lease_waiter, link);

		if (waiter->attachment == attachment && waiter->kind != LEASE_WAIT_END)
			return waiter;
	}
	return NULL;
}

void lease_fail_waiters(struct lease *lease, const struct attachment *attachment,
			int err, const char *text)
{
	struct lease_waiter *waiter;

	while ((waiter = find_waiter(lease, attachment)))
		lease_fail(waiter, err, text);
}

/* 1 when the waiter has what it waits for, 0 when not yet, or -errno. */
static int at_rest(const struct lease_waiter *waiter)
{
	int begun;

	if (waiter->kind == LEASE_WAIT_END)
		return list_empty(&waiter->lease->dying);
	if (waiter->attachment->pending)
		return 0;
	/* Segments or ports may have changed while the keys were made. */
	begun = attachment_complete(waiter->attachment);
	if (begun)
		return begun < 0 ? begun : 0;
	return waiter->kind != LEASE_WAIT_TRIM || list_empty(&waiter->lease->dying);
}

static void tell_grown(struct lease *lease, const struct lease_client *except)
{
	list_for_each(node, &lease->attachments) {
		struct attachment *attachment =
			container_of(node, struct attachment, in_lease);

		if (attachment->client != except)
			attachment_tell_changed(attachment, 0);
	}
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
	lease->leases->granted_ever++;
	lease_fill_status(lease, &status);
	lease->leases->events->granted(lease->leases->ctx, &status);
	return 0;
}

static void finish(struct lease_waiter *waiter)
{
	struct lease *lease = waiter->lease;
	int err = 0;

	if (waiter->kind == LEASE_WAIT_GRANT)
		err = grant(lease);
	/* another one may be told of what is not answered to who asked for it */
	if (!err && waiter->attachment && lease->resizing)
		err = lease_record(lease);
	if (!err &&
	    (waiter->kind == LEASE_WAIT_GRANT || waiter->kind == LEASE_WAIT_ATTACH ||
	     waiter->kind == LEASE_WAIT_REKEY))
		err = attachment_record(waiter->attachment);
	if (err) {
		lease_fail(waiter, err, err_text());
		return;
	}
	if (waiter->kind == LEASE_WAIT_GROW || waiter->kind == LEASE_WAIT_TRIM)
		lease->resizing = false;
	if (waiter->kind == LEASE_WAIT_GROW && lease->bytes > waiter->old_bytes)
		tell_grown(lease, waiter->attachment->client);
	list_remove(&waiter->link);
	waiter->done(waiter, 0, "");
}

/* One waiter that can be finished or has failed; false when there is none. */
static bool settle_one(struct lease *lease)
{
	list_for_each(node, &lease->waiters) {
		struct lease_waiter *waiter =
			container_of(node, struct lease_waiter, link);
		int result = at_rest(waiter);

		if (result == 0)
			continue;
		if (result < 0)
			lease_fail(waiter, result, err_text());
		else
			finish(waiter);
		return true;
	}
	return false;
}

void lease_settle(struct lease *lease)
{
	while (settle_one(lease))
		;
	if (list_empty(&lease->dying)) {
		/* no key reaches behind the segments any more */
		for (unsigned i = 0; lease->cut && i < lease->n_segments; i++)
			segment_shed(lease->segments[i]);
		lease->cut = false;
		if (lease->state == LEASE_ENDED) {
			list_remove(&lease->all);
			lease_delete(lease);
			return;
		}
	}
	if (lease->leases->reclaiming && lease->state == LEASE_READY)
		lease_tell_wanted(lease);
}

bool lease_waiter_cancel(struct lease_waiter *waiter)
{
	struct lease *lease = waiter->lease;
	bool grown =
		waiter->kind == LEASE_WAIT_GROW && lease->bytes > waiter->old_bytes;
	bool undone = !grown && waiter->kind != LEASE_WAIT_TRIM &&
		      waiter->kind != LEASE_WAIT_END;

	if (lease->memory_waiter == waiter)
		(void)lease_stop_waiting(lease);
	list_remove(&waiter->link);
	if (grown && !lease_record(lease)) {
		ledger_commit(lease->leases->ledger);
		/* the memory is there already: let the lease be longer */
		lease->resizing = false;
		tell_grown(lease, waiter->attachment->client);
	} else {
		undo(waiter);
	}
	lease_settle(lease);
	return undone;
}
