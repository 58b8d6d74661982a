/* SPDX-License-Identifier: BSD-3-Clause */
/* The protocol of a data stream of the tcp fabric.  All integers are
 * little-endian; nothing is padded; structures follow each other without gaps.
 *
 *   client                                server
 *   hello (FABRIC_HELLO_BYTES)    ->
 *                                 <-      stream_status [text]
 *   stream_request [payload]      ->
 *   stream_request [payload]      ->
 *                                 <-      stream_response [payload]
 *   ...
 *
 * The client sends nothing after the hello until the status has arrived.  A status other
 * than 0 ends the stream.  After status 0 the client sends requests without waiting for
 * responses, in any number; the server answers each request once and in order, but may begin
 * several before it answers the first.
 *
 * A request for memory that its session may not access is answered with another fabric_status than
 * FABRIC_DONE, and the stream goes on; a violation of the protocol ends the stream without an
 * answer. */
#ifndef FABRIC_TCP_STREAM_H
#define FABRIC_TCP_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* In-band requests: fabric/inband.h. */
enum stream_op {
	STREAM_READ = 1,  /* the response carries the bytes */
	STREAM_WRITE = 2, /* the request carries the bytes */
	/* the request carries a stream_atomic, the response the old value, as a u64 */
	STREAM_CAS = 3,
	STREAM_FETCH_ADD = 4,
};

/* The server's answer to the hello. */
struct stream_status {
	uint32_t status; /* enum wire_code; WIRE_CODE_none: admitted */
	uint32_t bytes;  /* of the text that follows: why it is not admitted; else 0 */
};

#define STREAM_TEXT_MAX 255

struct stream_request {
	uint16_t op;    /* enum stream_op */
	uint16_t flags; /* none yet: 0 */
	uint32_t bytes; /* to move; except for STREAM_READ they follow this structure */
	uint64_t rkey;  /* of the memory region */
	uint64_t addr;  /* in the range of the rkey */
	uint64_t cookie; /* repeated in the response */
};

struct stream_response {
	uint32_t status; /* enum fabric_status */
	/* of payload: of a read that is done as requested, of an atomic 8, else 0 */
	uint32_t bytes;
	uint64_t cookie; /* of the request */
};

/* For the 64-bit number at addr, a multiple of 8, in the server's byte order. */
struct stream_atomic {
	uint64_t compare; /* STREAM_CAS: the value that is replaced */
	uint64_t operand; /* STREAM_CAS: the new value; STREAM_FETCH_ADD: the addend */
};

/* What one system call sends: parts of the stream, without the `skip` bytes that were sent
 * before. */
struct stream_parts {
	struct iovec *iov;
	size_t n, skip;
};

static inline void stream_parts_add(struct stream_parts *parts, void *base,
				    size_t bytes)
{
	if (parts->skip >= bytes) {
		parts->skip -= bytes;
		return;
	}
	parts->iov[parts->n].iov_base = (char *)base + parts->skip;
	parts->iov[parts->n++].iov_len = bytes - parts->skip;
	parts->skip = 0;
}

_Static_assert(sizeof(struct stream_status) == 8, "status on the wire");
_Static_assert(sizeof(struct stream_request) == 32, "request on the wire");
_Static_assert(sizeof(struct stream_response) == 16, "response on the wire");
_Static_assert(sizeof(struct stream_atomic) == 16, "atomic on the wire");

#endif
