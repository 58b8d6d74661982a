/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

/* Characters that are not shown.  With controls a peer could forge lines of a log and the output
 * of a terminal; with the others two names could look alike, or one like something else. */
static const struct {
	uint32_t first, last;
} hidden[] = {
	{ 0x0000, 0x001f }, /* C0 */
	{ 0x007f, 0x009f }, /* DEL, C1 */
	{ 0x00ad, 0x00ad }, /* soft hyphen */
	{ 0x034f, 0x034f }, /* combining grapheme joiner */
	{ 0x061c, 0x061c }, /* Arabic letter mark */
	{ 0x115f, 0x1160 }, /* Hangul fillers */
	{ 0x17b4, 0x17b5 }, /* Khmer inherent vowels */
	{ 0x180b, 0x180f }, /* Mongolian variation selectors, vowel separator */
	{ 0x200b, 0x200f }, /* zero width space and joiners, direction marks */
	{ 0x2028,
	  0x202e }, /* line and paragraph separators, bidi embeddings, overrides */
	{ 0x2060, 0x206f },   /* word joiner, invisible operators, bidi isolates */
	{ 0x3164, 0x3164 },   /* Hangul filler */
	{ 0xfe00, 0xfe0f },   /* variation selectors */
	{ 0xfeff, 0xfeff },   /* byte order mark */
	{ 0xffa0, 0xffa0 },   /* halfwidth Hangul filler */
	{ 0xfff0, 0xfffb },   /* not assigned, annotations of lines */
	{ 0x1bca0, 0x1bca3 }, /* controls of shorthand */
	{ 0x1d173, 0x1d17a }, /* controls of music */
	{ 0xe0000, 0xe0fff }, /* tags, variation selectors */
};

static bool is_hidden(uint32_t character)
{
	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
		if (character <= hidden[i].last)
			return character >= hidden[i].first;
	return false;
}

/* The number of bytes of the character that begins with `first`; 0: none does. */
static size_t utf8_bytes(uint8_t first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first < 0xe0)
		return 2;
	if (first >= 0xe0 && first < 0xf0)
		return 3;
	return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

size_t utf8_next(const char *text, size_t bytes, bool *ret_clean)
{
	/* the lowest characters of two, three and four bytes: below them a form is overlong */
	static const uint32_t lowest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const uint8_t *at = (const uint8_t *)text;
	size_t n = utf8_bytes(at[0]);
	uint32_t character;

	*ret_clean = false;
	if (n == 0 || n > bytes)
		return 1;
	character = n == 1 ? at[0] : at[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 1;
		character = character << 6 | (at[i] & 0x3f);
	}
	if (character < lowest[n] || character > 0x10ffff ||
	    (character >= 0xd800 && character <= 0xdfff))
		return 1;
	*ret_clean = !is_hidden(character);
	return n;
}

bool utf8_clean(const char *text, size_t bytes)
{
	bool clean = true;

	for (size_t i = 0; clean && i < bytes;)
		i += utf8_next(text + i, bytes - i, &clean);
	return clean;
}

bool utf8_begins(const char *text, size_t bytes)
{
	size_t i = 1;

	while (i < bytes && ((uint8_t)text[i] & 0xc0) == 0x80)
		i++;
	return i == bytes && bytes < utf8_bytes((uint8_t)text[0]);
}

char *utf8_sanitize(char *text, const char *kept)
{
	size_t left = strlen(text), n;

	for (char *at = text; left > 0; at += n, left -= n) {
		bool clean;

		n = utf8_next(at, left, &clean);
		if (!clean && !strchr(kept, *at))
			memset(at, '?', n);
	}
	return text;
}

size_t utf8_cut(const char *text, size_t max)
{
	size_t len = strnlen(text, max + 1);

	if (len <= max)
		return len;
	for (len = max; len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80; len--)
		;
	return len;
}
