/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory of a client for one server: what operations read into and write from, beside
 * the values of the program.  Threads: [owner] of the cache. */
#ifndef CACHE_SCRATCH_H
#define CACHE_SCRATCH_H

#include "cache/format.h"

#define SCRATCH_REQUESTS 256u /* requests at a time; others wait */
#define SCRATCH_APPENDS 64u   /* batches of blocks that are written at a time */
#define SCRATCH_CLAIMS 32u    /* open segments, those that are given up included */
#define SCRATCH_PIECES (SCRATCH_REQUESTS + SCRATCH_APPENDS + SCRATCH_CLAIMS)
#define APPEND_PUTS 64u    /* blocks of a batch */
#define EVICT_ENTRIES 256u /* of a directory that are read at once */
#define EVICT_BUCKETS 32u

/* Of one request, one batch of blocks, or one open segment. */
union __attribute__((aligned(128))) piece {
	struct {
		unsigned char bucket[FORMAT_BUCKET_BYTES];
		unsigned char head[FORMAT_HEAD_MAX];
		uint64_t word;
	};
	unsigned char entries[APPEND_PUTS * FORMAT_ENTRY_BYTES];
	union piece *next; /* while it is free */
};

struct scratch {
	union piece pieces[SCRATCH_PIECES];
	/* of the eviction */
	struct __attribute__((aligned(128))) {
		unsigned char buckets[EVICT_BUCKETS][FORMAT_BUCKET_BYTES];
		unsigned char entries[EVICT_ENTRIES * FORMAT_ENTRY_BYTES];
		/* of the blocks that are moved */
		unsigned char heads[EVICT_BUCKETS][FORMAT_HEAD_MAX];
		unsigned char moved[EVICT_BUCKETS][FORMAT_ENTRY_BYTES];
		uint64_t word;
	} evict;
	uint64_t room_word;
	unsigned char zeros[8192]; /* the largest unit */
	uint8_t bytes[256];        /* each its own number, for hints */
	unsigned char spare[64];   /* what nothing reads */
	/* 8 bytes a segment; twice: for copies, and to find room */
	unsigned char table[];
};

static inline size_t scratch_bytes(const struct geometry *geometry)
{
	return sizeof(struct scratch) + ((size_t)16 << geometry->table_bits);
}
/* Make the pieces a list, and return its first one. */
union piece *scratch_init(struct scratch *scratch);

#endif
