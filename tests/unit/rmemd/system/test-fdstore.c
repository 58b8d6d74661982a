/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of unused files of the descriptor store is freed at once, though the service manager
 * still has the descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "rmemd/system/fdstore.h"
#include "rmemd/state/ledger_value.h"
#include "rmemd/state/ledger.h"
#include "unit/unit.h"

#define FILE_BYTES 65536

static int managers[3]; /* descriptors of the ledger and two pools */
static struct systemd_fds fds;
static struct fdstore *fdstore;

static void add_file(unsigned i, const char *name)
{
	static const char bytes[FILE_BYTES] = "lent";

	managers[i] = memfd_create(name, MFD_CLOEXEC);
	ck_assert_int_ge(managers[i], 0);
	if (i > 0)
		ck_assert_int_eq(write(managers[i], bytes, sizeof(bytes)), FILE_BYTES);
	(void)snprintf(fds.kept[i].name, sizeof(fds.kept[i].name), "%s", name);
	fds.kept[i].fd = fcntl(managers[i], F_DUPFD_CLOEXEC, 3);
	ck_assert_int_ge(fds.kept[i].fd, 0);
	fds.n_kept = i + 1;
}

static void open_fdstore(const char *directory)
{
	ck_assert_msg(fdstore_open(directory, &fds, &fdstore) == 0, "%s", err_text());
}

static void setup(void)
{
	add_file(0, "ledger");
	add_file(1, "pool-1");
	add_file(2, "pool-2");
}

static void teardown(void)
{
	for (unsigned i = 0; i < 3; i++)
		(void)close(managers[i]);
}

/* The blocks of memory of a file. */
static blkcnt_t blocks(unsigned i)
{
	struct stat st;

	ck_assert_int_eq(fstat(managers[i], &st), 0);
	return st.st_blocks;
}

START_TEST(drop__frees_one_pool)
{
	int fd;

	open_fdstore("");
	ck_assert_int_eq(fdstore_find_pool(fdstore, 1, &fd), 0);
	ck_assert_int_gt(fd, 0);
	fdstore_drop_pool(fdstore, 1);
	ck_assert_int_eq(blocks(1), 0);
	ck_assert_int_gt(blocks(2), 0);
	ck_assert_int_eq(fdstore_find_pool(fdstore, 1, &fd), 0);
	ck_assert_int_eq(fd, 0);
	fdstore_close(fdstore);
	ck_assert_int_gt(blocks(2), 0);
}
END_TEST

START_TEST(sweep__frees_pools_unknown_to_the_ledger)
{
	const uint32_t known = 2;

	open_fdstore("");
	ck_assert_int_eq(fdstore_sweep(fdstore, &known, 1), 0);
	ck_assert_int_eq(blocks(1), 0);
	ck_assert_int_gt(blocks(2), 0);
	fdstore_close(fdstore);
}
END_TEST

/* _i: memory is lent */
START_TEST(directory__frees_all_unless_memory_is_lent)
{
	const struct ledger_key key = { LEDGER_LEASE, 1, 0 };
	char dir[] = "/tmp/rmem-fdstore-XXXXXX", file[64];
	struct ledger *ledger;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	(void)snprintf(file, sizeof(file), "%s/ledger", dir);
	ck_assert_msg(ledger_open(managers[0], &ledger) == 0, "%s", err_text());
	if (_i) {
		ck_assert_int_eq(ledger_put(ledger, &key, "x", 1), 0);
		ledger_commit(ledger);
	}
	ledger_close(ledger);
	if (_i) {
		ck_assert_int_eq(fdstore_open(dir, &fds, &fdstore), -EINVAL);
	} else {
		open_fdstore(dir);
		fdstore_close(fdstore);
	}
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(blocks(i) > 0, _i);
	ck_assert_int_eq(unlink(file), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* _i: a file is there instead of no directory */
START_TEST(directory__that_is_missing_is_named)
{
	static const char *const causes[] = { "there is no such directory",
					      "it is not a directory" };
	char dir[] = "/tmp/rmem-fdstore-XXXXXX", path[64], text[256];

	ck_assert_ptr_nonnull(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/state", dir);
	if (_i) {
		int fd = creat(path, 0600);

		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(close(fd), 0);
	}
	ck_assert_int_eq(fdstore_open(path, &fds, &fdstore), -EINVAL);
	(void)snprintf(
		text, sizeof(text),
		"[server] state = %s: %s: make it, on tmpfs or hugetlbfs, for the "
		"user of rmemd alone: mkdir -m 700 %s",
		path, causes[_i], path);
	ck_assert_str_eq(err_text(), text);
	ck_assert_int_eq(unlink(path), _i ? 0 : -1);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("fdstore", setup, teardown);

	tcase_add_test(tc, drop__frees_one_pool);
	tcase_add_test(tc, sweep__frees_pools_unknown_to_the_ledger);
	tcase_add_loop_test(tc, directory__frees_all_unless_memory_is_lent, 0, 2);
	tcase_add_loop_test(tc, directory__that_is_missing_is_named, 0, 2);
	return unit_main();
}
