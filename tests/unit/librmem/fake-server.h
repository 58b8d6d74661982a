/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's side of the fake fabric.  The daemon admits channels.  A key works from its
 * registration until it is deregistered, for its session, range and rights. */
#ifndef TESTS_UNIT_FAKE_SERVER_H
#define TESTS_UNIT_FAKE_SERVER_H

#include "fabric/server.h"
#include "wire/msg.h"

extern const struct fabric_server_ops fake_server;
/* Its endpoints, of both kinds. */
extern struct fabric_endpoint fake_endpoints[WIRE_ENDPOINTS_MAX];
extern unsigned n_fake_endpoints;

/* Report a notification through this key to the daemon; on the daemon's thread. */
void fake_server_notify(uint64_t rkey, uint32_t value, uint32_t lost);
/* Replace this key by another one, as if the daemon had registered the memory again, without an
 * event to clients. */
void fake_server_replace_key(uint64_t rkey);
/* End an RDMA channel and report it only to the daemon; on the daemon's thread. */
void fake_server_end_channel(uint32_t number);

#endif
