/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for grants and growth: taken from the pools, or waited for while it is being
 * scrubbed or its old keys are dying. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/lease_table.h"

static void free_all(struct lease *lease, const struct extent *extents, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		pools_free(lease->leases->pools, extents[i]);
}

static int charge_all(struct lease *lease, const struct extent *extents, unsigned n)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < n; i++)
		bytes += extents[i].bytes;
	return tenant_charge(lease->tenant, bytes);
}

/* Append extents the tenant is charged for as segments of `bytes` together.  All of
 * them are the lease's, or on failure none and nothing is charged. */
static int append_all(struct lease *lease, const struct extent *extents, unsigned n,
		      uint64_t bytes)
{
	struct segment **segments = realloc(
		lease->segments, (lease->n_segments + n) * sizeof(struct segment *));
	unsigned i;
	int err = 0;

	if (segments)
		lease->segments = segments;
	else
		err = err_set(-ENOMEM, "no memory for a lease's segments");
	for (i = 0; !err && i < n; i++) {
		uint64_t used = bytes < extents[i].bytes ? bytes : extents[i].bytes;

		err = segment_create(lease->leases, lease->tenant, extents[i], used,
				     &segments[lease->n_segments + i]);
		if (err)
			break;
		bytes -= used;
	}
	if (!err) {
		lease->n_segments += n;
		return 0;
	}
	for (unsigned k = i; k < n; k++)
		tenant_uncharge(lease->tenant, extents[k].bytes);
	free_all(lease, extents + i, n - i);
	while (i > 0)
		segment_release(segments[lease->n_segments + --i]);
	return err;
}

/* So much of what is under dying keys, in pools that are reached, is not lent again: those that
 * become shorter want it. */
static uint64_t released_reclaimed(const struct leases *leases, unsigned endpoints)
{
	uint64_t bytes = 0;

	list_for_each(node, &leases->releasing) {
		const struct segment *segment =
			container_of(node, struct segment, releasing);
		struct pool_reclaim reclaim;

		if (!segment_lent_through(segment, endpoints))
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
	bool recalls = false;

	for (unsigned i = 0; i < pools_count(leases->pools); i++) {
		pools_status(leases->pools, i, &status);
		if (!(status.endpoints & endpoints))
			continue;
		room += status.free + status.scrubbing + status.releasing;
		releasing += status.releasing;
		recalls |= status.resizing == POOL_RECLAIMS;
	}
	if (!releasing || room < request->bytes)
		return false;
	/* there may be many to look at */
	if (recalls)
		room -= released_reclaimed(leases, endpoints);
	return room >= request->bytes;
}

static int take_extents(struct lease *lease, const struct lease_client *client,
			uint64_t bytes)
{
	struct leases *leases = lease->leases;
	struct extent extents[WIRE_SEGMENTS_MAX];
	int nodes[WIRE_ENDPOINTS_MAX] = { lease->node };
	struct pool_request request = {
		.bytes = bytes,
		.align = lease->align ? lease->align : 1,
		.nodes = nodes,
		.n_nodes = 1,
		.endpoints = lease_client_endpoints(client),
		.interleave = lease->placement == WIRE_PLACE_INTERLEAVE,
	};
	unsigned n;
	int err;

	if (lease->n_segments == WIRE_SEGMENTS_MAX)
		return err_set(-ENOSPC,
			       "the lease has %d segments, as many as one can have",
			       WIRE_SEGMENTS_MAX);
	/* what is taken and given back is zeroed, and that takes time from others */
	err = tenant_check_bytes(lease->tenant, bytes);
	if (err)
		return err;
	if (lease->node == POOL_NODE_ANY)
		request.n_nodes = lease_client_nodes(client, nodes);
	err = pools_alloc(leases->pools, &request, extents,
			  WIRE_SEGMENTS_MAX - lease->n_segments, &n);
	if (err == -ENOSPC && will_fit(leases, &request))
		return -EAGAIN;
	if (err)
		return err;
	err = charge_all(lease, extents, n);
	if (err) {
		free_all(lease, extents, n);
		return err;
	}
	return append_all(lease, extents, n, bytes);
}

/* Make the lease `bytes` long for the client: first what the last extent has left, then new
 * extents. */
static int take(struct lease *lease, const struct lease_client *client, uint64_t bytes)
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
		err = take_extents(lease, client, more - slack);
		if (err)
			return err;
	}
	if (slack)
		segment_extend(last, slack);
	lease->bytes = bytes;
	lease->generation++;
	return 0;
}

struct lease_waiter *lease_stop_waiting(struct lease *lease)
{
	struct leases *leases = lease->leases;
	struct lease_waiter *waiter = lease->memory_waiter;

	if (!waiter)
		return NULL;
	lease->memory_waiter = NULL;
	list_remove(&lease->waiting);
	leases->waited_ever++;
	leases->waited_ms +=
		clock_now_ms() - (lease->give_up_ms - LEASE_MEMORY_WAIT_MS);
	pools_hurry(leases->pools, !list_empty(&leases->waiting));
	return waiter;
}

/* The lease has its memory, or err: then the request fails. */
static void go_on(struct lease *lease, struct lease_waiter *waiter, int err)
{
	lease_wait(lease, waiter->attachment, waiter->kind, waiter);
	if (err)
		lease_fail(waiter, err, err_text());
	lease_settle(lease);
}

void lease_await_memory(struct lease *lease, struct attachment *attachment,
			enum lease_wait kind, uint64_t bytes,
			struct lease_waiter *waiter)
{
	struct leases *leases = lease->leases;
	int err;

	waiter->lease = lease;
	waiter->attachment = attachment;
	waiter->kind = kind;
	waiter->old_bytes = lease->bytes;
	list_init(&waiter->link);
	/* what fits now need not wait for what does not */
	err = take(lease, attachment->client, bytes);
	if (err != -EAGAIN) {
		go_on(lease, waiter, err);
		return;
	}
	lease->memory_waiter = waiter;
	lease->wanted_bytes = bytes;
	lease->give_up_ms = clock_now_ms() + LEASE_MEMORY_WAIT_MS;
	list_append(&leases->waiting, &lease->waiting);
	pools_hurry(leases->pools, true);
	leases->events->timer_moved(leases->ctx);
}

/* The lease that waits longest of those that can go on, or NULL. */
static struct lease *next_served(struct leases *leases, int *ret_err)
{
	list_for_each(node, &leases->waiting) {
		struct lease *lease = container_of(node, struct lease, waiting);

		*ret_err = take(lease, lease->memory_waiter->attachment->client,
				lease->wanted_bytes);
		if (*ret_err != -EAGAIN)
			return lease;
	}
	return NULL;
}

void leases_retry(struct leases *leases)
{
	struct lease *lease;
	int err;

	/* going on may end others that wait, so each time from the start */
	while ((lease = next_served(leases, &err)))
		go_on(lease, lease_stop_waiting(lease), err);
}

void leases_give_up(struct leases *leases, uint64_t now_ms)
{
	struct lease *lease;

	while ((lease = list_first(&leases->waiting, struct lease, waiting)) &&
	       lease->give_up_ms <= now_ms)
		go_on(lease, lease_stop_waiting(lease),
		      err_set(-ENOSPC, "the memory freed was not clean in %d s",
			      LEASE_MEMORY_WAIT_MS / 1000));
}
