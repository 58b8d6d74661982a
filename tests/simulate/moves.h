/* SPDX-License-Identifier: BSD-3-Clause */
/* Which rows of the tables of states the histories have come to. */
#ifndef TESTS_SIMULATE_MOVES_H
#define TESTS_SIMULATE_MOVES_H

#include <stdbool.h>

/* Before the first seed: counts are of all its processes. */
void moves_init(void);
/* The number of rows that no history has come to; print them? */
unsigned moves_missing(bool print);

#endif
