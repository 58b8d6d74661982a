/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of the ledger: its areas and records, and the entries that find the records. */
#ifndef RMEMD_LEDGER_LEDGER_FILE_H
#define RMEMD_LEDGER_LEDGER_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "rmemd/state/ledger.h"

#define AREA_FIRST_BYTES UINT64_C(65536)

struct area {
	uint64_t offset; /* in the file */
	uint64_t bytes;
	_Atomic uint64_t end; /* of what is committed, from its start */
};

struct header {
	_Atomic uint64_t magic;
	uint32_t version;
	uint32_t unused;
	_Atomic uint64_t active;
	struct area areas[2];
};

/* In the file; the value follows, padded to 8 bytes. */
struct record {
	uint32_t crc;   /* CRC-32C of all that follows */
	uint32_t bytes; /* of the value */
	uint32_t kind;
	uint32_t removed; /* 1: the key has no value any more */
	uint64_t a, b;
};

struct entry {
	struct map_node node;
	struct ledger_key key;
	/* its record, from the area's start, UINT64_MAX: reserved, there is none yet; by slot.
	 * That of the slot which is not active counts while the ledger moves, if the record was
	 * copied */
	uint64_t at[2];
};

enum phase { MOVE_NONE, MOVE_ALLOCATE, MOVE_COPY, MOVE_TRIM };

/* A move to another area: ledger.c. */
struct move {
	enum phase phase;
	uint64_t offset, bytes; /* the new area */
	uint64_t began;         /* end of the records when the move began */
	uint64_t from;       /* the next record to copy, from the active area's start */
	uint64_t end;        /* of the copied records, from the new area's start */
	uint64_t not_before; /* the tail at which a refused move is tried again */
};

struct ledger {
	int fd;
	const char *place; /* of its file, for error texts; NULL: not known */
	char *map;
	uint64_t map_bytes;
	uint64_t unit;  /* sizes in the file are multiples of it */
	uint64_t least; /* bytes of an area; 0: as small as its records allow */
	uint64_t held;  /* the file has its memory up to here */
	uint64_t tail;  /* end of the staged records, from the area's start */
	uint64_t fresh; /* bytes of the records that count */
	struct map entries;
	struct move move;
};

static inline struct header *ledger_header(const struct ledger *ledger)
{
	return (struct header *)(void *)ledger->map;
}

/* The number of the active slot. */
static inline uint64_t ledger_slot(const struct ledger *ledger)
{
	return atomic_load_explicit(&ledger_header(ledger)->active,
				    memory_order_relaxed);
}

static inline struct area *ledger_area(const struct ledger *ledger)
{
	return &ledger_header(ledger)->areas[ledger_slot(ledger)];
}

/* End of the committed records, from the area's start. */
static inline uint64_t ledger_committed(const struct ledger *ledger)
{
	return atomic_load_explicit(&ledger_area(ledger)->end, memory_order_relaxed);
}

static inline struct record *record_at(const struct ledger *ledger, uint64_t at)
{
	return (struct record *)(void *)(ledger->map + ledger_area(ledger)->offset +
					 at);
}

static inline uint64_t round_up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

uint64_t record_bytes(const struct record *record);
uint32_t record_crc(const struct record *record);

/* NULL: none */
struct entry *entry_find(const struct ledger *ledger, const struct ledger_key *key);
/* The entry of a key; a new one has no record.  NULL: no memory */
struct entry *entry_make(struct ledger *ledger, const struct ledger_key *key);
/* The place of its record, from the active area's start. */
static inline uint64_t entry_at(const struct ledger *ledger, const struct entry *entry)
{
	return entry->at[ledger_slot(ledger)];
}

static inline bool entry_has_record(const struct ledger *ledger,
				    const struct entry *entry)
{
	return entry_at(ledger, entry) != UINT64_MAX;
}

void entry_move(struct ledger *ledger, struct entry *entry, uint64_t at);
void entry_drop(struct ledger *ledger, struct entry *entry);
void entries_destroy(struct ledger *ledger);

/* Map `bytes` of the file, which is that long. */
int file_map(struct ledger *ledger, uint64_t bytes);
/* Bytes that its file system can still give; UINT64_MAX: no limit is known. */
uint64_t file_room(const struct ledger *ledger);
/* Whether it can give the memory of the file up to `end`. */
bool file_has_room(const struct ledger *ledger, uint64_t end);
/* Allocate the memory of the file up to `end`, at most `most` more bytes: a store must not fail. */
int file_allocate(struct ledger *ledger, uint64_t end, uint64_t most);
/* Allocate the file up to `end`, and map it. */
int file_extend(struct ledger *ledger, uint64_t end);
/* Cut off what is behind `end`; a failure does no harm. */
void file_cut(struct ledger *ledger, uint64_t end);

/* Make an area the active one: what it holds counts from now on. */
void slot_activate(struct ledger *ledger, uint64_t offset, uint64_t bytes,
		   uint64_t end);
/* The offset of an area of `bytes` that does not overlap the active one. */
uint64_t area_offset(const struct ledger *ledger, uint64_t bytes);
/* The end of the file if an area is the active one: that of the area or of its twin. */
uint64_t area_file_bytes(const struct ledger *ledger, uint64_t offset, uint64_t bytes);
static inline uint64_t ledger_file_bytes(const struct ledger *ledger)
{
	return area_file_bytes(ledger, ledger_area(ledger)->offset,
			       ledger_area(ledger)->bytes);
}

/* Room for a later removal of every key, and of one more. */
static inline uint64_t removals_bytes(const struct ledger *ledger)
{
	return (ledger->entries.n_nodes + 1) * sizeof(struct record);
}

#endif
