/* SPDX-License-Identifier: BSD-3-Clause */
/* The table as a whole: opening and closing, listing, and events of the fabrics, the pools and the
 * clock. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/fanout.h"

int leases_open(struct pools *pools, struct ledger *ledger, struct slices *slices,
		const struct leases_events *events, void *ctx, uint64_t first_id,
		struct leases **ret_leases)
{
	struct leases *leases = calloc(1, sizeof(*leases));

	if (!leases)
		return err_set(-ENOMEM, "no memory for the leases");
	leases->pools = pools;
	leases->ledger = ledger;
	leases->slices = slices;
	leases->events = events;
	leases->ctx = ctx;
	leases->next_id = first_id;
	leases->run = leases_run;
	list_init(&leases->all);
	list_init(&leases->ended);
	list_init(&leases->changed);
	list_init(&leases->waiting);
	list_init(&leases->wanting);
	list_init(&leases->releasing);
	*ret_leases = leases;
	return 0;
}

void leases_close(struct leases *leases)
{
	struct lease *lease;

	if (!leases)
		return;
	leases->closing = true;
	while ((lease = list_first(&leases->all, struct lease, all))) {
		list_for_each_entry(struct attachment, attachment, &lease->attachments,
				    in_lease)
			(void)attachment_fence(attachment);
		lease_terminate(lease, WIRE_REASON_SHUTDOWN, NULL);
	}
	list_for_each_entry(struct lease, ended, &leases->ended, all) {
		if (ended->sweep.runs)
			sweep_start(ended, NULL, 0, 0);
		/* the fabrics are closed, and send no events */
		list_for_each_entry_safe(struct mr, mr, &ended->dying, link)
			mr_free(mr);
		slices_remove(&ended->tenant->answer);
		list_move(&leases->changed, &ended->changed);
	}
	leases_run(leases);
	free(leases);
}

/* ---- listing ---- */

int leases_each(const struct leases *leases, uint64_t after,
		int (*each)(const struct lease_status *status, void *arg), void *arg)
{
	for (const struct lease *lease = leases_next_after(leases, after); lease;
	     lease = list_next(lease, &leases->all, struct lease, all)) {
		struct lease_status status = lease_status(lease);
		int result = each(&status, arg);

		if (result)
			return result;
	}
	return 0;
}

int leases_each_named(const struct tenant *tenant, uint64_t *after, const char *prefix,
		      unsigned max,
		      int (*each)(const struct lease_status *status, void *arg),
		      void *arg)
{
	size_t prefix_len = strlen(prefix);
	struct tree_node *node;

	for (unsigned n = 0; (node = tree_above(&tenant->named, *after, 0)); n++) {
		const struct lease *lease = container_of(node, struct lease, in_named);
		struct lease_status status;
		int result;

		if (n == max)
			return -EAGAIN;
		*after = lease->id;
		if (lease->state != WIRE_LEASE_READY ||
		    strncmp(lease->name, prefix, prefix_len) != 0)
			continue;
		status = lease_status(lease);
		result = each(&status, arg);
		if (result)
			return result;
	}
	return 0;
}

int lease_each_holder(const struct lease_status *status, uint64_t after,
		      int (*each)(const struct lease_holder *holder, void *arg),
		      void *arg)
{
	const struct attachment *attachment;

	while ((attachment = attachment_next_after(status->lease, after))) {
		const struct lease_client *client = attachment->client;
		const struct lease_holder holder = {
			.session = client->id,
			.tenant = client->tenant->name,
			.origin = client->origin,
			.rights = attachment->rights,
			.fenced = attachment->fenced,
		};
		int result = each(&holder, arg);

		if (result)
			return result;
		after = client->id;
	}
	return 0;
}

struct fabric_mr_traffic lease_traffic(const struct lease_status *status)
{
	const struct lease *lease = status->lease;
	struct fabric_mr_traffic sum = lease->traffic;

	list_for_each_entry(const struct attachment, attachment, &lease->attachments,
			    in_lease)
		attachment_add_traffic(attachment, &sum);
	return sum;
}

bool lease_is_of(const struct lease_status *status, uint64_t session)
{
	return status->owner == session || attachment_find(status->lease, session);
}

bool leases_find_status(const struct leases *leases, uint64_t id,
			struct lease_status *ret_status)
{
	const struct lease *lease = leases_find_id(leases, id);

	if (!lease || lease->state != WIRE_LEASE_READY)
		return false;
	*ret_status = lease_status(lease);
	return true;
}

bool leases_find_named(const struct tenant *tenant, const char *name,
		       struct lease_status *ret_status)
{
	const struct lease *lease = leases_find_name(tenant, name);

	if (!lease || lease->state != WIRE_LEASE_READY)
		return false;
	*ret_status = lease_status(lease);
	return true;
}

unsigned leases_count(const struct leases *leases)
{
	return (unsigned)(leases->counters.named + leases->counters.ephemeral);
}

const struct leases_counters *leases_counters(const struct leases *leases)
{
	return &leases->counters;
}

int leases_revoke(struct leases *leases, uint64_t id)
{
	struct lease *lease = leases_find_id(leases, id);

	if (!lease || lease->state != WIRE_LEASE_READY)
		return err_set(-ENOENT, "there is no lease %" PRIu64, id);
	lease_terminate(lease, WIRE_REASON_REVOKED, NULL);
	leases_run(leases);
	return 0;
}

bool leases_revoke_after(struct leases *leases, uint64_t *after, unsigned max)
{
	struct lease *lease;

	for (unsigned n = 0; n < max; n++) {
		lease = leases_next_after(leases, *after);
		if (!lease)
			break;
		*after = lease->id;
		if (lease->state == WIRE_LEASE_READY)
			lease_terminate(lease, WIRE_REASON_REVOKED, NULL);
	}
	leases_run(leases);
	return leases_next_after(leases, *after);
}

void leases_set_draining(struct leases *leases, bool draining)
{
	leases->draining = draining;
	leases_retry(leases);
}

/* ---- time ---- */

/* The lease that is due first, or NULL. */
static struct lease *first_due(const struct leases *leases)
{
	struct tree_node *node = tree_above(&leases->deadlines, 0, 0);

	return node ? container_of(node, struct lease, in_deadlines) : NULL;
}

void leases_tick(struct leases *leases)
{
	uint64_t now_ms = clock_now_ms();
	struct lease *first;

	for (unsigned i = 0; i < LEASE_ENDS_PER_TICK && (first = first_due(leases)) &&
			     first->due_ms <= now_ms;
	     i++) {
		leases->counters.expired++;
		lease_terminate(first, WIRE_REASON_EXPIRED, NULL);
	}
	leases_time_out(leases, now_ms);
	if (leases->reclaim_all && leases_reclaim_some(leases, now_ms))
		/* memory that waiters wait for may be lent again, or not any more */
		leases_serve_waiting(leases);
	leases_run(leases);
}

uint64_t leases_next_ms(const struct leases *leases)
{
	const struct lease *first = first_due(leases);
	const struct lease_waiter *waiter =
		list_first(&leases->waiting, struct lease_waiter, waiting);
	uint64_t next_ms = first ? first->due_ms : UINT64_MAX;

	/* all waiters wait equally long, so the first one times out first */
	if (waiter && waiter->give_up_ms < next_ms)
		next_ms = waiter->give_up_ms;
	return leases->reclaim_all ? 0 : next_ms;
}

/* ---- events of the pools ---- */

void leases_retry(struct leases *leases)
{
	leases_serve_waiting(leases);
	leases_run(leases);
}

/* ---- events of the fabrics ---- */

void lease_mr_registered(void *, void *mr_cookie, int err, const char *text,
			 const struct fabric_key *key)
{
	struct mr *mr = mr_cookie;
	struct attachment *attachment = mr->attachment;
	struct lease *lease = mr->segment->lease;

	if (mr->state == MR_DYING) {
		/* the event crossed the deregistration; after an error there is no other event */
		if (err)
			lease_mr_deregistered(NULL, mr);
		return;
	}
	if (err) {
		mr_free(mr);
		(void)waiters_fail(attachment, err, text);
	} else {
		mr_set_live(mr);
		mr->key = *key;
		attachment->pending--;
		attachment_retire(attachment);
	}
	lease_changed(lease);
	leases_run(lease->leases);
}

void lease_mr_deregistered(void *, void *mr_cookie)
{
	struct mr *mr = mr_cookie;
	struct lease *lease = mr->segment->lease;

	mr_free(mr);
	lease_changed(lease);
	leases_run(lease->leases);
}

void lease_notified(void *, void *, void *mr_cookie, uint32_t value, uint32_t lost)
{
	const struct mr *mr = mr_cookie;

	/* a notification counts even if its key is dying by now */
	fanout_notify(mr->segment->lease, value, lost);
}
