/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/client_socket.h"

#include <errno.h>
#include <event2/buffer.h>
#include <string.h>

#include "base/log.h"
#include "rmemd/loop/events.h"

/* Bytes given to the socket at a time: a record of TLS. */
#define OUTPUT_BYTES 16384

void socket_set_deadline(struct client_socket *socket, unsigned ms)
{
	const struct timeval tv = timeval_of_ms(ms);

	/* fails only without memory, and libevent's heap had room for this event before */
	(void)event_add(socket->deadline, &tv);
}

void socket_end_soon(struct client_socket *socket, const char *why)
{
	socket->connection.closed = true;
	socket->why = why;
	event_active(socket->deadline, EV_TIMEOUT, 0);
}

/* The answer to a lone request, usually a heartbeat, need not take a turn of the loop and two
 * changes of what is polled for.  Returns how many bytes went out. */
static size_t send_at_once(struct client_socket *socket, const uint8_t *frame,
			   size_t bytes)
{
	ssize_t n;

	if (evbuffer_get_length(socket->output) > 0 || socket->behind_bytes > 0)
		return 0;
	n = stream_send(&socket->stream, frame, bytes);
	/* an error of the socket is found again when the rest is sent */
	return n > 0 ? (size_t)n : 0;
}

bool output_send(struct client_socket *socket)
{
	struct evbuffer *output = socket->output;
	size_t bytes;

	while ((bytes = evbuffer_get_length(output)) > 0) {
		const uint8_t *at;
		ssize_t n;

		if (bytes > OUTPUT_BYTES)
			bytes = OUTPUT_BYTES;
		at = evbuffer_pullup(output, (ev_ssize_t)bytes);
		n = at ? stream_send(&socket->stream, at, bytes) : -ENOMEM;
		if (n < 0 && n != -EAGAIN)
			socket_end_soon(socket, strerrordesc_np((int)-n));
		if (n < 0)
			return false;
		(void)evbuffer_drain(output, (size_t)n);
	}
	return true;
}

bool output_is_full(const struct client_socket *socket)
{
	return evbuffer_get_length(socket->output) > CONNECTION_OUTPUT_MAX;
}

void output_watch(struct client_socket *socket)
{
	if (event_add(socket->writable, NULL))
		socket_end_soon(socket, "its socket cannot be watched");
}

void output_add(struct connection *connection, const struct wire_msg *msg)
{
	struct client_socket *socket = socket_of(connection);
	uint8_t *frame = socket->connections->frame;
	size_t sent;
	int bytes;

	if (connection->closed)
		return;
	bytes = wire_encode(msg, frame, WIRE_FRAME_MAX);
	if (bytes < 0) {
		log_event(LOG_ERR, "reply-too-large",
			  &(struct log_ctx){ .peer = connection->name },
			  "%s does not fit a frame", wire_type_name(msg->type));
		socket_end_soon(socket, "an answer does not fit a frame");
		return;
	}
	sent = send_at_once(socket, frame, (size_t)bytes);
	if (sent == (size_t)bytes)
		return;
	if (evbuffer_add(socket->output, frame + sent, (size_t)bytes - sent))
		socket_end_soon(socket, "no memory for an answer");
	else
		output_watch(socket);
}

void output_end(struct client_socket *socket)
{
	if (socket->hung_up)
		return;
	socket->hung_up = true;
	stream_end(&socket->stream);
}
