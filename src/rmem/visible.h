/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether bytes that others stored may go to a terminal, piece by piece: control characters move
 * its cursor, change its title, or answer for its user.  Threads: [any], not the same object from
 * two. */
#ifndef RMEM_VISIBLE_H
#define RMEM_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>

/* Zeros: nothing was checked yet. */
struct visible {
	char cut[4]; /* of a character that ends in the next piece */
	size_t n_cut;
};

/* Whether the next piece is lines of utf8_clean() text, as far as it can be told.
 *   last  nothing follows: a character must have ended */
bool visible_check(struct visible *visible, const char *data, size_t bytes, bool last);

#endif
