/* SPDX-License-Identifier: BSD-3-Clause */
/* A control connection, without its transport.  Embedded in the transport's own structure: that of
 * a socket, or of a test.  Threads: [loop]. */
#ifndef RMEMD_CONTROL_CONNECTION_H
#define RMEMD_CONTROL_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/address.h"
#include "rmemd/control/control.h"
#include "wire/errors.h"
#include "wire/msg.h"

struct connection;
struct session;

/* The transport.  None of these functions ends the connection before it returns. */
struct connection_ops {
	void (*send)(struct connection *connection, const struct wire_msg *msg);
	/* Handle no more frames, transmit the messages already sent, then end the
	 * connection and call session_connection_lost(). */
	void (*close)(struct connection *connection);
	/* Whether the client is the tenant that it says it is.  0, or -EACCES with text. */
	int (*identify)(struct connection *connection, const char *tenant);
	/* The hello is answered: the connection has a session, and frames received after the
	 * hello can be handled. */
	void (*authenticated)(struct connection *connection);
	/* Whether sent messages wait for transmission.  Once none waits,
	 * session_connection_idle() is called. */
	bool (*busy)(struct connection *connection);
	/* Whether input has arrived that is not handled yet, and that will be. */
	bool (*unread)(struct connection *connection);
	/* Whether input waits until the client has read its answers.  NULL: it never does. */
	bool (*stalled)(struct connection *connection);
	/* Whether the client has closed its end, perhaps behind input that is not read yet. */
	bool (*abandoned)(struct connection *connection);
};

struct connection {
	const struct connection_ops *ops;
	struct control *control;
	struct session *session; /* NULL before the hello and after the end */
	struct session *awaited; /* session whose waiting_connection it is */
	const char *auth;        /* how its client was known: none, psk, certificate */
	uint16_t version;        /* of the protocol, as agreed */
	uint32_t capabilities;   /* those that both sides know */
	/* from the hello to the end; the welcome tells the client, and it admits channels */
	uint8_t secret[WIRE_SECRET_BYTES];
	/* since input had arrived last, read or not, when that which is handled now was read */
	uint64_t silent_ms;
	bool hello_pending; /* no other frame is handled until the hello is answered */
	bool closed;        /* close() was called */
	struct fabric_address address; /* of the client */
	/* address of this host at which the client has reached it */
	struct fabric_address reached;
	char name[FABRIC_ADDRESS_TEXT]; /* the address and its port */
};

void connection_init(struct connection *connection, const struct connection_ops *ops,
		     struct control *control, const struct fabric_address *address);
/* Commits the ledger first. */
void connection_send(struct connection *connection, const struct wire_msg *msg);
void connection_send_error(struct connection *connection, uint64_t id, int err,
			   const char *text);
/* The same, of an error that has its number already. */
void connection_send_code(struct connection *connection, uint64_t id,
			  enum wire_code code, const char *text);
void connection_send_ok(struct connection *connection, uint64_t id);
/* No effect on a closed connection. */
void connection_close(struct connection *connection);
/* Whether answers that are long should wait until session_connection_idle(). */
bool connection_stalled(struct connection *connection);
/* Count and log a connection that was refused without an answer. */
void connection_refused(struct control *control, enum refusal refusal, const char *peer,
			const char *why);
/* Answer with an error, log and count it, close. */
void connection_refuse(struct connection *connection, uint64_t id, enum refusal refusal,
		       int err, const char *text);

/* ---- over sockets, with limits on the memory that a client makes the server use ---- */

struct connections;

/* A connection without a hello, with TLS before it, ends after this time. */
#define CONNECTION_HELLO_MS 5000
/* Beyond this number of bytes that a client has not received its requests wait, unread: only
 * answers to requests in progress are added. */
#define CONNECTION_OUTPUT_MAX 65536
/* Time limit to transmit the last messages of a closed connection. */
#define CONNECTION_LINGER_MS 1000

/* Borrows control.  -ENOMEM */
int connections_open(struct control *control, struct connections **ret_connections);
/* End all connections at once.  NULL: no effect. */
void connections_close(struct connections *connections);

/* Serve a connected socket, and own it, also on failure.  Handles bytes that have arrived, which
 * may end the connection.  If too many connections have no session, one of the address that has
 * most of them ends: the oldest that waits for nothing; without one the oldest, if that address has
 * more than this one would have.  Otherwise this one waits, unread, until there is a slot for it;
 * the next slot is for the address that has fewest.  If too many wait, the newest ends of the
 * address from which most have come.
 *   -ENOMEM */
int connection_accept(struct connections *connections, int fd,
		      const struct fabric_address *address);
/* End the connections that have no session yet, whose handshake may be older than the
 * configuration; and, in slices, the sessions of clients that the configuration does not accept any
 * more. */
void connections_recheck(struct connections *connections);
/* Close all connections; the last one ends at most CONNECTION_LINGER_MS later. */
void connections_drain(struct connections *connections);
/* Whether no connection is left. */
bool connections_drained(const struct connections *connections);

#endif
