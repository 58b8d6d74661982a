/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/session/connection.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/own_fd.h"
#include "wire/codec.h"
#include "wire/errors.h"
#include "wire/requests.h"

#define TEXT_BYTES 256
/* Limit of a request's bytes: the longest request has two names. */
#define REQUEST_MAX 1024
/* First size of the receive buffer, and the size up to which it grows while replies fill it.  A
 * program may have a thousand sessions: only one that lists leases needs room for the longest
 * frame. */
#define IN_FIRST 512
#define IN_FULL 16384
/* Limit of bytes sent at a time: it is on the stack of the program's threads. */
#define OUT_BYTES 4096
#define LOOK_MS 10u

struct connection_call {
	struct list node;
	struct connection *connection;
	uint64_t id;      /* 0: in `held` */
	uint64_t sent_ns; /* when the first byte was sent */
	enum wire_type type;
	connection_done *done;
	void *ctx;
	bool asked; /* sent completely, perhaps on an earlier socket */
	bool begun; /* on this socket; TLS may have taken bytes that it could not send */
	size_t sent; /* bytes sent on this socket */
	size_t bytes;
	uint8_t frame[];
};

struct connection {
	int epfd;
	struct stream stream; /* closed: there is no socket */
	ino_t inode;          /* of the socket */
	/* admits channels, from the answer to the hello until the socket is closed */
	uint8_t secret[WIRE_SECRET_BYTES];
	const struct connection_events *events;
	void *ctx;
	bool ready;        /* the hello was answered */
	bool taken;        /* by connection_take_over() */
	bool gathers;      /* see connection_gather() */
	uint32_t interest; /* events that the epoll set reports */
	uint64_t look_ns;  /* when to look again whether the socket is its own */
	int broken;        /* errno of a failed send, for connection_io() */
	int ended;         /* error of new calls; 0: accepted */
	char ended_text[TEXT_BYTES];
	uint64_t next_id;
	struct list calls;     /* in the order of their ids */
	struct list held;      /* not sent yet, and without an id */
	unsigned n_calls;      /* of both, with one whose callback runs */
	unsigned n_unreplied;  /* those of them that have an id */
	unsigned requests_max; /* limit of these, as the server says */
	size_t in_bytes, in_room;
	uint8_t *in; /* received, and not a whole frame yet */
};

int connection_create(int epfd, const struct connection_events *events, void *ctx,
		      struct connection **ret_control)
{
	struct connection *connection = calloc(1, sizeof(*connection));

	if (connection)
		connection->in = malloc(IN_FIRST);
	if (!connection || !connection->in) {
		free(connection);
		return err_set(-ENOMEM, "no memory for the control connection");
	}
	connection->in_room = IN_FIRST;
	connection->epfd = epfd;
	connection->stream.fd = -1;
	connection->events = events;
	connection->ctx = ctx;
	connection->next_id = 1;
	list_init(&connection->calls);
	list_init(&connection->held);
	*ret_control = connection;
	return 0;
}

static bool has_socket(const struct connection *connection)
{
	return own_fd_is(connection->stream.fd, connection->inode);
}

bool connection_has_fd(const struct connection *connection)
{
	return connection->stream.fd < 0 || has_socket(connection);
}

/* The program may have closed the socket, and opened another file with its number.  A look counts
 * for a while: less would be felt by calls. */
static int socket_check(struct connection *connection)
{
	uint64_t now_ns = clock_coarse_ns();

	if (connection->stream.fd < 0 || now_ns < connection->look_ns)
		return 0;
	if (!has_socket(connection))
		return err_set(-EBADF, "the program has closed the control connection");
	connection->look_ns = now_ns + LOOK_MS * NS_PER_MS;
	return 0;
}

static void socket_close(struct connection *connection)
{
	if (!has_socket(connection))
		connection->stream.fd = -1;
	/* closing removes the socket from the epoll set, as it is never duplicated */
	stream_close(&connection->stream);
	explicit_bzero(connection->secret, sizeof(connection->secret));
	connection->ready = false;
	connection->taken = false;
	connection->broken = 0;
	connection->in_bytes = 0;
}

static void call_free(struct connection_call *call)
{
	list_remove(&call->node);
	call->connection->n_calls--;
	call->connection->n_unreplied -= call->id > 0;
	assert(call->connection->n_unreplied <= call->connection->n_calls);
	free(call);
}

/* End a call, which is on no list. */
static int call_finish(struct connection_call *call, int err,
		       const struct wire_msg *reply)
{
	int result = call->done ? call->done(call->ctx, err, reply) : 0;

	call_free(call);
	return result;
}

/* Move the calls, `all` or those that end with their socket, to the list `failed`. */
static void calls_take(struct list *calls, bool all, struct list *failed)
{
	list_for_each_entry_safe(struct connection_call, call, calls, node)
		if (all || call->type == WIRE_TYPE_hello || call->type == WIRE_TYPE_bye)
			list_move(failed, &call->node);
}

/* Remove the calls from their lists, then end them: a callback may add new calls. */
static void calls_fail(struct connection *connection, int err, const char *text,
		       bool all)
{
	struct list failed = LIST_INIT(failed);

	calls_take(&connection->calls, all, &failed);
	calls_take(&connection->held, all, &failed);
	list_for_each_entry_safe(struct connection_call, call, &failed, node) {
		list_remove(&call->node);
		(void)err_set(err, "%s", text);
		(void)call_finish(call, err, NULL);
	}
}

void connection_end(struct connection *connection, int err, const char *text)
{
	socket_close(connection);
	connection->ended = err;
	(void)snprintf(connection->ended_text, sizeof(connection->ended_text), "%s",
		       text);
	calls_fail(connection, err, connection->ended_text, true);
}

void connection_free(struct connection *connection)
{
	if (!connection)
		return;
	connection_end(connection, -ECONNRESET, "the session is closed");
	free(connection->in);
	free(connection);
}

void connection_leave(struct connection *connection)
{
	socket_close(connection);
}

int connection_adopt(struct connection *connection, int fd, struct tls_context *tls)
{
	struct epoll_event event = { .events = EPOLLIN };
	int err = 0;

	socket_close(connection);
	connection->inode = own_fd_inode(fd);
	if (tls)
		err = stream_tls(&connection->stream, fd, tls);
	else
		stream_plain(&connection->stream, fd);
	/* if the hello cannot be sent at once, writability tells that the socket is connected */
	if (!err && epoll_ctl(connection->epfd, EPOLL_CTL_ADD, fd, &event) < 0)
		err = err_errno(-errno, "watching the control connection");
	if (err)
		stream_close(&connection->stream);
	connection->interest = event.events;
	return err;
}

int connection_local(const struct connection *connection,
		     struct sockaddr_storage *ret_local)
{
	struct sockaddr_storage local = { 0 };
	socklen_t bytes = sizeof(local);

	if (connection->stream.fd < 0)
		return -ENOTCONN;
	if (getsockname(connection->stream.fd, (struct sockaddr *)&local, &bytes))
		return -errno;
	*ret_local = local;
	return 0;
}

bool connection_is_secure(const struct connection *connection)
{
	return connection->stream.ssl && connection->stream.handshaken;
}

/* Ask for writability only while there is something to write.  A hang-up is always reported: of a
 * socket that is taken over only once. */
static int interest_set(struct connection *connection, bool want_out)
{
	struct epoll_event event = { .events = (connection->taken ? EPOLLET : EPOLLIN) |
					       (want_out ? EPOLLOUT : 0u) };

	if (event.events == connection->interest)
		return 0;
	if (epoll_ctl(connection->epfd, EPOLL_CTL_MOD, connection->stream.fd, &event) <
	    0)
		return err_errno(-errno, "watching the control connection");
	connection->interest = event.events;
	return 0;
}

/* Save the error: a socket reports its error only to the first call. */
static int broken_error(struct connection *connection, int err)
{
	connection->broken = err;
	return err_errno(err, connection->ready ? "the control connection broke"
						: "connecting");
}

/* Whether a call with an id is not sent completely, and may be now. */
static bool call_is_due(const struct connection *connection,
			const struct connection_call *call)
{
	return call->sent < call->bytes &&
	       (connection->ready || call->type == WIRE_TYPE_hello);
}

/* Frames that are sent together: the first call in `calls` that is not sent completely, and those
 * behind it.  If the socket was full, TLS has to be given the same bytes again, and is: calls stay
 * in their order once they have begun. */
struct batch {
	size_t bytes;
	uint8_t out[OUT_BYTES];
};

static void batch_fill(struct batch *batch, struct connection *connection)
{
	uint64_t now_ns = clock_now_ns();

	batch->bytes = 0;
	list_for_each_entry(struct connection_call, call, &connection->calls, node) {
		size_t left = call->bytes - call->sent;

		if (!call_is_due(connection, call))
			continue;
		if (left > OUT_BYTES - batch->bytes)
			break;
		if (call->sent == 0)
			call->sent_ns = now_ns;
		memcpy(batch->out + batch->bytes, call->frame + call->sent, left);
		batch->bytes += left;
		call->begun = true;
	}
}

/* So many bytes of the batch are sent. */
static void batch_sent(struct connection *connection, size_t bytes)
{
	list_for_each_entry(struct connection_call, call, &connection->calls, node) {
		size_t left = call->bytes - call->sent;

		if (bytes == 0)
			return;
		if (!call_is_due(connection, call))
			continue;
		if (left > bytes)
			left = bytes;
		call->sent += left;
		call->asked = call->sent == call->bytes;
		bytes -= left;
	}
}

/* The server answers heartbeats and the end of the session at once, whatever else it has. */
static bool call_is_urgent(const struct connection_call *call)
{
	return call->type == WIRE_TYPE_hello || call->type == WIRE_TYPE_ping ||
	       call->type == WIRE_TYPE_bye;
}

static bool call_may_go(const struct connection *connection,
			const struct connection_call *call)
{
	if (!connection->ready || call->type == WIRE_TYPE_hello)
		return call->type == WIRE_TYPE_hello;
	return connection->n_unreplied < connection->requests_max ||
	       call_is_urgent(call);
}

/* The call is the last that was sent: ids rise on the wire. */
static void call_number(struct connection *connection, struct connection_call *call)
{
	call->id = connection->next_id++;
	wire_frame_number(call->frame, call->id);
	connection->n_unreplied++;
	list_move(&connection->calls, &call->node);
}

/* Give ids to those that may go.  Those that go before others are in front. */
static void held_release(struct connection *connection)
{
	struct connection_call *call;

	while ((call = list_first(&connection->held, struct connection_call, node)) &&
	       call_may_go(connection, call))
		call_number(connection, call);
}

/* 0: all sent, 1: the socket is full, or -errno. */
static int batches_send(struct connection *connection)
{
	struct batch batch;

	for (;;) {
		ssize_t n;

		batch_fill(&batch, connection);
		if (batch.bytes == 0)
			return 0;
		n = stream_send(&connection->stream, batch.out, batch.bytes);
		if (n == -EAGAIN)
			return 1;
		if (n < 0)
			return broken_error(connection, (int)n);
		batch_sent(connection, (size_t)n);
	}
}

static int calls_send(struct connection *connection)
{
	int err = socket_check(connection);

	if (err)
		return err;
	/* connection_io() begins the handshake when the socket is writable */
	if (!connection->stream.handshaken)
		return interest_set(connection, true);
	held_release(connection);
	err = batches_send(connection);
	if (err < 0)
		return err;
	return interest_set(connection, err == 1);
}

static int call_create(struct connection *connection, const struct wire_msg *request,
		       connection_done *done, void *ctx,
		       struct connection_call **ret_call)
{
	uint8_t frame[REQUEST_MAX];
	int n = wire_encode(request, frame, sizeof(frame));
	struct connection_call *call;

	if (n < 0)
		return err_set(n, "a request %s does not fit the protocol",
			       wire_type_name(request->type));
	call = calloc(1, sizeof(*call) + (size_t)n);
	if (!call)
		return err_set(-ENOMEM, "no memory for a request");
	memcpy(call->frame, frame, (size_t)n);
	call->connection = connection;
	connection->n_calls++;
	call->type = request->type;
	call->done = done;
	call->ctx = ctx;
	call->bytes = (size_t)n;
	if (call_is_urgent(call))
		list_append(connection->held.next, &call->node);
	else
		list_append(&connection->held, &call->node);
	*ret_call = call;
	return 0;
}

void connection_ready(struct connection *connection, unsigned requests_max,
		      const uint8_t secret[WIRE_SECRET_BYTES])
{
	memcpy(connection->secret, secret, sizeof(connection->secret));
	connection->ready = true;
	connection->requests_max = requests_max;
	(void)calls_send(connection);
}

const uint8_t *connection_secret(const struct connection *connection)
{
	return connection->secret;
}

int connection_call(struct connection *connection, const struct wire_msg *request,
		    connection_done *done, void *ctx, struct connection_call **ret_call)
{
	struct connection_call *call;
	int err;

	if (connection->ended)
		return err_set(connection->ended, "%s", connection->ended_text);
	/* without a hello the session could not resume */
	if (connection->n_calls >= CONNECTION_CALLS_MAX &&
	    request->type != WIRE_TYPE_hello)
		return err_set(-ETIMEDOUT,
			       "the server has left %u requests unanswered: nothing "
			       "more is asked of it before it answers",
			       connection->n_calls);
	err = call_create(connection, request, done, ctx, &call);
	if (err)
		return err;
	if (ret_call)
		*ret_call = call;
	/* connection_io() returns an error of sending */
	if (!connection->gathers &&
	    (connection->ready || request->type == WIRE_TYPE_hello))
		(void)calls_send(connection);
	return 0;
}

void connection_gather(struct connection *connection)
{
	connection->gathers = true;
}

void connection_flush(struct connection *connection)
{
	connection->gathers = false;
	if (connection->ready)
		(void)calls_send(connection);
}

bool connection_abandon(struct connection_call *call, connection_done *done, void *ctx)
{
	/* a frame that was not sent completely has no effect; a channel request ends with its
	 * socket */
	if (!call->begun && (!call->asked || call->type == WIRE_TYPE_open_channel)) {
		call_free(call);
		return false;
	}
	call->done = done;
	call->ctx = ctx;
	return true;
}

static struct connection_call *call_find(struct connection *connection, uint64_t id)
{
	list_for_each_entry(struct connection_call, call, &connection->calls, node) {
		if (call->id == id && call->sent == call->bytes)
			return call;
	}
	return NULL;
}

/* Set the error of a server's reply. */
static int error_parse(const struct wire_error *error)
{
	int err = wire_code_errno(error->code);

	if (error->text[0] == '\0')
		return err_set(err, "the server refuses, with error %" PRIu32,
			       error->code);
	return err_set(err, "%s", error->text);
}

/* Whether the message can be the reply to the call; err_text() says why not. */
static int reply_check(const struct connection_call *call, const struct wire_msg *reply)
{
	if (reply->type != WIRE_TYPE_error &&
	    reply->type != wire_reply_type(call->type))
		return err_set(-EPROTO, "the server answers %s with %s",
			       wire_type_name(call->type), wire_type_name(reply->type));
	return 0;
}

/* A reply that nobody can read fails its request: asked again, the server would answer as
 * before. */
static int reply_process(struct connection *connection, const uint8_t *frame,
			 size_t bytes)
{
	uint64_t id = wire_frame_id(frame, bytes);
	struct connection_call *call = call_find(connection, id);
	struct wire_msg reply;
	int err;

	if (!call)
		return err_set(-EPROTO,
			       "the server answers request %" PRIu64
			       ", which was not asked",
			       id);
	err = wire_decode(frame, bytes, &reply);
	if (!err)
		err = reply_check(call, &reply);
	/* without a welcome there is no connection to go on with */
	if (err && call->type == WIRE_TYPE_hello)
		return err;
	list_remove(&call->node);
	if (err)
		return call_finish(call, err, NULL);
	connection->events->answered(connection->ctx, call->sent_ns);
	if (reply.type == WIRE_TYPE_error)
		err = error_parse(&reply.error);
	return call_finish(call, err, err ? NULL : &reply);
}

static int event_process(struct connection *connection, const uint8_t *frame,
			 size_t bytes)
{
	struct wire_msg event;
	int err;

	/* a newer server may send events that this library does not know */
	if (!wire_type_name(wire_frame_type(frame)))
		return 0;
	err = wire_decode(frame, bytes, &event);
	return err ? err : connection->events->event(connection->ctx, &event);
}

static int frame_process(struct connection *connection, const uint8_t *frame,
			 size_t bytes)
{
	unsigned type = wire_frame_type(frame);

	if (type < WIRE_TYPE_error)
		return err_set(-EPROTO, "the server sends a request, of type 0x%x",
			       type);
	return type < WIRE_TYPE_revoked ? reply_process(connection, frame, bytes)
					: event_process(connection, frame, bytes);
}

/* Make room for a frame of `bytes`. */
static int in_grow(struct connection *connection, size_t bytes)
{
	uint8_t *in;

	if (bytes <= connection->in_room)
		return 0;
	in = realloc(connection->in, bytes);
	if (!in)
		return err_set(-ENOMEM, "no memory for a message of %zu bytes", bytes);
	connection->in = in;
	connection->in_room = bytes;
	return 0;
}

static int frames_process(struct connection *connection)
{
	size_t done = 0;
	int bytes, err;

	for (;;) {
		const uint8_t *frame = connection->in + done;
		size_t left = connection->in_bytes - done;

		bytes = wire_frame_bytes(frame, left);
		if (bytes < 0)
			return err_set(bytes, "%s; is this the port of an rmemd?",
				       err_text());
		if (bytes == 0 || (size_t)bytes > left)
			break;
		err = frame_process(connection, frame, (size_t)bytes);
		if (err)
			return err;
		/* the callback has kept the socket, see connection_done: closing empties `in` */
		assert(connection->in_bytes == done + left);
		done += (size_t)bytes;
	}
	connection->in_bytes -= done;
	memmove(connection->in, connection->in + done, connection->in_bytes);
	return in_grow(connection, (size_t)bytes);
}

static int receive_once(struct connection *connection)
{
	ssize_t n = stream_receive(&connection->stream,
				   connection->in + connection->in_bytes,
				   connection->in_room - connection->in_bytes);
	bool full;
	int err;

	if (n == 0)
		return err_set(-ECONNRESET, "the server closed the connection");
	if (n == -EAGAIN)
		return 0;
	if (n < 0)
		return err_prefix((int)n, connection->ready
						  ? "the control connection broke"
						  : "connecting");
	connection->in_bytes += (size_t)n;
	full = connection->in_bytes == connection->in_room;
	err = frames_process(connection);
	/* without the memory there are more calls of the system */
	if (!err && full && connection->in_room < IN_FULL)
		(void)in_grow(connection, connection->in_room * 2);
	return err;
}

/* Receive once, as other work, such as heartbeats, comes first; epoll reports further bytes, but
 * not those that TLS has taken from the socket. */
static int receive(struct connection *connection)
{
	int err;

	do
		err = receive_once(connection);
	while (!err && stream_pending(&connection->stream));
	return err;
}

int connection_io(struct connection *connection)
{
	int err;

	if (connection->stream.fd < 0)
		return 0;
	if (connection->broken)
		return broken_error(connection, connection->broken);
	err = socket_check(connection);
	if (err)
		return err;
	err = stream_handshake(&connection->stream);
	if (err == -EAGAIN)
		return interest_set(connection, connection->stream.wants_out);
	if (err)
		return err;
	err = connection->taken ? 0 : receive(connection);
	return err ? err : calls_send(connection);
}

int connection_take_over(struct connection *connection)
{
	if (connection->stream.fd < 0 || !connection->stream.handshaken ||
	    connection->taken || connection->interest != EPOLLIN)
		return -1;
	connection->taken = true;
	if (interest_set(connection, false)) {
		connection->taken = false;
		return -1;
	}
	return connection->stream.fd;
}

void connection_take_back(struct connection *connection)
{
	/* interest_set() follows, and finds that nothing is left to receive */
	connection->taken = false;
}

void connection_drop(struct connection *connection)
{
	socket_close(connection);
	list_for_each_entry(struct connection_call, call, &connection->calls, node) {
		call->sent = 0;
		call->begun = false;
	}
	calls_fail(connection, -ECONNRESET,
		   "the connection was lost before the server answered", false);
}
