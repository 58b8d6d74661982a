/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening pools: several at a time; if one fails, none is open. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/rmemd/pool/pools-case.h"
#include "rmemd/pool/host.h"
#include "rmemd/pool/memory.h"

START_TEST(open__pins_and_places)
{
	const struct pool_params params = POOL("a", 0, 8 * MIB, POOL_PAGES_BASE);
	const int missing_node = 5;
	const struct pool_request request = {
		.bytes = MIB, .align = 1, .nodes = &missing_node, .n_nodes = 1
	};
	unsigned long kib = 0;
	char line[256];
	FILE *file;

	open_pools(&params, 1);
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
	(void)alloc_one(MIB);
	ck_assert_int_eq(extent_pool(&allocated[0]).node, 0);
	/* a preferred node may be missing */
	ck_assert_int_eq(alloc_as(&request, 1), 0);
}
END_TEST

/* ---- failures ---- */

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

/* No mapping of a pool is left, and no other descriptors than before. */
static void check_closed(unsigned fds)
{
	ck_assert_uint_eq(count_fds(), fds);
	ck_assert_uint_eq(count_lines("/proc/self/maps", "rmem-pool"), 0);
}

START_TEST(open__refuses_more_memory_than_available)
{
	ck_assert_int_eq(open_params(UINT64_C(1) << 49, POOL_NODE_ANY, POOL_PAGES_BASE),
			 -ENOMEM);
	ck_assert_msg(strncmp(err_text(), "pool 'a': 512 TiB wanted, ", 26) == 0, "%s",
		      err_text());
	ck_assert_int_eq(open_params(UINT64_C(1) << 49, POOL_NODE_ANY, POOL_PAGES_AUTO),
			 -ENOMEM);
}
END_TEST

START_TEST(open__refuses_a_missing_node)
{
	ck_assert_int_eq(open_params(MIB, 1000, POOL_PAGES_BASE), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err_text(), "no NUMA node 1000 with memory here"));
}
END_TEST

/* Check runs each case in a process of its own, which loses its rights here. */
START_TEST(open__explains_a_low_memlock_limit)
{
	struct rlimit limit = { .rlim_cur = 8 * KIB, .rlim_max = 8 * KIB };

	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	/* root may exceed the limit */
	if (geteuid() == 0)
		ck_assert_int_eq(seteuid(65534), 0);
	ck_assert_int_eq(open_params(MIB, POOL_NODE_ANY, POOL_PAGES_BASE), -ENOMEM);
	ck_assert_str_eq(err_text(), "pool 'a': RLIMIT_MEMLOCK is 8 KiB, 0 B of it "
				     "used, too little to pin 1 "
				     "MiB more: LimitMEMLOCK=infinity in the service, "
				     "or ulimit -l unlimited");
	ck_assert_uint_eq(count_lines("/proc/self/maps", "rmem-pool"), 0);
	/* a leak checker needs the rights back */
	if (getuid() == 0)
		ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

static void check_kept(uint64_t bytes, enum pool_pages asked, enum pool_pages kept)
{
	ck_assert_msg(open_kept(bytes, asked, kept) == 0, "%s", err_text());
	close_pools();
}

START_TEST(open__refuses_a_file_with_other_pages)
{
	char path[] = "/tmp/rmem-pools-XXXXXX";
	struct stat st;

	kept_make();
	ck_assert_int_eq(open_kept(4 * MIB, POOL_PAGES_2M, POOL_PAGES_AUTO), -ENOMEM);
	ck_assert_msg(strstr(err_text(), "in pages of 4 KiB, not of 2 MiB"), "%s",
		      err_text());
	/* the file is still empty */
	ck_assert_int_eq(fstat(kept_fd, &st), 0);
	ck_assert_int_eq(st.st_size, 0);
	ck_assert_int_eq(open_kept(4 * MIB, POOL_PAGES_BASE, POOL_PAGES_BASE),
			 -EBADMSG);
	/* auto: the pages of the file are the largest possible */
	check_kept(4 * MIB, POOL_PAGES_AUTO, POOL_PAGES_AUTO);
	/* content on transparent huge pages stays, also if the kernel gives none now */
	check_kept(4 * MIB, POOL_PAGES_THP, POOL_PAGES_THP);
	ck_assert_int_eq(ftruncate(kept_fd, 4 * MIB + 5), 0);
	ck_assert_int_eq(open_kept(4 * MIB, POOL_PAGES_BASE, POOL_PAGES_BASE),
			 -EBADMSG);
	ck_assert_msg(strstr(err_text(), "is damaged: it has 4194309 bytes, and not "
					 "whole pages of 4 KiB"),
		      "%s", err_text());
	(void)close(kept_fd);
	kept_fd = mkstemp(path);
	ck_assert_int_ge(kept_fd, 0);
	(void)unlink(path);
	if (open_kept(4 * MIB, POOL_PAGES_BASE, POOL_PAGES_AUTO) == 0) {
		/* /tmp is in memory on this host */
		close_pools();
	} else {
		ck_assert_msg(strstr(err_text(), "would be on a disk"), "%s",
			      err_text());
	}
}
END_TEST

/* ---- several at a time ---- */

static const struct pool_params several[] = {
	POOL("a", 0, 8 * MIB, POOL_PAGES_BASE),
	POOL("b", POOL_NODE_ANY, 4 * MIB, POOL_PAGES_BASE),
	POOL("c", 0, 2 * MIB, POOL_PAGES_BASE),
};
#define N_SEVERAL (sizeof(several) / sizeof(several[0]))

struct progress {
	pthread_t thread;
	unsigned ready, populating;
	uint64_t done, bytes;
};

static void on_ready(void *ctx, const struct pool_status *status, const char *note)
{
	struct progress *progress = ctx;

	(void)note;
	ck_assert(pthread_equal(progress->thread, pthread_self()));
	ck_assert_uint_eq(status->free, status->bytes);
	progress->ready++;
}

static int on_populating(void *ctx, uint64_t done, uint64_t bytes)
{
	struct progress *progress = ctx;

	ck_assert(pthread_equal(progress->thread, pthread_self()));
	if (progress->populating++ == 0)
		ck_assert_uint_eq(done, 0);
	ck_assert_uint_ge(done, progress->done);
	ck_assert_uint_eq(bytes, 14 * MIB);
	progress->done = done;
	progress->bytes = bytes;
	return 0;
}

START_TEST(open__reports_its_progress)
{
	struct progress progress = { .thread = pthread_self() };
	const struct pools_events events = { &progress, on_ready, on_populating };

	ck_assert_int_eq(pools_open(several, N_SEVERAL, &events, &pools), 0);
	ck_assert_uint_eq(progress.ready, N_SEVERAL);
	/* at the beginning, and with some of the ready pools */
	ck_assert_uint_ge(progress.populating, 2);
	ck_assert_uint_eq(progress.done, progress.bytes);
	/* in the order of the configuration */
	for (unsigned i = 0; i < N_SEVERAL; i++) {
		ck_assert_str_eq(pools_status(pools, i).name, several[i].name);
		ck_assert_uint_eq(pools_status(pools, i).bytes, several[i].bytes);
	}
}
END_TEST

/* Refuse a system call to this process, as containers do. */
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

/* Ask for an end when the first pool is ready. */
static int on_canceled(void *ctx, uint64_t done, uint64_t)
{
	(void)ctx;
	return done ? err_set(-ECANCELED, "asked to stop") : 0;
}

START_TEST(open__ends_when_it_is_asked_to)
{
	const struct pools_events events = { .populating = on_canceled };
	unsigned fds = count_fds();

	ck_assert_int_eq(pools_open(several, N_SEVERAL, &events, &pools), -ECANCELED);
	ck_assert_str_eq(err_text(), "asked to stop");
	check_closed(fds);
}
END_TEST

/* Pools that fail before, while and after the others are opened. */
static const struct {
	struct pool_params params;
	int err;
	const char *text;
} failures[] = {
	{ POOL("d", 0, PIB / 2, POOL_PAGES_BASE), -ENOMEM,
	  "pool 'd': 512 TiB wanted, " },
	{ POOL("d", 1000, MIB, POOL_PAGES_BASE), -EINVAL,
	  "pool 'd': no NUMA node 1000" },
	{ POOL("d", POOL_NODE_ANY, PIB / 2, POOL_PAGES_BASE), -ENOMEM,
	  "pool 'd': 512 TiB wanted, " },
};

START_TEST(open__closes_all_pools_if_one_fails)
{
	struct pool_params params[N_SEVERAL + 1];
	unsigned fds = count_fds();

	memcpy(params, several, sizeof(several));
	params[N_SEVERAL] = failures[_i].params;
	ck_assert_int_eq(pools_open(params, N_SEVERAL + 1, NULL, &pools),
			 failures[_i].err);
	ck_assert_msg(
		strncmp(err_text(), failures[_i].text, strlen(failures[_i].text)) == 0,
		"%s", err_text());
	check_closed(fds);
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
	check_closed(fds);
	/* the remedy works */
	ck_assert_int_eq(open_params(MIB, POOL_NODE_ANY, POOL_PAGES_BASE), 0);
}
END_TEST

START_TEST(open__explains_that_there_is_no_file)
{
	unsigned fds = count_fds();

	refuse_call(__NR_memfd_create);
	ck_assert_int_eq(open_params(MIB, POOL_NODE_ANY, POOL_PAGES_BASE), -EPERM);
	ck_assert_str_eq(err_text(), "pool 'a': memfd_create with pages of base: "
				     "Operation not permitted");
	check_closed(fds);
}
END_TEST

/* The node is unknown then. */
START_TEST(open__works_without_move_pages)
{
	if (!host_has_nodes())
		return;
	refuse_call(__NR_move_pages);
	ck_assert_int_eq(open_params(MIB, 0, POOL_PAGES_BASE), 0);
	ck_assert_int_eq(pools_node(pools, 0), -1);
}
END_TEST

START_TEST(node__is_reported_by_the_kernel)
{
	ck_assert_int_eq(open_params(MIB, 0, POOL_PAGES_BASE), 0);
	ck_assert_int_eq(pools_node(pools, 0), 0);
}
END_TEST

/* Pools that are opened at the same time share the available memory. */
START_TEST(open__shares_available_memory)
{
	const struct pool_params params[] = {
		POOL("a", 0, 2 * MIB, POOL_PAGES_BASE),
		POOL("b", POOL_NODE_ANY, 2 * MIB, POOL_PAGES_BASE),
	};
	_Atomic(uint64_t) available = 3 * MIB;
	const atomic_bool stop = false;
	struct memory_work work = { .stop = &stop, .room = &available };
	struct memory memory, other;

	ck_assert_int_eq(memory_open(&params[0], &work, &memory), 0);
	ck_assert_uint_eq(available, MIB);
	ck_assert_uint_eq(work.done, 2 * MIB);
	ck_assert_int_eq(memory_open(&params[1], &work, &other), -ENOMEM);
	ck_assert_str_eq(err_text(), "2 MiB wanted, 1 MiB available on this host: make "
				     "the pool smaller");
	ck_assert_uint_eq(available, MIB);
	memory_close(&memory);
}
END_TEST

START_TEST(open__can_be_stopped)
{
	_Atomic(uint64_t) available = UINT64_MAX;
	const atomic_bool stop = true;
	struct memory_work work = { .stop = &stop, .room = &available };
	unsigned fds = count_fds();
	struct memory memory;

	ck_assert_int_eq(memory_open(several, &work, &memory), -ECANCELED);
	ck_assert_uint_eq(work.done, 0);
	ck_assert(available == UINT64_MAX);
	check_closed(fds);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("pools-open", NULL, pools_teardown);

	tcase_add_test(tc, open__pins_and_places);
	tcase_add_test(tc, open__refuses_more_memory_than_available);
	tcase_add_test(tc, open__refuses_a_missing_node);
	tcase_add_test(tc, open__explains_a_low_memlock_limit);
	tcase_add_test(tc, open__refuses_a_file_with_other_pages);
	tcase_add_test(tc, open__reports_its_progress);
	tcase_add_test(tc, open__ends_when_it_is_asked_to);
	tcase_add_loop_test(tc, open__closes_all_pools_if_one_fails, 0,
			    sizeof(failures) / sizeof(failures[0]));
	tcase_add_test(tc, open__explains_that_binding_is_refused);
	tcase_add_test(tc, open__explains_that_there_is_no_file);
	tcase_add_test(tc, open__works_without_move_pages);
	tcase_add_test(tc, node__is_reported_by_the_kernel);
	tcase_add_test(tc, open__shares_available_memory);
	tcase_add_test(tc, open__can_be_stopped);
	return unit_main();
}
