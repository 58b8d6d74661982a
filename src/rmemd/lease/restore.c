/* SPDX-License-Identifier: BSD-3-Clause */
/* Restoring the leases and attachments of the last process. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/ledger_record.h"
#include "rmemd/lease/lease_table.h"
#include "rmemd/lease/origin.h"
#include "rmemd/state/ledger_value.h"
#include "rmemd/state/ledger.h"

/* A segment of a lease that is being restored. */
struct claim {
	struct lease *lease;
	unsigned segment;
	struct segment_row row;
};

struct restore {
	struct leases *leases;
	const struct leases_restore *with;
	/* leases in the order of ids; ENDED: it cannot be restored */
	struct list found;
	struct claim *claims;
	size_t n_claims, claims_max;
};

static int no_memory(void)
{
	return err_set(-ENOMEM, "no memory for the leases of the last process");
}

static int claim_add(struct restore *restore, const struct claim *claim)
{
	size_t max = restore->claims_max ? 2 * restore->claims_max : 64;
	struct claim *grown;

	if (restore->n_claims == restore->claims_max) {
		grown = reallocarray(restore->claims, max, sizeof(*grown));
		if (!grown)
			return no_memory();
		restore->claims = grown;
		restore->claims_max = max;
	}
	restore->claims[restore->n_claims++] = *claim;
	return 0;
}

/* ---- reading the ledger ---- */

/* The leases of a session that there still is share its origin, unless it connected from elsewhere
 * since. */
static struct origin *creator_restore(const struct restore *restore,
				      const struct lease_record *record)
{
	const struct leases_restore *with = restore->with;
	const struct lease_client *client =
		with->client(with->ctx, record->head.creator);

	if (client && origin_is(client->origin, record->creator, record->creator_peer))
		return origin_ref(client->origin);
	return origin_new(record->head.creator, record->creator, record->creator_peer);
}

static int lease_fill(const struct restore *restore, struct lease *lease,
		      const struct lease_record *record)
{
	const struct leases_restore *with = restore->with;
	const struct lease_head *head = &record->head;

	lease->bytes = head->bytes;
	lease->align = head->align;
	/* an unknown placement, of a later version, matters only when the lease grows */
	lease->placement = head->placement <= WIRE_PLACE_INTERLEAVE
				   ? (enum wire_placement)head->placement
				   : WIRE_PLACE_NODE;
	lease->node = head->node;
	lease->granted_ms = clock_past_ms(head->granted_ms);
	lease->ttl_ms = head->ttl_ms;
	lease->due_ms = head->due_ms;
	lease->generation = head->generation;
	lease->visited = head->visited != 0;
	lease->atomic_device.kind = (enum fabric_kind)head->atomic_kind;
	memcpy(lease->atomic_device.name, head->atomic_device,
	       sizeof(lease->atomic_device.name));
	lease->tenant = with->tenant(with->ctx, record->tenant);
	if (!lease->tenant)
		return -ENOMEM;
	if (record->creator)
		lease->creator = creator_restore(restore, record);
	lease->segments = calloc(head->n_segments, sizeof(struct segment *));
	if (*record->name)
		lease->name = strdup(record->name);
	else
		lease->owner = with->client(with->ctx, head->owner);
	if ((head->n_segments && !lease->segments) || (*record->name && !lease->name))
		return no_memory();
	for (unsigned i = 0; i < head->n_shares; i++)
		if (share_set(lease, record->shares[i].tenant,
			      record->shares[i].rights))
			return -ENOMEM;
	/* the last process ended while it ended the session that owned the lease */
	if (!lease->name && !lease->owner)
		wire_lease_move(&lease->state, WIRE_STEP_CANCEL);
	return 0;
}

static int on_lease(const struct ledger_key *key, const void *value, size_t bytes,
		    void *arg)
{
	static struct lease_record record;
	struct restore *restore = arg;
	struct lease *lease;
	int err;

	if (lease_record_decode(key, value, bytes, &record)) {
		restore->with->lost(restore->with->ctx, key->a, "", NULL, err_text());
		ledger_remove(restore->leases->ledger, key);
		return 0;
	}
	lease = lease_blank(restore->leases, key->a);
	if (!lease)
		return no_memory();
	list_append(&restore->found, &lease->all);
	err = lease_fill(restore, lease, &record);
	for (unsigned i = 0; !err && i < record.head.n_segments; i++)
		err = claim_add(restore, &(struct claim){ lease, i, record.rows[i] });
	return err;
}

/* ---- their memory ---- */

static int claim_order(const void *a, const void *b)
{
	const struct segment_row *x = &((const struct claim *)a)->row;
	const struct segment_row *y = &((const struct claim *)b)->row;

	if (x->pool != y->pool)
		return x->pool < y->pool ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* It ends; what it has claimed is zeroed. */
static void lease_lose(const struct restore *restore, struct lease *lease,
		       const char *why)
{
	if (lease->state == WIRE_LEASE_ENDED)
		return;
	wire_lease_move(&lease->state, WIRE_STEP_CANCEL);
	restore->with->lost(restore->with->ctx, lease->id,
			    lease->name ? lease->name : "", lease->tenant->name, why);
}

/* Claim the memory of a segment, behind that of `before`, the last that was claimed.  Limits are
 * not checked, as the tenant has the memory already. */
static int claim_serve(const struct restore *restore, const struct claim *claim,
		       const struct claim **before)
{
	struct leases *leases = restore->leases;
	struct lease *lease = claim->lease;
	struct segment *segment;
	struct extent extent;
	int err;

	if (lease->state == WIRE_LEASE_ENDED)
		return 0;
	err = pools_claim(leases->pools, claim->row.pool, claim->row.offset,
			  claim->row.bytes, &extent);
	switch (err) {
	case 0:
		*before = claim;
		break;
	case -ENOENT:
		lease_lose(restore, lease, "the pool it was in is gone");
		return 0;
	case -EINVAL:
		lease_lose(restore, lease, "its memory is not inside of its pool");
		return 0;
	case -EEXIST:
		/* whose it is, is not known: neither may see what the other has written */
		lease_lose(restore, lease, "another lease has the same memory");
		lease_lose(restore, (*before)->lease,
			   "another lease has the same memory");
		return 0;
	default:
		return err;
	}
	err = segment_create(lease, extent, claim->row.bytes, &segment);
	if (err)
		return err;
	segment->dirty =
		claim->row.dirty < extent.bytes ? claim->row.dirty : extent.bytes;
	lease->segments[claim->segment] = segment;
	return 0;
}

static int claims_serve(const struct restore *restore)
{
	const struct claim *before = NULL;
	int err = 0;

	if (restore->n_claims)
		qsort(restore->claims, restore->n_claims, sizeof(*restore->claims),
		      claim_order);
	for (size_t i = 0; !err && i < restore->n_claims; i++) {
		const struct claim *claim = &restore->claims[i];

		err = claim_serve(restore, claim, &before);
		if (claim->lease->n_segments <= claim->segment)
			claim->lease->n_segments = claim->segment + 1;
	}
	return err;
}

/* ---- into the table ---- */

/* A lease that is in no table. */
static void lease_discard(struct lease *lease)
{
	for (unsigned i = 0; i < lease->n_segments; i++)
		if (lease->segments[i])
			segment_release(lease->segments[i]);
	if (lease->tenant)
		lease_delete(lease);
	else
		free(lease);
}

/* Enter or discard all leases found, also after an error. */
static int leases_enter(struct restore *restore, int err)
{
	struct leases *leases = restore->leases;
	struct lease *lease;

	/* the table lists leases in the order of their ids */
	while ((lease = list_first(&restore->found, struct lease, all))) {
		list_remove(&lease->all);
		if (!err && lease->state != WIRE_LEASE_ENDED) {
			err = lease_insert(lease);
			if (!err) {
				wire_lease_move(&lease->state, WIRE_STEP_GRANT);
				continue;
			}
		}
		/* after an error the next process restores the leases: keep their memory */
		leases->closing |= err != 0;
		if (!err)
			lease_unrecord(lease);
		lease_discard(lease);
	}
	return err;
}

/* After the leases. */
static int on_attachment(const struct ledger_key *key, const void *value, size_t bytes,
			 void *arg)
{
	const struct restore *restore = arg;
	const struct leases_restore *with = restore->with;
	struct leases *leases = restore->leases;
	struct lease_client *client = with->client(with->ctx, key->a);
	struct lease *lease = leases_find_id(leases, key->b);
	struct attachment_head head;
	struct attachment *attachment;
	int err = attachment_record_decode(key, value, bytes, &head);

	if (err)
		with->detached(with->ctx, key->a, key->b);
	/* the last process may have ended while it ended the session, the lease or a share */
	if (err || !client || !lease ||
	    !share_covers(lease, client->tenant, head.rights)) {
		ledger_remove(leases->ledger, key);
		return 0;
	}
	err = attachment_add(lease, client, head.rights, &attachment);
	if (err)
		return err;
	attachment->fenced = true;
	return head.watching ? lease_watch(leases, client, lease->id) : 0;
}

int leases_restore(struct leases *leases, const struct leases_restore *with)
{
	struct restore restore = { .leases = leases, .with = with };
	int err;

	list_init(&restore.found);
	err = ledger_walk(leases->ledger, LEDGER_LEASE, on_lease, &restore);
	if (!err)
		err = claims_serve(&restore);
	err = leases_enter(&restore, err);
	if (!err)
		err = ledger_walk(leases->ledger, LEDGER_ATTACHMENT, on_attachment,
				  &restore);
	if (!err)
		ledger_commit(leases->ledger);
	free(restore.claims);
	return err;
}
