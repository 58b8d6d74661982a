/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/claim.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "cache/server.h"
#include "cache/swap.h"

struct segment claim_segment(const struct server *server, enum segment_state state,
			     enum segment_class class, uint32_t generation)
{
	return (struct segment){
		.generation = generation,
		.state = state,
		.class = class,
		.time = (uint16_t)(server_now_ms(server) / 1000),
		.x = server->client,
	};
}

bool claims_have_room(const struct server *server)
{
	return server->n_claims < SCRATCH_CLAIMS;
}

int claim_open(struct server *server, unsigned segment, uint64_t word,
	       uint64_t since_ms, uint64_t fill, unsigned entries)
{
	struct claim *claim;

	assert(claims_have_room(server));
	claim = calloc(1, sizeof(*claim));
	if (!claim)
		return -ENOMEM;
	server->n_claims++;
	list_append(&server->all_claims, &claim->link);
	claim->piece = piece_take(server);
	claim->server = server;
	claim->segment = segment;
	claim->word = word;
	claim->state = segment_decode(word);
	claim->since_ms = since_ms;
	claim->fill = fill;
	claim->entries = entries;
	server->claims[claim->state.class] = claim;
	server->counters.claims++;
	return 0;
}

static uint64_t claim_age_ms(const struct claim *claim)
{
	return clock_now_ms() - claim->since_ms;
}

bool claim_is_fresh(const struct claim *claim)
{
	return !claim->lost && claim_age_ms(claim) < claim->server->claim_ms / 2;
}

/* Nothing refers to it any more. */
static void claim_end(struct claim *claim)
{
	if (claim->server->claims[claim->state.class] == claim)
		claim->server->claims[claim->state.class] = NULL;
	claim->server->n_claims--;
	list_remove(&claim->link);
	piece_give(claim->server, claim->piece);
	free(claim);
}

static void claim_left(struct task *task)
{
	claim_end(container_of(task, struct claim, task));
}

/* The word of a segment that is given up. */
static struct segment claim_last(const struct claim *claim)
{
	const struct geometry *geometry = &claim->server->geometry;
	unsigned entries = (claim->entries + 15) / 16;
	struct segment last = claim->state;

	if (claim->part && !claim->failed &&
	    claim->fill < geometry_segment_bytes(geometry) && entries <= UINT16_MAX) {
		last.state = SEGMENT_PART;
		last.time = (uint16_t)entries;
		last.x = (uint32_t)(claim->fill >> geometry->unit_bits);
	} else {
		last.state = SEGMENT_FULL;
		last.stamp = STAMP_OF_MS(server_now_ms(claim->server));
	}
	return last;
}

/* Give it up when its blocks are published. */
static void claim_settle(struct claim *claim)
{
	struct server *server = claim->server;
	struct segment last;

	if (!claim->leaving || claim->refs || claim->busy)
		return;
	if (claim->lost) {
		claim_end(claim);
		return;
	}
	claim->busy = true;
	last = claim_last(claim);
	swap_start(&server->io, &claim->task, geometry_word_at(claim->segment),
		   claim->word, segment_encode(&last), &claim->piece->word, claim_left);
}

static void claim_renewed(struct task *task)
{
	struct claim *claim = container_of(task, struct claim, task);

	claim->busy = false;
	if (task->result == SWAP_DONE) {
		claim->word = claim->next_word;
		claim->since_ms = claim->next_ms;
		claim_settle(claim);
	} else {
		claim_drop(claim);
	}
}

void claim_renew(struct claim *claim)
{
	struct server *server = claim->server;
	struct segment next;

	if (claim->busy || claim->lost || claim_age_ms(claim) < server->claim_ms / 4)
		return;
	claim->busy = true;
	next = claim_segment(server, SEGMENT_OPEN, claim->state.class,
			     claim->state.generation);
	claim->next_word = segment_encode(&next);
	claim->next_ms = clock_now_ms();
	swap_start(&server->io, &claim->task, geometry_word_at(claim->segment),
		   claim->word, claim->next_word, &claim->piece->word, claim_renewed);
}

bool claim_place(struct claim *claim, uint64_t bytes, uint32_t *ret_place,
		 unsigned *ret_entry)
{
	const struct geometry *geometry = &claim->server->geometry;
	uint64_t directory = FORMAT_ENTRY_BYTES * ((uint64_t)claim->entries + 1);
	uint64_t whole = geometry_segment_bytes(geometry);

	if (claim->leaving || claim->fill + bytes + directory > whole)
		return false;
	*ret_place = (uint32_t)((((uint64_t)claim->segment << geometry->segment_bits) +
				 claim->fill) >>
				geometry->unit_bits);
	*ret_entry = claim->entries;
	claim->fill += bytes;
	claim->entries++;
	claim->refs++;
	return true;
}

void claim_unref(struct claim *claim)
{
	claim->refs--;
	claim_settle(claim);
}

void claim_leave(struct claim *claim, bool part)
{
	struct server *server = claim->server;

	if (!claim->leaving)
		claim->part = part;
	claim->leaving = true;
	if (server->claims[claim->state.class] == claim)
		server->claims[claim->state.class] = NULL;
	claim_settle(claim);
}

void claim_drop(struct claim *claim)
{
	claim->lost = true;
	claim_leave(claim, false);
}

void claims_forget(struct server *server)
{
	list_for_each_entry_safe(struct claim, claim, &server->all_claims, link)
		claim_end(claim);
}
