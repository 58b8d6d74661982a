/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of a data channel over a non-blocking socket, under TLS 1.3 with a key of both ends: in
 * the kernel if it can, else here.  Bytes that were accepted here are encrypted, and are sent
 * before others: as those in a socket's own buffer.  Threads: [any], not the same object from
 * two. */
#ifndef TLS_PIPE_H
#define TLS_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "tls/context.h"

struct tls_pipe;

/* Borrows the socket; the key has CHANNEL_KEY_BYTES and is copied.  -ENOMEM */
int tls_pipe_open(int fd, struct tls_context *context, const uint8_t *key,
		  struct tls_pipe **ret_pipe);
/* NULL: no effect. */
void tls_pipe_free(struct tls_pipe *pipe);

/* Go on with the handshake.  0: it is done.
 *   -EAGAIN  without text: it waits for the socket
 *   -EACCES  the other end has another key
 *   -EPROTO, -ECONNRESET ... */
int tls_pipe_handshake(struct tls_pipe *pipe);
/* Whether the handshake waits for room in the socket. */
bool tls_pipe_wants_out(const struct tls_pipe *pipe);
/* After the handshake: the kernel does all that follows.  Free the pipe, and use the socket as if
 * there were no TLS. */
bool tls_pipe_in_kernel(const struct tls_pipe *pipe);

/* Else, as recvmsg(2) and sendmsg(2) without waiting: -1 with errno.  EINTR: as there, call
 * again. */
ssize_t tls_pipe_receive(struct tls_pipe *pipe, const struct iovec *iov, size_t n);
/* n 0: send what was accepted before. */
ssize_t tls_pipe_send(struct tls_pipe *pipe, const struct iovec *iov, size_t n);
/* Of memory that may not be there: EFAULT. */
ssize_t tls_pipe_send_foreign(struct tls_pipe *pipe, const struct iovec *iov, size_t n);
/* Whether bytes that were accepted are not sent yet, or that were received are not taken yet:
 * poll(2) does not see them. */
bool tls_pipe_unsent(const struct tls_pipe *pipe);
bool tls_pipe_unread(const struct tls_pipe *pipe);

#endif
