/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections that take slots, time and work: too many, too slow, half open, without an end. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "attack.h"
#include "base/clock.h"
#include "hello.h"
#include "peer.h"

#define SLOT "status counters refused slot"
#define LATE "status counters refused late"
#define WRONG_KEY "status counters refused wrong_key"
#define CHANNELS "devices tcp refused"
/* [limits] connections of the daemon */
#define SLOTS 32u
#define MANY (2 * SLOTS)
#define HANDSHAKES 100u
#define END_MS 10000 /* until the server ends a connection */

static int connect_to(uint16_t port)
{
	int fd = socket_open(attack_options.address, port, NULL);

	must(fd >= 0, "connecting");
	return fd;
}

/* Wait until as many of these connections have ended as there are too many; which of them depends
 * on who is in its handshake by then. */
static void excess_await(const int *fds)
{
	uint64_t until_ms = clock_now_ms() + END_MS;
	bool over[MANY] = { false };
	unsigned ended = 0;

	for (unsigned i = 0; ended < MANY - SLOTS && clock_now_ms() < until_ms;
	     i = (i + 1) % MANY) {
		over[i] = over[i] || socket_await_end(fds[i], 1);
		ended = 0;
		for (unsigned at = 0; at < MANY; at++)
			ended += over[at];
	}
	if (ended >= MANY - SLOTS)
		attempt_refused("the server: as many as are too many");
	else
		attempt_admitted("more connections than there are slots");
}

/* Open many connections that say next to nothing. */
static void many_try(const char *what, const char *counter, uint16_t port)
{
	static const uint8_t begin = 22;
	int fds[MANY];

	attempt(what, counter, MANY - SLOTS);
	for (unsigned i = 0; i < MANY; i++) {
		fds[i] = connect_to(port);
		/* the kernel holds back connections without a byte */
		must(send(fds[i], &begin, 1, MSG_NOSIGNAL) == 1, "sending");
	}
	excess_await(fds);
	for (unsigned i = 0; i < MANY; i++)
		(void)close(fds[i]);
}

/* As many as there are slots that end behind a good handshake, and then others of their
 * address. */
static void idle_try(void)
{
	struct hello_offer offer = hello_offer_of("mallory", "mallory");
	uint8_t first[4096];
	size_t bytes = hello_first(&offer, first, sizeof(first));
	struct peer *peers[SLOTS];
	int fds[MANY];

	attempt("many connections without a hello", SLOT, MANY - SLOTS);
	for (unsigned i = 0; i < SLOTS; i++) {
		peers[i] = peer_connect("mallory");
		fds[i] = peers[i]->stream.fd;
	}
	for (unsigned i = SLOTS; i < MANY; i++) {
		fds[i] = connect_to(attack_options.control_port);
		(void)!send(fds[i], first, bytes, MSG_NOSIGNAL);
	}
	excess_await(fds);
	for (unsigned i = 0; i < SLOTS; i++)
		peer_close(peers[i]);
	for (unsigned i = SLOTS; i < MANY; i++)
		(void)close(fds[i]);
}

/* Send a byte a second on each socket until the server ends it; the number that it ended. */
static unsigned drip(const int *fds, unsigned n, const uint8_t *bytes, size_t n_bytes)
{
	unsigned ended = 0;

	for (size_t at = 0; at < n_bytes && at < 15 && ended < n; at++) {
		ended = 0;
		for (unsigned i = 0; i < n; i++) {
			(void)!send(fds[i], bytes + at, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
			ended += socket_await_end(fds[i], i == 0 ? 1000 : 1);
		}
	}
	return ended;
}

static void slow_try(void)
{
	/* the begin of a client's hello of TLS, and of a channel's */
	static const uint8_t client[] = {
		22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3, 7, 7, 7, 7
	};
	static const uint8_t channel[] = "rmmh\044\0\2\0aaaaaaaaaaaa";
	struct peer *late = peer_connect("mallory");
	int fds[2] = { connect_to(attack_options.control_port), late->stream.fd };
	unsigned ended;

	attempt("a handshake, and a hello, a byte a second", LATE, 2);
	ended = drip(fds, 1, client, sizeof(client));
	ended += socket_await_end(fds[1], END_MS);
	if (ended == 2)
		attempt_refused("the server: after 5 s");
	else
		attempt_admitted("the connections stay");
	(void)close(fds[0]);
	peer_close(late);
	if (attack_options.fabric != FABRIC_TCP)
		return;
	fds[0] = connect_to(attack_options.data_port);
	attempt("a channel's hello, a byte a second", CHANNELS, 1);
	if (drip(fds, 1, channel, sizeof(channel)) == 1)
		attempt_refused("the server: after 5 s");
	else
		attempt_admitted("the connection stays");
	(void)close(fds[0]);
}

/* Handshakes that end in nothing, one after the other. */
static void endless_try(void)
{
	struct hello_offer offer = hello_offer_of("mallory", "red");
	unsigned n = HANDSHAKES * attack_options.rounds, refused = 0;

	attempt("handshakes with a wrong key without an end", WRONG_KEY, n);
	for (unsigned i = 0; i < n; i++)
		refused += hello_say(&offer, NULL) < 0;
	attempt_result(refused == n ? -EACCES : 0, "the server: each of them");
}

/* More sessions, and channels, than a tenant may have. */
static void quotas_try(void)
{
	struct peer *first = peer_open("narrow"), *second = peer_open("narrow");
	struct peer *third = peer_connect("narrow");

	attempt("more sessions than a tenant may have", "status counters refused quota",
		1);
	attempt_result(peer_hello(third, "narrow", 0, NULL), "the server: hello");
	peer_close(third);
	attempt("more channels than a tenant may have",
		"status counters requests_refused quota", 1);
	for (unsigned i = 0; i < 4; i++)
		(void)peer_grant(first);
	peer_message(first, WIRE_TYPE_open_channel);
	first->msg.open_channel.endpoint = (uint8_t)peer_endpoint(first);
	attempt_result(peer_ask(first), "the server: request");
	attempt("a longer lease than a tenant may have", "tenants narrow refused", 1);
	peer_message(second, WIRE_TYPE_allocate);
	second->msg.allocate.bytes = UINT64_C(1) << 40;
	second->msg.allocate.node = -1;
	attempt_result(peer_ask(second), "the server: request");
	peer_bye(second);
	peer_bye(first);
}

void attack_handshakes(void)
{
	many_try("many connections that send a byte", SLOT,
		 attack_options.control_port);
	idle_try();
	if (attack_options.fabric == FABRIC_TCP)
		many_try("many channels that send a byte", CHANNELS,
			 attack_options.data_port);
	slow_try();
	endless_try();
	quotas_try();
}
