/* SPDX-License-Identifier: BSD-3-Clause */
/* What the daemon's values in the ledger are made of: a head, which is a structure that begins
 * with its own length as a uint32_t, then rows and texts.  What a later build adds stands at
 * the end of the head, and reads as zero from what an older one wrote.
 * Threads: [any]. */
#ifndef RMEMD_LEDGER_VALUE_H
#define RMEMD_LEDGER_VALUE_H

#include <stdbool.h>
#include <stddef.h>

/* Where in a value the writer stands; there must be room. */
char *value_add(char *end, const void *data, size_t bytes);
/* The text, or its first `max` bytes, and a zero. */
char *value_add_text(char *end, const char *text, size_t max);

/* What is left of a value. */
struct value {
	const char *at;
	size_t left;
};

/* The head, as far as its writer knew it.  False: there is none. */
bool value_take_head(struct value *value, void *head, size_t bytes);
/* So many bytes as they are.  False: there are fewer. */
bool value_take(struct value *value, void *data, size_t bytes);
/* A text of at most `max` bytes, in the value.  NULL: there is none. */
const char *value_take_text(struct value *value, size_t max);

#endif
