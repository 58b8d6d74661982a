/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/glob.h"

#include <stddef.h>
#include <string.h>

#include "base/utf8.h"

/* Bytes of UTF-8. */
#define CHARACTER_MAX 4

/* The length of the first character of a text that is not empty. */
static size_t character(const char *text)
{
	bool clean;

	return utf8_next(text, strnlen(text, CHARACTER_MAX), &clean);
}

/* Match one character of the text with the pattern's first element, which is no '*'.  Returns the
 * bytes of the text, and moves the pattern behind the element; 0: no match. */
static size_t match_one(const char **pattern, const char *text)
{
	const char *at = *pattern;

	if (!*at || !*text)
		return 0;
	if (*at == '?') {
		*pattern = at + 1;
		return character(text);
	}
	if (*at == '\\' && at[1])
		at++;
	if (*at != *text)
		return 0;
	*pattern = at + 1;
	return 1;
}

/* Only the last '*' is tried with longer texts: what an earlier one stands for may stay as short as
 * possible. */
bool glob_match(const char *pattern, const char *text)
{
	const char *star = NULL, *resume = NULL;
	size_t matched;

	for (;;) {
		if (*pattern == '*') {
			star = ++pattern;
			resume = text;
		} else if (!*pattern && !*text) {
			return true;
		} else if ((matched = match_one(&pattern, text))) {
			text += matched;
		} else if (star && *resume) {
			resume += character(resume);
			pattern = star;
			text = resume;
		} else {
			return false;
		}
	}
}
