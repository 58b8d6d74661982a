/* SPDX-License-Identifier: BSD-3-Clause */
/* The fabric servers, and their endpoints, numbered together as in the protocol.  Which there are
 * is constant while the loop runs; a device may be there later.  Threads: [loop]. */
#ifndef RMEMD_CONTROL_ENDPOINTS_H
#define RMEMD_CONTROL_ENDPOINTS_H

#include "fabric/server.h"
#include "rmemd/pool/pools.h"
#include "wire/msg.h"

struct control;
struct served_fabric;

struct endpoint {
	const struct fabric_server_ops *ops;
	struct fabric_server *server;
	unsigned local; /* its number in that server */
	const struct fabric_endpoint *info;
	unsigned channels_max;            /* at a time; 0: no limit is known */
	struct fabric_address advertised; /* instead of its own; port 0: none */
};

struct endpoints {
	struct endpoint at[WIRE_ENDPOINTS_MAX];
	unsigned n;
	uint64_t tcp_channels;        /* at a time; 0: no limit */
	struct served_fabric *served; /* the latest first */
};

/* Open a server and add its endpoints to `control`.  The sessions and leases of `control` get the
 * server's events, so they must be open before the loop runs.  Errors: those of open() */
int endpoints_serve(struct control *control, const struct fabric_server_ops *ops,
		    const struct fabric_server_params *params);
/* Close all servers; no event comes after this. */
void endpoints_close(struct endpoints *endpoints);

/* The endpoints through which a pool is lent, a bit each: those of its devices, and TCP. */
unsigned endpoints_of_pool(const struct endpoints *endpoints,
			   const struct pool_params *pool);
/* A device of the pool that has no endpoint, or NULL. */
const char *endpoints_missing(const struct endpoints *endpoints,
			      const struct pool_params *pool);
/* The number of endpoints over TCP. */
unsigned endpoints_n_tcp(const struct endpoints *endpoints);
/* Divide the channels of each device, and these over TCP, equally by their endpoints. */
void endpoints_set_channels(struct endpoints *endpoints, uint64_t tcp_channels);
/* All endpoints, a bit each. */
unsigned endpoints_all(const struct endpoints *endpoints);

/* The node of a device that is served; -1: unknown.  -ENODEV */
int endpoints_node(const struct endpoints *endpoints, const char *device,
		   int *ret_node);

/* The greatest length in bytes that every present device registers at once; 0: no limit. */
uint64_t endpoints_segment_max(const struct endpoints *endpoints);

/* A pool was added or removed, or a device is there: set through which endpoints the pools are
 * lent, in which lengths, and the endpoints' channels. */
void endpoints_follow(struct control *control);

#endif
