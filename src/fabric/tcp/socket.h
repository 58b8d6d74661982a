/* SPDX-License-Identifier: BSD-3-Clause */
/* The sockets of data streams, for both ends.  Threads: [any]. */
#ifndef FABRIC_TCP_SOCKET_H
#define FABRIC_TCP_SOCKET_H

#include <sys/socket.h>
#include <sys/uio.h>

/* Small requests are sent at once, and a peer that is gone or does not receive ends the stream
 * within half a minute.  -errno with text. */
int tcp_socket_tune(int fd);
/* A peer that does not acknowledge for `ms`, also a probe, ends the stream.  -errno with text. */
int tcp_socket_limit_silence(int fd, unsigned ms);

/* Send from, or receive into, n places without waiting.  A single place goes without a header,
 * which the kernel would have to read. */
static inline ssize_t tcp_socket_send(int fd, struct iovec *iov, size_t n)
{
	const struct msghdr msg = { .msg_iov = iov, .msg_iovlen = n };

	return n == 1 ? send(fd, iov->iov_base, iov->iov_len,
			     MSG_NOSIGNAL | MSG_DONTWAIT)
		      : sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static inline ssize_t tcp_socket_receive(int fd, struct iovec *iov, size_t n)
{
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = n };

	return n == 1 ? recv(fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT)
		      : recvmsg(fd, &msg, MSG_DONTWAIT);
}

#endif
