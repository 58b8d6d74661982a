/* SPDX-License-Identifier: BSD-3-Clause */
/* Names that match a pattern: '*' stands for any text, '?' for any character, and a backslash takes
 * the character behind it as it is.  The time is at most the product of both lengths, whatever the
 * pattern, so that any user may choose it.  Threads: [any]. */
#ifndef BASE_GLOB_H
#define BASE_GLOB_H

#include <stdbool.h>

bool glob_match(const char *pattern, const char *text);

#endif
