/* SPDX-License-Identifier: BSD-3-Clause */
/* In-band requests, byte by byte, and how a server serves one: the same for both fabrics.
 * Over tcp an inband_request stands in the stream where a stream_request does, and
 * the answer is a stream_response with a result of 8 bytes, if it is done.  Over RDMA a
 * request is one SEND, and its answer another, an inband_answer.  All integers are
 * little-endian.
 * Threads: what each function says. */
#ifndef FABRIC_INBAND_H
#define FABRIC_INBAND_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"

/* In the numbering of the stream's operations. */
enum inband_op {
	INBAND_PING = 5,
	INBAND_FILL = 6,
	INBAND_COPY = 7,
	INBAND_CRC = 8,
	INBAND_NOTIFY = 9,
};

/* operand: of a fill, 8 bytes as they lie in memory; of a notification, the value, 32 bits
 * of it. */
struct inband_operands {
	uint64_t source_rkey; /* of a copy */
	uint64_t source_addr;
	uint64_t operand;
};

struct inband_request {
	uint32_t op;    /* enum inband_op */
	uint32_t bytes; /* of the range; 0 for a ping and a notification */
	uint64_t rkey;
	uint64_t addr;
	uint64_t cookie;
	struct inband_operands operands;
};

struct inband_answer {
	uint32_t status; /* enum inband_status */
	uint32_t zero;
	uint64_t cookie; /* of the request */
	uint64_t result; /* a CRC, else 0 */
};

_Static_assert(sizeof(struct inband_request) == 56, "request on the wire");
_Static_assert(sizeof(struct inband_answer) == 24, "answer on the wire");

enum inband_status {
	INBAND_DONE = 0,
	INBAND_REFUSED = 13, /* EACCES: key, bounds or rights are wrong */
};

/* What a request may reach. */
struct inband_memory {
	/* The memory of [addr, addr + bytes) of a key, or NULL when the session has no such
	 * key, the range is not inside, or one of the rights was not given. */
	char *(*find)(void *ctx, uint64_t rkey, uint64_t addr, uint32_t bytes,
		      unsigned rights);
	/* The same for a notification, which is then on its way.  False: refused. */
	bool (*notify)(void *ctx, uint64_t rkey, uint64_t addr, uint32_t value);
	void *ctx;
};

static inline bool inband_op_is_one(uint32_t op)
{
	return op >= INBAND_PING && op <= INBAND_NOTIFY;
}

/* Whether it keeps the rules, whatever it names: a peer that does not is not to be
 * answered.  NULL, or static text that says what is wrong.  [any] */
const char *inband_request_check(const struct inband_request *request);
/* Do what it asks for, before this returns.  It was checked.  The memory it finds must not
 * go meanwhile.  [any] */
enum inband_status inband_serve(const struct inband_request *request,
				const struct inband_memory *memory,
				uint64_t *ret_result);

/* What goes to the server; the caller adds key and cookie.  [any] */
struct inband_request inband_request_make(enum fabric_opcode opcode, uint32_t bytes,
					  const struct fabric_inband_request *request);

#endif
