/* SPDX-License-Identifier: BSD-3-Clause */
/* What is in the memory of a cache, see rmem-cache(7): words, buckets, blocks and directories, made
 * and read.  Words are numbers of 64 bits, little-endian in memory.  Threads: [any]. */
#ifndef CACHE_FORMAT_H
#define CACHE_FORMAT_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FORMAT_VERSION 1u
#define FORMAT_NEXT_CLIENT_AT 8u /* offset of the number of the next client */
#define FORMAT_TABLE_AT 4096u    /* of the segment words */
#define FORMAT_BUCKET_BYTES 128u
#define FORMAT_SLOTS 14u
#define FORMAT_HINTS_AT (8 * FORMAT_SLOTS) /* in a bucket */
#define FORMAT_ENTRY_BYTES 16u             /* of a segment's directory */
#define FORMAT_HEAD_BYTES 64u
#define FORMAT_KEY_MAX 255u
#define FORMAT_PARTS_MAX 65535u
#define FORMAT_VALUE_MAX (UINT64_C(64) << 20)
/* a header and the longest key */
#define FORMAT_HEAD_MAX 320u
#define FORMAT_CLIENTS (1u << 20)

static inline uint64_t word_read(const void *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return le64toh(word);
}

/* h() of the page: seed 0 for the key, or its part 0. */
uint64_t format_hash(const void *key, size_t bytes, uint64_t seed);

/* ---- the super word, and what follows from it ---- */

struct geometry {
	bool immutable;
	unsigned segment_bits, bucket_bits,
		table_bits; /* log2 of bytes, buckets, most segments */
	unsigned unit_bits; /* log2 of bytes: 6 to 13 */
	uint32_t random;    /* 20 bits */
	/* from the lease: */
	uint32_t seed; /* of every CRC */
	uint64_t buckets_at, heap_at;
	unsigned segments; /* that the lease has now */
};

/* Choose a geometry for a new lease.
 *   segment_bytes  0: by the length
 *   -EINVAL  with text: no power of two, or the lease is too short */
int geometry_choose(uint64_t lease_bytes, uint64_t segment_bytes, bool immutable,
		    uint32_t random, struct geometry *ret_geometry);
uint64_t geometry_encode(const struct geometry *geometry);
/* -EPROTO with text: the word is no super word of this version, or the lease is too short */
int geometry_decode(uint64_t word, uint64_t lease_id, uint64_t lease_bytes,
		    struct geometry *ret_geometry);

static inline uint64_t geometry_segment_bytes(const struct geometry *geometry)
{
	return UINT64_C(1) << geometry->segment_bits;
}
/* The longest value, or part of one, that is one block. */
static inline uint64_t geometry_part_bytes(const struct geometry *geometry)
{
	return UINT64_C(1) << (geometry->segment_bits - 3);
}
static inline uint64_t geometry_segment_at(const struct geometry *geometry,
					   unsigned segment)
{
	return geometry->heap_at + ((uint64_t)segment << geometry->segment_bits);
}
static inline uint64_t geometry_place_at(const struct geometry *geometry,
					 uint32_t place)
{
	return geometry->heap_at + ((uint64_t)place << geometry->unit_bits);
}
static inline unsigned geometry_place_segment(const struct geometry *geometry,
					      uint32_t place)
{
	return place >> (geometry->segment_bits - geometry->unit_bits);
}
static inline uint64_t geometry_word_at(unsigned segment)
{
	return FORMAT_TABLE_AT + UINT64_C(8) * segment;
}
static inline uint64_t geometry_bucket_at(const struct geometry *geometry,
					  uint64_t hash)
{
	return geometry->buckets_at +
	       FORMAT_BUCKET_BYTES *
		       (hash & ((UINT64_C(1) << geometry->bucket_bits) - 1));
}

/* ---- segment words ---- */

enum segment_state {
	SEGMENT_FREE = 0,
	SEGMENT_OPEN = 1,
	SEGMENT_PART = 2,
	SEGMENT_FULL = 3,
	SEGMENT_EVICT = 4,
	SEGMENT_RETIRED = 5,
};
enum segment_class { SEGMENT_NEW = 0, SEGMENT_MAIN = 1 };
#define SEGMENT_CLASSES 2

#define SEGMENT_GENERATIONS (UINT32_C(1) << 24)

/* 24 | 3 | 1 | 16 | 20 bits from the highest on; FULL: 24 | 3 | 1 | 36. */
struct segment {
	uint32_t generation;
	enum segment_state state;
	enum segment_class class;
	uint16_t time;  /* OPEN, EVICT: seconds; PART: directory entries / 16 */
	uint32_t x;     /* OPEN, EVICT: client; PART: fill in units */
	uint64_t stamp; /* FULL: 1/256 s, modulo 2^36, in place of the two */
};

uint64_t segment_encode(const struct segment *segment);
struct segment segment_decode(uint64_t word);
/* Seconds since the time of an OPEN or EVICT word; clocks may put it a little into the future. */
unsigned segment_age(const struct segment *segment, uint64_t now_ms);
#define STAMPS (UINT64_C(1) << 36)
#define STAMP_OF_MS(ms) ((ms) * 256 / 1000 & (STAMPS - 1))
/* The time since that of a FULL word, in its unit; negative: it rests until then. */
int64_t segment_full_age(const struct segment *segment, uint64_t now_ms);

/* ---- slots ---- */

#define SLOT_GENERATIONS 8192u
#define SLOT_TENTATIVE 31u

static inline unsigned slot_print(uint64_t slot)
{
	return (unsigned)(slot >> 50);
}
static inline unsigned slot_code(uint64_t slot)
{
	return (unsigned)(slot >> 45) & 31;
}
static inline unsigned slot_generation(uint64_t slot)
{
	return (unsigned)(slot >> 32) & (SLOT_GENERATIONS - 1);
}
static inline uint32_t slot_place(uint64_t slot)
{
	return (uint32_t)slot;
}
static inline bool slot_is_final(uint64_t slot)
{
	return slot != 0 && slot_code(slot) != SLOT_TENTATIVE;
}
/* The slot while its writer looks for others. */
static inline uint64_t slot_tentative(uint64_t slot)
{
	return slot | (UINT64_C(31) << 45);
}
/* The fingerprint of a key. */
static inline unsigned print_of_hash(uint64_t hash)
{
	return hash >> 50 ? (unsigned)(hash >> 50) : 1;
}
uint64_t slot_encode(uint64_t hash, uint64_t value_bytes, uint32_t generation,
		     uint32_t place);
/* The most bytes of a value with this slot. */
uint64_t slot_bytes_max(uint64_t slot);
/* How many generations of the segment are between the slot and this one, by the low bits. */
static inline unsigned slot_behind(uint64_t slot, uint32_t generation)
{
	return (generation - slot_generation(slot)) & (SLOT_GENERATIONS - 1);
}

/* The hint byte for a slot: tag and count. */
uint8_t hint_encode(uint64_t slot, unsigned count);
/* 0: the hint is of another slot word. */
unsigned hint_count(uint64_t slot, uint8_t hint);
#define HINT_MAX 3u

/* ---- blocks ---- */

struct block {
	uint32_t generation; /* 24 bits */
	uint32_t segment;
	uint32_t place;
	uint32_t value_crc;   /* of this part */
	uint64_t value_bytes; /* of the whole value */
	uint64_t expiry_ms;   /* cache time; 0: never */
	uint64_t value_id;    /* client number 20 | counter 44 */
	uint16_t part, parts; /* 0 of 1 */
	uint8_t key_bytes;
	const unsigned char *key;
};

/* Where the value begins in the block. */
static inline uint64_t block_value_at(unsigned key_bytes)
{
	return (FORMAT_HEAD_BYTES + key_bytes + 63u) & ~UINT64_C(63);
}
uint64_t block_bytes(const struct geometry *geometry, unsigned key_bytes,
		     uint64_t value_bytes);
/* The bytes of the block's part of the value. */
uint64_t block_part_bytes(const struct geometry *geometry, const struct block *block);
/* Write header, key and zeros up to the value: block_value_at() bytes. */
void block_encode(const struct geometry *geometry, const struct block *block,
		  void *head);
/* Whether these bytes are the header, and the key, of a block that the slot names.  `key` of the
 * result points into `head`. */
bool block_decode(const struct geometry *geometry, const void *head, size_t bytes,
		  uint64_t slot, struct block *ret_block);
uint32_t block_value_crc(const struct geometry *geometry, const void *value,
			 size_t bytes);

/* ---- directories ---- */

static inline uint64_t entry_at(const struct geometry *geometry, unsigned segment,
				unsigned index)
{
	return geometry_segment_at(geometry, segment + 1) -
	       FORMAT_ENTRY_BYTES * ((uint64_t)index + 1);
}
void entry_encode(const struct geometry *geometry, unsigned segment,
		  uint32_t generation, unsigned index, uint64_t slot, uint32_t bucket,
		  void *entry);
bool entry_decode(const struct geometry *geometry, unsigned segment,
		  uint32_t generation, unsigned index, const void *entry,
		  uint64_t *ret_slot, uint32_t *ret_bucket);

#endif
