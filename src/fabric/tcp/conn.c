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
#include "tls/records.h"

/* The work of one stream before the next one gets its turn. */
#define SLICE_BYTES (UINT32_C(256) << 10)
#define SLICE_REQUESTS 128
/* Most that one system call moves: deregistration waits for its end. */
#define CHUNK_BYTES (UINT32_C(512) << 10)
/* When this much waits to be sent, it is sent before more requests are received. */
#define FLUSH_BYTES (UINT32_C(256) << 10)
/* Behind a payload of this size only a request is received, so that the next such payload goes to
 * its place without a copy.  Smaller ones are copied from the inbox, many of them after one system
 * call. */
#define LARGE_BYTES 2048u

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
	free(conn->buffers);
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

/* Whether no request may begin any more.  Sessions with thousands of streams are closed by one
 * store. */
static bool conn_is_killed(const struct tcp_conn *conn)
{
	return atomic_load(&conn->killed) || atomic_load(conn->until_ns) == 0;
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

/* Queue a response without payload.  conn_has_space() held before the request was handled. */
static struct tcp_reply *conn_answer(struct tcp_conn *conn, uint64_t cookie,
				     uint32_t status)
{
	if (status != FABRIC_DONE) {
		conn->refused_now++;
		tcp_traffic_add(&conn->traffic->refused, 1);
	}
	return tcp_reply_add(conn->buffers, cookie, status);
}

/* ---- sending ---- */

static void budget_spend(size_t *budget, size_t n)
{
	*budget -= n < *budget ? n : *budget;
}

static ssize_t conn_send(struct tcp_conn *conn)
{
	struct iovec iov[2 * TCP_REPLIES];
	size_t places = tcp_replies_gather(conn->buffers, iov, CHUNK_BYTES);

	return conn->tls ? tls_pipe_send(conn->tls, iov, places)
			 : tcp_socket_send(conn->fd, iov, places);
}

/* Whether there is something to send, as TLS may have bytes of replies that are done. */
static bool conn_has_output(const struct tcp_conn *conn)
{
	return conn->buffers->n_replies > 0 ||
	       (conn->tls && tls_pipe_unsent(conn->tls));
}

/* The kernel keeps its key, and a key has a limit, which clients do not reach: see
 * fabric/tcp/channel.c. */
static bool conn_is_worn(struct tcp_conn *conn, size_t sent)
{
	conn->records += tls_records(sent);
	return conn->in_kernel && conn->records >= tls_records_max;
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
		tcp_traffic_add(&conn->traffic->sent_bytes, (size_t)n);
		tcp_replies_sent(conn->buffers, (size_t)n);
		budget_spend(budget, (size_t)n);
		if (conn_is_worn(conn, (size_t)n))
			return conn_over(conn, "TLS in the kernel cannot change its "
					       "key, which has sent too much");
	}
	return STEP_MOVED;
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
	struct tcp_place place;
	enum fabric_status status = tcp_mr_resolve(
		conn->table, conn->session, le64toh(request->rkey),
		le64toh(request->addr), bytes, FABRIC_RIGHT_READ, &place);
	struct tcp_reply *reply = conn_answer(conn, request->cookie, status);

	if (status != FABRIC_DONE)
		return;
	tcp_traffic_add(&conn->traffic->reads, 1);
	if (is_word(place.at, bytes)) {
		/* the kernel may copy in parts; a word must not tear */
		reply->word =
			__atomic_load_n((uint64_t *)(void *)place.at, __ATOMIC_ACQUIRE);
		place = (struct tcp_place){ .at = (char *)&reply->word };
	}
	tcp_reply_set_payload(conn->buffers, reply, place.at, bytes, place.mr);
}

/* Refuse the request, and drop its payload. */
static void conn_drain(struct tcp_conn *conn, enum fabric_status status)
{
	conn->target = NULL;
	conn->status = status;
	conn->phase = TCP_PHASE_DRAIN;
}

/* Receive `bytes` of payload into `place`, unless the request is refused. */
static void conn_expect(struct tcp_conn *conn, enum fabric_status status,
			enum tcp_phase phase, char *place, uint32_t bytes)
{
	conn->cookie = conn->request.cookie;
	conn->have = 0;
	conn->left = bytes;
	conn->place = place;
	conn->status = status;
	conn->phase = phase;
	if (status != FABRIC_DONE)
		conn_drain(conn, status);
}

static void conn_begin_write(struct tcp_conn *conn)
{
	const struct stream_request *request = &conn->request;
	uint32_t bytes = le32toh(request->bytes);
	struct tcp_place place = { .at = NULL };
	enum fabric_status status = tcp_mr_resolve(
		conn->table, conn->session, le64toh(request->rkey),
		le64toh(request->addr), bytes, FABRIC_RIGHT_WRITE, &place);

	conn->target = place.mr;
	conn->word_place = place.at && is_word(place.at, bytes) ? place.at : NULL;
	conn_expect(conn, status, TCP_PHASE_PAYLOAD,
		    conn->word_place ? (char *)&conn->word : place.at, bytes);
}

static void conn_begin_atomic(struct tcp_conn *conn, enum stream_op op)
{
	const struct stream_request *request = &conn->request;
	struct tcp_place place = { .at = NULL };
	enum fabric_status status =
		tcp_mr_resolve(conn->table, conn->session, le64toh(request->rkey),
			       le64toh(request->addr), sizeof(uint64_t),
			       FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE, &place);

	if (status == FABRIC_DONE && !is_word(place.at, sizeof(uint64_t)))
		status = FABRIC_INVALID;
	conn->atomic_op = op;
	conn->target = place.mr;
	conn->word_place = place.at;
	conn_expect(conn, status, TCP_PHASE_ATOMIC, (char *)&conn->atomic,
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
	conn_expect(conn, FABRIC_DONE, TCP_PHASE_INBAND, (char *)&conn->inband.operands,
		    sizeof(conn->inband.operands));
	return STEP_MOVED;
}

static enum step conn_begin(struct tcp_conn *conn)
{
	uint32_t op = le16toh(conn->request.op), bytes = le32toh(conn->request.bytes);

	if (inband_op_is_one(op))
		return conn_begin_inband(conn);
	if (conn->request.flags)
		return conn_over(conn, "a request with unknown flags");
	if (bytes == 0 || bytes > FABRIC_STREAM_BYTES_MAX) {
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
	struct tcp_reply *reply = conn_answer(conn, cookie, FABRIC_DONE);

	reply->word = htole64(word);
	tcp_reply_set_payload(conn->buffers, reply, (char *)&reply->word,
			      sizeof(reply->word), NULL);
}

static void conn_do_atomic(struct tcp_conn *conn)
{
	uint64_t old = word_change((uint64_t *)(void *)conn->word_place,
				   conn->atomic_op, le64toh(conn->atomic.compare),
				   le64toh(conn->atomic.operand));

	tcp_traffic_add(&conn->traffic->atomics, 1);
	conn_answer_word(conn, conn->cookie, old);
}

/* ctx: the stream. */
static enum fabric_status inband_find(void *ctx, uint64_t rkey, uint64_t addr,
				      uint32_t bytes, unsigned rights, char **ret_at)
{
	const struct tcp_conn *conn = ctx;
	struct tcp_place place;
	enum fabric_status status = tcp_mr_resolve(conn->table, conn->session, rkey,
						   addr, bytes, rights, &place);

	if (status == FABRIC_DONE)
		*ret_at = place.at;
	return status;
}

static enum fabric_status inband_notify(void *ctx, uint64_t rkey, uint64_t addr,
					uint32_t value)
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
	enum fabric_status status;
	uint64_t result;

	conn->served += le32toh(conn->inband.bytes);
	status = inband_serve(&conn->inband, &memory, &result);
	if (status != FABRIC_DONE) {
		(void)conn_answer(conn, conn->inband.cookie, status);
		return;
	}
	tcp_traffic_add(&conn->traffic->inband, 1);
	conn_answer_word(conn, conn->inband.cookie, result);
}

/* The payload of a request has been received or dropped. */
static void conn_end_payload(struct tcp_conn *conn)
{
	if (conn->phase == TCP_PHASE_PAYLOAD)
		tcp_traffic_add(&conn->traffic->writes, 1);
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

/* So many bytes of the payload have been received. */
static void conn_received(struct tcp_conn *conn, size_t n)
{
	/* a payload that is dropped has no place */
	if (conn->phase != TCP_PHASE_DRAIN)
		conn->place += n;
	conn->left -= (uint32_t)n;
	if (conn->left == 0)
		conn_end_payload(conn);
}

/* Where the next bytes of the stream go: the rest of a payload into its place, what is behind it
 * into the inbox, which is empty. */
static size_t conn_places(const struct tcp_conn *conn, struct iovec iov[2])
{
	size_t behind = TCP_INBOX_BYTES, direct = 0, n = 0;

	if (conn->phase != TCP_PHASE_REQUEST && conn->phase != TCP_PHASE_DRAIN)
		direct = conn->left < CHUNK_BYTES ? conn->left : CHUNK_BYTES;
	if (direct > 0) {
		iov[n++] = (struct iovec){ conn->place, direct };
		if (le32toh(conn->request.bytes) >= LARGE_BYTES)
			behind = sizeof(conn->request);
	}
	if (direct == 0 || direct == conn->left)
		iov[n++] = (struct iovec){ conn->buffers->inbox, behind };
	return n;
}

static ssize_t conn_recv(struct tcp_conn *conn, bool *ret_drained)
{
	struct iovec iov[2];
	size_t places = conn_places(conn, iov);
	size_t wanted = iov[0].iov_len + (places > 1 ? iov[1].iov_len : 0);
	ssize_t n;

	if (conn->tls)
		return tls_pipe_receive(conn->tls, iov, places);
	n = tcp_socket_receive(conn->fd, iov, places);
	/* The socket had no more; what arrives from now on is another event.  Its end may be the
	 * same event, and TLS in the kernel stops at the end of a record. */
	*ret_drained = n > 0 && (size_t)n < wanted && !conn->ending && !conn->in_kernel;
	return n;
}

static enum step conn_end_of_stream(struct tcp_conn *conn)
{
	if (conn->phase != TCP_PHASE_REQUEST || conn->have > 0)
		return conn_over(conn, "ended in the middle of a request");
	if (conn->buffers->n_replies > 0)
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

/* Receive bytes, into the place of a payload and the inbox. */
static enum step conn_receive(struct tcp_conn *conn, size_t *budget, bool *ret_drained)
{
	struct tcp_buffers *buffers = conn->buffers;
	size_t direct;
	ssize_t n;

	if (conn_is_overdue(conn))
		return conn_over(conn, "its session was not heard in time");
	n = conn_recv(conn, ret_drained);
	if (n < 0 && errno == EINTR)
		return STEP_MOVED;
	if (n < 0 && errno == EAGAIN)
		return STEP_BLOCKED;
	if (n < 0)
		return conn_over_errno(conn, errno);
	if (n == 0)
		return conn_end_of_stream(conn);
	tcp_traffic_add(&conn->traffic->received_bytes, (size_t)n);
	budget_spend(budget, (size_t)n);
	direct = (size_t)n;
	if (conn->phase == TCP_PHASE_REQUEST || conn->phase == TCP_PHASE_DRAIN)
		direct = 0;
	else if (direct > conn->left)
		direct = conn->left;
	buffers->taken = 0;
	buffers->received = (unsigned)((size_t)n - direct);
	if (direct > 0)
		conn_received(conn, direct);
	return STEP_MOVED;
}

static size_t conn_take_bytes(struct tcp_conn *conn, void *to, size_t bytes)
{
	struct tcp_buffers *buffers = conn->buffers;
	size_t n = buffers->received - buffers->taken;

	if (n > bytes)
		n = bytes;
	if (to)
		memcpy(to, buffers->inbox + buffers->taken, n);
	buffers->taken += (unsigned)n;
	return n;
}

/* Handle what is in the inbox of the payload in progress, or else of the next request with its
 * payload. */
static enum step conn_handle(struct tcp_conn *conn, size_t *budget)
{
	enum step step;
	size_t n;

	if (conn_is_overdue(conn))
		return conn_over(conn, "its session was not heard in time");
	if (conn->phase == TCP_PHASE_REQUEST) {
		conn->have += conn_take_bytes(conn, (char *)&conn->request + conn->have,
					      sizeof(conn->request) - conn->have);
		if (conn->have < sizeof(conn->request))
			return STEP_MOVED;
		step = conn_begin(conn);
		if (step != STEP_MOVED || conn->phase == TCP_PHASE_REQUEST)
			return step;
	}
	n = conn_take_bytes(conn, conn->phase == TCP_PHASE_DRAIN ? NULL : conn->place,
			    conn->left);
	if (n > 0)
		conn_received(conn, n);
	budget_spend(budget, conn->served);
	conn->served = 0;
	return STEP_MOVED;
}

static bool inbox_is_empty(const struct tcp_conn *conn)
{
	return conn->buffers->taken == conn->buffers->received;
}

static bool conn_has_space(const struct tcp_conn *conn)
{
	return conn->buffers->n_replies < TCP_REPLIES;
}

/* ---- TLS ---- */

/* A step of the handshake: one message of the client, and the answer to it. */
static enum tcp_run conn_handshake(struct tcp_conn *conn)
{
	int err = conn_is_killed(conn) ? -ECONNABORTED : tls_pipe_handshake(conn->tls);

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
	bool drained = false;

	for (unsigned i = 0; i < SLICE_REQUESTS && in > 0 && out > 0; i++) {
		enum step step;

		if (conn_is_killed(conn))
			return TCP_RUN_OVER;
		if (!full &&
		    (!conn_has_space(conn) || conn->buffers->unsent >= FLUSH_BYTES)) {
			step = conn_flush(conn, &out);
			if (step == STEP_OVER)
				return TCP_RUN_OVER;
			full = step == STEP_BLOCKED;
		}
		empty = inbox_is_empty(conn) && drained;
		if (!conn_has_space(conn) || empty)
			break;
		step = inbox_is_empty(conn) ? conn_receive(conn, &in, &drained)
					    : conn_handle(conn, &in);
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

/* Borrow buffers for a slice.  False: there is no memory for them. */
static bool conn_borrow(struct tcp_conn *conn, struct tcp_buffers **spare)
{
	if (!conn->buffers) {
		conn->buffers = *spare ? *spare : tcp_buffers_new();
		*spare = NULL;
	}
	if (!conn->buffers)
		(void)conn_over(conn, "no memory for its requests");
	return conn->buffers != NULL;
}

static void conn_give_back(struct tcp_conn *conn, struct tcp_buffers **spare)
{
	if (!tcp_buffers_empty(conn->buffers))
		return;
	if (*spare)
		free(conn->buffers);
	else
		*spare = conn->buffers;
	conn->buffers = NULL;
}

enum tcp_run tcp_conn_run(struct tcp_conn *conn, struct tcp_buffers **spare)
{
	enum tcp_run result = TCP_RUN_OVER;

	/* a handshake uses no memory that the loop waits for */
	if (!conn->secure)
		return conn_handshake(conn);
	(void)pthread_mutex_lock(&conn->lock);
	if (conn_borrow(conn, spare)) {
		result = conn_slice(conn);
		conn_give_back(conn, spare);
	}
	(void)pthread_mutex_unlock(&conn->lock);
	return result;
}

/* Stop using the region.  False: a response that was sent in part cannot be changed. */
static bool mr_release(struct tcp_conn *conn, const struct fabric_mr *mr)
{
	if (conn->buffers && !tcp_replies_release(conn->buffers, mr))
		return false;
	if (conn->target == mr)
		conn_drain(conn, FABRIC_STALE);
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
