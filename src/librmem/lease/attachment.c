/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/lease/attachment.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/err.h"

static int segments_parse(const struct wire_lease *answer,
			  const struct endpoint_map *map, struct attachment *att)
{
	unsigned all = map->present | map->away;
	uint64_t end = 0;

	for (unsigned i = 0; i < answer->n_segments; i++) {
		uint64_t bytes = answer->segments[i].bytes;

		if (bytes == 0 || !checked_add(end, bytes, &end))
			return err_set(-EPROTO,
				       "the server describes a lease with a "
				       "segment of %" PRIu64 " bytes",
				       bytes);
		att->ends[i] = end;
		att->nodes[i] = answer->segments[i].node;
		att->endpoints[i] =
			endpoint_mask_from_server(map, answer->segments[i].endpoints) |
			map->away;
		att->bound |= att->endpoints[i] != all;
	}
	if (end != answer->bytes)
		return err_set(-EPROTO,
			       "the server describes a lease of %" PRIu64
			       " bytes with segments of %" PRIu64,
			       answer->bytes, end);
	att->bytes = answer->bytes;
	att->n_segments = answer->n_segments;
	att->plain_bytes = att->n_segments == 1 ? att->bytes : 0;
	return 0;
}

static int keys_parse(const struct wire_lease *answer, const struct endpoint_map *map,
		      struct attachment *att)
{
	for (unsigned i = 0; i < answer->n_keys; i++) {
		const struct wire_key *key = &answer->keys[i];
		unsigned number;

		if (key->segment >= answer->n_segments ||
		    key->endpoint >= map->n_server)
			return err_set(-EPROTO,
				       "the server gives a key for segment %u "
				       "and endpoint %u, which do not exist",
				       key->segment, key->endpoint);
		number = map->number[key->endpoint];
		if (number < WIRE_ENDPOINTS_MAX)
			att->keys[key->segment][number] = (struct attachment_key){
				.present = true,
				.at = { .addr = key->addr, .rkey = key->rkey },
			};
	}
	return 0;
}

int attachment_create(const struct wire_lease *answer, const struct endpoint_map *map,
		      struct attachment **ret_attachment)
{
	struct attachment *att;
	int err;

	att = calloc(1, sizeof(*att) + answer->n_segments * sizeof(att->keys[0]));
	if (!att)
		return err_set(-ENOMEM, "no memory for the keys of a lease");
	err = segments_parse(answer, map, att);
	if (!err)
		err = keys_parse(answer, map, att);
	if (err) {
		free(att);
		return err;
	}
	*ret_attachment = att;
	return 0;
}

static bool keys_equal(const struct attachment_key *a, const struct attachment_key *b)
{
	return a->present == b->present && a->at.addr == b->at.addr &&
	       a->at.rkey == b->at.rkey;
}

bool attachment_equal(const struct attachment *a, const struct attachment *b)
{
	if (a->bytes != b->bytes || a->n_segments != b->n_segments)
		return false;
	for (unsigned i = 0; i < a->n_segments; i++) {
		if (a->ends[i] != b->ends[i] || a->nodes[i] != b->nodes[i] ||
		    a->endpoints[i] != b->endpoints[i])
			return false;
		for (unsigned k = 0; k < WIRE_ENDPOINTS_MAX; k++)
			if (!keys_equal(&a->keys[i][k], &b->keys[i][k]))
				return false;
	}
	return true;
}

void attachment_free(struct attachment *attachment)
{
	while (attachment) {
		struct attachment *older = attachment->older;

		free(attachment);
		attachment = older;
	}
}

unsigned attachment_segment(const struct attachment *attachment, uint64_t offset)
{
	unsigned low = 0, high = attachment->n_segments - 1;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (offset < attachment->ends[middle])
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

uint64_t attachment_start(const struct attachment *attachment, unsigned segment)
{
	return segment > 0 ? attachment->ends[segment - 1] : 0;
}
