/* SPDX-License-Identifier: BSD-3-Clause */
/* The wire format of in-band requests, and how a server executes one, for both fabrics.  Over tcp
 * an inband_request takes the place of a stream_request, and the answer is a stream_response,
 * with a result of 8 bytes if the status is FABRIC_DONE.  Over RDMA a request is one SEND, and the
 * answer another, with an inband_answer.  All integers are little-endian.
 * Threads: stated at each function. */
#ifndef FABRIC_INBAND_H
#define FABRIC_INBAND_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "fabric/status.h"

/* Over RDMA, limit of a channel's requests without an answer: each side posts this number of
 * receives.  Part of the protocol. */
#define INBAND_CREDITS 8u

/* operand: of a fill, 8 bytes without byte order; of a notification, the value in the low 32
 * bits. */
struct inband_operands {
	uint64_t source_rkey; /* of a copy */
	uint64_t source_addr;
	uint64_t operand;
};

struct inband_request {
	uint16_t op;    /* FABRIC_PING to FABRIC_NOTIFY */
	uint16_t flags; /* none yet: 0 */
	uint32_t bytes; /* of the range; 0 for a ping and a notification */
	uint64_t rkey;
	uint64_t addr;
	uint64_t cookie;
	struct inband_operands operands;
};

struct inband_answer {
	uint32_t status; /* enum fabric_status */
	uint32_t zero;
	uint64_t cookie; /* of the request */
	uint64_t result; /* a CRC, else 0 */
};

_Static_assert(sizeof(struct inband_request) == 56, "request on the wire");
_Static_assert(sizeof(struct inband_answer) == 24, "answer on the wire");

/* The memory that a request may access. */
struct inband_memory {
	/* The memory of [addr, addr + bytes) of a key, which has these rights. */
	enum fabric_status (*find)(void *ctx, uint64_t rkey, uint64_t addr,
				   uint32_t bytes, unsigned rights, char **ret_at);
	/* Queue a notification on that address. */
	enum fabric_status (*notify)(void *ctx, uint64_t rkey, uint64_t addr,
				     uint32_t value);
	/* A request was refused; may be NULL. */
	void (*refused)(void *ctx);
	void *ctx;
};

static inline bool inband_op_is_one(uint32_t op)
{
	return op >= FABRIC_PING && op <= FABRIC_NOTIFY;
}

/* NULL, or static text for a violation of the protocol, which must not be answered.  Key, range and
 * rights are not checked here.  [any] */
const char *inband_request_check(const struct inband_request *request);
/* Execute a request that was checked.  The memory that it finds must stay until this returns.
 * [any] */
enum fabric_status inband_serve(const struct inband_request *request,
				const struct inband_memory *memory,
				uint64_t *ret_result);

struct fabric_inband_request; /* of client.h */

/* The request on the wire; the caller adds key and cookie.  [any] */
struct inband_request inband_request_make(enum fabric_opcode opcode, uint32_t bytes,
					  const struct fabric_inband_request *request);

#endif
