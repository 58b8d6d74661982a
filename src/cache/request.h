/* SPDX-License-Identifier: BSD-3-Clause */
/* What a program asked for of one key, or a part of that.  Threads: [owner] of the cache. */
#ifndef CACHE_REQUEST_H
#define CACHE_REQUEST_H

#include <rmem/cache.h>

#include "cache/server.h"

struct parts;

struct request {
	struct task task;
	struct list link;      /* of the server's lists */
	struct list all;       /* of the cache's requests */
	struct server *server; /* NULL: there is none for it */
	union piece *piece;    /* NULL: it waits for one, or has parts that have them */
	enum rmem_cache_opcode opcode;
	uint8_t key_bytes;
	unsigned char key[FORMAT_KEY_MAX];
	uint64_t hash;
	uint64_t bucket_at;
	void *value;    /* the program's */
	uint64_t bytes; /* of it */
	uint64_t expiry_ms;
	uint64_t cookie;
	unsigned attempt, rounds;
	unsigned delay;  /* reads before the next attempt */
	uint64_t slot;   /* get: that was found; put: its own */
	unsigned index;  /* of a slot in the bucket */
	uint64_t known;  /* the slot that was known, or 0 */
	unsigned behind; /* generations that a stale slot is behind */
	struct rmem_vec vec[2];
	/* put */
	enum segment_class class;
	struct claim *claim; /* has its place, until it ends */
	uint32_t place;
	unsigned entry;
	/* a value in parts: */
	struct request *parent; /* NULL: it is the program's */
	void (*part_done)(struct request *part);
	uint16_t part, parts;
	uint64_t whole_bytes;
	uint64_t value_id;
	struct parts *parts_state; /* of the request that has them */
	unsigned n_left;           /* parts that have not ended */
	/* the result */
	enum rmem_cache_outcome outcome;
	int status;
	uint64_t result_bytes;
	char text[160];
};

/* The request has ended.  It gives back its piece and its place, and goes to the server's finished
 * ones, or to the request that it is a part of.
 *   status  0, or -errno, for which `fmt` is the reason */
void request_end(struct request *request, enum rmem_cache_outcome outcome, int status,
		 const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Give back its piece: it goes on without one. */
void request_release(struct request *request);
/* As request_end(), for an operation that failed: `what` it was. */
void request_failed(struct request *request, int err, const char *what);

static inline uint64_t request_slot_at(const struct request *request, unsigned index)
{
	return request->bucket_at + 8 * (uint64_t)index;
}
/* Read the bucket, then go on. */
static inline void request_read_bucket(struct request *request,
				       void (*then)(struct task *task))
{
	task_then(&request->task, then);
	io_read(&request->server->io, &request->task, request->bucket_at,
		request->piece->bucket, FORMAT_BUCKET_BYTES);
}

#endif
