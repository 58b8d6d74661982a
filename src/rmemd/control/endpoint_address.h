/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a client connects its channels, by where it has reached the server.  Threads: [loop]. */
#ifndef RMEMD_CONTROL_ENDPOINT_ADDRESS_H
#define RMEMD_CONTROL_ENDPOINT_ADDRESS_H

#include "fabric/fabric.h"
#include "rmemd/control/endpoints.h"

/* Where a client is told to connect to, whose control connection comes from this address.  Family
 * 0: the address that it has reached.  A wildcard: the endpoint is at addresses of another family
 * than that, of which the client knows none. */
struct fabric_address endpoint_address(const struct endpoint *endpoint,
				       const struct fabric_address *client);
/* The endpoint of the fabric for a client whose control connection has reached this address: the
 * one that is there, else the first.  endpoints->n: there is none. */
unsigned endpoints_nearest(const struct endpoints *endpoints, enum fabric_kind kind,
			   const struct fabric_address *reached);

#endif
