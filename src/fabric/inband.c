/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/inband.h"

#include <endian.h>
#include <string.h>

#include "base/checked.h"
#include "base/crc32c.h"
#include "fabric/client.h"

/* ---- client ---- */

struct inband_request inband_request_make(enum fabric_opcode opcode, uint32_t bytes,
					  const struct fabric_inband_request *request)
{
	struct inband_request made = { .op = htole16((uint16_t)opcode),
				       .bytes = htole32(bytes) };

	if (opcode == FABRIC_FILL) {
		/* the pattern is a sequence of bytes, without byte order */
		made.operands.operand = request->pattern;
	} else if (opcode == FABRIC_COPY) {
		made.operands.source_rkey = htole64(request->source.rkey);
		made.operands.source_addr = htole64(request->source.addr);
	} else if (opcode == FABRIC_NOTIFY) {
		made.operands.operand = htole64(request->value);
	}
	return made;
}

/* ---- server ---- */

const char *inband_request_check(const struct inband_request *request)
{
	uint32_t op = le16toh(request->op), bytes = le32toh(request->bytes);
	bool ranged = op == FABRIC_FILL || op == FABRIC_COPY || op == FABRIC_CRC;

	if (!inband_op_is_one(op))
		return "an unknown in-band request";
	if (request->flags)
		return "an in-band request with unknown flags";
	if (ranged && bytes == 0)
		return "an in-band request of 0 bytes";
	if (bytes > (ranged ? FABRIC_INBAND_BYTES_MAX : 0))
		return "an in-band request of too many bytes";
	return NULL;
}

typedef uint64_t __attribute__((may_alias)) word_t;

/* A range that begins in the middle of the pattern. */
static void bytes_fill(char *at, size_t bytes, const char pattern[8], size_t phase)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = pattern[(phase + i) % 8];
}

/* Aligned words are stored whole, so that readers see no partial word. */
static void range_fill(char *at, size_t bytes, uint64_t pattern)
{
	size_t head = align_gap((uintptr_t)at, sizeof(uint64_t)), n_words;
	char raw[8], turned[8];
	uint64_t word;
	word_t *words;

	memcpy(raw, &pattern, sizeof(raw));
	if (head > bytes)
		head = bytes;
	bytes_fill(at, head, raw, 0);
	for (size_t i = 0; i < sizeof(turned); i++)
		turned[i] = raw[(head + i) % 8];
	memcpy(&word, turned, sizeof(word));
	words = (word_t *)(void *)(at + head);
	n_words = (bytes - head) / sizeof(word);
	for (size_t i = 0; i < n_words; i++)
		__atomic_store_n(&words[i], word, __ATOMIC_RELAXED);
	bytes_fill((char *)(words + n_words), (bytes - head) % sizeof(word), turned, 0);
}

static void range_copy(char *to, const char *from, size_t bytes)
{
	word_t *words_to = (word_t *)(void *)to;
	const word_t *words_from = (const word_t *)(const void *)from;

	/* a peer may name overlapping ranges; the result is then undefined for it */
	if (((uintptr_t)to | (uintptr_t)from | bytes) % sizeof(uint64_t) ||
	    (to < from + bytes && from < to + bytes)) {
		memmove(to, from, bytes);
		return;
	}
	for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
		__atomic_store_n(&words_to[i],
				 __atomic_load_n(&words_from[i], __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
}

static enum fabric_status request_serve(const struct inband_request *request,
					const struct inband_memory *memory,
					uint64_t *ret_result)
{
	const struct inband_operands *operands = &request->operands;
	uint64_t rkey = le64toh(request->rkey), addr = le64toh(request->addr);
	uint32_t op = le16toh(request->op), bytes = le32toh(request->bytes);
	enum fabric_status status;
	char *at, *from;

	*ret_result = 0;
	if (op == FABRIC_PING)
		return FABRIC_DONE;
	if (op == FABRIC_NOTIFY)
		return memory->notify(memory->ctx, rkey, addr,
				      (uint32_t)le64toh(operands->operand));
	status = memory->find(memory->ctx, rkey, addr, bytes,
			      op == FABRIC_CRC ? FABRIC_RIGHT_READ : FABRIC_RIGHT_WRITE,
			      &at);
	if (status == FABRIC_DONE && op == FABRIC_COPY)
		status = memory->find(memory->ctx, le64toh(operands->source_rkey),
				      le64toh(operands->source_addr), bytes,
				      FABRIC_RIGHT_READ, &from);
	if (status != FABRIC_DONE)
		return status;
	if (op == FABRIC_FILL)
		range_fill(at, bytes, operands->operand);
	else if (op == FABRIC_CRC)
		*ret_result = crc32c(0, at, bytes);
	else
		range_copy(at, from, bytes);
	return FABRIC_DONE;
}

enum fabric_status inband_serve(const struct inband_request *request,
				const struct inband_memory *memory,
				uint64_t *ret_result)
{
	enum fabric_status status = request_serve(request, memory, ret_result);

	if (status != FABRIC_DONE && memory->refused)
		memory->refused(memory->ctx);
	return status;
}
