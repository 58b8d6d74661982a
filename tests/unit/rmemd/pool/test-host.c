/* SPDX-License-Identifier: BSD-3-Clause */
/* The free memory of a host, which is made of files, and the shares of pools in it. */
#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/err.h"
#include "base/units.h"
#include "unit/rmemd/pool/host-files.h"
#include "unit/rmemd/pool/pools-case.h"
#include "rmemd/pool/host.h"
#include "rmemd/pool/capacity.h"

static void host_setup(void)
{
	host_files_setup();
	host_file("/proc/meminfo", "MemTotal: 8 kB\nMemAvailable:   4194304 kB\n");
	host_file("/sys/devices/system/node/node0/meminfo",
		  "Node 0 MemFree:        1024 kB\nNode 0 Active(file): 1024 kB\n");
	host_file("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
		  "always within_size advise [never] deny force\n");
	host_file("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "10\n");
	host_file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "7\n");
	host_file("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "4\n");
	host_file("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages",
		  "0\n");
	host_file("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/"
		  "nr_hugepages",
		  "10\n");
	host_file("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/"
		  "free_hugepages",
		  "7\n");
}

/* The host has huge pages of this size, all free. */
static void huge_pages(const char *size, unsigned n)
{
	char path[128], number[16];

	(void)snprintf(number, sizeof(number), "%u\n", n);
	(void)snprintf(path, sizeof(path),
		       "/sys/kernel/mm/hugepages/hugepages-%s/nr_hugepages", size);
	host_file(path, number);
	(void)snprintf(path, sizeof(path),
		       "/sys/kernel/mm/hugepages/hugepages-%s/free_hugepages", size);
	host_file(path, number);
}

static void host_teardown(void)
{
	pools_teardown();
	host_files_teardown();
}

START_TEST(host__counts_huge_pages_without_reservation)
{
	struct host_huge huge;

	ck_assert_int_eq(host_huge_pages(2 * MIB, -1, &huge), 0);
	ck_assert_uint_eq(huge.total, 10);
	ck_assert_uint_eq(huge.free, 3);
	ck_assert(!huge.overcommit);
	ck_assert_int_eq(host_huge_pages(2 * MIB, 0, &huge), 0);
	ck_assert_uint_eq(huge.free, 7);
	ck_assert_int_eq(host_huge_pages(1024 * MIB, -1, &huge), -ENOENT);
}
END_TEST

START_TEST(host__reports_free_memory_of_a_node)
{
	uint64_t bytes = 0;

	ck_assert_int_eq(host_available(-1, &bytes), 0);
	ck_assert_uint_eq(bytes, 4096 * MIB);
	ck_assert_int_eq(host_available(0, &bytes), 0);
	ck_assert_uint_eq(bytes, 2 * MIB);
	ck_assert_int_eq(host_available(3, &bytes), -ENOENT);
}
END_TEST

START_TEST(host__reports_mounts_with_huge_pages)
{
	char path[HOST_MOUNT_BYTES];
	bool allowed = true;

	ck_assert_int_eq(host_mount_thp(makedev(0, 30), &allowed, path), -ENOENT);
	host_file("/proc/self/mountinfo",
		  "21 1 0:20 / / rw - ext4 /dev/huge=advise rw\n"
		  "36 21 0:30 / /small rw,nosuid shared:1 - tmpfs tmpfs rw,size=8k\n"
		  "37 21 0:31 / /large rw - tmpfs none rw,size=8k,huge=advise\n"
		  "38 21 0:32 / /never rw - tmpfs none rw,huge=never\n");
	ck_assert_int_eq(host_mount_thp(makedev(0, 30), &allowed, path), 0);
	ck_assert(!allowed);
	ck_assert_str_eq(path, "/small");
	ck_assert_int_eq(host_mount_thp(makedev(0, 31), &allowed, path), 0);
	ck_assert(allowed);
	ck_assert_str_eq(path, "/large");
	ck_assert_int_eq(host_mount_thp(makedev(0, 32), &allowed, path), 0);
	ck_assert(!allowed);
	ck_assert_int_eq(host_mount_thp(makedev(1, 31), &allowed, path), -ENOENT);
}
END_TEST

START_TEST(open__explains_missing_huge_pages)
{
	ck_assert_int_eq(open_params(40 * MIB, POOL_NODE_ANY, POOL_PAGES_2M), -ENOMEM);
	ck_assert_str_eq(
		err_text(),
		"pool 'a': 20 pages of 2M wanted on this host, 3 free there: "
		"echo 27 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
	ck_assert_int_eq(open_params(40 * MIB, 0, POOL_PAGES_2M), -ENOMEM);
	ck_assert_str_eq(err_text(),
			 "pool 'a': 20 pages of 2M wanted on node 0, 7 free there: "
			 "echo 23 > /sys/devices/system/node/node0/hugepages/"
			 "hugepages-2048kB/nr_hugepages");
	ck_assert_int_eq(open_params(1024 * MIB, 0, POOL_PAGES_1G), -EINVAL);
	ck_assert_str_eq(err_text(), "pool 'a': this CPU or kernel has no pages of 1G, "
				     "it has 2M");
	ck_assert_int_eq(open_params(MIB, POOL_NODE_ANY, POOL_PAGES_THP), -ENOMEM);
	ck_assert_str_eq(err_text(),
			 "pool 'a': the kernel gives shared memory no transparent huge "
			 "pages (never): echo advise > "
			 "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
}
END_TEST

START_TEST(open__auto_notes_why_pages_are_smaller)
{
	const struct pool_params params =
		POOL("a", POOL_NODE_ANY, 32 * MIB, POOL_PAGES_AUTO);

	huge_pages("1048576kB", 8);
	open_pools(&params, 1);
	ck_assert_int_eq(opened.pages_asked, POOL_PAGES_AUTO);
	ck_assert_int_eq(opened.pages_got, POOL_PAGES_BASE);
	ck_assert_ptr_nonnull(
		strstr(opened_note, "not 1G: the size is no multiple of it"));
	ck_assert_ptr_nonnull(strstr(opened_note, "not 2M: 16 pages of 2M wanted"));
	ck_assert_ptr_nonnull(strstr(opened_note, "not thp: "));
}
END_TEST

/* ---- other sizes than those of x86 ---- */

#define PAGES_32M ((enum pool_pages)25)
#define PAGES_512M ((enum pool_pages)29)
#define PAGES_16G ((enum pool_pages)34)

START_TEST(sizes__are_those_of_the_kernel)
{
	enum pool_pages pages[POOL_PAGES_END];

	/* arm64 with base pages of 64 KiB */
	huge_pages("524288kB", 2);
	huge_pages("16777216kB", 0);
	huge_pages("64kB", 0);
	ck_assert_uint_eq(pages_huge(pages), 4);
	ck_assert_int_eq(pages[0], PAGES_16G);
	ck_assert_int_eq(pages[1], PAGES_512M);
	ck_assert_int_eq(pages[2], POOL_PAGES_2M);
	ck_assert_str_eq(pool_pages_name(pages[3]), "64K");
	ck_assert_uint_eq(pages_bytes(PAGES_16G), 16384 * MIB);
	ck_assert_int_eq(open_params(1536 * MIB, POOL_NODE_ANY, PAGES_512M), -ENOMEM);
	ck_assert_str_eq(
		err_text(),
		"pool 'a': 3 pages of 512M wanted on this host, 2 free there: echo 3 > "
		"/sys/kernel/mm/hugepages/hugepages-524288kB/nr_hugepages");
	ck_assert_int_eq(open_params(1024 * MIB, POOL_NODE_ANY, PAGES_16G), -ENOMEM);
	ck_assert_str_eq(
		err_text(),
		"pool 'a': 1 page of 16G wanted on this host, 0 free there: echo 1 > "
		"/sys/kernel/mm/hugepages/hugepages-16777216kB/nr_hugepages, or "
		"hugepagesz=16G hugepages=N on the kernel's command line");
	ck_assert_int_eq(open_params(MIB, POOL_NODE_ANY, POOL_PAGES_1G), -EINVAL);
	ck_assert_str_eq(err_text(), "pool 'a': this CPU or kernel has no pages of 1G, "
				     "it has 16G, 512M, 2M, 64K");
}
END_TEST

START_TEST(names__are_of_their_lengths)
{
	unsigned n = 0;

	for (unsigned pages = POOL_PAGES_HUGE; pages < POOL_PAGES_END; pages++) {
		const char *name = pool_pages_name((enum pool_pages)pages);
		uint64_t bytes = 0;

		ck_assert_ptr_nonnull(name);
		ck_assert_int_eq(units_parse_bytes(name, &bytes), 0);
		ck_assert_uint_eq(bytes, pages_bytes((enum pool_pages)pages));
		n++;
	}
	ck_assert_uint_eq(n, 23);
	ck_assert_ptr_null(pool_pages_name((enum pool_pages)1));
	ck_assert_ptr_null(pool_pages_name(POOL_PAGES_END));
}
END_TEST

/* This kernel has none. */
START_TEST(file__is_on_pages_of_the_size)
{
	huge_pages("32768kB", 4);
	ck_assert_int_eq(open_params(64 * MIB, POOL_NODE_ANY, PAGES_32M), -ENODEV);
	ck_assert_str_eq(err_text(),
			 "pool 'a': memfd_create with pages of 32M: No such device");
}
END_TEST

START_TEST(automatic_pages__do_not_round_up_much)
{
	const struct pool_params params =
		POOL("a", POOL_NODE_ANY, 48 * MIB, POOL_PAGES_AUTO);

	huge_pages("32768kB", 4);
	huge_pages("524288kB", 4);
	host_file("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "536870912\n");
	ck_assert_uint_eq(pages_bytes(POOL_PAGES_THP), 512 * MIB);
	open_pools(&params, 1);
	ck_assert_int_eq(opened.pages_got, POOL_PAGES_BASE);
	ck_assert_uint_eq(opened.bytes, 48 * MIB);
	ck_assert_ptr_nonnull(
		strstr(opened_note, "not 512M: the size is no multiple of it"));
	ck_assert_ptr_nonnull(
		strstr(opened_note, "not 32M: the size is no multiple of it"));
	ck_assert_ptr_nonnull(strstr(opened_note, "not 2M: 24 pages of 2M wanted"));
	ck_assert_ptr_nonnull(
		strstr(opened_note, "not thp: the size is no multiple of it"));
}
END_TEST

/* ---- shares ---- */

#define AUTO(of_node, of_pages, of_share) SHARE("a", of_node, of_pages, of_share, false)
#define KEPT(of_node, of_pages, of_share) SHARE("k", of_node, of_pages, of_share, true)
#define SHARE(of_name, of_node, of_pages, of_share, is_kept) \
	{                                                    \
		.name = of_name,                             \
		.node = (of_node),                           \
		.bytes = POOL_BYTES_AUTO,                    \
		.pages = (of_pages),                         \
		.share = (of_share),                         \
		.kept = is_kept,                             \
	}

/* The share of pool i in 1200 MiB of free memory. */
static uint64_t share_of_1200_mib(const struct pool_params params[3], size_t i)
{
	return capacity_share_bytes(
		capacity_share(params, 3, i, capacity_kind(params[2].pages)),
		1200 * MIB, 2 * MIB);
}

static const struct {
	struct pool_params params[3];
	uint64_t mib[3]; /* of 1200 MiB free of the last pool's kind */
} divisions[] = {
	/* without a share, alone on a node: all huge pages, or half of the memory */
	{ { AUTO(0, POOL_PAGES_2M, 0), AUTO(1, POOL_PAGES_2M, 0),
	    AUTO(-1, POOL_PAGES_2M, 0) },
	  { 1200, 1200, 1200 } },
	{ { AUTO(0, POOL_PAGES_THP, 0), AUTO(1, POOL_PAGES_AUTO, 0),
	    AUTO(2, POOL_PAGES_BASE, 0) },
	  { 600, 600, 600 } },
	/* the others get equal parts of the rest */
	{ { AUTO(0, POOL_PAGES_BASE, 30), AUTO(0, POOL_PAGES_THP, 0),
	    AUTO(0, POOL_PAGES_BASE, 0) },
	  { 360, 120, 120 } },
	{ { AUTO(0, POOL_PAGES_2M, 0), AUTO(0, POOL_PAGES_AUTO, 40),
	    AUTO(0, POOL_PAGES_2M, 0) },
	  { 360, 480, 360 } },
	/* other kinds and pools of a fixed size do not count */
	{ { AUTO(0, POOL_PAGES_1G, 90), POOL("b", 0, MIB, POOL_PAGES_2M),
	    AUTO(0, POOL_PAGES_2M, 0) },
	  { 0, 0, 1200 } },
	/* no share is left; a pool with automatic pages uses the next kind */
	{ { AUTO(0, POOL_PAGES_2M, 100), AUTO(0, POOL_PAGES_AUTO, 0),
	    AUTO(0, POOL_PAGES_2M, 0) },
	  { 1200, 0, 0 } },
};

START_TEST(share__is_divided)
{
	const struct pool_params *params = divisions[_i].params;
	unsigned kind = capacity_kind(params[2].pages);

	for (size_t i = 0; i < 3; i++)
		if (divisions[_i].mib[i])
			ck_assert_uint_eq(share_of_1200_mib(params, i),
					  divisions[_i].mib[i] * MIB);
	if (!divisions[_i].mib[2])
		ck_assert_uint_eq(capacity_share(params, 3, 2, kind).parts, 0);
}
END_TEST

START_TEST(share__is_in_whole_pages)
{
	ck_assert_uint_eq(
		capacity_share_bytes((struct share){ 33, 100 }, 10 * MIB, 2 * MIB),
		2 * MIB);
	ck_assert_uint_eq(
		capacity_share_bytes((struct share){ 19, 100 }, 10 * MIB, 2 * MIB), 0);
	/* no overflow */
	ck_assert_uint_eq(
		capacity_share_bytes((struct share){ 100, 100 }, UINT64_MAX, 1),
		UINT64_MAX);
}
END_TEST

static const struct {
	struct pool_params params[2];
	size_t which; /* the pool in error; 2: none */
	const char *text;
} sums[] = {
	{ { AUTO(0, POOL_PAGES_2M, 60), AUTO(1, POOL_PAGES_2M, 60) }, 2, NULL },
	{ { AUTO(0, POOL_PAGES_2M, 60), AUTO(0, POOL_PAGES_1G, 60) }, 2, NULL },
	{ { AUTO(0, PAGES_512M, 60), AUTO(0, PAGES_512M, 60) },
	  1,
	  "pool 'a': the shares of the pools of node 0 come to 120% of its free pages "
	  "of "
	  "512M" },
	{ { AUTO(0, POOL_PAGES_2M, 100), AUTO(0, POOL_PAGES_AUTO, 0) }, 2, NULL },
	{ { AUTO(0, POOL_PAGES_AUTO, 60), AUTO(0, POOL_PAGES_2M, 60) },
	  1,
	  "pool 'a': the shares of the pools of node 0 come to 120% of its free pages "
	  "of "
	  "2M" },
	{ { AUTO(-1, POOL_PAGES_BASE, 0), AUTO(-1, POOL_PAGES_THP, 50) },
	  0,
	  "pool 'a': without a share it has what the others of any node, with 50%, "
	  "leave "
	  "of 50% of its free memory: nothing" },
};

START_TEST(sum_of_shares__is_at_most_100_per_cent)
{
	size_t which = 2;

	ck_assert_int_eq(capacity_check_shares(sums[_i].params, 2, &which),
			 sums[_i].text ? -EINVAL : 0);
	ck_assert_uint_eq(which, sums[_i].which);
	if (sums[_i].text)
		ck_assert_str_eq(err_text(), sums[_i].text);
}
END_TEST

static const struct {
	struct pool_params params[3];
	size_t n_kept;   /* the first of them */
	uint64_t mib[3]; /* of 1200 MiB that the kept pools leave */
} left_over[] = {
	{ { KEPT(0, POOL_PAGES_2M, 0), AUTO(0, POOL_PAGES_2M, 0),
	    AUTO(0, POOL_PAGES_2M, 0) },
	  1,
	  { 0, 600, 600 } },
	{ { KEPT(0, POOL_PAGES_AUTO, 0), KEPT(0, POOL_PAGES_BASE, 40),
	    AUTO(0, POOL_PAGES_BASE, 0) },
	  2,
	  { 0, 0, 600 } },
	/* the kept pool has all memory of its time; the rest has become free since */
	{ { KEPT(0, POOL_PAGES_2M, 100), AUTO(0, POOL_PAGES_2M, 30),
	    AUTO(0, POOL_PAGES_2M, 0) },
	  1,
	  { 0, 360, 840 } },
};

START_TEST(share__is_of_the_memory_that_kept_pools_leave)
{
	const struct pool_params *params = left_over[_i].params;
	unsigned kind = capacity_kind(params[2].pages);

	for (size_t i = left_over[_i].n_kept; i < 3; i++)
		ck_assert_uint_eq(share_of_1200_mib(params, i),
				  left_over[_i].mib[i] * MIB);
	/* the share of a kept pool is not used, but is no division by zero */
	for (size_t i = 0; i < left_over[_i].n_kept; i++)
		ck_assert_uint_gt(capacity_share(params, 3, i, kind).whole, 0);
}
END_TEST

static int open_share(int node, enum pool_pages pages, unsigned share)
{
	const struct pool_params params = AUTO(node, pages, share);

	return pools_open(&params, 1, &recorder, &pools);
}

static void check_share(int node, unsigned share, uint64_t bytes)
{
	ck_assert_msg(!open_share(node, POOL_PAGES_BASE, share), "%s", err_text());
	ck_assert_uint_eq(opened.bytes, bytes);
	ck_assert_uint_eq(opened.bytes_asked, POOL_BYTES_AUTO);
	close_pools();
}

START_TEST(open__takes_its_share)
{
	/* without a share: half of 2 MiB */
	check_share(0, 0, MIB);
	host_file("/proc/meminfo", "MemAvailable: 16384 kB\n");
	check_share(POOL_NODE_ANY, 75, 12 * MIB);
	/* a node has no more than its host */
	host_file("/proc/meminfo", "MemAvailable: 1024 kB\n");
	check_share(0, 100, MIB);
}
END_TEST

START_TEST(open__divides_the_memory_that_a_fixed_size_leaves)
{
	const struct pool_params params[] = {
		AUTO(0, POOL_PAGES_BASE, 50),
		POOL("b", POOL_NODE_ANY, MIB, POOL_PAGES_BASE),
		AUTO(0, POOL_PAGES_AUTO, 50),
	};

	open_pools(params, 3);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(pools_status(pools, i).bytes, MIB);
	/* the note of the last pool, for which no larger pages are free */
	ck_assert_ptr_nonnull(strstr(opened_note, "not 2M: "));
}
END_TEST

START_TEST(open__explains_a_share_that_is_too_small)
{
	ck_assert_int_eq(open_share(0, POOL_PAGES_2M, 10), -ENOMEM);
	ck_assert_str_eq(err_text(),
			 "pool 'a': its share is 10% of 7 pages of 2M free on node 0, "
			 "less than one: echo 13 > /sys/devices/system/node/node0/"
			 "hugepages/hugepages-2048kB/nr_hugepages");
	ck_assert_int_eq(open_share(0, POOL_PAGES_1G, 0), -EINVAL);
	ck_assert_str_eq(err_text(), "pool 'a': this CPU or kernel has no pages of 1G, "
				     "it has 2M");
	huge_pages("524288kB", 4);
	ck_assert_int_eq(open_share(POOL_NODE_ANY, PAGES_512M, 20), -ENOMEM);
	ck_assert_str_eq(err_text(),
			 "pool 'a': its share is 20% of 4 pages of 512M free on this "
			 "host, less than one: echo 5 > /sys/kernel/mm/hugepages/"
			 "hugepages-524288kB/nr_hugepages");
	ck_assert_int_eq(open_share(0, POOL_PAGES_BASE, 20), -ENOMEM);
	ck_assert_str_eq(err_text(), "pool 'a': its share is 20% of 2 MiB that are "
				     "available on node 0, less than 1 MiB: give it "
				     "more, or other pools less");
}
END_TEST

int main(void)
{
	TCase *share = unit_case("share", NULL, NULL),
	      *host = unit_case("host", host_setup, host_teardown);

	tcase_add_loop_test(share, share__is_divided, 0,
			    sizeof(divisions) / sizeof(divisions[0]));
	tcase_add_test(share, share__is_in_whole_pages);
	tcase_add_loop_test(share, sum_of_shares__is_at_most_100_per_cent, 0,
			    sizeof(sums) / sizeof(sums[0]));
	tcase_add_loop_test(share, share__is_of_the_memory_that_kept_pools_leave, 0,
			    sizeof(left_over) / sizeof(left_over[0]));
	tcase_add_test(host, host__counts_huge_pages_without_reservation);
	tcase_add_test(host, host__reports_free_memory_of_a_node);
	tcase_add_test(host, host__reports_mounts_with_huge_pages);
	tcase_add_test(host, open__explains_missing_huge_pages);
	tcase_add_test(host, open__auto_notes_why_pages_are_smaller);
	tcase_add_test(host, sizes__are_those_of_the_kernel);
	tcase_add_test(host, names__are_of_their_lengths);
	tcase_add_test(host, file__is_on_pages_of_the_size);
	tcase_add_test(host, automatic_pages__do_not_round_up_much);
	tcase_add_test(host, open__takes_its_share);
	tcase_add_test(host, open__divides_the_memory_that_a_fixed_size_leaves);
	tcase_add_test(host, open__explains_a_share_that_is_too_small);
	return unit_main();
}
