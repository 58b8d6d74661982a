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

/* An attachment that is being restored. */
struct attached {
	struct ledger_key key;
	struct attachment_head head;
};

struct rows {
	void *at;
	size_t n, room;
};

struct restore {
	struct leases *leases;
	const struct leases_restore *with;
	struct tree found;    /* leases by their ids; ENDED: it cannot be restored */
	struct rows claims;   /* struct claim */
	struct rows attached; /* struct attached */
	struct rows unread;   /* struct ledger_key: what they hold cannot be read */
};

static int no_memory(void)
{
	return err_set(-ENOMEM, "no memory for the leases of the last process");
}

/* Append a row, not initialized.  NULL: -ENOMEM */
static void *row_add(struct rows *rows, size_t row_bytes)
{
	size_t room = rows->room ? 2 * rows->room : 64;
	void *grown;

	if (rows->n == rows->room) {
		grown = reallocarray(rows->at, room, row_bytes);
		if (!grown) {
			(void)no_memory();
			return NULL;
		}
		rows->at = grown;
		rows->room = room;
	}
	return (char *)rows->at + rows->n++ * row_bytes;
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

static int add_unread(struct restore *restore, const struct ledger_key *key)
{
	struct ledger_key *row = row_add(&restore->unread, sizeof(*row));

	if (!row)
		return -ENOMEM;
	*row = *key;
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
		return add_unread(restore, key);
	}
	lease = lease_blank(restore->leases, key->a);
	if (!lease)
		return no_memory();
	tree_insert(&restore->found, &lease->by_id, lease->id, 0);
	err = lease_fill(restore, lease, &record);
	for (unsigned i = 0; !err && i < record.head.n_segments; i++) {
		struct claim *claim = row_add(&restore->claims, sizeof(*claim));

		if (!claim)
			return -ENOMEM;
		*claim = (struct claim){ lease, i, record.rows[i] };
	}
	return err;
}

static int on_attachment(const struct ledger_key *key, const void *value, size_t bytes,
			 void *arg)
{
	struct restore *restore = arg;
	struct attachment_head head;
	struct attached *one;

	if (attachment_record_decode(key, value, bytes, &head)) {
		restore->with->detached(restore->with->ctx, key->a, key->b);
		return add_unread(restore, key);
	}
	one = row_add(&restore->attached, sizeof(*one));
	if (!one)
		return -ENOMEM;
	*one = (struct attached){ *key, head };
	return 0;
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
	const struct claim *claims = restore->claims.at, *before = NULL;
	int err = 0;

	if (restore->claims.n)
		qsort(restore->claims.at, restore->claims.n, sizeof(*claims),
		      claim_order);
	for (size_t i = 0; !err && i < restore->claims.n; i++) {
		struct lease *lease = claims[i].lease;

		err = claim_serve(restore, &claims[i], &before);
		if (lease->n_segments <= claims[i].segment)
			lease->n_segments = claims[i].segment + 1;
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
	struct tree_node *node;

	/* the table lists leases in the order of their ids */
	while ((node = tree_above(&restore->found, 0, 0))) {
		struct lease *lease = container_of(node, struct lease, by_id);

		tree_remove(&restore->found, node);
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

static int attachments_enter(const struct restore *restore)
{
	const struct leases_restore *with = restore->with;
	struct leases *leases = restore->leases;
	const struct attached *attached = restore->attached.at;
	struct attachment *attachment;
	int err;

	for (size_t i = 0; i < restore->attached.n; i++) {
		const struct attached *one = &attached[i];
		struct lease_client *client = with->client(with->ctx, one->key.a);
		struct lease *lease = leases_find_id(leases, one->key.b);

		/* the last process may have ended while it ended the session, the lease or a
		 * share */
		if (!client || !lease ||
		    !share_covers(lease, client->tenant, one->head.rights)) {
			ledger_remove(leases->ledger, &one->key);
			continue;
		}
		err = attachment_add(lease, client, one->head.rights, &attachment);
		if (err)
			return err;
		attachment->fenced = true;
		if (one->head.watching)
			err = lease_watch(leases, client, lease->id);
		if (err)
			return err;
	}
	return 0;
}

static void unread_remove(const struct restore *restore)
{
	const struct ledger_key *keys = restore->unread.at;

	for (size_t i = 0; i < restore->unread.n; i++)
		ledger_remove(restore->leases->ledger, &keys[i]);
}

int leases_restore(struct leases *leases, const struct leases_restore *with)
{
	struct restore restore = { .leases = leases, .with = with };
	int err = ledger_each(leases->ledger, LEDGER_LEASE, on_lease, &restore);

	if (!err)
		err = ledger_each(leases->ledger, LEDGER_ATTACHMENT, on_attachment,
				  &restore);
	if (!err)
		err = claims_serve(&restore);
	err = leases_enter(&restore, err);
	if (!err)
		err = attachments_enter(&restore);
	if (!err) {
		unread_remove(&restore);
		ledger_commit(leases->ledger);
	}
	free(restore.unread.at);
	free(restore.claims.at);
	free(restore.attached.at);
	return err;
}
