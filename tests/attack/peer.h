/* SPDX-License-Identifier: BSD-3-Clause */
/* A client of the control protocol that can say anything, with the key of a tenant. */
#ifndef TESTS_ATTACK_PEER_H
#define TESTS_ATTACK_PEER_H

#include "attack.h"
#include "tls/stream.h"
#include "wire/msg.h"

struct peer {
	char tenant[32];
	struct stream stream;
	uint64_t next_id;
	uint64_t heard_ms;
	uint64_t session;
	uint8_t token[WIRE_TOKEN_BYTES];
	uint8_t secret[WIRE_SECRET_BYTES]; /* of the connection */
	struct wire_welcome welcome;
	struct wire_msg msg;    /* to be asked */
	struct wire_msg answer; /* the last one */
};

/* A TCP connection; -errno. */
int socket_open(const char *address, uint16_t port, const char *from);
/* Wait until something can be read; false: nothing came. */
bool socket_await(int fd, int ms);
/* Wait until the other side has closed it; false: it has not. */
bool socket_await_end(int fd, int ms);

/* Connect with the key of a tenant, without a hello. */
struct peer *peer_connect(const char *tenant);
/* Say hello for a tenant; resume 0: a new session.  Result as of peer_ask(). */
int peer_hello(struct peer *peer, const char *tenant, uint64_t resume,
	       const uint8_t *token);
/* Connect and open a session. */
struct peer *peer_open(const char *tenant);
/* The same from this IPv4 address of the machine. */
struct peer *peer_open_from(const char *tenant, const char *from);
/* Close the connection; the session is fenced. */
void peer_close(struct peer *peer);
/* End the session. */
void peer_bye(struct peer *peer);

/* Clear peer->msg and set its type. */
void peer_message(struct peer *peer, enum wire_type type);
/* Send peer->msg and receive the answer.
 *   -errno       the server answered with this error
 *   -ECONNRESET  it closed the connection */
int peer_ask(struct peer *peer);
void peer_ping(struct peer *peer);
/* Ping all that have sessions and were silent for a while, so that these are not fenced. */
void peers_keep(void);
bool peer_send(struct peer *peer, const void *bytes, size_t n);
/* Receive frames until the answer to any request has come. */
int peer_receive(struct peer *peer);

/* A grant of a channel through the fabric under attack. */
struct fabric_hello peer_grant(struct peer *peer);
/* A channel over TCP, admitted: its socket. */
int channel_open(struct peer *peer);
/* What admits this channel. */
struct fabric_hello peer_hello_of(const struct peer *peer, uint32_t channel);
unsigned peer_endpoint(const struct peer *peer);

/* A lease that a peer holds, with its key. */
struct holding {
	uint64_t lease;
	uint64_t bytes;
	struct fabric_key key;
};
struct holding peer_allocate(struct peer *peer, uint64_t bytes, const char *name);
int peer_attach(struct peer *peer, const char *tenant, const char *name,
		unsigned rights, struct holding *ret_holding);
int peer_free(struct peer *peer, uint64_t lease);
int peer_share(struct peer *peer, uint64_t lease, const char *tenant, unsigned rights);

#endif
