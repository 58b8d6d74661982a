/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/state/ledger.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/err.h"
#include "base/units.h"
#include "rmemd/state/ledger_file.h"
#include "rmemd/state/ledger_value.h"

/* "rmemledg" in the byte order of this machine: a file of the other byte order is no ledger. */
#define MAGIC UINT64_C(0x6764656c6d656d72)
/* A larger file is no ledger. */
#define FILE_BYTES_MAX (UINT64_C(1) << 40)

/* With more bytes of obsolete records the ledger moves. */
#define STALE_BYTES_MAX UINT64_C(32768)
/* Bytes that a commit moves in addition to those that it pays for. */
#define MOVE_BYTES_MIN UINT64_C(4096)
/* Bytes that one step of a move allocates or frees, and their share of what a commit may move: both
 * take about an eighth of the time of copying. */
#define PIECE_BYTES UINT64_C(65536)
#define PIECE_COST(bytes) ((bytes) / 8)

static int set_full_error(const struct ledger *ledger, int err, uint64_t end)
{
	if (err != -ENOSPC)
		return err;
	return err_set(err,
		       "%s%sno room: the ledger of %s needs %s more, and %s are free: "
		       "free some there, or make its file system larger, as by mount "
		       "-o remount,size=",
		       ledger->place ? ledger->place : "", ledger->place ? ": " : "",
		       UNITS_BYTES(ledger->held), UNITS_BYTES(end - ledger->held),
		       UNITS_BYTES(file_room(ledger)));
}

/* ---- moves to another area: a larger one, or one without obsolete records ----
 *
 * Why a move does not stall its caller.  A move begins when half of the active area A is used, or
 * later if that is obsolete.  Each commit of n bytes pays for 4 n bytes of the move.  To allocate
 * the new area, of up to 2 A, and its twin costs an eighth of the bytes that the file gets, 2 A;
 * the records to copy are A / 2, and those that come meanwhile.  So the move ends within A / 4 of
 * new records.  When only A / 8 is left, as in small areas or without room for a larger one, the
 * move is completed at once. */

static bool is_stale(const struct ledger *ledger)
{
	return ledger->tail > 2 * ledger->fresh + STALE_BYTES_MAX;
}

/* An area in which the present records take a quarter at most. */
static uint64_t move_bytes(const struct ledger *ledger)
{
	uint64_t bytes = round_up(AREA_FIRST_BYTES, ledger->unit);

	while (bytes < 4 * ledger->fresh || bytes < ledger->least)
		bytes *= 2;
	return bytes;
}

/* Little is left, and a move to the twin gives some. */
static bool is_tight(const struct ledger *ledger)
{
	uint64_t bytes = ledger_area(ledger)->bytes;

	return ledger->tail + removals_bytes(ledger) > bytes - bytes / 8 &&
	       ledger->tail - ledger->fresh >= bytes / 16;
}

static bool move_due(const struct ledger *ledger)
{
	uint64_t bytes = ledger_area(ledger)->bytes;

	if (is_tight(ledger))
		return true;
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

static void move_abandon(struct ledger *ledger)
{
	file_cut(ledger, ledger_file_bytes(ledger));
	ledger->move = (struct move){ .phase = MOVE_NONE,
				      .not_before = ledger->tail + STALE_BYTES_MAX };
}

/* Without room for a larger area, move to the twin if that gives some. */
static void move_refused(struct ledger *ledger)
{
	uint64_t bytes = ledger_area(ledger)->bytes;
	bool twin =
		ledger->move.bytes > bytes && (is_stale(ledger) || is_tight(ledger));

	move_abandon(ledger);
	if (twin)
		move_begin(ledger, bytes);
}

/* The steps of a move return what they cost, as bytes copied. */
static uint64_t allocate_step(struct ledger *ledger)
{
	struct move *move = &ledger->move;
	uint64_t piece = round_up(PIECE_BYTES, ledger->unit);
	uint64_t end = area_file_bytes(ledger, move->offset, move->bytes);

	if (!file_has_room(ledger, end) || file_allocate(ledger, end, piece) ||
	    (ledger->held >= end && file_map(ledger, end))) {
		move_refused(ledger);
		return PIECE_COST(piece);
	}
	if (ledger->held < end)
		return PIECE_COST(piece);
	move->phase = MOVE_COPY;
	return PIECE_COST(piece);
}

/* All records are copied, and none is staged. */
static void move_switch(struct ledger *ledger)
{
	const struct move *move = &ledger->move;

	slot_activate(ledger, move->offset, move->bytes, move->end);
	ledger->tail = move->end;
	ledger->move = (struct move){ .phase = MOVE_TRIM };
}

/* Of a key, the latest record counts.  A removal is copied only if it came after the move began,
 * when the removed record may have been copied already. */
static bool record_counts(const struct ledger *ledger, const struct record *record,
			  const struct entry *entry)
{
	if (record->removed)
		return (!entry || !entry_has_record(ledger, entry)) &&
		       ledger->move.from >= ledger->move.began;
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
		if (!record->removed)
			entry->at[1 - ledger_slot(ledger)] = move->end;
		move->end += size;
	}
	move->from += size;
	if (move->from == ledger->tail)
		move_switch(ledger);
	return size;
}

/* From its end on, so that no step frees much. */
static uint64_t trim_step(struct ledger *ledger)
{
	uint64_t piece = round_up(PIECE_BYTES, ledger->unit);
	uint64_t end = ledger_file_bytes(ledger), held = ledger->held;

	if (held > end)
		file_cut(ledger, held - end > piece ? held - piece : end);
	if (ledger->held == held || ledger->held == end)
		ledger->move.phase = MOVE_NONE;
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

/* After a commit of `bytes`: begin a move that is due, and do a part of it. */
static void move_on(struct ledger *ledger, uint64_t bytes)
{
	uint64_t size = ledger_area(ledger)->bytes;
	uint64_t used = ledger->tail + removals_bytes(ledger);

	move_run(ledger,
		 used > size - size / 8 ? UINT64_MAX : MOVE_BYTES_MIN + 4 * bytes);
}

/* What the values that count may fill of an area, with room for their removals, in a ledger that
 * cannot grow.  What is lent leaves room for the sessions that use it, and for the replies that it
 * is freed. */
static uint64_t share_bytes(uint32_t kind, uint64_t bytes)
{
	switch (kind) {
	case LEDGER_LEASE:
		return bytes / 2;
	case LEDGER_ATTACHMENT:
		return bytes / 2 + bytes / 16;
	default:
		return bytes / 2 + bytes / 16 + bytes / LEDGER_HELD_SHARE;
	}
}

/* The bytes of the file after a move to an area of `bytes`. */
static uint64_t grown_file_bytes(const struct ledger *ledger, uint64_t bytes)
{
	return area_file_bytes(ledger, area_offset(ledger, bytes), bytes);
}

/* Move to an area of `bytes` at once.  All records move, as a staged record may stand for a
 * committed one. */
static int ledger_grow(struct ledger *ledger, uint64_t bytes)
{
	uint64_t offset = area_offset(ledger, bytes);
	uint64_t end = grown_file_bytes(ledger, bytes);
	int err = file_has_room(ledger, end) ? file_extend(ledger, end) : -ENOSPC;

	if (err)
		return set_full_error(ledger, err, end);
	memcpy(ledger->map + offset, record_at(ledger, 0), ledger->tail);
	for (struct map_node *node = NULL; (node = map_next(&ledger->entries, node));) {
		struct entry *entry = container_of(node, struct entry, node);

		entry->at[1 - ledger_slot(ledger)] = entry_at(ledger, entry);
	}
	slot_activate(ledger, offset, bytes, ledger_committed(ledger));
	/* the new area may be where another move was to go */
	ledger->move = (struct move){ .phase = MOVE_TRIM };
	return 0;
}

/* ---- changes ---- */

/* Room for a record, and for a later removal of every key.  kind: of what is new; 0: it has a
 * record already */
static int make_room(struct ledger *ledger, uint32_t kind, size_t bytes)
{
	uint64_t area = ledger_area(ledger)->bytes;
	uint64_t more =
		round_up(sizeof(struct record) + bytes, 8) + removals_bytes(ledger);

	if (ledger->tail + more <= area &&
	    (ledger->fresh + more <= share_bytes(kind, area) ||
	     file_has_room(ledger, grown_file_bytes(ledger, 2 * area))))
		return 0;
	do
		area *= 2;
	while (ledger->tail + more > area);
	return ledger_grow(ledger, area);
}

int ledger_hold(struct ledger *ledger, uint64_t bytes)
{
	uint64_t area = ledger_area(ledger)->bytes;

	ledger->least = bytes * LEDGER_HELD_SHARE;
	while (area < ledger->least)
		area *= 2;
	return area == ledger_area(ledger)->bytes ? 0 : ledger_grow(ledger, area);
}

static void record_write(struct ledger *ledger, const struct ledger_key *key,
			 const void *value, size_t bytes, bool removed)
{
	struct record *record = record_at(ledger, ledger->tail);

	*record = (struct record){ .bytes = (uint32_t)bytes,
				   .kind = key->kind,
				   .removed = removed,
				   .a = key->a,
				   .b = key->b };
	if (bytes)
		memcpy(record + 1, value, bytes);
	record->crc = record_crc(record);
}

static bool has_value(const struct ledger *ledger, const struct ledger_key *key,
		      const void *value, size_t bytes)
{
	const struct entry *entry = entry_find(ledger, key);
	const struct record *record;

	if (!entry || !entry_has_record(ledger, entry))
		return false;
	record = record_at(ledger, entry_at(ledger, entry));
	return record->bytes == bytes &&
	       (!bytes || memcmp(record + 1, value, bytes) == 0);
}

/* The key's entry, with room for its next record. */
static int entry_reserve(struct ledger *ledger, const struct ledger_key *key,
			 size_t bytes, struct entry **ret_entry)
{
	struct entry *entry = entry_make(ledger, key);
	bool is_new;
	int err;

	if (!entry)
		return err_set(-ENOMEM, "no memory for an entry of the ledger");
	is_new = !entry_has_record(ledger, entry);
	err = make_room(ledger, is_new ? key->kind : 0, bytes);
	if (!err)
		*ret_entry = entry;
	else if (is_new)
		entry_drop(ledger, entry);
	return err;
}

int ledger_reserve(struct ledger *ledger, const struct ledger_key *key, size_t bytes)
{
	struct entry *entry;

	return entry_reserve(ledger, key, bytes, &entry);
}

int ledger_put(struct ledger *ledger, const struct ledger_key *key, const void *value,
	       size_t bytes)
{
	struct entry *entry;
	int err;

	if (bytes > LEDGER_VALUE_MAX)
		return err_set(-EINVAL, "%zu bytes for one entry of the ledger", bytes);
	if (has_value(ledger, key, value, bytes))
		return 0;
	err = entry_reserve(ledger, key, bytes, &entry);
	if (err)
		return err;
	record_write(ledger, key, value, bytes, false);
	entry_move(ledger, entry, ledger->tail);
	ledger->tail += record_bytes(record_at(ledger, ledger->tail));
	return 0;
}

void ledger_remove(struct ledger *ledger, const struct ledger_key *key)
{
	struct entry *entry = entry_find(ledger, key);

	if (!entry)
		return;
	if (entry_has_record(ledger, entry)) {
		record_write(ledger, key, NULL, 0, true);
		ledger->tail += sizeof(struct record);
	}
	entry_drop(ledger, entry);
}

void ledger_commit(struct ledger *ledger)
{
	uint64_t bytes = ledger->tail - ledger_committed(ledger);

	if (bytes == 0)
		return;
	atomic_store_explicit(&ledger_area(ledger)->end, ledger->tail,
			      memory_order_release);
	move_on(ledger, bytes);
}

/* ---- opening ---- */

static int begin(struct ledger *ledger)
{
	uint64_t bytes = round_up(AREA_FIRST_BYTES, ledger->unit);
	struct header *head;
	uint64_t end = ledger->unit + 2 * bytes;
	int err = file_extend(ledger, end);

	if (err)
		return set_full_error(ledger, err, end);
	head = ledger_header(ledger);
	head->version = LEDGER_VERSION;
	atomic_store_explicit(&head->active, 0, memory_order_relaxed);
	slot_activate(ledger, ledger->unit, bytes, 0);
	atomic_store_explicit(&head->magic, MAGIC, memory_order_release);
	return 0;
}

static int damaged(const struct ledger *ledger, uint64_t at)
{
	return err_set(-EBADMSG, "the ledger is damaged at byte %" PRIu64,
		       ledger_area(ledger)->offset + at);
}

static int record_check(const struct ledger *ledger, uint64_t at, uint64_t end)
{
	const struct record *record = record_at(ledger, at);

	if (end - at < sizeof(*record) || record->bytes > LEDGER_VALUE_MAX ||
	    end - at < record_bytes(record) || record->crc != record_crc(record) ||
	    record->removed > 1)
		return damaged(ledger, at);
	return 0;
}

static int record_load(struct ledger *ledger, uint64_t at)
{
	const struct record *record = record_at(ledger, at);
	struct ledger_key key = { record->kind, record->a, record->b };
	struct entry *entry;

	if (record->removed) {
		entry = entry_find(ledger, &key);
		if (entry)
			entry_drop(ledger, entry);
		return 0;
	}
	entry = entry_make(ledger, &key);
	if (!entry)
		return err_set(-ENOMEM, "no memory for the ledger's entries");
	entry_move(ledger, entry, at);
	return 0;
}

static int records_load(struct ledger *ledger)
{
	uint64_t end = ledger_committed(ledger);
	int err = 0;

	while (!err && ledger->tail < end) {
		err = record_check(ledger, ledger->tail, end);
		if (!err)
			err = record_load(ledger, ledger->tail);
		if (!err)
			ledger->tail += record_bytes(record_at(ledger, ledger->tail));
	}
	/* each put has left room for the removal of its key */
	if (!err && ledger->tail + ledger->entries.n_nodes * sizeof(struct record) >
			    ledger_area(ledger)->bytes)
		err = damaged(ledger, ledger->tail);
	return err;
}

/* The area of the header must be inside the file. */
static int header_check(const struct ledger *ledger, uint64_t file_bytes)
{
	const struct header *head = ledger_header(ledger);
	const struct area *area;

	if (head->version != LEDGER_VERSION)
		return err_set(
			-EPROTONOSUPPORT,
			"the ledger is of version %" PRIu32
			", and this rmemd knows version %d: start the other rmemd "
			"again, or give up what is lent",
			head->version, LEDGER_VERSION);
	if (ledger_slot(ledger) > 1)
		return err_set(-EBADMSG, "the ledger's header is damaged");
	area = ledger_area(ledger);
	if (area->offset < ledger->unit || area->offset % ledger->unit ||
	    !area->bytes || area->bytes % ledger->unit ||
	    !range_inside(file_bytes, area->offset, area->bytes) ||
	    ledger_committed(ledger) > area->bytes)
		return err_set(-EBADMSG, "the ledger's header is damaged");
	return 0;
}

/* The area and its twin; the last process may have ended while it moved. */
static int file_adopt(struct ledger *ledger, uint64_t file_bytes)
{
	uint64_t end = ledger_file_bytes(ledger);
	int err;

	if (file_bytes > end)
		file_cut(ledger, end);
	err = file_extend(ledger, end);
	if (err)
		return set_full_error(ledger, err, end);
	if (is_tight(ledger))
		move_run(ledger, UINT64_MAX);
	return 0;
}

static int ledger_adopt(struct ledger *ledger)
{
	const long page = sysconf(_SC_PAGESIZE);
	struct header *head;
	struct statfs fs;
	struct stat st;
	int err;

	if (fstat(ledger->fd, &st) || fstatfs(ledger->fd, &fs))
		return err_errno(-errno, "the ledger");
	if (st.st_size < 0 || (uint64_t)st.st_size > FILE_BYTES_MAX)
		return err_set(-EBADMSG, "the ledger has an impossible size");
	/* not st_blksize, which on tmpfs depends on the kernel's options */
	ledger->unit =
		fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)fs.f_bsize : (uint64_t)page;
	if (st.st_size == 0)
		return begin(ledger);
	if ((uint64_t)st.st_size < ledger->unit)
		return err_set(-EBADMSG, "this is no ledger of rmemd");
	err = file_map(ledger, (uint64_t)st.st_size);
	if (err)
		return err;
	head = ledger_header(ledger);
	if (!atomic_load_explicit(&head->magic, memory_order_acquire))
		return begin(ledger);
	if (atomic_load_explicit(&head->magic, memory_order_relaxed) != MAGIC)
		return err_set(-EBADMSG, "this is no ledger of rmemd");
	err = header_check(ledger, (uint64_t)st.st_size);
	if (!err)
		err = records_load(ledger);
	return err ? err : file_adopt(ledger, (uint64_t)st.st_size);
}

int ledger_open(int fd, struct ledger **ret_ledger)
{
	struct ledger *ledger = calloc(1, sizeof(*ledger));
	int err;

	if (!ledger)
		return err_set(-ENOMEM, "no memory for the ledger");
	ledger->fd = fd;
	map_init(&ledger->entries);
	err = ledger_adopt(ledger);
	if (err) {
		ledger_close(ledger);
		return err;
	}
	*ret_ledger = ledger;
	return 0;
}

void ledger_close(struct ledger *ledger)
{
	if (!ledger)
		return;
	entries_destroy(ledger);
	if (ledger->map)
		(void)munmap(ledger->map, ledger->map_bytes);
	free(ledger);
}

/* ---- reading ---- */

int ledger_each(const struct ledger *ledger, uint32_t kind, ledger_visit *each,
		void *arg)
{
	struct map_node *node = NULL;
	int result;

	while ((node = map_next(&ledger->entries, node))) {
		const struct entry *entry = container_of(node, struct entry, node);
		const struct record *record;

		if (entry->key.kind != kind || !entry_has_record(ledger, entry))
			continue;
		record = record_at(ledger, entry_at(ledger, entry));
		result = each(&entry->key, record + 1, record->bytes, arg);
		if (result)
			return result;
	}
	return 0;
}

static int key_order(const void *a, const void *b)
{
	const struct ledger_key *x = a, *y = b;

	if (x->a != y->a)
		return x->a < y->a ? -1 : 1;
	return x->b < y->b ? -1 : x->b > y->b;
}

struct keys {
	struct ledger_key *at;
	size_t n;
};

static int key_add(const struct ledger_key *key, const void *, size_t, void *arg)
{
	struct keys *keys = arg;

	keys->at[keys->n++] = *key;
	return 0;
}

int ledger_walk(struct ledger *ledger, uint32_t kind, ledger_visit *each, void *arg)
{
	struct keys keys = { .at = calloc(ledger_count(ledger) + 1, sizeof(*keys.at)) };
	int result = 0;

	if (!keys.at)
		return err_set(-ENOMEM, "no memory for the keys of the ledger");
	(void)ledger_each(ledger, kind, key_add, &keys);
	qsort(keys.at, keys.n, sizeof(*keys.at), key_order);
	for (size_t i = 0; !result && i < keys.n; i++) {
		const struct entry *entry = entry_find(ledger, &keys.at[i]);
		const struct record *record;

		if (!entry || !entry_has_record(ledger, entry))
			continue;
		record = record_at(ledger, entry_at(ledger, entry));
		result = each(&keys.at[i], record + 1, record->bytes, arg);
	}
	free(keys.at);
	return result;
}

struct ledger_usage ledger_usage(const struct ledger *ledger)
{
	const uint64_t room = file_room(ledger);
	uint64_t area = ledger_area(ledger)->bytes;

	while (room != UINT64_MAX &&
	       grown_file_bytes(ledger, 2 * area) <= ledger->held + room)
		area *= 2;
	return (struct ledger_usage){
		.bytes = ledger->fresh + removals_bytes(ledger),
		.max = room == UINT64_MAX ? room : share_bytes(LEDGER_LEASE, area),
	};
}

void ledger_set_place(struct ledger *ledger, const char *place)
{
	ledger->place = place;
}

size_t ledger_count(const struct ledger *ledger)
{
	return ledger->entries.n_nodes;
}
