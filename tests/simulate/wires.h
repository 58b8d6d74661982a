/* SPDX-License-Identifier: BSD-3-Clause */
/* What both ends of the simulated fabrics share: data connections and their packets. */
#ifndef TESTS_SIMULATE_WIRES_H
#define TESTS_SIMULATE_WIRES_H

#include "base/list.h"
#include "fabric/client.h"
#include "simulate/network.h"
#include "unit/librmem/fake-fabric.h"
#include "unit/librmem/fake-server.h"

#define WIRE_OP_BYTES FAKE_MAX_BYTES

enum packet_kind {
	/* to the daemon */
	PACKET_CONNECT,
	PACKET_REQUEST,
	PACKET_DISCONNECT,
	/* to the client */
	PACKET_ACCEPT,
	PACKET_REFUSE,
	PACKET_ANSWER,
	PACKET_GONE,
};

struct packet {
	struct list link;
	enum packet_kind kind;
	uint64_t due_ns, sent_ns;
	struct fake_wr wr; /* of a request, and its answer */
	int status;
	uint32_t bytes;
	uint8_t data[];
};

/* A data connection, until both ends have left it and nothing is on its way. */
struct wire {
	struct list link;
	unsigned client;
	struct fabric_endpoint to;
	struct fabric_hello hello;
	struct fabric_channel *channel; /* the client's end; NULL: it has left */
	struct server_channel *server;  /* NULL: not connected, or ended */
	struct list packets[2];         /* by direction */
};

extern struct list wires;

struct wire *wire_new(unsigned client, const struct fabric_endpoint *to);
struct packet *wire_send(struct wire *wire, enum direction direction,
			 enum packet_kind kind, const void *from, uint32_t bytes);

/* ---- the ends ---- */

/* Before the daemon starts. */
void server_begin(void);
/* A packet has arrived; it is freed by the caller. */
void server_receive(struct wire *wire, struct packet *packet);
void client_receive(struct wire *wire, struct packet *packet);
/* The client's end gives up: its packets were not acknowledged. */
void client_give_up(struct wire *wire);
/* Whether the daemon must run to execute what comes. */
bool server_needs_daemon(const struct wire *wire);
/* Memory regions: when something is next due; do it. */
uint64_t server_due_ns(void);
bool server_step(void);

#endif
