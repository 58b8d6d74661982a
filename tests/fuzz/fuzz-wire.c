/* SPDX-License-Identifier: BSD-3-Clause */
/* The control protocol's decoder: a message that decodes must encode to equal bytes. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/target.h"
#include "wire/codec.h"

#define TYPE_OF(name, number, since, text) WIRE_TYPE_##name,
static const enum wire_type types[] = { WIRE_MESSAGES(TYPE_OF) };

#define N_TYPES (sizeof(types) / sizeof(types[0]))

const unsigned fuzz_rounds = 2000000;

static struct wire_msg msg;

size_t fuzz_seed(uint8_t *input, size_t max, unsigned which)
{
	int bytes;

	if (which >= N_TYPES)
		return 0;
	memset(&msg, 0, sizeof(msg));
	msg.type = types[which];
	msg.id = which;
	bytes = wire_encode(&msg, input, max);
	return bytes > 0 ? (size_t)bytes : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static uint8_t again[WIRE_FRAME_MAX];
	int length = wire_frame_bytes(data, bytes), known;

	if (length <= 0 || (size_t)length > bytes ||
	    wire_decode(data, (size_t)length, &msg) != 0)
		return 0;
	/* behind the length, and before what a later version may have added */
	known = wire_encode(&msg, again, sizeof(again));
	if (known < 0 || known > length ||
	    memcmp(again + 4, data + 4, (size_t)known - 4) != 0)
		abort();
	return 0;
}
