/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes over a data stream of the tcp fabric, byte by byte.  All integers are
 * little-endian; nothing is padded; structures follow each other without gaps.
 *
 *   client                                server
 *   hello (FABRIC_HELLO_BYTES)    ->
 *                                 <-      stream_status
 *   stream_request [payload]      ->
 *   stream_request [payload]      ->
 *                                 <-      stream_response [payload]
 *   ...
 *
 * The client sends nothing behind the hello until the status has come.  A status other
 * than 0 is the last thing on the stream.  From then on the client sends requests without
 * waiting for responses, as many as it likes; the server answers each one once, in the
 * order of the requests, but may begin several before it answers the first.
 *
 * A request that names no memory that its session may use so is answered STREAM_REFUSED
 * and the stream lives; what breaks these rules ends the stream, without an answer. */
#ifndef FABRIC_TCP_STREAM_H
#define FABRIC_TCP_STREAM_H

#include <stdint.h>

/* A request moves 1 to this many bytes. */
#define STREAM_BYTES_MAX (UINT32_C(1) << 20)

/* Statuses are errno numbers as Linux has them on x86 and Arm. */
#define STREAM_DONE 0
#define STREAM_REFUSED 13 /* EACCES: not admitted; key, bounds or rights are wrong */
#define STREAM_BUSY 12    /* ENOMEM; in a status: the server has no resources now */
#define STREAM_BROKEN 71  /* EPROTO; in a status: the hello could not be understood */

/* In-band requests are told in fabric/inband.h. */
enum stream_op {
	STREAM_READ = 1,  /* the response carries the bytes */
	STREAM_WRITE = 2, /* the request carries the bytes */
	/* the request carries a stream_atomic, the response the old value, as a u64 */
	STREAM_CAS = 3,
	STREAM_FETCH_ADD = 4,
};

/* The server's answer to the hello. */
struct stream_status {
	uint32_t status; /* STREAM_*; STREAM_DONE: admitted */
	uint32_t zero;   /* 0; not looked at */
};

struct stream_request {
	uint32_t op;     /* enum stream_op */
	uint32_t bytes;  /* to move; but for STREAM_READ: that follow this structure */
	uint64_t rkey;   /* of the exposed range */
	uint64_t addr;   /* where, in the addresses that belong to the key */
	uint64_t cookie; /* repeated in the response; the client's own choice */
};

struct stream_response {
	uint32_t status; /* STREAM_DONE or STREAM_REFUSED */
	uint32_t bytes; /* that follow: of a read that is done as asked, of an atomic 8,
			  * else 0 */
	uint64_t cookie; /* of the request */
};

/* At addr, which is a multiple of 8, stands a 64-bit number in the server's byte order. */
struct stream_atomic {
	uint64_t compare; /* STREAM_CAS: nothing is changed unless it is this one */
	uint64_t operand; /* STREAM_CAS: the new one; STREAM_FETCH_ADD: what is added */
};

_Static_assert(sizeof(struct stream_status) == 8, "status on the wire");
_Static_assert(sizeof(struct stream_request) == 32, "request on the wire");
_Static_assert(sizeof(struct stream_response) == 16, "response on the wire");
_Static_assert(sizeof(struct stream_atomic) == 16, "atomic on the wire");

#endif
