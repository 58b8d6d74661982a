/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/ledger_record.h"
#include "rmemd/state/ledger.h"

int lease_set_name(struct lease *lease, const char *name)
{
	struct map *names = &lease->tenant->names;
	char *copy = strdup(name);

	if (!copy)
		return err_set(-ENOMEM, "no memory for a lease's name");
	if (lease->name)
		map_remove(names, &lease->by_name);
	/* fails in a map that never had a node alone */
	if (map_insert(names, &lease->by_name, map_hash_string(name))) {
		free(copy);
		return err_set(-ENOMEM, "no memory for the names of leases");
	}
	free(lease->name);
	lease->name = copy;
	lease->owner = NULL;
	list_remove(&lease->in_owner);
	return 0;
}

int lease_set_ttl(struct lease *lease, uint64_t ttl_ms)
{
	struct leases *leases = lease->leases;
	uint64_t now_ms = clock_now_ms();
	int err;

	if (ttl_ms == 0 && !lease->deadline.place) {
		lease->ttl_ms = 0;
		return 0;
	}
	if (ttl_ms == 0) {
		deadlines_clear(&leases->deadlines, &lease->deadline);
	} else {
		err = deadlines_reserve(&leases->deadlines, 1);
		if (err)
			return err;
		deadlines_set(&leases->deadlines, &lease->deadline,
			      ttl_ms > UINT64_MAX - now_ms ? UINT64_MAX
							   : now_ms + ttl_ms);
	}
	lease->ttl_ms = ttl_ms;
	leases->events->timer_moved(leases->ctx);
	return 0;
}

struct lease *lease_blank(struct leases *leases, uint64_t id)
{
	struct lease *lease = calloc(1, sizeof(*lease));

	if (!lease)
		return NULL;
	lease->leases = leases;
	lease->id = id;
	list_init(&lease->all);
	list_init(&lease->in_owner);
	list_init(&lease->changed);
	list_init(&lease->attachments);
	list_init(&lease->watchers);
	list_init(&lease->dying);
	list_init(&lease->waiters);
	return lease;
}

void lease_delete(struct lease *lease)
{
	tenant_unref(lease->tenant);
	free(lease->segments);
	free(lease->name);
	free(lease);
}

int lease_insert(struct lease *lease)
{
	struct leases *leases = lease->leases;

	if (map_insert(&leases->by_id, &lease->by_id, map_hash_u64(lease->id)))
		goto err_memory;
	if (lease->name && map_insert(&lease->tenant->names, &lease->by_name,
				      map_hash_string(lease->name))) {
		map_remove(&leases->by_id, &lease->by_id);
		goto err_memory;
	}
	if (lease->owner)
		list_append(&lease->owner->owned, &lease->in_owner);
	list_append(&leases->all, &lease->all);
	lease->tenant->n_leases++;
	if (leases->next_id <= lease->id)
		leases->next_id = lease->id + 1;
	return 0;

err_memory:
	return err_set(-ENOMEM, "no memory for a lease");
}

int lease_create(struct leases *leases, struct lease_client *client,
		 const struct lease_params *params, struct lease **ret_lease)
{
	struct tenant *tenant = client->tenant;
	char quoted[QUOTE_BYTES];
	struct lease *lease;
	int err;

	if (*params->name && leases_find_name(tenant, params->name))
		return err_set(-EEXIST, "there is a lease named %s already",
			       quote_name(params->name, quoted));
	err = tenant_check_lease(tenant);
	if (err)
		return err;
	lease = lease_blank(leases, leases->next_id);
	if (!lease)
		return err_set(-ENOMEM, "no memory for a lease");
	lease->tenant = tenant;
	tenant_ref(tenant);
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

void lease_fill_status(const struct lease *lease, struct lease_status *ret_status)
{
	uint64_t now_ms = clock_now_ms(), due_ms = lease->deadline.due_ms;

	*ret_status = (struct lease_status){
		.lease = lease,
		.id = lease->id,
		.name = lease->name ? lease->name : "",
		.tenant = lease->tenant->name,
		.owner = lease->owner ? lease->owner->id : 0,
		.bytes = lease->bytes,
		.segments = lease->n_segments,
		.sessions = lease->n_attachments,
		.age_ms = now_ms - lease->granted_ms,
		.generation = lease->generation,
		.placement = lease->placement,
		.node = lease->node,
		.ready = lease->state == LEASE_READY,
	};
	/* due this very millisecond is not for ever */
	if (lease->deadline.place)
		ret_status->ttl_ms = due_ms > now_ms ? due_ms - now_ms : 1;
	for (unsigned i = 0; i < lease->n_segments; i++)
		ret_status->lent += lease->segments[i]->extent.bytes;
	list_for_each(node, &lease->attachments)
		if (container_of(node, struct attachment, in_lease)->rights &
		    WIRE_RIGHT_WRITE)
			ret_status->writers++;
}

static struct lease_share *auto_size_share(struct lease_share *shares, unsigned *n,
					   int node)
{
	unsigned i = *n;

	while (i > 0 && shares[i - 1].node > node)
		i--;
	if (i > 0 && shares[i - 1].node == node)
		return &shares[i - 1];
	memmove(&shares[i + 1], &shares[i], (*n - i) * sizeof(shares[0]));
	(*n)++;
	shares[i] = (struct lease_share){ .node = node };
	return &shares[i];
}

unsigned lease_shares(const struct lease_status *status,
		      struct lease_share ret_shares[WIRE_SEGMENTS_MAX])
{
	const struct lease *lease = status->lease;
	unsigned n = 0;

	for (unsigned i = 0; i < lease->n_segments; i++) {
		const struct segment *segment = lease->segments[i];

		auto_size_share(ret_shares, &n, extent_node(&segment->extent))->bytes +=
			segment->bytes;
	}
	return n;
}

static void describe_keys(const struct attachment *attachment, unsigned i,
			  struct wire_lease *msg)
{
	const struct segment *segment = attachment->lease->segments[i];

	list_for_each(node, &attachment->mrs) {
		const struct mr *mr = container_of(node, struct mr, link);

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
	struct lease_status status;

	lease_fill_status(lease, &status);
	/* not the lists, which are far longer than most leases need */
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
			.node = extent_node(&segment->extent),
			.page_bytes = extent_page_bytes(&segment->extent),
			/* UINT8_MAX where nobody has limited it */
			.endpoints = (uint8_t)extent_endpoints(&segment->extent),
		};
		describe_keys(attachment, i, ret_msg);
	}
	ret_msg->n_segments = (uint16_t)lease->n_segments;
	ret_msg->placement = (uint8_t)lease->placement;
	ret_msg->node = lease->node;
}

static void lease_unlink(struct lease *lease)
{
	struct leases *leases = lease->leases;

	map_remove(&leases->by_id, &lease->by_id);
	if (lease->name)
		map_remove(&lease->tenant->names, &lease->by_name);
	deadlines_clear(&leases->deadlines, &lease->deadline);
	list_remove(&lease->in_owner);
	lease->owner = NULL;
	lease->tenant->n_leases--;
	list_remove(&lease->all);
	list_append(&leases->ended, &lease->all);
}

void lease_end(struct lease *lease, enum wire_reason reason,
	       const struct lease_client *except)
{
	const struct leases_events *events = lease->leases->events;
	bool granted = lease->state == LEASE_READY;
	struct attachment *attachment;
	struct lease_status status;

	if (granted) {
		lease_fill_status(lease, &status);
		events->ended(lease->leases->ctx, &status, reason);
	}
	lease->state = LEASE_ENDED;
	/* before its memory is touched: from here on it has ended, whatever happens */
	lease_unrecord(lease);
	ledger_commit(lease->leases->ledger);
	lease_unlink(lease);
	while ((attachment =
			list_first(&lease->attachments, struct attachment, in_lease))) {
		/* at a shutdown the whole session is told instead */
		if (granted && attachment->client != except &&
		    reason != WIRE_REASON_SHUTDOWN)
			attachment_revoke(attachment, reason);
		else
			attachment_end(attachment);
	}
	for (unsigned i = 0; i < lease->n_segments; i++)
		segment_release(lease->segments[i]);
	lease->n_segments = 0;
	lease_changed(lease);
}

static void tell_changed(struct lease *lease, const struct lease_client *except,
			 unsigned reason)
{
	list_for_each(node, &lease->attachments) {
		struct attachment *attachment =
			container_of(node, struct attachment, in_lease);

		if (attachment->client != except)
			attachment_tell_changed(attachment, reason);
	}
}

void lease_tell_grown(struct lease *lease, const struct lease_client *except)
{
	tell_changed(lease, except, 0);
}

static void cut_segment(struct lease *lease, struct segment *segment, uint64_t bytes)
{
	segment->bytes = bytes;
	list_for_each(node, &lease->attachments)
		attachment_cut(container_of(node, struct attachment, in_lease),
			       segment);
}

void lease_cut(struct lease *lease, uint64_t bytes, const struct lease_client *except)
{
	unsigned n_segments = lease->n_segments;
	uint64_t start = lease->bytes;

	while (lease->n_segments > 0) {
		struct segment *segment = lease->segments[lease->n_segments - 1];

		start -= segment->bytes;
		if (start < bytes) {
			cut_segment(lease, segment, bytes - start);
			lease->cut = true;
			break;
		}
		cut_segment(lease, segment, 0);
		lease->n_segments--;
	}
	lease->bytes = bytes;
	lease->generation++;
	/* Before its memory is touched.  A request to shorten has reserved room in the ledger.  A
	 * growth that is undone may find none: then the ledger loses the lease, as the next process
	 * must not take it for longer than it is. */
	if (lease_record(lease))
		lease_unrecord(lease);
	ledger_commit(lease->leases->ledger);
	while (n_segments > lease->n_segments)
		segment_release(lease->segments[--n_segments]);
	tell_changed(lease, except, WIRE_REASON_TRIMMED);
	lease_changed(lease);
}
