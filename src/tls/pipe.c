/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls/pipe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/foreign.h"
#include "tls/kernel.h"
#include "tls/records.h"
#include "tls/stream.h"

struct tls_pipe {
	struct stream stream;
	struct channel_secrets secrets;
	bool in_kernel;
	size_t out_bytes, out_sent;    /* of `out` */
	uint8_t out[TLS_RECORD_BYTES]; /* accepted, not sent yet */
};

int tls_pipe_open(int fd, struct tls_context *context, const uint8_t *key,
		  struct tls_pipe **ret_pipe)
{
	struct tls_pipe *pipe = calloc(1, sizeof(*pipe));
	int err;

	if (!pipe)
		return err_set(-ENOMEM, "no memory for TLS");
	err = stream_tls(&pipe->stream, fd, context);
	if (err) {
		free(pipe);
		return err;
	}
	memcpy(pipe->secrets.key, key, sizeof(pipe->secrets.key));
	pipe->stream.channel = &pipe->secrets;
	*ret_pipe = pipe;
	return 0;
}

void tls_pipe_free(struct tls_pipe *pipe)
{
	if (!pipe)
		return;
	/* the socket is the caller's */
	pipe->stream.fd = -1;
	stream_close(&pipe->stream);
	explicit_bzero(&pipe->secrets, sizeof(pipe->secrets));
	free(pipe);
}

int tls_pipe_handshake(struct tls_pipe *pipe)
{
	int err = stream_handshake(&pipe->stream);

	if (!err) {
		err = tls_kernel_take(pipe->stream.fd, &pipe->secrets);
		pipe->in_kernel = !err;
		if (err == -ENOTSUP)
			err = 0;
	}
	if (err != -EAGAIN)
		explicit_bzero(&pipe->secrets, sizeof(pipe->secrets));
	return err;
}

bool tls_pipe_wants_out(const struct tls_pipe *pipe)
{
	return pipe->stream.wants_out;
}

bool tls_pipe_in_kernel(const struct tls_pipe *pipe)
{
	return pipe->in_kernel;
}

static ssize_t failed(ssize_t err)
{
	errno = (int)-err;
	return -1;
}

ssize_t tls_pipe_receive(struct tls_pipe *pipe, const struct iovec *iov, size_t n)
{
	size_t i = 0, at = 0, got = 0;
	ssize_t part;

	do {
		if (at == iov[i].iov_len) {
			i++;
			at = 0;
			continue;
		}
		part = stream_receive(&pipe->stream, (char *)iov[i].iov_base + at,
				      iov[i].iov_len - at);
		/* an end or an error behind bytes is found again */
		if (part <= 0 && got > 0)
			break;
		if (part == -EAGAIN && stream_goes_on(&pipe->stream))
			return failed(-EINTR);
		if (part <= 0)
			return part == 0 ? 0 : failed(part);
		at += (size_t)part;
		got += (size_t)part;
		/* more would need another system call */
		if (!stream_pending(&pipe->stream))
			break;
	} while (i < n);
	return (ssize_t)got;
}

/* 0: all that was accepted is sent. */
static ssize_t flush(struct tls_pipe *pipe)
{
	while (pipe->out_sent < pipe->out_bytes) {
		ssize_t n = stream_send(&pipe->stream, pipe->out + pipe->out_sent,
					pipe->out_bytes - pipe->out_sent);

		if (n < 0)
			return n;
		pipe->out_sent += (size_t)n;
	}
	return 0;
}

/* As foreign_read(), of the caller's memory. */
static ssize_t own_read(void *to, size_t bytes, const struct iovec *from, size_t n)
{
	size_t got = 0;

	for (size_t i = 0; i < n && got < bytes; i++) {
		size_t part =
			from[i].iov_len < bytes - got ? from[i].iov_len : bytes - got;

		memcpy((char *)to + got, from[i].iov_base, part);
		got += part;
	}
	return (ssize_t)got;
}

/* One record at most. */
static ssize_t accept_bytes(struct tls_pipe *pipe, const struct iovec *iov, size_t n,
			    typeof(own_read) *read_from)
{
	ssize_t bytes, err = flush(pipe);

	if (err || n == 0)
		return err ? failed(err) : 0;
	bytes = read_from(pipe->out, sizeof(pipe->out), iov, n);
	if (bytes < 0)
		return failed(bytes);
	pipe->out_bytes = (size_t)bytes;
	pipe->out_sent = 0;
	err = flush(pipe);
	return err && err != -EAGAIN ? failed(err) : bytes;
}

ssize_t tls_pipe_send(struct tls_pipe *pipe, const struct iovec *iov, size_t n)
{
	return accept_bytes(pipe, iov, n, own_read);
}

ssize_t tls_pipe_send_foreign(struct tls_pipe *pipe, const struct iovec *iov, size_t n)
{
	return accept_bytes(pipe, iov, n, foreign_read);
}

bool tls_pipe_unsent(const struct tls_pipe *pipe)
{
	return pipe->out_sent < pipe->out_bytes;
}

bool tls_pipe_unread(const struct tls_pipe *pipe)
{
	return stream_pending(&pipe->stream);
}
