/* SPDX-License-Identifier: BSD-3-Clause */
/* What pools that become shorter want back: the clients that have it are told, and at the deadline
 * the leases may end. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/units.h"
#include "rmemd/lease/attachment.h"

/* The number of leases and attachments that are looked at, and of leases that end, before other
 * clients get their turn. */
#define LOOKS_PER_TICK 1024
#define ENDS_PER_TICK 64

/* The number of leases that leases_describe_reclaimed() names. */
#define BLOCKERS_MAX 4

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

/* ---- for the log ---- */

/* A lease that is in the way of what is wanted back of a pool. */
struct blocker {
	const struct lease *lease;
	uint64_t bytes;
};

/* Into the list of those that have most, the largest first; `n` were seen before. */
static void blocker_add(struct blocker most[BLOCKERS_MAX], unsigned n,
			const struct lease *lease, uint64_t bytes)
{
	unsigned i = n < BLOCKERS_MAX ? n : BLOCKERS_MAX;

	for (; i > 0 && most[i - 1].bytes < bytes; i--)
		if (i < BLOCKERS_MAX)
			most[i] = most[i - 1];
	if (i < BLOCKERS_MAX)
		most[i] = (struct blocker){ lease, bytes };
}

static uint64_t reclaimed_of_pool(const struct lease *lease, uint32_t pool)
{
	struct pool_reclaim reclaim;
	uint64_t bytes = 0;

	for (unsigned i = 0; i < lease->n_segments; i++) {
		if (extent_pool_id(&lease->segments[i]->extent) != pool)
			continue;
		extent_reclaim(&lease->segments[i]->extent, &reclaim);
		bytes += reclaim.bytes;
	}
	return bytes;
}

bool leases_describe_reclaimed(const struct leases *leases, uint32_t pool, char *buf,
			       size_t buf_bytes)
{
	struct blocker most[BLOCKERS_MAX];
	uint64_t sum = 0;
	char text[32];
	unsigned n = 0;
	size_t used;

	list_for_each(node, &leases->all) {
		const struct lease *lease = container_of(node, struct lease, all);
		uint64_t bytes = reclaimed_of_pool(lease, pool);

		if (!bytes)
			continue;
		blocker_add(most, n++, lease, bytes);
		sum += bytes;
	}
	used = (size_t)snprintf(buf, buf_bytes, "%s of %u lease%s",
				units_format_bytes(sum, text, sizeof(text)), n,
				n == 1 ? "" : "s");
	for (unsigned i = 0; i < n && i < BLOCKERS_MAX && used < buf_bytes; i++)
		used += (size_t)snprintf(
			buf + used, buf_bytes - used,
			"%s %" PRIu64 " of tenant %s has %s", i ? "," : ":",
			most[i].lease->id, most[i].lease->tenant->name,
			units_format_bytes(most[i].bytes, text, sizeof(text)));
	if (n > BLOCKERS_MAX && used < buf_bytes)
		(void)snprintf(buf + used, buf_bytes - used, ", ...");
	return n > 0;
}
