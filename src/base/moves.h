/* SPDX-License-Identifier: BSD-3-Clause */
/* The moves of a state machine: a table of all that there are, so that another one, which is a
 * fault of our own code, ends the process.  Threads: [any]. */
#ifndef BASE_MOVES_H
#define BASE_MOVES_H

#include <stddef.h>

/* In a state, a step leads to the next state. */
struct move {
	unsigned char from, step, to;
};

/* The next state: there must be a row. */
unsigned moves_next(const struct move *moves, size_t n, unsigned from, unsigned step);

#define MOVES_NEXT(moves, from, step) \
	moves_next(moves, sizeof(moves) / sizeof((moves)[0]), from, step)

#endif
