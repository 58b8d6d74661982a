/* SPDX-License-Identifier: BSD-3-Clause */
/* The network: a link for each client, which may be cut in one or both directions, and the streams
 * of control connections over it.  A stream loses nothing: what meets a cut link comes later, or
 * never. */
#ifndef TESTS_SIMULATE_NETWORK_H
#define TESTS_SIMULATE_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "simulate/sim.h"

enum direction { TO_DAEMON, TO_CLIENT };

struct link_state {
	uint64_t down_until_ns[2]; /* by direction; SIM_NEVER: for ever */
	uint64_t heard_ns;         /* when the daemon's host last received from it */
};
extern struct link_state links[SIM_CLIENTS];

/* When what is sent now arrives. */
uint64_t link_arrival_ns(void);
bool link_is_down(unsigned client, enum direction direction);
/* When what arrived at a cut link is sent again. */
uint64_t link_again_ns(unsigned client, enum direction direction);

struct socket;

/* A client's socket. */
struct socket *socket_new(unsigned client);
void socket_connect(struct socket *socket);
/* Tell the peer, and free. */
void socket_close(struct socket *socket);
/* The peer learns of a reset, not of an end of file. */
void socket_reset(struct socket *socket);
/* The peer reads an end of file behind what was sent. */
void socket_shut(struct socket *socket);
/* Take the error that waits for the next call; 0: none. */
int socket_error(struct socket *socket);
short socket_events(const struct socket *socket);
ssize_t socket_send(struct socket *socket, const void *from, size_t bytes);
/* `peek`: the bytes stay. */
ssize_t socket_receive(struct socket *socket, void *to, size_t bytes, bool peek);
unsigned socket_client(const struct socket *socket);

/* A connection that waits to be accepted; NULL: none. */
struct socket *network_accept(void);
bool network_accept_waits(void);
/* The daemon listens, or not: then connections that wait are reset, unless the service manager
 * keeps the listening socket. */
void network_listen(bool listens, bool kept);
/* When the next bytes arrive. */
uint64_t network_due_ns(void);
/* What is due arrives; false: nothing is. */
bool network_step(void);
/* Reset the control connections of a client. */
void network_cut(unsigned client);
/* All sockets are closed: forget what is under way. */
void network_close(void);

#endif
