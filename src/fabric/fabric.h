/* SPDX-License-Identifier: BSD-3-Clause */
/* What a server and a client of the data path (server.h, client.h) share. */
#ifndef FABRIC_FABRIC_H
#define FABRIC_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/address.h"

#define FABRIC_TLS_KEY_BYTES 32
#define FABRIC_DEVICE_MAX 64
#define FABRIC_TEXT_MAX 128

/* Atomics need both. */
#define FABRIC_RIGHT_READ 1u
#define FABRIC_RIGHT_WRITE 2u

enum fabric_kind { FABRIC_TCP = 1, FABRIC_VERBS = 2 };

/* Endpoint flags; same values as WIRE_ENDPOINT_* in wire/msg.h. */
#define FABRIC_ENDPOINT_CONFIRM 1u
#define FABRIC_ENDPOINT_ATOMICS 2u
#define FABRIC_ENDPOINT_INBAND 4u
#define FABRIC_ENDPOINT_DIRECT 8u
#define FABRIC_ENDPOINT_TLS 32u

/* An address at which a server can be reached. */
struct fabric_endpoint {
	enum fabric_kind kind;
	struct fabric_address address;
	int node;              /* NUMA node of the device, -1 unknown */
	uint32_t flags;        /* FABRIC_ENDPOINT_* */
	unsigned channels_max; /* of the device at a time; 0: not known */
	/* "rxe0"; "" for tcp, and before there was a device */
	char device[FABRIC_DEVICE_MAX];
	/* verbs: nobody can connect there, as its device is not there or has no address; the rest
	 * is of before that */
	bool awaited;
};

/* How the session reaches a memory region of the server. */
struct fabric_key {
	uint64_t addr;
	uint64_t rkey;
};

/* The queue pair of one side of a channel that is connected directly. */
struct fabric_qp_info {
	uint32_t qpn; /* 24 bits */
	uint32_t psn; /* of its first packet, 24 bits, random */
	uint8_t gid[16];
	uint16_t lid; /* 0: not on InfiniBand */
	uint16_t pkey;
	uint16_t mtu; /* its limit, bytes */
	/* outstanding reads and atomics: requested by the client, granted by the server */
	uint8_t rd_atomic;
	uint8_t retry_count, rnr_retry_count;
	/* set by the server, not on the wire: the GID contains the address from which the
	 * client's control connection comes */
	bool gid_verified;
};

enum fabric_opcode {
	FABRIC_READ = 1,
	FABRIC_WRITE = 2,
	FABRIC_CAS = 3,
	FABRIC_FETCH_ADD = 4,
	/* In-band requests: the server executes them.  These numbers are on the wire. */
	FABRIC_PING = 5,   /* no range */
	FABRIC_FILL = 6,   /* fill the range with a pattern */
	FABRIC_COPY = 7,   /* copy to the range from another range of the session */
	FABRIC_CRC = 8,    /* CRC of the range, see base/crc32c.h */
	FABRIC_NOTIFY = 9, /* notify the daemon about an offset in the range */
};

#define FABRIC_ATOMIC_BYTES 8

/* Limits of what a server executes, which clients are told: the bytes of a read or write over TCP,
 * and of an in-band request's range. */
#define FABRIC_STREAM_BYTES_MAX (UINT32_C(1) << 20)
#define FABRIC_INBAND_BYTES_MAX (UINT32_C(256) << 10)

#endif
