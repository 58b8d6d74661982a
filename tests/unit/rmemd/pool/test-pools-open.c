/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools are opened, several at a time, or not at all. */
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

int main(void)
{
	Suite *suite = suite_create("pools-open");
	TCase *tc = tcase_create("pools-open");

	tcase_add_test(tc, open__pins_and_places);
	tcase_add_test(tc, open__refuses_more_than_there_is);
	tcase_add_test(tc, open__refuses_a_node_that_is_not_there);
	tcase_add_test(tc, open__explains_a_low_memlock_limit);
	tcase_add_test(tc, open__refuses_a_file_with_other_pages);
	tcase_add_test(tc, open__tells_how_far_it_is);
	tcase_add_loop_test(tc, open__undoes_all_when_one_fails, 0,
			    sizeof(failing) / sizeof(failing[0]));
	tcase_add_test(tc, open__explains_that_binding_is_refused);
	tcase_add_test(tc, open__does_without_the_kernels_word_on_nodes);
	tcase_add_test(tc, node__is_asked_of_the_kernel);
	tcase_add_test(tc, open__divides_the_host_among_those_at_it);
	tcase_add_test(tc, open__stops_when_it_is_told_to);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
