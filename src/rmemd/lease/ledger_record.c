/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/ledger_record.h"

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/err.h"
#include "base/utf8.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/origin.h"
#include "rmemd/state/ledger.h"
#include "rmemd/state/ledger_value.h"

#define NAMES_BYTES (WIRE_LABEL_MAX + 1 + WIRE_NAME_MAX + 1)
#define CREATOR_BYTES (WIRE_LABEL_MAX + 1 + ORIGIN_PEER_BYTES)
#define RECORD_BYTES                                                                  \
	(sizeof(struct lease_head) + WIRE_SEGMENTS_MAX * sizeof(struct segment_row) + \
	 NAMES_BYTES + CREATOR_BYTES + SHARES_MAX * sizeof(struct share_row))

_Static_assert(RECORD_BYTES <= LEDGER_VALUE_MAX, "a lease fits into the ledger");

/* ---- writing ---- */

static struct ledger_key lease_key(uint64_t id)
{
	return (struct ledger_key){ LEDGER_LEASE, id, 0 };
}

static struct ledger_key attachment_key(const struct attachment *attachment)
{
	return (struct ledger_key){ LEDGER_ATTACHMENT, attachment->client->id,
				    attachment->lease->id };
}

static size_t lease_encode(const struct lease *lease, char *value)
{
	const char *name = lease->name ? lease->name : "";
	struct lease_head head = {
		.head_bytes = sizeof(head),
		.n_segments = lease->n_segments,
		.bytes = lease->bytes,
		.align = lease->align,
		.owner = lease->owner ? lease->owner->id : 0,
		.granted_ms = lease->granted_ms,
		.due_ms = lease->due_ms,
		.ttl_ms = lease->ttl_ms,
		.generation = lease->generation,
		.node = lease->node,
		.placement = (uint32_t)lease->placement,
		.atomic_kind = lease->atomic_device.kind,
		.n_shares = lease->n_shares,
		.visited = lease->visited,
		.creator = lease->creator ? lease->creator->session : 0,
	};
	char *end = value;

	memcpy(head.atomic_device, lease->atomic_device.name,
	       sizeof(head.atomic_device));
	end = value_add(end, &head, sizeof(head));
	for (unsigned i = 0; i < lease->n_segments; i++) {
		const struct segment *segment = lease->segments[i];
		struct segment_row row = {
			.offset = segment->extent.offset,
			.bytes = segment->bytes,
			.dirty = segment->dirty,
			.pool = extent_pool(&segment->extent).id,
		};

		end = value_add(end, &row, sizeof(row));
	}
	end = value_add_text(end, lease->tenant->name, WIRE_LABEL_MAX);
	end = value_add_text(end, name, WIRE_NAME_MAX);
	for (unsigned i = 0; i < lease->n_shares; i++) {
		struct share_row row = { .rights = lease->shares[i].rights };

		(void)strcpy(row.tenant, lease->shares[i].tenant);
		end = value_add(end, &row, sizeof(row));
	}
	if (lease->creator) {
		end = value_add_text(end, lease->creator->client, WIRE_LABEL_MAX);
		end = value_add_text(end, lease->creator->peer, ORIGIN_PEER_BYTES - 1);
	}
	return (size_t)(end - value);
}

int lease_record(const struct lease *lease)
{
	static char value[RECORD_BYTES];
	struct ledger_key key = lease_key(lease->id);

	return ledger_put(lease->leases->ledger, &key, value,
			  lease_encode(lease, value));
}

int lease_record_reserve(const struct lease *lease)
{
	struct ledger_key key = lease_key(lease->id);

	return ledger_reserve(lease->leases->ledger, &key, RECORD_BYTES);
}

int attachment_record(const struct attachment *attachment)
{
	struct ledger_key key = attachment_key(attachment);
	const struct attachment_head head = {
		.head_bytes = sizeof(head),
		.rights = attachment->rights,
		.watching = !list_empty(&attachment->watching),
	};

	return ledger_put(attachment->lease->leases->ledger, &key, &head, sizeof(head));
}

static void remove_record(const struct leases *leases, struct ledger_key key)
{
	if (!leases->closing)
		ledger_remove(leases->ledger, &key);
}

void attachment_unrecord(const struct attachment *attachment)
{
	remove_record(attachment->lease->leases, attachment_key(attachment));
}

void lease_unrecord(const struct lease *lease)
{
	remove_record(lease->leases, lease_key(lease->id));
}

/* ---- reading ---- */

static bool rights_are_good(uint32_t rights)
{
	return rights == WIRE_RIGHT_READ ||
	       rights == (WIRE_RIGHT_READ | WIRE_RIGHT_WRITE);
}

/* Whether a request could have asked for these; ids are in JSON, too. */
static bool numbers_are_good(const struct ledger_key *key,
			     const struct lease_head *head)
{
	return key->a && key->a <= LEDGER_ID_MAX && !key->b &&
	       lease_align_good(head->align);
}

/* Parse the segments, which must add up to the lease's length. */
static bool rows_parse(struct value *value, struct lease_record *record)
{
	size_t n = record->head.n_segments;
	uint64_t sum = 0;

	if (n > WIRE_SEGMENTS_MAX ||
	    !value_parse(value, record->rows, n * sizeof(record->rows[0])))
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct segment_row *row = &record->rows[i];

		if (!row->bytes || !range_inside(record->head.bytes, sum, row->bytes) ||
		    row->dirty < row->bytes)
			return false;
		sum += row->bytes;
	}
	return sum == record->head.bytes;
}

static bool shares_parse(struct value *value, struct lease_record *record)
{
	const size_t n = record->head.n_shares;

	if (n > SHARES_MAX ||
	    !value_parse(value, record->shares, n * sizeof(record->shares[0])))
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct share_row *row = &record->shares[i];

		if (strnlen(row->tenant, sizeof(row->tenant)) > TENANT_NAME_MAX ||
		    !rights_are_good(row->rights))
			return false;
	}
	return true;
}

/* A lease whose creator is not known, or whose texts may not be shown, is as good as others. */
static void creator_parse(struct value *value, struct lease_record *record)
{
	const char *client = NULL, *peer = NULL;

	if (record->head.creator)
		client = value_parse_text(value, WIRE_LABEL_MAX);
	if (client)
		peer = value_parse_text(value, ORIGIN_PEER_BYTES - 1);
	if (!peer || !utf8_clean(client, strlen(client)) ||
	    !utf8_clean(peer, strlen(peer)))
		client = peer = NULL;
	record->creator = client;
	record->creator_peer = peer;
}

int lease_record_decode(const struct ledger_key *key, const void *data, size_t bytes,
			struct lease_record *ret_record)
{
	struct value value = { data, bytes };
	char *device = ret_record->head.atomic_device;

	ret_record->name = NULL;
	if (value_parse_head(&value, &ret_record->head, sizeof(ret_record->head)) &&
	    rows_parse(&value, ret_record)) {
		ret_record->tenant = value_parse_text(&value, WIRE_LABEL_MAX);
		if (ret_record->tenant)
			ret_record->name = value_parse_text(&value, WIRE_NAME_MAX);
	}
	device[sizeof(ret_record->head.atomic_device) - 1] = '\0';
	/* a lease has either a name or an owner; the texts are shown to others */
	if (!ret_record->name || !numbers_are_good(key, &ret_record->head) ||
	    !*ret_record->name == !ret_record->head.owner ||
	    !utf8_clean(ret_record->tenant, strlen(ret_record->tenant)) ||
	    !utf8_clean(ret_record->name, strlen(ret_record->name)) ||
	    !utf8_clean(device, strlen(device)) || !shares_parse(&value, ret_record))
		return value_malformed("lease", key);
	creator_parse(&value, ret_record);
	return 0;
}

int attachment_record_decode(const struct ledger_key *key, const void *data,
			     size_t bytes, struct attachment_head *ret_head)
{
	struct value value = { data, bytes };

	if (!value_parse_head(&value, ret_head, sizeof(*ret_head)) ||
	    !rights_are_good(ret_head->rights))
		return value_malformed("attachment of session", key);
	return 0;
}

static int in_pool(const struct ledger_key *key, const void *data, size_t bytes,
		   void *arg)
{
	static struct lease_record record;
	const uint32_t *id = arg;

	/* what cannot be read will not be restored */
	if (lease_record_decode(key, data, bytes, &record))
		return 0;
	for (unsigned i = 0; i < record.head.n_segments; i++)
		if (record.rows[i].pool == *id)
			return 1;
	return 0;
}

bool leases_use_pool(const struct ledger *ledger, uint32_t id)
{
	return ledger_each(ledger, LEDGER_LEASE, in_pool, &id);
}
