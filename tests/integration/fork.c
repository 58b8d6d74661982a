/* SPDX-License-Identifier: BSD-3-Clause */
/* A program with sessions and threads that forks:
 *
 *   fork URI ROUNDS
 *
 * In the child every use of what the parent has opened fails with ESTALE, none of the parent's
 * descriptors is open, and a session of the child's own lives for longer than the fence.  The
 * parent's sessions are not disturbed.  The exit status is 1 at the first promise that is broken. */
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

#define BYTES 4096u

static const char *uri;
static atomic_bool started, stop;
static rmem *session, *driven;
static rmem_lease *lease;
static rmem_queue *queue;
static rmem_buffer *buffer;

static unsigned descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	if (!dir)
		fail("/proc/self/fd", -errno);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

static void lease_make(rmem *of, rmem_lease **ret_lease)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();

	params.bytes = BYTES;
	must(rmem_alloc(of, &params, ret_lease), "alloc");
}

static void check_lease(rmem_lease *of, unsigned char value)
{
	unsigned char out[BYTES], in[BYTES];

	memset(out, value, sizeof(out));
	must(rmem_write(of, 0, out, sizeof(out)), "write");
	must(rmem_read(of, 0, in, sizeof(in)), "read");
	if (memcmp(in, out, sizeof(in)) != 0)
		fail("read what another process has written", value);
}

/* A thread of the parent: uses its own queue and lease while others fork. */
static void *traffic(void *arg)
{
	rmem_queue *own;
	rmem_lease *of;
	unsigned char bytes[BYTES] = { 0 };

	(void)arg;
	lease_make(session, &of);
	must(rmem_queue_create(session, NULL, &own), "queue");
	while (!stop) {
		struct rmem_completion completion;
		struct rmem_op op = { .opcode = RMEM_OP_WRITE,
				      .lease = of,
				      .addr = bytes,
				      .bytes = sizeof(bytes) };

		must(rmem_submit(own, &op, 1), "submit");
		must(rmem_wait(own, &completion, 1, 1, -1), "wait");
		must_complete(own, &completion);
		started = true;
		must(rmem_ping(session, NULL), "ping");
	}
	rmem_queue_free(own);
	return NULL;
}

static void stale(int result, const char *what)
{
	if (result != -ESTALE)
		fail(what, result);
	if (!strstr(rmem_error(), "parent process"))
		fail("the text", result);
}

static void inherited_use(void)
{
	struct rmem_op op = { .opcode = RMEM_OP_READ, .lease = lease, .bytes = 8 };
	struct rmem_queue_params queue_params = rmem_queue_params_init();
	struct rmem_buffer_params buffer_params = rmem_buffer_params_init();
	struct rmem_alloc_params alloc_params = rmem_alloc_params_init();
	struct rmem_info info = rmem_info_init();
	struct rmem_stat stat = rmem_stat_init();
	struct rmem_completion completion;
	struct rmem_notice notice;
	rmem_buffer *another_buffer;
	rmem_queue *another_queue;
	rmem_lease *another_lease;
	unsigned char bytes[8];

	op.addr = bytes;
	buffer_params.bytes = alloc_params.bytes = 8;
	stale(rmem_read(lease, 0, bytes, 8), "read");
	stale(rmem_write(lease, 0, bytes, 8), "write");
	stale(rmem_fetch_add(lease, 0, 1, NULL), "fetch_add");
	stale(rmem_submit(queue, &op, 1), "submit");
	stale(rmem_poll(queue, &completion, 1), "poll");
	stale(rmem_wait(queue, &completion, 1, 1, -1), "wait");
	stale(rmem_cancel(queue, NULL), "cancel");
	stale(rmem_cancel_cookie(queue, 0), "cancel by cookie");
	stale(rmem_queue_arm(queue), "queue_arm");
	stale(rmem_queue_fd(queue), "queue_fd");
	stale(rmem_queue_create(session, &queue_params, &another_queue), "queue");
	stale(rmem_buffer_create(session, &buffer_params, &another_buffer), "buffer");
	stale(rmem_buffer_free(buffer), "buffer_free");
	stale(rmem_ping(session, NULL), "ping");
	stale(rmem_ping_data(session, NULL), "ping_data");
	stale(rmem_info(session, &info), "info");
	stale(rmem_alloc(session, &alloc_params, &another_lease), "alloc");
	stale(rmem_watch(lease), "watch");
	stale(rmem_unwatch(lease), "unwatch");
	stale(rmem_notified(session, &notice, 1, -1), "notified");
	stale(rmem_notified_fd(session), "notified_fd");
	stale(rmem_fd(driven), "fd");
	stale(rmem_process(driven), "process");
	stale(rmem_attach(session, "name", RMEM_READ, &another_lease), "attach");
	stale(rmem_attach_shared(session, "other", "name", RMEM_READ, &another_lease),
	      "attach_shared");
	stale(rmem_share(lease, "other", RMEM_READ), "share");
	stale(rmem_unshare(lease, "other"), "unshare");
	stale(rmem_rename(lease, "name", 0), "rename");
	stale(rmem_grow(lease, rmem_lease_bytes(lease) + 1), "grow");
	stale(rmem_shrink(lease, 1), "shrink");
	stale(rmem_renew(lease, 1), "renew");
	stale(rmem_keep(lease, 60000), "keep");
	stale(rmem_stat(session, "name", &stat), "stat");
	stale(rmem_remove(session, "name"), "remove");
	stale(rmem_destroy(lease), "free");
	stale(rmem_detach(lease), "detach");
	if (rmem_lease_status(lease) != -ESTALE)
		fail("lease_status", rmem_lease_status(lease));
	rmem_queue_free(queue);
	rmem_close(session);
	rmem_close(driven);
}

static void sleep_ms(uint64_t ms)
{
	struct timespec time = { .tv_sec = (time_t)(ms / 1000),
				 .tv_nsec = (long)(ms % 1000) * 1000000 };

	(void)nanosleep(&time, NULL);
}

static uint64_t resumes(rmem *of, unsigned *ret_fence_ms)
{
	struct rmem_info info = rmem_info_init();

	must(rmem_info(of, &info), "info");
	*ret_fence_ms = info.fence_ms;
	return info.resumes;
}

/* The child's own session has heartbeats. */
static void own_use(unsigned char value, bool live)
{
	unsigned fence_ms;
	rmem_lease *of;
	rmem *own;

	must(rmem_open(uri, NULL, &own), "open in the child");
	lease_make(own, &of);
	check_lease(of, value);
	(void)resumes(own, &fence_ms);
	if (live)
		sleep_ms(2 * fence_ms);
	check_lease(of, (unsigned char)(value + 1));
	if (resumes(own, &fence_ms) != 0)
		fail("the child's session was lost", 0);
	rmem_close(own);
}

static void child_run(unsigned before, unsigned round)
{
	if (descriptors() != before)
		fail("the child has descriptors of the parent", (long)descriptors());
	inherited_use();
	own_use((unsigned char)(3 * round), round == 0);
	if (descriptors() != before)
		fail("the child has descriptors left", (long)descriptors());
	_exit(0);
}

static void sessions_open(void)
{
	struct rmem_options options = rmem_options_init();
	struct rmem_buffer_params params = rmem_buffer_params_init();

	options.flags = RMEM_NO_THREAD;
	params.bytes = BYTES;
	must(rmem_open(uri, NULL, &session), "open");
	must(rmem_open(uri, &options, &driven), "open");
	must(rmem_queue_create(session, NULL, &queue), "queue");
	must(rmem_buffer_create(session, &params, &buffer), "buffer");
	must(rmem_notified_fd(session), "notified_fd");
	lease_make(session, &lease);
}

int main(int argc, char **argv)
{
	unsigned rounds, before, fence_ms;
	pthread_t thread;
	int status;

	if (argc != 3) {
		(void)fprintf(stderr, "usage: fork URI ROUNDS\n");
		return 2;
	}
	uri = argv[1];
	rounds = (unsigned)strtoul(argv[2], NULL, 10);
	before = descriptors();
	sessions_open();
	if (pthread_create(&thread, NULL, traffic, NULL) != 0)
		fail("pthread_create", 0);
	while (!started)
		sleep_ms(1);
	for (unsigned round = 0; round < rounds; round++) {
		pid_t pid = fork();

		if (pid == 0)
			child_run(before, round);
		check_lease(lease, (unsigned char)round);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			fail("the child", status);
		check_lease(lease, (unsigned char)(round + 1));
	}
	stop = true;
	(void)pthread_join(thread, NULL);
	if (resumes(session, &fence_ms) != 0)
		fail("the parent's session was lost", 0);
	kept("a child has none of its parent's sessions, and sessions of its own");
	rmem_close(driven);
	rmem_close(session);
	return 0;
}
