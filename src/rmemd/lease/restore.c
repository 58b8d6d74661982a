/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases and attachments that outlasted the process, back into the table. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/ledger_record.h"
#include "rmemd/lease/lease_table.h"
#include "rmemd/state/ledger_kinds.h"
#include "rmemd/state/ledger.h"

/* Where a segment was of a lease that is being taken back. */
struct claim {
	struct lease *lease;
	unsigned segment;
	struct segment_row row;
};

/* Who had what attached. */
struct hold {
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
	struct rows found;  /* struct lease *; ENDED: it cannot be had back */
	struct rows claims; /* struct claim */
	struct rows holds;  /* struct hold */
};

/* Room for one more; NULL: there is none. */
static void *row_add(struct rows *rows, size_t row_bytes)
{
	size_t room = rows->room ? 2 * rows->room : 64;
	void *grown;

	if (rows->n == rows->room) {
		grown = reallocarray(rows->at, room, row_bytes);
		if (!grown) {
			(void)err_set(-ENOMEM,
				      "no memory for the leases that were there");
			return NULL;
		}
		rows->at = grown;
		rows->room = room;
	}
	return (char *)rows->at + rows->n++ * row_bytes;
}

/* ---- reading the ledger ---- */

static void lose(const struct restore *restore, struct lease *lease, const char *why)
{
	if (lease->state != LEASE_ENDED)
		restore->with->lost(restore->with->ctx, lease->id,
				    lease->name ? lease->name : "", why);
	lease->state = LEASE_ENDED;
}

static int lease_fill(const struct restore *restore, struct lease *lease,
		      const struct lease_record *record)
{
	const struct leases_restore *with = restore->with;
	const struct lease_head *head = &record->head;

	lease->bytes = head->bytes;
	lease->align = head->align;
	/* one of a later version is for what is added to the lease, not for what it has */
	lease->placement = head->placement <= WIRE_PLACE_INTERLEAVE
				   ? (enum wire_placement)head->placement
				   : WIRE_PLACE_NODE;
	lease->node = head->node;
	lease->granted_ms = head->granted_ms;
	lease->ttl_ms = head->ttl_ms;
	lease->deadline.due_ms = head->due_ms;
	lease->generation = head->generation;
	lease->atomic_device.kind = (enum fabric_kind)head->home_kind;
	memcpy(lease->atomic_device.name, head->home_device,
	       sizeof(lease->atomic_device.name));
	lease->tenant = with->tenant(with->ctx, record->tenant);
	if (!lease->tenant)
		return -ENOMEM;
	lease->segments = calloc(head->n_segments, sizeof(struct segment *));
	if (*record->name)
		lease->name = strdup(record->name);
	else
		lease->owner = with->client(with->ctx, head->owner);
	if ((head->n_segments && !lease->segments) || (*record->name && !lease->name))
		return err_set(-ENOMEM, "no memory for a lease that was there");
	/* the last process stopped as it was ending a session: it is on its way out */
	if (!lease->name && !lease->owner)
		lease->state = LEASE_ENDED;
	return 0;
}

static int on_lease(const struct ledger_key *key, const void *value, size_t bytes,
		    void *arg)
{
	static struct lease_record record;
	struct restore *restore = arg;
	struct lease **place = row_add(&restore->found, sizeof(struct lease *));
	struct lease *lease;
	int err;

	if (!place)
		return -ENOMEM;
	*place = lease = lease_blank(restore->leases, key->a);
	if (!lease) {
		restore->found.n--;
		return err_set(-ENOMEM, "no memory for a lease that was there");
	}
	err = lease_record_decode(key, value, bytes, &record);
	if (!err)
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
	struct hold *hold = row_add(&restore->holds, sizeof(*hold));

	if (!hold)
		return -ENOMEM;
	hold->key = *key;
	return attachment_record_decode(key, value, bytes, &hold->head);
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

/* The tenant has it already, whatever its limits are now. */
static int claim_serve(const struct restore *restore, const struct claim *claim)
{
	struct leases *leases = restore->leases;
	struct lease *lease = claim->lease;
	struct segment *segment;
	struct extent extent;
	int err;

	if (lease->state == LEASE_ENDED)
		return 0;
	err = pools_claim(leases->pools, claim->row.pool, claim->row.offset,
			  claim->row.bytes, &extent);
	if (err == -ENOENT) {
		lose(restore, lease, "the pool it was in is gone");
		return 0;
	}
	if (err)
		return err;
	err = segment_create(leases, lease->tenant, extent, claim->row.bytes, &segment);
	if (err)
		return err;
	segment->dirty =
		claim->row.dirty < extent.bytes ? claim->row.dirty : extent.bytes;
	lease->segments[claim->segment] = segment;
	return 0;
}

static int claims_serve(const struct restore *restore)
{
	const struct claim *claims = restore->claims.at;
	int err = 0;

	if (restore->claims.n)
		qsort(restore->claims.at, restore->claims.n, sizeof(*claims),
		      claim_order);
	for (size_t i = 0; !err && i < restore->claims.n; i++) {
		struct lease *lease = claims[i].lease;

		err = claim_serve(restore, &claims[i]);
		if (lease->n_segments <= claims[i].segment)
			lease->n_segments = claims[i].segment + 1;
	}
	return err;
}

/* ---- into the table ---- */

static int lease_order(const void *a, const void *b)
{
	const struct lease *x = *(struct lease *const *)a;
	const struct lease *y = *(struct lease *const *)b;

	return x->id < y->id ? -1 : x->id > y->id;
}

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

static int lease_enter(struct leases *leases, struct lease *lease)
{
	uint64_t due_ms = lease->deadline.due_ms;
	int err = deadlines_reserve(&leases->deadlines, 1);

	if (!err)
		err = lease_insert(lease);
	if (err)
		return err;
	if (due_ms)
		deadlines_set(&leases->deadlines, &lease->deadline, due_ms);
	lease->state = LEASE_READY;
	return 0;
}

/* All that were found are in the table or discarded, also after an error. */
static int leases_enter(const struct restore *restore, int err)
{
	struct lease **found = restore->found.at;
	struct leases *leases = restore->leases;

	if (restore->found.n)
		qsort(found, restore->found.n, sizeof(*found), lease_order);
	for (size_t i = 0; i < restore->found.n; i++) {
		if (!err && found[i]->state != LEASE_ENDED) {
			err = lease_enter(leases, found[i]);
			if (!err)
				continue;
		}
		/* the ledger still has them all: what they have stays as it is */
		leases->closing |= err != 0;
		if (!err)
			lease_unrecord(found[i]);
		lease_discard(found[i]);
	}
	return err;
}

static int holds_enter(const struct restore *restore)
{
	const struct leases_restore *with = restore->with;
	struct leases *leases = restore->leases;
	const struct hold *holds = restore->holds.at;
	struct attachment *attachment;
	int err;

	for (size_t i = 0; i < restore->holds.n; i++) {
		const struct hold *hold = &holds[i];
		struct lease_client *client = with->client(with->ctx, hold->key.a);
		struct lease *lease = leases_find_id(leases, hold->key.b);

		if (!client || !lease) {
			ledger_remove(leases->ledger, &hold->key);
			continue;
		}
		err = attachment_restore(lease, client, hold->head.rights, &attachment);
		if (!err && hold->head.watching)
			err = lease_watch(leases, client, lease->id);
		if (err)
			return err;
	}
	return 0;
}

int leases_restore(struct leases *leases, const struct leases_restore *with)
{
	struct restore restore = { .leases = leases, .with = with };
	int err;

	err = ledger_each(leases->ledger, LEDGER_LEASE, on_lease, &restore);
	if (!err)
		err = ledger_each(leases->ledger, LEDGER_ATTACHMENT, on_attachment,
				  &restore);
	if (!err)
		err = claims_serve(&restore);
	err = leases_enter(&restore, err);
	if (!err)
		err = holds_enter(&restore);
	if (!err)
		ledger_commit(leases->ledger);
	free(restore.found.at);
	free(restore.claims.at);
	free(restore.holds.at);
	return err;
}
