/* SPDX-License-Identifier: BSD-3-Clause */
/* A program with sessions and threads that forks:
 *
 *   fork URI ROUNDS
 *
 * In the child every use of what the parent has opened fails with ESTALE, or does nothing, at once,
 * and touches no descriptor.  None of the parent's descriptors is open there, and a session of the
 * child's own lives for longer than the fence.  The parent's sessions are not disturbed.  The exit
 * status is 1 at the first promise that is broken.  The first child prints each function of the
 * library that it has called, for a script that knows all of them. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

#define BYTES 4096u
/* The library's descriptors have numbers from 256. */
#define FDS_MAX 512
/* Limit of a child; one that hangs, such as in a call that takes the time-out of the parent's
 * sessions, is killed. */
#define CHILD_S 60

static const char *uri;
static atomic_bool started, stop;
static rmem *session, *driven;
static rmem_lease *lease;
static rmem_queue *queue;
static rmem_calls *calls;
static rmem_buffer *buffer;
static uint64_t lease_id;
static void *buffer_addr;

static bool reports; /* the child prints the names of the functions that it calls */

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

/* Make a call that a thread of the library does. */
static void *call_one(rmem_calls *of, const struct rmem_request *request)
{
	struct rmem_answer answer;

	must(rmem_calls_begin(of, request, 1), "begin");
	must(rmem_calls_wait(of, &answer, 1, 1, -1), "wait");
	must(answer.status, "a call");
	return answer.object;
}

/* A thread of the parent: makes the calls that hold a lock of the library, for its own lease. */
static void *lockers(void *arg)
{
	struct rmem_buffer_params params = rmem_buffer_params_init();
	struct rmem_request request = rmem_request_init(RMEM_CALL_BUFFER);
	char name[RMEM_NAME_MAX + 1];
	rmem_calls *own;
	rmem_buffer *of;

	params.bytes = BYTES;
	request.session = session;
	request.params = &params;
	must(rmem_calls_create(NULL, &own), "calls");
	while (!stop) {
		for (unsigned i = 0; i < 20000; i++)
			(void)rmem_lease_name(lease, name, sizeof(name));
		must(rmem_read(lease, 0, name, sizeof(name)), "read");
		must(rmem_buffer_create(session, &params, &of), "buffer");
		must(rmem_buffer_free(of), "buffer_free");
		must(rmem_buffer_free(call_one(own, &request)), "buffer_free");
	}
	rmem_calls_free(own);
	return arg;
}

/* ---- what a child may not do: decoys have the numbers of the parent's descriptors ---- */

static struct decoys {
	int top;   /* the parent's highest descriptor */
	int end;   /* the other end of the decoys */
	ino_t ino; /* of the decoys, which are one socket */
	bool is[FDS_MAX];
} decoys;

static ino_t inode(int fd)
{
	struct stat now;

	return fstat(fd, &now) ? 0 : now.st_ino;
}

/* In the parent. */
static void decoys_prepare(void)
{
	for (int fd = 0; fd < FDS_MAX; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			decoys.top = fd;
}

/* In the child: a byte waits to be read from each of them. */
static void decoys_open(void)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
		fail("socketpair", -errno);
	decoys.end = fcntl(pair[1], F_DUPFD_CLOEXEC, FDS_MAX);
	(void)close(pair[1]);
	if (decoys.end < 0 || send(decoys.end, "", 1, 0) != 1)
		fail("a socket of the child", -errno);
	decoys.ino = inode(pair[0]);
	for (int fd = 0; fd <= decoys.top; fd++) {
		decoys.is[fd] = fd == pair[0] ||
				(fcntl(fd, F_GETFD) < 0 && dup2(pair[0], fd) == fd);
	}
}

/* No call has closed, read or written them. */
static void decoys_close(void)
{
	unsigned char byte;

	for (int fd = 0; fd <= decoys.top; fd++) {
		int unread = 0;

		if (!decoys.is[fd])
			continue;
		if (inode(fd) != decoys.ino)
			fail("the child has closed a descriptor of the parent", fd);
		if (ioctl(fd, FIONREAD, &unread) || unread != 1)
			fail("the child has read a descriptor of the parent", fd);
	}
	if (recv(decoys.end, &byte, 1, 0) >= 0)
		fail("the child has written to a descriptor of the parent", byte);
	for (int fd = 0; fd <= decoys.top; fd++)
		if (decoys.is[fd])
			(void)close(fd);
	(void)close(decoys.end);
}

/* ---- the calls of a child ---- */

static const char *call_text; /* begins with the function's name */
static size_t call_name_bytes;

static void call_begin(const char *text)
{
	call_text = text;
	call_name_bytes = strcspn(text, "(");
	if (reports)
		(void)dprintf(STDOUT_FILENO, "called: %.*s\n", (int)call_name_bytes,
			      text);
}

static void call_end(bool kept_promise, long result)
{
	if (!kept_promise)
		fail(call_text, result);
}

static void stale(long result)
{
	call_end(result == -ESTALE &&
			 !strncmp(rmem_error(), call_text, call_name_bytes) &&
			 strstr(rmem_error(), "parent process"),
		 result);
}

#define STALE(call) (call_begin(#call), stale(call))
#define HOLDS(condition) (call_begin(#condition), call_end(condition, 0))
#define DOES_NOTHING(call) (call_begin(#call), call, call_end(true, 0))

static int list_each(const struct rmem_stat *stat, void *arg)
{
	(void)arg;
	fail("a child lists leases", (long)stat->id);
}

static void inherited_leases(void)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	struct rmem_layout layout = rmem_layout_init();
	struct rmem_wanted wanted = rmem_wanted_init();
	struct rmem_stat stat = rmem_stat_init();
	rmem_lease *another;
	char name[8];

	params.bytes = 8;
	STALE(rmem_alloc(session, &params, &another));
	STALE(rmem_attach(session, "name", RMEM_READ, &another));
	STALE(rmem_attach_shared(session, "other", "name", RMEM_READ, &another));
	STALE(rmem_share(lease, "other", RMEM_READ));
	STALE(rmem_unshare(lease, "other"));
	STALE(rmem_rename(lease, "name", 0));
	STALE(rmem_grow(lease, BYTES + 1));
	STALE(rmem_shrink(lease, 1));
	STALE(rmem_renew(lease, 1));
	STALE(rmem_keep(lease, 60000));
	STALE(rmem_remove(session, "name"));
	STALE(rmem_stat(session, "name", &stat));
	STALE(rmem_list(session, NULL, list_each, NULL));
	STALE(rmem_lease_layout(lease, &layout));
	STALE(rmem_lease_wanted(lease, &wanted));
	STALE(rmem_watch(lease));
	STALE(rmem_unwatch(lease));
	STALE(rmem_destroy(lease));
	STALE(rmem_detach(lease));
	HOLDS(rmem_lease_status(lease) == -ESTALE);
	HOLDS(rmem_lease_reason(lease) == RMEM_REASON_LOST);
	HOLDS(rmem_lease_bytes(lease) == BYTES);
	HOLDS(rmem_lease_id(lease) == lease_id);
	HOLDS(rmem_lease_name(lease, name, sizeof(name)) == 0);
	HOLDS(rmem_lease_rights(lease) == (RMEM_READ | RMEM_WRITE));
	HOLDS(rmem_lease_node(lease) >= RMEM_NODE_ANY);
}

static void inherited_synchronous(void)
{
	unsigned char bytes[8];
	struct rmem_vec vec = { .addr = bytes, .bytes = sizeof(bytes) };
	uint32_t crc;

	STALE(rmem_read(lease, 0, bytes, sizeof(bytes)));
	STALE(rmem_write(lease, 0, bytes, sizeof(bytes)));
	STALE(rmem_readv(lease, 0, &vec, 1));
	STALE(rmem_writev(lease, 0, &vec, 1));
	STALE(rmem_compare_swap(lease, 0, 0, 1, NULL));
	STALE(rmem_fetch_add(lease, 0, 1, NULL));
	STALE(rmem_fill(lease, 0, 8, 0));
	STALE(rmem_copy(lease, 0, lease, 8, 8));
	STALE(rmem_crc32c(lease, 0, 8, &crc));
	STALE(rmem_write_notify(lease, 0, bytes, sizeof(bytes), 1));
	STALE(rmem_ping_data(session, NULL));
}

static void inherited_queue(void)
{
	struct rmem_completion completion;
	unsigned char bytes[8];
	struct rmem_op op = rmem_op_read(lease, 0, bytes, sizeof(bytes));
	rmem_queue *another;

	STALE(rmem_queue_create(session, NULL, &another));
	STALE(rmem_submit(queue, &op, 1));
	STALE(rmem_poll(queue, &completion, 1));
	STALE(rmem_wait(queue, &completion, 1, 1, -1));
	STALE(rmem_cancel(queue, NULL));
	STALE(rmem_cancel_cookie(queue, 0));
	STALE(rmem_queue_arm(queue));
	STALE(rmem_queue_fd(queue));
	/* the parent has submitted it */
	HOLDS(rmem_queue_outstanding(queue) == 1);
	HOLDS(rmem_completion_error(queue, NULL)[0] == '\0');
	DOES_NOTHING(rmem_queue_free(queue));
}

static void inherited_calls(void)
{
	struct rmem_request request = rmem_request_init(RMEM_CALL_PING);
	struct rmem_answer answer = { .status = -EIO };

	request.session = session;
	STALE(rmem_calls_begin(calls, &request, 1));
	STALE(rmem_calls_take(calls, &answer, 1));
	STALE(rmem_calls_wait(calls, &answer, 1, 1, -1));
	STALE(rmem_calls_cancel(calls, 1));
	STALE(rmem_calls_fd(calls));
	/* the parent has begun it */
	HOLDS(rmem_calls_outstanding(calls) == 1);
	HOLDS(rmem_answer_error(calls, &answer)[0] != '\0');
	DOES_NOTHING(rmem_calls_free(calls));
}

static void inherited_use(void)
{
	struct rmem_buffer_params params = rmem_buffer_params_init();
	struct rmem_info info = rmem_info_init();
	struct rmem_notice notice;
	rmem_buffer *another;

	HOLDS(rmem_version()[0] != '\0');
	HOLDS(rmem_thread_timeout(0) == 0);
	DOES_NOTHING(rmem_thread_interrupt(NULL, NULL));
	inherited_leases();
	inherited_synchronous();
	inherited_queue();
	inherited_calls();
	params.bytes = 8;
	STALE(rmem_buffer_create(session, &params, &another));
	STALE(rmem_buffer_free(buffer));
	HOLDS(rmem_buffer_addr(buffer) == buffer_addr);
	HOLDS(rmem_buffer_bytes(buffer) == BYTES);
	STALE(rmem_notified(session, &notice, 1, -1));
	STALE(rmem_notified_fd(session));
	STALE(rmem_info(session, &info));
	STALE(rmem_ping(session, NULL));
	STALE(rmem_fd(driven));
	STALE(rmem_process(driven));
	HOLDS(rmem_error()[0] != '\0');
	DOES_NOTHING(rmem_close(session));
	DOES_NOTHING(rmem_close(driven));
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

static void own_calls(rmem *own)
{
	struct rmem_request request = rmem_request_init(RMEM_CALL_QUEUE);
	rmem_calls *of;

	request.session = own;
	HOLDS(rmem_calls_create(NULL, &of) == 0);
	rmem_queue_free(call_one(of, &request));
	rmem_calls_free(of);
}

/* The child's own session has heartbeats. */
static void own_use(unsigned char value, bool live)
{
	unsigned fence_ms;
	rmem_lease *of;
	rmem *own;

	HOLDS(rmem_open(uri, NULL, &own) == 0);
	lease_make(own, &of);
	/* errors show the name of a lease */
	must(rmem_rename(of, "child", RMEM_RENAME_REPLACE), "rename");
	if (rmem_grow(of, 0) != -EINVAL || !strstr(rmem_error(), "child"))
		fail("grow", 0);
	check_lease(of, value);
	own_calls(own);
	(void)resumes(own, &fence_ms);
	if (live)
		sleep_ms(2 * fence_ms);
	check_lease(of, (unsigned char)(value + 1));
	if (resumes(own, &fence_ms) != 0)
		fail("the child's session was lost", 0);
	must(rmem_destroy(of), "destroy");
	rmem_close(own);
}

static void child_run(unsigned before, unsigned round)
{
	(void)alarm(CHILD_S);
	reports = round == 0;
	if (descriptors() != before)
		fail("the child has descriptors of the parent", (long)descriptors());
	decoys_open();
	inherited_use();
	decoys_close();
	own_use((unsigned char)(3 * round), round == 0);
	if (descriptors() != before)
		fail("the child has descriptors left", (long)descriptors());
	_exit(0);
}

static void sessions_open(void)
{
	struct rmem_options options = rmem_options_init();
	struct rmem_buffer_params params = rmem_buffer_params_init();
	struct rmem_op op = rmem_op_init(RMEM_OP_PING, NULL, 0, 0);
	struct rmem_request request = rmem_request_init(RMEM_CALL_PING);

	options.timeout_ms = 2 * CHILD_S * 1000;
	params.bytes = BYTES;
	must(rmem_open(uri, &options, &session), "open");
	options.flags = RMEM_NO_THREAD;
	must(rmem_open(uri, &options, &driven), "open");
	must(rmem_queue_create(session, NULL, &queue), "queue");
	must(rmem_buffer_create(session, &params, &buffer), "buffer");
	must(rmem_calls_create(NULL, &calls), "calls");
	request.session = session;
	must(rmem_calls_begin(calls, &request, 1), "begin");
	must(rmem_notified_fd(session), "notified_fd");
	lease_make(session, &lease);
	lease_id = rmem_lease_id(lease);
	buffer_addr = rmem_buffer_addr(buffer);
	must(rmem_submit(queue, &op, 1), "submit");
	decoys_prepare();
}

int main(int argc, char **argv)
{
	unsigned rounds, before, fence_ms;
	pthread_t threads[2];
	int status;

	if (argc != 3) {
		(void)fprintf(stderr, "usage: fork URI ROUNDS\n");
		return 2;
	}
	uri = argv[1];
	rounds = (unsigned)strtoul(argv[2], NULL, 10);
	before = descriptors();
	sessions_open();
	if (pthread_create(&threads[0], NULL, traffic, NULL) != 0 ||
	    pthread_create(&threads[1], NULL, lockers, NULL) != 0)
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
	(void)pthread_join(threads[0], NULL);
	(void)pthread_join(threads[1], NULL);
	if (resumes(session, &fence_ms) != 0)
		fail("the parent's session was lost", 0);
	kept("a child has none of its parent's sessions, and sessions of its own");
	rmem_close(driven);
	rmem_close(session);
	return 0;
}
