/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/conn.h"

#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "fabric/tcp/socket.h"

/* The work of one stream before the next one gets its turn. */
#define SLICE_BYTES (UINT32_C(256) << 10)
#define SLICE_REQUESTS 128
/* Most that one system call moves: deregistration waits for its end. */
#define CHUNK_BYTES (UINT32_C(256) << 10)
/* When this much waits to be sent, it is sent before more requests are received. */
#define FLUSH_BYTES (UINT32_C(128) << 10)
#define DRAIN_BYTES 16384

enum step { STEP_MOVED, STEP_BLOCKED, STEP_OVER };

int tcp_conn_new(int fd, struct fabric_session *session, uint32_t channel,
		 const _Atomic uint64_t *until_ns, struct tcp_conn **ret_conn)
{
	struct tcp_conn *conn;
	int err = tcp_socket_tune(fd);

	if (err)
		return err;
	conn = calloc(1, sizeof(*conn));
	if (!conn)
		return err_errno(-ENOMEM, "a data stream");
	list_init(&conn->in_session);
	list_init(&conn->in_streams);
	list_init(&conn->in_ready);
	conn->channel = channel;
	conn->session = session;
	conn->until_ns = until_ns;
	conn->fd = fd;
	conn->secure = true;
	conn->command.kind = TCP_COMMAND_CONN;
	(void)pthread_mutex_init(&conn->lock, NULL);
	*ret_conn = conn;
	return 0;
}

void tcp_conn_free(struct tcp_conn *conn)
{
	if (!conn)
		return;
	tls_pipe_free(conn->tls);
	(void)close(conn->fd);
	(void)pthread_mutex_destroy(&conn->lock);
	free(conn);
}

void tcp_conn_kill(struct tcp_conn *conn)
{
	/* bytes that were received before the shutdown could still be read: the flag stops that */
	atomic_store(&conn->killed, true);
	/* wakes its thread; may find the peer gone already */
	(void)shutdown(conn->fd, SHUT_RDWR);
}

bool tcp_conn_is_quiet(struct tcp_conn *conn)
{
	if (pthread_mutex_trylock(&conn->lock))
		return false;
	(void)pthread_mutex_unlock(&conn->lock);
	return true;
}

/* The thread holds the lock until the request in progress is done; when it acquires the lock again,
 * it only finds that the stream was killed. */
void tcp_conn_await_quiet(struct tcp_conn *conn)
{
	(void)pthread_mutex_lock(&conn->lock);
	(void)pthread_mutex_unlock(&conn->lock);
}

static enum step conn_over(struct tcp_conn *conn, const char *why)
{
	(void)snprintf(conn->why, sizeof(conn->why), "%s", why);
	return STEP_OVER;
}

static enum step conn_over_errno(struct tcp_conn *conn, int err)
{
	return conn_over(conn, strerrordesc_np(err));
}

static struct tcp_reply *conn_reply(struct tcp_conn *conn, unsigned i)
{
	return &conn->replies[(conn->first + i) % TCP_REPLIES];
}

/* Make it a response without payload. */
static void reply_set(struct tcp_reply *reply, uint64_t cookie, uint32_t status)
{
	reply->header =
		(struct stream_response){ .status = htole32(status), .cookie = cookie };
	reply->payload = NULL;
	reply->mr = NULL;
	reply->bytes = 0;
}

/* Queue a response without payload.  conn_has_space() held before the request was received. */
static struct tcp_reply *conn_answer(struct tcp_conn *conn, uint64_t cookie,
				     uint32_t status)
{
	struct tcp_reply *reply = conn_reply(conn, conn->n_replies++);

	conn->refused_now += status == STREAM_REFUSED;
	reply_set(reply, cookie, status);
	return reply;
}

/* ---- sending ---- */

/* Fill iov with unsent parts of the replies; returns the number of parts. */
static size_t conn_gather(struct tcp_conn *conn, struct iovec iov[2 * TCP_REPLIES])
{
	struct stream_parts parts = { iov, 0, conn->sent };
	size_t left = CHUNK_BYTES;

	for (unsigned i = 0; i < conn->n_replies && left > 0; i++) {
		struct tcp_reply *reply = conn_reply(conn, i);
		size_t part;

		stream_parts_add(&parts, &reply->header, sizeof(reply->header));
		part = reply->bytes - parts.skip;
		if (part > left)
			part = left;
		left -= part;
		stream_parts_add(&parts, reply->payload, parts.skip + part);
	}
	return parts.n;
}

static void conn_sent(struct tcp_conn *conn, size_t bytes)
{
	conn->sent += bytes;
	while (conn->n_replies > 0) {
		const struct tcp_reply *reply = conn_reply(conn, 0);
		size_t whole = sizeof(reply->header) + reply->bytes;

		if (conn->sent < whole)
			break;
		conn->sent -= whole;
		conn->first = (conn->first + 1) % TCP_REPLIES;
		conn->n_replies--;
	}
}

static void budget_spend(size_t *budget, size_t n)
{
	*budget -= n < *budget ? n : *budget;
}

static ssize_t conn_send(struct tcp_conn *conn)
{
	struct iovec iov[2 * TCP_REPLIES];
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = conn_gather(conn, iov) };

	if (conn->tls)
		return tls_pipe_send(conn->tls, iov, msg.msg_iovlen);
	return sendmsg(conn->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Whether there is something to send, as TLS may have bytes of replies that are done. */
static bool conn_has_output(const struct tcp_conn *conn)
{
	return conn->n_replies > 0 || (conn->tls && tls_pipe_unsent(conn->tls));
}

static enum step conn_flush(struct tcp_conn *conn, size_t *budget)
{
	while (conn_has_output(conn) && *budget > 0) {
		ssize_t n = conn_send(conn);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return STEP_BLOCKED;
		if (n < 0)
			return conn_over_errno(conn, errno);
		conn_sent(conn, (size_t)n);
		budget_spend(budget, (size_t)n);
	}
	return STEP_MOVED;
}

static size_t conn_unsent(struct tcp_conn *conn)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < conn->n_replies; i++)
		bytes += conn_reply(conn, i)->bytes;
	return bytes;
}

/* ---- receiving ---- */

static bool is_word(const char *place, uint32_t bytes)
{
	return bytes == sizeof(uint64_t) && (uintptr_t)place % sizeof(uint64_t) == 0;
}

static void conn_begin_read(struct tcp_conn *conn)
{
	const struct stream_request *request = &conn->request;
	uint32_t bytes = le32toh(request->bytes);
	const struct fabric_mr *mr;
	char *place =
		tcp_mr_resolve(conn->table, conn->session, le64toh(request->rkey),
			       le64toh(request->addr), bytes, FABRIC_RIGHT_READ, &mr);
	struct tcp_reply *reply = conn_answer(conn, request->cookie,
					      place ? STREAM_DONE : STREAM_REFUSED);

	if (!place)
		return;
	reply->bytes = bytes;
	reply->header.bytes = htole32(bytes);
	if (is_word(place, bytes)) {
		/* the kernel may copy in parts; a word must not tear */
		reply->word =
			__atomic_load_n((uint64_t *)(void *)place, __ATOMIC_ACQUIRE);
		reply->payload = (char *)&reply->word;
	} else {
		reply->payload = place;
		reply->mr = mr;
	}
}

/* Refuse the request, and drop its payload. */
static void conn_drain(struct tcp_conn *conn)
{
	conn->target = NULL;
	conn->status = STREAM_REFUSED;
	conn->phase = TCP_PHASE_DRAIN;
}

/* Receive `bytes` of payload into `place`; NULL: the request is refused. */
static void conn_expect(struct tcp_conn *conn, enum tcp_phase phase, char *place,
			uint32_t bytes)
{
	conn->cookie = conn->request.cookie;
	conn->have = 0;
	conn->left = bytes;
	conn->place = place;
	conn->status = STREAM_DONE;
	conn->phase = phase;
	if (!place)
		conn_drain(conn);
}

static void conn_begin_write(struct tcp_conn *conn)
{
	const struct stream_request *request = &conn->request;
	uint32_t bytes = le32toh(request->bytes);
	char *place = tcp_mr_resolve(conn->table, conn->session, le64toh(request->rkey),
				     le64toh(request->addr), bytes, FABRIC_RIGHT_WRITE,
				     &conn->target);

	conn->word_place = place && is_word(place, bytes) ? place : NULL;
	conn_expect(conn, TCP_PHASE_PAYLOAD,
		    conn->word_place ? (char *)&conn->word : place, bytes);
}

static void conn_begin_atomic(struct tcp_conn *conn, enum stream_op op)
{
	const struct stream_request *request = &conn->request;
	char *place =
		tcp_mr_resolve(conn->table, conn->session, le64toh(request->rkey),
			       le64toh(request->addr), sizeof(uint64_t),
			       FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE, &conn->target);

	if (place && !is_word(place, sizeof(uint64_t)))
		place = NULL;
	conn->atomic_op = op;
	conn->word_place = place;
	conn_expect(conn, TCP_PHASE_ATOMIC, place ? (char *)&conn->atomic : NULL,
		    sizeof(conn->atomic));
}

static enum step conn_begin_inband(struct tcp_conn *conn)
{
	const char *wrong;

	_Static_assert(sizeof(conn->request) ==
			       offsetof(struct inband_request, operands),
		       "an in-band request begins like any other");
	memcpy(&conn->inband, &conn->request, sizeof(conn->request));
	wrong = inband_request_check(&conn->inband);
	if (wrong)
		return conn_over(conn, wrong);
	conn_expect(conn, TCP_PHASE_INBAND, (char *)&conn->inband.operands,
		    sizeof(conn->inband.operands));
	return STEP_MOVED;
}

static enum step conn_begin(struct tcp_conn *conn)
{
	uint32_t op = le32toh(conn->request.op), bytes = le32toh(conn->request.bytes);

	if (inband_op_is_one(op))
		return conn_begin_inband(conn);
	if (bytes == 0 || bytes > STREAM_BYTES_MAX) {
		(void)snprintf(conn->why, sizeof(conn->why), "a request of %u bytes",
			       bytes);
		return STEP_OVER;
	}
	switch (op) {
	case STREAM_READ:
		conn_begin_read(conn);
		conn->have = 0;
		return STEP_MOVED;
	case STREAM_WRITE:
		conn_begin_write(conn);
		return STEP_MOVED;
	case STREAM_CAS:
	case STREAM_FETCH_ADD:
		if (bytes != sizeof(struct stream_atomic))
			return conn_over(conn, "an atomic without its numbers");
		conn_begin_atomic(conn, op);
		return STEP_MOVED;
	default:
		(void)snprintf(conn->why, sizeof(conn->why), "unknown operation %u",
			       op);
		return STEP_OVER;
	}
}

/* Returns the old value. */
static uint64_t word_change(uint64_t *word, enum stream_op op, uint64_t compare,
			    uint64_t operand)
{
	if (op == STREAM_FETCH_ADD)
		return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
	/* on failure the old value is stored in `compare`, else it is equal to it */
	(void)__atomic_compare_exchange_n(word, &compare, operand, false,
					  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return compare;
}

/* Answer with 8 bytes. */
static void conn_answer_word(struct tcp_conn *conn, uint64_t cookie, uint64_t word)
{
	struct tcp_reply *reply = conn_answer(conn, cookie, STREAM_DONE);

	reply->word = htole64(word);
	reply->payload = (char *)&reply->word;
	reply->bytes = sizeof(reply->word);
	reply->header.bytes = htole32(sizeof(reply->word));
}

static void conn_do_atomic(struct tcp_conn *conn)
{
	uint64_t old = word_change((uint64_t *)(void *)conn->word_place,
				   conn->atomic_op, le64toh(conn->atomic.compare),
				   le64toh(conn->atomic.operand));

	conn_answer_word(conn, conn->cookie, old);
}

/* ctx: the stream. */
static char *inband_find(void *ctx, uint64_t rkey, uint64_t addr, uint32_t bytes,
			 unsigned rights)
{
	const struct tcp_conn *conn = ctx;
	const struct fabric_mr *mr;

	return tcp_mr_resolve(conn->table, conn->session, rkey, addr, bytes, rights,
			      &mr);
}

static bool inband_notify(void *ctx, uint64_t rkey, uint64_t addr, uint32_t value)
{
	const struct tcp_conn *conn = ctx;

	return tcp_mr_notify(conn->table, conn->session, rkey, addr, value);
}

/* Executed at once, so that no region is in use when the thread carries out commands. */
static void conn_do_inband(struct tcp_conn *conn)
{
	const struct inband_memory memory = {
		.find = inband_find,
		.notify = inband_notify,
		.ctx = conn,
	};
	uint64_t result;

	conn->served += le32toh(conn->inband.bytes);
	if (inband_serve(&conn->inband, &memory, &result) == INBAND_DONE)
		conn_answer_word(conn, conn->inband.cookie, result);
	else
		(void)conn_answer(conn, conn->inband.cookie, STREAM_REFUSED);
}

/* The payload of a request has been received or dropped. */
static void conn_end_payload(struct tcp_conn *conn)
{
	if (conn->phase == TCP_PHASE_PAYLOAD && conn->word_place)
		__atomic_store_n((uint64_t *)(void *)conn->word_place, conn->word,
				 __ATOMIC_RELEASE);
	if (conn->phase == TCP_PHASE_ATOMIC)
		conn_do_atomic(conn);
	else if (conn->phase == TCP_PHASE_INBAND)
		conn_do_inband(conn);
	else
		(void)conn_answer(conn, conn->cookie, conn->status);
	conn->target = NULL;
	conn->phase = TCP_PHASE_REQUEST;
}

/* Receive the payload, and the next request after it: one system call per request. */
static ssize_t conn_recv_payload(struct tcp_conn *conn)
{
	struct iovec iov[2] = {
		{ .iov_base = conn->place, .iov_len = conn->left },
		{ .iov_base = &conn->request, .iov_len = sizeof(conn->request) },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	if (conn->left > CHUNK_BYTES) {
		iov[0].iov_len = CHUNK_BYTES;
		msg.msg_iovlen = 1;
	}
	if (conn->tls)
		return tls_pipe_receive(conn->tls, iov, msg.msg_iovlen);
	return recvmsg(conn->fd, &msg, MSG_DONTWAIT);
}

static ssize_t conn_recv_bytes(struct tcp_conn *conn, void *to, size_t bytes)
{
	const struct iovec iov = { .iov_base = to, .iov_len = bytes };

	if (conn->tls)
		return tls_pipe_receive(conn->tls, &iov, 1);
	return recv(conn->fd, to, bytes, MSG_DONTWAIT);
}

static ssize_t conn_recv(struct tcp_conn *conn)
{
	char sink[DRAIN_BYTES];

	if (conn->phase == TCP_PHASE_REQUEST)
		return conn_recv_bytes(conn, (char *)&conn->request + conn->have,
				       sizeof(conn->request) - conn->have);
	if (conn->phase != TCP_PHASE_DRAIN)
		return conn_recv_payload(conn);
	return conn_recv_bytes(conn, sink,
			       conn->left < sizeof(sink) ? conn->left : sizeof(sink));
}

static void conn_received(struct tcp_conn *conn, size_t n)
{
	size_t part = n < conn->left ? n : conn->left;

	if (conn->phase == TCP_PHASE_REQUEST) {
		conn->have += n;
		return;
	}
	if (conn->phase != TCP_PHASE_DRAIN) {
		conn->place += part;
		conn->have = n - part;
	}
	conn->left -= (uint32_t)part;
	if (conn->left == 0)
		conn_end_payload(conn);
}

static enum step conn_end_of_stream(struct tcp_conn *conn)
{
	if (conn->phase != TCP_PHASE_REQUEST || conn->have > 0)
		return conn_over(conn, "ended in the middle of a request");
	if (conn->n_replies > 0)
		return conn_over(conn, "ended before its responses were sent");
	return conn_over(conn, "");
}

/* The process may have been stopped at any place, so each look at the clock is followed by one
 * system call that moves bytes into memory. */
static bool conn_is_overdue(const struct tcp_conn *conn)
{
	return clock_coarse_ns() >=
	       atomic_load_explicit(conn->until_ns, memory_order_acquire);
}

static enum step conn_receive(struct tcp_conn *conn, size_t *budget)
{
	ssize_t n;

	if (conn_is_overdue(conn))
		return conn_over(conn, "its session was not heard in time");
	n = conn_recv(conn);
	if (n < 0 && errno == EINTR)
		return STEP_MOVED;
	if (n < 0 && errno == EAGAIN)
		return STEP_BLOCKED;
	if (n < 0)
		return conn_over_errno(conn, errno);
	if (n == 0)
		return conn_end_of_stream(conn);
	conn_received(conn, (size_t)n);
	budget_spend(budget, (size_t)n + conn->served);
	conn->served = 0;
	if (conn->phase == TCP_PHASE_REQUEST && conn->have == sizeof(conn->request))
		return conn_begin(conn);
	return STEP_MOVED;
}

/* Room for two answers: one request may be received after the payload of another. */
static bool conn_has_space(const struct tcp_conn *conn)
{
	return conn->n_replies + 2 <= TCP_REPLIES;
}

/* ---- TLS ---- */

/* A step of the handshake: one message of the client, and the answer to it. */
static enum tcp_run conn_handshake(struct tcp_conn *conn)
{
	int err = atomic_load(&conn->killed) ? -ECONNABORTED
					     : tls_pipe_handshake(conn->tls);

	if (err == -EAGAIN)
		return TCP_RUN_WAITS;
	if (err) {
		(void)conn_over(conn, err == -ECONNABORTED ? "" : err_text());
		return TCP_RUN_OVER;
	}
	conn->secure = true;
	conn->in_kernel = tls_pipe_in_kernel(conn->tls);
	if (conn->in_kernel) {
		tls_pipe_free(conn->tls);
		conn->tls = NULL;
	}
	return TCP_RUN_UP;
}

/* ---- slices ---- */

static enum tcp_run conn_slice(struct tcp_conn *conn)
{
	size_t in = SLICE_BYTES, out = SLICE_BYTES;
	bool empty = false, full = false; /* the socket's buffers */

	if (!conn->secure)
		return conn_handshake(conn);

	for (unsigned i = 0; i < SLICE_REQUESTS && in > 0 && out > 0; i++) {
		enum step step;

		if (atomic_load(&conn->killed))
			return TCP_RUN_OVER;
		if (!full &&
		    (!conn_has_space(conn) || conn_unsent(conn) >= FLUSH_BYTES)) {
			step = conn_flush(conn, &out);
			if (step == STEP_OVER)
				return TCP_RUN_OVER;
			full = step == STEP_BLOCKED;
		}
		if (!conn_has_space(conn))
			break;
		step = conn_receive(conn, &in);
		if (step == STEP_OVER)
			return TCP_RUN_OVER;
		empty = step == STEP_BLOCKED;
		if (empty)
			break;
	}
	if (!full) {
		enum step step = conn_flush(conn, &out);

		if (step == STEP_OVER)
			return TCP_RUN_OVER;
		full = step == STEP_BLOCKED;
	}
	return (conn_has_space(conn) && !empty) || (conn_has_output(conn) && !full)
		       ? TCP_RUN_READY
		       : TCP_RUN_WAITS;
}

enum tcp_run tcp_conn_run(struct tcp_conn *conn)
{
	enum tcp_run result;

	(void)pthread_mutex_lock(&conn->lock);
	result = conn_slice(conn);
	(void)pthread_mutex_unlock(&conn->lock);
	return result;
}

/* Stop using the region.  False: a response that was sent in part cannot be changed. */
static bool mr_release(struct tcp_conn *conn, const struct fabric_mr *mr)
{
	if (conn->n_replies > 0 && conn->sent > 0 && conn_reply(conn, 0)->mr == mr)
		return false;
	if (conn->target == mr)
		conn_drain(conn);
	for (unsigned i = 0; i < conn->n_replies; i++) {
		struct tcp_reply *reply = conn_reply(conn, i);

		if (reply->mr == mr)
			reply_set(reply, reply->header.cookie, STREAM_REFUSED);
	}
	return true;
}

bool tcp_conn_release_mr(struct tcp_conn *conn, const struct fabric_mr *mr)
{
	bool stays;

	(void)pthread_mutex_lock(&conn->lock);
	stays = mr_release(conn, mr);
	if (!stays)
		(void)conn_over(conn, "memory deregistered while it was read");
	(void)pthread_mutex_unlock(&conn->lock);
	return stays;
}

bool tcp_conn_try_release_mr(struct tcp_conn *conn, const struct fabric_mr *mr)
{
	bool done;

	if (pthread_mutex_trylock(&conn->lock))
		return false;
	done = mr_release(conn, mr);
	(void)pthread_mutex_unlock(&conn->lock);
	return done;
}
