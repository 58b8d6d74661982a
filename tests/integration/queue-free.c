/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue is freed while its channels are connected, over TCP, to a peer that does not answer:
 *
 *   queue-free URI
 *
 * The peer accepts connections and sends nothing, or drops all packets that ask for one.  The exit
 * status is 1 if freeing waits for the time-out of an attempt, or if the session does not go on. */
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "program.h"

#define CHANNELS 4u
/* Times that the library polls the peer's connection while the queue is freed: each time for up to
 * 100 ms.  The first attempt to connect a channel takes 500 ms. */
#define POLLS_MAX 2u

static struct sockaddr_in peer; /* the silent one */
static atomic_bool diverts;
static _Atomic unsigned n_diverted;
static _Atomic int diverted_fd;   /* the last one */
static _Atomic unsigned n_polled; /* times that it was polled */
static int fds[CHANNELS];         /* of the connections that were made last */
static _Atomic unsigned n_fds;

/* In place of the C library's: the connections of the library go to the silent peer. */
__attribute__((visibility("default"))) int connect(int fd, const struct sockaddr *addr,
						   socklen_t bytes)
{
	if (diverts) {
		diverted_fd = fd;
		n_diverted++;
		addr = (const struct sockaddr *)&peer;
		bytes = sizeof(peer);
	} else {
		fds[n_fds++ % CHANNELS] = fd;
	}
	return (int)syscall(SYS_connect, fd, addr, bytes);
}

/* Under another name, as the C library declares that its poll() only writes to them. */
__attribute__((visibility("default"))) int
poll_counted(struct pollfd *pollfds, nfds_t n, int timeout_ms) __asm__("poll");
int poll_counted(struct pollfd *pollfds, nfds_t n, int timeout_ms)
{
	struct timespec timeout = { .tv_sec = timeout_ms / 1000,
				    .tv_nsec = timeout_ms % 1000 * 1000000L };

	if (n == 1 && pollfds->fd == diverted_fd)
		n_polled++;
	return ppoll(pollfds, n, timeout_ms < 0 ? NULL : &timeout, NULL);
}

/* Fill the queue of connections that wait to be accepted; then the kernel drops those that ask for
 * one more.  Returns the descriptor that keeps it full. */
static int fill(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || syscall(SYS_connect, fd, &peer, sizeof(peer)))
		fail("a connection to the peer", -errno);
	return fd;
}

/* Listen where nobody accepts.  Returns the socket. */
static int peer_open(int backlog)
{
	socklen_t bytes = sizeof(peer);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	peer = (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (fd < 0 || bind(fd, (struct sockaddr *)&peer, sizeof(peer)) ||
	    listen(fd, backlog) || getsockname(fd, (struct sockaddr *)&peer, &bytes))
		fail("the silent peer", -errno);
	return fd;
}

static rmem_queue *queue_make(rmem *session)
{
	struct rmem_queue_params params = rmem_queue_params_init();
	rmem_queue *queue;

	params.channels = CHANNELS;
	must(rmem_queue_create(session, &params, &queue), "queue");
	return queue;
}

/* The queue loses all its connections, as its operations show, and the library connects the first
 * again. */
static void connections_end(rmem_queue *queue, rmem_lease *lease)
{
	struct rmem_op op = rmem_op_write(lease, 0, "", 1);
	struct rmem_completion completion;

	diverts = true;
	n_diverted = 0;
	for (unsigned i = 0; i < CHANNELS; i++)
		(void)shutdown(fds[i], SHUT_RDWR);
	for (unsigned i = 0; i < CHANNELS; i++)
		must(rmem_submit(queue, &op, 1), "submit");
	while (n_diverted == 0)
		must(rmem_wait(queue, &completion, 1, 1, 1), "wait");
}

static void check_free(rmem *session, rmem_lease *lease)
{
	rmem_queue *queue = queue_make(session);
	unsigned polled;

	connections_end(queue, lease);
	polled = n_polled;
	rmem_queue_free(queue);
	polled = n_polled - polled;
	if (polled > POLLS_MAX)
		fail("rmem_queue_free() waited; polls", (long)polled);
	diverts = false;
	queue = queue_make(session);
	must(rmem_write(lease, 0, "", 1), "write");
	rmem_queue_free(queue);
}

int main(int argc, char **argv)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	struct rmem_info info = rmem_info_init();
	rmem_lease *lease;
	rmem *session;
	int fd, full;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: queue-free URI\n");
		return 2;
	}
	params.bytes = 1;
	must(rmem_open(argv[1], NULL, &session), "open");
	must(rmem_alloc(session, &params, &lease), "alloc");
	fd = peer_open(CHANNELS);
	check_free(session, lease);
	kept("a queue is freed at once while a peer does not answer");
	(void)close(fd);
	fd = peer_open(0);
	full = fill();
	check_free(session, lease);
	kept("a queue is freed at once while a peer drops all packets");
	(void)close(full);
	(void)close(fd);
	must(rmem_info(session, &info), "info");
	if (info.resumes)
		fail("the session was lost", (long)info.resumes);
	rmem_close(session);
	return 0;
}
