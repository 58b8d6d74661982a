/* SPDX-License-Identifier: BSD-3-Clause */
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tls/admission.h"
#include "tls/context.h"
#include "wire/codec.h"
#include "wire/errors.h"

#define PEERS_MAX 16
#define SILENT_MS 1000
#define ID_RESUMED 100000

/* Those that have sessions. */
static struct peer *peers[PEERS_MAX];

/* ---- sockets ---- */

static struct sockaddr_in address_of(const char *text, uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };

	must(inet_pton(AF_INET, text, &address.sin_addr) == 1, "an IPv4 address");
	return address;
}

int socket_open(const char *to, uint16_t port, const char *from)
{
	struct sockaddr_in address = address_of(to, port), source;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(fd >= 0, "a socket");
	if (from) {
		source = address_of(from, 0);
		must(!bind(fd, (const struct sockaddr *)&source, sizeof(source)),
		     "bind");
	}
	if (!connect(fd, (const struct sockaddr *)&address, sizeof(address)))
		return fd;
	(void)close(fd);
	return -errno;
}

bool socket_await(int fd, int ms)
{
	struct pollfd at = { .fd = fd, .events = POLLIN };

	return poll(&at, 1, ms) > 0;
}

bool socket_await_end(int fd, int ms)
{
	uint64_t until_ms = clock_now_ms() + (uint64_t)ms;
	char buf[4096];
	ssize_t n;

	for (;;) {
		uint64_t now_ms = clock_now_ms();

		if (now_ms >= until_ms || !socket_await(fd, (int)(until_ms - now_ms)))
			return false;
		n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return true;
	}
}

/* ---- connecting ---- */

static struct tls_context *context_of(const char *tenant)
{
	struct tls_params params = { 0 };
	struct tls_context *context;
	char path[300];

	(void)snprintf(path, sizeof(path), "%s/%s.psk", attack_options.folder, tenant);
	must(!tls_keys_load(path, &params.keys), "the key of a tenant");
	must(!tls_context_client(&params, attack_options.address, &context), "TLS");
	return context;
}

/* Wait for the socket of a stream. */
static void stream_await(struct stream *stream)
{
	struct pollfd at = { .fd = stream->fd,
			     .events = stream->wants_out ? POLLOUT : POLLIN };

	must(poll(&at, 1, ATTACK_WAIT_MS) > 0, "the daemon does not answer");
}

static struct peer *connect_from(const char *tenant, const char *from)
{
	struct tls_context *context = context_of(tenant);
	struct peer *peer = calloc(1, sizeof(*peer));
	int fd = socket_open(attack_options.address, attack_options.control_port, from);
	int err;

	must(peer && fd >= 0, "connecting");
	(void)snprintf(peer->tenant, sizeof(peer->tenant), "%s", tenant);
	must(!stream_tls(&peer->stream, fd, context), "TLS");
	tls_context_unref(context);
	while ((err = stream_handshake(&peer->stream)) == -EAGAIN)
		stream_await(&peer->stream);
	must(!err, "a handshake with a good key");
	return peer;
}

struct peer *peer_connect(const char *tenant)
{
	return connect_from(tenant, NULL);
}

static void peer_put(struct peer *from, struct peer *to)
{
	for (unsigned i = 0; i < PEERS_MAX; i++) {
		if (peers[i] != from)
			continue;
		peers[i] = to;
		return;
	}
	must(from, "too many peers");
}

int peer_hello(struct peer *peer, const char *tenant, uint64_t resume,
	       const uint8_t *token)
{
	struct wire_hello *hello = &peer->msg.hello;
	int err;

	peer_message(peer, WIRE_TYPE_hello);
	hello->magic = WIRE_MAGIC;
	hello->version_min = WIRE_VERSION_MIN;
	hello->version_max = WIRE_VERSION_MAX;
	(void)snprintf(hello->tenant, sizeof(hello->tenant), "%s", tenant);
	(void)strcpy(hello->client, "attacker");
	hello->resume = resume;
	if (token)
		memcpy(hello->token, token, sizeof(hello->token));
	/* ids rise over all connections of a session */
	if (resume)
		peer->next_id += ID_RESUMED;
	err = peer_ask(peer);
	if (err)
		return err;
	must(peer->answer.type == WIRE_TYPE_welcome, "a hello has another answer");
	peer->welcome = peer->answer.welcome;
	peer->session = peer->welcome.session;
	memcpy(peer->token, peer->welcome.token, sizeof(peer->token));
	memcpy(peer->secret, peer->welcome.secret, sizeof(peer->secret));
	peer_put(NULL, peer);
	return 0;
}

struct peer *peer_open_from(const char *tenant, const char *from)
{
	struct peer *peer = connect_from(tenant, from);

	must(!peer_hello(peer, tenant, 0, NULL), "a good hello is refused");
	return peer;
}

struct peer *peer_open(const char *tenant)
{
	return peer_open_from(tenant, NULL);
}

void peer_close(struct peer *peer)
{
	peer_put(peer, NULL);
	stream_close(&peer->stream);
	free(peer);
}

void peer_bye(struct peer *peer)
{
	peer_message(peer, WIRE_TYPE_bye);
	must(!peer_ask(peer), "a good bye is refused");
	peer_close(peer);
}

/* ---- messages ---- */

void peer_message(struct peer *peer, enum wire_type type)
{
	wire_msg_init(&peer->msg, type);
}

bool peer_send(struct peer *peer, const void *bytes, size_t n)
{
	const char *at = bytes;

	while (n > 0) {
		ssize_t sent = stream_send(&peer->stream, at, n);
		struct pollfd out = { .fd = peer->stream.fd, .events = POLLOUT };

		if (sent < 0 && sent != -EAGAIN)
			return false;
		if (sent < 0 && poll(&out, 1, ATTACK_WAIT_MS) <= 0)
			return false;
		if (sent > 0) {
			at += sent;
			n -= (size_t)sent;
		}
	}
	return true;
}

static bool pull(struct peer *peer, uint8_t *at, size_t n)
{
	while (n > 0) {
		ssize_t got = stream_receive(&peer->stream, at, n);

		if (got == -EAGAIN)
			stream_await(&peer->stream);
		else if (got <= 0)
			return false;
		if (got > 0) {
			at += got;
			n -= (size_t)got;
		}
	}
	return true;
}

int peer_receive(struct peer *peer)
{
	static uint8_t frame[WIRE_FRAME_MAX];

	do {
		int bytes;

		if (!pull(peer, frame, WIRE_HEADER_BYTES))
			return -ECONNRESET;
		bytes = wire_frame_bytes(frame, WIRE_HEADER_BYTES);
		must(bytes > 0, "a frame of the daemon has an impossible length");
		if (!pull(peer, frame + WIRE_HEADER_BYTES,
			  (size_t)bytes - WIRE_HEADER_BYTES))
			return -ECONNRESET;
		must(!wire_decode(frame, (size_t)bytes, &peer->answer),
		     "a frame of the daemon is malformed");
	} while (peer->answer.id == 0 && peer->answer.type >= WIRE_TYPE_revoked);
	if (peer->answer.type == WIRE_TYPE_error)
		return wire_code_errno(peer->answer.error.code);
	return 0;
}

int peer_ask(struct peer *peer)
{
	static uint8_t frame[WIRE_FRAME_MAX];
	int bytes;

	peer->msg.id = ++peer->next_id;
	peer->heard_ms = clock_now_ms();
	bytes = wire_encode(&peer->msg, frame, sizeof(frame));
	must(bytes > 0, "a message cannot be encoded");
	if (!peer_send(peer, frame, (size_t)bytes))
		return -ECONNRESET;
	return peer_receive(peer);
}

void peer_ping(struct peer *peer)
{
	peer_message(peer, WIRE_TYPE_ping);
	must(!peer_ask(peer), "a ping is refused");
}

static void peer_keep(struct peer *peer)
{
	static struct wire_msg msg, answer;

	if (!peer || clock_now_ms() - peer->heard_ms < SILENT_MS)
		return;
	msg = peer->msg;
	answer = peer->answer;
	peer_message(peer, WIRE_TYPE_ping);
	/* its session may have ended, as that is what is tried */
	(void)peer_ask(peer);
	peer->msg = msg;
	peer->answer = answer;
}

void peers_keep(void)
{
	for (unsigned i = 0; i < PEERS_MAX; i++)
		peer_keep(peers[i]);
}

/* ---- channels ---- */

unsigned peer_endpoint(const struct peer *peer)
{
	enum wire_fabric wanted = attack_options.fabric == FABRIC_TCP
					  ? WIRE_FABRIC_TCP
					  : WIRE_FABRIC_VERBS;

	for (unsigned i = 0; i < peer->welcome.n_endpoints; i++)
		if (peer->welcome.endpoints[i].fabric == wanted)
			return i;
	must(false, "the server has no such fabric");
}

struct fabric_hello peer_hello_of(const struct peer *peer, uint32_t channel)
{
	struct fabric_hello hello = { .session = peer->session, .channel = channel };

	_Static_assert(sizeof(hello.token) == ADMISSION_BYTES, "a token");
	admission_token(peer->secret, peer->session, channel, hello.token);
	return hello;
}

struct fabric_hello peer_grant(struct peer *peer)
{
	peer_message(peer, WIRE_TYPE_open_channel);
	peer->msg.open_channel.endpoint = (uint8_t)peer_endpoint(peer);
	must(!peer_ask(peer), "a channel is not granted");
	return peer_hello_of(peer, peer->answer.channel.channel);
}

/* ---- leases ---- */

static struct holding holding_of(const struct peer *peer)
{
	const struct wire_lease *lease = &peer->answer.lease;
	struct holding holding = { .lease = lease->lease, .bytes = lease->bytes };
	unsigned endpoint = peer_endpoint(peer);

	must(lease->n_segments == 1, "a small lease has several segments");
	for (unsigned i = 0; i < lease->n_keys; i++)
		if (lease->keys[i].endpoint == endpoint)
			holding.key = (struct fabric_key){ lease->keys[i].addr,
							   lease->keys[i].rkey };
	return holding;
}

struct holding peer_allocate(struct peer *peer, uint64_t bytes, const char *name)
{
	peer_message(peer, WIRE_TYPE_allocate);
	peer->msg.allocate.bytes = bytes;
	peer->msg.allocate.node = -1;
	peer->msg.allocate.reach = (uint8_t)(1u << peer_endpoint(peer));
	if (name)
		(void)snprintf(peer->msg.allocate.name, sizeof(peer->msg.allocate.name),
			       "%s", name);
	must(!peer_ask(peer), "a good allocation is refused");
	return holding_of(peer);
}

int peer_attach(struct peer *peer, const char *tenant, const char *name,
		unsigned rights, struct holding *ret_holding)
{
	int err;

	peer_message(peer, WIRE_TYPE_attach);
	peer->msg.attach.rights = (uint8_t)rights;
	peer->msg.attach.reach = (uint8_t)(1u << peer_endpoint(peer));
	(void)snprintf(peer->msg.attach.name, sizeof(peer->msg.attach.name), "%s",
		       name);
	(void)snprintf(peer->msg.attach.tenant, sizeof(peer->msg.attach.tenant), "%s",
		       tenant);
	err = peer_ask(peer);
	if (!err && ret_holding)
		*ret_holding = holding_of(peer);
	return err;
}

int peer_free(struct peer *peer, uint64_t lease)
{
	peer_message(peer, WIRE_TYPE_free);
	peer->msg.free.lease = lease;
	return peer_ask(peer);
}

int peer_share(struct peer *peer, uint64_t lease, const char *tenant, unsigned rights)
{
	peer_message(peer, WIRE_TYPE_share);
	peer->msg.share.lease = lease;
	peer->msg.share.rights = (uint8_t)rights;
	(void)snprintf(peer->msg.share.tenant, sizeof(peer->msg.share.tenant), "%s",
		       tenant);
	return peer_ask(peer);
}
