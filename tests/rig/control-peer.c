/* SPDX-License-Identifier: BSD-3-Clause */
#include "control-peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/err.h"
#include "tls/admission.h"
#include "wire/codec.h"

#define ANSWER_MS 20000

struct stream control = { .fd = -1 };
struct wire_msg msg, reply;

static uint8_t frame[WIRE_FRAME_MAX];
static uint64_t next_id = 1;

void give_up(const char *what)
{
	(void)fprintf(stderr, "%s: %s (%s)\n", program_invocation_short_name, what,
		      err_text());
	exit(1);
}

void must(bool condition, const char *what)
{
	if (!condition)
		give_up(what);
}

/* Wait until the connection can go on; false after the time. */
static bool ready_await(short events, unsigned ms)
{
	struct pollfd at = { .fd = control.fd, .events = events };

	return poll(&at, 1, (int)ms) > 0;
}

/* After a call that returned -EAGAIN. */
static void control_await(short events)
{
	if (control.wants_out)
		events = POLLOUT;
	must(ready_await(events, ANSWER_MS), "the daemon does not answer");
}

static struct tls_context *tls_open(const char *file)
{
	struct tls_params params = { 0 };
	struct tls_context *tls;

	must(!tls_keys_load(file, &params.keys), "RMEM_PSK");
	must(!tls_context_client(&params, "rmemd", &tls), "TLS");
	return tls;
}

static int tcp_connect(const char *address, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *ai;
	int fd;

	must(getaddrinfo(address, port, &hints, &ai) == 0, "getaddrinfo");
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(fd >= 0, "socket");
	must(connect(fd, ai->ai_addr, ai->ai_addrlen) == 0, "connect");
	freeaddrinfo(ai);
	return fd;
}

void control_connect(const char *address, const char *port)
{
	const char *keys = getenv("RMEM_PSK");
	int fd = tcp_connect(address, port), err;

	if (!keys) {
		stream_plain(&control, fd);
		return;
	}
	must(!stream_tls(&control, fd, tls_open(keys)), "TLS");
	while ((err = stream_handshake(&control)) == -EAGAIN)
		control_await(POLLIN);
	must(!err, "the handshake of TLS");
}

unsigned control_local_port(void)
{
	struct sockaddr_in address;
	socklen_t bytes = sizeof(address);

	must(!getsockname(control.fd, (struct sockaddr *)&address, &bytes),
	     "getsockname");
	return ntohs(address.sin_port);
}

/* False when the connection is lost. */
static bool msg_send(void)
{
	int bytes;
	ssize_t sent = 0;

	msg.id = next_id++;
	bytes = wire_encode(&msg, frame, sizeof(frame));
	must(bytes > 0, "encode");
	for (int done = 0; done < bytes; done += (int)sent) {
		while ((sent = stream_send(&control, frame + done,
					   (size_t)(bytes - done))) == -EAGAIN)
			control_await(POLLOUT);
		if (sent < 0)
			return false;
	}
	return true;
}

static void pull(uint8_t *dst, size_t bytes)
{
	while (bytes > 0) {
		ssize_t got = stream_receive(&control, dst, bytes);

		if (got == -EAGAIN) {
			control_await(POLLIN);
			continue;
		}
		must(got > 0, "the daemon has closed the connection");
		dst += got;
		bytes -= (size_t)got;
	}
}

static void reply_get(void)
{
	int bytes;

	do {
		pull(frame, WIRE_HEADER_BYTES);
		bytes = wire_frame_bytes(frame, WIRE_HEADER_BYTES);
		must(bytes > 0, "a frame of the daemon");
		pull(frame + WIRE_HEADER_BYTES, (size_t)bytes - WIRE_HEADER_BYTES);
		must(!wire_decode(frame, (size_t)bytes, &reply), "decode");
	} while (!reply.id); /* an event */
}

void control_ask(enum wire_type type)
{
	must(msg_send(), "the connection is lost");
	reply_get();
	if (reply.type == WIRE_TYPE_error)
		give_up(reply.error.text);
	must(reply.type == type, "another reply");
}

bool control_beat(unsigned ms)
{
	uint64_t end_ms = clock_now_ms() + ms, now_ms;

	wire_msg_init(&msg, WIRE_TYPE_ping);
	if (!msg_send())
		return false;
	while ((now_ms = clock_now_ms()) < end_ms) {
		ssize_t got = stream_receive(&control, frame, sizeof(frame));

		if (got == 0 || (got < 0 && got != -EAGAIN))
			return false;
		if (got == -EAGAIN)
			(void)ready_await(POLLIN, (unsigned)(end_ms - now_ms));
	}
	return true;
}

void control_token(const struct wire_welcome *welcome, uint32_t channel,
		   uint8_t ret_token[WIRE_TOKEN_BYTES])
{
	_Static_assert(ADMISSION_BYTES == WIRE_TOKEN_BYTES, "one kind of token");
	admission_token(welcome->secret, welcome->session, channel, ret_token);
}
