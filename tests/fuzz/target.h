/* SPDX-License-Identifier: BSD-3-Clause */
/* What a fuzz target defines, and what it may use.  A target is one file, fuzz-NAME.c.  It is built
 * twice: with driver.c for `make check`, and with libFuzzer for `./dev fuzz`. */
#ifndef TESTS_FUZZ_TARGET_H
#define TESTS_FUZZ_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- defined by the target ---- */

/* Must not crash, leak or abort on any input, and must do the same for equal inputs.  Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
/* Write the valid input number `which`; returns its length.  0: there is no such input. */
size_t fuzz_seed(uint8_t *input, size_t max, unsigned which);
/* The number of mutated inputs of `make check`: some seconds. */
extern const unsigned fuzz_rounds;

/* ---- for the target: reading an input ---- */

/* The part of an input that is not read yet. */
struct fuzz_input {
	const uint8_t *at;
	size_t left;
};

/* The next number, little-endian; zeros follow the end of the input. */
uint64_t fuzz_number(struct fuzz_input *input, unsigned bytes);
/* Remove up to `bytes` from the input; returns where they are. */
const uint8_t *fuzz_bytes(struct fuzz_input *input, size_t bytes, size_t *ret_bytes);

/* Begin the sequence of random numbers again; linked with $(FUZZ_RANDOM). */
void fuzz_random_reset(void);

/* ---- for the target: writing a valid input ---- */

struct fuzz_output {
	uint8_t *at;
	size_t used, max;
};

void fuzz_put(struct fuzz_output *output, uint64_t number, unsigned bytes);
void fuzz_put_bytes(struct fuzz_output *output, const void *data, size_t bytes);

/* ---- both builds ---- */

/* Put a number of unit/borders.h at a random place of the input, in its bytes or, where digits are,
 * in its text; returns the length, which is at most `max`. */
size_t fuzz_put_border(uint8_t *data, size_t bytes, size_t max, uint64_t *random);

/* With the arguments `--seeds DIR` write the valid inputs into files of DIR, and exit. */
int LLVMFuzzerInitialize(int *argc, char ***argv);

#endif
