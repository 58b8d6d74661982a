/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that closes descriptors which it does not know, as closefrom(3) does, and opens others that
 * get their numbers:
 *
 *   closed URI
 *
 * Calls on the session then fail in time, with an error that says so; the session can be closed, and
 * another one opened.  Nobody touches what has the numbers: a file, socket, eventfd, timer or epoll set
 * of the program.  Each case is a process. */
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
#define END 64 /* above all descriptors of a session */
#define BYTES (UINT64_C(8) << 20)
#define OPERATIONS 16u
/* Limits of a case, with room for a busy machine: one that hangs is killed, and the time of the CPU of
 * one that spins for a second for each of its waits is more. */
#define CASE_S 60
#define CPU_S 3

enum kind { KIND_FILE, KIND_SOCKET, KIND_EVENT, KIND_TIMER, KIND_EPOLL, KINDS };
enum use { USE_IDLE, USE_BUSY, USE_CLOSE, USES };

static const char *uri;
static struct decoy {
	int fd;
	int end; /* KIND_SOCKET: the other one; KIND_EPOLL: a member */
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

static int epoll_decoy(struct decoy *decoy)
{
	/* a tag that the library has, too; for a pointer it would be a bad one */
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = 1 };
	int fd;

	decoy->end = above(eventfd(1, 0));
	fd = epoll_create1(0);
	if (fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, decoy->end, &event))
		fail("epoll", -errno);
	return fd;
}

static int decoy_open(struct decoy *decoy, enum kind kind)
{
	const struct itimerspec later = { .it_value.tv_sec = 3600 };
	char name[] = "/tmp/rmem-closed.XXXXXX";
	int pair[2], fd;

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
	default:
		return epoll_decoy(decoy);
	}
}

static ino_t inode(int fd)
{
	struct stat now;

	return fstat(fd, &now) ? 0 : now.st_ino;
}

/* Close what is not known, and open others.  A data channel trusts its socket for 10 ms. */
static void rob(enum kind kind)
{
	const struct timespec pause = { .tv_nsec = 30000000 };

	(void)nanosleep(&pause, NULL);
	closefrom(FIRST);
	for (int i = FIRST; i < END; i++) {
		decoys[i].fd = decoy_open(&decoys[i], kind);
		if (decoys[i].fd != i)
			fail("a descriptor has another number", decoys[i].fd);
		decoys[i].ino = inode(i);
	}
}

static bool untouched(const struct decoy *decoy, enum kind kind)
{
	struct epoll_event events[2];
	struct itimerspec left;
	struct stat now;
	char bytes[8];
	eventfd_t count;

	if (inode(decoy->fd) != decoy->ino)
		return false;
	switch (kind) {
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

static void submit_reads(rmem_queue *queue, rmem_lease *lease, char *memory)
{
	for (unsigned i = 0; i < OPERATIONS; i++) {
		struct rmem_op op = rmem_op_read(lease, 0, memory, BYTES);

		must(rmem_submit(queue, &op, 1), "submit");
	}
}

/* Each ends. */
static void await_reads(rmem_queue *queue)
{
	unsigned failed = 0;

	for (unsigned i = 0; i < OPERATIONS; i++) {
		struct rmem_completion completion;

		must(rmem_wait(queue, &completion, 1, 1, -1), "wait");
		failed += completion.status != 0;
	}
	if (failed == 0)
		fail("no operation failed", 0);
}

static void check_fails(rmem *session, rmem_lease *lease)
{
	char byte = 0;
	int err;

	/* the first may end before the loss is known */
	(void)rmem_write(lease, 0, &byte, 1);
	err = rmem_write(lease, 0, &byte, 1);
	if (err != -ESTALE && err != -ECONNRESET && err != -ETIMEDOUT)
		fail("write", err);
	while ((err = rmem_ping(session, NULL)) != -ESTALE)
		if (err != -ETIMEDOUT && err != -ECONNRESET && err != -EBADF)
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

static void run(enum use use, enum kind kind)
{
	struct rmem_alloc_params want = rmem_alloc_params_init();
	struct rmem_options options = rmem_options_init();
	char *memory = malloc(BYTES);
	rmem *session, *another;
	rmem_lease *lease;
	rmem_queue *queue;

	(void)alarm(CASE_S);
	want.bytes = BYTES;
	options.timeout_ms = 5000;
	must(rmem_open(uri, &options, &session), "open");
	must(rmem_alloc(session, &want, &lease), "alloc");
	must(rmem_queue_create(session, NULL, &queue), "queue");
	must(rmem_notified_fd(session), "notified_fd");
	must(rmem_watch(lease), "watch");
	if (use == USE_BUSY)
		submit_reads(queue, lease, memory);
	rob(kind);
	if (use == USE_BUSY)
		await_reads(queue);
	if (use != USE_CLOSE)
		check_fails(session, lease);
	rmem_queue_free(queue);
	rmem_close(session);
	for (int i = FIRST; i < END; i++)
		if (!untouched(&decoys[i], kind))
			fail("what has the number of a descriptor was touched", i);
	must(rmem_open(uri, &options, &another), "open another");
	must(rmem_ping(another, NULL), "ping");
	rmem_close(another);
	check_cpu();
	free(memory);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		(void)fprintf(stderr, "usage: closed URI\n");
		return 2;
	}
	uri = argv[1];
	for (unsigned i = 0; i < USES * KINDS; i++) {
		int status = 0;
		pid_t pid = fork();

		if (pid == 0) {
			run(i / KINDS, i % KINDS);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
			(void)fprintf(stderr, "closed: use %u, kind %u: status %d\n",
				      i / KINDS, i % KINDS, status);
			return 1;
		}
	}
	kept("what has the numbers of a session's descriptors is not touched");
	return 0;
}
