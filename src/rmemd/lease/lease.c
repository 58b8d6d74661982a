/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/utf8.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/fanout.h"
#include "rmemd/lease/ledger_record.h"
#include "rmemd/lease/origin.h"
#include "rmemd/state/ledger.h"

/* Bytes of a name that fit a buffer with two quotes, three dots and the final zero. */
#define KEPT_BYTES (QUOTE_BYTES - 6)

/* ---- lookups ---- */

struct lease *leases_next_after(const struct leases *leases, uint64_t after)
{
	struct tree_node *node = tree_above(&leases->by_id, after, 0);

	return node ? container_of(node, struct lease, by_id) : NULL;
}

struct lease *leases_find_id(const struct leases *leases, uint64_t id)
{
	struct lease *lease = id ? leases_next_after(leases, id - 1) : NULL;

	return lease && lease->id == id ? lease : NULL;
}

struct lease *leases_find_name(const struct tenant *tenant, const char *name)
{
	struct map_node *node = map_find(&tenant->names, map_hash_string(name));

	for (; node; node = map_find_next(node)) {
		struct lease *lease = container_of(node, struct lease, by_name);

		if (strcmp(lease->name, name) == 0)
			return lease;
	}
	return NULL;
}

const char *quote_name(const char *name, char buf[QUOTE_BYTES])
{
	size_t kept = utf8_cut(name, KEPT_BYTES);

	(void)snprintf(buf, QUOTE_BYTES, "\"%.*s\"%s", (int)kept, name,
		       name[kept] ? "..." : "");
	return buf;
}

/* ---- making and changing ---- */

int lease_set_name(struct lease *lease, const char *name)
{
	struct map *names = &lease->tenant->names;
	char *copy = strdup(name);

	if (!copy)
		return err_set(-ENOMEM, "no memory for a lease's name");
	if (lease->name)
		map_remove(names, &lease->by_name);
	/* if the lease had a name, the map had a node, and map_insert() cannot fail */
	if (map_insert(names, &lease->by_name, map_hash_string(name))) {
		free(copy);
		return err_set(-ENOMEM, "no memory for the names of leases");
	}
	if (!lease->name) {
		tree_insert(&lease->tenant->named, &lease->in_named, lease->id, 0);
		lease->leases->counters.named++;
		lease->leases->counters.ephemeral--;
	}
	free(lease->name);
	lease->name = copy;
	lease->owner = NULL;
	list_remove(&lease->in_owner);
	return 0;
}

/* due_ms 0: never */
static void lease_set_due(struct lease *lease, uint64_t due_ms)
{
	struct tree *deadlines = &lease->leases->deadlines;

	if (lease->due_ms)
		tree_remove(deadlines, &lease->in_deadlines);
	lease->due_ms = due_ms;
	if (due_ms)
		tree_insert(deadlines, &lease->in_deadlines, due_ms, lease->id);
}

void lease_set_ttl(struct lease *lease, uint64_t ttl_ms)
{
	uint64_t now_ms = clock_now_ms();
	uint64_t due_ms = ttl_ms > UINT64_MAX - now_ms ? UINT64_MAX : now_ms + ttl_ms;

	lease->ttl_ms = ttl_ms;
	lease_set_due(lease, ttl_ms ? due_ms : 0);
	lease->leases->events->timer_moved(lease->leases->ctx);
}

struct lease *lease_blank(struct leases *leases, uint64_t id)
{
	struct lease *lease = calloc(1, sizeof(*lease));

	if (!lease)
		return NULL;
	lease->leases = leases;
	lease->id = id;
	wire_lease_move(&lease->state, WIRE_STEP_ALLOCATE);
	list_init(&lease->all);
	list_init(&lease->in_owner);
	list_init(&lease->changed);
	list_init(&lease->attachments);
	list_init(&lease->watchers);
	list_init(&lease->dying);
	sweep_init(&lease->sweep);
	list_init(&lease->waiters);
	return lease;
}

void lease_delete(struct lease *lease)
{
	fanout_free(lease->fanout);
	sweep_end(&lease->sweep);
	tenant_unref(lease->tenant);
	origin_unref(lease->creator);
	free(lease->segments);
	free(lease->shares);
	free(lease->name);
	free(lease);
}

int lease_insert(struct lease *lease)
{
	struct leases *leases = lease->leases;

	if (lease->name && map_insert(&lease->tenant->names, &lease->by_name,
				      map_hash_string(lease->name)))
		return err_set(-ENOMEM, "no memory for a lease");
	if (lease->owner)
		list_append(&lease->owner->owned, &lease->in_owner);
	list_append(&leases->all, &lease->all);
	tree_insert(&leases->by_id, &lease->by_id, lease->id, 0);
	if (lease->due_ms)
		tree_insert(&leases->deadlines, &lease->in_deadlines, lease->due_ms,
			    lease->id);
	if (lease->name) {
		tree_insert(&lease->tenant->named, &lease->in_named, lease->id, 0);
		leases->counters.named++;
	} else {
		leases->counters.ephemeral++;
	}
	leases->counters.bytes += lease->bytes;
	lease->tenant->n_leases++;
	if (leases->next_id <= lease->id)
		leases->next_id = lease->id + 1;
	return 0;
}

int lease_create(struct leases *leases, struct lease_client *client,
		 const struct lease_params *params, struct lease **ret_lease)
{
	struct tenant *tenant = client->tenant;
	struct lease *lease;
	int err;

	if (*params->name && leases_find_name(tenant, params->name))
		return err_set(-EEXIST, "there is a lease named %s already",
			       QUOTED(params->name));
	err = tenant_check_lease(tenant);
	if (err)
		return err;
	lease = lease_blank(leases, leases->next_id);
	if (!lease)
		return err_set(-ENOMEM, "no memory for a lease");
	lease->tenant = tenant;
	tenant_ref(tenant);
	lease->creator = origin_ref(client->origin);
	lease->align = params->align;
	lease->placement = params->placement;
	lease->node = params->node;
	lease->ttl_ms = params->ttl_ms;
	lease->granted_ms = clock_now_ms();
	if (!*params->name)
		lease->owner = client;
	else if (!(lease->name = strdup(params->name)))
		err = err_set(-ENOMEM, "no memory for a lease's name");
	if (!err)
		err = lease_insert(lease);
	if (err) {
		lease_delete(lease);
		return err;
	}
	*ret_lease = lease;
	return 0;
}

struct lease_status lease_status(const struct lease *lease)
{
	uint64_t now_ms = clock_now_ms();
	struct lease_status status = {
		.lease = lease,
		.id = lease->id,
		.name = lease->name ? lease->name : "",
		.tenant = lease->tenant->name,
		.owner = lease->owner ? lease->owner->id : 0,
		.bytes = lease->bytes,
		.segments = lease->n_segments,
		.creator = lease->creator,
		.sessions = lease->n_attachments,
		.writers = lease->n_writers,
		.age_ms = now_ms - lease->granted_ms,
		.generation = lease->generation,
		.placement = lease->placement,
		.node = lease->node,
		.shares = lease->shares,
		.n_shares = lease->n_shares,
		.ready = lease->state == WIRE_LEASE_READY,
	};

	/* not 0, which is for ever */
	if (lease->due_ms)
		status.ttl_ms = lease->due_ms > now_ms ? lease->due_ms - now_ms : 1;
	for (unsigned i = 0; i < lease->n_segments; i++)
		status.lent += lease->segments[i]->extent.bytes;
	return status;
}

static struct lease_part *part_at(struct lease_part *parts, unsigned *n, int node)
{
	unsigned i = *n;

	while (i > 0 && parts[i - 1].node > node)
		i--;
	if (i > 0 && parts[i - 1].node == node)
		return &parts[i - 1];
	memmove(&parts[i + 1], &parts[i], (*n - i) * sizeof(parts[0]));
	(*n)++;
	parts[i] = (struct lease_part){ .node = node };
	return &parts[i];
}

unsigned lease_parts(const struct lease_status *status,
		     struct lease_part ret_parts[WIRE_SEGMENTS_MAX])
{
	const struct lease *lease = status->lease;
	unsigned n = 0;

	for (unsigned i = 0; i < lease->n_segments; i++) {
		const struct segment *segment = lease->segments[i];

		part_at(ret_parts, &n, extent_pool(&segment->extent).node)->bytes +=
			segment->bytes;
	}
	return n;
}

static void describe_keys(const struct attachment *attachment, unsigned i,
			  struct wire_lease *msg)
{
	const struct segment *segment = attachment->lease->segments[i];

	list_for_each_entry(const struct mr, mr, &attachment->mrs, link) {
		if (mr->segment != segment || mr->bytes != segment->bytes ||
		    mr->state != MR_LIVE)
			continue;
		msg->keys[msg->n_keys++] = (struct wire_key){
			.segment = (uint8_t)i,
			.endpoint = (uint8_t)mr->port,
			.addr = mr->key.addr,
			.rkey = mr->key.rkey,
		};
	}
}

void lease_describe(const struct attachment *attachment, struct wire_lease *ret_msg)
{
	const struct lease *lease = attachment->lease;
	struct lease_status status = lease_status(lease);

	/* the lists are not cleared, as they are much longer than most leases need */
	ret_msg->name[0] = '\0';
	ret_msg->n_keys = 0;
	ret_msg->lease = lease->id;
	ret_msg->generation = lease->generation;
	ret_msg->rights = (uint8_t)attachment->rights;
	ret_msg->bytes = lease->bytes;
	ret_msg->ttl_ms = status.ttl_ms;
	if (lease->name)
		memcpy(ret_msg->name, lease->name, strlen(lease->name) + 1);
	for (unsigned i = 0; i < lease->n_segments; i++) {
		const struct segment *segment = lease->segments[i];

		ret_msg->segments[i] = (struct wire_segment){
			.bytes = segment->bytes,
			.node = extent_pool(&segment->extent).node,
			.page_bytes = extent_pool(&segment->extent).page_bytes,
			.endpoints = extent_pool(&segment->extent).endpoints,
		};
		describe_keys(attachment, i, ret_msg);
	}
	ret_msg->n_segments = (uint16_t)lease->n_segments;
	ret_msg->placement = (uint8_t)lease->placement;
	ret_msg->node = lease->node;
}

bool leases_none_left(const struct leases *leases)
{
	return list_empty(&leases->all) && list_empty(&leases->ended);
}

static void lease_unlink(struct lease *lease)
{
	struct leases *leases = lease->leases;

	tree_remove(&leases->by_id, &lease->by_id);
	if (lease->name) {
		map_remove(&lease->tenant->names, &lease->by_name);
		tree_remove(&lease->tenant->named, &lease->in_named);
		leases->counters.named--;
	} else {
		leases->counters.ephemeral--;
	}
	leases->counters.bytes -= lease->bytes;
	lease_set_due(lease, 0);
	list_remove(&lease->in_owner);
	lease->owner = NULL;
	lease->tenant->n_leases--;
	list_move(&leases->ended, &lease->all);
}

void lease_terminate(struct lease *lease, enum wire_reason reason,
		     const struct lease_client *except)
{
	const struct leases_events *events = lease->leases->events;
	bool granted = lease->state == WIRE_LEASE_READY;
	struct lease_status status;

	if (granted) {
		status = lease_status(lease);
		events->ended(lease->leases->ctx, &status, reason);
	}
	wire_lease_move(&lease->state, granted ? WIRE_STEP_END : WIRE_STEP_CANCEL);
	/* before memory is freed: from here on the lease has ended, even after a crash */
	if (!lease->unrecorded) {
		lease_unrecord(lease);
		ledger_commit(lease->leases->ledger);
	}
	lease_unlink(lease);
	/* at a shutdown clients are told that the server stops */
	sweep_start(lease, NULL, granted && reason != WIRE_REASON_SHUTDOWN ? reason : 0,
		    except ? except->id : 0);
	for (unsigned i = 0; i < lease->n_segments; i++)
		segment_release(lease->segments[i]);
	lease->n_segments = 0;
	lease_changed(lease);
}

void lease_send_grown(struct lease *lease, const struct lease_client *except)
{
	list_for_each_entry(struct attachment, attachment, &lease->attachments,
			    in_lease) {
		if (attachment->client != except)
			attachment_add_changed(attachment, WIRE_REASON_GROWN);
	}
}

/* In a sum. */
static void replace_bytes(uint64_t *sum, uint64_t old, uint64_t bytes)
{
	*sum = *sum - old + bytes;
}

void lease_set_bytes(struct lease *lease, uint64_t bytes)
{
	list_for_each_entry(const struct attachment, attachment, &lease->attachments,
			    in_lease)
		replace_bytes(&attachment->client->lent_bytes, lease->bytes, bytes);
	replace_bytes(&lease->leases->counters.bytes, lease->bytes, bytes);
	lease->bytes = bytes;
}

void lease_cut(struct lease *lease, uint64_t bytes, const struct lease_client *except)
{
	unsigned n_segments = lease->n_segments;
	uint64_t start = lease->bytes;

	while (lease->n_segments > 0) {
		struct segment *segment = lease->segments[lease->n_segments - 1];

		start -= segment->bytes;
		if (start < bytes) {
			segment->bytes = bytes - start;
			lease->cut = true;
			break;
		}
		segment->bytes = 0;
		lease->n_segments--;
	}
	lease_set_bytes(lease, bytes);
	lease->generation++;
	/* The ledger gets the new length before memory is freed.  A request to shrink has reserved
	 * room there.  If undoing a growth finds none, the record is removed: the next process
	 * must not restore a longer lease. */
	if (lease_record(lease))
		lease_unrecord(lease);
	ledger_commit(lease->leases->ledger);
	while (n_segments > lease->n_segments)
		segment_release(lease->segments[--n_segments]);
	sweep_cut(lease, except ? except->id : 0);
	lease_changed(lease);
}
