/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/get.h"

#include <errno.h>

#include "cache/bucket.h"
#include "cache/parts.h"
#include "cache/request.h"
#include "cache/swap.h"

/* of hits in a cache whose values never change: one reads the bucket too, for the hint */
#define HINT_READS 16

static struct request *request_of(struct task *task)
{
	return container_of(task, struct request, task);
}

/* Where the value would go, and how much of it may be read: nothing else is known of its length
 * than its slot and the room. */
static uint64_t value_room(const struct request *r, uint64_t slot, uint64_t at)
{
	const struct geometry *geometry = &r->server->geometry;
	unsigned segment = geometry_place_segment(geometry, slot_place(slot));
	uint64_t end = geometry_segment_at(geometry, segment + 1);
	uint64_t bytes = slot_bytes_max(slot);
	const struct place *known = known_find(&r->server->known, r->hash);

	if (known && known->slot == slot && !known->ghost)
		bytes = known->bytes;
	if (bytes > r->bytes)
		bytes = r->bytes;
	return at >= end ? 0 : bytes < end - at ? bytes : end - at;
}

/* Read the block of r->slot; adds to what the task waits for. */
static void get_read_block(struct request *r)
{
	struct server *server = r->server;
	uint64_t at = geometry_place_at(&server->geometry, slot_place(r->slot));
	uint64_t value_at = block_value_at(r->key_bytes);

	r->vec[0] = (struct rmem_vec){ r->piece->head, value_at, server->io.buffer };
	r->vec[1].bytes = r->value ? value_room(r, r->slot, at + value_at) : 0;
	if (r->vec[1].bytes == 0) {
		io_read(&server->io, &r->task, at, r->piece->head, value_at);
		return;
	}
	r->vec[1].addr = r->value;
	r->vec[1].buffer = NULL; /* found, if the program has registered it */
	io_readv(&server->io, &r->task, at, r->vec, 2);
}

enum check {
	CHECK_HIT,
	CHECK_BAD,     /* it is no block of the slot */
	CHECK_OTHER,   /* it is that of another key with the same fingerprint */
	CHECK_EXPIRED, /* its time is over */
	CHECK_LONGER,  /* than the room */
	CHECK_PARTS,   /* the value has several, and it was taken for one */
};

/* Whether the block that was read is that of the slot and the key, whole. */
static enum check get_check(struct request *r)
{
	const struct geometry *geometry = &r->server->geometry;
	struct block block;
	uint64_t bytes;

	if (!block_decode(geometry, r->piece->head, block_value_at(r->key_bytes),
			  r->slot, &block))
		return CHECK_BAD;
	if (block.key_bytes != r->key_bytes || block.part != r->part ||
	    memcmp(block.key, r->key, r->key_bytes) != 0)
		return CHECK_OTHER;
	bytes = block_part_bytes(geometry, &block);
	r->result_bytes = block.value_bytes;
	r->whole_bytes = block.value_bytes;
	r->value_id = block.value_id;
	r->parts = block.parts;
	if (block.expiry_ms && block.expiry_ms <= server_now_ms(r->server))
		return CHECK_EXPIRED;
	if (!r->value)
		return CHECK_HIT;
	if (bytes > r->bytes || (!r->parent && block.value_bytes > r->bytes))
		return CHECK_LONGER;
	if (r->parts > 1 && !r->parent)
		return CHECK_PARTS;
	if (bytes > r->vec[1].bytes ||
	    block.value_crc != block_value_crc(geometry, r->value, bytes))
		return CHECK_BAD;
	return CHECK_HIT;
}

/* The popularity of the block, where it is not at its limit. */
static void get_hint(struct request *r, const unsigned char *bucket, unsigned index)
{
	struct server *server = r->server;
	unsigned count = bucket_count(bucket, index);
	bool classes = policy_has_classes(&server->policy, &server->table);

	if (server->read_only || !r->value || count >= (classes ? HINT_MAX : 1))
		return;
	/* of one class each hit is told, as there is no second one before eviction */
	if (classes && random_next(&server->random) % server->hint_share)
		return;
	io_hint(&server->io, r->bucket_at + FORMAT_HINTS_AT + index,
		&server->scratch->bytes[hint_encode(r->slot, count + 1)]);
}

/* What is asked for decides what stays. */
static void get_tell(struct request *r, uint64_t bytes)
{
	const struct geometry *geometry = &r->server->geometry;

	if (r->value && r->part == 0 && !r->server->read_only)
		policy_get(&r->server->policy, r->hash, bytes,
			   (uint64_t)geometry->segments << geometry->segment_bits);
}

static void get_hit(struct request *r)
{
	struct server *server = r->server;
	uint64_t bytes =
		r->whole_bytes - r->part * geometry_part_bytes(&server->geometry);

	if (r->part + 1u < r->parts)
		bytes = geometry_part_bytes(&server->geometry);
	get_tell(r, r->whole_bytes);
	known_set(&server->known, r->hash, r->slot, bytes, false);
	request_end(r, RMEM_CACHE_HIT, 0, NULL);
}

static void get_miss(struct request *r)
{
	get_tell(r, r->bytes);
	known_forget(&r->server->known, r->hash);
	if (r->behind)
		known_set(&r->server->known, r->hash, r->slot, 0, r->behind == 1);
	request_end(r, RMEM_CACHE_MISSING, 0, NULL);
}

/* Clear the slot, of a block that expired or is damaged; the get ends whatever comes of it. */
static void get_cleared(struct task *task)
{
	get_miss(request_of(task));
}

static void get_clear(struct request *r)
{
	r->behind = 0;
	if (r->server->read_only) {
		get_miss(r);
		return;
	}
	swap_start(&r->server->io, &r->task, request_slot_at(r, r->index), r->slot, 0,
		   &r->piece->word, get_cleared);
}

/* What was known of the value was of another one: get its parts. */
static void get_split(struct request *r)
{
	known_forget(&r->server->known, r->hash);
	request_release(r);
	if (parts_start(r))
		request_end(r, RMEM_CACHE_MISSING, -ENOMEM,
			    "no memory for the value's parts");
}

/* Whether the get has ended with the block that was read; false: it is bad. */
static bool get_settle(struct request *r, const unsigned char *bucket)
{
	enum check check = get_check(r);

	switch (check) {
	case CHECK_HIT:
		if (bucket)
			get_hint(r, bucket, r->index);
		get_hit(r);
		return true;
	case CHECK_LONGER:
		request_end(r, RMEM_CACHE_FAILED, -EMSGSIZE, "the value has %llu bytes",
			    (unsigned long long)r->result_bytes);
		return true;
	case CHECK_EXPIRED:
		if (bucket)
			get_clear(r);
		else
			get_miss(r);
		return true;
	case CHECK_OTHER:
		get_miss(r);
		return true;
	case CHECK_PARTS:
		get_split(r);
		return true;
	case CHECK_BAD:
		break;
	}
	r->server->counters.torn++;
	return false;
}

/* The slot of the key in the bucket that was read, of which the block may be read.  False: the get
 * has ended. */
static bool get_find(struct request *r)
{
	struct server *server = r->server;
	int index = bucket_final(r->piece->bucket, print_of_hash(r->hash));

	r->behind = 0;
	if (index < 0) {
		get_miss(r);
		return false;
	}
	r->index = (unsigned)index;
	r->slot = bucket_slot(r->piece->bucket, r->index);
	if (table_is_stale(&server->table, &server->geometry, r->slot, &r->behind)) {
		server->counters.stale++;
		get_miss(r);
		return false;
	}
	return true;
}

/* Whether the place of a slot is in the memory at all. */
static bool slot_is_inside(const struct server *server, uint64_t slot)
{
	return geometry_place_segment(&server->geometry, slot_place(slot)) <
	       server->geometry.segments;
}

static void get_block(struct task *task);

/* Read the block of the slot that was found. */
static void get_look(struct request *r)
{
	if (!slot_is_inside(r->server, r->slot)) {
		get_miss(r);
		return;
	}
	task_then(&r->task, get_block);
	get_read_block(r);
}

/* The bucket was read again, after a bad block: it may have moved. */
static void get_again(struct task *task)
{
	struct request *r = request_of(task);
	uint64_t bad = r->slot;

	if (task->err) {
		request_failed(r, task->err, "reading the bucket");
		return;
	}
	if (!get_find(r))
		return;
	if (r->slot != bad)
		get_look(r);
	else
		get_clear(r);
}

static void get_block(struct task *task)
{
	struct request *r = request_of(task);

	if (task->err) {
		request_failed(r, task->err, "reading the block");
		return;
	}
	if (get_settle(r, r->piece->bucket))
		return;
	if (r->attempt++ == 0)
		request_read_bucket(r, get_again);
	else
		get_miss(r);
}

static void get_bucket(struct task *task)
{
	struct request *r = request_of(task);

	if (task->err) {
		request_failed(r, task->err, "reading the bucket");
		return;
	}
	if (get_find(r))
		get_look(r);
}

/* Bucket and block of a known place were read together: the block counts only if the bucket has the
 * slot. */
static void get_known(struct task *task)
{
	struct request *r = request_of(task);
	uint64_t known = r->slot;

	if (task->err) {
		request_failed(r, task->err, "reading bucket and block");
		return;
	}
	if (!get_find(r))
		return;
	if (r->slot != known)
		get_look(r);
	else
		get_block(task);
}

/* The block of a known place was read alone: values never change. */
static void get_unchanged(struct task *task)
{
	struct request *r = request_of(task);

	if (task->err) {
		request_failed(r, task->err, "reading the block");
		return;
	}
	if (get_settle(r, NULL))
		return;
	known_forget(&r->server->known, r->hash);
	request_read_bucket(r, get_bucket);
}

void get_start(struct request *r)
{
	struct server *server = r->server;
	const struct place *known = known_find(&server->known, r->hash);

	if (!known || known->ghost || !slot_is_inside(server, known->slot) ||
	    table_is_stale(&server->table, &server->geometry, known->slot, NULL)) {
		request_read_bucket(r, get_bucket);
		return;
	}
	r->slot = known->slot;
	if (server->geometry.immutable &&
	    (server->read_only || random_next(&server->random) % HINT_READS)) {
		task_then(&r->task, get_unchanged);
		get_read_block(r);
		return;
	}
	request_read_bucket(r, get_known);
	get_read_block(r);
}
