/* SPDX-License-Identifier: BSD-3-Clause */
/* Why a move does not stall its caller.  A move begins when half of the active area A is used, or
 * later if that is obsolete.  Each commit of n bytes pays for 4 n bytes of the move.  To allocate
 * the new area, of up to 2 A, costs an eighth of its bytes; the records to copy are A / 2, and those
 * that come meanwhile.  So the move ends within A / 4 of new records.  When only A / 8 is left, as
 * in small areas or without room for a larger one, the move is completed at once. */
#include "rmemd/state/ledger_move.h"

#include <stdbool.h>
#include <string.h>

/* With more bytes of obsolete records the ledger moves. */
#define STALE_BYTES_MAX UINT64_C(32768)
/* Bytes that a commit moves besides those that it pays for. */
#define MOVE_BYTES_MIN UINT64_C(4096)
/* Bytes that one step of a move allocates or frees, and their share of what a commit may move: both
 * take about an eighth of the time of copying. */
#define PIECE_BYTES UINT64_C(65536)
#define PIECE_COST(bytes) ((bytes) / 8)

static bool is_stale(const struct ledger *ledger)
{
	return ledger->tail > 2 * ledger->fresh + STALE_BYTES_MAX;
}

/* An area in which the present records take a quarter at most. */
static uint64_t move_bytes(const struct ledger *ledger)
{
	uint64_t bytes = round_up(AREA_FIRST_BYTES, ledger->unit);

	while (bytes < 4 * ledger->fresh)
		bytes *= 2;
	return bytes;
}

/* The least area that is enough until the next move. */
static uint64_t move_bytes_min(const struct ledger *ledger)
{
	return round_up(2 * ledger->fresh + STALE_BYTES_MAX + LEDGER_VALUE_MAX +
				removals_bytes(ledger),
			ledger->unit);
}

static bool move_due(const struct ledger *ledger)
{
	uint64_t bytes = ledger_area(ledger)->bytes;

	if (ledger->tail < ledger->move.not_before)
		return false;
	return is_stale(ledger) || (ledger->tail + removals_bytes(ledger) > bytes / 2 &&
				    move_bytes(ledger) > bytes);
}

static void move_begin(struct ledger *ledger, uint64_t bytes)
{
	ledger->move = (struct move){ .phase = MOVE_ALLOCATE,
				      .offset = area_offset(ledger, bytes),
				      .bytes = bytes,
				      .began = ledger->tail };
}

/* Without room the ledger stays where it is. */
static void move_abandon(struct ledger *ledger)
{
	file_trim(ledger);
	ledger->move = (struct move){ .phase = MOVE_NONE,
				      .not_before = ledger->tail + STALE_BYTES_MAX };
}

/* Try the least area, if that is not what was refused. */
static void move_refused(struct ledger *ledger)
{
	uint64_t least = move_bytes_min(ledger);

	if (!is_stale(ledger) || ledger->move.bytes <= least) {
		move_abandon(ledger);
		return;
	}
	file_trim(ledger);
	move_begin(ledger, least);
}

static uint64_t piece_bytes(const struct ledger *ledger)
{
	uint64_t piece = round_up(PIECE_BYTES, ledger->unit);
	uint64_t left = ledger->move.bytes - ledger->move.done;

	return piece < left ? piece : left;
}

/* The steps of a move return what they cost, as bytes copied. */
static uint64_t allocate_step(struct ledger *ledger)
{
	struct move *move = &ledger->move;
	uint64_t piece = piece_bytes(ledger);

	if (file_allocate(ledger, move->offset + move->done, piece)) {
		move_refused(ledger);
		return PIECE_COST(piece);
	}
	move->done += piece;
	if (move->done < move->bytes)
		return PIECE_COST(piece);
	if (file_map(ledger, move->offset + move->bytes))
		move_abandon(ledger);
	else
		move->phase = MOVE_COPY;
	return PIECE_COST(piece);
}

/* All records are copied, and none is staged. */
static void move_switch(struct ledger *ledger)
{
	struct move *move = &ledger->move;
	struct move trim = { .phase = MOVE_TRIM,
			     .offset = ledger_area(ledger)->offset,
			     .bytes = ledger_area(ledger)->bytes };

	slot_activate(ledger, move->offset, move->bytes, move->end);
	ledger->tail = move->end;
	*move = trim;
}

/* Of a key, the latest record counts.  A removal is copied only if it came after the move began,
 * when the removed record may have been copied already. */
static bool record_counts(const struct ledger *ledger, const struct record *record,
			  const struct entry *entry)
{
	if (record->removed)
		return !entry && ledger->move.from >= ledger->move.began;
	return entry && entry_at(ledger, entry) == ledger->move.from;
}

static uint64_t copy_step(struct ledger *ledger)
{
	const struct record *record = record_at(ledger, ledger->move.from);
	struct ledger_key key = { record->kind, record->a, record->b };
	struct entry *entry = entry_find(ledger, &key);
	uint64_t size = record_bytes(record);
	struct move *move = &ledger->move;

	if (record_counts(ledger, record, entry)) {
		if (move->end + size + removals_bytes(ledger) > move->bytes) {
			move_abandon(ledger);
			return size;
		}
		memcpy(ledger->map + move->offset + move->end, record, size);
		if (entry)
			entry->at[1 - ledger_slot(ledger)] = move->end;
		move->end += size;
	}
	move->from += size;
	if (move->from == ledger->tail)
		move_switch(ledger);
	return size;
}

static uint64_t trim_step(struct ledger *ledger)
{
	struct move *move = &ledger->move;
	uint64_t piece = piece_bytes(ledger);

	file_punch(ledger, move->offset + move->done, piece);
	move->done += piece;
	if (move->done == move->bytes) {
		file_trim(ledger);
		move->phase = MOVE_NONE;
	}
	return PIECE_COST(piece);
}

/* Begin a move that is due, and do steps for `budget` bytes; nothing is staged. */
static void move_run(struct ledger *ledger, uint64_t budget)
{
	static uint64_t (*const steps[])(struct ledger *) = {
		[MOVE_ALLOCATE] = allocate_step,
		[MOVE_COPY] = copy_step,
		[MOVE_TRIM] = trim_step,
	};

	for (uint64_t spent = 0; spent < budget;) {
		if (ledger->move.phase == MOVE_NONE) {
			if (!move_due(ledger))
				return;
			move_begin(ledger, move_bytes(ledger));
		}
		spent += steps[ledger->move.phase](ledger);
	}
}

void ledger_move_on(struct ledger *ledger, uint64_t bytes)
{
	uint64_t size = ledger_area(ledger)->bytes;
	uint64_t used = ledger->tail + removals_bytes(ledger);

	move_run(ledger,
		 used > size - size / 8 ? UINT64_MAX : MOVE_BYTES_MIN + 4 * bytes);
}

/* All records move, as a staged record may stand for a committed one. */
int ledger_grow(struct ledger *ledger, uint64_t needed)
{
	uint64_t bytes = ledger_area(ledger)->bytes, offset;
	int err;

	while (bytes < needed)
		bytes *= 2;
	offset = area_offset(ledger, bytes);
	err = file_extend(ledger, offset, bytes);
	if (err)
		return err;
	memcpy(ledger->map + offset, record_at(ledger, 0), ledger->tail);
	for (struct map_node *node = NULL; (node = map_next(&ledger->entries, node));) {
		struct entry *entry = container_of(node, struct entry, node);

		entry->at[1 - ledger_slot(ledger)] = entry_at(ledger, entry);
	}
	slot_activate(ledger, offset, bytes, ledger_committed(ledger));
	/* the new area may be where another move was to go, or what it left */
	ledger->move = (struct move){ .phase = MOVE_NONE };
	file_trim(ledger);
	return 0;
}
