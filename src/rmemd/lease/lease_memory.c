/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for grants and growth: allocated from the pools, or waited for while it is being
 * scrubbed or its old keys are dying. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/err.h"
#include "rmemd/lease/attachment.h"

/* Append extents as segments of `bytes` together.  On failure the lease has none of them, and
 * they are free again. */
static int append_extents(struct lease *lease, const struct extent *extents, unsigned n,
			  uint64_t bytes)
{
	struct segment **segments = realloc(
		lease->segments, (lease->n_segments + n) * sizeof(struct segment *));
	int err = segments ? 0 : err_set(-ENOMEM, "no memory for a lease's segments");
	unsigned i, n_before = lease->n_segments;

	if (segments)
		lease->segments = segments;
	for (i = 0; !err && i < n; i++) {
		uint64_t used = bytes < extents[i].bytes ? bytes : extents[i].bytes;

		err = segment_create(lease->leases, lease->tenant, extents[i], used,
				     &segments[n_before + i]);
		if (err)
			break;
		lease->n_segments++;
		bytes -= used;
	}
	if (!err)
		return 0;
	for (; i < n; i++)
		pools_free(lease->leases->pools, extents[i]);
	while (lease->n_segments > n_before)
		segment_release(lease->segments[--lease->n_segments]);
	return err;
}

/* How much of the memory under dying keys, in pools that are reached, is not lent again because
 * its pool becomes shorter. */
static uint64_t releasing_reclaimed(const struct leases *leases, unsigned endpoints)
{
	uint64_t bytes = 0;

	list_for_each(node, &leases->releasing) {
		const struct segment *segment =
			container_of(node, struct segment, releasing);
		struct pool_reclaim reclaim;

		if (!(extent_endpoints(&segment->extent) & endpoints))
			continue;
		extent_reclaim(&segment->extent, &reclaim);
		bytes += reclaim.bytes;
	}
	return bytes;
}

/* What is still under a dying key is scrubbed soon. */
static bool will_fit(const struct leases *leases, const struct pool_request *request)
{
	unsigned endpoints = request->endpoints ? request->endpoints : UINT_MAX;
	uint64_t room = 0, releasing = 0;
	struct pool_status status;
	bool reclaims = false;

	for (unsigned i = 0; i < pools_count(leases->pools); i++) {
		pools_status(leases->pools, i, &status);
		if (!(status.endpoints & endpoints))
			continue;
		room += status.free + status.scrubbing + status.releasing;
		releasing += status.releasing;
		reclaims |= status.resizing == POOL_RECLAIMS;
	}
	if (!releasing || room < request->bytes)
		return false;
	/* there may be many to look at */
	if (reclaims)
		room -= releasing_reclaimed(leases, endpoints);
	return room >= request->bytes;
}

static int allocate(struct lease *lease, const struct lease_client *client,
		    uint64_t bytes)
{
	struct leases *leases = lease->leases;
	struct extent extents[WIRE_SEGMENTS_MAX];
	int nodes[WIRE_ENDPOINTS_MAX] = { lease->node };
	struct pool_request request = {
		.bytes = bytes,
		.align = lease->align ? lease->align : 1,
		.nodes = nodes,
		.n_nodes = lease->node == POOL_NODE_ANY
				   ? lease_client_nodes(client, nodes)
				   : 1,
		.endpoints = lease_client_endpoints(client),
		.interleave = lease->placement == WIRE_PLACE_INTERLEAVE,
	};
	uint64_t lent = 0;
	unsigned n;
	int err;

	if (lease->n_segments == WIRE_SEGMENTS_MAX)
		return err_set(-ENOSPC,
			       "the lease has %d segments, as many as one can have",
			       WIRE_SEGMENTS_MAX);
	/* first, as extents that are allocated and freed again have to be zeroed */
	err = tenant_check_bytes(lease->tenant, bytes);
	if (err)
		return err;
	err = pools_alloc(leases->pools, &request, extents,
			  WIRE_SEGMENTS_MAX - lease->n_segments, &n);
	if (err == -ENOSPC && will_fit(leases, &request))
		return -EAGAIN;
	if (err)
		return err;
	/* they are whole pages, which may be more than was asked for */
	for (unsigned i = 0; i < n; i++)
		lent += extents[i].bytes;
	if (lent > bytes)
		err = tenant_check_bytes(lease->tenant, lent);
	if (!err)
		return append_extents(lease, extents, n, bytes);
	for (unsigned i = 0; i < n; i++)
		pools_free(leases->pools, extents[i]);
	return err;
}

/* Make the lease `bytes` long for the client: first what the last extent has left, then new
 * extents. */
static int grow(struct lease *lease, const struct lease_client *client, uint64_t bytes)
{
	struct segment *last = NULL;
	uint64_t more = bytes - lease->bytes, slack = 0;
	int err;

	/* behind a cut the old keys must be dead first */
	if (lease->n_segments > 0 && !lease->cut) {
		last = lease->segments[lease->n_segments - 1];
		slack = segment_slack(last);
	}
	if (slack > more)
		slack = more;
	if (more > slack) {
		err = allocate(lease, client, more - slack);
		if (err)
			return err;
	}
	if (slack)
		segment_extend(last, slack);
	lease->bytes = bytes;
	lease->generation++;
	return 0;
}

/* -EAGAIN: the memory is not clean yet. */
static int serve(struct lease_waiter *waiter)
{
	int err = grow(waiter->lease, waiter->attachment->client, waiter->wanted_bytes);

	if (err == -EAGAIN)
		return err;
	waiter_end_memory(waiter);
	if (err)
		waiter_fail(waiter, err, err_text());
	lease_changed(waiter->lease);
	return 0;
}

void lease_want_memory(struct lease_waiter *waiter, uint64_t bytes)
{
	waiter->wanted_bytes = bytes;
	/* a request that fits now does not wait for those that do not */
	if (serve(waiter))
		waiter_begin_memory(waiter);
}

void leases_serve_waiting(struct leases *leases)
{
	bool served;

	/* what one gets may decide that another never will: go on from the start */
	do {
		served = false;
		list_for_each_safe(node, &leases->waiting)
			served |= !serve(
				container_of(node, struct lease_waiter, waiting));
	} while (served);
}

void leases_time_out(struct leases *leases, uint64_t now_ms)
{
	struct lease_waiter *waiter;

	while ((waiter = list_first(&leases->waiting, struct lease_waiter, waiting)) &&
	       waiter->give_up_ms <= now_ms) {
		(void)err_set(-ENOSPC, "the memory freed was not clean in %d s",
			      LEASE_MEMORY_WAIT_MS / 1000);
		waiter_fail(waiter, -ENOSPC, err_text());
	}
}
