/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "rmemd/pool/host.h"
#include "rmemd/pool/memory.h"
#include "rmemd/pool/pools.h"
#include "unit.h"
#include "wire/msg.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define PIB (MIB * MIB * KIB)
#define EXTENTS_MAX 8
#define POOL(of_name, of_node, of_bytes, of_pages)                       \
	{                                                                \
		.name = of_name, .node = (of_node), .bytes = (of_bytes), \
		.pages = (of_pages),                                     \
	}

static struct pools *pools;
static struct extent taken[EXTENTS_MAX];
static unsigned n_taken;

static void open_one(uint64_t bytes)
{
	struct pool_params params = { .name = "a",
				      .node = POOL_NODE_ANY,
				      .bytes = bytes,
				      .pages = POOL_PAGES_BASE };

	ck_assert_msg(pools_open(&params, 1, NULL, &pools) == 0, "%s", err_text());
}

/* Preferably on a node. */
static int take_into(uint64_t bytes, uint64_t align, int node, struct extent *extents,
		     unsigned max, unsigned *ret_n)
{
	const struct pool_request request = { .bytes = bytes,
					      .align = align,
					      .nodes = &node,
					      .n_nodes = node != POOL_NODE_ANY };

	return pools_take(pools, &request, extents, max, ret_n);
}

static int take(uint64_t bytes, unsigned max)
{
	return take_into(bytes, 1, POOL_NODE_ANY, taken, max, &n_taken);
}

/* Until everything given back is clean. */
static void await_clean(void)
{
	struct pollfd pollfd = { .fd = pools_fd(pools), .events = POLLIN };
	struct pool_status status;

	for (;;) {
		uint64_t dirty = 0;

		for (unsigned i = 0; i < pools_count(pools); i++) {
			pools_status(pools, i, &status);
			dirty += status.scrubbing;
		}
		if (dirty == 0)
			return;
		ck_assert_int_eq(poll(&pollfd, 1, 10000), 1);
		ck_assert_uint_gt(pools_process(pools), 0);
	}
}

static void assert_zero(const struct extent *extent)
{
	const char *addr = extent_addr(extent);

	ck_assert_int_eq(addr[0], 0);
	/* every byte equals the one before it */
	ck_assert_int_eq(memcmp(addr, addr + 1, extent->bytes - 1), 0);
}

START_TEST(give__zeroes_before_the_next_grant)
{
	struct pool_status status;
	uint64_t offset;

	open_one(MIB);
	ck_assert_int_eq(take(MIB, 1), 0);
	assert_zero(&taken[0]);
	memset(extent_addr(&taken[0]), 0xa5, MIB);
	offset = taken[0].offset;
	pools_give(pools, taken[0]);
	pools_status(pools, 0, &status);
	ck_assert_uint_eq(status.lent, 0);
	ck_assert_uint_eq(status.scrubbing, MIB);
	ck_assert_uint_eq(status.free, 0);
	/* nothing comes back but by process() */
	ck_assert_int_eq(take(4096, 1), -EAGAIN);
	await_clean();
	ck_assert_int_eq(take(MIB, 1), 0);
	ck_assert_uint_eq(taken[0].offset, offset);
	assert_zero(&taken[0]);
	pools_status(pools, 0, &status);
	ck_assert_uint_eq(status.scrubbed_ever, MIB);
	ck_assert_uint_eq(status.lent, MIB);
	pools_close(pools);
}
END_TEST

START_TEST(give_tail__keeps_whole_pages)
{
	struct pool_status status;
	struct extent extent;

	open_one(MIB);
	ck_assert_int_eq(take(MIB, 1), 0);
	extent = taken[0];
	memset(extent_addr(&extent), 0xa5, MIB);
	ck_assert_uint_eq(pools_give_tail(pools, &extent, MIB - 4095), 0);
	ck_assert_uint_eq(extent.bytes, MIB);
	ck_assert_uint_eq(pools_give_tail(pools, &extent, 4097), MIB - 8192);
	ck_assert_uint_eq(extent.bytes, 8192);
	pools_status(pools, 0, &status);
	ck_assert_uint_eq(status.lent, 8192);
	await_clean();
	/* what is behind is clean and lent anew, what was kept is untouched */
	ck_assert_int_eq(take(MIB - 8192, 1), 0);
	assert_zero(&taken[0]);
	ck_assert_int_eq(((const char *)extent_addr(&extent))[8191], (char)0xa5);
	pools_give(pools, extent);
	pools_give(pools, taken[0]);
	await_clean();
	ck_assert_int_eq(take(MIB, 1), 0);
	pools_close(pools);
}
END_TEST

/* Whether more comes back while the rate leaves the scrubber no time. */
static bool comes_back(void)
{
	struct pollfd pollfd = { .fd = pools_fd(pools), .events = POLLIN };

	return poll(&pollfd, 1, 50) > 0;
}

static void give_quarters(void)
{
	struct extent quarters[4];

	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(take(MIB, 1), 0);
		quarters[i] = taken[0];
		memset(extent_addr(&quarters[i]), 0xa5, MIB);
	}
	for (unsigned i = 0; i < 4; i++)
		pools_give(pools, quarters[i]);
}

START_TEST(scrubber__keeps_to_its_rate_unless_somebody_waits)
{
	open_one(4 * MIB);
	pools_set_scrub_rate(pools, 1);
	give_quarters();
	/* the first waits for nothing */
	while (pools_process(pools) == 0)
		(void)comes_back();
	ck_assert(!comes_back());
	pools_hurry(pools, true);
	await_clean();
	ck_assert_int_eq(take(4 * MIB, 1), 0);
	assert_zero(&taken[0]);
	pools_give(pools, taken[0]);
	await_clean();
	/* what was done in a hurry is not made up for */
	pools_hurry(pools, false);
	pools_set_scrub_rate(pools, PIB);
	give_quarters();
	await_clean();
	/* a rate that changes counts at once */
	pools_set_scrub_rate(pools, 1);
	give_quarters();
	ck_assert(!comes_back());
	pools_set_scrub_rate(pools, 0);
	await_clean();
	/* and nobody waits for one who rests */
	pools_set_scrub_rate(pools, 1);
	give_quarters();
	ck_assert(!comes_back());
	pools_close(pools);
}
END_TEST

static void on_given(void *ctx)
{
	(*(unsigned *)ctx)++;
}

START_TEST(give__waits_until_it_is_told)
{
	unsigned given = 0;

	open_one(4 * MIB);
	pools_on_given(pools, on_given, &given);
	give_quarters();
	ck_assert_uint_eq(given, 1);
	ck_assert(!comes_back());
	pools_scrub(pools);
	await_clean();
	/* there is something again */
	give_quarters();
	ck_assert_uint_eq(given, 2);
	ck_assert(!comes_back());
	/* somebody waits for it */
	pools_hurry(pools, true);
	await_clean();
	pools_hurry(pools, false);
	give_quarters();
	ck_assert_uint_eq(given, 3);
	pools_on_given(pools, NULL, NULL);
	await_clean();
	give_quarters();
	await_clean();
	ck_assert_uint_eq(given, 3);
	pools_on_given(pools, on_given, &given);
	give_quarters();
	/* nor does the end wait for it */
	pools_close(pools);
}
END_TEST

START_TEST(take__tells_full_from_not_yet_clean)
{
	struct extent half;

	open_one(MIB);
	ck_assert_int_eq(take(MIB + 1, EXTENTS_MAX), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err_text(), "the pools have 1 MiB in all"));
	ck_assert_int_eq(take(UINT64_MAX, EXTENTS_MAX), -ENOSPC);
	ck_assert_int_eq(take(MIB / 2, 1), 0);
	half = taken[0];
	ck_assert_int_eq(take(MIB, 1), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err_text(), "512 KiB are free"));
	pools_give(pools, half);
	ck_assert_int_eq(take(MIB, 1), -EAGAIN);
	ck_assert_int_eq(take(MIB + 1, EXTENTS_MAX), -ENOSPC);
	await_clean();
	ck_assert_int_eq(take(MIB, 1), 0);
	pools_close(pools);
}
END_TEST

START_TEST(take__makes_several_of_what_is_scattered)
{
	struct extent pieces[8];
	uint64_t sum = 0;

	open_one(MIB);
	for (unsigned i = 0; i < 8; i++) {
		ck_assert_int_eq(take(128 * KIB, 1), 0);
		pieces[i] = taken[0];
	}
	for (unsigned i = 0; i < 8; i += 2)
		pools_give(pools, pieces[i]);
	/* dirty as they are they could not hold it in 3 */
	ck_assert_int_eq(take(512 * KIB, 3), -ENOSPC);
	await_clean();
	ck_assert_int_eq(take(512 * KIB, 3), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err_text(), "the largest piece is 128 KiB"));
	n_taken = 77;
	ck_assert_int_eq(take(300 * KIB, 2), -ENOSPC);
	ck_assert_uint_eq(n_taken, 77);
	/* a refusal has taken nothing */
	ck_assert_int_eq(take(300 * KIB, EXTENTS_MAX), 0);
	ck_assert_uint_eq(n_taken, 3);
	for (unsigned i = 0; i < n_taken; i++) {
		sum += taken[i].bytes;
		assert_zero(&taken[i]);
	}
	ck_assert_uint_eq(sum, 300 * KIB);
	ck_assert_uint_eq(taken[2].bytes, 44 * KIB);
	pools_close(pools);
}
END_TEST

START_TEST(take__says_why_in_what_the_wire_carries)
{
	const char *text;

	open_one(MIB);
	ck_assert_int_eq(take(1000 * KIB + 1, 1), 0);
	ck_assert_int_eq(take(MIB, EXTENTS_MAX), -ENOSPC);
	text = err_text();
	/* the four numbers may be longer on a larger host */
	ck_assert_uint_lt(strlen(text) + 4 * strlen("1023.99 TiB"), WIRE_NAME_MAX);
	ck_assert_ptr_nonnull(strstr(text, "ask for less"));
	pools_close(pools);
}
END_TEST

START_TEST(take__keeps_to_what_a_device_registers)
{
	struct extent pieces[16];
	unsigned n;

	open_one(MIB);
	/* 17 pages are 68 KiB; aligned, 64 */
	pools_set_extent_max(pools, 69 * KIB);
	ck_assert_int_eq(take_into(MIB, 64 * KIB, POOL_NODE_ANY, pieces, 15, &n),
			 -ENOSPC);
	ck_assert_str_eq(err_text(),
			 "no room for 1 MiB: an RDMA device here registers 64 KiB at "
			 "once, and a lease takes at most 15 pieces; ask for less");
	ck_assert_int_eq(take_into(MIB, 64 * KIB, POOL_NODE_ANY, pieces, 16, &n), 0);
	ck_assert_uint_eq(n, 16);
	for (unsigned i = 0; i < n; i++) {
		ck_assert_uint_eq(pieces[i].bytes, 64 * KIB);
		ck_assert_uint_eq(pieces[i].offset, i * 64 * KIB);
	}
	/* each is given back by itself; dirty as they are they would do in 8, not in 7 */
	for (unsigned i = 0; i < n; i++)
		pools_give(pools, pieces[i]);
	ck_assert_int_eq(take(8 * 68 * KIB, 8), -EAGAIN);
	ck_assert_int_eq(take(7 * 68 * KIB + 1, 7), -ENOSPC);
	await_clean();
	ck_assert_int_eq(take(2 * 68 * KIB + 1, 3), 0);
	ck_assert_uint_eq(n_taken, 3);
	ck_assert_uint_eq(taken[1].bytes, 68 * KIB);
	ck_assert_uint_eq(taken[2].bytes, 4 * KIB);
	/* none is in the way of the others, and there is one piece in the end */
	for (unsigned i = 0; i < n_taken; i++)
		pools_give(pools, taken[i]);
	await_clean();
	pools_set_extent_max(pools, 0);
	ck_assert_int_eq(take(MIB, 1), 0);
	pools_close(pools);
}
END_TEST

/* What is scattered and too long as well may come to too many pieces. */
START_TEST(take__that_comes_to_too_many_pieces_takes_nothing)
{
	struct extent pieces[4];
	struct pool_status status;

	open_one(MIB);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(take(256 * KIB, 1), 0);
		pieces[i] = taken[0];
	}
	pools_give(pools, pieces[0]);
	pools_give(pools, pieces[2]);
	await_clean();
	pools_set_extent_max(pools, 200 * KIB);
	/* 200 and 56 of each */
	ck_assert_int_eq(take(512 * KIB, 3), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err_text(), "512 KiB are free"));
	pools_status(pools, 0, &status);
	ck_assert_uint_eq(status.free, 512 * KIB);
	ck_assert_uint_eq(status.largest_free, 256 * KIB);
	ck_assert_int_eq(take(512 * KIB, 4), 0);
	ck_assert_uint_eq(n_taken, 4);
	pools_close(pools);
}
END_TEST

START_TEST(take__rounds_up_and_aligns)
{
	open_one(MIB);
	ck_assert_int_eq(take(1, 1), 0);
	ck_assert_uint_eq(taken[0].bytes, 4096);
	ck_assert_int_eq(take_into(5000, 256 * KIB, POOL_NODE_ANY, taken, 1, &n_taken),
			 0);
	ck_assert_uint_eq(taken[0].bytes, 8192);
	ck_assert_uint_eq(taken[0].offset % (256 * KIB), 0);
	ck_assert_uint_eq(extent_page_bytes(&taken[0]), 4096);
	pools_close(pools);
}
END_TEST

START_TEST(take__spreads_over_pools_and_joins_them)
{
	const struct pool_params params[] = {
		{ .name = "a", .node = -1, .bytes = MIB, .pages = POOL_PAGES_BASE },
		{ .name = "b", .node = -1, .bytes = MIB, .pages = POOL_PAGES_BASE },
	};
	struct pool_status status;
	struct pool *first;

	ck_assert_int_eq(pools_open(params, 2, NULL, &pools), 0);
	ck_assert_uint_eq(pools_count(pools), 2);
	ck_assert_int_eq(take(4096, 1), 0);
	first = taken[0].pool;
	ck_assert_int_eq(take(4096, 1), 0);
	ck_assert_ptr_ne(taken[0].pool, first);
	ck_assert_int_eq(take(3 * MIB / 2, 1), -ENOSPC);
	ck_assert_int_eq(take(3 * MIB / 2, 2), 0);
	ck_assert_uint_eq(n_taken, 2);
	ck_assert_ptr_ne(taken[0].pool, taken[1].pool);
	/* the contents of both come back zeroed */
	for (unsigned i = 0; i < 2; i++) {
		memset(extent_addr(&taken[i]), 1, taken[i].bytes);
		pools_give(pools, taken[i]);
	}
	await_clean();
	pools_status(pools, 1, &status);
	ck_assert_str_eq(status.name, "b");
	ck_assert_uint_eq(status.free, MIB - 4096);
	pools_close(pools);
}
END_TEST

START_TEST(close__does_not_wait_for_dirty_memory)
{
	open_one(64 * MIB);
	ck_assert_int_eq(take(64 * MIB, 1), 0);
	pools_give(pools, taken[0]);
	pools_close(pools);
	pools_close(NULL);
}
END_TEST

/* ---- what cannot be had ---- */

static unsigned count_lines(const char *path, const char *word)
{
	char line[512];
	unsigned n = 0;
	FILE *file = fopen(path, "r");

	ck_assert_ptr_nonnull(file);
	while (fgets(line, sizeof(line), file))
		n += strstr(line, word) != NULL;
	ck_assert_int_eq(fclose(file), 0);
	return n;
}

static unsigned count_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static int open_params(uint64_t bytes, int node, enum pool_pages pages)
{
	struct pool_params params = {
		.name = "a", .node = node, .bytes = bytes, .pages = pages
	};

	return pools_open(&params, 1, NULL, &pools);
}

START_TEST(open__refuses_more_than_there_is)
{
	ck_assert_int_eq(open_params(UINT64_C(1) << 49, POOL_NODE_ANY, POOL_PAGES_BASE),
			 -ENOMEM);
	ck_assert_msg(strncmp(err_text(), "pool 'a': 512 TiB wanted, ", 26) == 0, "%s",
		      err_text());
	ck_assert_int_eq(open_params(UINT64_C(1) << 49, POOL_NODE_ANY, POOL_PAGES_AUTO),
			 -ENOMEM);
}
END_TEST

START_TEST(open__refuses_a_node_that_is_not_there)
{
	ck_assert_int_eq(open_params(MIB, 1000, POOL_PAGES_BASE), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err_text(), "no NUMA node 1000 with memory here"));
}
END_TEST

/* Runs in a process of its own: Check forks. */
START_TEST(open__explains_a_low_memlock_limit)
{
	struct rlimit limit = { .rlim_cur = 8 * KIB, .rlim_max = 8 * KIB };

	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	/* with its capability root may lock whatever it likes */
	if (geteuid() == 0)
		ck_assert_int_eq(seteuid(65534), 0);
	ck_assert_int_eq(open_params(MIB, POOL_NODE_ANY, POOL_PAGES_BASE), -ENOMEM);
	ck_assert_str_eq(
		err_text(),
		"pool 'a': RLIMIT_MEMLOCK is 8 KiB, too little to pin 1 MiB: "
		"LimitMEMLOCK=infinity in the service, or ulimit -l unlimited");
	ck_assert_uint_eq(count_lines("/proc/self/maps", "rmem-pool"), 0);
	/* a leak checker may look at no process that has lost its rights */
	if (getuid() == 0)
		ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

/* A host made of files. */
static char root[sizeof("/tmp/rmem-test-XXXXXX")];

static void host_file(const char *path, const char *text)
{
	char full[512];
	FILE *file;

	(void)snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *slash = strchr(full + sizeof(root), '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		ck_assert(mkdir(full, 0700) == 0 || errno == EEXIST);
		*slash = '/';
	}
	file = fopen(full, "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(text, file), 0);
	ck_assert_int_eq(fclose(file), 0);
}

static void host_make(void)
{
	memcpy(root, "/tmp/rmem-test-XXXXXX", sizeof(root));
	ck_assert_ptr_nonnull(mkdtemp(root));
	host_set_root(root);
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

static void host_unmake(void)
{
	char command[64];

	host_set_root(NULL);
	(void)snprintf(command, sizeof(command), "rm -rf %s", root);
	ck_assert_int_eq(system(command), 0);
}

START_TEST(host__counts_huge_pages_that_are_not_promised)
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

START_TEST(host__adds_up_what_a_node_has)
{
	uint64_t bytes = 0;

	ck_assert_int_eq(host_available(-1, &bytes), 0);
	ck_assert_uint_eq(bytes, 4096 * MIB);
	ck_assert_int_eq(host_available(0, &bytes), 0);
	ck_assert_uint_eq(bytes, 2 * MIB);
	ck_assert_int_eq(host_available(3, &bytes), -ENOENT);
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
	ck_assert_int_eq(open_params(1024 * MIB, 0, POOL_PAGES_1G), -ENOMEM);
	ck_assert_str_eq(err_text(), "pool 'a': this CPU or kernel has no pages of 1G");
	ck_assert_int_eq(open_params(MIB, POOL_NODE_ANY, POOL_PAGES_THP), -ENOMEM);
	ck_assert_str_eq(err_text(),
			 "pool 'a': the kernel gives shared memory no transparent huge "
			 "pages (never): echo advise > "
			 "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
}
END_TEST

static struct pool_status opened;
static char opened_note[512];

static void keep_ready(void *ctx, const struct pool_status *status, const char *note)
{
	(void)ctx;
	opened = *status;
	(void)snprintf(opened_note, sizeof(opened_note), "%s", note);
}

static const struct pools_events keeping = { .ready = keep_ready };

START_TEST(open__auto_says_why_it_took_less)
{
	struct pool_params params = { .name = "a",
				      .node = POOL_NODE_ANY,
				      .bytes = 32 * MIB,
				      .pages = POOL_PAGES_AUTO };

	ck_assert_int_eq(pools_open(&params, 1, &keeping, &pools), 0);
	ck_assert_int_eq(opened.pages_asked, POOL_PAGES_AUTO);
	ck_assert_int_eq(opened.pages_got, POOL_PAGES_BASE);
	ck_assert_ptr_nonnull(
		strstr(opened_note, "not 1G: the size is no multiple of it"));
	ck_assert_ptr_nonnull(strstr(opened_note, "not 2M: 16 pages of 2M wanted"));
	ck_assert_ptr_nonnull(strstr(opened_note, "not thp: "));
	pools_close(pools);
}
END_TEST

START_TEST(open__pins_and_places)
{
	struct pool_params params = { .name = "a",
				      .bytes = 8 * MIB,
				      .pages = POOL_PAGES_BASE };
	unsigned long kib = 0;
	char line[256];
	FILE *file;

	ck_assert_msg(!pools_open(&params, 1, &keeping, &pools), "%s", err_text());
	ck_assert_str_eq(opened_note, "");
	ck_assert_int_eq(opened.node_asked, 0);
	ck_assert_int_eq(opened.node_got, 0);
	ck_assert_uint_eq(opened.bytes, 8 * MIB);
	ck_assert_uint_eq(opened.free, 8 * MIB);
	ck_assert_uint_eq(opened.largest_free, 8 * MIB);
	file = fopen("/proc/self/status", "r");
	ck_assert_ptr_nonnull(file);
	while (fgets(line, sizeof(line), file) && sscanf(line, "VmLck: %lu", &kib) != 1)
		;
	ck_assert_int_eq(fclose(file), 0);
	ck_assert_uint_ge(kib, 8 * KIB);
	ck_assert_int_eq(take(MIB, 1), 0);
	ck_assert_int_eq(extent_node(&taken[0]), 0);
	/* a preferred node that has none is only a wish */
	ck_assert_int_eq(take_into(MIB, 1, 5, taken, 1, &n_taken), 0);
	pools_close(pools);
}
END_TEST

/* ---- a share of what there is ---- */

#define AUTO(of_node, of_pages, of_share)                                 \
	{                                                                 \
		.name = "a", .node = (of_node), .bytes = POOL_BYTES_AUTO, \
		.pages = (of_pages), .share = (of_share),                 \
	}

static const struct {
	struct pool_params params[3];
	/* of 1200 MiB free of the last one's kind */
	uint64_t mib[3];
} divisions[] = {
	/* alone: all huge pages, half of the memory */
	{ { AUTO(0, POOL_PAGES_2M, 0), AUTO(1, POOL_PAGES_2M, 0),
	    AUTO(-1, POOL_PAGES_2M, 0) },
	  { 1200, 1200, 1200 } },
	{ { AUTO(0, POOL_PAGES_THP, 0), AUTO(1, POOL_PAGES_AUTO, 0),
	    AUTO(2, POOL_PAGES_BASE, 0) },
	  { 600, 600, 600 } },
	/* as it says, the others what is left of that */
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
	/* with pages of any kind it looks at the next */
	{ { AUTO(0, POOL_PAGES_2M, 100), AUTO(0, POOL_PAGES_AUTO, 0),
	    AUTO(0, POOL_PAGES_2M, 0) },
	  { 1200, 0, 0 } },
};

START_TEST(share__is_divided)
{
	const struct pool_params *params = divisions[_i].params;
	enum share_kind kind = share_kind(params[2].pages);

	for (size_t i = 0; i < 3; i++)
		if (divisions[_i].mib[i])
			ck_assert_uint_eq(share_bytes(share_of(params, 3, i, kind),
						      1200 * MIB, 2 * MIB),
					  divisions[_i].mib[i] * MIB);
	if (!divisions[_i].mib[2])
		ck_assert_uint_eq(share_of(params, 3, 2, kind).parts, 0);
}
END_TEST

START_TEST(share__is_in_whole_pages)
{
	ck_assert_uint_eq(share_bytes((struct share){ 33, 100 }, 10 * MIB, 2 * MIB),
			  2 * MIB);
	ck_assert_uint_eq(share_bytes((struct share){ 19, 100 }, 10 * MIB, 2 * MIB), 0);
	/* no product is too large */
	ck_assert_uint_eq(share_bytes((struct share){ 100, 100 }, UINT64_MAX, 1),
			  UINT64_MAX);
}
END_TEST

static const struct {
	struct pool_params params[2];
	size_t which; /* 2: none */
	const char *said;
} together[] = {
	{ { AUTO(0, POOL_PAGES_2M, 60), AUTO(1, POOL_PAGES_2M, 60) }, 2, NULL },
	{ { AUTO(0, POOL_PAGES_2M, 60), AUTO(0, POOL_PAGES_1G, 60) }, 2, NULL },
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

START_TEST(share__of_all_is_at_most_all)
{
	size_t which = 2;

	ck_assert_int_eq(share_check(together[_i].params, 2, &which),
			 together[_i].said ? -EINVAL : 0);
	ck_assert_uint_eq(which, together[_i].which);
	if (together[_i].said)
		ck_assert_str_eq(err_text(), together[_i].said);
}
END_TEST

static int open_share(int node, enum pool_pages pages, unsigned share)
{
	const struct pool_params params = AUTO(node, pages, share);

	return pools_open(&params, 1, &keeping, &pools);
}

START_TEST(open__takes_its_share)
{
	/* half of 2 MiB, and of 4 GiB as many per cent */
	ck_assert_msg(!open_share(0, POOL_PAGES_BASE, 0), "%s", err_text());
	ck_assert_uint_eq(opened.bytes, MIB);
	ck_assert_uint_eq(opened.bytes_asked, POOL_BYTES_AUTO);
	pools_close(pools);
	host_file("/proc/meminfo", "MemAvailable: 16384 kB\n");
	ck_assert_msg(!open_share(POOL_NODE_ANY, POOL_PAGES_BASE, 75), "%s",
		      err_text());
	ck_assert_uint_eq(opened.bytes, 12 * MIB);
	pools_close(pools);
	/* a node has no more than its host */
	host_file("/proc/meminfo", "MemAvailable: 1024 kB\n");
	ck_assert_msg(!open_share(0, POOL_PAGES_BASE, 100), "%s", err_text());
	ck_assert_uint_eq(opened.bytes, MIB);
	pools_close(pools);
}
END_TEST

START_TEST(open__divides_what_a_fixed_size_leaves)
{
	const struct pool_params params[] = {
		AUTO(0, POOL_PAGES_BASE, 50),
		POOL("b", POOL_NODE_ANY, MIB, POOL_PAGES_BASE),
		AUTO(0, POOL_PAGES_AUTO, 50),
	};
	struct pool_status status;

	ck_assert_msg(!pools_open(params, 3, &keeping, &pools), "%s", err_text());
	for (unsigned i = 0; i < 3; i++) {
		pools_status(pools, i, &status);
		ck_assert_uint_eq(status.bytes, MIB);
	}
	/* the last that was ready, which had no larger pages to take from */
	ck_assert_ptr_nonnull(strstr(opened_note, "not 2M: "));
	pools_close(pools);
}
END_TEST

START_TEST(open__explains_a_share_that_is_too_small)
{
	ck_assert_int_eq(open_share(0, POOL_PAGES_2M, 10), -ENOMEM);
	ck_assert_str_eq(err_text(),
			 "pool 'a': its share is 10% of 7 pages of 2M free on node 0, "
			 "less than one: echo 13 > /sys/devices/system/node/node0/"
			 "hugepages/hugepages-2048kB/nr_hugepages");
	ck_assert_int_eq(open_share(0, POOL_PAGES_1G, 0), -ENOMEM);
	ck_assert_str_eq(err_text(), "pool 'a': this CPU or kernel has no pages of 1G");
	ck_assert_int_eq(open_share(0, POOL_PAGES_BASE, 20), -ENOMEM);
	ck_assert_str_eq(err_text(), "pool 'a': its share is 20% of 2 MiB that are "
				     "available on node 0, less than 1 MiB: give it "
				     "more, or other pools less");
}
END_TEST

/* ---- several at a time ---- */

static const struct pool_params several[] = {
	POOL("a", 0, 8 * MIB, POOL_PAGES_BASE),
	POOL("b", POOL_NODE_ANY, 4 * MIB, POOL_PAGES_BASE),
	POOL("c", 0, 2 * MIB, POOL_PAGES_BASE),
};
#define N_SEVERAL (sizeof(several) / sizeof(several[0]))

struct told {
	pthread_t thread;
	unsigned ready, populating;
	uint64_t done, bytes;
};

static void tell_ready(void *ctx, const struct pool_status *status, const char *note)
{
	struct told *told = ctx;

	(void)note;
	ck_assert(pthread_equal(told->thread, pthread_self()));
	ck_assert_uint_eq(status->free, status->bytes);
	told->ready++;
}

static void tell_populating(void *ctx, uint64_t done, uint64_t bytes)
{
	struct told *told = ctx;

	ck_assert(pthread_equal(told->thread, pthread_self()));
	if (told->populating++ == 0)
		ck_assert_uint_eq(done, 0);
	ck_assert_uint_ge(done, told->done);
	ck_assert_uint_eq(bytes, 14 * MIB);
	told->done = done;
	told->bytes = bytes;
}

START_TEST(open__tells_how_far_it_is)
{
	struct told told = { .thread = pthread_self() };
	const struct pools_events events = { &told, tell_ready, tell_populating };
	struct pool_status status;

	ck_assert_int_eq(pools_open(several, N_SEVERAL, &events, &pools), 0);
	ck_assert_uint_eq(told.ready, N_SEVERAL);
	/* at the beginning, and with some of those that were ready */
	ck_assert_uint_ge(told.populating, 2);
	ck_assert_uint_eq(told.done, told.bytes);
	/* in the order of the configuration, whichever was ready first */
	for (unsigned i = 0; i < N_SEVERAL; i++) {
		pools_status(pools, i, &status);
		ck_assert_str_eq(status.name, several[i].name);
		ck_assert_uint_eq(status.bytes, several[i].bytes);
	}
	pools_close(pools);
}
END_TEST

/* What containers do; for the rest of the process, which is one of its own. */
static void refuse_call(unsigned number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* What cannot be had is refused by one of those that are opened first, at the same time and
 * behind them. */
static const struct {
	struct pool_params params;
	int err;
	const char *said;
} failing[] = {
	{ POOL("d", 0, PIB / 2, POOL_PAGES_BASE), -ENOMEM,
	  "pool 'd': 512 TiB wanted, " },
	{ POOL("d", 1000, MIB, POOL_PAGES_BASE), -EINVAL,
	  "pool 'd': no NUMA node 1000" },
	{ POOL("d", POOL_NODE_ANY, PIB / 2, POOL_PAGES_BASE), -ENOMEM,
	  "pool 'd': 512 TiB wanted, " },
};

START_TEST(open__undoes_all_when_one_fails)
{
	struct pool_params params[N_SEVERAL + 1];
	unsigned fds = count_fds();

	memcpy(params, several, sizeof(several));
	params[N_SEVERAL] = failing[_i].params;
	ck_assert_int_eq(pools_open(params, N_SEVERAL + 1, NULL, &pools),
			 failing[_i].err);
	ck_assert_msg(strncmp(err_text(), failing[_i].said, strlen(failing[_i].said)) ==
			      0,
		      "%s", err_text());
	ck_assert_uint_eq(count_fds(), fds);
	ck_assert_uint_eq(count_lines("/proc/self/maps", "rmem-pool"), 0);
}
END_TEST

START_TEST(open__explains_that_binding_is_refused)
{
	unsigned fds = count_fds();

	if (!host_has_nodes())
		return;
	refuse_call(__NR_mbind);
	ck_assert_int_eq(open_params(MIB, 0, POOL_PAGES_BASE), -EPERM);
	ck_assert_str_eq(
		err_text(),
		"pool 'a': mbind to node 0 is refused to this process: allow it in its "
		"sandbox or container (CAP_SYS_NICE), or take node = any: Operation "
		"not permitted");
	ck_assert_uint_eq(count_fds(), fds);
	ck_assert_uint_eq(count_lines("/proc/self/maps", "rmem-pool"), 0);
	/* as it says */
	ck_assert_int_eq(open_params(MIB, POOL_NODE_ANY, POOL_PAGES_BASE), 0);
	pools_close(pools);
}
END_TEST

/* Nothing is said of the node rather than something wrong. */
START_TEST(open__does_without_the_kernels_word_on_nodes)
{
	if (!host_has_nodes())
		return;
	refuse_call(__NR_move_pages);
	ck_assert_int_eq(open_params(MIB, 0, POOL_PAGES_BASE), 0);
	ck_assert_int_eq(pools_node(pools, 0), -1);
	pools_close(pools);
}
END_TEST

START_TEST(node__is_asked_of_the_kernel)
{
	ck_assert_int_eq(open_params(MIB, 0, POOL_PAGES_BASE), 0);
	ck_assert_int_eq(pools_node(pools, 0), 0);
	pools_close(pools);
}
END_TEST

/* Memory that several want at the same time is not promised to each of them. */
START_TEST(open__divides_the_host_among_those_at_it)
{
	struct pool_params params[2] = {
		{ .name = "a", .pages = POOL_PAGES_BASE },
		{ .name = "b", .node = POOL_NODE_ANY, .pages = POOL_PAGES_BASE }
	};
	_Atomic(uint64_t) room = 3 * MIB;
	const atomic_bool stop = false;
	struct memory_work work = { .watch.stop = &stop, .room = &room };
	struct memory memory, other;
	char note[16];

	params[0].bytes = params[1].bytes = 2 * MIB;
	ck_assert_int_eq(memory_open(&params[0], &work, &memory, note, sizeof(note)),
			 0);
	ck_assert_uint_eq(room, MIB);
	ck_assert_uint_eq(work.watch.done, 2 * MIB);
	ck_assert_int_eq(memory_open(&params[1], &work, &other, note, sizeof(note)),
			 -ENOMEM);
	ck_assert_str_eq(err_text(), "2 MiB wanted, 1 MiB available on this host: make "
				     "the pool smaller");
	ck_assert_uint_eq(room, MIB);
	memory_close(&memory);
}
END_TEST

START_TEST(open__stops_when_it_is_told_to)
{
	_Atomic(uint64_t) room = UINT64_MAX;
	const atomic_bool stop = true;
	struct memory_work work = { .watch.stop = &stop, .room = &room };
	unsigned fds = count_fds();
	struct memory memory;
	char note[16];

	ck_assert_int_eq(memory_open(several, &work, &memory, note, sizeof(note)),
			 -ECANCELED);
	ck_assert_uint_eq(work.watch.done, 0);
	ck_assert(room == UINT64_MAX);
	ck_assert_uint_eq(count_fds(), fds);
	ck_assert_uint_eq(count_lines("/proc/self/maps", "rmem-pool"), 0);
}
END_TEST

/* ---- after a restart ---- */

static int kept_fd = -1;

/* Pools in the file, in which there is something on such pages, or AUTO: nothing yet. */
static int open_kept(uint64_t bytes, enum pool_pages asked, enum pool_pages kept)
{
	const struct pool_params params = { .name = "a",
					    .node = POOL_NODE_ANY,
					    .bytes = bytes,
					    .pages = asked,
					    .id = 7,
					    .file = kept_fd,
					    .kept = kept != POOL_PAGES_AUTO,
					    .pages_kept = kept };

	return pools_open(&params, 1, NULL, &pools);
}

static void kept_make(unsigned flags)
{
	kept_fd = memfd_create("kept", MFD_CLOEXEC | flags);
	ck_assert_int_ge(kept_fd, 0);
}

static bool all_are(const char *addr, uint64_t bytes, char value)
{
	for (uint64_t i = 0; i < bytes; i++)
		if (addr[i] != value)
			return false;
	return true;
}

START_TEST(claim__finds_what_was_lent_and_nothing_else)
{
	struct extent extents[2], mine;
	unsigned n;

	kept_make(0);
	ck_assert_msg(open_kept(4 * MIB, POOL_PAGES_BASE, POOL_PAGES_AUTO) == 0, "%s",
		      err_text());
	/* a new file: all of it is clean at once */
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(take_into(MIB, 1, -1, &extents[i], 1, &n), 0);
		memset(extent_addr(&extents[i]), 'a' + (int)i, MIB);
		ck_assert_uint_eq(extent_pool_id(&extents[i]), 7);
	}
	pools_close(pools);
	/* another size is asked for, but what is there is there */
	ck_assert_msg(open_kept(_i ? POOL_BYTES_AUTO : MIB,
				_i ? POOL_PAGES_AUTO : POOL_PAGES_BASE,
				POOL_PAGES_BASE) == 0,
		      "%s", err_text());
	/* nothing is lent before what was is known */
	ck_assert_int_ne(take_into(4096, 1, -1, &mine, 1, &n), 0);
	ck_assert_int_eq(pools_claim(pools, 8, extents[1].offset, MIB, &mine), -ENOENT);
	ck_assert_int_eq(pools_claim(pools, 7, 4 * MIB, MIB, &mine), -EINVAL);
	ck_assert_int_eq(pools_claim(pools, 7, 1, MIB, &mine), -EINVAL);
	ck_assert_int_eq(pools_claim(pools, 7, extents[1].offset, MIB - 5, &mine), 0);
	ck_assert_uint_eq(mine.bytes, MIB);
	ck_assert_int_eq(pools_claim(pools, 7, extents[1].offset, MIB, &mine), -EINVAL);
	ck_assert_str_ne(err_text(), "");
	ck_assert_int_eq(pools_settle(pools), 0);
	ck_assert_int_eq(pools_claim(pools, 7, 3 * MIB, MIB, &mine), -ENOENT);
	/* the rest is there once it is clean, and clean it is */
	while (take_into(3 * MIB, 1, -1, extents, 2, &n)) {
		struct pollfd fd = { .fd = pools_fd(pools), .events = POLLIN };

		ck_assert_int_eq(poll(&fd, 1, 10000), 1);
		(void)pools_process(pools);
	}
	for (unsigned i = 0; i < n; i++)
		ck_assert(all_are(extent_addr(&extents[i]), extents[i].bytes, 0));
	mine = (struct extent){ .pool = extents[0].pool, .offset = MIB };
	ck_assert(all_are(extent_addr(&mine), MIB, 'b'));
	pools_close(pools);
	(void)close(kept_fd);
}
END_TEST

START_TEST(open__refuses_a_file_with_other_pages)
{
	char path[] = "/tmp/rmem-pools-XXXXXX";
	struct stat st;

	kept_make(0);
	ck_assert_int_eq(open_kept(4 * MIB, POOL_PAGES_2M, POOL_PAGES_AUTO), -ENOMEM);
	ck_assert_msg(strstr(err_text(), "in pages of 4 KiB, not of 2 MiB"), "%s",
		      err_text());
	/* and it takes nothing */
	ck_assert_int_eq(fstat(kept_fd, &st), 0);
	ck_assert_int_eq(st.st_size, 0);
	ck_assert_int_eq(open_kept(4 * MIB, POOL_PAGES_BASE, POOL_PAGES_BASE), -EINVAL);
	/* whatever it is in is the largest there can be */
	ck_assert_msg(open_kept(4 * MIB, POOL_PAGES_AUTO, POOL_PAGES_AUTO) == 0, "%s",
		      err_text());
	pools_close(pools);
	/* what is there on transparent huge pages is there, whatever the kernel gives today */
	ck_assert_msg(open_kept(4 * MIB, POOL_PAGES_THP, POOL_PAGES_THP) == 0, "%s",
		      err_text());
	pools_close(pools);
	ck_assert_int_eq(ftruncate(kept_fd, 4 * MIB + 5), 0);
	ck_assert_int_eq(open_kept(4 * MIB, POOL_PAGES_BASE, POOL_PAGES_BASE), -EINVAL);
	ck_assert_msg(strstr(err_text(), "whole pages"), "%s", err_text());
	(void)close(kept_fd);
	kept_fd = mkstemp(path);
	ck_assert_int_ge(kept_fd, 0);
	(void)unlink(path);
	if (open_kept(4 * MIB, POOL_PAGES_BASE, POOL_PAGES_AUTO) == 0) {
		/* /tmp is in memory here */
		pools_close(pools);
	} else {
		ck_assert_msg(strstr(err_text(), "would be on a disk"), "%s",
			      err_text());
	}
	(void)close(kept_fd);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pools");
	TCase *tc = tcase_create("pools"), *host = tcase_create("host");

	tcase_add_test(tc, give__zeroes_before_the_next_grant);
	tcase_add_test(tc, give_tail__keeps_whole_pages);
	tcase_add_test(tc, scrubber__keeps_to_its_rate_unless_somebody_waits);
	tcase_add_test(tc, give__waits_until_it_is_told);
	tcase_add_test(tc, take__tells_full_from_not_yet_clean);
	tcase_add_test(tc, take__makes_several_of_what_is_scattered);
	tcase_add_test(tc, take__says_why_in_what_the_wire_carries);
	tcase_add_test(tc, take__keeps_to_what_a_device_registers);
	tcase_add_test(tc, take__that_comes_to_too_many_pieces_takes_nothing);
	tcase_add_test(tc, take__rounds_up_and_aligns);
	tcase_add_test(tc, take__spreads_over_pools_and_joins_them);
	tcase_add_test(tc, close__does_not_wait_for_dirty_memory);
	tcase_add_test(tc, open__refuses_more_than_there_is);
	tcase_add_test(tc, open__refuses_a_node_that_is_not_there);
	tcase_add_test(tc, open__explains_a_low_memlock_limit);
	tcase_add_test(tc, open__pins_and_places);
	tcase_add_loop_test(tc, share__is_divided, 0,
			    sizeof(divisions) / sizeof(divisions[0]));
	tcase_add_test(tc, share__is_in_whole_pages);
	tcase_add_loop_test(tc, share__of_all_is_at_most_all, 0,
			    sizeof(together) / sizeof(together[0]));
	tcase_add_test(host, open__takes_its_share);
	tcase_add_test(host, open__divides_what_a_fixed_size_leaves);
	tcase_add_test(host, open__explains_a_share_that_is_too_small);
	tcase_add_test(tc, open__tells_how_far_it_is);
	tcase_add_loop_test(tc, open__undoes_all_when_one_fails, 0,
			    sizeof(failing) / sizeof(failing[0]));
	tcase_add_test(tc, open__explains_that_binding_is_refused);
	tcase_add_test(tc, open__does_without_the_kernels_word_on_nodes);
	tcase_add_test(tc, node__is_asked_of_the_kernel);
	tcase_add_test(tc, open__divides_the_host_among_those_at_it);
	tcase_add_test(tc, open__stops_when_it_is_told_to);
	tcase_add_loop_test(tc, claim__finds_what_was_lent_and_nothing_else, 0, 2);
	tcase_add_test(tc, open__refuses_a_file_with_other_pages);
	tcase_add_checked_fixture(host, host_make, host_unmake);
	tcase_add_test(host, host__counts_huge_pages_that_are_not_promised);
	tcase_add_test(host, host__adds_up_what_a_node_has);
	tcase_add_test(host, open__explains_missing_huge_pages);
	tcase_add_test(host, open__auto_says_why_it_took_less);
	suite_add_tcase(suite, tc);
	suite_add_tcase(suite, host);
	return unit_main(suite);
}
