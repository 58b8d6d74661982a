/* SPDX-License-Identifier: BSD-3-Clause */
#include "sessions.h"

#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 128
#define MESSAGE_MAX 512u

static void nodelay_set(int fd)
{
	const int yes = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)))
		give_up("TCP_NODELAY");
}

/* ---- the server ---- */

static void watch(int epfd, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event))
		give_up("epoll_ctl");
}

/* Echo one message. */
static void answer(int fd)
{
	char message[MESSAGE_MAX];
	ssize_t n = read(fd, message, sizeof(message));

	if (n <= 0)
		(void)close(fd);
	else if (write(fd, message, (size_t)n) != n)
		give_up("an answer");
}

static _Noreturn void serve(int listener)
{
	int epfd = epoll_create1(EPOLL_CLOEXEC);

	if (epfd < 0)
		give_up("epoll_create1");
	watch(epfd, listener);
	for (;;) {
		struct epoll_event event;
		int fd;

		if (epoll_wait(epfd, &event, 1, -1) != 1)
			continue;
		fd = event.data.fd;
		if (fd == listener) {
			fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
			if (fd < 0)
				give_up("accept4");
			nodelay_set(fd);
			watch(epfd, fd);
		}
		/* TCP_DEFER_ACCEPT: a new connection already has its first message */
		answer(fd);
	}
}

void control_serve(const char *address, uint16_t port)
{
	struct sockaddr_in local = address_of(address, port);
	const int yes = 1;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pid_t pid;

	if (listener < 0 ||
	    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) ||
	    setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &yes, sizeof(yes)) ||
	    bind(listener, (struct sockaddr *)&local, sizeof(local)) ||
	    listen(listener, BACKLOG))
		give_up("listen");
	pid = fork();
	if (pid < 0)
		give_up("fork");
	if (pid == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL))
			give_up("prctl");
		serve(listener);
	}
	(void)close(listener);
}

/* ---- the client ---- */

int control_open(const char *address, uint16_t port)
{
	struct sockaddr_in peer = address_of(address, port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&peer, sizeof(peer)))
		give_up("connect");
	nodelay_set(fd);
	return fd;
}

void control_ask(int fd, unsigned bytes)
{
	char message[MESSAGE_MAX] = { 0 };

	if (bytes > sizeof(message) || write(fd, message, bytes) != (ssize_t)bytes ||
	    read(fd, message, bytes) != (ssize_t)bytes)
		give_up("a round trip");
}
