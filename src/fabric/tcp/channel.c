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
#include "fabric/tcp/socket.h"
#include "tls/records.h"

#define PIECES_MAX 256                   /* sent by one call */
#define BUDGET_BYTES (UINT32_C(2) << 20) /* received in one turn of a channel */
/* Payloads up to this size are copied from among the responses, many after one system call; larger
 * ones are received into their place. */
#define SMALL_BYTES 2048u
/* Operations whose large payloads are received by one call, and their bytes. */
#define PLACES_MAX 16u
#define PLACES_BYTES (UINT32_C(512) << 10)

int tcp_domain_supports(const struct fabric_domain *domain,
			enum fabric_capability capability)
{
	bool able = capability == FABRIC_CAN_ATOMICS ? domain->atomics : domain->inband;

	if (able)
		return 0;
	return err_set(-ENOTSUP, "the server has no %s over tcp",
		       capability == FABRIC_CAN_ATOMICS ? "atomics"
							: "in-band requests");
}

static struct tcp_op *channel_op(struct fabric_channel *ch, uint64_t seq)
{
	return &ch->ops[seq % ch->depth];
}

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
	ch->left = 0;
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

static void channel_want(struct fabric_channel *ch)
{
	struct epoll_event event = { .data.ptr = ch };

	event.events = EPOLLIN | (channel_has_output(ch) ? (uint32_t)EPOLLOUT : 0);
	if (event.events == ch->interest)
		return;
	ch->interest = event.events;
	/* changing what is registered takes no memory: cannot fail */
	(void)epoll_ctl(ch->cq->epoll_fd, EPOLL_CTL_MOD, ch->fd, &event);
}

/* ---- sending ---- */

/* Fill iov with unsent parts, up to max; returns their number.  *ret_foreign: of writes too, which
 * are the program's memory. */
static size_t channel_gather(struct fabric_channel *ch, struct iovec iov[PIECES_MAX],
			     size_t max, bool *ret_foreign)
{
	struct stream_parts parts = { iov, 0, ch->sent };

	for (uint64_t seq = ch->next; seq < ch->tail && parts.n + 2 <= max; seq++) {
		struct tcp_op *op = channel_op(ch, seq);

		stream_parts_add(&parts, &op->request, sizeof(op->request));
		stream_parts_add(&parts, op->payload, op->payload_bytes);
		*ret_foreign |= op->opcode == FABRIC_WRITE;
	}
	return parts.n;
}

static void channel_sent(struct fabric_channel *ch, size_t bytes)
{
	ch->sent += bytes;
	while (ch->next < ch->tail) {
		const struct tcp_op *op = channel_op(ch, ch->next);
		size_t whole = sizeof(op->request) + op->payload_bytes;

		if (ch->sent < whole)
			break;
		ch->sent -= whole;
		ch->next++;
	}
}

static ssize_t channel_send_some(struct fabric_channel *ch, size_t max)
{
	struct iovec iov[PIECES_MAX];
	bool foreign = false;
	size_t places = channel_gather(ch, iov, max, &foreign);

	if (!ch->tls)
		return tcp_socket_send(ch->fd, iov, places);
	return foreign ? tls_pipe_send_foreign(ch->tls, iov, places)
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

_Static_assert((int)STREAM_READ == FABRIC_READ && (int)STREAM_WRITE == FABRIC_WRITE &&
		       (int)STREAM_CAS == FABRIC_CAS &&
		       (int)STREAM_FETCH_ADD == FABRIC_FETCH_ADD,
	       "opcodes are those of the stream");

/* `bytes`: of the request; a write sends them, a read receives them. */
static void op_set(struct tcp_op *op, const struct fabric_batch *batch,
		   const struct fabric_op *part, uint32_t bytes, uint64_t seq)
{
	bool write = batch->opcode == FABRIC_WRITE;

	op->request = (struct stream_request){
		.op = htole16((uint16_t)batch->opcode),
		.bytes = htole32(bytes),
		.rkey = htole64(batch->rkey),
		.addr = htole64(batch->remote_addr + part->offset),
		.cookie = htole64(seq),
	};
	op->payload = part->addr;
	op->payload_bytes = write ? bytes : 0;
	op->addr = part->addr;
	op->bytes = write ? 0 : bytes;
	op->opcode = batch->opcode;
}

static bool op_is_atomic(const struct tcp_op *op)
{
	return op->opcode == FABRIC_CAS || op->opcode == FABRIC_FETCH_ADD;
}

unsigned tcp_channel_prepare(struct fabric_channel *ch,
			     const struct fabric_batch *batch,
			     const struct fabric_op *parts, size_t stride, unsigned n)
{
	unsigned room = ch->depth - (unsigned)(ch->put - ch->head);
	const char *part = (const char *)parts;

	if (n > room)
		n = room;
	for (unsigned i = 0; i < n; i++, part += stride, ch->put++)
		op_set(channel_op(ch, ch->put), batch, (const struct fabric_op *)part,
		       (uint32_t)((const struct fabric_op *)part)->bytes, ch->put);
	return n;
}

int tcp_channel_prepare_atomic(struct fabric_channel *ch,
			       const struct fabric_batch *batch,
			       const struct fabric_op *part,
			       const struct fabric_atomic *atomic)
{
	struct tcp_op *op = channel_op(ch, ch->put);
	int err = tcp_domain_supports(ch->cq->domain, FABRIC_CAN_ATOMICS);

	if (err)
		return err;
	if ((batch->remote_addr + part->offset) % FABRIC_ATOMIC_BYTES)
		return err_set(-EINVAL,
			       "an atomic at %#" PRIx64 ", not a multiple of %d",
			       batch->remote_addr + part->offset, FABRIC_ATOMIC_BYTES);
	if (ch->put - ch->head == ch->depth)
		return 0;
	op_set(op, batch, part, sizeof(op->atomic), ch->put++);
	op->atomic.compare = htole64(atomic->compare);
	op->atomic.operand = htole64(atomic->operand);
	op->payload = (char *)&op->atomic;
	op->payload_bytes = sizeof(op->atomic);
	op->bytes = FABRIC_ATOMIC_BYTES;
	return 1;
}

int tcp_channel_prepare_inband(struct fabric_channel *ch,
			       const struct fabric_batch *batch,
			       const struct fabric_op *part,
			       const struct fabric_inband_request *request)
{
	struct tcp_op *op = channel_op(ch, ch->put);
	struct inband_request made;
	int err = tcp_domain_supports(ch->cq->domain, FABRIC_CAN_INBAND);

	if (err)
		return err;
	if (ch->put - ch->head == ch->depth)
		return 0;
	made = inband_request_make(batch->opcode, (uint32_t)part->bytes, request);
	op_set(op, batch, part, (uint32_t)part->bytes, ch->put++);
	op->operands = made.operands;
	op->payload = (char *)&op->operands;
	op->payload_bytes = sizeof(op->operands);
	op->addr = (char *)&op->result;
	op->bytes = sizeof(op->result);
	op->crc = batch->opcode == FABRIC_CRC ? part->addr : NULL;
	return 1;
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

/* The payload of the response is complete. */
static void op_place(const struct tcp_op *op)
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
static unsigned channel_placed(struct fabric_channel *ch, size_t n,
			       struct fabric_wc *wc)
{
	ch->place += n;
	ch->left -= (uint32_t)n;
	if (ch->left > 0)
		return 0;
	op_place(channel_op(ch, ch->head));
	channel_complete(ch, wc, 0, NULL);
	return 1;
}

static size_t size_min(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t channel_untaken(const struct fabric_channel *ch)
{
	return (size_t)(ch->answers_end - ch->answers);
}

/* Whether there is something for channel_parse(). */
static bool channel_has_response(const struct fabric_channel *ch)
{
	return channel_untaken(ch) >=
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
	size_t n = size_min(channel_untaken(ch), ch->left);
	int err = channel_try(ch, n);

	if (err) {
		channel_fail(ch, ch->head, -err);
		return 0;
	}
	memcpy(ch->place, ch->answers, n);
	ch->answers += n;
	return channel_placed(ch, n, wc);
}

/* The first bytes of a large payload may be in their place already. */
static void channel_skip_ahead(struct fabric_channel *ch)
{
	size_t n = size_min(ch->left, ch->ahead);

	ch->ahead -= n;
	ch->place += n;
	ch->left -= (uint32_t)n;
}

/* The answer to the operation at the head has no payload, so all behind it went to wrong places:
 * put it in a row, as it was sent.  -ENOMEM */
static RARE int channel_rearrange(struct fabric_channel *ch)
{
	size_t bytes = channel_untaken(ch) + ch->ahead;
	char *row = malloc(bytes), *end = row;

	if (!row)
		return -ENOMEM;
	for (uint64_t seq = ch->head; end < row + bytes; seq++) {
		const struct tcp_op *op = channel_op(ch, seq);
		bool small = op->bytes <= SMALL_BYTES;
		size_t answer = (seq > ch->head ? sizeof(struct stream_response) : 0) +
				(small ? op->bytes : 0);
		size_t n = size_min(answer, channel_untaken(ch));

		end = mempcpy(end, ch->answers, n);
		ch->answers += n;
		n = small ? 0 : size_min(op->bytes, ch->ahead);
		end = mempcpy(end, op->addr, n);
		ch->ahead -= n;
	}
	ch->row = ch->answers = row;
	ch->answers_end = end;
	return 0;
}

/* Handle the next response; returns the completions: 0 or 1. */
static unsigned channel_take_response(struct fabric_channel *ch, struct fabric_wc *wc)
{
	const struct tcp_op *op = channel_op(ch, ch->head);
	struct stream_response response;

	memcpy(&response, ch->answers, sizeof(response));
	if (ch->head >= ch->next || !response_makes_sense(&response, op)) {
		channel_die(ch, ch->head, -EPROTO,
			    "the server's response is malformed");
		return 0;
	}
	ch->answers += sizeof(response);
	if (le32toh(response.status) != FABRIC_DONE) {
		if (ch->ahead > 0 && channel_rearrange(ch))
			channel_die_errno(ch, ENOMEM);
		channel_complete(ch, wc, -EACCES, "refused by the server");
		return 1;
	}
	ch->place = ch->tried = op->addr;
	ch->left = op->bytes;
	if (op->bytes > SMALL_BYTES)
		channel_skip_ahead(ch);
	else
		ch->tried += op->bytes;
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

/* Where the next bytes of the stream go.  Payloads have even numbers, the first is the rest of the
 * one that is being received; odd ones are the answers between them, which go to the buffer. */
struct tcp_input {
	struct iovec iov[2 * PLACES_MAX + 2];
	size_t n;
};

static void input_add(struct tcp_input *in, char *base, size_t bytes)
{
	in->iov[in->n++] = (struct iovec){ base, bytes };
}

/* Whether an operation before `seq` has some of its memory, which would not keep what has to be
 * rearranged. */
static bool channel_overlaps(struct fabric_channel *ch, uint64_t seq)
{
	const struct tcp_op *op = channel_op(ch, seq),
			    *other = channel_op(ch, ch->head);
	uintptr_t start = (uintptr_t)op->addr, end = start + op->bytes;

	for (uint64_t n = seq - ch->head; n > 0; n--) {
		uintptr_t place = (uintptr_t)other->addr;

		if (start < place + other->bytes && place < end)
			return true;
		if (++other == ch->ops + ch->depth)
			other = ch->ops;
	}
	return false;
}

/* Expect the payload that is being received and the answers behind it.  The large payloads of the
 * first `room` operations go to their places, as if all were done: channel_rearrange(). */
static void channel_expect(struct fabric_channel *ch, struct tcp_input *in,
			   unsigned room)
{
	size_t from = channel_untaken(ch), to = 0, placed = ch->left;

	room = room < PLACES_MAX ? room : PLACES_MAX;
	in->n = 0;
	input_add(in, ch->place, ch->left);
	for (uint64_t seq = ch->head + (ch->left > 0);
	     seq < ch->next && to < TCP_ANSWERS_BYTES; seq++) {
		const struct tcp_op *op = channel_op(ch, seq);

		to += sizeof(struct stream_response);
		if (op->bytes <= SMALL_BYTES) {
			to += op->bytes;
			continue;
		}
		placed += op->bytes;
		if (to > TCP_ANSWERS_BYTES || seq - ch->head >= room ||
		    placed > PLACES_BYTES || channel_overlaps(ch, seq))
			break;
		input_add(in, ch->buffer + from, to - from);
		input_add(in, op->addr, op->bytes);
		from = to;
	}
	/* none is expected: detect a stray one, or the end */
	if (ch->left == 0 && to == 0)
		to = sizeof(struct stream_response);
	to = size_min(to, TCP_ANSWERS_BYTES);
	if (to > from)
		input_add(in, ch->buffer + from, to - from);
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
	size_t untaken = channel_untaken(ch);

	memmove(ch->buffer, ch->answers, untaken);
	free(ch->row);
	ch->row = NULL;
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
	for (size_t i = 1; n > 0; i++) {
		size_t bytes = size_min(n, in->iov[i].iov_len);

		if (i % 2)
			ch->answers_end += bytes;
		else
			ch->ahead += bytes;
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
