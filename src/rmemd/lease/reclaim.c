/* SPDX-License-Identifier: BSD-3-Clause */
/* What pools that become shorter want back: those who have it are told, and in the end it may
 * be taken. */
#include "base/clock.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/lease_table.h"

/* Others get their turn before more leases, and those who have them attached, are looked at, or
 * ended. */
#define LOOKS_PER_TICK 1024
#define ENDS_PER_TICK 64

/* What is wanted back of a lease. */
struct lease_wanted {
	uint64_t bytes; /* 0: nothing, any more */
	uint64_t until_ms;
	bool revoke; /* then the lease ends; else the pool stays as it is */
};

static void extent_add(const struct extent *extent, struct lease_wanted *wanted)
{
	struct pool_reclaim reclaim;

	extent_reclaim(extent, &reclaim);
	if (!reclaim.bytes)
		return;
	/* what is wanted first counts */
	if (!wanted->bytes || reclaim.until_ms < wanted->until_ms)
		wanted->until_ms = reclaim.until_ms;
	wanted->bytes += reclaim.bytes;
	wanted->revoke |= reclaim.then == POOL_SHRINK_REVOKE;
}

static void lease_look(const struct lease *lease, struct lease_wanted *ret_wanted)
{
	*ret_wanted = (struct lease_wanted){ 0 };
	for (unsigned i = 0; i < lease->n_segments; i++)
		extent_add(&lease->segments[i]->extent, ret_wanted);
}

static void describe(const struct lease *lease, const struct lease_wanted *wanted,
		     struct wire_shrinking *ret_msg)
{
	uint64_t now_ms = clock_now_ms();

	*ret_msg = (struct wire_shrinking){
		.lease = lease->id,
		.bytes = wanted->bytes,
		.wait_ms = wanted->until_ms > now_ms ? wanted->until_ms - now_ms : 0,
		.revoke = wanted->revoke,
	};
}

bool attachment_take_wanted(struct attachment *attachment,
			    struct wire_shrinking *ret_msg)
{
	struct lease_wanted wanted;

	lease_look(attachment->lease, &wanted);
	if (!wanted.bytes && !attachment->wanted)
		return false;
	attachment->wanted = wanted.bytes;
	describe(attachment->lease, &wanted, ret_msg);
	return true;
}

/* Whoever has no keys yet is told when he has.  One who was told before knows the lease, and
 * must hear of a change even while new keys take long: nobody else looks again. */
static bool hears(const struct attachment *attachment)
{
	return !attachment->fenced && (!attachment->pending || attachment->wanted);
}

void lease_tell_wanted(struct lease *lease)
{
	struct lease_wanted wanted;

	if (lease->leases->closing)
		return;
	lease_look(lease, &wanted);
	list_for_each(node, &lease->attachments) {
		struct attachment *attachment =
			container_of(node, struct attachment, in_lease);

		if (hears(attachment) && attachment->wanted != wanted.bytes)
			attachment_tell(attachment, lease->leases, EVENT_WANTED);
	}
}

/* When there is another deadline, too. */
static void tell_all(const struct lease *lease, const struct lease_wanted *wanted)
{
	list_for_each(node, &lease->attachments) {
		struct attachment *attachment =
			container_of(node, struct attachment, in_lease);

		if (hears(attachment) && (attachment->wanted || wanted->bytes))
			attachment_tell(attachment, lease->leases, EVENT_WANTED);
	}
}

void leases_reclaim(struct leases *leases)
{
	leases->reclaiming = leases->reclaim_all = true;
	leases->reclaim_after = 0;
	leases->reclaim_found = false;
	leases->events->timer_moved(leases->ctx);
}

/* It ends now, for one of the pools that it is in. */
static bool is_due(const struct lease *lease, uint64_t now_ms)
{
	for (unsigned i = 0; i < lease->n_segments; i++) {
		struct pool_reclaim reclaim;

		extent_reclaim(&lease->segments[i]->extent, &reclaim);
		if (reclaim.bytes && reclaim.then == POOL_SHRINK_REVOKE &&
		    reclaim.until_ms <= now_ms)
			return true;
	}
	return false;
}

void leases_reclaim_some(struct leases *leases, uint64_t now_ms)
{
	unsigned n_looks = 0, n_ends = 0;

	while (n_looks < LOOKS_PER_TICK && n_ends < ENDS_PER_TICK) {
		const struct list *node = leases_behind(leases, leases->reclaim_after);
		struct lease_wanted wanted;
		struct lease *lease;

		if (node == &leases->all) {
			leases->reclaim_all = false;
			leases->reclaiming = leases->reclaim_found;
			/* what others wait for may not come back, or now it does */
			leases_retry(leases);
			return;
		}
		lease = container_of((struct list *)(uintptr_t)node, struct lease, all);
		n_looks += 1 + lease->n_attachments;
		if (is_due(lease, now_ms)) {
			lease_end(lease, WIRE_REASON_REVOKED, NULL);
			lease_settle(lease);
			n_ends++;
			continue;
		}
		leases->reclaim_after = lease->id;
		lease_look(lease, &wanted);
		leases->reclaim_found |= wanted.bytes > 0;
		if (lease->state == LEASE_READY)
			tell_all(lease, &wanted);
	}
}

int leases_each_reclaimed(const struct leases *leases, uint32_t pool,
			  int (*each)(const struct lease_status *status, uint64_t bytes,
				      void *arg),
			  void *arg)
{
	list_for_each(node, &leases->all) {
		const struct lease *lease = container_of(node, struct lease, all);
		struct pool_reclaim reclaim;
		struct lease_status status;
		uint64_t bytes = 0;
		int result;

		for (unsigned i = 0; i < lease->n_segments; i++) {
			extent_reclaim(&lease->segments[i]->extent, &reclaim);
			if (extent_pool_id(&lease->segments[i]->extent) == pool)
				bytes += reclaim.bytes;
		}
		if (!bytes)
			continue;
		lease_fill_status(lease, &status);
		result = each(&status, bytes, arg);
		if (result)
			return result;
	}
	return 0;
}
