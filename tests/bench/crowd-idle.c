/* SPDX-License-Identifier: BSD-3-Clause */
/* crowd-idle PORT PSK SESSIONS: sessions without channels at 127.0.0.1, as the first tenant of a
 * key file; PSK "-": without TLS, as the tenant "default".  They do nothing but send a heartbeat
 * each BEAT_MS, and take the answers.  Prints "ready", and ends when it reads a line. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "tls/stream.h"
#include "wire/codec.h"

#define BEAT_MS 5000

struct crowd {
	struct sockaddr_in to;
	struct tls_context *tls; /* NULL: without */
	char tenant[WIRE_LABEL_MAX + 1];
	unsigned n;
	struct stream *streams;
	uint64_t beat_us; /* when the last heartbeat was due */
};

static uint8_t frame[WIRE_FRAME_MAX];

_Noreturn static void fail(const char *what)
{
	(void)fprintf(stderr, "crowd-idle: %s: %s\n", what, err_text());
	exit(1);
}

static void await(const struct stream *stream, short events)
{
	struct pollfd at = { .fd = stream->fd, .events = events };

	(void)poll(&at, 1, -1);
}

static void keys_open(struct crowd *crowd, const char *path)
{
	struct tls_params params = { 0 };

	if (tls_keys_load(path, &params.keys))
		fail("psk");
	(void)snprintf(crowd->tenant, sizeof(crowd->tenant), "%s",
		       tls_keys_first(params.keys, NULL)->tenant);
	if (tls_context_client(&params, "localhost", &crowd->tls))
		fail("psk");
}

static void frame_send(struct stream *stream, struct wire_msg *msg)
{
	int bytes = wire_encode(msg, frame, sizeof(frame));

	/* a frame as short as these fits the empty socket */
	if (bytes < 0 || stream_send(stream, frame, (size_t)bytes) != bytes)
		fail(wire_type_name(msg->type));
}

static void hello(struct crowd *crowd, struct stream *stream)
{
	struct wire_msg msg;
	ssize_t n;

	wire_msg_init(&msg, WIRE_TYPE_hello);
	msg.id = 1;
	msg.hello.magic = WIRE_MAGIC;
	msg.hello.version_min = WIRE_VERSION_MIN;
	msg.hello.version_max = WIRE_VERSION_MAX;
	(void)strcpy(msg.hello.tenant, crowd->tenant);
	(void)strcpy(msg.hello.client, "crowd-idle");
	frame_send(stream, &msg);
	while ((n = stream_receive(stream, frame, sizeof(frame))) == -EAGAIN)
		await(stream, POLLIN);
	if (n <= 0 || wire_frame_type(frame) != WIRE_TYPE_welcome)
		fail("no welcome");
}

static void session_begin(struct crowd *crowd, struct stream *stream)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1, err;

	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) ||
	    connect(fd, (struct sockaddr *)&crowd->to, sizeof(crowd->to)) ||
	    fcntl(fd, F_SETFL, O_NONBLOCK))
		fail(strerror(errno));
	if (!crowd->tls)
		stream_plain(stream, fd);
	else if (stream_tls(stream, fd, crowd->tls))
		fail("TLS");
	while ((err = stream_handshake(stream)) == -EAGAIN)
		await(stream, stream->wants_out ? POLLOUT : POLLIN);
	if (err)
		fail("the handshake");
	hello(crowd, stream);
}

static void beat(struct stream *stream, uint64_t id)
{
	struct wire_msg msg;
	ssize_t n;

	wire_msg_init(&msg, WIRE_TYPE_ping);
	msg.id = id;
	frame_send(stream, &msg);
	/* answers of earlier heartbeats */
	while ((n = stream_receive(stream, frame, sizeof(frame))) > 0)
		;
	if (n != -EAGAIN)
		fail("the daemon has ended a session");
}

/* The heartbeats that are due of the first n sessions; *at is whose is next. */
static void beats(struct crowd *crowd, unsigned n, unsigned *at, uint64_t *id)
{
	uint64_t now_us = clock_now_ns() / 1000, step_us = BEAT_MS * 1000 / n;

	while (crowd->beat_us + step_us <= now_us) {
		*at = (*at + 1) % n;
		beat(&crowd->streams[*at], ++*id);
		crowd->beat_us += step_us;
	}
}

/* Whether the pause was not ended by a line on standard input. */
static bool pause_us(unsigned us)
{
	const struct timespec pause = { .tv_nsec = us * 1000L };
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };

	return ppoll(&in, 1, &pause, NULL) == 0;
}

int main(int argc, char **argv)
{
	static struct crowd crowd = { .tenant = "default" };
	uint64_t id = 1;
	unsigned at = 0;

	if (argc != 4) {
		(void)fprintf(stderr, "usage: crowd-idle PORT PSK SESSIONS\n");
		return 2;
	}
	crowd.to.sin_family = AF_INET;
	crowd.to.sin_port = htons((uint16_t)strtoul(argv[1], NULL, 10));
	crowd.to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (strcmp(argv[2], "-") != 0)
		keys_open(&crowd, argv[2]);
	crowd.n = (unsigned)strtoul(argv[3], NULL, 10);
	crowd.streams = calloc(crowd.n + 1, sizeof(*crowd.streams));
	if (crowd.n == 0 || !crowd.streams)
		fail("an argument is wrong");
	crowd.beat_us = clock_now_ns() / 1000;
	/* those that are open have their heartbeats meanwhile */
	for (unsigned i = 0; i < crowd.n; i++) {
		session_begin(&crowd, &crowd.streams[i]);
		beats(&crowd, i + 1, &at, &id);
	}
	(void)printf("ready\n");
	(void)fflush(stdout);
	while (pause_us(BEAT_MS * 1000 / crowd.n))
		beats(&crowd, crowd.n, &at, &id);
	for (unsigned i = 0; i < crowd.n; i++)
		stream_close(&crowd.streams[i]);
	tls_context_unref(crowd.tls);
	free(crowd.streams);
	return 0;
}
