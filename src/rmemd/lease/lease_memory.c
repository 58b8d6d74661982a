/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for grants and growth: allocated from the pools, or waited for while it is being
 * scrubbed or its old keys are dying. */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "rmemd/lease/attachment.h"

/* The number of waiters that are tried before others get their turn. */
#define WAITERS_PER_SLICE 32
/* The number of segments with dying keys that one request looks at. */
#define RELEASING_MAX 256

/* Append extents as segments of `bytes` together.  On failure the lease has none of them, and
 * they are free again. */
static int append_extents(struct lease *lease, const struct extent *extents, unsigned n,
			  uint64_t bytes)
{
	unsigned i, n_before = lease->n_segments;
	struct segment **segments =
		realloc(lease->segments, (n_before + n) * sizeof(struct segment *));
	uint64_t lent = 0;
	int err = 0;

	/* extents are whole pages, which may be more than was asked for */
	for (i = 0; i < n; i++)
		lent += extents[i].bytes;
	if (segments)
		lease->segments = segments;
	else
		err = err_set(-ENOMEM, "no memory for a lease's segments");
	if (!err && lent > bytes)
		err = tenant_check_bytes(lease->tenant, lent);
	for (i = 0; !err && i < n; i++) {
		uint64_t used = bytes < extents[i].bytes ? bytes : extents[i].bytes;

		err = segment_create(lease, extents[i], used, &segments[n_before + i]);
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
 * of pools that the request may use.  Of many segments only some count: then a
 * request waits that could have failed at once. */
static uint64_t releasing_reclaimed(const struct leases *leases,
				    const struct pool_request *request)
{
	uint64_t bytes = 0;
	unsigned n = 0;

	list_for_each_entry(const struct segment, segment, &leases->releasing,
			    releasing) {
		struct extent_pool pool = extent_pool(&segment->extent);

		if (n++ == RELEASING_MAX)
			break;
		if (pool.leaving ||
		    !pool_request_allows(request, pool.name, pool.endpoints))
			continue;
		bytes += extent_reclaim(&segment->extent).bytes;
	}
	return bytes;
}

/* Whether there is room once the keys that are dying are dead, and their memory is scrubbed.
 * scrubbing: or once memory is clean that is being scrubbed now. */
static bool will_fit(const struct leases *leases, const struct pool_request *request,
		     bool scrubbing)
{
	uint64_t room = 0, coming = 0;
	bool reclaims = false;

	for (unsigned i = 0; i < pools_count(leases->pools); i++) {
		struct pool_status status = pools_status(leases->pools, i);

		if (status.leaving ||
		    !pool_request_allows(request, status.name, status.endpoints))
			continue;
		room += status.free + status.scrubbing + status.releasing;
		coming += status.releasing + (scrubbing ? status.scrubbing : 0);
		reclaims |= status.resizing == POOL_RECLAIMS;
	}
	if (!coming || room < request->bytes)
		return false;
	/* only if needed, as there may be many such segments */
	if (reclaims)
		room -= releasing_reclaimed(leases, request);
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
		.only = &lease->tenant->rights.pools,
		.interleave = lease->placement == WIRE_PLACE_INTERLEAVE,
	};
	unsigned n, max = WIRE_SEGMENTS_MAX - lease->n_segments;
	int err;

	if (lease->n_segments == WIRE_SEGMENTS_MAX)
		return err_set(-ENOSPC,
			       "the lease has %d segments, as many as one can have",
			       WIRE_SEGMENTS_MAX);
	/* before allocating, as extents that are freed again have to be zeroed */
	err = tenant_check_bytes(lease->tenant, bytes);
	if (err)
		return err;
	/* many requests may wait that cannot be served yet: trying costs much more */
	if (!pools_may_fit(leases->pools, &request, max) &&
	    will_fit(leases, &request, true))
		return -EAGAIN;
	err = pools_alloc(leases->pools, &request, extents, max, &n);
	if (err == -ENOSPC && will_fit(leases, &request, false))
		return -EAGAIN;
	return err ? rights_explain_full(lease->tenant, err)
		   : append_extents(lease, extents, n, bytes);
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
	lease_set_bytes(lease, bytes);
	lease->generation++;
	return 0;
}

/* -EAGAIN: the memory is not clean yet. */
static int waiter_serve(struct lease_waiter *waiter)
{
	struct lease *lease = waiter->lease;
	int err;

	/* it may not have been told yet */
	if (lease->state == WIRE_LEASE_ENDED)
		err = err_set(-ESTALE, LEASE_ENDED_TEXT);
	else if (lease->leases->draining)
		err = err_set(-ESHUTDOWN, LEASES_DRAINING);
	else
		err = lease_grow(lease, waiter->attachment->client,
				 waiter->wanted_bytes);
	if (err == -EAGAIN)
		return err;
	waiter_end_memory(waiter);
	if (err)
		waiter_fail(waiter, err, err_text());
	lease_changed(lease);
	return 0;
}

void lease_want_memory(struct lease_waiter *waiter, uint64_t bytes)
{
	waiter->wanted_bytes = bytes;
	/* a request that can be served now does not wait for others that cannot */
	if (waiter_serve(waiter))
		waiter_begin_memory(waiter);
}

/* The waiter that is next in this round, or in a new one if memory has changed since this one
 * began, or NULL. */
static struct lease_waiter *tenant_next_waiter(struct tenant *tenant)
{
	struct lease_waiter *waiter;

	if (list_empty(&tenant->untried) && tenant->serve_again) {
		tenant->serve_again = false;
		list_splice(&tenant->untried, &tenant->waiters);
	}
	waiter = list_first(&tenant->untried, struct lease_waiter, in_tenant);
	if (waiter) {
		list_move(&tenant->waiters, &waiter->in_tenant);
	}
	return waiter;
}

static bool tenant_has_untried(const struct tenant *tenant)
{
	return !list_empty(&tenant->untried) ||
	       (tenant->serve_again && !list_empty(&tenant->waiters));
}

/* Try some waiters of the tenant. */
static bool tenant_serve(struct slice_work *work)
{
	struct tenant *tenant = container_of(work, struct tenant, serve);
	struct leases *leases = NULL;
	struct lease_waiter *waiter;
	bool served = false, more;

	tenant_ref(tenant);
	for (unsigned n = 0;
	     n < WAITERS_PER_SLICE && (waiter = tenant_next_waiter(tenant)); n++) {
		leases = waiter->lease->leases;
		if (!waiter_serve(waiter)) {
			served = true;
			leases_run(leases);
		}
		/* a request for aligned memory may look at many pieces that are free, and one that
		 * is served is recorded and answered */
		if (turn_over(leases->slices->turn))
			break;
	}
	/* serving one may make others impossible */
	if (served)
		leases_serve_waiting(leases);
	more = tenant_has_untried(tenant);
	tenant_unref(tenant);
	return more;
}

void leases_serve_waiting(struct leases *leases)
{
	list_for_each_entry(struct tenant, tenant, &leases->wanting, wanting)
		tenant->serve_again = true;
	/* one that is served may leave the list */
	list_for_each_entry_safe(struct tenant, tenant, &leases->wanting, wanting) {
		tenant->serve.run = tenant_serve;
		slices_start(leases->slices, &tenant->slices, &tenant->serve);
	}
}

void leases_time_out(struct leases *leases, uint64_t now_ms)
{
	struct lease_waiter *waiter;

	for (unsigned n = 0;
	     n < LEASE_ENDS_PER_TICK &&
	     (waiter = list_first(&leases->waiting, struct lease_waiter, waiting)) &&
	     waiter->give_up_ms <= now_ms;
	     n++) {
		(void)err_set(-ENOSPC, "the memory freed was not clean in %d s",
			      LEASE_MEMORY_WAIT_MS / 1000);
		waiter_fail(waiter, -ENOSPC, err_text());
	}
}
