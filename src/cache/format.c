/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/format.h"

#include <errno.h>
#include <xxhash.h>

#include "base/checked.h"
#include "base/crc32c.h"
#include "base/err.h"
#include "base/modular.h"

#define SUPER_MAGIC UINT64_C(0x4352)
#define SEGMENT_BYTES_MIN \
	(UINT64_C(1) << 20) /* of those that are chosen by the length */
#define SEGMENT_BYTES_MAX (UINT64_C(64) << 20)
/* of the number of segments: each client has a copy of their words */
#define TABLE_BITS_MAX 17u

static uint64_t bits(uint64_t word, unsigned at, unsigned n)
{
	return (word >> at) & ((UINT64_C(1) << n) - 1);
}

/* The least n for which 2^n is at least the number. */
static unsigned log2_up(uint64_t number)
{
	return number <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(number - 1);
}

uint64_t format_hash(const void *key, size_t bytes, uint64_t seed)
{
	return XXH64(key, bytes, seed);
}

/* ---- the super word ---- */

/* Fill in what follows from the lease. */
static int geometry_place(struct geometry *g, uint64_t lease_id, uint64_t lease_bytes)
{
	uint64_t heap = FORMAT_TABLE_AT + (UINT64_C(8) << g->table_bits), segments;
	uint32_t random = htole32(g->random);
	unsigned char id[12];

	g->buckets_at = (heap + 4095) & ~UINT64_C(4095);
	heap = g->buckets_at + ((uint64_t)FORMAT_BUCKET_BYTES << g->bucket_bits);
	g->heap_at = (heap + 4095) & ~UINT64_C(4095);
	segments = lease_bytes > g->heap_at
			   ? (lease_bytes - g->heap_at) >> g->segment_bits
			   : 0;
	if (segments > UINT64_C(1) << g->table_bits)
		segments = UINT64_C(1) << g->table_bits;
	if (segments < 2)
		return err_set(
			-EPROTO,
			"%llu bytes have no room for a cache of two segments of %llu",
			(unsigned long long)lease_bytes,
			(unsigned long long)geometry_segment_bytes(g));
	g->segments = (unsigned)segments;
	lease_id = htole64(lease_id);
	memcpy(id, &lease_id, 8);
	memcpy(id + 8, &random, 4);
	g->seed = crc32c(0, id, sizeof(id));
	return 0;
}

int geometry_choose(uint64_t lease_bytes, uint64_t segment_bytes, bool immutable,
		    uint32_t random, struct geometry *ret_geometry)
{
	struct geometry g = { .immutable = immutable, .unit_bits = 6 };
	int err;

	if (segment_bytes == 0) {
		segment_bytes = UINT64_C(1) << log2_up(lease_bytes / 512 + 1);
		if (segment_bytes < SEGMENT_BYTES_MIN)
			segment_bytes = SEGMENT_BYTES_MIN;
		if (segment_bytes > SEGMENT_BYTES_MAX)
			segment_bytes = SEGMENT_BYTES_MAX;
	}
	if (segment_bytes & (segment_bytes - 1) || segment_bytes < 512 ||
	    segment_bytes > SEGMENT_BYTES_MAX)
		return err_set(-EINVAL,
			       "a segment has a power of two of 512 to %llu bytes",
			       (unsigned long long)SEGMENT_BYTES_MAX);
	g.segment_bits = log2_up(segment_bytes);
	g.bucket_bits = log2_up(lease_bytes / 64 / FORMAT_BUCKET_BYTES);
	g.table_bits = log2_up(lease_bytes >> g.segment_bits);
	if (g.table_bits > TABLE_BITS_MAX)
		return err_set(
			-EINVAL,
			"the lease has more than %u segments: choose longer ones",
			1u << TABLE_BITS_MAX);
	/* room to grow to twice the length */
	g.table_bits += g.table_bits < TABLE_BITS_MAX;
	while (lease_bytes >> (32 + g.unit_bits - 1) && g.unit_bits < 13)
		g.unit_bits++;
	g.random = random & (FORMAT_CLIENTS - 1);
	err = geometry_place(&g, 0, lease_bytes);
	if (err)
		return -EINVAL;
	*ret_geometry = g;
	return 0;
}

/* From the highest bit on: magic 16, version 4, flags 4, segment 6, buckets 6, table 5, unit 3,
 * random 20. */
uint64_t geometry_encode(const struct geometry *g)
{
	return SUPER_MAGIC << 48 | (uint64_t)FORMAT_VERSION << 44 |
	       (uint64_t)g->immutable << 40 | (uint64_t)g->segment_bits << 34 |
	       (uint64_t)g->bucket_bits << 28 | (uint64_t)g->table_bits << 23 |
	       (uint64_t)(g->unit_bits - 6) << 20 | g->random;
}

int geometry_decode(uint64_t word, uint64_t lease_id, uint64_t lease_bytes,
		    struct geometry *ret_geometry)
{
	struct geometry g = {
		.immutable = bits(word, 40, 1),
		.segment_bits = (unsigned)bits(word, 34, 6),
		.bucket_bits = (unsigned)bits(word, 28, 6),
		.table_bits = (unsigned)bits(word, 23, 5),
		.unit_bits = 6 + (unsigned)bits(word, 20, 3),
		.random = (uint32_t)bits(word, 0, 20),
	};
	int err;

	if (word >> 48 != SUPER_MAGIC)
		return err_set(-EPROTO, "the lease has other contents than a cache");
	if (bits(word, 44, 4) != FORMAT_VERSION || bits(word, 41, 3) != 0)
		return err_set(-EPROTO,
			       "the cache has version %u and flags %#x of the format, "
			       "this is %u",
			       (unsigned)bits(word, 44, 4), (unsigned)bits(word, 40, 4),
			       FORMAT_VERSION);
	if (g.segment_bits < 9 || g.segment_bits > 26 ||
	    g.segment_bits < g.unit_bits + 3 || g.bucket_bits > 31 ||
	    g.table_bits > TABLE_BITS_MAX)
		return err_set(-EPROTO, "the cache's super word is damaged");
	err = geometry_place(&g, lease_id, lease_bytes);
	if (err)
		return err;
	*ret_geometry = g;
	return 0;
}

/* ---- segment words ---- */

uint64_t segment_encode(const struct segment *s)
{
	uint64_t low = s->state == SEGMENT_FULL ? s->stamp & (STAMPS - 1)
						: (uint64_t)s->time << 20 | s->x;

	return (uint64_t)s->generation << 40 | (uint64_t)s->state << 37 |
	       (uint64_t)s->class << 36 | low;
}

struct segment segment_decode(uint64_t word)
{
	struct segment s = {
		.generation = (uint32_t)bits(word, 40, 24),
		.state = (enum segment_state)bits(word, 37, 3),
		.class = (enum segment_class)bits(word, 36, 1),
	};

	if (s.state == SEGMENT_FULL) {
		s.stamp = bits(word, 0, 36);
	} else {
		s.time = (uint16_t)bits(word, 20, 16);
		s.x = (uint32_t)bits(word, 0, 20);
	}
	return s;
}

unsigned segment_age(const struct segment *segment, uint64_t now_ms)
{
	int16_t age = (int16_t)(uint16_t)(now_ms / 1000 - segment->time);

	if (age >= 0)
		return (unsigned)age;
	/* of two clocks, or of hours */
	return age > -60 ? 0 : (unsigned)(age + 65536);
}

MODULAR int64_t segment_full_age(const struct segment *segment, uint64_t now_ms)
{
	uint64_t age = (STAMP_OF_MS(now_ms) - segment->stamp) & (STAMPS - 1);

	return age < STAMPS / 2 ? (int64_t)age : (int64_t)age - (int64_t)STAMPS;
}

/* ---- slots ---- */

static unsigned code_of_bytes(uint64_t bytes)
{
	if (bytes == 0)
		return 0;
	return bytes <= 64 ? 1 : log2_up(bytes) - 5;
}

uint64_t slot_encode(uint64_t hash, uint64_t value_bytes, uint32_t generation,
		     uint32_t place)
{
	return (uint64_t)print_of_hash(hash) << 50 |
	       (uint64_t)code_of_bytes(value_bytes) << 45 |
	       (uint64_t)(generation & (SLOT_GENERATIONS - 1)) << 32 | place;
}

uint64_t slot_bytes_max(uint64_t slot)
{
	return slot_code(slot) == 0 ? 0 : UINT64_C(1) << (slot_code(slot) + 5);
}

static unsigned hint_tag(uint64_t slot)
{
	slot = htole64(slot);
	return (unsigned)(XXH64(&slot, sizeof(slot), 0) >> 58);
}

uint8_t hint_encode(uint64_t slot, unsigned count)
{
	return (uint8_t)(hint_tag(slot) << 2 | count);
}

unsigned hint_count(uint64_t slot, uint8_t hint)
{
	return hint >> 2 == hint_tag(slot) ? hint & HINT_MAX : 0;
}

/* ---- blocks ---- */

/* little-endian, in this order */
struct __attribute__((packed)) head {
	uint32_t head_crc, value_crc;
	uint64_t where; /* generation << 32 | segment */
	uint32_t place;
	uint8_t key_bytes, version;
	uint16_t zero;
	uint64_t value_bytes, expiry_ms, value_id;
	uint16_t part, parts;
	unsigned char zeros[12];
};
_Static_assert(sizeof(struct head) == FORMAT_HEAD_BYTES, "the header of a block");

uint64_t block_bytes(const struct geometry *geometry, unsigned key_bytes,
		     uint64_t value_bytes)
{
	uint64_t bytes = block_value_at(key_bytes) + value_bytes;

	return bytes + align_gap(bytes, UINT64_C(1) << geometry->unit_bits);
}

uint64_t block_part_bytes(const struct geometry *geometry, const struct block *block)
{
	uint64_t before = block->part * geometry_part_bytes(geometry);

	return block->part + 1u < block->parts ? geometry_part_bytes(geometry)
					       : block->value_bytes - before;
}

/* The CRC of the header behind it, and the key. */
static uint32_t head_crc(const struct geometry *geometry, const unsigned char *head,
			 unsigned key_bytes)
{
	return crc32c(geometry->seed, head + 4, FORMAT_HEAD_BYTES - 4 + key_bytes);
}

void block_encode(const struct geometry *geometry, const struct block *block,
		  void *head)
{
	struct head h = {
		.value_crc = htole32(block->value_crc),
		.where = htole64((uint64_t)block->generation << 32 | block->segment),
		.place = htole32(block->place),
		.key_bytes = block->key_bytes,
		.version = FORMAT_VERSION,
		.value_bytes = htole64(block->value_bytes),
		.expiry_ms = htole64(block->expiry_ms),
		.value_id = htole64(block->value_id),
		.part = htole16(block->part),
		.parts = htole16(block->parts),
	};
	unsigned char *bytes = head;
	uint64_t end = FORMAT_HEAD_BYTES + (uint64_t)block->key_bytes;

	memmove(bytes + FORMAT_HEAD_BYTES, block->key, block->key_bytes);
	memset(bytes + end, 0, block_value_at(block->key_bytes) - end);
	memcpy(bytes, &h, sizeof(h));
	h.head_crc = htole32(head_crc(geometry, bytes, block->key_bytes));
	memcpy(bytes, &h, sizeof(h));
}

/* Whether there may be so many bytes, and the number of parts belongs to them. */
static bool parts_fit(const struct geometry *geometry, const struct block *block)
{
	uint64_t part_bytes = geometry_part_bytes(geometry);
	uint64_t parts =
		block->value_bytes == 0 ? 1 : (block->value_bytes - 1) / part_bytes + 1;

	return block->value_bytes <= FORMAT_VALUE_MAX && block->parts == parts &&
	       block->part < block->parts;
}

bool block_decode(const struct geometry *geometry, const void *head, size_t bytes,
		  uint64_t slot, struct block *ret_block)
{
	const unsigned char *at = head;
	struct block block;
	struct head h;

	memcpy(&h, head, sizeof(h));
	block.generation = (uint32_t)(le64toh(h.where) >> 32);
	block.segment = (uint32_t)le64toh(h.where);
	block.place = le32toh(h.place);
	block.value_crc = le32toh(h.value_crc);
	block.value_bytes = le64toh(h.value_bytes);
	block.expiry_ms = le64toh(h.expiry_ms);
	block.value_id = le64toh(h.value_id);
	block.part = le16toh(h.part);
	block.parts = le16toh(h.parts);
	block.key_bytes = h.key_bytes;
	block.key = at + FORMAT_HEAD_BYTES;
	if (h.version != FORMAT_VERSION || h.key_bytes == 0 ||
	    FORMAT_HEAD_BYTES + (size_t)h.key_bytes > bytes)
		return false;
	if ((block.generation & (SLOT_GENERATIONS - 1)) != slot_generation(slot))
		return false;
	if (block.place != slot_place(slot) ||
	    block.segment != geometry_place_segment(geometry, block.place))
		return false;
	if (le32toh(h.head_crc) != head_crc(geometry, at, h.key_bytes))
		return false;
	if (!parts_fit(geometry, &block) ||
	    block_part_bytes(geometry, &block) > slot_bytes_max(slot))
		return false;
	*ret_block = block;
	return true;
}

uint32_t block_value_crc(const struct geometry *geometry, const void *value,
			 size_t bytes)
{
	return crc32c(geometry->seed, value, bytes);
}

/* ---- directories ---- */

static uint32_t entry_crc(const struct geometry *geometry, unsigned segment,
			  uint32_t generation, unsigned index, const void *entry)
{
	uint32_t where[3] = { htole32(segment), htole32(generation), htole32(index) };

	return crc32c(crc32c(geometry->seed, where, sizeof(where)), entry, 12);
}

void entry_encode(const struct geometry *geometry, unsigned segment,
		  uint32_t generation, unsigned index, uint64_t slot, uint32_t bucket,
		  void *entry)
{
	unsigned char *at = entry;
	uint32_t crc;

	slot = htole64(slot);
	bucket = htole32(bucket);
	memcpy(at, &slot, 8);
	memcpy(at + 8, &bucket, 4);
	crc = htole32(entry_crc(geometry, segment, generation, index, entry));
	memcpy(at + 12, &crc, 4);
}

bool entry_decode(const struct geometry *geometry, unsigned segment,
		  uint32_t generation, unsigned index, const void *entry,
		  uint64_t *ret_slot, uint32_t *ret_bucket)
{
	const unsigned char *at = entry;
	uint32_t bucket, crc;

	memcpy(&bucket, at + 8, 4);
	memcpy(&crc, at + 12, 4);
	if (le32toh(crc) != entry_crc(geometry, segment, generation, index, entry))
		return false;
	*ret_slot = word_read(entry);
	*ret_bucket = le32toh(bucket);
	return true;
}
