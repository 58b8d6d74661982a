/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a libFuzzer entry point without libFuzzer: random inputs from a printed seed, so that
 * `make check` fuzzes a little with any compiler.
 *
 *   PROGRAM [ROUNDS [SEED]] */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX 4096

/* An input is the last one, a valid one or random bytes, with some bytes changed. */
static size_t input_make(uint8_t *input, size_t last)
{
	size_t bytes = last;

	if (last == 0 || rand() % 2) {
		bytes = fuzz_seed(input, INPUT_MAX, (unsigned)rand());
		if (bytes == 0 || rand() % 4 == 0) {
			bytes = (size_t)rand() % INPUT_MAX;
			for (size_t i = 0; i < bytes; i++)
				input[i] = (uint8_t)rand();
		}
	}
	for (int changes = rand() % 8; bytes > 0 && changes > 0; changes--)
		input[(size_t)rand() % bytes] = (uint8_t)rand();
	if (bytes > 0 && rand() % 8 == 0)
		bytes = (size_t)rand() % bytes;
	return bytes;
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000;
	unsigned seed = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 20261120;
	static uint8_t input[INPUT_MAX];
	size_t bytes = 0;

	(void)printf("# seed %u, %lu inputs\n1..1\n", seed, rounds);
	srand(seed);
	for (unsigned long i = 0; i < rounds; i++) {
		uint8_t *exact;

		bytes = input_make(input, bytes);
		/* a copy of the exact size, so that sanitizers see reads past its end */
		exact = malloc(bytes ? bytes : 1);
		if (!exact)
			return EXIT_FAILURE;
		memcpy(exact, input, bytes);
		(void)LLVMFuzzerTestOneInput(exact, bytes);
		free(exact);
	}
	(void)printf("ok 1 - %s\n", argv[0]);
	return EXIT_SUCCESS;
}
