/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/append.h"

#include <errno.h>
#include <stdlib.h>

#include "cache/put.h"
#include "cache/request.h"

#define APPEND_BYTES (UINT64_C(4) << 20)

/* Blocks that lie one behind the other, and their entries of the directory. */
struct append {
	struct task task;
	struct list link; /* of the server's */
	struct server *server;
	struct claim *claim;
	union piece *piece; /* has the entries */
	uint64_t at, bytes;
	unsigned entry; /* the first one */
	unsigned n, n_vec;
	struct request *puts[APPEND_PUTS];
	struct rmem_vec vec[3 * APPEND_PUTS];
};

static void append_free(struct append *append)
{
	append->server->n_appends--;
	list_remove(&append->link);
	piece_give(append->server, append->piece);
	free(append);
}

static void append_written(struct task *task)
{
	struct append *append = container_of(task, struct append, task);
	int err = task->err;

	/* nobody appends behind what may be written in part */
	if (err)
		append->claim->failed = true;
	for (unsigned i = 0; i < append->n; i++)
		task_end(&append->puts[i]->task, err);
	append_free(append);
}

static struct append *append_create(struct server *server, struct claim *claim)
{
	struct append *append;

	if (server->n_appends == SCRATCH_APPENDS)
		return NULL;
	append = calloc(1, sizeof(*append));
	if (!append)
		return NULL;
	server->n_appends++;
	list_append(&server->all_appends, &append->link);
	append->server = server;
	append->claim = claim;
	append->piece = piece_take(server);
	return append;
}

/* Write them; the entries of the directory go down. */
static void append_submit(struct append *append)
{
	struct server *server = append->server;
	unsigned char *entries = append->piece->entries;
	unsigned last = append->entry + append->n - 1;

	for (unsigned i = 0; i < append->n; i++) {
		struct request *r = append->puts[i];

		entry_encode(
			&server->geometry, append->claim->segment,
			append->claim->state.generation, append->entry + i, r->slot,
			(uint32_t)((r->bucket_at - server->geometry.buckets_at) /
				   FORMAT_BUCKET_BYTES),
			entries + FORMAT_ENTRY_BYTES * (size_t)(append->n - 1 - i));
	}
	task_then(&append->task, append_written);
	io_writev(&server->io, &append->task, append->at, append->vec, append->n_vec);
	io_write(&server->io, &append->task,
		 entry_at(&server->geometry, append->claim->segment, last), entries,
		 FORMAT_ENTRY_BYTES * (uint64_t)append->n);
}

static void append_piece(struct append *append, void *addr, uint64_t bytes,
			 rmem_buffer *buffer)
{
	if (bytes)
		append->vec[append->n_vec++] = (struct rmem_vec){ addr, bytes, buffer };
}

static uint64_t put_bytes(const struct request *r)
{
	return block_bytes(&r->server->geometry, r->key_bytes, r->bytes);
}

/* Add the block of a put that has its place. */
static void append_add(struct append *append, struct request *r)
{
	struct server *server = r->server;
	const struct geometry *geometry = &server->geometry;
	uint64_t value_at = block_value_at(r->key_bytes), bytes = put_bytes(r);
	struct block block = {
		.generation = r->claim->state.generation,
		.segment = r->claim->segment,
		.place = r->place,
		.value_crc = block_value_crc(geometry, r->value, r->bytes),
		.value_bytes = r->whole_bytes,
		.expiry_ms = r->expiry_ms,
		.value_id = r->value_id,
		.part = r->part,
		.parts = r->parts,
		.key_bytes = r->key_bytes,
		.key = r->key,
	};

	block_encode(geometry, &block, r->piece->head);
	r->slot = slot_encode(r->hash, r->bytes, block.generation, r->place);
	if (append->n == 0) {
		append->at = geometry_place_at(geometry, r->place);
		append->entry = r->entry;
	}
	append_piece(append, r->piece->head, value_at, server->io.buffer);
	append_piece(append, r->value, r->bytes, NULL);
	append_piece(append, server->scratch->zeros, bytes - value_at - r->bytes,
		     server->io.buffer);
	append->puts[append->n++] = r;
	append->bytes += bytes;
	request_read_bucket(r, put_written);
	r->task.pending++; /* ends with the batch */
}

/* The claim that a put of the class writes to, if it may now. */
static struct claim *append_claim(struct server *server, enum segment_class class)
{
	struct claim *claim = server->claims[class];

	if (!claim) {
		room_want(server, class);
		return NULL;
	}
	claim_renew(claim);
	return claim_is_fresh(claim) ? claim : NULL;
}

/* Puts of the class that wait while there is no room. */
static void append_refuse(struct server *server, enum segment_class class)
{
	server->room.failed[class] = false;
	list_for_each_entry_safe(struct request, r, &server->placing, link)
		if (r->class == class) {
			list_remove(&r->link);
			put_refused(r);
		}
}

/* What is left of a segment has no room for the block: another one is claimed, but not for ever, as
 * others may leave such rests faster than they are found. */
static void append_rest(struct server *server, struct claim *claim,
			enum segment_class class)
{
	claim_leave(claim, false);
	if (++server->room.rests <= 2 * server->table.n)
		return;
	server->room.rests = 0;
	server->room.failed[class] = true;
}

/* Put as many as come into one batch.  False: there is nothing that can be written now. */
static bool append_batch(struct server *server, enum segment_class class)
{
	struct append *append = NULL;
	struct claim *claim = NULL;

	list_for_each_entry_safe(struct request, r, &server->placing, link) {
		if (r->class != class)
			continue;
		if (!claim)
			claim = append_claim(server, class);
		if (claim && !append)
			append = append_create(server, claim);
		if (!append || append->n == APPEND_PUTS ||
		    append->bytes >= APPEND_BYTES)
			break;
		if (!claim_place(claim, put_bytes(r), &r->place, &r->entry)) {
			append_rest(server, claim, class);
			break;
		}
		server->room.rests = 0;
		r->claim = claim;
		list_remove(&r->link);
		append_add(append, r);
	}
	if (!append)
		return false;
	if (append->n) {
		append_submit(append);
		return true;
	}
	append_free(append);
	return !server->claims[class];
}

void append_run(struct server *server)
{
	for (unsigned class = 0; class < SEGMENT_CLASSES; class ++) {
		if (server->room.failed[class])
			append_refuse(server, (enum segment_class) class);
		while (!list_empty(&server->placing) &&
		       append_batch(server, (enum segment_class) class))
			;
	}
}

void appends_forget(struct server *server)
{
	list_for_each_entry_safe(struct append, append, &server->all_appends, link)
		append_free(append);
}
