/* SPDX-License-Identifier: BSD-3-Clause */
/* In-band requests: one that is served touches only the memory that it names, with the rights
 * that it asks for, and stays below the limits of a request. */
#include <endian.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/client.h"
#include "fabric/inband.h"
#include "fuzz/target.h"

#define GUARD 64
#define GUARD_BYTE 0x5a
#define RANGES_MAX 2 /* of a copy */
#define N_OPS 5

struct range {
	char *memory, *before; /* memory with guards, and the bytes that it must have */
	size_t bytes;
	unsigned rights;
};

const unsigned fuzz_rounds = 2000000;

static struct range ranges[RANGES_MAX];
static unsigned n_ranges, notes;

static enum fabric_status find(void *ctx, uint64_t rkey, uint64_t addr, uint32_t bytes,
			       unsigned rights, char **ret_at)
{
	struct range *range = &ranges[n_ranges];

	(void)ctx;
	(void)addr;
	if (bytes == 0 || bytes > FABRIC_INBAND_BYTES_MAX || n_ranges == RANGES_MAX)
		abort();
	/* some rkeys are unknown */
	if (rkey % 4 == 0)
		return FABRIC_STALE;
	range->bytes = bytes + 2 * GUARD + 8;
	range->memory = malloc(range->bytes);
	range->before = malloc(range->bytes);
	if (!range->memory || !range->before)
		abort();
	memset(range->memory, GUARD_BYTE, range->bytes);
	memset(range->before, GUARD_BYTE, range->bytes);
	range->rights = rights;
	n_ranges++;
	/* all alignments occur */
	*ret_at = range->memory + GUARD + addr % 8;
	return FABRIC_DONE;
}

static enum fabric_status notify(void *ctx, uint64_t rkey, uint64_t addr,
				 uint32_t value)
{
	(void)ctx;
	(void)rkey;
	(void)addr;
	(void)value;
	notes++;
	return FABRIC_DONE;
}

static void range_check(struct range *range, uint32_t bytes, uint64_t addr)
{
	size_t start = GUARD + addr % 8;

	/* the bytes outside, and all of a range without the right to write, must not change */
	if (range->rights & FABRIC_RIGHT_WRITE)
		memcpy(range->before + start, range->memory + start, bytes);
	if (memcmp(range->memory, range->before, range->bytes) != 0)
		abort();
	free(range->memory);
	free(range->before);
}

size_t fuzz_seed(uint8_t *input, size_t max, unsigned which)
{
	const struct fabric_inband_request operands = {
		.source = { which, 1 },
		.pattern = 0x0123456789abcdef,
		.value = which,
	};
	enum fabric_opcode opcode = FABRIC_PING + which % N_OPS;
	uint32_t bytes =
		opcode == FABRIC_PING || opcode == FABRIC_NOTIFY ? 0 : which % 300 + 1;
	struct inband_request request = inband_request_make(opcode, bytes, &operands);

	request.rkey = htole64(1);
	request.addr = htole64(which);
	if (which >= 2 * N_OPS || max < sizeof(request))
		return 0;
	memcpy(input, &request, sizeof(request));
	return sizeof(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const struct inband_memory memory = { .find = find, .notify = notify };
	struct inband_request request;
	uint64_t result;
	enum fabric_status status;

	if (bytes < sizeof(request))
		return 0;
	memcpy(&request, data, sizeof(request));
	if (inband_request_check(&request))
		return 0;
	n_ranges = notes = 0;
	status = inband_serve(&request, &memory, &result);
	if (status != FABRIC_DONE && (status != FABRIC_STALE || notes > 0))
		abort();
	for (unsigned i = 0; i < n_ranges; i++)
		range_check(&ranges[i], le32toh(request.bytes),
			    ranges[i].rights == FABRIC_RIGHT_READ &&
					    le16toh(request.op) == FABRIC_COPY
				    ? le64toh(request.operands.source_addr)
				    : le64toh(request.addr));
	return 0;
}
