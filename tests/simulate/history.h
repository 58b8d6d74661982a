/* SPDX-License-Identifier: BSD-3-Clause */
/* A history: work with faults, then calm, in which everything must come to its end. */
#ifndef TESTS_SIMULATE_HISTORY_H
#define TESTS_SIMULATE_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

/* What a process that ran a history leaves. */
struct outcome {
	uint64_t steps; /* taken */
	/* format of the text of the rule that was broken; NULL: none */
	const char *broken;
	int error; /* error that a client got; 0: none */
	uint64_t at_step;
	char text[256];
};
extern struct outcome *outcome;

/* Run n steps with faults, without those that are `skipped` (may be NULL); then the end. */
void history_run(uint64_t seed, uint64_t n, const bool *skipped);

#endif
