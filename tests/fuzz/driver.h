/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of a fuzz target.  With clang, `-fsanitize=fuzzer` and the target without the
 * driver make a coverage-guided fuzzer. */
#ifndef TESTS_FUZZ_DRIVER_H
#define TESTS_FUZZ_DRIVER_H

#include <stddef.h>
#include <stdint.h>

/* The target: must not crash, leak or abort on any input.  Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Write the valid input number `which`; returns its length, or 0. */
size_t fuzz_seed(uint8_t *input, size_t max, unsigned which);

#endif
