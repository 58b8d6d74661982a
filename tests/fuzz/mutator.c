/* SPDX-License-Identifier: BSD-3-Clause */
/* The mutations of libFuzzer, and numbers at borders. */
#include "fuzz/target.h"

#include "base/random.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max, unsigned seed)
{
	uint64_t random = seed;

	if (bytes == 0 || random_next(&random) % 4)
		return LLVMFuzzerMutate(data, bytes, max);
	return fuzz_put_border(data, bytes, max, &random);
}
