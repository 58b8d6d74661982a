/* SPDX-License-Identifier: BSD-3-Clause */
/* What a fuzz target provides.  With clang, `-fsanitize=fuzzer` and the target alone make
 * a coverage-guided fuzzer of the same code. */
#ifndef TESTS_FUZZ_DRIVER_H
#define TESTS_FUZZ_DRIVER_H

#include <stddef.h>
#include <stdint.h>

/* The target: must not crash, leak or abort on any input.  Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Write a valid input to start from, chosen by `which`; returns its length. */
size_t fuzz_seed(uint8_t *input, size_t max, unsigned which);

#endif
