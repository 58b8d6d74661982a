/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz/target.h"

#include <ctype.h>
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "fuzz/real-pools.h"
#include "unit/borders.h"

#define SEED_MAX 65536

/* Of pages, pools, a lease of the targets' inputs, and frames. */
static const uint64_t lengths[] = { REAL_PAGE,       REAL_HUGE, REAL_BYTES,
				    REAL_HUGE_BYTES, 8000,      65536 };
static const struct borders borders = { lengths, sizeof(lengths) / sizeof(lengths[0]) };

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

/* The digits around `at`: from there on *ret_n bytes. */
static size_t digits_at(const uint8_t *data, size_t bytes, size_t at, size_t *ret_n)
{
	size_t end = at;

	while (end < bytes && isdigit(data[end]))
		end++;
	while (at > 0 && isdigit(data[at - 1]))
		at--;
	*ret_n = end - at;
	return at;
}

static size_t put_text(uint8_t *data, size_t bytes, size_t max, size_t at,
		       uint64_t number)
{
	char text[24];
	size_t n = (size_t)snprintf(text, sizeof(text), "%" PRIu64, number), old;

	at = digits_at(data, bytes, at, &old);
	if (bytes - old + n > max)
		return bytes;
	memmove(data + at + n, data + at + old, bytes - at - old);
	memcpy(data + at, text, n);
	return bytes - old + n;
}

size_t fuzz_put_border(uint8_t *data, size_t bytes, size_t max, uint64_t *random)
{
	static const unsigned lengths_of_numbers[] = { 8, 8, 4, 2 };
	uint64_t number = border_at(&borders, random_next(random));
	uint64_t choice = random_next(random);
	size_t n = lengths_of_numbers[choice % 4], at;

	if (bytes < n)
		return bytes;
	at = (size_t)(random_next(random) % (bytes - n + 1));
	if (isdigit(data[at]) && choice & 4)
		return put_text(data, bytes, max, at, number);
	/* TLS alone has big-endian ones */
	number = choice / 8 % 8 ? htole64(number) : htobe64(number) >> 8 * (8 - n);
	memcpy(data + at, &number, n);
	return bytes;
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
