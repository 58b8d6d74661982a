/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections to the port of data channels over TCP, before they are admitted: any bytes in any
 * pieces.  A connection is answered or closed, and only a valid hello gets further. */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/tcp/accept.h"
#include "fuzz/target.h"
#include "wire/codec.h"

#define PEERS 3
#define SLOTS 2 /* fewer than peers: the oldest gives way */
#define STEPS_MAX 24
#define EVENTS_MAX 8

const unsigned fuzz_rounds = 3000;

/* The first byte of a step. */
enum step {
	STEP_SEND,  /* any bytes */
	STEP_HELLO, /* a valid hello, without its last bytes */
	STEP_READ,
	STEP_CLOSE,
	STEP_RESET,
	STEPS,
};

static struct tcp_acceptor *acceptor;
static int epoll_fd;
static int peers[PEERS];
static unsigned n_hellos;
static struct fabric_hello last_hello;

static void on_hello(void *, int fd, const struct fabric_hello *hello)
{
	n_hellos++;
	last_hello = *hello;
	ck_assert_int_ge(fd, 0);
	tcp_send_status(fd, WIRE_CODE_none, "");
	(void)close(fd);
}

static void on_rejected(void *)
{
}

static void on_trouble(void *, const char *text)
{
	ck_assert_str_ne(text, "");
}

static const struct tcp_acceptor_events events = {
	.hello = on_hello,
	.rejected = on_rejected,
	.trouble = on_trouble,
};

static void loop_run(void)
{
	struct epoll_event ready[EVENTS_MAX];
	int n;

	while ((n = epoll_wait(epoll_fd, ready, EVENTS_MAX, 0)) > 0) {
		for (int i = 0; i < n; i++) {
			struct tcp_source *source = ready[i].data.ptr;

			source->ready(source);
		}
	}
	ck_assert_int_eq(n, 0);
}

/* A reset leaves no port in use. */
static void peer_close(unsigned i, bool reset)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	if (peers[i] < 0)
		return;
	if (!reset)
		(void)shutdown(peers[i], SHUT_RDWR);
	loop_run();
	(void)setsockopt(peers[i], SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	(void)close(peers[i]);
	peers[i] = -1;
	loop_run();
}

/* Each connection has its own source address: the server closes many first, which keeps their ports
 * in use for a while. */
static void peer_open(unsigned i)
{
	static uint32_t n;
	struct pollfd pollfd = { .events = POLLOUT };
	const struct sockaddr_in source = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK + n++ % 0xfffff0),
	};
	const struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(tcp_acceptor_port(acceptor)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};

	peers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_ge(peers[i], 0);
	ck_assert_int_eq(
		bind(peers[i], (const struct sockaddr *)&source, sizeof(source)), 0);
	if (connect(peers[i], (const struct sockaddr *)&address, sizeof(address)) == 0)
		return;
	/* libFuzzer has a timer; the connection goes on */
	ck_assert_msg(errno == EINTR, "connect: %s", strerrordesc_np(errno));
	pollfd.fd = peers[i];
	while (poll(&pollfd, 1, -1) < 0)
		;
}

static void peer_send(unsigned i, const void *data, size_t bytes)
{
	if (peers[i] < 0)
		peer_open(i);
	if (bytes > 0 && send(peers[i], data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		peer_close(i, true);
	loop_run();
}

static void peer_read(unsigned i)
{
	uint8_t sink[4096];

	if (peers[i] >= 0)
		(void)!recv(peers[i], sink, sizeof(sink), MSG_DONTWAIT);
}

static void step_send(struct fuzz_input *input, unsigned i)
{
	size_t n;
	const uint8_t *data = fuzz_bytes(input, fuzz_number(input, 1), &n);

	peer_send(i, data, n);
}

static void step_hello(struct fuzz_input *input, unsigned i)
{
	const struct fabric_hello hello = { .session = fuzz_number(input, 1),
					    .channel = 5,
					    .token = { 1, 2, 3 } };
	uint8_t data[FABRIC_HELLO_BYTES];
	unsigned before = n_hellos;
	size_t cut = fuzz_number(input, 1);
	bool fresh = peers[i] < 0;

	fabric_hello_encode(&hello, data);
	peer_send(i, data, cut < sizeof(data) ? sizeof(data) - cut : sizeof(data));
	if (!fresh || (cut > 0 && cut < sizeof(data)))
		return;
	/* at once, as nothing was sent before */
	ck_assert_uint_eq(n_hellos, before + 1);
	ck_assert_uint_eq(last_hello.session, hello.session);
	ck_assert_uint_eq(last_hello.channel, hello.channel);
	ck_assert_mem_eq(last_hello.token, hello.token, sizeof(hello.token));
}

static void step_run(struct fuzz_input *input)
{
	enum step step = (enum step)(fuzz_number(input, 1) % STEPS);
	unsigned i = (unsigned)fuzz_number(input, 1) % PEERS;

	switch (step) {
	case STEP_SEND:
		step_send(input, i);
		break;
	case STEP_HELLO:
		step_hello(input, i);
		break;
	case STEP_READ:
		peer_read(i);
		break;
	case STEP_CLOSE:
	case STEP_RESET:
		peer_close(i, step == STEP_RESET);
		break;
	case STEPS:
		break;
	}
}

static void acceptor_prepare(void)
{
	static const struct fabric_address loopback = { .family = 4,
							.bytes = { 127, 0, 0, 1 } };

	if (acceptor)
		return;
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	ck_assert_int_ge(epoll_fd, 0);
	ck_assert_int_eq(
		tcp_acceptor_open(&loopback, SLOTS, epoll_fd, &events, NULL, &acceptor),
		0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };

	acceptor_prepare();
	memset(peers, -1, sizeof(peers));
	for (unsigned i = 0; i < STEPS_MAX && input.left > 0; i++)
		step_run(&input);
	for (unsigned i = 0; i < PEERS; i++)
		peer_close(i, true);
	return 0;
}

/* ---- valid inputs ---- */

static struct fuzz_output *out;

static void put_step(enum step step, unsigned peer)
{
	fuzz_put(out, step, 1);
	fuzz_put(out, peer, 1);
}

static void put_hello(unsigned peer, unsigned cut)
{
	put_step(STEP_HELLO, peer);
	fuzz_put(out, 7, 1);
	fuzz_put(out, cut, 1);
}

static void put_bytes(unsigned peer, const void *data, size_t bytes)
{
	put_step(STEP_SEND, peer);
	fuzz_put(out, bytes, 1);
	fuzz_put_bytes(out, data, bytes);
}

static void seed_hellos(void)
{
	put_hello(0, 0);
	put_step(STEP_READ, 0);
	put_hello(1, 5);
	put_bytes(1, "\0\0\0\0\0", 5);
	put_hello(2, 20);
	put_step(STEP_CLOSE, 2);
}

/* A client of the control protocol at the wrong port. */
static void seed_control(void)
{
	uint8_t frame[1024];
	struct wire_msg msg;
	int bytes;

	wire_msg_init(&msg, WIRE_TYPE_hello);
	msg.id = 1;
	msg.hello.magic = WIRE_MAGIC;
	bytes = wire_encode(&msg, frame, sizeof(frame));
	ck_assert_int_gt(bytes, 0);
	put_bytes(0, frame, (size_t)bytes);
	put_step(STEP_READ, 0);
	put_bytes(1, "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n",
		  55);
	put_step(STEP_RESET, 1);
}

size_t fuzz_seed(uint8_t *input, size_t max, unsigned which)
{
	static void (*const seeds[])(void) = { seed_hellos, seed_control };
	struct fuzz_output output = { input, 0, max };

	if (which >= sizeof(seeds) / sizeof(seeds[0]))
		return 0;
	out = &output;
	seeds[which]();
	return output.used;
}
