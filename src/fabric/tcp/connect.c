/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/connect.h"

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "fabric/tcp/socket.h"
#include "fabric/tcp/stream.h"

/* Wait for events until the deadline. */
static int socket_wait(int fd, short events, uint64_t deadline_ms)
{
	struct pollfd pfd = { .fd = fd, .events = events };

	for (;;) {
		uint64_t now = clock_now_ms();
		uint64_t left = deadline_ms > now ? deadline_ms - now : 0;
		int n = poll(&pfd, 1, left < INT_MAX ? (int)left : INT_MAX);

		if (n > 0)
			return 0;
		if (n == 0 && left < INT_MAX)
			return -ETIMEDOUT;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

static int socket_connect(int fd, const struct fabric_address *address,
			  uint64_t deadline_ms)
{
	struct sockaddr_storage addr;
	socklen_t len = tcp_socket_address(address, &addr);
	int err;

	/* an interrupted connect() goes on in the kernel */
	if (connect(fd, (struct sockaddr *)&addr, len) == 0)
		return 0;
	if (errno != EINPROGRESS && errno != EINTR)
		return -errno;
	err = socket_wait(fd, POLLOUT, deadline_ms);
	if (err)
		return err;
	len = sizeof(err);
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0)
		return -errno;
	return -err;
}

/* The first bytes on a socket fit its buffer. */
static int socket_hello(int fd, const struct fabric_hello *hello)
{
	uint8_t buf[FABRIC_HELLO_BYTES];
	ssize_t n;

	fabric_hello_encode(hello, buf);
	n = send(fd, buf, sizeof(buf), MSG_NOSIGNAL);
	if (n < 0)
		return -errno;
	return n == sizeof(buf) ? 0 : -EPIPE;
}

static int socket_status(int fd, uint64_t deadline_ms)
{
	struct stream_status status;
	size_t have = 0;

	while (have < sizeof(status)) {
		int err = socket_wait(fd, POLLIN, deadline_ms);
		ssize_t n;

		if (err)
			return err;
		n = recv(fd, (char *)&status + have, sizeof(status) - have, 0);
		if (n == 0)
			return -ECONNRESET;
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (n > 0)
			have += (size_t)n;
	}
	switch (le32toh(status.status)) {
	case STREAM_DONE:
		return 0;
	case STREAM_REFUSED:
		return -EACCES;
	case STREAM_BUSY:
		return -ENOMEM;
	default:
		return -EPROTO;
	}
}

int tcp_connect(const struct fabric_address *address, const struct fabric_hello *hello,
		unsigned timeout_ms)
{
	uint64_t deadline_ms = clock_now_ms() + timeout_ms;
	char text[TCP_ADDRESS_TEXT];
	const char *step;
	int fd, err;

	fd = socket(address->family == 4 ? AF_INET : AF_INET6,
		    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(-errno, "socket");
	err = tcp_socket_tune(fd);
	if (err) {
		(void)close(fd);
		return err;
	}
	step = "connecting a data stream to";
	err = socket_connect(fd, address, deadline_ms);
	if (!err) {
		step = "presenting a data stream to";
		err = socket_hello(fd, hello);
	}
	if (!err) {
		step = "waiting for the admission of a data stream by";
		err = socket_status(fd, deadline_ms);
	}
	if (err) {
		(void)close(fd);
		return err_errno(err, "%s %s", step, tcp_socket_text(address, text));
	}
	return fd;
}
