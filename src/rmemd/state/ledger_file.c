/* SPDX-License-Identifier: BSD-3-Clause */
/* The file has a header and an area of consecutive records, of which the latest of a key counts.
 * The header has two slots for areas, each with the offset and size of an area and the end of its
 * committed records, and tells which slot is active.
 *
 * Why a crash does no harm.  The file is mapped and shared, so every store that the process has
 * done is in it, in the order of the program, and no later one.  There are four operations:
 *
 *   put, remove  write behind the end of the active area, where nothing is read.
 *   commit       stores the new end: one aligned word, released, so after all records before it.
 *   move         writes an area outside the active one, over many commits, then its offset, size
 *                and end to the slot that is not active, then stores the number of the active
 *                slot: one aligned word, released.  A process that dies before has not moved.
 *   begin        fills in the header of an empty file; its magic is stored last, and without it the
 *                file counts as empty.
 *
 * Growing the file and cutting off what no area uses do not change what is read. */
#include "rmemd/state/ledger_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/err.h"

uint64_t record_bytes(const struct record *record)
{
	return round_up(sizeof(*record) + record->bytes, 8);
}

uint32_t record_crc(const struct record *record)
{
	const char *from = (const char *)record + sizeof(record->crc);

	return crc32c(0, from, sizeof(*record) - sizeof(record->crc) + record->bytes);
}

/* ---- entries ---- */

static uint64_t key_hash(const struct ledger_key *key)
{
	return map_hash_u64(key->a ^ map_hash_u64(key->b ^ map_hash_u64(key->kind)));
}

struct entry *entry_find(const struct ledger *ledger, const struct ledger_key *key)
{
	struct map_node *node = map_find(&ledger->entries, key_hash(key));

	for (; node; node = map_find_next(node)) {
		struct entry *entry = container_of(node, struct entry, node);

		if (entry->key.kind == key->kind && entry->key.a == key->a &&
		    entry->key.b == key->b)
			return entry;
	}
	return NULL;
}

void entry_drop(struct ledger *ledger, struct entry *entry)
{
	ledger->fresh -= record_bytes(record_at(ledger, entry_at(ledger, entry)));
	map_remove(&ledger->entries, &entry->node);
	free(entry);
}

struct entry *entry_make(struct ledger *ledger, const struct ledger_key *key)
{
	struct entry *entry = entry_find(ledger, key);

	if (entry)
		return entry;
	entry = malloc(sizeof(*entry));
	if (!entry)
		return NULL;
	*entry = (struct entry){ .key = *key, .at = { UINT64_MAX, UINT64_MAX } };
	if (!map_insert(&ledger->entries, &entry->node, key_hash(key)))
		return entry;
	free(entry);
	return NULL;
}

void entry_move(struct ledger *ledger, struct entry *entry, uint64_t at)
{
	uint64_t before = entry_at(ledger, entry);

	if (before != UINT64_MAX)
		ledger->fresh -= record_bytes(record_at(ledger, before));
	entry->at[ledger_slot(ledger)] = at;
	ledger->fresh += record_bytes(record_at(ledger, at));
}

void entries_destroy(struct ledger *ledger)
{
	struct map_node *node = map_next(&ledger->entries, NULL), *next;

	/* without removing: each search from the start takes longer than the one before */
	for (; node; node = next) {
		next = map_next(&ledger->entries, node);
		free(container_of(node, struct entry, node));
	}
	map_destroy(&ledger->entries);
}

/* ---- the file ---- */

/* Make the mapping longer.  Its pages stay mapped: to map them again takes long. */
static bool map_extend(struct ledger *ledger, uint64_t bytes)
{
	char *map;

	if (!ledger->map)
		return false;
	map = mremap(ledger->map, ledger->map_bytes, bytes, MREMAP_MAYMOVE);
	if (map == MAP_FAILED)
		return false;
	ledger->map = map;
	ledger->map_bytes = bytes;
	return true;
}

int file_map(struct ledger *ledger, uint64_t bytes)
{
	char *map;

	/* without the right to lock more memory a mapping is made that is not locked */
	if (bytes <= ledger->map_bytes || map_extend(ledger, bytes))
		return 0;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ledger->fd, 0);
	if (map == MAP_FAILED)
		return err_errno(-errno, "mapping the ledger");
	if (madvise(map, bytes, MADV_DONTDUMP)) {
		int err = -errno;

		(void)munmap(map, bytes);
		return err_errno(err, "keeping the ledger out of core dumps");
	}
	/* without the right to lock memory the secrets may be swapped, like all other memory */
	(void)mlock2(map, bytes, MLOCK_ONFAULT);
	if (ledger->map)
		(void)munmap(ledger->map, ledger->map_bytes);
	ledger->map = map;
	ledger->map_bytes = bytes;
	return 0;
}

int file_allocate(const struct ledger *ledger, uint64_t offset, uint64_t bytes)
{
	int err;

	do {
		err = fallocate(ledger->fd, 0, (off_t)offset, (off_t)bytes) ? -errno
									    : 0;
	} while (err == -EINTR);
	return err ? err_errno(err, "%" PRIu64 " bytes for the ledger", bytes) : 0;
}

int file_extend(struct ledger *ledger, uint64_t offset, uint64_t bytes)
{
	int err = file_allocate(ledger, offset, bytes);

	return err ? err : file_map(ledger, offset + bytes);
}

void file_punch(const struct ledger *ledger, uint64_t offset, uint64_t bytes)
{
	(void)fallocate(ledger->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			(off_t)offset, (off_t)bytes);
}

void file_trim(const struct ledger *ledger)
{
	if (ftruncate(ledger->fd, (off_t)ledger_file_bytes(ledger)))
		return;
	file_punch(ledger, ledger->unit, ledger_area(ledger)->offset - ledger->unit);
}

/* ---- areas ---- */

void slot_activate(struct ledger *ledger, uint64_t offset, uint64_t bytes, uint64_t end)
{
	struct header *head = ledger_header(ledger);
	uint64_t next = 1 - ledger_slot(ledger);

	head->areas[next].offset = offset;
	head->areas[next].bytes = bytes;
	atomic_store_explicit(&head->areas[next].end, end, memory_order_relaxed);
	atomic_store_explicit(&head->active, next, memory_order_release);
}

uint64_t area_offset(const struct ledger *ledger, uint64_t bytes)
{
	return ledger_area(ledger)->offset - ledger->unit >= bytes
		       ? ledger->unit
		       : ledger_file_bytes(ledger);
}
