/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that wait for a lease.  The work list finishes or fails them. */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "rmemd/lease/attachment.h"

void waiter_add(struct lease_waiter *waiter, enum lease_wait kind, struct lease *lease,
		struct attachment *attachment)
{
	waiter->lease = lease;
	waiter->attachment = attachment;
	waiter->kind = kind;
	waiter->old_bytes = lease->bytes;
	waiter->err = 0;
	waiter->checked = lease->round;
	waiter->begun_ns = clock_now_ns();
	list_init(&waiter->waiting);
	list_init(&waiter->in_tenant);
	list_init(&waiter->in_attachment);
	list_append(&lease->waiters, &waiter->link);
	if (attachment)
		list_append(&attachment->waiters, &waiter->in_attachment);
	lease_changed(lease);
}

void waiter_begin_memory(struct lease_waiter *waiter)
{
	struct leases *leases = waiter->lease->leases;
	struct tenant *tenant = waiter->lease->tenant;

	waiter->give_up_ms = clock_now_ms() + LEASE_MEMORY_WAIT_MS;
	list_append(&leases->waiting, &waiter->waiting);
	list_append(&tenant->waiters, &waiter->in_tenant);
	if (list_empty(&tenant->wanting))
		list_append(&leases->wanting, &tenant->wanting);
	pools_hurry(leases->pools, true);
	leases->events->timer_moved(leases->ctx);
}

void waiter_end_memory(struct lease_waiter *waiter)
{
	struct leases *leases = waiter->lease->leases;
	struct tenant *tenant = waiter->lease->tenant;

	if (list_empty(&waiter->waiting))
		return;
	list_remove(&waiter->waiting);
	list_remove(&waiter->in_tenant);
	if (list_empty(&tenant->waiters) && list_empty(&tenant->untried)) {
		list_remove(&tenant->wanting);
		slices_remove(&tenant->serve);
	}
	leases->counters.waited++;
	leases->counters.waited_ms +=
		clock_now_ms() - (waiter->give_up_ms - LEASE_MEMORY_WAIT_MS);
	pools_hurry(leases->pools, !list_empty(&leases->waiting));
}

void waiter_fail(struct lease_waiter *waiter, int err, const char *text)
{
	if (waiter->err)
		return;
	waiter_end_memory(waiter);
	waiter->err = err;
	(void)snprintf(waiter->text, sizeof(waiter->text), "%s", text);
	lease_changed(waiter->lease);
}

unsigned waiters_fail(struct attachment *attachment, int err, const char *text)
{
	unsigned n = 0;

	list_for_each_entry_safe(struct lease_waiter, waiter, &attachment->waiters,
				 in_attachment) {
		waiter_fail(waiter, err, text);
		n++;
		if (err != -ESTALE)
			continue;
		list_remove(&waiter->in_attachment);
		waiter->attachment = NULL;
	}
	return n;
}
