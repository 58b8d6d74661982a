/* SPDX-License-Identifier: BSD-3-Clause */
/* What somebody who mistyped a name may have meant.  Threads: [any]. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

struct nearest {
	const char *word; /* what was typed */
	const char *best; /* nearest candidate so far, or NULL */
	size_t distance;  /* between the two */
};

/* Look for `word`; it and the candidates are borrowed. */
void nearest_init(struct nearest *nearest, const char *word);
void nearest_offer(struct nearest *nearest, const char *candidate);
/* The nearest candidate if it is near enough to be meant, else NULL. */
const char *nearest_get(const struct nearest *nearest);

/* How many characters must be inserted, removed or replaced to make one of the other,
 * without regard to case.  Only the first 63 of each count. */
size_t nearest_distance(const char *a, const char *b);

#endif
