/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/room.h"

#include <errno.h>

#include "cache/server.h"
#include "cache/swap.h"

#define ROUNDS_MAX 6
#define TRIES_MAX 8

static struct server *server_of(struct task *task)
{
	return container_of(task, struct server, room.task);
}

static void room_look(struct server *server);

static void room_end(struct server *server, bool failed)
{
	struct room *room = &server->room;

	for (unsigned class = 0; class < SEGMENT_CLASSES; class ++) {
		room->failed[class] |= failed && room->want[class];
		room->want[class] = false;
	}
	room->busy = false;
}

/* ---- eviction ---- */

static void room_evicted(struct server *server, int err)
{
	struct room *room = &server->room;

	if (err == -ENOSPC && !room->want[0] && !room->want[1]) {
		room_end(server, false);
		return;
	}
	if (err == -ENOSPC)
		room->spends = true;
	room_look(server);
}

static bool room_is_short(const struct server *server)
{
	return server->table.free < policy_reserve(&server->table);
}

/* The free segments that puts leave, so that evictions have where to move blocks to. */
static unsigned room_keeps(const struct server *server)
{
	const struct room *room = &server->room;

	return room->spends || room->rounds >= ROUNDS_MAX
		       ? 0
		       : policy_reserve(&server->table);
}

static void room_evict(struct server *server)
{
	struct room *room = &server->room;
	bool wants = room->want[0] || room->want[1];
	enum segment_class class = room->want[SEGMENT_NEW] ? SEGMENT_NEW : SEGMENT_MAIN;

	if (room->rounds > ROUNDS_MAX) {
		room_end(server, true);
		return;
	}
	evict_start(server, wants ? (int)class : -1, room_keeps(server), room_evicted);
}

/* ---- claims ---- */

/* Whether a segment may be claimed in this phase: free ones first. */
static bool room_takes(const struct server *server, const struct segment *segment)
{
	const struct room *room = &server->room;
	unsigned keep = room_keeps(server);

	if (room->phase == 0)
		return segment->state == SEGMENT_FREE &&
		       (!keep || server->table.free > keep);
	return segment->state == SEGMENT_PART &&
	       (room->phase == 2 || segment->class == room->class);
}

/* The next segment that may be claimed, or -1. */
static int room_next(struct server *server)
{
	const struct table *table = &server->table;
	struct room *room = &server->room;

	if (room->tries >= TRIES_MAX)
		return -1;
	for (; room->phase < 3; room->phase++, room->at = 0)
		while (room->at < table->n) {
			unsigned i = (room->start + room->at++) % table->n;

			if (room_takes(server, &table->segments[i]))
				return (int)i;
		}
	return -1;
}

static void room_claim(struct server *server);

static void room_claimed(struct task *task)
{
	struct server *server = server_of(task);
	struct room *room = &server->room;
	unsigned i = (room->start + room->at - 1) % server->table.n;

	if (task->result != SWAP_DONE) {
		server->counters.contended++;
		room_claim(server);
		return;
	}
	if (server->table.segments[i].state == SEGMENT_FREE)
		server->table.free--;
	server->table.segments[i] = segment_decode(room->word);
	if (!claim_open(server, i, room->word, room->asked_ms, room->fill,
			room->entries))
		room->want[room->class] = false;
	room_look(server);
}

static void room_claim(struct server *server)
{
	struct room *room = &server->room;
	struct segment old, new;
	int i = room_next(server);

	if (i < 0) {
		room_evict(server);
		return;
	}
	room->tries++;
	old = server->table.segments[i];
	room->fill = old.state == SEGMENT_PART
			     ? (uint64_t)old.x << server->geometry.unit_bits
			     : 0;
	room->entries = old.state == SEGMENT_PART ? old.time * 16u : 0;
	new = claim_segment(server, SEGMENT_OPEN, room->class, old.generation);
	room->word = segment_encode(&new);
	room->asked_ms = clock_now_ms();
	swap_start(&server->io, &room->task, geometry_word_at((unsigned)i),
		   segment_encode(&old), room->word, &server->scratch->room_word,
		   room_claimed);
}

/* The class that a segment is to be claimed for now, or -1. */
static int room_class(struct server *server)
{
	struct room *room = &server->room;

	for (unsigned class = 0; class < SEGMENT_CLASSES; class ++)
		room->want[class] &= !server->claims[class];
	if (room->want[SEGMENT_NEW])
		return SEGMENT_NEW;
	if (room->want[SEGMENT_MAIN])
		return SEGMENT_MAIN;
	return -1;
}

/* ---- claims of clients that are gone ---- */

static bool claim_is_own(const struct server *server, unsigned segment)
{
	for (unsigned class = 0; class < SEGMENT_CLASSES; class ++)
		if (server->claims[class] && server->claims[class]->segment == segment)
			return true;
	return false;
}

static void room_seal(struct server *server);

static void room_sealed(struct task *task)
{
	struct server *server = server_of(task);

	server->counters.seals += task->result == SWAP_DONE;
	room_seal(server);
}

static bool room_seals(const struct server *server, unsigned i)
{
	const struct segment *segment = &server->table.segments[i];

	return segment->state == SEGMENT_OPEN &&
	       segment_age(segment, server_now_ms(server)) >
		       server->claim_ms / 1000 + 1 &&
	       !claim_is_own(server, i);
}

/* Its contents stay.  Nobody appends: its writer may still publish what it has written.  It rests
 * until the session of the writer has ended. */
static void room_seal(struct server *server)
{
	struct room *room = &server->room;
	struct segment *segment;
	uint64_t old;
	int class;

	for (; room->at < server->table.n; room->at++)
		if (room_seals(server, room->at))
			break;
	if (room->at < server->table.n) {
		segment = &server->table.segments[room->at];
		old = segment_encode(segment);
		segment->state = SEGMENT_FULL;
		segment->stamp = STAMP_OF_MS(server_now_ms(server) + server->rest_ms);
		swap_start(&server->io, &room->task, geometry_word_at(room->at++), old,
			   segment_encode(segment), &server->scratch->room_word,
			   room_sealed);
		return;
	}
	room->at = room->phase = room->tries = 0;
	room->start = (unsigned)(random_next(&server->random) % server->table.n);
	/* what is wanted may have changed since the table was asked for */
	class = room_class(server);
	if (class < 0) {
		room_evict(server);
		return;
	}
	room->class = (enum segment_class) class;
	room_claim(server);
}

/* ---- the table ---- */

static void room_table(struct task *task)
{
	struct server *server = server_of(task);
	struct room *room = &server->room;

	if (task->err) {
		room_end(server, true);
		return;
	}
	table_set(&server->table, server->scratch->table, server->geometry.segments,
		  room->asked_ms);
	room->at = 0;
	room_seal(server);
}

static void room_look(struct server *server)
{
	struct room *room = &server->room;

	if (server->io.lost || server->leaving ||
	    (room_class(server) < 0 && room->rounds > 0 && !room_is_short(server))) {
		room_end(server, true);
		return;
	}
	if (!claims_have_room(server)) { /* asked for again when one has ended */
		room_end(server, false);
		return;
	}
	if (room->rounds++ > ROUNDS_MAX) {
		room_end(server, true);
		return;
	}
	room->asked_ms = clock_now_ms();
	task_then(&room->task, room_table);
	io_read(&server->io, &room->task, FORMAT_TABLE_AT, server->scratch->table,
		UINT64_C(8) * server->geometry.segments);
}

void room_want(struct server *server, enum segment_class class)
{
	struct room *room = &server->room;

	if (!room->want[class]) {
		room->rounds = 0;
		room->spends = false;
	}
	room->want[class] = true;
	if (room->busy)
		return;
	room->busy = true;
	room_look(server);
}
