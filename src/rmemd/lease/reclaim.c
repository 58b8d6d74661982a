/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that pools want back to shrink: clients that have it attached are told, and at the
 * deadline the leases may end. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/units.h"
#include "rmemd/lease/attachment.h"

/* The number of leases, segments and attachments that are checked before other clients are
 * served. */
#define CHECKS_PER_TICK 1024

/* The memory wanted back of a lease. */
struct lease_wanted {
	uint64_t bytes; /* 0: nothing */
	uint64_t until_ms;
	bool revoke; /* the lease ends then; false: the pool keeps its size */
	bool due;    /* the lease ends now, for one of its pools */
};

static struct lease_wanted wanted_of(const struct lease *lease, uint64_t now_ms)
{
	struct lease_wanted wanted = { .bytes = 0 };

	for (unsigned i = 0; i < lease->n_segments; i++) {
		bool revoke;
		struct pool_reclaim reclaim =
			extent_reclaim(&lease->segments[i]->extent);

		if (!reclaim.bytes)
			continue;
		/* the earliest deadline counts */
		if (!wanted.bytes || reclaim.until_ms < wanted.until_ms)
			wanted.until_ms = reclaim.until_ms;
		wanted.bytes += reclaim.bytes;
		revoke = reclaim.then == POOL_SHRINK_REVOKE;
		wanted.revoke |= revoke;
		wanted.due |= revoke && reclaim.until_ms <= now_ms;
	}
	return wanted;
}

bool attachment_wanted_message(struct attachment *attachment,
			       struct wire_shrinking *ret_msg)
{
	uint64_t now_ms = clock_now_ms();
	struct lease_wanted wanted = wanted_of(attachment->lease, now_ms);

	if (!wanted.bytes && !attachment->wanted)
		return false;
	attachment->wanted = wanted.bytes;
	*ret_msg = (struct wire_shrinking){
		.lease = attachment->lease->id,
		.bytes = wanted.bytes,
		.wait_ms = wanted.until_ms > now_ms ? wanted.until_ms - now_ms : 0,
		.revoke = wanted.revoke,
	};
	return true;
}

/* Tell clients if the number of wanted bytes has changed; resend_deadline: also if it has not, as
 * the deadline may have changed.
 *
 * A client whose keys are pending is told when it has them, by lease_send_wanted().  One that was
 * told before is told now: at the end of a reclaim lease_send_wanted() is not called any more. */
static void lease_tell_wanted(const struct lease *lease, uint64_t bytes,
			      bool resend_deadline)
{
	list_for_each_entry(struct attachment, attachment, &lease->attachments,
			    in_lease) {
		if (attachment->fenced || (attachment->pending && !attachment->wanted))
			continue;
		if (attachment->wanted != bytes || (resend_deadline && bytes))
			attachment_add_event(attachment, lease->leases, EVENT_WANTED);
	}
}

void lease_send_wanted(struct lease *lease)
{
	if (!lease->leases->closing)
		lease_tell_wanted(lease, wanted_of(lease, 0).bytes, false);
}

void leases_reclaim(struct leases *leases)
{
	leases->reclaiming = leases->reclaim_all = true;
	leases->reclaim_after = 0;
	leases->reclaim_found = false;
	leases->events->timer_moved(leases->ctx);
}

bool leases_reclaim_some(struct leases *leases, uint64_t now_ms)
{
	unsigned n_checks = 0, n_ends = 0;

	while (n_checks < CHECKS_PER_TICK && n_ends < LEASE_ENDS_PER_TICK) {
		struct lease *lease = leases_next_after(leases, leases->reclaim_after);
		struct lease_wanted wanted;

		if (!lease) {
			leases->reclaim_all = false;
			leases->reclaiming = leases->reclaim_found;
			return true;
		}
		wanted = wanted_of(lease, now_ms);
		n_checks += lease->n_segments + lease->n_attachments + 1;
		if (wanted.due) {
			lease_terminate(lease, WIRE_REASON_REVOKED, NULL);
			n_ends++;
			continue;
		}
		leases->reclaim_after = lease->id;
		leases->reclaim_found |= wanted.bytes > 0;
		if (lease->state == WIRE_LEASE_READY)
			lease_tell_wanted(lease, wanted.bytes, true);
	}
	return false;
}

/* ---- for the log ---- */

/* Insert a lease into the list of those that hold most, the largest first. */
static void holders_add(struct pool_holders *holders, uint64_t lease, uint64_t bytes)
{
	unsigned i = holders->n < POOL_HOLDERS_NAMED ? holders->n : POOL_HOLDERS_NAMED;

	for (; i > 0 && holders->most[i - 1].bytes < bytes; i--)
		if (i < POOL_HOLDERS_NAMED)
			holders->most[i] = holders->most[i - 1];
	if (i < POOL_HOLDERS_NAMED)
		holders->most[i] = (struct pool_holder){ lease, bytes };
	holders->bytes += bytes;
	holders->n++;
}

static uint64_t reclaimed_of_pool(const struct lease *lease, uint32_t pool)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < lease->n_segments; i++)
		if (extent_pool(&lease->segments[i]->extent).id == pool)
			bytes += extent_reclaim(&lease->segments[i]->extent).bytes;
	return bytes;
}

bool leases_find_holders(const struct leases *leases, struct pool_holders *holders)
{
	unsigned n_checks = 0;

	while (n_checks < CHECKS_PER_TICK) {
		const struct lease *lease = leases_next_after(leases, holders->after);
		uint64_t bytes;

		if (!lease)
			return true;
		bytes = reclaimed_of_pool(lease, holders->pool);
		n_checks += lease->n_segments + 1;
		holders->after = lease->id;
		if (bytes)
			holders_add(holders, lease->id, bytes);
	}
	return false;
}

void leases_describe_holders(const struct leases *leases,
			     const struct pool_holders *holders, char *buf,
			     size_t buf_bytes)
{
	unsigned n_named =
		holders->n < POOL_HOLDERS_NAMED ? holders->n : POOL_HOLDERS_NAMED;
	size_t used = (size_t)snprintf(buf, buf_bytes, "%s of %u lease%s",
				       UNITS_BYTES(holders->bytes), holders->n,
				       holders->n == 1 ? "" : "s");

	for (unsigned i = 0; i < n_named && used < buf_bytes; i++) {
		const struct lease *lease =
			leases_find_id(leases, holders->most[i].lease);

		used += (size_t)snprintf(buf + used, buf_bytes - used,
					 "%s %" PRIu64 " of tenant %s has %s",
					 i ? "," : ":", holders->most[i].lease,
					 lease ? lease->tenant->name : "-",
					 UNITS_BYTES(holders->most[i].bytes));
	}
	if (holders->n > n_named && used < buf_bytes)
		(void)snprintf(buf + used, buf_bytes - used, ", ...");
}
