/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames that violate the protocols: of control connections, and of channels over TCP. */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "attack.h"
#include "base/clock.h"
#include "fabric/tcp/stream.h"
#include "wire/errors.h"
#include "peer.h"
#include "wire/codec.h"

#define PROTOCOL "status counters refused protocol"
#define REFUSED "devices tcp refused"
#define ERRORS "devices tcp errors"

/* ---- control connections ---- */

/* Send bytes; the server must end the connection, perhaps behind an error. */
static void bytes_try(struct peer *peer, const char *what, const void *bytes, size_t n)
{
	int err;

	attempt(what, PROTOCOL, 1);
	must(peer_send(peer, bytes, n), "sending");
	do
		err = peer_receive(peer);
	while (err && err != -ECONNRESET);
	attempt_result(err, "the server: connection");
	peer_close(peer);
}

static void length_try(const char *what, uint32_t length)
{
	uint8_t header[WIRE_HEADER_BYTES] = { 0 };

	length = htole32(length);
	memcpy(header, &length, sizeof(length));
	bytes_try(peer_open("mallory"), what, header, sizeof(header));
}

static void message_try(struct peer *peer, const char *what, enum wire_type type,
			uint64_t id)
{
	static uint8_t frame[WIRE_FRAME_MAX];
	int bytes;

	peer_message(peer, type);
	peer->msg.id = id;
	bytes = wire_encode(&peer->msg, frame, sizeof(frame));
	must(bytes > 0, "a message");
	bytes_try(peer, what, frame, (size_t)bytes);
}

static void control_try(void)
{
	static const uint8_t unknown[WIRE_HEADER_BYTES] = { 16, 0, 0, 0, 0x7f,
							    0,  0, 0, 9 };
	/* a ping with a reserved bit, and a free without its lease */
	static const uint8_t reserved[WIRE_HEADER_BYTES] = { 16, 0, 0, 0, 0x0e,
							     0,  1, 0, 9 };
	static const uint8_t cut[] = { 16, 0, 0, 0, 0x05, 0, 0, 0,
				       9,  0, 0, 0, 0,    0, 0, 0 };
	uint8_t header[WIRE_HEADER_BYTES] = { 0xff, 0xff, 0xff, 0xff };
	struct peer *again;

	bytes_try(peer_connect("mallory"), "a frame of 4 GiB instead of a hello",
		  header, sizeof(header));
	length_try("a frame of 4 GiB in a session", UINT32_MAX);
	length_try("a frame that is a byte too long", WIRE_FRAME_MAX + 1);
	length_try("a frame of no bytes", 0);
	bytes_try(peer_open("mallory"), "a message that does not exist", unknown,
		  sizeof(unknown));
	bytes_try(peer_open("mallory"), "a header with a reserved bit", reserved,
		  sizeof(reserved));
	bytes_try(peer_open("mallory"), "a message that is cut off", cut, sizeof(cut));
	message_try(peer_connect("mallory"), "a request before the hello",
		    WIRE_TYPE_ping, 1);
	message_try(peer_open("mallory"), "a second hello", WIRE_TYPE_hello, 9);
	message_try(peer_open("mallory"), "a message of servers", WIRE_TYPE_welcome, 9);
	message_try(peer_open("mallory"), "a request without an id", WIRE_TYPE_ping, 0);
	again = peer_open("mallory");
	(void)peer_allocate(again, 4096, NULL);
	message_try(again, "the id of an earlier request", WIRE_TYPE_list,
		    again->next_id);
}

/* Requests whose answers are not read: the server must not keep them without bound. */
static void unread_try(void)
{
	struct peer *peer = peer_open("mallory");
	uint64_t until_ms = clock_now_ms() + ATTACK_WAIT_MS;
	static uint8_t frame[WIRE_FRAME_MAX];
	int bytes;

	/* an answer that is much longer than its request */
	for (unsigned i = 0; i < 40; i++) {
		char name[200];

		memset(name, 'n', sizeof(name));
		(void)snprintf(name + 190, 10, "%u", i);
		(void)peer_allocate(peer, 4096, name);
	}
	attempt("requests whose answers are not read", "status counters refused unread",
		1);
	while (clock_now_ms() < until_ms) {
		ssize_t sent;

		peer_message(peer, WIRE_TYPE_list);
		peer->msg.id = ++peer->next_id;
		bytes = wire_encode(&peer->msg, frame, sizeof(frame));
		sent = stream_send(&peer->stream, frame, (size_t)bytes);
		if (sent == -EAGAIN) {
			/* the server reads no more, as it handles no more */
			struct pollfd at = { .fd = peer->stream.fd, .events = POLLOUT };

			if (poll(&at, 1, 100) > 0)
				continue;
			peer->next_id--;
			continue;
		}
		if (sent < 0)
			break;
	}
	attempt_result(clock_now_ms() < until_ms ? -ECONNRESET : 0,
		       "the server: connection");
	peer_close(peer);
}

/* ---- channels over TCP ---- */

int channel_open(struct peer *peer)
{
	const struct fabric_hello hello = peer_grant(peer);
	int fd = socket_open(attack_options.address, attack_options.data_port, NULL);
	uint8_t bytes[FABRIC_HELLO_BYTES];
	struct stream_status status;

	must(fd >= 0, "connecting");
	fabric_hello_encode(&hello, bytes);
	must(write(fd, bytes, sizeof(bytes)) == sizeof(bytes) &&
		     read(fd, &status, sizeof(status)) == sizeof(status) &&
		     status.status == WIRE_CODE_none,
	     "a channel");
	return fd;
}

static void channel_try(int fd, const char *what, const char *counter,
			const void *bytes, size_t n)
{
	attempt(what, counter, 1);
	must(send(fd, bytes, n, MSG_NOSIGNAL) == (ssize_t)n, "sending");
	if (socket_await_end(fd, ATTACK_WAIT_MS))
		attempt_refused("the server: channel");
	else
		attempt_admitted("the channel stays");
	(void)close(fd);
}

static void request_try(struct peer *peer, const char *what, uint32_t op,
			uint32_t bytes)
{
	const struct stream_request request = { .op = htole16((uint16_t)op),
						.bytes = htole32(bytes) };

	channel_try(channel_open(peer), what, ERRORS, &request, sizeof(request));
}

static void channels_try(void)
{
	struct peer *peer = peer_open("mallory");
	uint8_t frame[1024], zeros[FABRIC_HELLO_BYTES] = { 0 };
	int fd = socket_open(attack_options.address, attack_options.data_port, NULL);

	channel_try(fd, "zeros instead of a channel's hello", REFUSED, zeros,
		    sizeof(zeros));
	fd = socket_open(attack_options.address, attack_options.data_port, NULL);
	peer_message(peer, WIRE_TYPE_hello);
	peer->msg.hello.magic = WIRE_MAGIC;
	peer->msg.id = 1;
	channel_try(fd, "a control connection at the port of channels", REFUSED, frame,
		    (size_t)wire_encode(&peer->msg, frame, sizeof(frame)));
	request_try(peer, "a request that does not exist", 77, 8);
	request_try(peer, "a read of no bytes", STREAM_READ, 0);
	request_try(peer, "a read of 4 GiB", STREAM_READ, UINT32_MAX);
	request_try(peer, "a write that is a byte too long", STREAM_WRITE,
		    FABRIC_STREAM_BYTES_MAX + 1);
	request_try(peer, "an atomic of 9 bytes", STREAM_CAS, 9);
	request_try(peer, "a fill of 4 GiB", FABRIC_FILL, UINT32_MAX);
	peer_bye(peer);
}

void attack_frames(void)
{
	control_try();
	unread_try();
	if (attack_options.fabric == FABRIC_TCP)
		channels_try();
}
