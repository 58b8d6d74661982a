/* SPDX-License-Identifier: BSD-3-Clause */
/* Which text one program may accept from another, and show.  A name that is clean is one line of
 * visible text that a terminal, a log and JSON show unchanged.  Threads: [any]. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* What is wrong with text that is not clean, for error texts. */
#define UTF8_UNCLEAN "has a control character or an invisible one, or is not UTF-8"

/* The length of the first character, of at least one byte; *ret_clean: whether it may be shown.
 * A byte that begins no character of valid UTF-8 counts as one that may not. */
size_t utf8_next(const char *text, size_t bytes, bool *ret_clean);

/* Whether the text is valid UTF-8 (no overlong forms, no surrogates) and all its characters may be
 * shown: none is a control character (C0, DEL, C1), separates lines, is invisible, or changes the
 * direction of the text (Default_Ignorable_Code_Point of Unicode 15). */
bool utf8_clean(const char *text, size_t bytes);

/* Whether the text is only the beginning of one character. */
bool utf8_begins(const char *text, size_t bytes);

/* Put a '?' for each byte of the text that may not be shown, except for characters of `kept`;
 * returns the text.  What is said of others' names, labels, URIs, files or answers passes here on
 * its way to a terminal or a log: texts of errors and of the log always do. */
char *utf8_sanitize(char *text, const char *kept);

/* The length of the text, or, if it has more than `max` bytes, of its beginning: at most `max`
 * bytes, which end between two characters. */
size_t utf8_cut(const char *text, size_t max);

#endif
