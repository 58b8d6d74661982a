/* SPDX-License-Identifier: BSD-3-Clause */
/* The ledger keeps committed values over any crash, and refuses damaged files. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/memfd.h>

#include "base/err.h"
#include "base/map.h"
#include "base/random.h"
#include "rmemd/state/ledger.h"
#include "rmemd/state/ledger_file.h"
#include "rmemd/state/ledger_value.h"
#include "unit/unit.h"

#define KEYS 600
#define KIND(key) ((key) % 3 + 1)

static struct ledger *ledger;
static int fd = -1;

/* ---- the work of the ledger, as calls of others ---- */

static struct work {
	unsigned n_finds;   /* records looked at, or values changed */
	uint64_t allocated; /* bytes of the file */
} work;

static bool fs_full;    /* the file system of the file gives nothing more */
static bool memory_out; /* malloc() gives nothing */

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
	return memory_out ? NULL : __real_malloc(bytes);
}

struct map_node *__real_map_find(const struct map *map, uint64_t hash);
struct map_node *__wrap_map_find(const struct map *map, uint64_t hash);
struct map_node *__wrap_map_find(const struct map *map, uint64_t hash)
{
	work.n_finds++;
	return __real_map_find(map, hash);
}

int __real_fallocate(int file, int mode, off_t at, off_t bytes);
int __wrap_fallocate(int file, int mode, off_t at, off_t bytes);
int __wrap_fallocate(int file, int mode, off_t at, off_t bytes)
{
	struct stat st;

	if (fs_full && !fstat(file, &st) && at + bytes > st.st_size) {
		errno = ENOSPC;
		return -1;
	}
	work.allocated += (uint64_t)bytes;
	return __real_fallocate(file, mode, at, bytes);
}

int __real_fstatfs(int file, struct statfs *fs);
int __wrap_fstatfs(int file, struct statfs *fs);
int __wrap_fstatfs(int file, struct statfs *fs)
{
	int result = __real_fstatfs(file, fs);

	if (fs_full)
		fs->f_blocks = 1000;
	return result;
}

/* ---- a model: the seed and size of each key's value ---- */

struct item {
	bool present, reserved;
	unsigned char seed;
	unsigned bytes;
};

static struct item model[KEYS];

static struct ledger_key key_of(unsigned key)
{
	/* three kinds share each pair of numbers */
	return (struct ledger_key){ KIND(key), key / 3, UINT64_MAX - key / 3 };
}

static void fill(unsigned char *dst, const struct item *value)
{
	for (unsigned i = 0; i < value->bytes; i++)
		dst[i] = (unsigned char)(value->seed + i);
}

static int put(struct item *values, unsigned key, unsigned char seed, unsigned bytes)
{
	static unsigned char data[LEDGER_VALUE_MAX];
	struct item value = { .present = true, .seed = seed, .bytes = bytes };
	struct ledger_key at = key_of(key);
	int err;

	fill(data, &value);
	err = ledger_put(ledger, &at, data, bytes);
	if (!err)
		values[key] = value;
	return err;
}

static void drop(struct item *values, unsigned key)
{
	struct ledger_key at = key_of(key);

	ledger_remove(ledger, &at);
	values[key].present = values[key].reserved = false;
}

static void reserve(struct item *values, unsigned key, unsigned bytes)
{
	struct ledger_key at = key_of(key);

	ck_assert_int_eq(ledger_reserve(ledger, &at, bytes), 0);
	values[key].reserved = !values[key].present;
}

struct seen {
	const struct item *values;
	unsigned n;
};

static int compare(const struct ledger_key *key, const void *data, size_t bytes,
		   void *arg)
{
	static unsigned char wanted[LEDGER_VALUE_MAX];
	struct seen *seen = arg;
	uint64_t i = key->a * 3 + key->kind - 1;

	if (i >= KEYS || key->b != UINT64_MAX - key->a || !seen->values[i].present ||
	    seen->values[i].bytes != bytes)
		return 1;
	fill(wanted, &seen->values[i]);
	seen->n++;
	return memcmp(wanted, data, bytes) != 0;
}

/* Whether a ledger holds these values and nothing else. */
static bool holds(const struct ledger *opened, const struct item *values)
{
	struct seen seen = { .values = values };
	unsigned n = 0, n_reserved = 0;

	for (unsigned i = 0; i < KEYS; i++) {
		n += values[i].present;
		n_reserved += values[i].reserved;
	}
	for (uint32_t kind = 1; kind <= 3; kind++)
		if (ledger_each(opened, kind, compare, &seen))
			return false;
	return seen.n == n && ledger_count(opened) == n + n_reserved;
}

static int memfd(void)
{
	int file = memfd_create("test-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_ge(file, 0);
	return file;
}

static void setup(void)
{
	fs_full = false;
	fd = memfd();
	ck_assert_int_eq(ledger_open(fd, &ledger), 0);
}

static void reopen(void)
{
	ledger_close(ledger);
	ledger = NULL;
	ck_assert_msg(ledger_open(fd, &ledger) == 0, "%s", err_text());
}

static void teardown(void)
{
	ledger_close(ledger);
	(void)close(fd);
}

/* A ledger opened from the file has the values of the model. */
static void check_reopened(void)
{
	reopen();
	ck_assert(holds(ledger, model));
}

static void file_write(const void *bytes, size_t n, off_t at)
{
	ck_assert_int_eq(pwrite(fd, bytes, n, at), (ssize_t)n);
}

/* ---- values ---- */

START_TEST(commit__keeps_staged_values)
{
	ck_assert(holds(ledger, model));
	ck_assert_int_eq(put(model, 0, 1, 100), 0);
	ck_assert_int_eq(put(model, 1, 2, 0), 0);
	ck_assert_int_eq(put(model, 3, 3, LEDGER_VALUE_MAX), 0);
	ledger_commit(ledger);
	check_reopened();
	ck_assert_int_eq(put(model, 0, 9, 7), 0);
	drop(model, 1);
	/* a missing key is ignored */
	drop(model, 2);
	ledger_commit(ledger);
	check_reopened();
}
END_TEST

START_TEST(close__drops_staged_values)
{
	struct item staged[KEYS] = { { 0 } };

	ck_assert_int_eq(put(model, 0, 1, 100), 0);
	ledger_commit(ledger);
	memcpy(staged, model, sizeof(staged));
	ck_assert_int_eq(put(staged, 0, 2, 50), 0);
	ck_assert_int_eq(put(staged, 1, 3, 50), 0);
	/* the values are so large that the area moves */
	ck_assert_int_eq(put(staged, 2, 4, 60000), 0);
	ck_assert_int_eq(put(staged, 3, 5, 60000), 0);
	ck_assert(holds(ledger, staged));
	check_reopened();
}
END_TEST

START_TEST(put__refuses_a_large_value)
{
	static const unsigned char data[LEDGER_VALUE_MAX + 1];
	struct ledger_key key = key_of(0);

	ck_assert_int_eq(ledger_put(ledger, &key, data, sizeof(data)), -EINVAL);
	ck_assert(holds(ledger, model));
}
END_TEST

START_TEST(put__of_the_same_value_writes_nothing)
{
	uint64_t tail;

	ck_assert_int_eq(put(model, 0, 1, 100), 0);
	ck_assert_int_eq(put(model, 1, 1, 0), 0);
	ledger_commit(ledger);
	reopen();
	tail = ledger->tail;
	ck_assert_int_eq(put(model, 0, 1, 100), 0);
	ck_assert_int_eq(put(model, 1, 1, 0), 0);
	ck_assert_uint_eq(ledger->tail, tail);
	/* another length, another value, and one after it was removed */
	ck_assert_int_eq(put(model, 0, 1, 99), 0);
	ck_assert_int_eq(put(model, 0, 2, 99), 0);
	drop(model, 1);
	ck_assert_int_eq(put(model, 1, 1, 0), 0);
	ledger_commit(ledger);
	check_reopened();
}
END_TEST

START_TEST(random_operations__agree_with_a_model)
{
	struct item committed[KEYS] = { { 0 } };
	uint64_t seed = random_u64();
	uint64_t largest = 0;

	printf("# seed %" PRIu64 "\n", seed);
	srandom((unsigned)seed);
	for (unsigned step = 0; step < 60000; step++) {
		unsigned key = (unsigned)random() % KEYS;

		switch (random() % 8) {
		case 0:
		case 1:
		case 2:
			drop(model, key);
			break;
		case 3:
			ledger_commit(ledger);
			memcpy(committed, model, sizeof(model));
			break;
		case 4:
			reserve(model, key, (unsigned)random() % 300);
			break;
		default:
			ck_assert_int_eq(put(model, key, (unsigned char)random(),
					     (unsigned)random() % 300),
					 0);
		}
		if (ledger_file_bytes(ledger) > largest)
			largest = ledger_file_bytes(ledger);
		if (step % 500 == 0)
			ck_assert(holds(ledger, model));
		if (step % 5000 == 0) {
			reopen();
			memcpy(model, committed, sizeof(model));
			for (unsigned i = 0; i < KEYS; i++)
				model[i].reserved = false;
			ck_assert(holds(ledger, model));
		}
	}
	/* old values do not make the file grow */
	ck_assert_uint_lt(largest, 2 << 20);
}
END_TEST

/* It removes its own value and the one after the next, and moves all others. */
static int change(const struct ledger_key *key, const void *value, size_t bytes,
		  void *arg)
{
	static const unsigned char large[LEDGER_VALUE_MAX];
	const struct ledger_key after_next = { key->kind, key->a + 2, 0 };
	const struct ledger_key other = { key->kind + 1, key->a, 0 };
	uint64_t *last = arg;

	ck_assert_uint_gt(key->a, *last);
	ck_assert_uint_eq(bytes, sizeof(key->a));
	ck_assert_mem_eq(value, &key->a, sizeof(key->a));
	*last = key->a;
	ledger_remove(ledger, key);
	ledger_remove(ledger, &after_next);
	return ledger_put(ledger, &other, large, sizeof(large));
}

START_TEST(walk__is_in_order_and_may_change_the_ledger)
{
	uint64_t last = 0;

	for (uint64_t a = 50; a > 0; a--) {
		const struct ledger_key key = { LEDGER_REPLY, a, 0 };

		ck_assert_int_eq(ledger_put(ledger, &key, &a, sizeof(a)), 0);
	}
	ck_assert_int_eq(ledger_walk(ledger, LEDGER_REPLY, change, &last), 0);
	/* 1, 2, 5, 6, 9, ... */
	ck_assert_uint_eq(last, 50);
	ck_assert_uint_eq(ledger_count(ledger), 26);
}
END_TEST

START_TEST(remove__works_in_a_full_ledger)
{
	unsigned n = 0;

	/* the file cannot grow any more */
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	while (!put(model, n, 1, 200 + 100 * (unsigned)_i))
		n++;
	ck_assert_uint_gt(n, 50);
	ck_assert_uint_lt(n, KEYS);
	ck_assert_str_ne(err_text(), "");
	ledger_commit(ledger);
	check_reopened();
	for (unsigned i = 0; i < n; i++) {
		drop(model, i);
		ledger_commit(ledger);
		ck_assert(holds(ledger, model));
	}
	check_reopened();
}
END_TEST

/* ---- a full file system ---- */

/* Puts of values of 100 bytes for new keys of a kind, until one is refused; each is committed. */
static unsigned fill_up(uint32_t kind)
{
	static const char data[100];
	unsigned n = 0;

	for (;; n++) {
		struct ledger_key key = { kind, n + 1, 0 };
		int err = ledger_put(ledger, &key, data, sizeof(data));

		ledger_commit(ledger);
		if (err)
			ck_assert_int_eq(err, -ENOSPC);
		if (err)
			return n;
	}
}

static void remove_all(uint32_t kind, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct ledger_key key = { kind, i + 1, 0 };

		ledger_remove(ledger, &key);
	}
	ledger_commit(ledger);
}

/* A call while there is no memory. */
#define STARVED(result, call)       \
	do {                        \
		memory_out = true;  \
		(result) = (call);  \
		memory_out = false; \
	} while (0)

/* What is reserved is there for its key alone, until that is removed. */
START_TEST(reserve__needs_no_memory_later)
{
	const struct ledger_key others = { LEDGER_SESSION, 1, 0 };
	struct ledger_key key = { LEDGER_REPLY, 1, 0 };
	int err;

	for (; key.b < 3; key.b++)
		ck_assert_int_eq(ledger_reserve(ledger, &key, 5), 0);
	ck_assert_uint_eq(ledger_count(ledger), 3);
	/* one is not needed after all */
	key.b = 2;
	ledger_remove(ledger, &key);
	STARVED(err, ledger_reserve(ledger, &key, 5));
	ck_assert_int_eq(err, -ENOMEM);
	STARVED(err, ledger_put(ledger, &others, "other", 5));
	ck_assert_int_eq(err, -ENOMEM);
	for (key.b = 0; key.b < 2; key.b++) {
		STARVED(err, ledger_put(ledger, &key, "reply", 5));
		ck_assert_int_eq(err, 0);
		STARVED(err, ledger_reserve(ledger, &key, 5));
		ck_assert_int_eq(err, 0);
	}
	ck_assert_uint_eq(ledger_count(ledger), 2);
}
END_TEST

START_TEST(full__what_is_lent_leaves_room_for_its_users)
{
	const uint64_t bytes = 132; /* of a record */
	unsigned n_leases, n_attachments;
	struct ledger_usage usage;

	ledger_set_place(ledger, "/there");
	ck_assert_int_eq(ledger_hold(ledger, 256 * bytes), 0);
	ck_assert_uint_eq(ledger_usage(ledger).max, UINT64_MAX);
	fs_full = true;
	/* what is lent is a half at most, but for what was lent before it was known to be full */
	n_leases = fill_up(LEDGER_LEASE);
	ck_assert_uint_ge(n_leases, 256);
	ck_assert_msg(strstr(err_text(), "/there: no room: the ledger of 516 KiB needs "
					 "512 KiB more, and 0 B are free: free some "
					 "there, or make its file system larger"),
		      "%s", err_text());
	usage = ledger_usage(ledger);
	ck_assert_uint_eq(usage.max, 128 << 10);
	ck_assert_uint_le(usage.bytes, usage.max);
	ck_assert_uint_gt(usage.bytes + 2 * bytes, usage.max);
	n_attachments = fill_up(LEDGER_ATTACHMENT);
	ck_assert_uint_gt(n_attachments, 20);
	/* sessions come and go, and what is lent is freed, for ever */
	for (unsigned round = 0; round < 50; round++) {
		unsigned n = fill_up(LEDGER_SESSION);

		ck_assert_msg(n >= 150, "%u sessions", n);
		remove_all(LEDGER_SESSION, n);
		reopen();
		ck_assert_int_eq(ledger_hold(ledger, 256 * bytes), 0);
	}
	for (unsigned i = 0; i < n_leases; i++) {
		struct ledger_key lease = { LEDGER_LEASE, i + 1, 0 };
		struct ledger_key reply = { LEDGER_REPLY, 1, i };
		/* the first ten do not exist */
		const struct ledger_key old = { LEDGER_REPLY, 1,
						i < 10 ? n_leases : i - 10 };

		ck_assert_msg(!ledger_put(ledger, &reply, "freed", 5), "%s",
			      err_text());
		ledger_remove(ledger, &lease);
		ledger_remove(ledger, &old);
		ledger_commit(ledger);
	}
	ck_assert_uint_ge(fill_up(LEDGER_LEASE), n_leases / 2);
	/* there is room again */
	fs_full = false;
	for (unsigned i = 0; i < KEYS; i++)
		ck_assert_int_eq(put(model, i, 1, 2000), 0);
}
END_TEST

/* ---- other files ---- */

static void check_refused(int err, const char *text)
{
	ledger_close(ledger);
	ledger = NULL;
	ck_assert_int_eq(ledger_open(fd, &ledger), err);
	ck_assert_msg(strstr(err_text(), text), "%s", err_text());
}

START_TEST(open__refuses_another_version)
{
	uint32_t version = _i ? LEDGER_VERSION + 1 : LEDGER_VERSION - 1;

	file_write(&version, sizeof(version), 8);
	check_refused(-EPROTONOSUPPORT, "start the other rmemd again");
}
END_TEST

/* A limit of the process stands for a nearly full file system. */
START_TEST(compact__needs_little_space)
{
	const unsigned n_keys = 20, n_kept = 4;
	struct rlimit limit;
	uint64_t before;

	for (unsigned i = 0; i < n_keys; i++)
		ck_assert_int_eq(put(model, i, (unsigned char)i, 10000), 0);
	ledger_commit(ledger);
	before = ledger_file_bytes(ledger);
	ck_assert_ptr_ne(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = before;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	for (unsigned i = n_kept; i < n_keys; i++)
		drop(model, i);
	ledger_commit(ledger);
	for (unsigned i = 0; i < 500; i++) {
		ck_assert_msg(put(model, i % n_kept, (unsigned char)i, 10000) == 0,
			      "%s", err_text());
		ledger_commit(ledger);
		ck_assert(holds(ledger, model));
	}
	ck_assert_uint_lt(ledger_file_bytes(ledger), before);
	check_reopened();
}
END_TEST

/* Each commit does a small part of a move, whatever the ledger holds. */
START_TEST(commit__does_a_small_part_of_a_move)
{
	const unsigned bytes = 3000, most = 4096 + 4 * (bytes + 40);
	unsigned n_moves = 0;

	for (unsigned i = 0; i < 20 * KEYS; i++) {
		uint64_t slot = ledger_slot(ledger), held = ledger->held;

		ck_assert_int_eq(put(model, i * 7 % KEYS, (unsigned char)i, bytes), 0);
		work = (struct work){ 0 };
		ledger_commit(ledger);
		/* in the ledger's first areas a move is made at once */
		if (i < 100)
			continue;
		/* a step may exceed what is left by itself */
		ck_assert_uint_le(work.n_finds, most / (bytes + 32) + 1);
		ck_assert_uint_le(work.allocated, 8 * most + 65536);
		ck_assert_uint_ge(ledger->held + 8 * most + 65536, held);
		n_moves += ledger_slot(ledger) != slot;
	}
	ck_assert_uint_gt(n_moves, 3);
	/* the obsolete values of 20 rounds did not stay */
	ck_assert_uint_lt(ledger_file_bytes(ledger), UINT64_C(8) * 4 * KEYS * bytes);
	check_reopened();
}
END_TEST

/* What changes while the ledger moves is right in the new area. */
START_TEST(move__follows_the_changes_meanwhile)
{
	for (unsigned i = 0; i < KEYS; i++)
		ck_assert_int_eq(put(model, i, (unsigned char)i, 3000), 0);
	ledger_commit(ledger);
	for (unsigned i = 0; i < 20 * KEYS; i++) {
		unsigned key = i * 11 % KEYS;

		/* removed, changed, and added again */
		if (model[key].present && i % 3 == 0)
			drop(model, key);
		else
			ck_assert_int_eq(put(model, key, (unsigned char)i, 2000), 0);
		ledger_commit(ledger);
		if (i % 50 == 0)
			check_reopened();
		else if (i % 7 == 0)
			ck_assert(holds(ledger, model));
	}
	/* and without being opened, which ends a move */
	for (unsigned i = 0; i < 20 * KEYS; i++) {
		unsigned key = i * 13 % KEYS;

		if (model[key].present && i % 3 == 0)
			drop(model, key);
		else
			ck_assert_int_eq(put(model, key, (unsigned char)i, 2000), 0);
		ledger_commit(ledger);
		if (i % 101 == 0)
			ck_assert(holds(ledger, model));
	}
	check_reopened();
}
END_TEST

START_TEST(open__refuses_other_files)
{
	char data[200000];

	memset(data, 'x', sizeof(data));
	file_write(data, sizeof(data), 0);
	check_refused(-EBADMSG, "no ledger");
}
END_TEST

/* Each byte of the records is inverted, one after the other. */
START_TEST(open__detects_any_damage)
{
	const size_t bytes = 3 * (32 + 40);
	const off_t start = sysconf(_SC_PAGESIZE);

	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(put(model, i, (unsigned char)i, 40), 0);
	ledger_commit(ledger);
	for (size_t i = 0; i < bytes; i++) {
		off_t at = start + (off_t)i;
		unsigned char byte;

		ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
		byte ^= 0xff;
		file_write(&byte, 1, at);
		check_refused(-EBADMSG, "damaged");
		byte ^= 0xff;
		file_write(&byte, 1, at);
	}
	check_reopened();
}
END_TEST

START_TEST(open__survives_any_header)
{
	unsigned char saved[72], torn[72];

	for (unsigned i = 0; i < 40; i++)
		ck_assert_int_eq(put(model, i, (unsigned char)i, 40), 0);
	ledger_commit(ledger);
	ck_assert_int_eq(pread(fd, saved, sizeof(saved), 0), sizeof(saved));
	ledger_close(ledger);
	ledger = NULL;
	for (unsigned i = 0; i < 20000; i++) {
		memcpy(torn, saved, sizeof(torn));
		/* not the magic number, without which the file is no ledger */
		torn[8 + (unsigned)random() % 64] = (unsigned char)random();
		torn[8 + (unsigned)random() % 64] = (unsigned char)random();
		file_write(torn, sizeof(torn), 0);
		if (!ledger_open(fd, &ledger))
			ledger_close(ledger);
		ledger = NULL;
	}
	file_write(saved, sizeof(saved), 0);
	check_reopened();
}
END_TEST

/* _i: its end goes round 2^64.  Or the next area would begin at no page, and could not be read
 * again. */
START_TEST(open__refuses_an_area_that_cannot_be)
{
	struct area area;
	off_t at = (off_t)(offsetof(struct header, areas) +
			   ledger_slot(ledger) * sizeof(area));

	ck_assert_int_eq(pread(fd, &area, sizeof(area), at), sizeof(area));
	if (_i)
		area.offset = UINT64_MAX - (uint64_t)sysconf(_SC_PAGESIZE) + 1;
	else
		area.bytes -= 8;
	file_write(&area, sizeof(area), at);
	check_refused(-EBADMSG, "header is damaged");
}
END_TEST

/* A removal would be written behind the area.  _i: bytes behind the records, in units of the
 * padding; at last there is room for the one removal. */
START_TEST(open__refuses_an_area_without_room_for_removals)
{
	const unsigned page = (unsigned)sysconf(_SC_PAGESIZE);
	const unsigned left = 8 * (unsigned)_i, removal = sizeof(struct record);
	struct area area;
	off_t at = (off_t)(offsetof(struct header, areas) +
			   ledger_slot(ledger) * sizeof(area));

	ck_assert_int_eq(put(model, 0, 1, page - removal - left), 0);
	ledger_commit(ledger);
	ck_assert_int_eq(pread(fd, &area, sizeof(area), at), sizeof(area));
	area.bytes = page;
	file_write(&area, sizeof(area), at);
	if (left < removal) {
		check_refused(-EBADMSG, "damaged");
		return;
	}
	check_reopened();
	drop(model, 0);
	ledger_commit(ledger);
	check_reopened();
}
END_TEST

START_TEST(open__refuses_a_truncated_file)
{
	char byte = 0;

	ck_assert_int_eq(put(model, 0, 1, 1000), 0);
	ledger_commit(ledger);
	ck_assert_int_eq(ftruncate(fd, 2 * sysconf(_SC_PAGESIZE)), 0);
	check_refused(-EBADMSG, "header is damaged");
	ck_assert_int_eq(ftruncate(fd, 100), 0);
	check_refused(-EBADMSG, "no ledger");
	/* a file whose first write was not completed is an empty ledger */
	file_write(&byte, 1, 99999);
	for (off_t i = 0; i < 100; i++)
		file_write(&byte, 1, i);
	reopen();
	ck_assert_uint_eq(ledger_count(ledger), 0);
}
END_TEST

/* ---- a crash between any two instructions ---- */

/* Under ThreadSanitizer each access takes a hundred instructions; this case has one thread. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#ifndef __SANITIZE_THREAD__

#define GROUPS 40

/* The progress of the traced process. */
static struct progress {
	volatile unsigned begun, done; /* groups of changes */
} *progress;

/* A group of changes: values are added, changed and removed.  Values that stay make a move take
 * several groups. */
static void group_run(unsigned group, struct item *values)
{
	unsigned char seed = (unsigned char)(group * 7);

	for (unsigned i = 0; group == 0 && i < 6; i++)
		if (put(values, 40 + i, seed, 3000))
			abort();
	if (put(values, group % 5, seed, 40 + group) ||
	    put(values, 10 + group % 3, seed, group % 6 ? 1500 : 9000) ||
	    put(values, 20 + group % 7, seed, 0))
		abort();
	if (group % 2)
		drop(values, (group + 1) % 5);
	if (group % 8 == 7)
		drop(values, 10 + group % 3);
	ledger_commit(ledger);
}

static void writer_run(void)
{
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(77);
	(void)raise(SIGSTOP);
	if (ledger_open(fd, &ledger))
		_exit(1);
	for (unsigned i = 0; i < GROUPS; i++) {
		progress->begun = i + 1;
		group_run(i, model);
		progress->done = i + 1;
	}
	_exit(0);
}

/* The content of the file when it was checked last. */
static struct {
	unsigned char *bytes;
	size_t size;
} last;

/* Whether the file has changed since it was checked last. */
static bool file_changed(void)
{
	static unsigned char *map;
	static size_t mapped;
	struct stat st;
	size_t size;

	ck_assert_int_eq(fstat(fd, &st), 0);
	size = (size_t)st.st_size;
	if (size > mapped) {
		map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
		ck_assert_ptr_ne(map, MAP_FAILED);
		mapped = size;
	}
	if (size == last.size && (!size || memcmp(map, last.bytes, size) == 0))
		return false;
	if (size) {
		last.bytes = realloc(last.bytes, size);
		ck_assert_ptr_nonnull(last.bytes);
		memcpy(last.bytes, map, size);
	}
	last.size = size;
	return true;
}

/* Check what the next process would find if the traced one died here. */
static void check_copy(struct item states[GROUPS + 1][KEYS], unsigned *found)
{
	struct ledger *next = NULL;
	int copy = memfd();
	bool before, after;

	if (last.size)
		ck_assert_int_eq(write(copy, last.bytes, last.size),
				 (ssize_t)last.size);
	ck_assert_msg(ledger_open(copy, &next) == 0, "in group %u: %s", progress->begun,
		      err_text());
	before = holds(next, states[progress->done]);
	after = holds(next, states[progress->begun]);
	ck_assert_msg(before || after, "group %u is half done", progress->begun);
	/* a group that was found is found from then on */
	ck_assert_msg(after || *found < progress->begun, "group %u is undone",
		      progress->begun);
	if (after)
		*found = progress->begun;
	ledger_close(next);
	(void)close(copy);
}

/* RMEM_LEDGER_STRIDE: only every n-th store is followed by a check; which ones differs in each
 * run. */
static unsigned stride_of(void)
{
	const char *value = getenv("RMEM_LEDGER_STRIDE");
	unsigned stride = value ? (unsigned)atoi(value) : 8;

	ck_assert_uint_ge(stride, 1);
	return stride;
}

START_TEST(crash__between_any_two_instructions_loses_no_commit)
{
	static struct item states[GROUPS + 1][KEYS];
	unsigned stride = stride_of(), stores = (unsigned)(random_u64() % stride);
	unsigned steps = 0, n_checks = 0, found = 0, began = 0;
	bool spread = false;
	uint64_t slot;
	int status;
	pid_t pid;

	for (unsigned i = 0; i < GROUPS; i++) {
		memcpy(states[i + 1], states[i], sizeof(states[i]));
		slot = ledger_slot(ledger);
		work = (struct work){ 0 };
		group_run(i, states[i + 1]);
		if (work.allocated)
			began = i;
		spread |= ledger_slot(ledger) != slot && i > began + 2;
	}
	/* a move takes several commits */
	ck_assert(spread);
	ck_assert(holds(ledger, states[GROUPS]));
	ledger_close(ledger);
	(void)close(fd);
	ledger = NULL;
	fd = memfd();
	progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(progress, MAP_FAILED);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		writer_run();
	for (;;) {
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		if (WIFEXITED(status) || WIFSIGNALED(status))
			break;
		if (file_changed() && stores++ % stride == 0) {
			check_copy(states, &found);
			n_checks++;
		}
		ck_assert_int_eq(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		steps++;
	}
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x",
		      status);
	printf("# %u instructions, %u stores, %u checks\n", steps, stores, n_checks);
	check_copy(states, &found);
	ck_assert_uint_eq(found, GROUPS);
	/* several in each group, however wide the stores of this compiler are */
	ck_assert_uint_gt(n_checks, 5 * GROUPS);
	ck_assert_int_eq(ledger_open(fd, &ledger), 0);
	ck_assert(holds(ledger, states[GROUPS]));
}
END_TEST

#endif

int main(void)
{
	TCase *tc = unit_case("ledger", setup, teardown);

	tcase_set_timeout(tc, 900);
	tcase_add_test(tc, commit__keeps_staged_values);
	tcase_add_test(tc, close__drops_staged_values);
	tcase_add_test(tc, put__refuses_a_large_value);
	tcase_add_test(tc, put__of_the_same_value_writes_nothing);
	tcase_add_test(tc, random_operations__agree_with_a_model);
	tcase_add_test(tc, walk__is_in_order_and_may_change_the_ledger);
	tcase_add_loop_test(tc, remove__works_in_a_full_ledger, 0, 4);
	tcase_add_test(tc, reserve__needs_no_memory_later);
	tcase_add_test(tc, full__what_is_lent_leaves_room_for_its_users);
	tcase_add_loop_test(tc, open__refuses_another_version, 0, 2);
	tcase_add_test(tc, compact__needs_little_space);
	tcase_add_test(tc, commit__does_a_small_part_of_a_move);
	tcase_add_test(tc, move__follows_the_changes_meanwhile);
	tcase_add_test(tc, open__refuses_other_files);
	tcase_add_test(tc, open__detects_any_damage);
	tcase_add_test(tc, open__survives_any_header);
	tcase_add_loop_test(tc, open__refuses_an_area_that_cannot_be, 0, 2);
	tcase_add_loop_test(tc, open__refuses_an_area_without_room_for_removals, 0,
			    sizeof(struct record) / 8 + 1);
	tcase_add_test(tc, open__refuses_a_truncated_file);
#ifndef __SANITIZE_THREAD__
	tcase_add_test(tc, crash__between_any_two_instructions_loses_no_commit);
#endif
	return unit_main();
}
