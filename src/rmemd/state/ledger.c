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
 *   move         writes an area outside the active one, then its offset, size and end to the slot
 *                that is not active, then stores the number of the active slot: one aligned word,
 *                released.
 *   begin        fills in the header of an empty file; its magic is stored last, and without it the
 *                file counts as empty.
 *
 * Growing the file and cutting off what no area uses do not change what is read. */
#include "rmemd/state/ledger.h"

#include <errno.h>
#include <fcntl.h>
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

#include "base/crc32c.h"
#include "base/err.h"
#include "base/list.h"
#include "base/map.h"

/* "rmemledg" in the byte order of this machine: a file of the other byte order is no ledger. */
#define MAGIC UINT64_C(0x6764656c6d656d72)
#define AREA_FIRST_BYTES UINT64_C(65536)
/* With more bytes of obsolete records the area is compacted. */
#define STALE_BYTES_MAX UINT64_C(32768)
/* A larger file is no ledger. */
#define FILE_BYTES_MAX (UINT64_C(1) << 40)

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
	uint64_t at; /* its record, from the area's start */
};

struct ledger {
	int fd;
	char *map;
	uint64_t map_bytes;
	uint64_t unit;  /* sizes in the file are multiples of it */
	uint64_t tail;  /* end of the staged records, from the area's start */
	uint64_t fresh; /* bytes of the records that count */
	struct map entries;
};

static struct header *header(const struct ledger *ledger)
{
	return (struct header *)(void *)ledger->map;
}

static struct area *active(const struct ledger *ledger)
{
	struct header *head = header(ledger);

	return &head->areas[atomic_load_explicit(&head->active, memory_order_relaxed)];
}

static struct record *record_at(const struct ledger *ledger, uint64_t at)
{
	return (struct record *)(void *)(ledger->map + active(ledger)->offset + at);
}

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

static uint64_t record_bytes(const struct record *record)
{
	return round_up(sizeof(*record) + record->bytes, 8);
}

static uint32_t record_crc(const struct record *record)
{
	const char *from = (const char *)record + sizeof(record->crc);

	return crc32c(0, from, sizeof(*record) - sizeof(record->crc) + record->bytes);
}

/* ---- entries ---- */

static uint64_t key_hash(const struct ledger_key *key)
{
	return map_hash_u64(key->a ^ map_hash_u64(key->b ^ map_hash_u64(key->kind)));
}

static struct entry *entry_find(const struct ledger *ledger,
				const struct ledger_key *key)
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

static void entry_drop(struct ledger *ledger, struct entry *entry)
{
	ledger->fresh -= record_bytes(record_at(ledger, entry->at));
	map_remove(&ledger->entries, &entry->node);
	free(entry);
}

/* The entry of a key; a new one has its record at UINT64_MAX.  NULL: no memory */
static struct entry *entry_make(struct ledger *ledger, const struct ledger_key *key)
{
	struct entry *entry = entry_find(ledger, key);

	if (entry)
		return entry;
	entry = malloc(sizeof(*entry));
	if (!entry)
		return NULL;
	*entry = (struct entry){ .key = *key, .at = UINT64_MAX };
	if (!map_insert(&ledger->entries, &entry->node, key_hash(key)))
		return entry;
	free(entry);
	return NULL;
}

static void entry_move(struct ledger *ledger, struct entry *entry, uint64_t at)
{
	if (entry->at != UINT64_MAX)
		ledger->fresh -= record_bytes(record_at(ledger, entry->at));
	entry->at = at;
	ledger->fresh += record_bytes(record_at(ledger, at));
}

static void entries_destroy(struct ledger *ledger)
{
	struct map_node *node;

	while ((node = map_next(&ledger->entries, NULL))) {
		map_remove(&ledger->entries, node);
		free(container_of(node, struct entry, node));
	}
	map_destroy(&ledger->entries);
}

/* ---- the file ---- */

/* Map `bytes` of the file, which is that long. */
static int file_map(struct ledger *ledger, uint64_t bytes)
{
	char *map;

	if (bytes <= ledger->map_bytes)
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

/* Allocate the memory of a range of the file, and map it: a store must not fail. */
static int file_extend(struct ledger *ledger, uint64_t offset, uint64_t bytes)
{
	int err;

	do {
		err = fallocate(ledger->fd, 0, (off_t)offset, (off_t)bytes) ? -errno
									    : 0;
	} while (err == -EINTR);
	if (err)
		return err_errno(err, "%" PRIu64 " bytes for the ledger", bytes);
	return file_map(ledger, offset + bytes);
}

/* Free what no area uses; a failure does no harm. */
static void file_trim(const struct ledger *ledger)
{
	const struct area *area = active(ledger);

	if (ftruncate(ledger->fd, (off_t)(area->offset + area->bytes)))
		return;
	(void)fallocate(ledger->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			(off_t)ledger->unit, (off_t)(area->offset - ledger->unit));
}

/* ---- areas ---- */

static void slot_activate(struct ledger *ledger, uint64_t offset, uint64_t bytes,
			  uint64_t end)
{
	struct header *head = header(ledger);
	uint64_t slot = 1 - atomic_load_explicit(&head->active, memory_order_relaxed);

	head->areas[slot].offset = offset;
	head->areas[slot].bytes = bytes;
	atomic_store_explicit(&head->areas[slot].end, end, memory_order_relaxed);
	atomic_store_explicit(&head->active, slot, memory_order_release);
}

/* Allocate an area that does not overlap the active one. */
static int area_place(struct ledger *ledger, uint64_t bytes, uint64_t *ret_offset)
{
	const struct area *area = active(ledger);
	uint64_t offset = area->offset - ledger->unit >= bytes
				  ? ledger->unit
				  : area->offset + area->bytes;

	*ret_offset = offset;
	return file_extend(ledger, offset, bytes);
}

/* Move to a larger area, with the staged records. */
static int area_grow(struct ledger *ledger, uint64_t needed)
{
	uint64_t bytes = active(ledger)->bytes, offset, end;
	int err;

	while (bytes < needed)
		bytes *= 2;
	err = area_place(ledger, bytes, &offset);
	if (err)
		return err;
	memcpy(ledger->map + offset, record_at(ledger, 0), ledger->tail);
	end = atomic_load_explicit(&active(ledger)->end, memory_order_relaxed);
	slot_activate(ledger, offset, bytes, end);
	file_trim(ledger);
	return 0;
}

/* Allocate an area for twice the present records or, with little room, enough until the next
 * compaction. */
static int compact_place(struct ledger *ledger, uint64_t *ret_bytes,
			 uint64_t *ret_offset)
{
	uint64_t removals = (ledger->entries.n_nodes + 1) * sizeof(struct record);
	uint64_t least = 2 * ledger->fresh + STALE_BYTES_MAX + LEDGER_VALUE_MAX;

	*ret_bytes = round_up(AREA_FIRST_BYTES, ledger->unit);
	while (*ret_bytes < 4 * ledger->fresh)
		*ret_bytes *= 2;
	if (area_place(ledger, *ret_bytes, ret_offset) == 0)
		return 0;
	*ret_bytes = round_up(least + removals, ledger->unit);
	return area_place(ledger, *ret_bytes, ret_offset);
}

/* Move to an area without obsolete records; nothing is staged. */
static void area_compact(struct ledger *ledger)
{
	uint64_t bytes, end = 0, at = 0, offset;

	/* without room it is not compacted */
	if (compact_place(ledger, &bytes, &offset))
		return;
	while (at < ledger->tail) {
		const struct record *record = record_at(ledger, at);
		struct ledger_key key = { record->kind, record->a, record->b };
		struct entry *entry = entry_find(ledger, &key);
		uint64_t size = record_bytes(record);

		if (entry && entry->at == at) {
			memcpy(ledger->map + offset + end, record, size);
			entry->at = end;
			end += size;
		}
		at += size;
	}
	ledger->tail = end;
	slot_activate(ledger, offset, bytes, end);
	file_trim(ledger);
}

/* Make room for a record, and for a later removal of every key. */
static int space_make(struct ledger *ledger, uint64_t bytes)
{
	uint64_t removals = (ledger->entries.n_nodes + 1) * sizeof(struct record);
	uint64_t needed = ledger->tail + bytes + removals;

	return needed <= active(ledger)->bytes ? 0 : area_grow(ledger, needed);
}

/* ---- changes ---- */

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

int ledger_put(struct ledger *ledger, const struct ledger_key *key, const void *value,
	       size_t bytes)
{
	struct entry *entry;
	int err;

	if (bytes > LEDGER_VALUE_MAX)
		return err_set(-EINVAL, "%zu bytes for one entry of the ledger", bytes);
	err = space_make(ledger, round_up(sizeof(struct record) + bytes, 8));
	if (err)
		return err;
	entry = entry_make(ledger, key);
	if (!entry)
		return err_set(-ENOMEM, "no memory for an entry of the ledger");
	record_write(ledger, key, value, bytes, false);
	entry_move(ledger, entry, ledger->tail);
	ledger->tail += record_bytes(record_at(ledger, ledger->tail));
	return 0;
}

int ledger_reserve(struct ledger *ledger, size_t bytes)
{
	return space_make(ledger, round_up(sizeof(struct record) + bytes, 8));
}

void ledger_remove(struct ledger *ledger, const struct ledger_key *key)
{
	struct entry *entry = entry_find(ledger, key);

	if (!entry)
		return;
	record_write(ledger, key, NULL, 0, true);
	entry_drop(ledger, entry);
	ledger->tail += sizeof(struct record);
}

void ledger_commit(struct ledger *ledger)
{
	struct area *area = active(ledger);

	if (ledger->tail == atomic_load_explicit(&area->end, memory_order_relaxed))
		return;
	atomic_store_explicit(&area->end, ledger->tail, memory_order_release);
	if (ledger->tail > 2 * ledger->fresh + STALE_BYTES_MAX)
		area_compact(ledger);
}

/* ---- opening ---- */

static int begin(struct ledger *ledger)
{
	uint64_t bytes = round_up(AREA_FIRST_BYTES, ledger->unit);
	struct header *head;
	int err = file_extend(ledger, 0, ledger->unit + bytes);

	if (err)
		return err;
	head = header(ledger);
	head->version = LEDGER_VERSION;
	atomic_store_explicit(&head->active, 0, memory_order_relaxed);
	slot_activate(ledger, ledger->unit, bytes, 0);
	atomic_store_explicit(&head->magic, MAGIC, memory_order_release);
	return 0;
}

static int damaged(const struct ledger *ledger, uint64_t at)
{
	return err_set(-EBADMSG, "the ledger is damaged at byte %" PRIu64,
		       active(ledger)->offset + at);
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
	uint64_t end = atomic_load_explicit(&active(ledger)->end, memory_order_relaxed);
	int err = 0;

	while (!err && ledger->tail < end) {
		err = record_check(ledger, ledger->tail, end);
		if (!err)
			err = record_load(ledger, ledger->tail);
		if (!err)
			ledger->tail += record_bytes(record_at(ledger, ledger->tail));
	}
	return err;
}

/* The area of the header must be inside the file. */
static int header_check(const struct ledger *ledger, uint64_t file_bytes)
{
	const struct header *head = header(ledger);
	const struct area *area;

	if (head->version > LEDGER_VERSION)
		return err_set(
			-EPROTONOSUPPORT,
			"the ledger is of version %" PRIu32
			", and this rmemd knows versions up to %d: start the newer "
			"rmemd again, or give up what is lent",
			head->version, LEDGER_VERSION);
	if (atomic_load_explicit(&head->active, memory_order_relaxed) > 1)
		return err_set(-EBADMSG, "the ledger's header is damaged");
	area = active(ledger);
	if (area->offset < ledger->unit || area->offset > file_bytes ||
	    area->offset % ledger->unit || !area->bytes ||
	    area->bytes > file_bytes - area->offset ||
	    atomic_load_explicit(&area->end, memory_order_relaxed) > area->bytes)
		return err_set(-EBADMSG, "the ledger's header is damaged");
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
	head = header(ledger);
	if (!atomic_load_explicit(&head->magic, memory_order_acquire))
		return begin(ledger);
	if (atomic_load_explicit(&head->magic, memory_order_relaxed) != MAGIC)
		return err_set(-EBADMSG, "this is no ledger of rmemd");
	err = header_check(ledger, (uint64_t)st.st_size);
	return err ? err : records_load(ledger);
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
	/* this build reads what an older one wrote; from here on the older one must not read it */
	header(ledger)->version = LEDGER_VERSION;
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

int ledger_each(const struct ledger *ledger, uint32_t kind,
		int (*each)(const struct ledger_key *key, const void *value,
			    size_t bytes, void *arg),
		void *arg)
{
	struct map_node *node = NULL;
	int result;

	while ((node = map_next(&ledger->entries, node))) {
		const struct entry *entry = container_of(node, struct entry, node);
		const struct record *record = record_at(ledger, entry->at);

		if (entry->key.kind != kind)
			continue;
		result = each(&entry->key, record + 1, record->bytes, arg);
		if (result)
			return result;
	}
	return 0;
}

size_t ledger_count(const struct ledger *ledger)
{
	return ledger->entries.n_nodes;
}

uint64_t ledger_file_bytes(const struct ledger *ledger)
{
	const struct area *area = active(ledger);

	return area->offset + area->bytes;
}
