/* SPDX-License-Identifier: BSD-3-Clause */
/* A key that is there is replaced by one swap.  A new key first takes a slot tentatively: of two
 * writers of a new key, the one that is second to take a slot sees the first, so there are never
 * two final slots.  A tentative slot of another writer is cleared at sight, so nobody waits for a
 * writer that is gone. */
#include "cache/put.h"

#include <errno.h>

#include "cache/bucket.h"
#include "cache/request.h"
#include "cache/swap.h"

#define ATTEMPTS_MAX 5
#define ROUNDS_MAX 4

static struct request *request_of(struct task *task)
{
	return container_of(task, struct request, task);
}

static void put_attempt(struct task *task);
static void put_look(struct task *task);

static void put_stored(struct request *r)
{
	struct server *server = r->server;
	uint64_t part = geometry_part_bytes(&server->geometry);

	known_set(&server->known, r->hash, r->slot,
		  r->part + 1u < r->parts ? part : r->whole_bytes - r->part * part,
		  false);
	request_end(r, RMEM_CACHE_STORED, 0, NULL);
}

/* The bucket is read again before the next attempt; after a collision of two writers several times,
 * by chance, so that they do not meet again. */
static void put_again(struct request *r)
{
	r->server->counters.contended++;
	request_read_bucket(r, put_attempt);
}

static void put_unknown(struct request *r)
{
	request_failed(r, r->task.swap_err ? r->task.swap_err : -ECONNRESET,
		       "whether it was stored is unknown");
}

/* The swap that publishes. */
static void put_published(struct task *task)
{
	struct request *r = request_of(task);

	if (task->result == SWAP_DONE)
		put_stored(r);
	else if (task->result == SWAP_UNKNOWN)
		put_unknown(r);
	else if (task->swap_err)
		request_failed(r, task->swap_err, "not stored");
	else
		put_again(r);
}

static void put_swap(struct request *r, unsigned index, uint64_t expected,
		     uint64_t desired, void (*swapped)(struct task *task))
{
	swap_start(&r->server->io, &r->task, request_slot_at(r, index), expected,
		   desired, &r->piece->word, swapped);
}

/* ---- a new key ---- */

static void put_withdrawn(struct task *task)
{
	put_again(request_of(task));
}

/* Give up the tentative slot. */
static void put_withdraw(struct request *r)
{
	put_swap(r, r->index, slot_tentative(r->slot), 0, put_withdrawn);
}

static void put_killed(struct task *task)
{
	struct request *r = request_of(task);

	if (++r->rounds < ROUNDS_MAX)
		request_read_bucket(r, put_look);
	else
		put_withdraw(r);
}

/* Another writer may have cleared the tentative slot; then the next attempt is later by chance. */
static void put_confirmed(struct task *task)
{
	struct request *r = request_of(task);

	if (task->result == SWAP_LOST && !task->swap_err)
		r->delay =
			(unsigned)(random_next(&r->server->random) % (r->attempt + 1));
	put_published(task);
}

/* The tentative slot is there, and the bucket was read since. */
static void put_look(struct task *task)
{
	struct request *r = request_of(task);
	const unsigned char *bucket = r->piece->bucket;
	unsigned print = print_of_hash(r->hash);
	int other;

	if (task->err) {
		request_failed(r, task->err, "reading the bucket");
		return;
	}
	if (bucket_slot(bucket, r->index) != slot_tentative(r->slot)) {
		put_attempt(task);
		return;
	}
	if (bucket_final(bucket, print) >= 0) {
		put_withdraw(r);
		return;
	}
	other = bucket_tentative(bucket, print, r->index);
	if (other >= 0)
		put_swap(r, (unsigned)other, bucket_slot(bucket, (unsigned)other), 0,
			 put_killed);
	else
		put_swap(r, r->index, slot_tentative(r->slot), r->slot, put_confirmed);
}

static void put_placed(struct task *task)
{
	struct request *r = request_of(task);

	if (task->result == SWAP_DONE) {
		r->rounds = 0;
		request_read_bucket(r, put_look);
	} else if (task->swap_err) {
		request_failed(r, task->swap_err, "not stored");
	} else {
		put_again(r);
	}
}

static void put_insert(struct request *r)
{
	struct server *server = r->server;
	const unsigned char *bucket = r->piece->bucket;
	uint64_t old;

	r->index = bucket_victim(bucket, &server->table, &server->geometry);
	old = bucket_slot(bucket, r->index);
	if (server->geometry.immutable)
		put_swap(r, r->index, old, r->slot, put_published);
	else
		put_swap(r, r->index, old, slot_tentative(r->slot), put_placed);
}

/* ---- */

static void put_attempt(struct task *task)
{
	struct request *r = request_of(task);
	int index;

	if (task->err) {
		request_failed(r, task->err, "reading the bucket");
		return;
	}
	if (r->delay) {
		r->delay--;
		request_read_bucket(r, put_attempt);
		return;
	}
	if (r->attempt++ == ATTEMPTS_MAX) {
		request_end(r, RMEM_CACHE_FAILED, -EAGAIN,
			    "not stored: other clients store the key");
		return;
	}
	index = bucket_final(r->piece->bucket, print_of_hash(r->hash));
	if (index < 0)
		put_insert(r);
	else
		put_swap(r, (unsigned)index,
			 bucket_slot(r->piece->bucket, (unsigned)index), r->slot,
			 put_published);
}

void put_written(struct task *task)
{
	struct request *r = request_of(task);

	if (task->err)
		request_failed(r, task->err, "not stored");
	else if (!claim_is_fresh(r->claim))
		request_end(r, RMEM_CACHE_FAILED, -ETIMEDOUT,
			    "not stored: writing took longer than the claim of the "
			    "segment");
	else
		put_attempt(task);
}

void put_refused(struct request *r)
{
	if (r->server->io.lost)
		request_failed(r, -ESTALE, "not stored");
	else
		request_end(r, RMEM_CACHE_FAILED, -ENOSPC,
			    "not stored: all segments are in use by other clients, or "
			    "were by some that ended without closing");
}
