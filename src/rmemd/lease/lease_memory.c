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

/* The bytes under dying keys that their pool wants back to shrink, so that they are not lent again;
 * of pools that are lent through one of the endpoints. */
static uint64_t releasing_reclaimed(const struct leases *leases, unsigned endpoints)
{
	uint64_t bytes = 0;

	list_for_each_entry(const struct segment, segment, &leases->releasing,
			    releasing) {
		if (!(extent_endpoints(&segment->extent) & endpoints))
			continue;
		bytes += extent_reclaim(&segment->extent).bytes;
	}
	return bytes;
}

/* Whether there is room once the keys that are dying are dead, and their memory is scrubbed. */
static bool will_fit(const struct leases *leases, const struct pool_request *request)
{
	unsigned endpoints = request->endpoints ? request->endpoints : UINT_MAX;
	uint64_t room = 0, releasing = 0;
	bool reclaims = false;

	for (unsigned i = 0; i < pools_count(leases->pools); i++) {
		struct pool_status status = pools_status(leases->pools, i);

		if (!(status.endpoints & endpoints))
			continue;
		room += status.free + status.scrubbing + status.releasing;
		releasing += status.releasing;
		reclaims |= status.resizing == POOL_RECLAIMS;
	}
	if (!releasing || room < request->bytes)
		return false;
	/* only if needed, as there may be many such segments */
	if (reclaims)
		room -= releasing_reclaimed(leases, endpoints);
	return room >= request->bytes;
}

static int lease_add_extents(struct lease *lease, const struct lease_client *client,
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
	/* before allocating, as extents that are freed again have to be zeroed */
	err = tenant_check_bytes(lease->tenant, bytes);
	if (err)
		return err;
	err = pools_alloc(leases->pools, &request, extents,
			  WIRE_SEGMENTS_MAX - lease->n_segments, &n);
	if (err == -ENOSPC && will_fit(leases, &request))
		return -EAGAIN;
	if (err)
		return err;
	/* extents are whole pages, which may be more than was asked for */
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

/* Make the lease `bytes` long for the client: with the rest of its last extent, then with new
 * extents. */
static int lease_grow(struct lease *lease, const struct lease_client *client,
		      uint64_t bytes)
{
	struct segment *last = NULL;
	uint64_t more = bytes - lease->bytes, slack = 0;
	int err;

	/* after a cut, the rest is used only when the old keys are dead */
	if (lease->n_segments > 0 && !lease->cut) {
		last = lease->segments[lease->n_segments - 1];
		slack = segment_slack(last);
	}
	if (slack > more)
		slack = more;
	if (more > slack) {
		err = lease_add_extents(lease, client, more - slack);
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
static int waiter_serve(struct lease_waiter *waiter)
{
	int err = lease_grow(waiter->lease, waiter->attachment->client,
			     waiter->wanted_bytes);

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
	/* a request that can be served now does not wait for others that cannot */
	if (waiter_serve(waiter))
		waiter_begin_memory(waiter);
}

void leases_serve_waiting(struct leases *leases)
{
	bool served;

	/* serving one may make another impossible: begin again */
	do {
		served = false;
		list_for_each_entry_safe(struct lease_waiter, waiter, &leases->waiting,
					 waiting)
			served |= !waiter_serve(waiter);
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
