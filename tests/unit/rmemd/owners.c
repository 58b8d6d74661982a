/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rmemd/owners.h"

#include <string.h>

#include "rmemd/lease/lease_table.h"
#include "rmemd/pool/pools.h"

typedef unsigned long long number;

struct owners owners[OWNERS_POOLS_MAX];
unsigned n_owners;

static void owners_begin(const struct pools *pools)
{
	n_owners = pools_count(pools);
	if (n_owners > OWNERS_POOLS_MAX)
		owners_fail("there are %u pools", n_owners);
	for (unsigned i = 0; i < n_owners; i++) {
		struct owners *at = &owners[i];

		at->addr = NULL;
		at->n_owned = 0;
		at->n_pages = pools_status(pools, i).bytes / OWNERS_PAGE;
		if (at->n_pages > OWNERS_PAGES_MAX)
			owners_fail("a pool has %llu pages", (number)at->n_pages);
		memset(at->lease, 0, at->n_pages * sizeof(at->lease[0]));
	}
}

static struct owners *owners_of(const struct extent *extent, const struct pools *pools)
{
	for (unsigned i = 0; i < n_owners; i++) {
		if (pools_params(pools, i)->id != extent_pool(extent).id)
			continue;
		owners[i].addr = (char *)extent_addr(extent) - extent->offset;
		return &owners[i];
	}
	owners_fail("an extent is in no pool");
}

static void segment_own(const struct segment *segment, const struct pools *pools)
{
	const struct extent *extent = &segment->extent;
	struct owners *at = owners_of(extent, pools);
	uint64_t first = extent->offset / OWNERS_PAGE, n = extent->bytes / OWNERS_PAGE;
	number lease = segment->lease->id;

	if (segment->bytes > extent->bytes)
		owners_fail("a segment of lease %llu has %llu bytes of %llu", lease,
			    (number)segment->bytes, (number)extent->bytes);
	if ((extent->offset | extent->bytes) % OWNERS_PAGE || first > at->n_pages ||
	    n > at->n_pages - first)
		owners_fail("lease %llu has %llu bytes at %llu of a pool of %llu",
			    lease, (number)extent->bytes, (number)extent->offset,
			    (number)(at->n_pages * OWNERS_PAGE));
	for (uint64_t i = first; i < first + n; i++) {
		if (at->lease[i])
			owners_fail("page %llu is in lease %llu and in lease %llu",
				    (number)i, lease, (number)at->lease[i]);
		at->lease[i] = segment->lease->id;
	}
	at->n_owned += n;
}

static void lease_own(const struct lease *lease, const struct pools *pools)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < lease->n_segments; i++) {
		segment_own(lease->segments[i], pools);
		bytes += lease->segments[i]->bytes;
	}
	if (lease->state == WIRE_LEASE_READY && bytes != lease->bytes)
		owners_fail("lease %llu has %llu bytes, and segments of %llu",
			    (number)lease->id, (number)lease->bytes, (number)bytes);
}

static void check_sums(const struct owners *at, const struct pool_status *status)
{
	if (status->lent != at->n_owned * OWNERS_PAGE)
		owners_fail("pool %s has lent %llu bytes, and leases have %llu",
			    status->name, (number)status->lent,
			    (number)(at->n_owned * OWNERS_PAGE));
	if (status->lent + status->scrubbing + status->free + status->closed !=
	    status->bytes)
		owners_fail("pool %s of %llu bytes: %llu lent, %llu scrubbing, "
			    "%llu free, %llu closed",
			    status->name, (number)status->bytes, (number)status->lent,
			    (number)status->scrubbing, (number)status->free,
			    (number)status->closed);
}

void owners_find(const struct leases *leases, const struct pools *pools)
{
	owners_begin(pools);
	list_for_each_entry(const struct lease, lease, &leases->all, all)
		lease_own(lease, pools);
	list_for_each_entry(const struct lease, lease, &leases->ended, all)
		lease_own(lease, pools);
	list_for_each_entry(const struct segment, segment, &leases->releasing,
			    releasing)
		segment_own(segment, pools);
	for (unsigned i = 0; i < n_owners; i++) {
		struct pool_status status = pools_status(pools, i);

		check_sums(&owners[i], &status);
	}
}

uint64_t owner_at(const char *at)
{
	for (unsigned i = 0; i < n_owners; i++)
		if (owners[i].addr && at >= owners[i].addr &&
		    at < owners[i].addr + owners[i].n_pages * OWNERS_PAGE)
			return owners[i]
				.lease[(uint64_t)(at - owners[i].addr) / OWNERS_PAGE];
	return 0;
}
