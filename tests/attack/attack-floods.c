/* SPDX-License-Identifier: BSD-3-Clause */
/* What the daemon keeps for a peer that sends without an end, or reads nothing, in each state that
 * each of its sockets can be in: its anonymous memory, which must not grow beyond what
 * rmem-deployment(7) says.  What waits in sockets is the kernel's, which bounds it, and does not
 * count here. */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "attack.h"
#include "fabric/tcp/stream.h"
#include "hello.h"
#include "peer.h"
#include "wire/codec.h"

/* At a time; a page of memory more or less, of the daemon, is then little for each. */
#define PEERS 16
/* Each of them sends up to this much, in pieces, if it is not stopped. */
#define PIECE_BYTES 65536
#define PIECES 96
#define IDLE_MS 20
#define IDLE_MAX 5

/* In KiB, as in rmem-deployment(7). */
#define STRANGER_KIB 128 /* before the handshake is done */
#define SECURE_KIB 160   /* after the handshake, before the hello */
#define SESSION_KIB 256
#define CHANNEL_KIB 24
#define HTTP_KIB 384
#define LEDGER_KIB 6144 /* three huge pages */

#ifdef __SANITIZE_ADDRESS__
#define LIMIT_FACTOR 10 /* freed memory stays, and there is more beside each piece */
#else
#define LIMIT_FACTOR 1
#endif

/* ---- the daemon's memory ---- */

static uint64_t memory_kib(void)
{
	return usage_memory_kib(counter_get("status pid"));
}

static uint64_t before_kib, most_kib;

static void memory_look(void)
{
	uint64_t now = memory_kib();

	if (now > most_kib)
		most_kib = now;
}

static void flood_begin(const char *what)
{
	/* memory that was freed would hide what is kept now */
	daemon_restart("SIGTERM");
	attempt(what, NULL, 1);
	/* the daemon has answered once in each way */
	(void)admin_request("GET", "/v1/leases");
	(void)admin_request("GET", "/metrics");
	peer_bye(peer_open("mallory"));
	before_kib = most_kib = memory_kib();
}

static void flood_end(uint64_t limit_kib)
{
	uint64_t each = (most_kib - before_kib) / PEERS;

	attempt_measured(each, limit_kib * LIMIT_FACTOR, "KiB for each peer");
}

/* ---- bytes on sockets ---- */

/* CHANNEL: a channel that is admitted. */
enum where { CONTROL, DATA, CHANNEL, ADMIN, METRICS };

/* The sessions of such channels: of each four are put under TLS at a time. */
static struct peer *holders[PEERS / 4];

static int flood_connect(enum where where, unsigned i)
{
	const uint16_t ports[] = { [CONTROL] = attack_options.control_port,
				   [DATA] = attack_options.data_port,
				   [METRICS] = attack_options.metrics_port };
	int fd;

	if (where == CHANNEL) {
		if (!holders[i / 4])
			holders[i / 4] = peer_open("mallory");
		return channel_open(holders[i / 4]);
	}
	fd = where == ADMIN ? admin_connect()
			    : socket_open(attack_options.address, ports[where], NULL);
	must(fd >= 0, "connecting");
	return fd;
}

struct flooder {
	int fd; /* -1: the daemon has closed it */
	size_t sent;
};

/* A piece to each that takes one, from where the last one ended; whether any did. */
static bool pieces_send(struct flooder *flooders, const char *piece, size_t period)
{
	bool sent = false;

	for (struct flooder *at = flooders; at < flooders + PEERS; at++) {
		size_t skip = at->sent % period;
		ssize_t n = at->fd < 0 ? 0
				       : send(at->fd, piece + skip, PIECE_BYTES - skip,
					      MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno != EAGAIN) {
			(void)close(at->fd);
			at->fd = -1;
		}
		if (n > 0)
			at->sent += (size_t)n;
		sent |= n > 0;
	}
	return sent;
}

/* Send the same again and again until all are closed, or the daemon takes no more. */
static void pieces_flood(struct flooder *flooders, const char *fill)
{
	size_t period = *fill ? strlen(fill) : 1;
	static char piece[PIECE_BYTES];
	unsigned idle = 0;

	for (size_t i = 0; i < sizeof(piece); i++)
		piece[i] = fill[i % period];
	for (unsigned i = 0; i < PIECES && idle < IDLE_MAX; i++) {
		idle = pieces_send(flooders, piece, period) ? 0 : idle + 1;
		if (idle)
			(void)poll(NULL, 0, IDLE_MS);
		memory_look();
	}
}

/* Connections that begin with `head`, and go on with `fill`, "": zeros. */
static void bytes_flood(const char *what, enum where where, const void *head,
			size_t head_bytes, const char *fill, uint64_t limit_kib)
{
	struct flooder flooders[PEERS] = { 0 };

	flood_begin(what);
	for (unsigned i = 0; i < PEERS; i++) {
		flooders[i].fd = flood_connect(where, i);
		must(send(flooders[i].fd, head, head_bytes, MSG_NOSIGNAL) ==
			     (ssize_t)head_bytes,
		     "sending");
	}
	/* it answers, or waits for more */
	(void)poll(NULL, 0, IDLE_MS);
	memory_look();
	pieces_flood(flooders, fill);
	for (unsigned i = 0; i < PEERS; i++) {
		if (flooders[i].fd >= 0)
			(void)close(flooders[i].fd);
		if (holders[i / 4])
			peer_close(holders[i / 4]);
		holders[i / 4] = NULL;
	}
	flood_end(limit_kib);
}

/* Records of a handshake that says that it has 16 MiB. */
static const uint8_t endless[] = { 22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff };

/* Where TLS is spoken. */
static void tls_flood(const char *socket, enum where where)
{
	static const struct {
		const char *what, *fill;
		bool hello;
		size_t head_bytes;
	} rows[] = {
		{ "garbage behind a byte of TLS", "x", false, 1 },
		{ "a first message of TLS of 16 MiB", "\1", false, sizeof(endless) },
		{ "more behind a hello of TLS", "\26", true, SIZE_MAX },
		{ "half a hello of TLS, and zeros", "", true, 150 },
	};
	uint8_t hello[2048];
	size_t n = hello_first(&(struct hello_offer){ 0 }, hello, sizeof(hello));
	char what[80];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		(void)snprintf(what, sizeof(what), "%s: %s", socket, rows[i].what);
		bytes_flood(what, where, rows[i].hello ? hello : endless,
			    rows[i].head_bytes == SIZE_MAX ? n : rows[i].head_bytes,
			    rows[i].fill, STRANGER_KIB);
	}
}

static void strangers_try(void)
{
	/* the begin of a channel's hello */
	static const uint8_t channel[] = "rmmh\044\0\2\0";

	tls_flood("control", CONTROL);
	bytes_flood("channels: zeros", DATA, "", 1, "", STRANGER_KIB);
	bytes_flood("channels: half a hello, then garbage", DATA, channel,
		    sizeof(channel) - 1, "x", STRANGER_KIB);
}

/* ---- HTTP ---- */

/* As many headers as there can be, each of which the daemon keeps. */
static const char *headers(void)
{
	static char text[8000];

	if (!*text) {
		(void)strcpy(text, "GET / HTTP/1.1\r\n");
		for (char *at = text + strlen(text); at < text + 7990; at += 3)
			(void)strcpy(at, "a:\n");
	}
	return text;
}

static void http_flood(const char *what, enum where where, const char *head,
		       const char *fill)
{
	char name[80];

	(void)snprintf(name, sizeof(name), "%s: %s",
		       where == ADMIN ? "admin" : "metrics", what);
	bytes_flood(name, where, head, strlen(head), fill, HTTP_KIB);
}

static void http_try(enum where where)
{
	http_flood("a line without an end", where, "GET /", "x");
	http_flood("many headers", where, headers(), "x");
	http_flood("a long body", where,
		   "POST /v1/reload HTTP/1.1\r\nContent-Length: 4096\r\n\r\n", "x");
	http_flood("the length of a chunk without an end", where,
		   "POST /v1/status HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
		   "1");
	http_flood("requests whose answers are not read", where,
		   "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\n\r\n");
	http_flood("the same, of answers in parts", where,
		   "GET /metrics HTTP/1.1\r\n\r\n", "GET /metrics HTTP/1.1\r\n\r\n");
	http_flood("more behind a request for events that come", where,
		   "GET /v1/events?follow=yes HTTP/1.1\r\n\r\n", "x");
}

/* ---- peers with a key ---- */

static void peers_end(struct peer **peers)
{
	for (unsigned i = 0; i < PEERS; i++)
		peer_close(peers[i]);
}

/* The greatest frame without its end, and one byte less. */
static void frame_flood(const char *what, bool session, uint64_t limit_kib)
{
	static const uint8_t nothing[WIRE_FRAME_MAX];
	uint8_t header[WIRE_HEADER_BYTES] = { 0, 0, 1, 0, WIRE_TYPE_ping };
	struct peer *peers[PEERS];

	flood_begin(what);
	for (unsigned i = 0; i < PEERS; i++) {
		peers[i] = session ? peer_open("mallory") : peer_connect("mallory");
		/* the server may have closed it */
		(void)peer_send(peers[i], header, sizeof(header));
		(void)peer_send(peers[i], nothing, WIRE_FRAME_MAX - sizeof(header) - 1);
	}
	for (unsigned i = 0; i < IDLE_MAX; i++) {
		(void)poll(NULL, 0, IDLE_MS);
		memory_look();
	}
	peers_end(peers);
	flood_end(limit_kib);
}

/* Send requests until the daemon takes no more, or has closed the connection. */
static void requests_send(struct peer *peer)
{
	static uint8_t frame[WIRE_FRAME_MAX];
	struct pollfd out = { .fd = peer->stream.fd, .events = POLLOUT };

	for (;;) {
		ssize_t bytes, sent;

		peer->msg.id = ++peer->next_id;
		bytes = wire_encode(&peer->msg, frame, sizeof(frame));
		must(bytes > 0, "a request");
		sent = stream_send(&peer->stream, frame, (size_t)bytes);
		if (sent != bytes && (sent != -EAGAIN || poll(&out, 1, IDLE_MS) <= 0))
			return;
	}
}

/* Requests whose answers, long ones, are not read. */
static void unread_flood(void)
{
	struct peer *peers[PEERS], *maker;
	char name[250];

	flood_begin("control: answers that are not read");
	maker = peer_open("mallory");
	memset(name, 'f', sizeof(name));
	for (unsigned i = 0; i < 40; i++) {
		(void)snprintf(name + 190, 10, "%u", i);
		(void)peer_allocate(maker, 4096, name);
	}
	peer_close(maker);
	for (unsigned i = 0; i < PEERS; i++) {
		peers[i] = peer_open("mallory");
		peer_message(peers[i], WIRE_TYPE_list);
		requests_send(peers[i]);
		memory_look();
	}
	peers_end(peers);
	flood_end(SESSION_KIB);
}

/* Requests that fail, which are remembered.  False: one is refused otherwise. */
static bool errors_ask(struct peer *peer)
{
	for (unsigned n = 0; n < 300; n++) {
		peer_message(peer, WIRE_TYPE_attach);
		memset(peer->msg.attach.name, 'n', WIRE_NAME_MAX);
		peer->msg.attach.rights = WIRE_RIGHT_READ;
		if (peer_ask(peer) != -ENOENT)
			return false;
	}
	return true;
}

static void errors_flood(void)
{
	struct peer *peers[PEERS];

	flood_begin("control: many requests that fail");
	for (unsigned i = 0; i < PEERS; i++) {
		peers[i] = peer_open("mallory");
		must(errors_ask(peers[i]), "a lease that is not there");
	}
	memory_look();
	peers_end(peers);
	flood_end(SESSION_KIB);
}

static void peers_try(void)
{
	frame_flood("control: a hello that does not end", false, SECURE_KIB);
	frame_flood("control: a request that does not end", true, SESSION_KIB);
	errors_flood();
	unread_flood();
}

/* ---- channels ---- */

/* Channels that are admitted, and then send `request` again and again, or its bytes. */
static void channels_flood(const char *what, const struct stream_request *request,
			   bool bytes, uint64_t limit_kib)
{
	static const char nothing[PIECE_BYTES];
	struct peer *peer;
	int fds[PEERS];

	flood_begin(what);
	peer = peer_open("mallory");
	for (unsigned i = 0; i < PEERS; i++)
		fds[i] = channel_open(peer);
	for (unsigned i = 0; i < PEERS; i++)
		for (unsigned n = 0; n < 256; n++)
			if (send(fds[i], bytes && n ? nothing : (const void *)request,
				 bytes && n ? 1024 : sizeof(*request),
				 MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
				break;
	for (unsigned i = 0; i < IDLE_MAX; i++) {
		(void)poll(NULL, 0, IDLE_MS);
		memory_look();
	}
	for (unsigned i = 0; i < PEERS; i++)
		(void)close(fds[i]);
	peer_close(peer);
	flood_end(limit_kib);
}

static void channels_try(void)
{
	struct stream_request request = { .op = htole16(STREAM_READ),
					  .bytes = htole32(FABRIC_STREAM_BYTES_MAX) };

	channels_flood("channels: reads whose answers are not read", &request, false,
		       CHANNEL_KIB);
	request.op = htole16(STREAM_WRITE);
	channels_flood("channels: a write that does not end", &request, true,
		       CHANNEL_KIB);
}

void attack_floods(void)
{
	strangers_try();
	peers_try();
	channels_try();
	http_try(ADMIN);
	http_try(METRICS);
}

void attack_floods_tls(void)
{
	tls_flood("channels under TLS", CHANNEL);
}

/* ---- the ledger, which is of all tenants ---- */

/* With the latest replies of each as many as there can be, the ledger would have twice its room. */
#define SESSIONS 160

static int named_allocate(struct peer *peer)
{
	peer_message(peer, WIRE_TYPE_allocate);
	peer->msg.allocate.bytes = 4096;
	peer->msg.allocate.node = -1;
	(void)strcpy(peer->msg.allocate.name, "named");
	return peer_ask(peer);
}

/* Sessions that can resume, and ask for their replies again. */
void attack_floods_ledger(void)
{
	struct peer *peer, *other;

	attempt("the ledger: replies of many sessions of a tenant", NULL, 1);
	for (unsigned i = 0; i < SESSIONS; i++) {
		peer = peer_connect("mallory");
		/* they are refused once there is no room */
		if (!peer_hello(peer, "mallory", 0, NULL))
			(void)errors_ask(peer);
		peer_close(peer);
	}
	other = peer_connect("red");
	if (peer_hello(other, "red", 0, NULL))
		attempt_admitted("another tenant has no room for a session");
	else if (named_allocate(other))
		attempt_admitted("another tenant has no room for a named lease");
	else
		attempt_measured(usage_ledger_kib(counter_get("status pid")),
				 LEDGER_KIB, "KiB");
	peer_close(other);
}
