/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of control groups, which are made of files, and pools under them. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "rmemd/pool/cgroup.h"
#include "rmemd/pool/host.h"
#include "unit/rmemd/pool/host-files.h"
#include "unit/rmemd/pool/pools-case.h"

#define KEPT(bytes) (8 * MIB + (bytes) / 128)
#define V1 "/sys/fs/cgroup/memory"
#define V2 "/sys/fs/cgroup"
#define MOUNT_V1                                                                      \
	"33 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" \
	"35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"  \
	"36 31 0:33 / /sys/fs/cgroup/hugetlb rw - cgroup cgroup rw,hugetlb\n"
#define MOUNT_V2 \
	"24 23 0:22 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define MOUNT_HYBRID \
	MOUNT_V1 "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"

static void setup(void)
{
	host_files_setup();
	host_file("/proc/meminfo", "MemAvailable:   4194304 kB\n");
	host_file("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "100\n");
	host_file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "100\n");
}

static void teardown(void)
{
	pools_teardown();
	host_files_teardown();
}

static void groups(const char *mounts, const char *of_process)
{
	host_file("/proc/self/mountinfo", mounts);
	host_file("/proc/self/cgroup", of_process);
}

/* A limit of memory of a group of version 2. */
static void group_v2(const char *dir, const char *max, const char *current)
{
	char path[256];

	(void)snprintf(path, sizeof(path), V2 "%s/memory.max", dir);
	host_file(path, max);
	(void)snprintf(path, sizeof(path), V2 "%s/memory.current", dir);
	host_file(path, current);
}

static void check_limit(uint64_t page_bytes, const char *path, uint64_t bytes,
			uint64_t used)
{
	struct cgroup_limit limit;
	uint64_t kept = page_bytes ? 0 : KEPT(bytes);

	ck_assert_int_eq(cgroup_limit("self", page_bytes, &limit), 0);
	ck_assert_str_eq(limit.path, path);
	ck_assert_uint_eq(limit.bytes, bytes);
	ck_assert_uint_eq(limit.used, used);
	ck_assert_uint_eq(limit.kept, kept);
	ck_assert_uint_eq(limit.left, bytes > used + kept ? bytes - used - kept : 0);
}

static void check_no_limit(uint64_t page_bytes)
{
	struct cgroup_limit limit;

	ck_assert_int_eq(cgroup_limit("self", page_bytes, &limit), -ENOENT);
}

/* ---- where limits are ---- */

START_TEST(limit__of_version_2)
{
	check_no_limit(0);
	groups(MOUNT_V2, "0::/system.slice/rmemd.service\n");
	check_no_limit(0);
	group_v2("/system.slice/rmemd.service", "max\n", "5000000\n");
	check_no_limit(0);
	group_v2("/system.slice/rmemd.service", "104857600\n", "5242880\n");
	check_limit(0, V2 "/system.slice/rmemd.service/memory.max", 100 * MIB, 5 * MIB);
	/* the kernel drops pages of files; those of shared memory are not among them */
	host_file(
		V2 "/system.slice/rmemd.service/memory.stat",
		"anon 1\nfile 4194304\nshmem 9\ninactive_anon 7\nactive_file 1048576\n"
		"inactive_file 1048576\nslab_reclaimable 1048576\n");
	check_limit(0, V2 "/system.slice/rmemd.service/memory.max", 100 * MIB, 2 * MIB);
	/* more is used than may be */
	group_v2("/system.slice/rmemd.service", "1048576\n", "15242880\n");
	check_limit(0, V2 "/system.slice/rmemd.service/memory.max", MIB,
		    15242880 - 3 * MIB);
	/* above memory.high a process is slowed down until it stands still */
	group_v2("/system.slice/rmemd.service", "104857600\n", "5242880\n");
	host_file(V2 "/system.slice/rmemd.service/memory.high", "52428800\n");
	check_limit(0, V2 "/system.slice/rmemd.service/memory.high", 50 * MIB, 2 * MIB);
	check_no_limit(2 * MIB);
}
END_TEST

START_TEST(limit__of_a_group_above)
{
	groups(MOUNT_V2, "0::/a/b/c\n");
	group_v2("/a/b/c", "209715200\n", "0\n");
	group_v2("/a/b", "max\n", "0\n");
	group_v2("/a", "314572800\n", "0\n");
	check_limit(0, V2 "/a/b/c/memory.max", 200 * MIB, 0);
	/* others use it, too */
	group_v2("/a", "314572800\n", "209715200\n");
	check_limit(0, V2 "/a/memory.max", 300 * MIB, 200 * MIB);
	group_v2("/a/b", "157286400\n", "104857600\n");
	check_limit(0, V2 "/a/b/memory.max", 150 * MIB, 100 * MIB);
	/* of its neighbours none counts */
	group_v2("/a/x", "4096\n", "0\n");
	group_v2("/a/b/c/d", "4096\n", "0\n");
	check_limit(0, V2 "/a/b/memory.max", 150 * MIB, 100 * MIB);
}
END_TEST

START_TEST(limit__of_version_1)
{
	groups(MOUNT_V1, "4:memory:/box/in\n3:cpu,cpuacct:/x\n2:hugetlb:/box\n");
	host_file(V1 "/memory.limit_in_bytes", "9223372036854771712\n");
	host_file(V1 "/memory.usage_in_bytes", "1000000000\n");
	host_file(V1 "/box/in/memory.limit_in_bytes", "104857600\n");
	host_file(V1 "/box/in/memory.usage_in_bytes", "5242880\n");
	/* the numbers with those of the groups below */
	host_file(V1 "/box/in/memory.stat",
		  "active_file 4096\ninactive_file 4096\ntotal_active_file 1048576\n"
		  "total_inactive_file 1048576\n");
	check_limit(0, V1 "/box/in/memory.limit_in_bytes", 100 * MIB, 3 * MIB);
	check_no_limit(2 * MIB);
	host_file("/sys/fs/cgroup/hugetlb/box/hugetlb.2MB.limit_in_bytes",
		  "20971520\n");
	host_file("/sys/fs/cgroup/hugetlb/box/hugetlb.2MB.usage_in_bytes", "4194304\n");
	check_limit(2 * MIB, "/sys/fs/cgroup/hugetlb/box/hugetlb.2MB.limit_in_bytes",
		    20 * MIB, 4 * MIB);
	host_file("/sys/fs/cgroup/hugetlb/box/hugetlb.2MB.rsvd.limit_in_bytes",
		  "10485760\n");
	host_file("/sys/fs/cgroup/hugetlb/box/hugetlb.2MB.rsvd.usage_in_bytes", "0\n");
	check_limit(2 * MIB,
		    "/sys/fs/cgroup/hugetlb/box/hugetlb.2MB.rsvd.limit_in_bytes",
		    10 * MIB, 0);
}
END_TEST

START_TEST(limit__where_both_versions_are)
{
	groups(MOUNT_HYBRID, "4:memory:/box\n0::/other:one\n");
	host_file(V1 "/box/memory.limit_in_bytes", "104857600\n");
	host_file(V1 "/box/memory.usage_in_bytes", "0\n");
	check_limit(0, V1 "/box/memory.limit_in_bytes", 100 * MIB, 0);
	host_file("/sys/fs/cgroup/unified/other:one/hugetlb.2MB.max", "4194304\n");
	host_file("/sys/fs/cgroup/unified/other:one/hugetlb.2MB.current", "0\n");
	check_limit(2 * MIB, "/sys/fs/cgroup/unified/other:one/hugetlb.2MB.max",
		    4 * MIB, 0);
}
END_TEST

START_TEST(limit__inside_of_a_container)
{
	/* a namespace of its own: the mount's root is the group of the container */
	groups(MOUNT_V2, "0::/\n");
	group_v2("", "104857600\n", "0\n");
	check_limit(0, V2 "/memory.max", 100 * MIB, 0);
	/* without one, the mount shows the container's group alone; a name that begins alike is
	 * another group */
	groups("35 31 0:32 /docker/4 /elsewhere rw - cgroup2 cgroup2 rw\n"
	       "35 31 0:32 /docker/4f /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n",
	       "0::/docker/4f/in\n");
	check_limit(0, V2 "/memory.max", 100 * MIB, 0);
	group_v2("/in", "52428800\n", "0\n");
	check_limit(0, V2 "/in/memory.max", 50 * MIB, 0);
}
END_TEST

static const struct {
	uint64_t page_bytes;
	const char *prefix;
} huge_names[] = {
	{ 64 * KIB, "hugetlb.64KB" },    { 2 * MIB, "hugetlb.2MB" },
	{ 512 * MIB, "hugetlb.512MB" },  { 1024 * MIB, "hugetlb.1GB" },
	{ 16384 * MIB, "hugetlb.16GB" },
};

START_TEST(limit__of_huge_pages)
{
	const char *prefix = huge_names[_i].prefix;
	char path[256];

	groups(MOUNT_V2, "0::/a\n");
	(void)snprintf(path, sizeof(path), V2 "/a/%s.current", prefix);
	host_file(path, "0\n");
	(void)snprintf(path, sizeof(path), V2 "/a/%s.rsvd.current", prefix);
	host_file(path, "65536\n");
	(void)snprintf(path, sizeof(path), V2 "/a/%s.rsvd.max", prefix);
	host_file(path, "34359738368\n");
	check_limit(huge_names[_i].page_bytes, path, 32768 * MIB, 64 * KIB);
	(void)snprintf(path, sizeof(path), V2 "/a/%s.max", prefix);
	host_file(path, "17179869184\n");
	check_limit(huge_names[_i].page_bytes, path, 16384 * MIB, 0);
	check_no_limit(4 * KIB);
}
END_TEST

START_TEST(limit__of_memory_may_be_of_huge_pages_too)
{
	struct cgroup_limit limit;

	groups(MOUNT_V2, "0::/a\n");
	group_v2("/a", "104857600\n", "0\n");
	check_no_limit(2 * MIB);
	groups("24 23 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 "
	       "rw,memory_hugetlb_accounting\n",
	       "0::/a\n");
	ck_assert_int_eq(cgroup_limit("self", 2 * MIB, &limit), 0);
	ck_assert_str_eq(limit.path, V2 "/a/memory.max");
}
END_TEST

/* ---- pools ---- */

START_TEST(open__is_within_the_limit)
{
	groups(MOUNT_V2, "0::/a\n");
	group_v2("/a", "104857600\n", "4194304\n");
	ck_assert_int_eq(open_params(300 * MIB, POOL_NODE_ANY, POOL_PAGES_BASE),
			 -ENOMEM);
	ck_assert_str_eq(err_text(),
			 "pool 'a': 300 MiB wanted, 87.2 MiB available: "
			 "/sys/fs/cgroup/a/memory.max is 100 MiB, of which 4 MiB are "
			 "used and 8.8 MiB are for rmemd itself: raise it (MemoryMax= "
			 "in a unit of systemd), or make the pool smaller");
	ck_assert_int_eq(open_params(16 * MIB, POOL_NODE_ANY, POOL_PAGES_BASE), 0);
	close_pools();
	/* the host is what has least */
	host_file("/proc/meminfo", "MemAvailable:   8192 kB\n");
	ck_assert_int_eq(open_params(16 * MIB, POOL_NODE_ANY, POOL_PAGES_BASE),
			 -ENOMEM);
	ck_assert_str_eq(err_text(), "pool 'a': 16 MiB wanted, 8 MiB available on this "
				     "host: make the pool smaller");
}
END_TEST

START_TEST(open__two_pools_share_the_limit)
{
	const struct pool_params params[] = {
		POOL("a", POOL_NODE_ANY, 4 * MIB, POOL_PAGES_BASE),
		POOL("b", POOL_NODE_ANY, 4 * MIB, POOL_PAGES_BASE),
	};

	groups(MOUNT_V2, "0::/a\n");
	group_v2("/a", "16777216\n", "1048576\n");
	ck_assert_int_eq(pools_open(params, 2, NULL, &pools), -ENOMEM);
	ck_assert_ptr_nonnull(strstr(
		err_text(), "4 MiB wanted, 2.9 MiB available: "
			    "/sys/fs/cgroup/a/memory.max is 16 MiB, of which 1 MiB"));
}
END_TEST

static int open_auto(enum pool_pages pages, int node)
{
	const struct pool_params params = { .name = "a", .node = node, .pages = pages };

	return pools_open(&params, 1, &recorder, &pools);
}

START_TEST(automatic_size__is_a_share_of_the_limit)
{
	groups(MOUNT_V2, "0::/a\n");
	group_v2("/a", "16777216\n", "1048576\n");
	ck_assert_msg(!open_auto(POOL_PAGES_BASE, POOL_NODE_ANY), "%s", err_text());
	/* half of 16 - 1 - 8.125 MiB */
	ck_assert_uint_eq(opened.bytes, 3520 * KIB);
	ck_assert_str_eq(opened_note,
			 "its share is of what /sys/fs/cgroup/a/memory.max "
			 "leaves, 6.9 MiB");
	close_pools();
	group_v2("/a", "10485760\n", "1048576\n");
	ck_assert_int_eq(open_auto(POOL_PAGES_BASE, POOL_NODE_ANY), -ENOMEM);
	ck_assert_str_eq(
		err_text(),
		"pool 'a': its share is 50% of 944 KiB that are available on this "
		"host, too little: /sys/fs/cgroup/a/memory.max is 10 MiB, of which 1 "
		"MiB are used and 8.1 MiB are for rmemd itself: raise it (MemoryMax= "
		"in "
		"a unit of systemd), or give the pool more, and others less");
	/* the limit is not what is short */
	group_v2("/a", "max\n", "1048576\n");
	host_file("/proc/meminfo", "MemAvailable:   16384 kB\n");
	ck_assert_msg(!open_auto(POOL_PAGES_BASE, POOL_NODE_ANY), "%s", err_text());
	ck_assert_uint_eq(opened.bytes, 8 * MIB);
	ck_assert_str_eq(opened_note, "");
}
END_TEST

START_TEST(automatic_size__divides_the_limit_among_nodes)
{
	groups(MOUNT_V2, "0::/a\n");
	/* 3/4 of what is free is on node 0; the limit leaves 8 MiB */
	host_file("/proc/meminfo", "MemAvailable:   131072 kB\n");
	host_file("/sys/devices/system/node/node0/meminfo",
		  "Node 0 MemFree:        98304 kB\n");
	group_v2("/a", "17043521\n", "133152\n");
	ck_assert_msg(!open_auto(POOL_PAGES_BASE, 0), "%s", err_text());
	ck_assert_uint_eq(opened.bytes, host_has_nodes() ? 3 * MIB : 4 * MIB);
}
END_TEST

START_TEST(huge_pages__beyond_a_limit_are_no_reason_for_fewer)
{
	groups(MOUNT_V2, "0::/a\n");
	host_file(V2 "/a/hugetlb.2MB.max", "41943040\n");
	host_file(V2 "/a/hugetlb.2MB.current", "20971520\n");
	ck_assert_int_eq(open_params(40 * MIB, POOL_NODE_ANY, POOL_PAGES_2M), -ENOMEM);
	ck_assert_str_eq(err_text(),
			 "pool 'a': 40 MiB wanted, 20 MiB available: "
			 "/sys/fs/cgroup/a/hugetlb.2MB.max is 40 MiB, of which 20 MiB "
			 "are used: raise it, or make the pool smaller");
	host_file(V2 "/a/hugetlb.2MB.current", "41943040\n");
	ck_assert_int_eq(open_auto(POOL_PAGES_2M, POOL_NODE_ANY), -ENOMEM);
	ck_assert_str_eq(err_text(),
			 "pool 'a': its share is 100% of 0 B that are available on "
			 "this host, too little: /sys/fs/cgroup/a/hugetlb.2MB.max is "
			 "40 MiB, of which 40 MiB are used: raise it, or give the pool "
			 "more, and others less");
}
END_TEST

/* This kernel has no such pages. */
START_TEST(huge_pages__beyond_a_limit_are_not_tried)
{
	const enum pool_pages pages = (enum pool_pages)25;

	host_file("/sys/kernel/mm/hugepages/hugepages-32768kB/nr_hugepages", "4\n");
	host_file("/sys/kernel/mm/hugepages/hugepages-32768kB/free_hugepages", "4\n");
	groups(MOUNT_V2, "0::/a\n");
	host_file(V2 "/a/hugetlb.32MB.max", "33554432\n");
	host_file(V2 "/a/hugetlb.32MB.current", "0\n");
	ck_assert_int_eq(open_params(64 * MIB, POOL_NODE_ANY, pages), -ENOMEM);
	ck_assert_ptr_nonnull(strstr(err_text(), "/a/hugetlb.32MB.max is 32 MiB"));
}
END_TEST

START_TEST(huge_pages__that_are_free_are_no_reason_for_fewer)
{
	/* more than any host has */
	host_file("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
		  "400000000\n");
	host_file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
		  "400000000\n");
	ck_assert_int_eq(open_params(PIB / 4, POOL_NODE_ANY, POOL_PAGES_2M), -ENOMEM);
	ck_assert_str_eq(err_text(),
			 "pool 'a': 134217728 pages of 2M wanted on this host, "
			 "400000000 free there, which the kernel does not give to this "
			 "process: has it a cpuset without their node?");
}
END_TEST

int main(void)
{
	TCase *limits = unit_case("limits", setup, teardown);
	TCase *open = unit_case("open", setup, teardown);

	tcase_add_test(limits, limit__of_version_2);
	tcase_add_test(limits, limit__of_a_group_above);
	tcase_add_test(limits, limit__of_version_1);
	tcase_add_test(limits, limit__where_both_versions_are);
	tcase_add_test(limits, limit__inside_of_a_container);
	tcase_add_loop_test(limits, limit__of_huge_pages, 0,
			    sizeof(huge_names) / sizeof(huge_names[0]));
	tcase_add_test(limits, limit__of_memory_may_be_of_huge_pages_too);
	tcase_add_test(open, open__is_within_the_limit);
	tcase_add_test(open, open__two_pools_share_the_limit);
	tcase_add_test(open, automatic_size__is_a_share_of_the_limit);
	tcase_add_test(open, automatic_size__divides_the_limit_among_nodes);
	tcase_add_test(open, huge_pages__beyond_a_limit_are_no_reason_for_fewer);
	tcase_add_test(open, huge_pages__beyond_a_limit_are_not_tried);
	tcase_add_test(open, huge_pages__that_are_free_are_no_reason_for_fewer);
	return unit_main();
}
