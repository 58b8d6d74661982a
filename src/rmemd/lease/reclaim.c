/* SPDX-License-Identifier: BSD-3-Clause */
/* What pools that become shorter want back: the clients that have it are told, and at the deadline
 * the leases may end. */
#include "base/clock.h"
#include "rmemd/lease/attachment.h"

/* The number of leases and attachments that are looked at, and of leases that end, before other
 * clients get their turn. */
#define LOOKS_PER_TICK 1024
#define ENDS_PER_TICK 64

/* What is wanted back of a lease. */
struct lease_wanted {
	uint64_t bytes; /* 0: nothing, any more */
	uint64_t until_ms;
	bool revoke; /* then the lease ends; else the pool stays as it is */
	bool due;    /* it ends now, for one of the pools that it is in */
};

static struct lease_wanted wanted_of(const struct lease *lease, uint64_t now_ms)
{
	struct lease_wanted wanted = { .bytes = 0 };

	for (unsigned i = 0; i < lease->n_segments; i++) {
		struct pool_reclaim reclaim;
		bool revoke;

		extent_reclaim(&lease->segments[i]->extent, &reclaim);
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

bool attachment_take_wanted(struct attachment *attachment,
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

/* deadline_too: tell clients that know the bytes already, as the deadline may be another one.
 *
 * A client without keys is told when it has them.  One that was told before knows the lease, and
 * hears of a change even while new keys take long, as the lease is not looked at again. */
static void tell(const struct lease *lease, uint64_t bytes, bool deadline_too)
{
	list_for_each(node, &lease->attachments) {
		struct attachment *attachment =
			container_of(node, struct attachment, in_lease);

		if (attachment->fenced || (attachment->pending && !attachment->wanted))
			continue;
		if (attachment->wanted != bytes || (deadline_too && bytes))
			attachment_tell(attachment, lease->leases, EVENT_WANTED);
	}
}

void lease_tell_wanted(struct lease *lease)
{
	if (!lease->leases->closing)
		tell(lease, wanted_of(lease, 0).bytes, false);
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
	unsigned n_looks = 0, n_ends = 0;

	while (n_looks < LOOKS_PER_TICK && n_ends < ENDS_PER_TICK) {
		const struct list *node = leases_behind(leases, leases->reclaim_after);
		struct lease_wanted wanted;
		struct lease *lease;

		if (node == &leases->all) {
			leases->reclaim_all = false;
			leases->reclaiming = leases->reclaim_found;
			return true;
		}
		lease = container_of((struct list *)(uintptr_t)node, struct lease, all);
		wanted = wanted_of(lease, now_ms);
		n_looks += 1 + lease->n_attachments;
		if (wanted.due) {
			lease_end(lease, WIRE_REASON_REVOKED, NULL);
			n_ends++;
			continue;
		}
		leases->reclaim_after = lease->id;
		leases->reclaim_found |= wanted.bytes > 0;
		if (lease->state == LEASE_READY)
			tell(lease, wanted.bytes, true);
	}
	return false;
}

int leases_each_reclaimed(const struct leases *leases, uint32_t pool,
			  int (*each)(const struct lease_status *status, uint64_t bytes,
				      void *arg),
			  void *arg)
{
	int result = 0;

	for (const struct list *node = leases->all.next;
	     !result && node != &leases->all; node = node->next) {
		const struct lease *lease =
			container_of((struct list *)(uintptr_t)node, struct lease, all);
		struct pool_reclaim reclaim;
		struct lease_status status;
		uint64_t bytes = 0;

		for (unsigned i = 0; i < lease->n_segments; i++) {
			extent_reclaim(&lease->segments[i]->extent, &reclaim);
			if (extent_pool_id(&lease->segments[i]->extent) == pool)
				bytes += reclaim.bytes;
		}
		if (!bytes)
			continue;
		lease_fill_status(lease, &status);
		result = each(&status, bytes, arg);
	}
	return result;
}
