/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/channel.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/foreign.h"
#include "base/own_fd.h"
#include "base/rare.h"
#include "fabric/status.h"
#include "fabric/tcp/places.h"
#include "fabric/tcp/socket.h"
#include "tls/records.h"

#define PIECES_MAX 256                     /* sent by one call */
#define PLACES_BYTES (UINT32_C(512) << 10) /* of large payloads, received by one call */
#define BUDGET_BYTES (UINT32_C(2) << 20)   /* received in one turn of a channel */

static bool channel_is_dead(const struct fabric_channel *ch)
{
	return atomic_load_explicit(&ch->dead, memory_order_relaxed);
}

/* The program may have closed it, and opened another file with its number. */
static bool owns_socket(const struct fabric_channel *ch)
{
	return own_fd_is(ch->fd, ch->inode);
}

bool tcp_channel_has_socket(struct fabric_channel *ch)
{
	uint64_t now_ns = clock_coarse_ns();

	if (now_ns < ch->look_ns)
		return true;
	if (!owns_socket(ch))
		return false;
	ch->look_ns = now_ns + TCP_LOOK_NS;
	return true;
}

void tcp_channel_close(const struct fabric_channel *ch)
{
	if (owns_socket(ch))
		(void)close(ch->fd);
}

/* Dissolving the connection drops what the kernel has not sent yet; shutdown() would still
 * deliver it.  The descriptor stays open until channel_free().  connect(2) is called without
 * its wrapper: ThreadSanitizer takes the wrapper for the creation of the descriptor and reports
 * the owner's use of it as a race.  Kernels do not dissolve a connection that is under their TLS,
 * or not well. */
void tcp_channel_abort(struct fabric_channel *ch)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	if (atomic_exchange(&ch->aborted, true) || !owns_socket(ch))
		return;
	if (ch->in_kernel || syscall(SYS_connect, ch->fd, &none, sizeof(none)) != 0)
		(void)shutdown(ch->fd, SHUT_RDWR);
}

/* Stop the stream.  Operation `culprit`, if it is outstanding, ends with status and text; all
 * others are flushed. */
static void channel_die(struct fabric_channel *ch, uint64_t culprit, int status,
			const char *text)
{
	ch->culprit = culprit;
	ch->culprit_status = status;
	ch->culprit_text = text;
	ch->left = ch->slices_left = 0;
	atomic_store(&ch->dead, true);
	if (owns_socket(ch))
		(void)epoll_ctl(ch->cq->epoll_fd, EPOLL_CTL_DEL, ch->fd, NULL);
	tcp_channel_abort(ch);
	list_remove(&ch->ready);
	if (ch->head < ch->tail)
		list_append(&ch->cq->ready, &ch->ready);
}

/* The stream failed. */
static void channel_die_errno(struct fabric_channel *ch, int err)
{
	if (err == ETIMEDOUT || err == EHOSTUNREACH || err == ENETUNREACH) {
		ch->flush_status = -ETIMEDOUT;
		ch->flush_text = "the server's host does not answer";
	} else {
		ch->flush_status = -ECONNRESET;
		ch->flush_text = "the stream has ended";
	}
	channel_die(ch, UINT64_MAX, 0, NULL);
}

/* The stream failed, or the memory of operation `seq`. */
static RARE void channel_fail(struct fabric_channel *ch, uint64_t seq, int err)
{
	if (err == EFAULT)
		channel_die(ch, seq, -EFAULT, "the local memory is not there");
	else
		channel_die_errno(ch, err);
}

/* Whether there is something to send, as TLS may have bytes of operations that count as sent. */
static bool channel_has_output(const struct fabric_channel *ch)
{
	return ch->next < ch->tail || (ch->tls && tls_pipe_unsent(ch->tls));
}

static RARE void channel_register(struct fabric_channel *ch, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = ch };

	ch->interest = events;
	/* changing what is registered takes no memory: cannot fail */
	(void)epoll_ctl(ch->cq->epoll_fd, EPOLL_CTL_MOD, ch->fd, &event);
}

static void channel_want(struct fabric_channel *ch)
{
	uint32_t events = EPOLLIN | (channel_has_output(ch) ? (uint32_t)EPOLLOUT : 0);

	if (events != ch->interest)
		channel_register(ch, events);
}

/* ---- sending ---- */

/* Add what fits of the slices that an operation sends. */
static __attribute__((noinline)) void gather_slices(struct stream_parts *parts,
						    const struct tcp_op *op, size_t max)
{
	unsigned n = op->payload_bytes ? op->n_slices : 0;

	for (unsigned i = 0; i < n && parts->n < max; i++)
		stream_parts_add(parts, op->slices[i].iov_base, op->slices[i].iov_len);
}

/* Fill iov with unsent parts, up to max; returns their number. */
static size_t channel_gather(struct fabric_channel *ch, struct iovec iov[PIECES_MAX],
			     size_t max)
{
	struct stream_parts parts = { iov, 0, ch->sent };
	struct tcp_op *op = tcp_channel_op(ch, ch->next);

	for (uint64_t seq = ch->next; seq < ch->tail && parts.n + 2 <= max;
	     seq++, op = tcp_op_after(ch, op)) {
		stream_parts_add(&parts, &op->request, sizeof(op->request));
		if (op->payload)
			stream_parts_add(&parts, op->payload, op->payload_bytes);
		else
			gather_slices(&parts, op, max);
	}
	return parts.n;
}

/* Whether the program's memory is sent. */
static bool channel_writes(struct fabric_channel *ch)
{
	uint64_t seq = ch->next;

	while (seq < ch->tail && tcp_channel_op(ch, seq)->opcode != FABRIC_WRITE)
		seq++;
	return seq < ch->tail;
}

static void channel_sent(struct fabric_channel *ch, size_t bytes)
{
	struct tcp_op *op = tcp_channel_op(ch, ch->next);

	ch->sent += bytes;
	while (ch->next < ch->tail) {
		size_t whole = sizeof(op->request) + op->payload_bytes;

		if (ch->sent < whole)
			break;
		ch->sent -= whole;
		ch->next++;
		op = tcp_op_after(ch, op);
	}
}

static ssize_t channel_send_some(struct fabric_channel *ch, size_t max)
{
	struct iovec iov[PIECES_MAX];
	size_t places = channel_gather(ch, iov, max);

	if (!ch->tls)
		return tcp_socket_send(ch->fd, iov, places);
	return channel_writes(ch) ? tls_pipe_send_foreign(ch->tls, iov, places)
				  : tls_pipe_send(ch->tls, iov, places);
}

/* Returns 0 when all is sent or the socket is full, or an errno number. */
static int channel_send(struct fabric_channel *ch)
{
	size_t max = PIECES_MAX;

	while (channel_has_output(ch)) {
		ssize_t n = channel_send_some(ch, max);

		if (n >= 0) {
			ch->records_sent += tls_records((size_t)n);
			channel_sent(ch, (size_t)n);
		} else if (errno == EAGAIN)
			return 0;
		else if (errno == EFAULT && max > 2)
			/* one operation at a time, to find the one at fault */
			max = 2;
		else if (errno != EINTR)
			return errno;
	}
	return 0;
}

static bool op_is_atomic(const struct tcp_op *op)
{
	return op->opcode == FABRIC_CAS || op->opcode == FABRIC_FETCH_ADD;
}

int tcp_channel_post(struct fabric_channel *ch)
{
	unsigned taken = (unsigned)(ch->put - ch->tail);

	if (channel_is_dead(ch) || atomic_load(&ch->aborted) ||
	    !tcp_channel_has_socket(ch)) {
		ch->put = ch->tail;
		return err_set(-ECONNRESET, "the stream has ended");
	}
	ch->tail = ch->put;
	atomic_store_explicit(&ch->cq->used, ch, memory_order_relaxed);
	/* poll() reports a failure: the operations are posted, and a failed socket keeps
	 * the descriptor readable */
	if (!ch->send_err)
		ch->send_err = channel_send(ch);
	channel_want(ch);
	return (int)taken;
}

int tcp_channel_post_one(struct fabric_channel *ch, enum fabric_opcode opcode,
			 struct fabric_local_mr *region, const struct fabric_key *key,
			 const struct fabric_op *part)
{
	const struct fabric_batch batch = fabric_batch_of(opcode, region, key);

	return tcp_channel_prepare(ch, &batch, part, 0, 1) == 1 ? tcp_channel_post(ch)
								: 0;
}

/* ---- completions ---- */

static void channel_complete(struct fabric_channel *ch, struct fabric_wc *wc,
			     int status, const char *text)
{
	*wc = (struct fabric_wc){
		.owner = ch->owner,
		.n = 1,
		.status = status,
		.text = text,
	};
	ch->head++;
}

static unsigned channel_flush(struct fabric_channel *ch, struct fabric_wc *wcs,
			      unsigned n)
{
	unsigned got = 0;

	for (; got < n && ch->head < ch->tail; got++) {
		bool culprit = ch->head == ch->culprit;

		channel_complete(ch, &wcs[got],
				 culprit ? ch->culprit_status : ch->flush_status,
				 culprit ? ch->culprit_text : ch->flush_text);
	}
	return got;
}

static bool response_makes_sense(const struct stream_response *response,
				 const struct tcp_op *op)
{
	uint32_t bytes = le32toh(response->bytes);

	if (response->cookie != op->request.cookie)
		return false;
	return bytes == (le32toh(response->status) == FABRIC_DONE ? op->bytes : 0);
}

/* ---- receiving ---- */

/* The payload of the response to an atomic or an in-band request is complete. */
static RARE void op_place(const struct tcp_op *op)
{
	uint64_t old;

	if (op->opcode == FABRIC_CRC)
		*op->crc = (uint32_t)le64toh(op->result);
	if (!op_is_atomic(op))
		return;
	memcpy(&old, op->addr, sizeof(old));
	old = le64toh(old);
	memcpy(op->addr, &old, sizeof(old));
}

/* n bytes of the payload are in their place; returns the completions: 0 or 1. */
static inline unsigned channel_placed(struct fabric_channel *ch, size_t n,
				      struct fabric_wc *wc)
{
	const struct tcp_op *op;

	ch->place += n;
	ch->left -= (uint32_t)n;
	if (ch->slices_left > 0)
		tcp_places_next(ch);
	if (ch->left > 0)
		return 0;
	op = tcp_channel_op(ch, ch->head);
	if (op->opcode > FABRIC_WRITE)
		op_place(op);
	channel_complete(ch, wc, 0, NULL);
	return 1;
}

static size_t size_min(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Whether there is something for channel_parse(). */
static bool channel_has_response(const struct fabric_channel *ch)
{
	return tcp_channel_untaken(ch) >=
	       (ch->left > 0 ? 1 : sizeof(struct stream_response));
}

/* Before this thread writes the next bytes of a large payload, the kernel tries them, and many
 * behind them.  The program may not unmap them before the operation has ended. */
static int channel_probe(struct fabric_channel *ch)
{
	size_t n = ch->left < FOREIGN_PROBE_MAX ? ch->left : FOREIGN_PROBE_MAX;
	int err = foreign_probe(ch->place, n);

	if (!err)
		ch->tried = ch->place + n;
	return err;
}

static int channel_try(struct fabric_channel *ch, size_t bytes)
{
	return ch->place + bytes <= ch->tried ? 0 : channel_probe(ch);
}

/* Copy what is there of the payload; returns the completions: 0 or 1. */
static unsigned channel_take_payload(struct fabric_channel *ch, struct fabric_wc *wc)
{
	size_t n = size_min(tcp_channel_untaken(ch), ch->left);
	int err = channel_try(ch, n);

	if (err) {
		channel_fail(ch, ch->head, -err);
		return 0;
	}
	memcpy(ch->place, ch->answers, n);
	ch->answers += n;
	return channel_placed(ch, n, wc);
}

/* Handle the next response; returns the completions: 0 or 1. */
static unsigned channel_take_response(struct fabric_channel *ch, struct fabric_wc *wc)
{
	const struct tcp_op *op = tcp_channel_op(ch, ch->head);
	struct stream_response response;

	memcpy(&response, ch->answers, sizeof(response));
	if (ch->head >= ch->next || !response_makes_sense(&response, op)) {
		channel_die(ch, ch->head, -EPROTO,
			    "the server's response is malformed");
		return 0;
	}
	ch->answers += sizeof(response);
	if (le32toh(response.status) != FABRIC_DONE) {
		if (ch->ahead > 0 && tcp_places_rearrange(ch))
			channel_die_errno(ch, ENOMEM);
		channel_complete(ch, wc, -EACCES, "refused by the server");
		return 1;
	}
	ch->place = ch->tried = op->addr;
	ch->left = op->bytes;
	if (!op->addr) {
		ch->left = 0;
		ch->slices_left = op->bytes ? op->n_slices : 0;
		tcp_places_next(ch);
	} else if (op->bytes > TCP_SMALL_BYTES) {
		tcp_places_skip(ch);
	} else {
		ch->tried += op->bytes;
	}
	if (ch->left > 0)
		return 0;
	channel_complete(ch, wc, 0, NULL);
	return 1;
}

/* Handle what was received, up to n completions. */
static unsigned channel_parse(struct fabric_channel *ch, struct fabric_wc *wcs,
			      unsigned n)
{
	unsigned got = 0;

	while (got < n && !channel_is_dead(ch) && channel_has_response(ch))
		got += ch->left > 0 ? channel_take_payload(ch, &wcs[got])
				    : channel_take_response(ch, &wcs[got]);
	return got;
}

static size_t op_n_places(const struct tcp_op *op)
{
	return op->addr ? 1 : op->n_slices;
}

/* Add the payload of an operation as the places from n on; returns the number of places then. */
static inline size_t input_add_op(struct tcp_input *in, size_t n,
				  const struct tcp_op *op)
{
	if (!op->addr)
		return tcp_input_add_slices(in, n, op, 0);
	in->payloads |= UINT64_C(1) << n;
	in->iov[n] = (struct iovec){ op->addr, op->bytes };
	return n + 1;
}

/* The rest of the payload that is being received; its slices one by one if it is alone.  Returns
 * its bytes. */
static inline size_t expect_rest(struct fabric_channel *ch, struct tcp_input *in,
				 bool alone)
{
	const struct tcp_op *op;

	in->payloads = 0;
	in->seen = ch->head;
	in->n_rest = 1;
	in->iov[0] = (struct iovec){ ch->place, ch->left };
	if (ch->slices_left == 0 || alone)
		return ch->left;
	op = tcp_channel_op(ch, ch->head);
	in->n_rest = tcp_input_add_slices(in, 1, op, op->n_slices - ch->slices_left);
	return op->bytes;
}

/* Expect the payload that is being received and the answers behind it.  The large payloads of the
 * first `room` operations go to their places, as if all were done: tcp_places_rearrange(). */
static void channel_expect(struct fabric_channel *ch, struct tcp_input *in,
			   unsigned room)
{
	size_t from = tcp_channel_untaken(ch), to = 0;
	size_t placed = expect_rest(ch, in, room == 0), n = in->n_rest;
	uint64_t seq = ch->head + (ch->left > 0);

	struct tcp_op *op = tcp_channel_op(ch, seq);

	/* further slices of it come first */
	if (n <= ch->slices_left)
		seq = ch->next;
	for (; seq < ch->next && to < TCP_ANSWERS_BYTES;
	     seq++, op = tcp_op_after(ch, op)) {
		to += sizeof(struct stream_response);
		if (op->bytes <= TCP_SMALL_BYTES) {
			to += op->bytes;
			continue;
		}
		placed += op->bytes;
		if (to > TCP_ANSWERS_BYTES || seq - ch->head >= room ||
		    placed > PLACES_BYTES ||
		    /* also for the answers before it, and those behind */
		    n + op_n_places(op) + 2 > TCP_PLACES_MAX ||
		    ((seq > ch->head || !op->addr) && tcp_input_mixes(in, ch, seq, op)))
			break;
		in->iov[n++] = (struct iovec){ ch->buffer + from, to - from };
		n = input_add_op(in, n, op);
		from = to;
	}
	/* none is expected: detect a stray one, or the end */
	if (ch->left == 0 && to == 0)
		to = sizeof(struct stream_response);
	to = size_min(to, TCP_ANSWERS_BYTES);
	if (to > from)
		in->iov[n++] = (struct iovec){ ch->buffer + from, to - from };
	in->n = n;
}

/* As recvmsg(2).  What TLS receives at once is a record at most, and is put into its place by this
 * thread. */
static ssize_t channel_recv_tls(struct fabric_channel *ch, struct tcp_input *in)
{
	int err = 0;

	if (ch->left > TLS_RECORD_BYTES) {
		in->iov[0].iov_len = TLS_RECORD_BYTES;
		in->n = 1;
	}
	if (ch->left > 0)
		err = channel_try(ch, in->iov[0].iov_len);
	if (err) {
		errno = -err;
		return -1;
	}
	return tls_pipe_receive(ch->tls, in->iov, in->n);
}

/* All whole answers were handled: only a part of one header can be left. */
static void channel_move_up(struct fabric_channel *ch)
{
	size_t untaken = tcp_channel_untaken(ch);

	if (untaken > 0)
		memmove(ch->buffer, ch->answers, untaken);
	if (ch->row) {
		free(ch->row);
		ch->row = NULL;
	}
	ch->answers = ch->buffer;
	ch->answers_end = ch->buffer + untaken;
}

/* Receive answers, with the large payloads of up to `room` operations.  *ret_drained: the socket
 * had no more. */
static ssize_t channel_recv(struct fabric_channel *ch, struct tcp_input *in,
			    unsigned room, bool *ret_drained)
{
	size_t wanted = 0, empty = ch->left == 0;
	ssize_t n;

	channel_move_up(ch);
	channel_expect(ch, in, room);
	if (ch->tls)
		return channel_recv_tls(ch, in);
	for (size_t i = 0; i < in->n; i++)
		wanted += in->iov[i].iov_len;
	n = tcp_socket_receive(ch->fd, in->iov + empty, in->n - empty);
	/* TLS in the kernel stops at the end of a record */
	*ret_drained = n > 0 && (size_t)n < wanted && !ch->in_kernel;
	return n;
}

/* *behind more bytes were received than the slice in progress takes: some are of further slices.
 * Returns those of the last slice that has any; *behind: what is left. */
static __attribute__((noinline)) size_t channel_received_rest(struct fabric_channel *ch,
							      size_t part,
							      size_t *behind)
{
	size_t left = *behind;

	while (ch->slices_left > 0 && left > 0) {
		ch->left = 0;
		tcp_places_next(ch);
		part = size_min(left, ch->left);
		left -= part;
	}
	*behind = left;
	return part;
}

/* Account for n bytes received; returns the completions: 0 or 1. */
static unsigned channel_received(struct fabric_channel *ch, const struct tcp_input *in,
				 size_t n, struct fabric_wc *wc)
{
	size_t part = size_min(n, ch->left);

	if (ch->head == ch->next) {
		channel_die(ch, ch->head, -EPROTO,
			    "the server answered without a request");
		return 0;
	}
	ch->received_bytes += n;
	n -= part;
	if (in->n_rest > 1)
		part = channel_received_rest(ch, part, &n);
	for (size_t i = in->n_rest; n > 0; i++) {
		size_t bytes = size_min(n, in->iov[i].iov_len);

		if (in->payloads >> i & 1)
			ch->ahead += bytes;
		else
			ch->answers_end += bytes;
		n -= bytes;
	}
	return part > 0 ? channel_placed(ch, part, wc) : 0;
}

/* Bytes that TLS has taken from the socket: a record at most. */
static bool channel_has_unread(const struct fabric_channel *ch)
{
	return ch->tls && tls_pipe_unread(ch->tls);
}

/* What nobody waits for can wait for the next call. */
static bool channel_receives_more(const struct fabric_channel *ch, unsigned got,
				  size_t bytes)
{
	return (bytes < BUDGET_BYTES && (got == 0 || ch->head < ch->next)) ||
	       channel_has_unread(ch);
}

static unsigned channel_receive(struct fabric_channel *ch, struct fabric_wc *wcs,
				unsigned n)
{
	unsigned got = channel_parse(ch, wcs, n);
	/* TLS in the kernel ends a stream for memory that is not there */
	bool drained = false, alone = ch->tls || ch->in_kernel;
	struct tcp_input in;
	size_t bytes = 0;

	while (got < n && channel_receives_more(ch, got, bytes) && !drained &&
	       !channel_is_dead(ch)) {
		ssize_t part = channel_recv(ch, &in, alone ? 0 : n - got, &drained);

		if (part < 0 && errno == EINTR)
			continue;
		/* one payload at a time, to find the one at fault */
		if (part < 0 && errno == EFAULT && !alone) {
			alone = true;
			continue;
		}
		if (part < 0 && errno == EAGAIN)
			break;
		/* a failed send has taken the socket's error, which tells more */
		if (part == 0 && ch->send_err)
			break;
		if (part <= 0) {
			channel_fail(ch, ch->head, part < 0 ? errno : ECONNRESET);
			break;
		}
		bytes += (size_t)part;
		got += channel_received(ch, &in, (size_t)part, &wcs[got]);
		got += channel_parse(ch, wcs + got, n - got);
	}
	return got;
}

/* The server may have sent large responses in parts of half a record. */
static bool channel_wears_out(const struct fabric_channel *ch)
{
	return !ch->worn && (ch->records_sent >= ch->records_max ||
			     ch->head + ch->received_bytes / (TLS_RECORD_BYTES / 2) >=
				     ch->records_max);
}

static RARE unsigned channel_report_worn(struct fabric_channel *ch,
					 struct fabric_wc *wc)
{
	ch->worn = true;
	*wc = (struct fabric_wc){ .owner = ch->owner, .status = -ESTALE };
	return 1;
}

unsigned tcp_channel_progress(struct fabric_channel *ch, struct fabric_wc *wcs,
			      unsigned n)
{
	unsigned got = 0;

	if (atomic_load(&ch->aborted) || !tcp_channel_has_socket(ch)) {
		channel_die_errno(ch, ECONNRESET);
		return channel_flush(ch, wcs, n);
	}
	if (!ch->send_err)
		ch->send_err = channel_send(ch);
	/* responses received before the stream broke count */
	got = channel_receive(ch, wcs, n);
	if (ch->send_err && got < n && !channel_is_dead(ch))
		channel_fail(ch, ch->next, ch->send_err);
	if (!channel_is_dead(ch)) {
		if (got < n && channel_wears_out(ch))
			got += channel_report_worn(ch, &wcs[got]);
		channel_want(ch);
		if ((channel_has_response(ch) || channel_has_unread(ch)) &&
		    list_empty(&ch->ready))
			list_append(&ch->cq->ready, &ch->ready);
		return got;
	}
	return got + tcp_channel_report(ch, wcs + got, n - got);
}

unsigned tcp_channel_report(struct fabric_channel *ch, struct fabric_wc *wcs,
			    unsigned n)
{
	unsigned got = 0;

	if (!channel_is_dead(ch))
		got = channel_parse(ch, wcs, n);
	if (!channel_is_dead(ch) && channel_has_unread(ch))
		got += channel_receive(ch, wcs + got, n - got);
	if (channel_is_dead(ch)) {
		got += channel_flush(ch, wcs + got, n - got);
		if (ch->head == ch->tail)
			list_remove(&ch->ready);
	} else if (!channel_has_response(ch) && !channel_has_unread(ch)) {
		list_remove(&ch->ready);
	}
	return got;
}
