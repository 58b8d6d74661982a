/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/librmem/proxy.h"

#include <check.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "unit/librmem/daemon-core.h"
#include "wire/codec.h"
#include "wire/errors.h"

#define IDS 4096u
#define LEASES 128u

struct proxy proxy;

/* One side of the proxy. */
struct side {
	int fd; /* -1: none */
	size_t have;
	uint8_t in[WIRE_FRAME_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_t thread;
static int listener, stop_fd, server_port;

/* All under the lock. */
static struct side client = { .fd = -1 }, server = { .fd = -1 };
static struct wire_msg msg, delayed, *held[PROXY_HELD];
static unsigned n_held;
static struct {
	uint64_t id;
	unsigned type;
} requests[IDS]; /* by id */
static struct lease_keys {
	uint64_t id, addr, rkey;
} leases[LEASES]; /* by id */
static unsigned dropped_type, fail_type, fail_skip;
static int fail_code;

/* ---- settings and results ---- */

void proxy_fail(unsigned type, int code, unsigned skip)
{
	(void)pthread_mutex_lock(&lock);
	fail_type = code ? type : 0;
	fail_code = code;
	fail_skip = skip;
	(void)pthread_mutex_unlock(&lock);
}

void proxy_await_count(const _Atomic unsigned *counter, unsigned count)
{
	struct timespec until;

	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 10;
	(void)pthread_mutex_lock(&lock);
	while (*counter < count)
		ck_assert_msg(pthread_cond_timedwait(&changed, &lock, &until) == 0,
			      "%u, not %u", *counter, count);
	(void)pthread_mutex_unlock(&lock);
}

void proxy_await(unsigned type, unsigned count)
{
	proxy_await_count(&proxy.seen[type], count);
}

void proxy_last(unsigned type, struct wire_msg *ret_msg)
{
	(void)pthread_mutex_lock(&lock);
	*ret_msg = proxy.last[type];
	(void)pthread_mutex_unlock(&lock);
}

static struct lease_keys lease_find(uint64_t lease)
{
	struct lease_keys seen;

	(void)pthread_mutex_lock(&lock);
	seen = leases[lease % LEASES];
	(void)pthread_mutex_unlock(&lock);
	ck_assert_uint_eq(seen.id, lease);
	return seen;
}

unsigned char *proxy_memory(uint64_t lease)
{
	return (unsigned char *)(uintptr_t)lease_find(lease).addr;
}

uint64_t proxy_rkey(uint64_t lease)
{
	return lease_find(lease).rkey;
}

/* ---- frames ---- */

static void side_close(struct side *side)
{
	if (side->fd >= 0)
		(void)close(side->fd);
	side->fd = -1;
	side->have = 0;
}

static void connection_end(void)
{
	side_close(&client);
	side_close(&server);
	delayed.type = (enum wire_type)0;
	while (n_held > 0)
		free(held[--n_held]);
}

static void send_frame(struct side *to, const uint8_t *frame, size_t bytes)
{
	if (to->fd >= 0)
		(void)send(to->fd, frame, bytes, MSG_NOSIGNAL);
}

static void send_msg(struct side *to, const struct wire_msg *sent)
{
	static uint8_t out[WIRE_FRAME_MAX];
	int bytes = wire_encode(sent, out, sizeof(out));

	ck_assert_int_gt(bytes, 0);
	send_frame(to, out, (size_t)bytes);
}

void proxy_cut(void)
{
	(void)pthread_mutex_lock(&lock);
	if (client.fd >= 0)
		(void)shutdown(client.fd, SHUT_RDWR);
	(void)pthread_mutex_unlock(&lock);
}

void proxy_send(const struct wire_msg *sent)
{
	(void)pthread_mutex_lock(&lock);
	send_msg(&client, sent);
	(void)pthread_mutex_unlock(&lock);
}

void proxy_event(unsigned type, uint64_t object, unsigned reason)
{
	static struct wire_msg event;

	memset(&event, 0, sizeof(event));
	event.type = (enum wire_type)type;
	event.revoked.lease = object;
	event.revoked.reason = (uint8_t)reason;
	if (type == WIRE_TYPE_channel_ended)
		event.channel_ended.channel = (uint32_t)object;
	if (type == WIRE_TYPE_closing)
		event.closing.reason = (uint8_t)reason;
	proxy_send(&event);
}

void proxy_release(void)
{
	(void)pthread_mutex_lock(&lock);
	proxy.hold = 0;
	for (unsigned i = 0; i < n_held; i++) {
		send_msg(&client, held[i]);
		free(held[i]);
	}
	n_held = 0;
	(void)pthread_mutex_unlock(&lock);
}

static void record(void)
{
	proxy.last[msg.type] = msg;
	proxy.seen[msg.type]++;
	(void)pthread_cond_broadcast(&changed);
}

static unsigned segments_received(void)
{
	struct tcp_info info = { 0 };
	socklen_t bytes = sizeof(info);

	ck_assert_int_eq(getsockopt(client.fd, IPPROTO_TCP, TCP_INFO, &info, &bytes),
			 0);
	return info.tcpi_segs_in;
}

static void record_request(void)
{
	if (msg.type == WIRE_TYPE_hello) {
		proxy.segments = segments_received();
		if (!msg.hello.resume)
			memset(requests, 0, sizeof(requests));
	} else if (requests[msg.id % IDS].id == msg.id && msg.type == dropped_type) {
		proxy.repeated++;
	}
	requests[msg.id % IDS].id = msg.id;
	requests[msg.id % IDS].type = msg.type;
}

/* The error that the proxy answers the request with; 0: the server answers it. */
static int refusal_code(void)
{
	if (msg.type == WIRE_TYPE_open_channel &&
	    (proxy.deny & 1u << msg.open_channel.endpoint))
		return EDQUOT;
	if (!fail_type || fail_type != msg.type)
		return 0;
	if (fail_skip == UINT_MAX)
		return fail_code;
	if (fail_skip && fail_skip--)
		return 0;
	if (msg.type != WIRE_TYPE_hello)
		fail_type = 0;
	return fail_code;
}

static void refuse(int code)
{
	bool hello = msg.type == WIRE_TYPE_hello;

	msg.type = WIRE_TYPE_error;
	msg.error.code = wire_code_of(-code);
	(void)strcpy(msg.error.text, "it failed");
	send_msg(&client, &msg);
	if (hello)
		(void)shutdown(client.fd, SHUT_WR);
}

static void on_request(const uint8_t *frame, size_t bytes)
{
	int code;

	record_request();
	record();
	if (proxy.mute)
		return;
	code = refusal_code();
	if (code) {
		refuse(code);
	} else if (proxy.forget && msg.type == WIRE_TYPE_hello && msg.hello.resume) {
		msg.hello.token[0] ^= 1;
		send_msg(&server, &msg);
	} else {
		send_frame(&server, frame, bytes);
	}
}

static void record_lease(void)
{
	unsigned at = msg.lease.lease % LEASES;

	if (msg.lease.n_keys == 0)
		return;
	leases[at].id = msg.lease.lease;
	leases[at].addr = msg.lease.keys[0].addr;
	leases[at].rkey = msg.lease.keys[0].rkey;
}

static void forward(void)
{
	unsigned type = msg.id ? requests[msg.id % IDS].type : msg.type;

	if (type == proxy.drop) {
		dropped_type = type;
		proxy.drop = 0;
		connection_end();
	} else if (type == proxy.delay) {
		proxy.delay = 0;
		delayed = msg;
		proxy.delayed++;
		(void)pthread_cond_broadcast(&changed);
	} else if (type == proxy.hold) {
		ck_assert_uint_lt(n_held, PROXY_HELD);
		held[n_held] = malloc(sizeof(msg));
		*held[n_held++] = msg;
	} else {
		send_msg(&client, &msg);
		if (delayed.type)
			send_msg(&client, &delayed);
		delayed.type = (enum wire_type)0;
	}
}

static void change_send(void)
{
	static struct wire_msg event;

	wire_msg_init(&event, WIRE_TYPE_changed);
	event.changed.lease = msg.lease.lease;
	send_msg(&client, &event);
}

static void on_server_msg(void)
{
	if (proxy.edit)
		proxy.edit(&msg);
	if (msg.type == WIRE_TYPE_welcome && msg.welcome.resumed)
		proxy.resumed++;
	if (msg.type == WIRE_TYPE_lease)
		record_lease();
	record();
	if (proxy.change && msg.type == WIRE_TYPE_lease &&
	    requests[msg.id % IDS].type == WIRE_TYPE_attach)
		change_send();
	forward();
}

static void frames_process(struct side *side)
{
	while (side->fd >= 0) {
		int bytes = wire_frame_bytes(side->in, side->have);

		ck_assert_int_ge(bytes, 0);
		if (bytes == 0 || (size_t)bytes > side->have)
			return;
		ck_assert_int_eq(wire_decode(side->in, (size_t)bytes, &msg), 0);
		if (side == &client)
			on_request(side->in, (size_t)bytes);
		else
			on_server_msg();
		if (side->fd < 0)
			return;
		side->have -= (size_t)bytes;
		memmove(side->in, side->in + bytes, side->have);
	}
}

/* ---- the thread ---- */

static void side_read(struct side *side)
{
	ssize_t n = recv(side->fd, side->in + side->have, sizeof(side->in) - side->have,
			 MSG_DONTWAIT);

	if (n <= 0) {
		if (n == 0 || errno != EAGAIN)
			connection_end();
		return;
	}
	side->have += (size_t)n;
	frames_process(side);
}

static void on_accept(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)server_port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	connection_end();
	client.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	server.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(server.fd, (struct sockaddr *)&to, sizeof(to)))
		connection_end();
	proxy.connections++;
	(void)pthread_cond_broadcast(&changed);
}

static void *run(void *arg)
{
	for (;;) {
		struct pollfd fds[] = { { .fd = stop_fd, .events = POLLIN },
					{ .fd = listener, .events = POLLIN },
					{ .fd = client.fd, .events = POLLIN },
					{ .fd = server.fd, .events = POLLIN } };

		(void)poll(fds, 4, -1);
		if (fds[0].revents)
			return arg;
		(void)pthread_mutex_lock(&lock);
		if (fds[1].revents)
			on_accept();
		else if (fds[2].revents && client.fd >= 0)
			side_read(&client);
		else if (fds[3].revents && server.fd >= 0)
			side_read(&server);
		(void)pthread_mutex_unlock(&lock);
	}
}

void proxy_start(int port)
{
	server_port = port;
	listener = loopback_listen(&proxy.port);
	stop_fd = eventfd(0, EFD_CLOEXEC);
	ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
}

void proxy_stop(void)
{
	(void)eventfd_write(stop_fd, 1);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	connection_end();
	(void)close(listener);
	(void)close(stop_fd);
}
