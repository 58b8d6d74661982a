/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cache/request.h"

/* Of a request that is split: its parts, until all have ended. */
struct parts {
	struct request *request;
	bool failed; /* put: one of them */
	unsigned n;
	struct request *part[];
};

static unsigned parts_count(const struct request *r)
{
	uint64_t part = geometry_part_bytes(&r->server->geometry);
	const struct place *known = known_find(&r->server->known, r->hash);
	uint64_t n = r->bytes == 0 ? 1 : (r->bytes - 1) / part + 1;

	/* a known value of one part */
	if (r->opcode == RMEM_CACHE_GET && known && !known->ghost &&
	    known->bytes < part)
		return 1;
	return n > FORMAT_PARTS_MAX ? FORMAT_PARTS_MAX : (unsigned)n;
}

bool parts_needed(const struct request *r)
{
	return (r->opcode == RMEM_CACHE_GET || r->opcode == RMEM_CACHE_PUT) &&
	       parts_count(r) > 1;
}

static void parts_free(struct parts *parts)
{
	for (unsigned i = 0; i < parts->n; i++)
		free(parts->part[i]);
	free(parts);
}

static void part_go(struct parts *parts, unsigned i)
{
	struct request *part = parts->part[i];

	parts->request->n_left++;
	list_append(&part->server->waiting, &part->link);
}

static void parts_end(struct parts *parts, const struct request *like)
{
	struct request *r = parts->request;

	r->result_bytes = like->result_bytes;
	r->parts_state = NULL;
	request_end(r, like->outcome, like->status, like->text[0] ? "%s" : NULL,
		    like->text);
	parts_free(parts);
}

/* A hit has all parts that part 0 tells of, of the same put. */
static void get_parts_end(struct parts *parts)
{
	struct request *r = parts->request, *first = parts->part[0];

	if (first->outcome == RMEM_CACHE_HIT && first->result_bytes > r->bytes) {
		first->outcome = RMEM_CACHE_FAILED;
		first->status = -EMSGSIZE;
		(void)snprintf(first->text, sizeof(first->text),
			       "the value has %llu bytes",
			       (unsigned long long)first->result_bytes);
	}
	for (unsigned i = 1; first->outcome == RMEM_CACHE_HIT && i < first->parts;
	     i++) {
		const struct request *part = parts->part[i];

		if (part->outcome == RMEM_CACHE_HIT &&
		    part->value_id == first->value_id &&
		    part->result_bytes == first->result_bytes)
			continue;
		/* a part was evicted, or the value is being replaced */
		first->outcome = RMEM_CACHE_MISSING;
		first->status = part->outcome == RMEM_CACHE_MISSING ? part->status : 0;
		memcpy(first->text, part->text, sizeof(first->text));
	}
	parts_end(parts, first);
}

static void part_done(struct request *part)
{
	struct request *r = part->parent;
	struct parts *parts = r->parts_state;

	r->n_left--;
	if (r->opcode == RMEM_CACHE_GET) {
		if (r->n_left == 0)
			get_parts_end(parts);
		return;
	}
	if (part->outcome != RMEM_CACHE_STORED && !parts->failed) {
		parts->failed = true;
		parts->request->index = part->part;
	}
	if (r->n_left)
		return;
	/* part 0 comes last: with it the key has the value */
	if (part->part == 0 || parts->failed)
		parts_end(parts, parts->part[parts->failed ? r->index : 0]);
	else
		part_go(parts, 0);
}

static struct request *part_create(struct request *r, unsigned i, unsigned n)
{
	uint64_t part = geometry_part_bytes(&r->server->geometry);
	struct request *p = malloc(sizeof(*p));

	if (!p)
		return NULL;
	*p = *r;
	list_init(&p->link);
	p->parent = r;
	p->part_done = part_done;
	p->part = (uint16_t)i;
	p->parts = (uint16_t)n;
	p->hash = format_hash(p->key, p->key_bytes, i);
	p->bucket_at = geometry_bucket_at(&r->server->geometry, p->hash);
	p->value = (char *)r->value + i * part;
	p->bytes = i + 1 < n ? part : r->bytes - i * part;
	p->whole_bytes = r->bytes;
	return p;
}

int parts_start(struct request *r)
{
	unsigned n = parts_count(r);
	struct parts *parts = calloc(1, sizeof(*parts) + n * sizeof(parts->part[0]));

	if (!parts)
		return -ENOMEM;
	parts->request = r;
	for (; parts->n < n; parts->n++) {
		parts->part[parts->n] = part_create(r, parts->n, n);
		if (!parts->part[parts->n]) {
			parts_free(parts);
			return -ENOMEM;
		}
	}
	r->parts_state = parts;
	for (unsigned i = n - 1; i > 0; i--)
		part_go(parts, i);
	if (r->opcode == RMEM_CACHE_GET)
		part_go(parts, 0);
	return 0;
}

void parts_forget(struct request *r)
{
	if (r->parts_state)
		parts_free(r->parts_state);
}
