/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools become longer and shorter, in real memory. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "rmemd/pool/pools.h"
#include "unit/unit.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define TIB (MIB * MIB)

static struct pools *pools;
static struct pool_status status;
static struct pools_resized resized;
static char text[512]; /* of it */

static void open_one(uint64_t bytes)
{
	struct pool_params params = { .name = "a",
				      .node = POOL_NODE_ANY,
				      .bytes = bytes,
				      .pages = POOL_PAGES_BASE,
				      .id = 3 };

	ck_assert_msg(pools_open(&params, 1, NULL, &pools) == 0, "%s", err_text());
}

static void look(void)
{
	pools_status(pools, 0, &status);
	ck_assert_uint_eq(status.lent + status.scrubbing + status.free + status.closed,
			  status.bytes);
}

static void await_news(void)
{
	struct pollfd pollfd = { .fd = pools_fd(pools), .events = POLLIN };

	ck_assert_int_eq(poll(&pollfd, 1, 20000), 1);
	(void)pools_process(pools);
}

/* Until growing or shrinking has come to an end. */
static int await_resized(void)
{
	while (!pools_resized(pools, &resized))
		await_news();
	ck_assert_uint_eq(resized.i, 0);
	(void)snprintf(text, sizeof(text), "%s", resized.text);
	look();
	ck_assert_int_eq(status.resizing, POOL_RESTS);
	return resized.err;
}

static void grow(uint64_t bytes)
{
	ck_assert_int_eq(pools_grow(pools, 0, bytes), 0);
	ck_assert_msg(await_resized() == 0, "%s", text);
	ck_assert(resized.grown);
	ck_assert_uint_eq(resized.bytes, bytes);
	ck_assert_uint_eq(status.bytes_to, status.bytes);
	pools_lend(pools, 0);
}

static void reclaim(uint64_t bytes)
{
	ck_assert_int_eq(pools_reclaim(pools, 0, bytes, 77, POOL_SHRINK_REVOKE), 0);
	look();
	ck_assert_int_eq(status.resizing, POOL_RECLAIMS);
	ck_assert_uint_eq(status.bytes_to, bytes);
}

static void shrink(void)
{
	look();
	ck_assert_uint_eq(status.reclaimed, 0);
	pools_shrink(pools, 0);
	ck_assert_msg(await_resized() == 0, "%s", text);
	ck_assert(!resized.grown);
}

static struct extent take(uint64_t bytes)
{
	const struct pool_request request = { .bytes = bytes, .align = 1 };
	struct extent extent;
	unsigned n;

	ck_assert_msg(pools_alloc(pools, &request, &extent, 1, &n) == 0, "%s",
		      err_text());
	return extent;
}

static int take_error(uint64_t bytes)
{
	const struct pool_request request = { .bytes = bytes, .align = 1 };
	struct extent extents[8];
	unsigned n;

	return pools_alloc(pools, &request, extents, 8, &n);
}

static bool all_are(const struct extent *extent, char value)
{
	const char *addr = extent_addr(extent);

	return addr[0] == value && memcmp(addr, addr + 1, extent->bytes - 1) == 0;
}

static void fill(const struct extent *extent, char value)
{
	memset(extent_addr(extent), value, extent->bytes);
}

/* Of the pool's file; what the kernel has behind it, too. */
static uint64_t file_bytes(void)
{
	struct stat st;

	ck_assert_int_eq(fstat(pools_file(pools, 0), &st), 0);
	ck_assert_int_eq(st.st_blocks * 512, st.st_size);
	return (uint64_t)st.st_size;
}

START_TEST(grow__leaves_what_is_lent_where_it_is)
{
	struct extent before, more;
	void *addr;

	open_one(2 * MIB);
	before = take(2 * MIB);
	fill(&before, 'a');
	addr = extent_addr(&before);
	ck_assert_int_eq(take_error(4096), -ENOSPC);
	ck_assert_int_eq(pools_grow(pools, 0, 10 * MIB), 0);
	look();
	ck_assert_int_eq(status.resizing, POOL_GROWS);
	ck_assert_uint_eq(status.bytes, 2 * MIB);
	ck_assert_uint_eq(status.bytes_to, 10 * MIB);
	ck_assert_msg(await_resized() == 0, "%s", text);
	/* it is there, but it is not lent before that is said */
	ck_assert_int_eq(take_error(4096), -ENOSPC);
	ck_assert_uint_eq(status.bytes, 2 * MIB);
	ck_assert_uint_eq(resized.bytes, 10 * MIB);
	ck_assert_uint_eq(file_bytes(), 10 * MIB);
	pools_lend(pools, 0);
	look();
	ck_assert_uint_eq(status.free, 8 * MIB);
	more = take(8 * MIB);
	ck_assert(all_are(&more, 0));
	fill(&more, 'b');
	ck_assert_ptr_eq(extent_addr(&before), addr);
	ck_assert_ptr_eq((char *)addr + 2 * MIB, extent_addr(&more));
	ck_assert(all_are(&before, 'a'));
	ck_assert_int_eq(pools_node(pools, 0), 0);
	pools_close(pools);
}
END_TEST

START_TEST(grow__that_fails_changes_nothing)
{
	struct extent extent;

	open_one(2 * MIB);
	extent = take(MIB);
	fill(&extent, 'a');
	ck_assert_int_eq(pools_grow(pools, 0, 512 * TIB), 0);
	ck_assert_int_eq(await_resized(), -ENOMEM);
	ck_assert_msg(strstr(text, "available on this host: make the pool smaller"),
		      "%s", text);
	ck_assert_uint_eq(status.bytes, 2 * MIB);
	ck_assert_uint_eq(file_bytes(), 2 * MIB);
	ck_assert(all_are(&extent, 'a'));
	grow(4 * MIB);
	ck_assert_uint_eq(file_bytes(), 4 * MIB);
	(void)take(3 * MIB);
	pools_close(pools);
}
END_TEST

/* When the file has grown and is mapped already.  In a process of its own: Check forks. */
START_TEST(grow__undoes_what_it_began)
{
	const struct rlimit limit = { .rlim_cur = 3 * MIB, .rlim_max = 3 * MIB };
	struct extent extent;

	open_one(2 * MIB);
	extent = take(2 * MIB);
	fill(&extent, 'a');
	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	/* with its capability root may lock whatever it likes */
	if (geteuid() == 0)
		ck_assert_int_eq(seteuid(65534), 0);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(pools_grow(pools, 0, 8 * MIB), 0);
		ck_assert_int_eq(await_resized(), -ENOMEM);
		ck_assert_msg(strstr(text, "RLIMIT_MEMLOCK is 3 MiB, too little to pin "
					   "6 MiB: LimitMEMLOCK=infinity"),
			      "%s", text);
		ck_assert_uint_eq(status.bytes, 2 * MIB);
		ck_assert_uint_eq(file_bytes(), 2 * MIB);
	}
	/* what was behind it is there still */
	grow(2 * MIB + 4096);
	ck_assert(all_are(&extent, 'a'));
	pools_close(pools);
	if (getuid() == 0)
		ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

/* A file on a file system that has 8 MiB, which only this process sees; skipped where that is
 * not allowed. */
static int file_limited(void)
{
	int fd;

	if (unshare(CLONE_NEWNS) && unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return -1;
	ck_assert_int_eq(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	if (mount("tmpfs", "/tmp", "tmpfs", 0, "size=8M"))
		return -1;
	fd = open("/tmp/pool", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	return fd;
}

START_TEST(grow__knows_the_file_system)
{
	struct pool_params params = { .name = "a",
				      .node = POOL_NODE_ANY,
				      .bytes = 2 * MIB,
				      .pages = POOL_PAGES_BASE };

	params.file = file_limited();
	if (params.file < 0)
		return;
	ck_assert_msg(pools_open(&params, 1, NULL, &pools) == 0, "%s", err_text());
	ck_assert_int_eq(pools_grow(pools, 0, 9 * MIB), 0);
	ck_assert_int_eq(await_resized(), -ENOMEM);
	ck_assert_str_eq(text, "7 MiB wanted, 6 MiB free on the file system that its "
			       "file is on: mount it with a larger size, or make the "
			       "pool smaller");
	ck_assert_uint_eq(file_bytes(), 2 * MIB);
	grow(8 * MIB);
	(void)take(8 * MIB);
	pools_close(pools);
	(void)close(params.file);
}
END_TEST

START_TEST(grow__can_be_stopped)
{
	open_one(MIB);
	ck_assert_int_eq(pools_grow(pools, 0, 512 * MIB), 0);
	pools_grow_stop(pools, 0);
	ck_assert_int_eq(await_resized(), -ECANCELED);
	ck_assert_uint_eq(resized.wanted, 512 * MIB);
	ck_assert_uint_eq(status.bytes, MIB);
	ck_assert_uint_eq(file_bytes(), MIB);
	pools_close(pools);
}
END_TEST

START_TEST(close__stops_what_is_growing)
{
	open_one(MIB);
	ck_assert_int_eq(pools_grow(pools, 0, 256 * MIB), 0);
	pools_close(pools);
	/* and what has grown, but is not known to */
	open_one(MIB);
	ck_assert_int_eq(pools_grow(pools, 0, 2 * MIB), 0);
	ck_assert_int_eq(poll(&(struct pollfd){ pools_fd(pools), POLLIN, 0 }, 1, 20000),
			 1);
	pools_close(pools);
}
END_TEST

/* Where address space is short none is put aside. */
START_TEST(grow__where_addresses_are_limited)
{
	struct rlimit limit;
	unsigned long pages;
	FILE *file = fopen("/proc/self/statm", "re");
	struct extent extent;
	void *behind, *got;

	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(fscanf(file, "%lu", &pages), 1);
	(void)fclose(file);
	limit.rlim_cur = limit.rlim_max = pages * 4096 + 512 * MIB;
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	open_one(8 * MIB);
	extent = take(8 * MIB);
	behind = (char *)extent_addr(&extent) + 8 * MIB;
	/* something may be there already */
	got = mmap(behind, 4096, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	ck_assert(got == behind || errno == EEXIST);
	ck_assert_int_eq(pools_grow(pools, 0, 16 * MIB), 0);
	ck_assert_int_eq(await_resized(), -ENOMEM);
	ck_assert_msg(strstr(text, "address space for 8 MiB alone where the pool is, "
				   "which must not move: restart"),
		      "%s", text);
	ck_assert_uint_eq(file_bytes(), 8 * MIB);
	if (got == behind) {
		ck_assert_int_eq(munmap(behind, 4096), 0);
		grow(8 * MIB + 4096);
		extent = take(4096);
		ck_assert_ptr_eq(extent_addr(&extent), behind);
	}
	pools_close(pools);
}
END_TEST

START_TEST(recall__lends_nothing_of_the_end)
{
	struct extent low, across, high;
	struct pool_reclaim wanted;

	open_one(8 * MIB);
	low = take(3 * MIB);
	across = take(3 * MIB);
	high = take(MIB);
	extent_reclaim(&high, &wanted);
	ck_assert_uint_eq(wanted.bytes, 0);
	reclaim(4 * MIB);
	ck_assert_uint_eq(status.closed, MIB);
	ck_assert_uint_eq(status.reclaimed, 3 * MIB);
	ck_assert_uint_eq(status.free, 0);
	ck_assert_int_eq(take_error(4096), -ENOSPC);
	ck_assert_msg(strstr(err_text(), "0 B are free"), "%s", err_text());
	extent_reclaim(&low, &wanted);
	ck_assert_uint_eq(wanted.bytes, 0);
	extent_reclaim(&across, &wanted);
	ck_assert_uint_eq(wanted.bytes, 2 * MIB);
	ck_assert_uint_eq(wanted.until_ms, 77);
	ck_assert_int_eq(wanted.then, POOL_SHRINK_REVOKE);
	extent_reclaim(&high, &wanted);
	ck_assert_uint_eq(wanted.bytes, MIB);
	/* what goes need not be clean, and is told of when it is back */
	pools_free(pools, across);
	look();
	ck_assert_uint_eq(status.scrubbing, 3 * MIB);
	while (status.scrubbing) {
		await_news();
		look();
	}
	ck_assert_uint_eq(status.free, MIB);
	ck_assert_uint_eq(status.reclaimed, MIB);
	pools_free(pools, high);
	await_news();
	look();
	ck_assert_uint_eq(status.scrubbed_ever, 3 * MIB);
	shrink();
	ck_assert_uint_eq(status.bytes, 4 * MIB);
	ck_assert_uint_eq(file_bytes(), 4 * MIB);
	ck_assert_int_eq(take_error(MIB + 4096), -ENOSPC);
	(void)take(MIB);
	pools_close(pools);
}
END_TEST

/* The word of the first is under way, with a block that was cleaned behind it, when the second
 * is free. */
START_TEST(recall__of_two_pools)
{
	const struct pool_params params[] = {
		{ .name = "a", .node = -1, .bytes = 4 * MIB, .pages = POOL_PAGES_BASE },
		{ .name = "b", .node = -1, .bytes = 4 * MIB, .pages = POOL_PAGES_BASE }
	};
	struct extent low, high[2];

	ck_assert_msg(pools_open(params, 2, NULL, &pools) == 0, "%s", err_text());
	/* the pool that has more free is next */
	low = take(2 * MIB);
	(void)take(2 * MIB);
	for (unsigned i = 0; i < 2; i++)
		high[i] = take(2 * MIB);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(
			pools_reclaim(pools, i, 2 * MIB, 77, POOL_SHRINK_REFUSE), 0);
	pools_free(pools, high[0]);
	pools_free(pools, low);
	(void)usleep(50000);
	pools_free(pools, high[1]);
	await_news();
	for (unsigned i = 0; i < 2; i++) {
		pools_status(pools, i, &status);
		ck_assert_uint_eq(status.reclaimed, 0);
		pools_shrink(pools, i);
	}
	/* and the next word comes, too */
	for (unsigned i = 0; i < 2;) {
		if (pools_resized(pools, &resized))
			i++;
		else
			await_news();
	}
	grow(4 * MIB);
	high[0] = take(2 * MIB);
	reclaim(2 * MIB);
	pools_free(pools, high[0]);
	await_news();
	shrink();
	pools_close(pools);
}
END_TEST

START_TEST(recall_end__cleans_what_came_back_unclean)
{
	struct extent extent;
	struct pool_reclaim wanted;

	open_one(4 * MIB);
	(void)take(MIB);
	extent = take(2 * MIB);
	fill(&extent, 'x');
	reclaim(MIB);
	pools_free(pools, extent);
	look();
	ck_assert_uint_eq(status.closed, 3 * MIB);
	ck_assert_uint_eq(status.scrubbing, 0);
	pools_reclaim_end(pools, 0);
	look();
	ck_assert_int_eq(status.resizing, POOL_RESTS);
	ck_assert_uint_eq(status.free, MIB);
	ck_assert_uint_eq(status.scrubbing, 2 * MIB);
	while (status.scrubbing) {
		await_news();
		look();
	}
	extent = take(3 * MIB);
	ck_assert(all_are(&extent, 0));
	extent_reclaim(&extent, &wanted);
	ck_assert_uint_eq(wanted.bytes, 0);
	pools_close(pools);
}
END_TEST

START_TEST(shrink__then_grow_reads_as_zero)
{
	struct extent extent, low;
	void *addr;

	open_one(4 * MIB);
	low = take(MIB);
	fill(&low, 'l');
	for (unsigned i = 0; i < 3; i++) {
		extent = take(3 * MIB);
		ck_assert(all_are(&extent, 0));
		fill(&extent, 'x');
		addr = extent_addr(&extent);
		reclaim(MIB);
		pools_free(pools, extent);
		await_news();
		shrink();
		ck_assert_uint_eq(file_bytes(), MIB);
		grow(4 * MIB);
		ck_assert_ptr_eq(extent_addr(&extent), addr);
	}
	ck_assert(all_are(&low, 'l'));
	pools_close(pools);
}
END_TEST

/* A file that the kernel does not let become shorter keeps what was written there. */
START_TEST(shrink__that_fails_lends_nothing_of_it_again)
{
	struct pool_params params = { .name = "a",
				      .node = POOL_NODE_ANY,
				      .bytes = 4 * MIB,
				      .pages = POOL_PAGES_BASE };
	struct extent extent;

	params.file = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_ge(params.file, 0);
	ck_assert_msg(pools_open(&params, 1, NULL, &pools) == 0, "%s", err_text());
	extent = take(4 * MIB);
	fill(&extent, 'x');
	pools_free_tail(pools, &extent, MIB);
	while (look(), status.scrubbing)
		await_news();
	memset((char *)extent_addr(&extent) + MIB, 'x', 3 * MIB);
	ck_assert_int_eq(fcntl(params.file, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	reclaim(MIB);
	pools_shrink(pools, 0);
	ck_assert_int_eq(await_resized(), -EPERM);
	ck_assert_uint_eq(status.bytes, MIB);
	/* its mapping is cut when it has no pages any more, which holds up nobody */
	ck_assert_int_eq(((volatile char *)extent_addr(&extent))[2 * MIB], 'x');
	ck_assert_int_eq(pools_grow(pools, 0, 8 * MIB), 0);
	ck_assert_int_eq(await_resized(), -EPERM);
	ck_assert_msg(strstr(text, "the end of the pool's file"), "%s", text);
	ck_assert_uint_eq(status.bytes, MIB);
	ck_assert_uint_eq(file_bytes(), 4 * MIB);
	ck_assert(all_are(&extent, 'x'));
	pools_close(pools);
	(void)close(params.file);
}
END_TEST

/* Whatever the process was at when it ended, the ledger's word counts: what is behind that
 * nobody was lent. */
START_TEST(open__cuts_a_file_that_is_longer_than_it_should_be)
{
	struct pool_params params = { .name = "a",
				      .node = POOL_NODE_ANY,
				      .bytes = 4 * MIB,
				      .pages = POOL_PAGES_BASE,
				      .id = 3,
				      .kept = true,
				      .pages_kept = POOL_PAGES_BASE };
	static const uint64_t kept[] = { 0, 2 * MIB, 4 * MIB, 6 * MIB };
	static const uint64_t got[] = { 4 * MIB, 2 * MIB, 4 * MIB, 4 * MIB };

	params.file = memfd_create("kept", MFD_CLOEXEC);
	ck_assert_int_ge(params.file, 0);
	ck_assert_int_eq(ftruncate(params.file, 4 * MIB), 0);
	params.bytes_kept = kept[_i];
	ck_assert_msg(pools_open(&params, 1, NULL, &pools) == 0, "%s", err_text());
	ck_assert_int_eq(pools_settle(pools), 0);
	look();
	ck_assert_uint_eq(status.bytes, got[_i]);
	while (status.scrubbing) {
		await_news();
		look();
	}
	ck_assert_uint_eq(file_bytes(), got[_i]);
	grow(8 * MIB);
	ck_assert_uint_eq(file_bytes(), 8 * MIB);
	pools_close(pools);
	(void)close(params.file);
}
END_TEST

/* A node's memory does not become the pool's by halves: those under way one after the other. */
START_TEST(grow__two_at_a_time)
{
	struct pool_params params[] = {
		{ .name = "a", .node = 0, .bytes = MIB, .pages = POOL_PAGES_BASE },
		{ .name = "b", .node = -1, .bytes = MIB, .pages = POOL_PAGES_BASE }
	};
	unsigned done = 0;

	ck_assert_msg(pools_open(params, 2, NULL, &pools) == 0, "%s", err_text());
	ck_assert_int_eq(pools_grow(pools, 0, 8 * MIB), 0);
	ck_assert_int_eq(pools_grow(pools, 1, 16 * MIB), 0);
	while (done != 3) {
		await_news();
		while (pools_resized(pools, &resized)) {
			ck_assert_msg(resized.err == 0, "%s", resized.text);
			ck_assert_uint_eq(resized.bytes, (resized.i + 1) * 8 * MIB);
			pools_lend(pools, resized.i);
			done |= 1u << resized.i;
		}
	}
	(void)take(15 * MIB);
	(void)take(7 * MIB);
	pools_close(pools);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pools-resize");
	TCase *tc = tcase_create("pools-resize");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, grow__leaves_what_is_lent_where_it_is);
	tcase_add_test(tc, grow__that_fails_changes_nothing);
	tcase_add_test(tc, grow__undoes_what_it_began);
	tcase_add_test(tc, grow__knows_the_file_system);
	tcase_add_test(tc, grow__can_be_stopped);
	tcase_add_test(tc, grow__where_addresses_are_limited);
	tcase_add_test(tc, grow__two_at_a_time);
	tcase_add_test(tc, close__stops_what_is_growing);
	tcase_add_test(tc, recall__lends_nothing_of_the_end);
	tcase_add_test(tc, recall__of_two_pools);
	tcase_add_test(tc, recall_end__cleans_what_came_back_unclean);
	tcase_add_test(tc, shrink__then_grow_reads_as_zero);
	tcase_add_test(tc, shrink__that_fails_lends_nothing_of_it_again);
	tcase_add_loop_test(tc, open__cuts_a_file_that_is_longer_than_it_should_be, 0,
			    4);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
