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
 * Growing the file and cutting off what no area uses do not change what is read.
 *
 * Why a full file system does no harm.  The active area has a twin, of its size, which has its
 * memory all the time: records that count can always be moved there from those that do not.  The
 * ledger moves to a larger area once that and its twin have their memory. */
#include "rmemd/state/ledger_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/vfs.h>
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

/* It does not count any more. */
static void record_forget(struct ledger *ledger, const struct entry *entry)
{
	if (entry_has_record(ledger, entry))
		ledger->fresh -=
			record_bytes(record_at(ledger, entry_at(ledger, entry)));
}

void entry_drop(struct ledger *ledger, struct entry *entry)
{
	record_forget(ledger, entry);
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
	record_forget(ledger, entry);
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

uint64_t file_room(const struct ledger *ledger)
{
	struct statfs fs;

	/* a file system without a limit reports the maximum, or no blocks at all */
	if (fstatfs(ledger->fd, &fs) || fs.f_blocks == 0 ||
	    fs.f_bavail > UINT64_MAX / (uint64_t)fs.f_bsize)
		return UINT64_MAX;
	return fs.f_bavail * (uint64_t)fs.f_bsize;
}

bool file_has_room(const struct ledger *ledger, uint64_t end)
{
	return end <= ledger->held || end - ledger->held <= file_room(ledger);
}

int file_allocate(struct ledger *ledger, uint64_t end, uint64_t most)
{
	uint64_t bytes = end > ledger->held ? end - ledger->held : 0;
	int err = 0;

	if (bytes > most)
		bytes = most;
	if (bytes == 0)
		return 0;
	do {
		err = fallocate(ledger->fd, 0, (off_t)ledger->held, (off_t)bytes)
			      ? -errno
			      : 0;
	} while (err == -EINTR);
	if (err)
		return err_errno(err, "%" PRIu64 " bytes for the ledger", bytes);
	ledger->held += bytes;
	return 0;
}

int file_extend(struct ledger *ledger, uint64_t end)
{
	int err = file_allocate(ledger, end, UINT64_MAX);

	return err ? err : file_map(ledger, end);
}

void file_cut(struct ledger *ledger, uint64_t end)
{
	if (!ftruncate(ledger->fd, (off_t)end) && ledger->held > end)
		ledger->held = end;
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

/* The offset of an area of `bytes` beside one of `size` at `offset`: the pair is at the begin of
 * the file, unless that one is longer. */
static uint64_t offset_beside(const struct ledger *ledger, uint64_t offset,
			      uint64_t size, uint64_t bytes)
{
	uint64_t upper = ledger->unit + bytes;

	if (offset >= upper)
		return ledger->unit;
	return offset + size > upper ? offset + size : upper;
}

uint64_t area_offset(const struct ledger *ledger, uint64_t bytes)
{
	const struct area *area = ledger_area(ledger);

	return offset_beside(ledger, area->offset, area->bytes, bytes);
}

uint64_t area_file_bytes(const struct ledger *ledger, uint64_t offset, uint64_t bytes)
{
	uint64_t twin = offset_beside(ledger, offset, bytes, bytes);

	return (twin > offset ? twin : offset) + bytes;
}
