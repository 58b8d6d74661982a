/* SPDX-License-Identifier: BSD-3-Clause */
/* The known name that is nearest to a mistyped one.  Threads: [any]. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

struct nearest {
	const char *word; /* the mistyped name */
	const char *best; /* nearest candidate so far, or NULL */
	size_t distance;  /* between word and best */
};

/* Look for `word`; it and the candidates are borrowed. */
void nearest_init(struct nearest *nearest, const char *word);
void nearest_offer(struct nearest *nearest, const char *candidate);
/* -EINVAL with text: the word is unknown as a `kind`; the text offers the nearest candidate. */
int nearest_unknown(const struct nearest *nearest, const char *kind);
/* The nearest candidate if it is close enough to suggest it, else NULL. */
const char *nearest_get(const struct nearest *nearest);

/* Number of characters to insert, remove or replace to turn one word into the other, ignoring
 * case.  Only the first 63 characters of each count. */
size_t nearest_distance(const char *a, const char *b);

#endif
