/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz/target.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEED_MAX 65536

uint64_t fuzz_number(struct fuzz_input *input, unsigned bytes)
{
	uint64_t number = 0;
	const uint8_t *from;
	size_t n;

	from = fuzz_bytes(input, bytes, &n);
	memcpy(&number, from, n);
	return le64toh(number);
}

const uint8_t *fuzz_bytes(struct fuzz_input *input, size_t bytes, size_t *ret_bytes)
{
	static const uint8_t none[1];
	const uint8_t *at = input->left > 0 ? input->at : none;

	if (bytes > input->left)
		bytes = input->left;
	input->at += bytes;
	input->left -= bytes;
	*ret_bytes = bytes;
	return at;
}

void fuzz_put(struct fuzz_output *output, uint64_t number, unsigned bytes)
{
	number = htole64(number);
	fuzz_put_bytes(output, &number, bytes);
}

void fuzz_put_bytes(struct fuzz_output *output, const void *data, size_t bytes)
{
	if (bytes > output->max - output->used)
		abort();
	memcpy(output->at + output->used, data, bytes);
	output->used += bytes;
}

static void seed_write(const char *directory, unsigned which, const uint8_t *seed,
		       size_t bytes)
{
	char path[4096];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/seed-%02u", directory, which);
	file = fopen(path, "w");
	if (!file || fwrite(seed, 1, bytes, file) != bytes || fclose(file)) {
		perror(path);
		exit(EXIT_FAILURE);
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static uint8_t seed[SEED_MAX];
	size_t bytes;

	if (*argc != 3 || strcmp((*argv)[1], "--seeds") != 0)
		return 0;
	for (unsigned i = 0; (bytes = fuzz_seed(seed, sizeof(seed), i)) > 0; i++)
		seed_write((*argv)[2], i, seed, bytes);
	exit(EXIT_SUCCESS);
}
