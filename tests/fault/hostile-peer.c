/* SPDX-License-Identifier: BSD-3-Clause */
#include "hostile-peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/err.h"
#include "wire/codec.h"

#define ANSWER_SECONDS 20

const char *address, *control_port, *data_port;
uint8_t frame[WIRE_FRAME_MAX];
struct wire_msg msg, answer;

static const char *attack = "start";
static uint64_t next_id = 1;

static void fail(const char *what)
{
	(void)fprintf(stderr, "hostile: %s: %s (%s)\n", attack, what, err_text());
	exit(1);
}

void must(bool condition, const char *what)
{
	if (!condition)
		fail(what);
}

int peer_connect_from(const char *source, const char *port)
{
	struct sockaddr_in from = { .sin_family = AF_INET };
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *ai;
	struct timeval tv = { .tv_sec = ANSWER_SECONDS };
	int fd;

	must(getaddrinfo(address, port, &hints, &ai) == 0, "getaddrinfo");
	fd = socket(ai->ai_family, SOCK_STREAM, 0);
	must(fd >= 0, "socket");
	must(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) == 0,
	     "SO_RCVTIMEO");
	must(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) == 0,
	     "SO_SNDTIMEO");
	if (source)
		must(inet_pton(AF_INET, source, &from.sin_addr) == 1 &&
			     bind(fd, (struct sockaddr *)&from, sizeof(from)) == 0,
		     "bind");
	must(connect(fd, ai->ai_addr, ai->ai_addrlen) == 0, "connect");
	freeaddrinfo(ai);
	return fd;
}

int peer_connect(const char *port)
{
	return peer_connect_from(NULL, port);
}

bool push(int fd, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	while (n > 0) {
		ssize_t done = send(fd, p, n, MSG_NOSIGNAL);

		if (done <= 0)
			return false;
		p += done;
		n -= (size_t)done;
	}
	return true;
}

static bool pull(int fd, uint8_t *dst, size_t n)
{
	while (n > 0) {
		ssize_t got = recv(fd, dst, n, 0);

		/* a signal that asks the program to end */
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			must(errno == ECONNRESET || errno == EPIPE,
			     "no answer in time");
		if (got <= 0)
			return false;
		dst += got;
		n -= (size_t)got;
	}
	return true;
}

bool message_get(int fd)
{
	int bytes;

	if (!pull(fd, frame, WIRE_HEADER_BYTES))
		return false;
	bytes = wire_frame_bytes(frame, WIRE_HEADER_BYTES);
	must(bytes > 0, "the daemon sent a frame with an invalid length");
	if (!pull(fd, frame + WIRE_HEADER_BYTES, (size_t)bytes - WIRE_HEADER_BYTES))
		return false;
	must(wire_decode(frame, (size_t)bytes, &answer) == 0,
	     "the daemon sent a frame that does not decode");
	return true;
}

bool answer_is_event(void)
{
	return answer.id == 0 && answer.type >= WIRE_TYPE_revoked;
}

bool answer_get(int fd)
{
	do {
		if (!message_get(fd))
			return false;
	} while (answer_is_event());
	return true;
}

size_t encode(void)
{
	int bytes;

	msg.id = next_id++;
	bytes = wire_encode(&msg, frame, sizeof(frame));
	must(bytes > 0, "encode");
	return (size_t)bytes;
}

bool ask(int fd)
{
	size_t bytes = encode();

	return push(fd, frame, bytes) && answer_get(fd);
}

void message(enum wire_type type)
{
	wire_msg_init(&msg, type);
}

void hello_make(void)
{
	message(WIRE_TYPE_hello);
	msg.hello.magic = WIRE_MAGIC;
	msg.hello.version_min = WIRE_VERSION_MIN;
	msg.hello.version_max = WIRE_VERSION_MAX;
	(void)strcpy(msg.hello.tenant, "default");
	(void)strcpy(msg.hello.client, "hostile");
}

int session_open(void)
{
	int fd = peer_connect(control_port);

	hello_make();
	must(ask(fd) && answer.type == WIRE_TYPE_welcome, "a valid hello is refused");
	return fd;
}

void session_bye(int fd)
{
	message(WIRE_TYPE_bye);
	must(ask(fd) && answer.type == WIRE_TYPE_ok, "a valid bye is refused");
	(void)close(fd);
}

void service_check(void)
{
	int fd = session_open();
	uint64_t lease;

	message(WIRE_TYPE_allocate);
	msg.allocate.bytes = 4096;
	msg.allocate.node = -1;
	must(ask(fd) && answer.type == WIRE_TYPE_lease, "a valid allocate is refused");
	lease = answer.lease.lease;
	message(WIRE_TYPE_free);
	msg.free.lease = lease;
	must(ask(fd) && answer.type == WIRE_TYPE_ok, "a valid free is refused");
	session_bye(fd);
}

void attack_begin(const char *name)
{
	attack = name;
}

void attack_end(void)
{
	service_check();
	(void)printf("survived: %s\n", attack);
}

void expect_close(int fd)
{
	while (answer_get(fd))
		must(answer.type == WIRE_TYPE_error, "not an error");
	(void)close(fd);
}

/* An error message names the request by the line of its call. */
void expect_error_at(int line, int fd, uint32_t code)
{
	char what[64];

	(void)snprintf(what, sizeof(what), "%s at line %d", wire_type_name(msg.type),
		       line);
	err_clear();
	if (!ask(fd))
		fail(strcat(what, ": no answer"));
	if (answer.type != WIRE_TYPE_error)
		fail(strcat(what, ": no error"));
	must(answer.id == msg.id, "an answer to another request");
	must(answer.error.code != 0 && answer.error.text[0],
	     "an error without a code or a text");
	if (code && answer.error.code != code) {
		(void)fprintf(stderr, "hostile: %s: code %u (%s), not %u\n", what,
			      answer.error.code, answer.error.text, code);
		fail("another error code");
	}
}
