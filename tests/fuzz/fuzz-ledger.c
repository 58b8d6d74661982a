/* SPDX-License-Identifier: BSD-3-Clause */
/* A damaged ledger: it is refused with a text, or read.  Either the bytes of the file are damaged,
 * or, with valid checksums, the values of sessions, leases and replies, which are restored then
 * over the daemon's own pools: no memory is in two leases or outside of its pool. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "fuzz/real-pools.h"
#include "fuzz/target.h"
#include "rmemd/lease/ledger_record.h"
#include "rmemd/state/ledger_file.h"
#include "rmemd/state/ledger_value.h"
#include "unit/rmemd/control-stage.h"

#define VALUES_MAX 32
#define VALUE_MAX 4096u /* bytes: more than a lease with too many segments has */
#define EDITS_MAX 16
#define FILE_MAX (UINT32_C(1) << 20)
#define KINDS 8

const unsigned fuzz_rounds = 15000;

/* ---- the bytes of the file ---- */

enum mode { MODE_VALUES, MODE_FILE, MODE_FILE_REPAIRED, MODES };

static int open_expect(int fd, struct ledger **ret_ledger)
{
	int err;

	err_clear();
	err = ledger_open(fd, ret_ledger);
	ck_assert(!err || err_text()[0] != '\0');
	return err;
}

static void put_values(struct ledger *ledger, struct fuzz_input *input)
{
	static const char bytes[256];

	for (unsigned i = 0; i < VALUES_MAX && input->left > 0; i++) {
		const struct ledger_key key = { (uint32_t)fuzz_number(input, 1) % KINDS,
						fuzz_number(input, 1), 0 };
		unsigned n = (unsigned)fuzz_number(input, 1);

		if (n == 0)
			ledger_remove(ledger, &key);
		else
			ck_assert_int_eq(ledger_put(ledger, &key, bytes, n), 0);
		if (n % 4 == 0)
			ledger_commit(ledger);
	}
	ledger_commit(ledger);
}

/* Make the checksums of the records right, as far as there are records. */
static void file_repair(char *map, size_t bytes)
{
	const struct header *head = (const struct header *)(const void *)map;
	uint64_t slot = head->active, at, end;

	if (slot > 1)
		return;
	at = head->areas[slot].offset;
	end = at + head->areas[slot].end;
	if (at % 8 || at > bytes || end < at || end > bytes)
		return;
	while (end - at >= sizeof(struct record)) {
		struct record *record = (struct record *)(void *)(map + at);

		if (record->bytes > LEDGER_VALUE_MAX || record_bytes(record) > end - at)
			return;
		record->crc = record_crc(record);
		at += record_bytes(record);
	}
}

static void file_edit(int fd, struct fuzz_input *input, bool repair)
{
	uint32_t bytes = (uint32_t)fuzz_number(input, 4) % FILE_MAX;
	unsigned n = (unsigned)fuzz_number(input, 1) % EDITS_MAX;
	off_t size = lseek(fd, 0, SEEK_END);
	char *map;

	if (bytes > 0 && ftruncate(fd, bytes) == 0)
		size = bytes;
	map = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	for (; n > 0; n--) {
		/* the header, or the records, which begin with the second page */
		size_t at = fuzz_number(input, 2);
		uint8_t value = (uint8_t)fuzz_number(input, 1);

		if (at < (size_t)size)
			map[at] = (char)value;
	}
	if (repair && (size_t)size >= sizeof(struct header))
		file_repair(map, (size_t)size);
	(void)munmap(map, (size_t)size);
}

static int count(const struct ledger_key *, const void *value, size_t bytes, void *arg)
{
	const char *at = value;
	unsigned *sum = arg;

	for (size_t i = 0; i < bytes; i++)
		*sum += (unsigned char)at[i];
	return 0;
}

static void test_file(struct fuzz_input *input, bool repair)
{
	int fd = memfd_create("fuzz-ledger", MFD_CLOEXEC);
	struct ledger *ledger;
	unsigned sum = 0;
	size_t n;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(open_expect(fd, &ledger), 0);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(ledger_put(ledger, &(struct ledger_key){ i, i, i },
					    "value", i + 1),
				 0);
	ledger_commit(ledger);
	ledger_close(ledger);
	file_edit(fd, input, repair);
	if (open_expect(fd, &ledger) == 0) {
		for (unsigned i = 0; i < KINDS; i++)
			(void)ledger_each(ledger, i, count, &sum);
		put_values(ledger, input);
		n = ledger_count(ledger);
		ledger_close(ledger);
		/* what was written to it is read again */
		ck_assert_int_eq(open_expect(fd, &ledger), 0);
		ck_assert_uint_eq(ledger_count(ledger), n);
		ledger_close(ledger);
	}
	(void)close(fd);
}

/* ---- the values ---- */

static void on_lost(void *, uint64_t, const char *, const char *, const char *why)
{
	ck_assert_str_ne(why, "");
}

static void on_detached(void *, uint64_t, uint64_t)
{
}

/* The length of a value's head goes before it. */
static void value_read(struct fuzz_input *input)
{
	const struct ledger_key key = { (uint32_t)fuzz_number(input, 1) % KINDS,
					fuzz_number(input, 1), fuzz_number(input, 1) };
	char value[sizeof(uint32_t) + VALUE_MAX];
	uint32_t head_bytes = (uint32_t)fuzz_number(input, 1);
	size_t n;
	const uint8_t *bytes = fuzz_bytes(input, fuzz_number(input, 2) % VALUE_MAX, &n);

	memcpy(value, &head_bytes, sizeof(head_bytes));
	memcpy(value + sizeof(head_bytes), bytes, n);
	ck_assert_int_eq(
		ledger_put(stage_control.ledger, &key, value, sizeof(head_bytes) + n),
		0);
}

static void test_values(struct fuzz_input *input)
{
	const struct leases_restore with = { .tenant = control_find_tenant,
					     .client = sessions_lease_client,
					     .lost = on_lost,
					     .detached = on_detached,
					     .ctx = &stage_control };

	control_setup();
	for (unsigned i = 0; i < VALUES_MAX && input->left > 0; i++)
		value_read(input);
	ledger_commit(stage_control.ledger);
	err_clear();
	if (control_restart_with(&with) == 0) {
		real_pools_check();
		control_teardown();
		return;
	}
	ck_assert_str_ne(err_text(), "");
	control_close_tables();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	enum mode mode = (enum mode)(fuzz_number(&input, 1) % MODES);

	fuzz_random_reset();
	if (mode == MODE_VALUES)
		test_values(&input);
	else
		test_file(&input, mode == MODE_FILE_REPAIRED);
	return 0;
}

/* ---- valid inputs ---- */

/* A value as value_read() reads it. */
static int put_value(const struct ledger_key *key, const void *value, size_t bytes,
		     void *arg)
{
	struct fuzz_output *output = arg;
	const char *at = value;
	uint32_t head_bytes;

	memcpy(&head_bytes, value, sizeof(head_bytes));
	fuzz_put(output, key->kind, 1);
	fuzz_put(output, key->a, 1);
	fuzz_put(output, key->b, 1);
	fuzz_put(output, head_bytes, 1);
	fuzz_put(output, bytes - sizeof(head_bytes), 2);
	fuzz_put_bytes(output, at + sizeof(head_bytes), bytes - sizeof(head_bytes));
	return 0;
}

/* What the daemon writes for two sessions with leases. */
static void seed_values(struct fuzz_output *output)
{
	struct client one, two;

	fuzz_random_reset();
	control_setup();
	client_open_connected(&one);
	(void)client_allocate(&one, 8000, "named");
	(void)client_allocate(&one, 4096, "");
	client_open_as(&two, "other");
	(void)client_allocate(&two, 100, "other");
	client_fail(&two, to_attach("none"), -ENOENT);
	fuzz_put(output, MODE_VALUES, 1);
	for (uint32_t kind = 0; kind < KINDS; kind++)
		(void)ledger_each(stage_control.ledger, kind, put_value, output);
	client_lose(&one);
	client_lose(&two);
	control_teardown();
}

/* A lease with one segment too many. */
static void seed_segments(struct fuzz_output *output)
{
	static char value[VALUE_MAX];
	const unsigned n = WIRE_SEGMENTS_MAX + 1;
	const struct lease_head head = { .head_bytes = sizeof(head),
					 .n_segments = n,
					 .bytes = n * 100,
					 .generation = 1,
					 .node = -1 };
	char *end = value_add(value, &head, sizeof(head));

	for (unsigned i = 0; i < n; i++) {
		const struct segment_row row = {
			.offset = i * REAL_PAGE, .bytes = 100, .dirty = 100, .pool = 1
		};

		end = value_add(end, &row, sizeof(row));
	}
	end = value_add_text(end, "default", WIRE_LABEL_MAX);
	end = value_add_text(end, "name", WIRE_NAME_MAX);
	fuzz_put(output, MODE_VALUES, 1);
	(void)put_value(&(struct ledger_key){ LEDGER_LEASE, 1, 0 }, value,
			(size_t)(end - value), output);
}

static void seed_file(struct fuzz_output *output, enum mode mode)
{
	fuzz_put(output, mode, 1);
	fuzz_put(output, 0, 4);
	fuzz_put(output, 2, 1);
	/* a header's area, and a record's key */
	fuzz_put(output, offsetof(struct header, areas), 2);
	fuzz_put(output, 0, 1);
	fuzz_put(output, 4096 + offsetof(struct record, a), 2);
	fuzz_put(output, 9, 1);
	for (unsigned i = 0; i < 12; i++) {
		fuzz_put(output, i, 1);
		fuzz_put(output, i / 2, 1);
		fuzz_put(output, 20 * (i % 5), 1);
	}
}

size_t fuzz_seed(uint8_t *input, size_t max, unsigned which)
{
	struct fuzz_output output = { input, 0, max };

	if (which == 0)
		seed_values(&output);
	else if (which < MODES)
		seed_file(&output, (enum mode)which);
	else if (which == MODES)
		seed_segments(&output);
	return output.used;
}
