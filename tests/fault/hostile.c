/* SPDX-License-Identifier: BSD-3-Clause */
/* A client that violates the control protocol.  After each attack it checks that the daemon still
 * serves a valid client.
 *
 *   hostile ADDRESS CONTROL_PORT DATA_PORT SEED
 *
 * Prints a line per attack.  The exit status is 1 at the first attack that the daemon does not
 * survive.  The daemon's limit of sessions must not be low. */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "fabric/address.h"
#include "fabric/fabric.h"
#include "fabric/hello.h"
#include "fabric/tcp/stream.h"
#include "wire/errors.h"
#include "hostile-peer.h"
#include "tls/admission.h"

static void attack_truncated(void)
{
	size_t bytes;

	attack_begin("a hello cut off at every byte");
	hello_make();
	bytes = encode();
	for (size_t cut = 0; cut < bytes; cut++) {
		int fd = peer_connect(control_port);

		must(push(fd, frame, cut), "send");
		(void)close(fd);
	}
	attack_end();
}

static void attack_lengths(void)
{
	static const uint32_t lengths[] = { 0,          1,
					    15,         WIRE_FRAME_MAX + 1,
					    0x7fffffff, 0xffffffff };

	attack_begin("invalid frame lengths");
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		int fd = peer_connect(control_port);
		uint8_t head[WIRE_HEADER_BYTES] = { 0 };

		memcpy(head, &lengths[i], 4);
		(void)push(fd, head, sizeof(head));
		expect_close(fd);
	}
	attack_end();
}

static void attack_hello(void)
{
	int fd;

	attack_begin("hellos with a wrong version, magic, tenant or session");
	fd = peer_connect(control_port);
	hello_make();
	msg.hello.version_min = 0x7000;
	msg.hello.version_max = 0x7001;
	expect_error(fd, WIRE_CODE_unsupported);
	expect_close(fd);
	fd = peer_connect(control_port);
	hello_make();
	msg.hello.magic ^= 1;
	(void)push(fd, frame, encode());
	expect_close(fd);
	fd = peer_connect(control_port);
	hello_make();
	(void)strcpy(msg.hello.tenant, "nobody-knows");
	expect_error(fd, WIRE_CODE_forbidden);
	(void)close(fd);
	fd = peer_connect(control_port);
	hello_make();
	msg.hello.resume = 1;
	expect_error(fd, WIRE_CODE_stale);
	(void)close(fd);
	/* a channel of an unknown fabric */
	fd = peer_connect(control_port);
	hello_make();
	msg.hello.channel = 255;
	expect_error(fd, WIRE_CODE_invalid);
	(void)close(fd);
	attack_end();
}

/* A session's id is not secret, so the token must protect it. */
static void attack_steal(void)
{
	int owner = peer_connect(control_port), thief;
	uint64_t session;

	attack_begin("resuming the session of another client");
	hello_make();
	must(ask(owner) && answer.type == WIRE_TYPE_welcome, "hello");
	session = answer.welcome.session;
	thief = peer_connect(control_port);
	hello_make();
	msg.hello.resume = session;
	memset(msg.hello.token, 0x5a, WIRE_TOKEN_BYTES);
	expect_error(thief, WIRE_CODE_stale);
	(void)close(thief);
	message(WIRE_TYPE_ping);
	must(ask(owner) && answer.type == WIRE_TYPE_ok, "the owner lost its session");
	session_bye(owner);
	attack_end();
}

static void attack_order(void)
{
	static const enum wire_type types[] = { WIRE_TYPE_allocate, WIRE_TYPE_ping,
						WIRE_TYPE_bye, WIRE_TYPE_list };
	int fd;

	attack_begin("requests before hello, two hellos, a server's messages");
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		fd = peer_connect(control_port);
		message(types[i]);
		(void)push(fd, frame, encode());
		expect_close(fd);
	}
	fd = session_open();
	hello_make();
	(void)push(fd, frame, encode());
	expect_close(fd);
	fd = session_open();
	message(WIRE_TYPE_welcome);
	(void)push(fd, frame, encode());
	expect_close(fd);
	attack_end();
}

static void attack_values(void)
{
	int fd = session_open();

	attack_begin("hostile values in well-formed requests");
	message(WIRE_TYPE_allocate);
	msg.allocate = (struct wire_allocate){ .bytes = UINT64_MAX, .node = -1 };
	expect_error(fd, 0);
	msg.allocate = (struct wire_allocate){ .bytes = UINT64_MAX - 4094, .node = -1 };
	expect_error(fd, 0);
	msg.allocate = (struct wire_allocate){ .bytes = 4096, .align = 3, .node = -1 };
	expect_error(fd, WIRE_CODE_invalid);
	msg.allocate = (struct wire_allocate){ .bytes = 4096,
					       .align = UINT64_C(1) << 63,
					       .node = -1 };
	expect_error(fd, WIRE_CODE_invalid);
	msg.allocate = (struct wire_allocate){ .bytes = 4096, .node = INT32_MIN };
	expect_error(fd, WIRE_CODE_invalid);
	message(WIRE_TYPE_free);
	msg.free.lease = 0;
	expect_error(fd, WIRE_CODE_stale);
	msg.free.lease = UINT64_MAX;
	expect_error(fd, WIRE_CODE_stale);
	message(WIRE_TYPE_attach);
	msg.attach = (struct wire_attach){ .rights = 3 };
	expect_error(fd, 0);
	msg.attach = (struct wire_attach){ .rights = 3, .name = "no such lease" };
	expect_error(fd, WIRE_CODE_missing);
	msg.attach = (struct wire_attach){ .rights = 0xff, .name = "no such lease" };
	expect_error(fd, WIRE_CODE_invalid);
	message(WIRE_TYPE_detach);
	msg.detach.lease = 77777777;
	expect_error(fd, WIRE_CODE_stale);
	message(WIRE_TYPE_renew);
	msg.renew = (struct wire_renew){ .lease = 77777777, .ttl_ms = UINT64_MAX };
	expect_error(fd, WIRE_CODE_stale);
	message(WIRE_TYPE_rename);
	msg.rename = (struct wire_rename){ .lease = 77777777, .name = "x" };
	expect_error(fd, WIRE_CODE_stale);
	message(WIRE_TYPE_resize);
	msg.resize = (struct wire_resize){ .lease = 77777777, .bytes = UINT64_MAX };
	expect_error(fd, WIRE_CODE_stale);
	message(WIRE_TYPE_remove);
	expect_error(fd, 0);
	message(WIRE_TYPE_stat);
	expect_error(fd, 0);
	message(WIRE_TYPE_open_channel);
	msg.open_channel.endpoint = 255;
	expect_error(fd, WIRE_CODE_invalid);
	message(WIRE_TYPE_join_channel);
	memset(&msg.join_channel, 0xff, sizeof(msg.join_channel));
	expect_error(fd, WIRE_CODE_invalid);
	msg.join_channel.channel = 0;
	expect_error(fd, WIRE_CODE_invalid);
	/* over TCP a channel is not joined */
	message(WIRE_TYPE_open_channel);
	must(ask(fd) && answer.type == WIRE_TYPE_channel, "open_channel");
	message(WIRE_TYPE_join_channel);
	memset(&msg.join_channel, 0xff, sizeof(msg.join_channel));
	msg.join_channel.channel = answer.channel.channel;
	expect_error(fd, WIRE_CODE_unsupported);
	session_bye(fd);
	attack_end();
}

static uint64_t allocate(int fd)
{
	message(WIRE_TYPE_allocate);
	msg.allocate = (struct wire_allocate){ .bytes = 5000, .node = -1 };
	must(ask(fd) && answer.type == WIRE_TYPE_lease, "allocate");
	return answer.lease.lease;
}

static void attack_lease_values(void)
{
	int fd = session_open(), other;
	uint64_t lease;

	attack_begin("hostile values for a lease, and another session's lease");
	lease = allocate(fd);
	message(WIRE_TYPE_resize);
	msg.resize = (struct wire_resize){ .lease = lease, .bytes = UINT64_MAX };
	expect_error(fd, 0);
	message(WIRE_TYPE_rename);
	msg.rename = (struct wire_rename){ .lease = lease, .name = "" };
	expect_error(fd, WIRE_CODE_invalid);
	msg.rename =
		(struct wire_rename){ .lease = lease, .name = "x", .flags = 0xfff0 };
	expect_error(fd, WIRE_CODE_invalid);
	other = session_open();
	message(WIRE_TYPE_free);
	msg.free.lease = lease;
	expect_error(other, WIRE_CODE_stale);
	message(WIRE_TYPE_resize);
	msg.resize = (struct wire_resize){ .lease = lease, .bytes = 1 };
	expect_error(other, WIRE_CODE_stale);
	message(WIRE_TYPE_attach);
	msg.attach = (struct wire_attach){ .lease = lease, .rights = 3 };
	expect_error(other, WIRE_CODE_invalid);
	msg.attach = (struct wire_attach){ .lease = lease };
	expect_error(other, WIRE_CODE_stale);
	message(WIRE_TYPE_rename);
	msg.rename = (struct wire_rename){ .lease = lease, .name = "mine" };
	expect_error(other, WIRE_CODE_stale);
	session_bye(other);
	session_bye(fd);
	attack_end();
}

static void watch_make(bool on, uint64_t lease)
{
	message(on ? WIRE_TYPE_watch : WIRE_TYPE_unwatch);
	msg.watch.lease = lease;
}

static void attack_watch(void)
{
	enum { LEASES = 200, ROUNDS = 50 };
	int fd = session_open(), other = session_open();
	uint64_t leases[LEASES], strange[] = { 0, 1, UINT64_MAX, 0 };

	attack_begin(
		"watching leases of others, unknown leases, and floods of watches");
	strange[3] = allocate(other);
	for (unsigned i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
		watch_make(true, strange[i]);
		expect_error(fd, WIRE_CODE_stale);
		watch_make(false, strange[i]);
		expect_error(fd, WIRE_CODE_stale);
	}
	for (unsigned i = 0; i < LEASES; i++)
		leases[i] = allocate(fd);
	/* each round sends all requests before it receives an answer */
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < LEASES; i++) {
			watch_make(round % 3 != 1, leases[i]);
			must(push(fd, frame, encode()), "a flood of watches ends it");
		}
		for (unsigned i = 0; i < LEASES; i++)
			must(answer_get(fd) && answer.type == WIRE_TYPE_ok, "watch");
	}
	session_bye(other);
	session_bye(fd);
	attack_end();
}

static void attack_random(unsigned rounds, bool welcome)
{
	attack_begin(welcome ? "random frames in a session"
			     : "random bytes instead of a hello");
	for (unsigned round = 0; round < rounds; round++) {
		int fd = welcome ? session_open() : peer_connect(control_port);
		size_t bytes = WIRE_HEADER_BYTES + (size_t)rand() % 300;
		uint8_t noise[WIRE_HEADER_BYTES + 300];

		for (size_t i = 0; i < bytes; i++)
			noise[i] = (uint8_t)rand();
		if (welcome || rand() % 2) {
			uint32_t length = (uint32_t)bytes;

			memcpy(noise, &length, 4);
			/* all requests, and a few numbers of none */
			noise[4] = (uint8_t)(rand() % 24);
			noise[5] = noise[6] = noise[7] = 0;
		}
		(void)push(fd, noise, bytes);
		(void)shutdown(fd, SHUT_WR);
		while (answer_get(fd))
			;
		(void)close(fd);
	}
	attack_end();
}

static void attack_deaf(void)
{
	int fd = session_open(), small = 4096;
	struct timeval tv = { .tv_sec = 2 };
	size_t bytes;

	attack_begin("a client that never reads its answers");
	must(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)) == 0,
	     "SO_RCVBUF");
	must(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) == 0,
	     "SO_SNDTIMEO");
	for (unsigned i = 0; i < 200000; i++) {
		message(WIRE_TYPE_list);
		bytes = encode();
		if (!push(fd, frame, bytes))
			break;
	}
	service_check();
	(void)close(fd);
	attack_end();
}

/* More connections than the limit of unauthenticated ones.  Some are refused; once all are
 * closed, the daemon accepts new ones. */
static void attack_flood(void)
{
	enum { N = 300 };
	int fds[N];

	attack_begin("a flood of connections that say nothing");
	for (unsigned i = 0; i < N; i++)
		fds[i] = peer_connect(control_port);
	for (unsigned i = 0; i < N; i++)
		(void)close(fds[i]);
	attack_end();
}

static void attack_data_port(unsigned rounds)
{
	attack_begin("random bytes on the data port");
	for (unsigned round = 0; round < rounds; round++) {
		int fd = peer_connect(data_port);
		uint8_t noise[256];
		size_t bytes = (size_t)rand() % sizeof(noise);

		for (size_t i = 0; i < bytes; i++)
			noise[i] = (uint8_t)rand();
		(void)push(fd, noise, bytes);
		(void)close(fd);
	}
	attack_end();
}

/* ---- tokens ---- */

/* The status of a data connection that presents a token; `named` (NULL: none) is the source that
 * its session names. */
static uint32_t present_on(int fd, const char *named,
			   const struct wire_welcome *welcome, uint32_t channel)
{
	uint8_t bytes[FABRIC_HELLO_BYTES], gid[16];
	struct fabric_hello hello = { .session = welcome->session, .channel = channel };
	struct stream_status status;
	struct fabric_address from;

	admission_token(welcome->secret, hello.session, channel, hello.token);
	if (named) {
		must(fabric_address_parse(named, &from) == 0, "an address");
		fabric_address_to_gid(&from, gid);
		admission_origin(welcome->secret, hello.session, channel, gid,
				 hello.origin);
	}
	fabric_hello_encode(&hello, bytes);
	must(push(fd, bytes, sizeof(bytes)), "sending a hello");
	must(recv(fd, &status, sizeof(status), MSG_WAITALL) == sizeof(status),
	     "an answer to a hello");
	return le32toh(status.status);
}

/* Likewise, of one from this source, which is closed then. */
static uint32_t present(const char *source, const char *named,
			const struct wire_welcome *welcome, uint32_t channel)
{
	int fd = peer_connect_from(source, data_port);
	uint32_t status = present_on(fd, named, welcome, channel);

	(void)close(fd);
	return status;
}

static uint32_t channel_open(int fd, uint8_t endpoint)
{
	message(WIRE_TYPE_open_channel);
	msg.open_channel.endpoint = endpoint;
	must(ask(fd) && answer.type == WIRE_TYPE_channel, "a channel");
	return answer.channel.channel;
}

/* A token that somebody has seen is worth nothing from another address, or twice. */
static void attack_stolen_token(void)
{
	static const char other[] = "127.0.0.2", third[] = "127.0.0.3";
	int fd = session_open(), data_fd;
	const struct wire_welcome welcome = answer.welcome;
	uint8_t endpoint = 0;
	uint32_t channel;

	attack_begin("stolen tokens of data channels");
	while (welcome.endpoints[endpoint].fabric != WIRE_FABRIC_TCP)
		must(++endpoint < welcome.n_endpoints, "TCP");
	channel = channel_open(fd, endpoint);
	must(present(other, NULL, &welcome, channel) == WIRE_CODE_forbidden,
	     "a token from another address");
	must(present(other, third, &welcome, channel) == WIRE_CODE_forbidden,
	     "a token for a third address");
	/* open, so that the channel is still there for the second one */
	data_fd = peer_connect_from(address, data_port);
	must(present_on(data_fd, NULL, &welcome, channel) == WIRE_CODE_none, "a token");
	must(present(address, NULL, &welcome, channel) == WIRE_CODE_invalid,
	     "a token again");
	(void)close(data_fd);
	channel = channel_open(fd, endpoint);
	must(present(other, other, &welcome, channel) == WIRE_CODE_none,
	     "a token for another address, which the session names");
	session_bye(fd);
	attack_end();
}

int main(int argc, char **argv)
{
	unsigned seed;

	if (argc != 5) {
		(void)fprintf(stderr,
			      "usage: hostile ADDRESS CONTROL_PORT DATA_PORT SEED\n");
		return 2;
	}
	address = argv[1];
	control_port = argv[2];
	data_port = argv[3];
	seed = (unsigned)strtoul(argv[4], NULL, 0);
	(void)printf("hostile: seed %u\n", seed);
	srand(seed);
	service_check();
	attack_truncated();
	attack_lengths();
	attack_hello();
	attack_steal();
	attack_order();
	attack_values();
	attack_lease_values();
	attack_watch();
	attack_random(200, false);
	attack_random(200, true);
	attack_deaf();
	attack_flood();
	if (strcmp(data_port, "0") != 0) {
		attack_data_port(200);
		/* from other addresses of this host */
		if (strcmp(address, "127.0.0.1") == 0)
			attack_stolen_token();
	}
	return 0;
}
