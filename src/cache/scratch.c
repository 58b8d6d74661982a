/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/scratch.h"

union piece *scratch_init(struct scratch *scratch)
{
	for (unsigned i = 0; i < SCRATCH_PIECES; i++)
		scratch->pieces[i].next =
			i + 1 < SCRATCH_PIECES ? &scratch->pieces[i + 1] : NULL;
	memset(scratch->zeros, 0, sizeof(scratch->zeros));
	for (unsigned i = 0; i < 256; i++)
		scratch->bytes[i] = (uint8_t)i;
	return scratch->pieces;
}
