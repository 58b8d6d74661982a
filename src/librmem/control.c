/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/control.h"

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
#include "wire/codec.h"

/* How much is taken from the socket before others, and heartbeats, get their turn. */
#define READS_MAX 4
#define TEXT_BYTES 256
/* Linux has no more. */
#define ERROR_CODE_MAX 4095
/* No request is longer: the longest has two names. */
#define REQUEST_MAX 1024
/* Frames are short, but for those that list something: then the buffer grows. */
#define IN_FIRST 512

struct control_call {
	struct list node;
	uint64_t id;
	uint64_t sent_ns; /* when its first byte went out */
	enum wire_type type;
	control_done *done;
	void *ctx;
	bool asked;  /* it went out whole, perhaps on an earlier connection */
	size_t sent; /* of `bytes`, on this connection */
	size_t bytes;
	uint8_t frame[];
};

struct control {
	int epfd;
	int fd; /* -1: none */
	const struct control_events *events;
	void *ctx;
	bool ready;    /* the hello is answered */
	bool want_out; /* the socket's buffer is full */
	int broken;    /* sending failed: control_io() tells */
	int ended;     /* what new calls get, 0: they are taken */
	char ended_text[TEXT_BYTES];
	uint64_t next_id;
	struct list calls; /* in the order of their ids */
	size_t in_bytes, in_room;
	uint8_t *in;
};

/* The reply that answers a request, beside error. */
static enum wire_type reply_type(enum wire_type request)
{
	switch (request) {
	case WIRE_TYPE_hello:
		return WIRE_TYPE_welcome;
	case WIRE_TYPE_open_channel:
		return WIRE_TYPE_channel;
	case WIRE_TYPE_allocate:
	case WIRE_TYPE_attach:
	case WIRE_TYPE_resize:
		return WIRE_TYPE_lease;
	case WIRE_TYPE_stat:
	case WIRE_TYPE_list:
		return WIRE_TYPE_entries;
	case WIRE_TYPE_join_channel:
		return WIRE_TYPE_joined;
	case WIRE_TYPE_fix_home:
		return WIRE_TYPE_home;
	default:
		return WIRE_TYPE_ok;
	}
}

int control_create(int epfd, const struct control_events *events, void *ctx,
		   struct control **ret_control)
{
	struct control *control = calloc(1, sizeof(*control));

	if (control)
		control->in = malloc(IN_FIRST);
	if (!control || !control->in) {
		free(control);
		return err_set(-ENOMEM, "no memory for the control connection");
	}
	control->in_room = IN_FIRST;
	control->epfd = epfd;
	control->fd = -1;
	control->events = events;
	control->ctx = ctx;
	control->next_id = 1;
	list_init(&control->calls);
	*ret_control = control;
	return 0;
}

static void socket_close(struct control *control)
{
	if (control->fd < 0)
		return;
	/* closing takes it out of the epoll set: it is never duplicated */
	(void)close(control->fd);
	control->fd = -1;
	control->ready = false;
	control->want_out = false;
	control->broken = 0;
	control->in_bytes = 0;
}

/* Take the calls for which `which` holds out of the list, then end them: a callback may
 * put new ones in. */
static void calls_fail(struct control *control, int err, const char *text,
		       bool (*which)(const struct control_call *call))
{
	struct list failed = LIST_INIT(failed);

	list_for_each_safe(node, &control->calls) {
		if (which && !which(container_of(node, struct control_call, node)))
			continue;
		list_remove(node);
		list_append(&failed, node);
	}
	list_for_each_safe(node, &failed) {
		struct control_call *call =
			container_of(node, struct control_call, node);

		list_remove(node);
		(void)err_set(err, "%s", text);
		(void)call->done(call->ctx, err, NULL);
		free(call);
	}
}

void control_end(struct control *control, int err, const char *text)
{
	socket_close(control);
	control->ended = err;
	(void)snprintf(control->ended_text, sizeof(control->ended_text), "%s", text);
	calls_fail(control, err, control->ended_text, NULL);
}

void control_free(struct control *control)
{
	if (!control)
		return;
	control_end(control, -ECONNRESET, "the session is closed");
	free(control->in);
	free(control);
}

int control_adopt(struct control *control, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	socket_close(control);
	/* connecting shows itself by writability, where the hello cannot be sent at once */
	if (epoll_ctl(control->epfd, EPOLL_CTL_ADD, fd, &event) < 0)
		return err_errno(-errno, "watching the control connection");
	control->fd = fd;
	return 0;
}

int control_local(const struct control *control, struct sockaddr_storage *ret_local)
{
	struct sockaddr_storage local = { 0 };
	socklen_t bytes = sizeof(local);

	if (control->fd < 0)
		return -ENOTCONN;
	if (getsockname(control->fd, (struct sockaddr *)&local, &bytes))
		return -errno;
	*ret_local = local;
	return 0;
}

/* Ask for writability only while there is something to write. */
static int interest_set(struct control *control, bool want_out)
{
	struct epoll_event event = { .events = EPOLLIN | (want_out ? EPOLLOUT : 0u) };

	if (want_out == control->want_out)
		return 0;
	if (epoll_ctl(control->epfd, EPOLL_CTL_MOD, control->fd, &event) < 0)
		return err_errno(-errno, "watching the control connection");
	control->want_out = want_out;
	return 0;
}

/* A socket tells its error once: to whoever asks first. */
static int broken_error(const struct control *control)
{
	return err_errno(control->broken, control->ready
						  ? "the control connection broke"
						  : "connecting");
}

/* 0: all sent, 1: the socket is full, or -errno. */
static int call_send(struct control *control, struct control_call *call)
{
	if (call->sent == 0)
		call->sent_ns = clock_now_ns();
	while (call->sent < call->bytes) {
		ssize_t n = send(control->fd, call->frame + call->sent,
				 call->bytes - call->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == ENOTCONN))
			return 1;
		if (n < 0) {
			control->broken = -errno;
			return broken_error(control);
		}
		call->sent += (size_t)n;
	}
	call->asked = true;
	return 0;
}

static int calls_send(struct control *control)
{
	int err = 0;

	list_for_each(node, &control->calls) {
		struct control_call *call =
			container_of(node, struct control_call, node);

		if (call->sent == call->bytes ||
		    (!control->ready && call->type != WIRE_TYPE_hello))
			continue;
		err = call_send(control, call);
		if (err)
			break;
	}
	if (err < 0)
		return err;
	return interest_set(control, err == 1);
}

static int call_create(struct control *control, const struct wire_msg *request,
		       control_done *done, void *ctx, struct control_call **ret_call)
{
	uint8_t frame[REQUEST_MAX];
	int n = wire_encode(request, frame, sizeof(frame));
	struct control_call *call;

	if (n < 0)
		return err_set(n, "a request %s does not fit the protocol",
			       wire_type_name(request->type));
	call = malloc(sizeof(*call) + (size_t)n);
	if (!call)
		return err_set(-ENOMEM, "no memory for a request");
	memcpy(call->frame, frame, (size_t)n);
	wire_frame_number(call->frame, control->next_id);
	call->id = control->next_id++;
	call->type = request->type;
	call->done = done;
	call->ctx = ctx;
	call->asked = false;
	call->sent = 0;
	call->sent_ns = 0;
	call->bytes = (size_t)n;
	list_append(&control->calls, &call->node);
	*ret_call = call;
	return 0;
}

int control_hello(struct control *control, const struct wire_msg *hello,
		  control_done *done, void *ctx)
{
	struct control_call *call;
	int err = call_create(control, hello, done, ctx, &call);

	if (err)
		return err;
	/* control_io() tells what went wrong */
	(void)calls_send(control);
	return 0;
}

void control_ready(struct control *control)
{
	control->ready = true;
	(void)calls_send(control);
}

int control_call(struct control *control, const struct wire_msg *request,
		 control_done *done, void *ctx, struct control_call **ret_call)
{
	struct control_call *call;
	int err;

	if (control->ended)
		return err_set(control->ended, "%s", control->ended_text);
	err = call_create(control, request, done, ctx, &call);
	if (err)
		return err;
	if (ret_call)
		*ret_call = call;
	if (control->ready)
		(void)calls_send(control);
	return 0;
}

enum wire_type control_call_type(const struct control_call *call)
{
	return call->type;
}

/* The server may have done it.  A frame that did not go out whole has no effect; a channel
 * ends with its connection. */
static bool in_doubt(const struct control_call *call)
{
	return call->asked && call->type != WIRE_TYPE_open_channel;
}

void control_abandon(struct control_call *call, control_done *done, void *ctx)
{
	if (call->sent == 0 && !in_doubt(call)) {
		list_remove(&call->node);
		free(call);
		return;
	}
	call->done = done;
	call->ctx = ctx;
}

static struct control_call *call_find(struct control *control, uint64_t id)
{
	list_for_each(node, &control->calls) {
		struct control_call *call =
			container_of(node, struct control_call, node);

		if (call->id == id && call->sent == call->bytes)
			return call;
	}
	return NULL;
}

/* The error a server answers with. */
static int error_take(const struct wire_error *error)
{
	if (error->text[0] == '\0')
		return err_errno(-(int)error->code, "the server refuses");
	return err_set(-(int)error->code, "%s", error->text);
}

static bool code_sound(uint32_t code)
{
	return code > 0 && code <= ERROR_CODE_MAX;
}

static int reply_take(struct control *control, const struct wire_msg *reply)
{
	struct control_call *call = call_find(control, reply->id);
	int err = 0;

	if (!call)
		return err_set(-EPROTO,
			       "the server answers request %" PRIu64
			       ", which was not asked",
			       reply->id);
	if (reply->type != WIRE_TYPE_error && reply->type != reply_type(call->type))
		return err_set(-EPROTO, "the server answers %s with %s",
			       wire_type_name(call->type), wire_type_name(reply->type));
	if (reply->type == WIRE_TYPE_error && !code_sound(reply->error.code))
		return err_set(-EPROTO, "the server answers with error code %u",
			       reply->error.code);
	list_remove(&call->node);
	control->events->answered(control->ctx, call->sent_ns);
	if (reply->type == WIRE_TYPE_error)
		err = error_take(&reply->error);
	err = call->done(call->ctx, err, err ? NULL : reply);
	free(call);
	return err;
}

/* A server that is newer may tell of more. */
static bool event_unknown(const uint8_t *frame)
{
	unsigned type = wire_frame_type(frame);

	return type >= WIRE_TYPE_revoked && !wire_type_name(type);
}

static int frame_take(struct control *control, const uint8_t *frame, size_t bytes)
{
	struct wire_msg msg;
	int err;

	if (event_unknown(frame))
		return 0;
	err = wire_decode(frame, bytes, &msg);
	if (err)
		return err;
	if (msg.type < WIRE_TYPE_error)
		return err_set(-EPROTO, "the server sends a request, %s",
			       wire_type_name(msg.type));
	if (msg.type >= WIRE_TYPE_revoked)
		return control->events->event(control->ctx, &msg);
	return reply_take(control, &msg);
}

/* Room for a frame of so many bytes. */
static int in_grow(struct control *control, size_t bytes)
{
	uint8_t *in;

	if (bytes <= control->in_room)
		return 0;
	in = realloc(control->in, bytes);
	if (!in)
		return err_set(-ENOMEM, "no memory for a message of %zu bytes", bytes);
	control->in = in;
	control->in_room = bytes;
	return 0;
}

static int frames_take(struct control *control)
{
	size_t done = 0;
	int bytes, err;

	for (;;) {
		const uint8_t *frame = control->in + done;
		size_t left = control->in_bytes - done;

		bytes = wire_frame_bytes(frame, left);
		if (bytes < 0)
			return bytes;
		if (bytes == 0 || (size_t)bytes > left)
			break;
		err = frame_take(control, frame, (size_t)bytes);
		if (err)
			return err;
		done += (size_t)bytes;
	}
	control->in_bytes -= done;
	memmove(control->in, control->in + done, control->in_bytes);
	return in_grow(control, (size_t)bytes);
}

int control_io(struct control *control)
{
	bool more = true;
	int err = 0;

	if (control->fd < 0)
		return 0;
	if (control->broken)
		return broken_error(control);
	for (unsigned i = 0; !err && more && i < READS_MAX; i++) {
		size_t room = control->in_room - control->in_bytes;
		ssize_t n = recv(control->fd, control->in + control->in_bytes, room,
				 MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == ENOTCONN))
			break;
		if (n < 0) {
			control->broken = -errno;
			return broken_error(control);
		}
		if (n == 0)
			return err_set(-ECONNRESET, "the server closed the connection");
		/* what comes behind shows itself */
		more = (size_t)n == room;
		control->in_bytes += (size_t)n;
		err = frames_take(control);
	}
	return err ? err : calls_send(control);
}

static bool ends_with_connection(const struct control_call *call)
{
	return call->type == WIRE_TYPE_hello || call->type == WIRE_TYPE_bye;
}

void control_drop(struct control *control)
{
	socket_close(control);
	list_for_each(node, &control->calls)
		container_of(node, struct control_call, node)->sent = 0;
	calls_fail(control, -ECONNRESET,
		   "the connection was lost before the server answered",
		   ends_with_connection);
}
