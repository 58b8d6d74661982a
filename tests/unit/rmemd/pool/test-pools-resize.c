/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools grow and shrink, in real memory. */
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
#include "rmemd/pool/scrubber.h"
#include "unit/rmemd/pool/pools-case.h"

#define TIB (MIB * MIB)

static struct pool_status status;
static struct pools_resized resized;
static char text[512]; /* of the result */

static void read_status(void)
{
	status = pools_status(pools, 0);
	ck_assert_uint_eq(status.lent + status.scrubbing + status.free + status.closed,
			  status.bytes);
}

static void await_clean(void)
{
	while (read_status(), status.scrubbing)
		(void)await_event();
}

/* Wait until growing or shrinking has ended. */
static int await_resized(void)
{
	while (!pools_resized(pools, &resized))
		(void)await_event();
	ck_assert_uint_eq(resized.i, 0);
	(void)snprintf(text, sizeof(text), "%s", resized.text);
	read_status();
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
	struct pool_params params = *pools_params(pools, 0);

	params.shrink = POOL_SHRINK_REVOKE;
	pools_set_asked(pools, 0, &params);
	ck_assert_int_eq(pools_reclaim(pools, 0, bytes, 77), 0);
	read_status();
	ck_assert_int_eq(status.resizing, POOL_CLOSES);
	ck_assert_uint_eq(status.bytes_to, bytes);
	ck_assert_uint_eq(status.to_reclaim, 0);
	ck_assert(pools_move_end(pools, 0));
	read_status();
	ck_assert_int_eq(status.resizing, POOL_RECLAIMS);
	ck_assert_uint_eq(status.bytes_to, bytes);
}

static void shrink(void)
{
	read_status();
	ck_assert_uint_eq(status.to_reclaim, 0);
	pools_shrink(pools, 0);
	ck_assert(pools_move_end(pools, 0));
	ck_assert_msg(await_resized() == 0, "%s", text);
	ck_assert(!resized.grown);
}

/* The size of the pool's file; the kernel has allocated all of it. */
static uint64_t file_bytes(void)
{
	struct stat st;

	ck_assert_int_eq(fstat(pools_status(pools, 0).file, &st), 0);
	ck_assert_int_eq(st.st_blocks * 512, st.st_size);
	return (uint64_t)st.st_size;
}

START_TEST(grow__does_not_move_lent_extents)
{
	struct extent before, more;
	void *addr;

	open_one(2 * MIB);
	before = alloc_one(2 * MIB);
	extent_fill(&before, 'a');
	addr = extent_addr(&before);
	ck_assert_int_eq(alloc(4096, 8), -ENOSPC);
	ck_assert_int_eq(pools_grow(pools, 0, 10 * MIB), 0);
	read_status();
	ck_assert_int_eq(status.resizing, POOL_GROWS);
	ck_assert_uint_eq(status.bytes, 2 * MIB);
	ck_assert_uint_eq(status.bytes_to, 10 * MIB);
	ck_assert_msg(await_resized() == 0, "%s", text);
	/* the added memory is not lent before pools_lend() */
	ck_assert_int_eq(alloc(4096, 8), -ENOSPC);
	ck_assert_uint_eq(status.bytes, 2 * MIB);
	ck_assert_uint_eq(resized.bytes, 10 * MIB);
	ck_assert_uint_eq(file_bytes(), 10 * MIB);
	pools_lend(pools, 0);
	read_status();
	ck_assert_uint_eq(status.free, 8 * MIB);
	more = alloc_one(8 * MIB);
	ck_assert(extent_is(&more, 0));
	extent_fill(&more, 'b');
	ck_assert_ptr_eq(extent_addr(&before), addr);
	ck_assert_ptr_eq((char *)addr + 2 * MIB, extent_addr(&more));
	ck_assert(extent_is(&before, 'a'));
	ck_assert_int_eq(pools_node(pools, 0), 0);
}
END_TEST

START_TEST(grow__that_fails_changes_nothing)
{
	struct extent extent;

	open_one(2 * MIB);
	extent = alloc_one(MIB);
	extent_fill(&extent, 'a');
	ck_assert_int_eq(pools_grow(pools, 0, 512 * TIB), 0);
	ck_assert_int_eq(await_resized(), -ENOMEM);
	ck_assert_msg(strstr(text, "available on this host: make the pool smaller"),
		      "%s", text);
	ck_assert_uint_eq(status.bytes, 2 * MIB);
	ck_assert_uint_eq(file_bytes(), 2 * MIB);
	ck_assert(extent_is(&extent, 'a'));
	grow(4 * MIB);
	ck_assert_uint_eq(file_bytes(), 4 * MIB);
	(void)alloc_one(3 * MIB);
}
END_TEST

/* The growth fails after the file has grown and is mapped.  Check runs each case in a process of
 * its own, which loses its rights here. */
START_TEST(grow__undoes_its_steps_on_failure)
{
	const struct rlimit limit = { .rlim_cur = 3 * MIB, .rlim_max = 3 * MIB };
	struct extent extent;

	open_one(2 * MIB);
	extent = alloc_one(2 * MIB);
	extent_fill(&extent, 'a');
	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	/* root may exceed the limit */
	if (geteuid() == 0)
		ck_assert_int_eq(seteuid(65534), 0);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(pools_grow(pools, 0, 8 * MIB), 0);
		ck_assert_int_eq(await_resized(), -ENOMEM);
		ck_assert_msg(strstr(text, "RLIMIT_MEMLOCK is 3 MiB, 2 MiB of it used, "
					   "too little to pin 6 MiB more: "),
			      "%s", text);
		ck_assert_uint_eq(status.bytes, 2 * MIB);
		ck_assert_uint_eq(file_bytes(), 2 * MIB);
	}
	grow(2 * MIB + 4096);
	ck_assert(extent_is(&extent, 'a'));
	close_pools();
	if (getuid() == 0)
		ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

/* A file on a file system of 8 MiB that only this process sees; -1: no permission to mount. */
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

START_TEST(grow__reports_a_full_file_system)
{
	struct pool_params params = POOL("a", POOL_NODE_ANY, 2 * MIB, POOL_PAGES_BASE);

	params.file = kept_fd = file_limited();
	if (params.file < 0)
		return;
	open_pools(&params, 1);
	ck_assert_int_eq(pools_grow(pools, 0, 9 * MIB), 0);
	ck_assert_int_eq(await_resized(), -ENOMEM);
	ck_assert_str_eq(text, "7 MiB wanted, 6 MiB free on the file system that its "
			       "file is on: mount it with a larger size, or make the "
			       "pool smaller");
	ck_assert_uint_eq(file_bytes(), 2 * MIB);
	grow(8 * MIB);
	(void)alloc_one(8 * MIB);
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
}
END_TEST

START_TEST(close__stops_growing)
{
	open_one(MIB);
	ck_assert_int_eq(pools_grow(pools, 0, 256 * MIB), 0);
	close_pools();
	/* the second growth is complete, but not processed */
	open_one(MIB);
	ck_assert_int_eq(pools_grow(pools, 0, 2 * MIB), 0);
	ck_assert_int_eq(poll(&(struct pollfd){ pools_fd(pools), POLLIN, 0 }, 1, 20000),
			 1);
}
END_TEST

/* With limited address space none is reserved behind the pool. */
START_TEST(grow__fails_without_address_space)
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
	extent = alloc_one(8 * MIB);
	behind = (char *)extent_addr(&extent) + 8 * MIB;
	/* another mapping may be there */
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
		extent = alloc_one(4096);
		ck_assert_ptr_eq(extent_addr(&extent), behind);
	}
}
END_TEST

START_TEST(reclaim__lends_nothing_of_the_closed_end)
{
	struct extent low, across, high;
	struct pool_reclaim wanted;

	open_one(8 * MIB);
	low = alloc_one(3 * MIB);
	across = alloc_one(3 * MIB);
	high = alloc_one(MIB);
	ck_assert_uint_eq(extent_reclaim(&high).bytes, 0);
	reclaim(4 * MIB);
	ck_assert_uint_eq(status.closed, MIB);
	ck_assert_uint_eq(status.to_reclaim, 3 * MIB);
	ck_assert_uint_eq(status.free, 0);
	ck_assert_int_eq(alloc(4096, 8), -ENOSPC);
	ck_assert_msg(strstr(err_text(), "0 B are free"), "%s", err_text());
	ck_assert_uint_eq(extent_reclaim(&low).bytes, 0);
	wanted = extent_reclaim(&across);
	ck_assert_uint_eq(wanted.bytes, 2 * MIB);
	ck_assert_uint_eq(wanted.until_ms, 77);
	ck_assert_int_eq(wanted.then, POOL_SHRINK_REVOKE);
	ck_assert_uint_eq(extent_reclaim(&high).bytes, MIB);
	pools_free(pools, across);
	read_status();
	ck_assert_uint_eq(status.scrubbing, 3 * MIB);
	await_clean();
	ck_assert_uint_eq(status.free, MIB);
	ck_assert_uint_eq(status.to_reclaim, MIB);
	/* an extent within the closed end is not zeroed */
	pools_free(pools, high);
	(void)await_event();
	read_status();
	ck_assert_uint_eq(status.scrubbed_ever, 3 * MIB);
	shrink();
	ck_assert_uint_eq(status.bytes, 4 * MIB);
	ck_assert_uint_eq(file_bytes(), 4 * MIB);
	ck_assert_int_eq(alloc(MIB + 4096, 8), -ENOSPC);
	(void)alloc_one(MIB);
}
END_TEST

/* The second pool's end is freed while events of the first pool wait: a freed end, and behind it a
 * cleaned block. */
START_TEST(reclaim__of_two_pools)
{
	const struct pool_params params[] = {
		POOL("a", POOL_NODE_ANY, 4 * MIB, POOL_PAGES_BASE),
		POOL("b", POOL_NODE_ANY, 4 * MIB, POOL_PAGES_BASE),
	};
	struct extent low, high[2];

	open_pools(params, 2);
	/* memory comes from the pool with more free memory */
	low = alloc_one(2 * MIB);
	(void)alloc_one(2 * MIB);
	for (unsigned i = 0; i < 2; i++)
		high[i] = alloc_one(2 * MIB);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(pools_reclaim(pools, i, 2 * MIB, 77), 0);
		ck_assert(pools_move_end(pools, i));
	}
	pools_free(pools, high[0]);
	pools_free(pools, low);
	(void)usleep(50000);
	pools_free(pools, high[1]);
	(void)await_event();
	for (unsigned i = 0; i < 2; i++) {
		status = pools_status(pools, i);
		ck_assert_uint_eq(status.to_reclaim, 0);
		pools_shrink(pools, i);
		ck_assert(pools_move_end(pools, i));
	}
	for (unsigned i = 0; i < 2;) {
		if (pools_resized(pools, &resized))
			i++;
		else
			(void)await_event();
	}
	grow(4 * MIB);
	high[0] = alloc_one(2 * MIB);
	reclaim(2 * MIB);
	pools_free(pools, high[0]);
	(void)await_event();
	shrink();
}
END_TEST

START_TEST(reclaim_end__zeroes_the_opened_end)
{
	struct extent extent;

	open_one(4 * MIB);
	(void)alloc_one(MIB);
	extent = alloc_one(2 * MIB);
	extent_fill(&extent, 'x');
	reclaim(MIB);
	pools_free(pools, extent);
	read_status();
	ck_assert_uint_eq(status.closed, 3 * MIB);
	ck_assert_uint_eq(status.scrubbing, 0);
	pools_reclaim_cancel(pools, 0);
	read_status();
	ck_assert_int_eq(status.resizing, POOL_REOPENS);
	ck_assert_uint_eq(status.bytes_to, 4 * MIB);
	ck_assert(pools_move_end(pools, 0));
	read_status();
	ck_assert_int_eq(status.resizing, POOL_RESTS);
	ck_assert_uint_eq(status.free, MIB);
	ck_assert_uint_eq(status.scrubbing, 2 * MIB);
	await_clean();
	extent = alloc_one(3 * MIB);
	ck_assert(extent_is(&extent, 0));
	ck_assert_uint_eq(extent_reclaim(&extent).bytes, 0);
}
END_TEST

/* Its first piece is clean, but belongs to the closed end, as does the begin of the second one. */
START_TEST(reclaim__of_a_block_that_is_zeroed_in_pieces)
{
	uint64_t bytes = 3 * SCRUB_PIECE_BYTES;
	struct extent extent;

	open_one(bytes);
	extent = alloc_one(bytes);
	extent_fill(&extent, 'x');
	pools_free(pools, extent);
	reclaim(MIB);
	(void)await_event();
	read_status();
	ck_assert_uint_eq(status.free, 0);
	ck_assert_uint_eq(status.scrubbing, bytes);
	await_clean();
	ck_assert_uint_eq(status.scrubbed_ever, bytes);
	ck_assert_uint_eq(status.free, MIB);
	ck_assert_uint_eq(status.closed, bytes - MIB);
	pools_reclaim_cancel(pools, 0);
	ck_assert(pools_move_end(pools, 0));
	extent = alloc_one(bytes);
	ck_assert(extent_is(&extent, 0));
}
END_TEST

START_TEST(shrink__then_grow_reads_as_zero)
{
	struct extent extent, low;
	void *addr;

	open_one(4 * MIB);
	low = alloc_one(MIB);
	extent_fill(&low, 'l');
	for (unsigned i = 0; i < 3; i++) {
		extent = alloc_one(3 * MIB);
		ck_assert(extent_is(&extent, 0));
		extent_fill(&extent, 'x');
		addr = extent_addr(&extent);
		reclaim(MIB);
		pools_free(pools, extent);
		(void)await_event();
		shrink();
		ck_assert_uint_eq(file_bytes(), MIB);
		grow(4 * MIB);
		ck_assert_ptr_eq(extent_addr(&extent), addr);
	}
	ck_assert(extent_is(&low, 'l'));
}
END_TEST

/* A sealed file cannot become shorter, so its end keeps its old bytes. */
START_TEST(failed_shrink__does_not_lend_the_end_again)
{
	struct pool_params params = POOL("a", POOL_NODE_ANY, 4 * MIB, POOL_PAGES_BASE);
	struct extent extent;

	params.file = kept_fd = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_ge(kept_fd, 0);
	open_pools(&params, 1);
	extent = alloc_one(4 * MIB);
	extent_fill(&extent, 'x');
	pools_free_tail(pools, &extent, MIB);
	await_clean();
	memset((char *)extent_addr(&extent) + MIB, 'x', 3 * MIB);
	ck_assert_int_eq(fcntl(params.file, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	reclaim(MIB);
	pools_shrink(pools, 0);
	ck_assert(pools_move_end(pools, 0));
	ck_assert_int_eq(await_resized(), -EPERM);
	ck_assert_uint_eq(status.bytes, MIB);
	/* the end of the mapping is removed only after the end of the file */
	ck_assert_int_eq(((volatile char *)extent_addr(&extent))[2 * MIB], 'x');
	ck_assert_int_eq(pools_grow(pools, 0, 8 * MIB), 0);
	ck_assert_int_eq(await_resized(), -EPERM);
	ck_assert_msg(strstr(text, "the end of the pool's file"), "%s", text);
	ck_assert_uint_eq(status.bytes, MIB);
	ck_assert_uint_eq(file_bytes(), 4 * MIB);
	ck_assert(extent_is(&extent, 'x'));
}
END_TEST

/* The size in the ledger is valid; memory of the file behind it was never lent. */
START_TEST(open__cuts_a_file_to_the_size_in_the_ledger)
{
	struct pool_params params = POOL("a", POOL_NODE_ANY, 4 * MIB, POOL_PAGES_BASE);
	static const uint64_t kept[] = { 0, 2 * MIB, 4 * MIB, 6 * MIB };
	static const uint64_t got[] = { 4 * MIB, 2 * MIB, 4 * MIB, 4 * MIB };

	kept_make();
	ck_assert_int_eq(ftruncate(kept_fd, 4 * MIB), 0);
	params.file = kept_fd;
	params.kept = true;
	params.pages_kept = POOL_PAGES_BASE;
	params.bytes_kept = kept[_i];
	open_pools(&params, 1);
	ck_assert_int_eq(pools_zero_unlent(pools), 0);
	read_status();
	ck_assert_uint_eq(status.bytes, got[_i]);
	await_clean();
	ck_assert_uint_eq(file_bytes(), got[_i]);
	grow(8 * MIB);
	ck_assert_uint_eq(file_bytes(), 8 * MIB);
}
END_TEST

START_TEST(grow__two_pools_at_a_time)
{
	struct pool_params params[] = {
		POOL("a", 0, MIB, POOL_PAGES_BASE),
		POOL("b", POOL_NODE_ANY, MIB, POOL_PAGES_BASE),
	};
	unsigned done = 0;

	open_pools(params, 2);
	ck_assert_int_eq(pools_grow(pools, 0, 8 * MIB), 0);
	ck_assert_int_eq(pools_grow(pools, 1, 16 * MIB), 0);
	while (done != 3) {
		(void)await_event();
		while (pools_resized(pools, &resized)) {
			ck_assert_msg(resized.err == 0, "%s", resized.text);
			ck_assert_uint_eq(resized.bytes, (resized.i + 1) * 8 * MIB);
			pools_lend(pools, resized.i);
			done |= 1u << resized.i;
		}
	}
	(void)alloc_one(15 * MIB);
	(void)alloc_one(7 * MIB);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("pools-resize", NULL, pools_teardown);

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, grow__does_not_move_lent_extents);
	tcase_add_test(tc, grow__that_fails_changes_nothing);
	tcase_add_test(tc, grow__undoes_its_steps_on_failure);
	tcase_add_test(tc, grow__reports_a_full_file_system);
	tcase_add_test(tc, grow__can_be_stopped);
	tcase_add_test(tc, grow__fails_without_address_space);
	tcase_add_test(tc, grow__two_pools_at_a_time);
	tcase_add_test(tc, close__stops_growing);
	tcase_add_test(tc, reclaim__lends_nothing_of_the_closed_end);
	tcase_add_test(tc, reclaim__of_two_pools);
	tcase_add_test(tc, reclaim_end__zeroes_the_opened_end);
	tcase_add_test(tc, reclaim__of_a_block_that_is_zeroed_in_pieces);
	tcase_add_test(tc, shrink__then_grow_reads_as_zero);
	tcase_add_test(tc, failed_shrink__does_not_lend_the_end_again);
	tcase_add_loop_test(tc, open__cuts_a_file_to_the_size_in_the_ledger, 0, 4);
	return unit_main();
}
