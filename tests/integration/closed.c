/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that closes descriptors which it does not know, as closefrom(3) does, and opens others
 * that get their numbers:
 *
 *   closed URI
 *
 * Calls on the session then fail in time, with an error that says so; the session can be closed,
 * and another one opened.  Nobody touches what has the numbers: a file, socket, eventfd, timer or
 * epoll set of the program, or its event loops, whose members have the numbers of members too.
 * Then it closes one descriptor alone, for each.  Each case is a process. */
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <fcntl.h>

#include "program.h"

#define FIRST 3
#define END 300 /* above all descriptors of a session */
#define BYTES (UINT64_C(8) << 20)
#define OPERATIONS 16u
/* Limits of a case, with room for a busy machine: one that hangs is killed, and the time of the CPU
 * of one that spins for a second for each of its waits is more. */
#define CASE_S 60
#define CPU_S 3
#define TIMEOUT_MS (2000 * CASE_S) /* a call that waits for its time-out hangs */
/* A set, a socket and a timer of the session, its control connection, and of each queue two sets
 * and two sockets. */
#define ONES_MIN 12u
#define NO_MORE 3 /* status of a process */

enum kind {
	KIND_FILE,
	KIND_SOCKET,
	KIND_EVENT,
	KIND_TIMER,
	KIND_EPOLL,
	/* sets at such numbers, each with an eventfd at the next one */
	KIND_LOOP_EVEN,
	KIND_LOOP_ODD,
	KINDS
};
enum use { USE_IDLE, USE_BUSY, USE_CLOSE, USES };

static const char *uri;
static struct decoy {
	enum kind kind;
	int fd;
	int end; /* KIND_SOCKET: the other one; KIND_EPOLL: the member */
	ino_t ino;
} decoys[END];

static int above(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, END);

	if (fd < 0 || copy < 0)
		fail("a descriptor", -errno);
	(void)close(fd);
	return copy;
}

static void member_add(int set, int fd)
{
	/* a tag that the library has, too; for a pointer it would be a bad one */
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = 1 };

	if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event))
		fail("epoll", -errno);
}

static int epoll_decoy(struct decoy *decoy)
{
	int fd;

	decoy->end = above(eventfd(1, 0));
	fd = epoll_create1(0);
	member_add(fd, decoy->end);
	return fd;
}

/* A set, or the member of the one before. */
static int loop_decoy(struct decoy *decoy, bool set)
{
	int fd;

	if (set && decoy < &decoys[END - 1]) {
		decoy->kind = KIND_EPOLL;
		return epoll_create1(0);
	}
	decoy->kind = KIND_EVENT;
	fd = eventfd(7, EFD_NONBLOCK);
	if (decoy > &decoys[FIRST] && decoy[-1].kind == KIND_EPOLL)
		member_add(decoy[-1].fd, fd);
	return fd;
}

static int decoy_open(struct decoy *decoy, enum kind kind)
{
	const struct itimerspec later = { .it_value.tv_sec = 3600 };
	char name[] = "/tmp/rmem-closed.XXXXXX";
	int pair[2], fd;

	decoy->kind = kind;
	switch (kind) {
	case KIND_FILE:
		fd = mkstemp(name);
		(void)unlink(name);
		return fd;
	case KIND_SOCKET:
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
			fail("socketpair", -errno);
		decoy->end = above(pair[1]);
		if (send(decoy->end, "mine", 4, 0) != 4)
			fail("send", -errno);
		return pair[0];
	case KIND_EVENT:
		return eventfd(7, EFD_NONBLOCK);
	case KIND_TIMER:
		fd = timerfd_create(CLOCK_MONOTONIC, 0);
		(void)timerfd_settime(fd, 0, &later, NULL);
		return fd;
	case KIND_EPOLL:
		return epoll_decoy(decoy);
	default:
		return loop_decoy(decoy,
				  (decoy - decoys) % 2 == (kind == KIND_LOOP_ODD));
	}
}

static ino_t inode(int fd)
{
	struct stat now;

	return fstat(fd, &now) ? 0 : now.st_ino;
}

static void decoy_place(int number, enum kind kind)
{
	struct decoy *decoy = &decoys[number];
	int fd = decoy_open(decoy, kind);

	if (dup2(fd, number) != number)
		fail("a descriptor gets no number", -errno);
	if (fd != number)
		(void)close(fd);
	decoy->fd = number;
	decoy->ino = inode(number);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* A socket that was used is trusted for 10 ms. */
static void rest(void)
{
	const struct timespec pause = { .tv_nsec = 30000000 };

	(void)nanosleep(&pause, NULL);
}

/* Close what is not known, and open others. */
static void rob(enum kind kind)
{
	rest();
	for (int i = END; i < 2 * END; i++)
		if (is_open(i))
			fail("a descriptor has a number that none gets", i);
	closefrom(FIRST);
	for (int i = FIRST; i < END; i++)
		decoy_place(i, kind);
}

static bool untouched(const struct decoy *decoy)
{
	struct epoll_event events[2];
	struct itimerspec left;
	struct stat now;
	char bytes[8];
	eventfd_t count;

	if (inode(decoy->fd) != decoy->ino)
		return false;
	switch (decoy->kind) {
	case KIND_FILE:
		return fstat(decoy->fd, &now) == 0 && now.st_size == 0 &&
		       lseek(decoy->fd, 0, SEEK_CUR) == 0;
	case KIND_SOCKET:
		return recv(decoy->end, bytes, sizeof(bytes), MSG_DONTWAIT) < 0 &&
		       errno == EAGAIN &&
		       recv(decoy->fd, bytes, sizeof(bytes), MSG_DONTWAIT) == 4;
	case KIND_EVENT:
		return eventfd_read(decoy->fd, &count) == 0 && count == 7;
	case KIND_TIMER:
		return timerfd_gettime(decoy->fd, &left) == 0 &&
		       left.it_value.tv_sec > 0 && left.it_value.tv_sec <= 3600;
	default:
		return epoll_wait(decoy->fd, events, 2, 0) == 1 &&
		       events[0].data.u64 == 1;
	}
}

struct parts {
	rmem *session;
	rmem_lease *lease;
	rmem_queue *queue;
	char *memory;
};

/* Their number: fewer if the session is lost meanwhile. */
static unsigned submit_reads(const struct parts *parts)
{
	struct rmem_op op = rmem_op_read(parts->lease, 0, parts->memory, BYTES);
	unsigned n = 0;
	int err = 0;

	while (n < OPERATIONS && (err = rmem_submit(parts->queue, &op, 1)) >= 0)
		n++;
	if (err < 0 && err != -ESTALE)
		fail("submit", err);
	return n;
}

/* Each ends.  Their number that failed. */
static unsigned await_reads(rmem_queue *queue, unsigned n)
{
	unsigned failed = 0;

	while (n-- > 0) {
		struct rmem_completion completion;

		must(rmem_wait(queue, &completion, 1, 1, -1), "wait");
		failed += completion.status != 0;
	}
	return failed;
}

static void check_fails(rmem *session, rmem_lease *lease)
{
	char byte = 0;
	int err;

	/* the first may end before the loss is known */
	(void)rmem_write(lease, 0, &byte, 1);
	err = rmem_write(lease, 0, &byte, 1);
	if (err != -ESTALE && err != -ECONNRESET)
		fail("write", err);
	while ((err = rmem_ping(session, NULL)) != -ESTALE)
		if (err != -ECONNRESET)
			fail("ping", err);
	if (!strstr(rmem_error(), "the program has closed a descriptor of it"))
		fail("the text", err);
}

static void check_cpu(void)
{
	struct rusage used;

	(void)getrusage(RUSAGE_SELF, &used);
	if (used.ru_utime.tv_sec + used.ru_stime.tv_sec >= CPU_S)
		fail("seconds of the CPU", used.ru_utime.tv_sec + used.ru_stime.tv_sec);
}

static void parts_open(struct parts *parts)
{
	struct rmem_alloc_params want = rmem_alloc_params_init();
	struct rmem_options options = rmem_options_init();

	(void)alarm(CASE_S);
	want.bytes = BYTES;
	options.timeout_ms = TIMEOUT_MS;
	parts->memory = malloc(BYTES);
	must(rmem_open(uri, &options, &parts->session), "open");
	must(rmem_alloc(parts->session, &want, &parts->lease), "alloc");
	must(rmem_queue_create(parts->session, NULL, &parts->queue), "queue");
	must(rmem_notified_fd(parts->session), "notified_fd");
	must(rmem_watch(parts->lease), "watch");
}

/* Nothing of the program was touched, and another session can be opened. */
static void parts_close(const struct parts *parts)
{
	rmem *another;

	rmem_queue_free(parts->queue);
	rmem_close(parts->session);
	for (int i = FIRST; i < END; i++)
		if (decoys[i].fd && !untouched(&decoys[i]))
			fail("what has the number of a descriptor was touched", i);
	must(rmem_open(uri, NULL, &another), "open another");
	must(rmem_ping(another, NULL), "ping");
	rmem_close(another);
	check_cpu();
	free(parts->memory);
}

static void run(enum use use, enum kind kind)
{
	struct parts parts;
	unsigned n = 0;

	parts_open(&parts);
	if (use == USE_BUSY)
		n = submit_reads(&parts);
	rob(kind);
	if (use == USE_BUSY && await_reads(parts.queue, n) == 0)
		fail("no operation failed", 0);
	if (use != USE_CLOSE)
		check_fails(parts.session, parts.lease);
	parts_close(&parts);
}

/* One alone is closed, and `replaced`: the session goes on, or it is lost, but no call waits for
 * its time-out.  False: the session has fewer. */
static bool run_one(unsigned number, bool replaced)
{
	struct parts parts;
	bool before[END];
	int fd, err;

	for (fd = FIRST; fd < END; fd++)
		before[fd] = is_open(fd);
	parts_open(&parts);
	for (fd = FIRST; fd < END; fd++)
		if (is_open(fd) && !before[fd] && number-- == 0)
			break;
	if (fd == END)
		return false;
	rest();
	(void)close(fd);
	if (replaced)
		decoy_place(fd, KIND_SOCKET);
	err = rmem_ping(parts.session, NULL);
	if (err != 0 && err != -ESTALE)
		fail("ping", err);
	if (!err)
		(void)await_reads(parts.queue, submit_reads(&parts));
	parts_close(&parts);
	return true;
}

/* Run a case in a process; its status. */
static int case_run(bool one, unsigned a, unsigned b)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		if (!one)
			run(a, b);
		_exit(one && !run_one(a, b) ? NO_MORE : 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		fail("a process", -errno);
	if (status != 0 && WEXITSTATUS(status) != NO_MORE) {
		(void)fprintf(stderr, "closed: %s %u, %u: status %d\n",
			      one ? "one," : "use and kind", a, b, status);
		exit(1);
	}
	return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	unsigned n = 0;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: closed URI\n");
		return 2;
	}
	uri = argv[1];
	for (unsigned i = 0; i < USES * KINDS; i++)
		(void)case_run(false, i / KINDS, i % KINDS);
	kept("what has the numbers of a session's descriptors is not touched");
	while (case_run(true, n, n % 2) != NO_MORE)
		n++;
	if (n < ONES_MIN)
		fail("descriptors of a session", (int)n);
	kept("no call waits for its time-out where one descriptor is closed");
	return 0;
}
