/* SPDX-License-Identifier: BSD-3-Clause */
/* What the service manager kept and nobody wants any more is the host's at once, though the
 * manager still has its descriptor. */
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
#include "rmemd/state/ledger_kinds.h"
#include "rmemd/state/ledger.h"
#include "unit/unit.h"

#define FILE_BYTES 65536

static int managers[3]; /* descriptors of the ledger and two pools */
static struct systemd_fds fds;

static void kept_add(unsigned i, const char *name)
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

static void setup(void)
{
	kept_add(0, "ledger");
	kept_add(1, "pool-1");
	kept_add(2, "pool-2");
}

static void teardown(void)
{
	for (unsigned i = 0; i < 3; i++)
		(void)close(managers[i]);
}

/* The memory behind what the manager has. */
static blkcnt_t blocks(unsigned i)
{
	struct stat st;

	ck_assert_int_eq(fstat(managers[i], &st), 0);
	return st.st_blocks;
}

START_TEST(drop__frees_one_pool)
{
	struct fdstore *keep;
	int fd;

	ck_assert_msg(fdstore_open("", &fds, &keep) == 0, "%s", err_text());
	ck_assert_int_eq(fdstore_find_pool(keep, 1, &fd), 0);
	ck_assert_int_gt(fd, 0);
	fdstore_drop_pool(keep, 1);
	ck_assert_int_eq(blocks(1), 0);
	ck_assert_int_gt(blocks(2), 0);
	ck_assert_int_eq(fdstore_find_pool(keep, 1, &fd), 0);
	ck_assert_int_eq(fd, 0);
	fdstore_close(keep);
	ck_assert_int_gt(blocks(2), 0);
}
END_TEST

START_TEST(sweep__frees_those_that_the_ledger_has_not)
{
	const uint32_t known = 2;
	struct fdstore *keep;

	ck_assert_msg(fdstore_open("", &fds, &keep) == 0, "%s", err_text());
	ck_assert_int_eq(fdstore_sweep(keep, &known, 1), 0);
	ck_assert_int_eq(blocks(1), 0);
	ck_assert_int_gt(blocks(2), 0);
	fdstore_close(keep);
}
END_TEST

/* _i: something is lent */
START_TEST(directory__frees_all_unless_it_is_lent)
{
	const struct ledger_key key = { LEDGER_LEASE, 1, 0 };
	char dir[] = "/tmp/rmem-keep-XXXXXX", file[64];
	struct ledger *ledger;
	struct fdstore *keep;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	(void)snprintf(file, sizeof(file), "%s/ledger", dir);
	ck_assert_msg(ledger_open(managers[0], &ledger) == 0, "%s", err_text());
	if (_i) {
		ck_assert_int_eq(ledger_put(ledger, &key, "x", 1), 0);
		ledger_commit(ledger);
	}
	ledger_close(ledger);
	if (_i) {
		ck_assert_int_eq(fdstore_open(dir, &fds, &keep), -EINVAL);
	} else {
		ck_assert_msg(fdstore_open(dir, &fds, &keep) == 0, "%s", err_text());
		fdstore_close(keep);
	}
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(blocks(i) > 0, _i);
	ck_assert_int_eq(unlink(file), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("keep");
	TCase *tc = tcase_create("keep");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, drop__frees_one_pool);
	tcase_add_test(tc, sweep__frees_those_that_the_ledger_has_not);
	tcase_add_loop_test(tc, directory__frees_all_unless_it_is_lent, 0, 2);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
