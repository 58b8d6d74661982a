/* SPDX-License-Identifier: BSD-3-Clause */
/* What a channel sends first, to be admitted.
 * Threads: [any]. */
#ifndef FABRIC_HELLO_H
#define FABRIC_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "fabric/address.h"

#define FABRIC_TOKEN_BYTES 16
#define FABRIC_ORIGIN_BYTES 8

/* Sent by a channel to be admitted; fits into the 56 bytes of rdma_cm's private data. */
struct fabric_hello {
	uint64_t session;
	uint32_t channel;
	uint8_t token[FABRIC_TOKEN_BYTES];
	/* of the address from which the client comes, see fabric_channel_params.name_source */
	uint8_t origin[FABRIC_ORIGIN_BYTES];
	/* set by the server, not on the wire: where the channel comes from, without port;
	 * family 0: not known */
	struct fabric_address peer;
	/* set by admit(): the client's control connection comes from this address, too */
	bool peer_verified;
};

#define FABRIC_VERSION 1 /* of hello, requests and responses */
#define FABRIC_HELLO_BYTES 44
#define FABRIC_HELLO_MAGIC "rmmh" /* its first bytes */
/* Encode with magic, length and version. */
void fabric_hello_encode(const struct fabric_hello *hello,
			 uint8_t buf[FABRIC_HELLO_BYTES]);
/* Decode; bytes after the hello are padding.  -EPROTO. */
int fabric_hello_decode(const uint8_t *buf, size_t bytes,
			struct fabric_hello *ret_hello);

/* Whether a channel's hello begins so. */
static inline bool fabric_hello_begins(const uint8_t *buf, size_t bytes)
{
	return bytes >= 4 && memcmp(buf, FABRIC_HELLO_MAGIC, 4) == 0;
}

#endif
