/* SPDX-License-Identifier: BSD-3-Clause */
/* Which sequences of bytes are text that may be shown. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "unit/unit.h"

static const char *const clean[] = {
	"",
	" ~",
	"\xc2\xa0",         /* U+00A0, the first after C1 */
	"\xc3\xa4",         /* a umlaut */
	"\xdf\xbf",         /* U+07FF, the last of two bytes */
	"\xe0\xa0\x80",     /* U+0800, the first of three */
	"\xd9\x85\xd9\x86", /* Arabic letters, which are written right to left */
	"\xe2\x80\x8a",     /* U+200A, beside the zero width space */
	"\xe2\x80\x90",     /* U+2010, beside the direction marks */
	"\xe2\x80\xa7",     /* U+2027, beside the separators */
	"\xe2\x80\xaf",     /* U+202F, beside the overrides */
	"\xe2\x81\xb0",     /* U+2070, beside the isolates */
	"\xe2\x82\xac",     /* euro */
	"\xed\x9f\xbf",     /* U+D7FF, beside the surrogates */
	"\xee\x80\x80",     /* U+E000 */
	"\xef\xbf\xbd",     /* U+FFFD, the replacement character */
	"\xf0\x90\x80\x80", /* U+10000, the first of four */
	"\xf0\x9f\x90\x98", /* elephant */
	"\xf4\x8f\xbf\xbd", /* U+10FFFD, the last */
};

static const char *const refused[] = {
	/* controls */
	"a\nb",
	"\x1b[31m",
	"\x1f",
	"\x7f",
	"\xc2\x80",
	("\xc2\x9b"
	 "31m"),
	"\xc2\x9f",
	/* not the start of a character; cut off; not continued */
	"\x80",
	"\xbf",
	"\xfe",
	"\xff",
	"cut\xc3",
	"cut\xe2\x82",
	"cut\xf0\x9f\x90",
	"\xc3(",
	"\xe2(\xac",
	"\xe2\x82(",
	"\xf0(\x90\x98",
	"\xf0\x9f(\x98",
	"\xf0\x9f\x90(",
	/* overlong forms of '/', NUL, U+007F, U+07FF and U+FFFF */
	"\xc0\xaf",
	"\xe0\x80\xaf",
	"\xf0\x80\x80\xaf",
	"\xc0\x80",
	"\xc1\xbf",
	"\xe0\x9f\xbf",
	"\xf0\x8f\xbf\xbf",
	/* surrogates, the first and last, and a pair */
	"\xed\xa0\x80",
	"\xed\xbf\xbf",
	"\xed\xa0\xbd\xed\xb0\x98",
	/* above U+10FFFF */
	"\xf4\x90\x80\x80",
	"\xf5\x80\x80\x80",
	"\xf8\x88\x80\x80\x80",
	/* direction: ALM, LRM, RLM, LRE, RLE, PDF, LRO, RLO, LRI, RLI, FSI, PDI */
	"\xd8\x9c",
	"\xe2\x80\x8e",
	"\xe2\x80\x8f",
	"\xe2\x80\xaa",
	"\xe2\x80\xab",
	"\xe2\x80\xac",
	"\xe2\x80\xad",
	"\xe2\x80\xae",
	"\xe2\x81\xa6",
	"\xe2\x81\xa7",
	"\xe2\x81\xa8",
	"\xe2\x81\xa9",
	/* separators of lines and paragraphs */
	"\xe2\x80\xa8",
	"\xe2\x80\xa9",
	/* invisible: soft hyphen, joiners, fillers, zero width, BOM, selectors, tags */
	"\xc2\xad",
	"\xcd\x8f",
	"\xe1\x85\x9f",
	"\xe1\x9e\xb4",
	"\xe1\xa0\x8e",
	"\xe2\x80\x8b",
	"\xe2\x80\x8c",
	"\xe2\x80\x8d",
	"\xe2\x81\xa0",
	"\xe2\x81\xa4",
	"\xe2\x81\xaa",
	"\xe3\x85\xa4",
	"\xef\xb8\x8f",
	"\xef\xbb\xbf",
	"\xef\xbe\xa0",
	"\xef\xbf\xb9",
	"\xef\xbf\xbb",
	"\xf0\x9b\xb2\xa0",
	"\xf0\x9d\x85\xb3",
	"\xf3\xa0\x80\x81",
	"\xf3\xa0\x84\x80",
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* The text alone, and with other text around it. */
static void check(const char *text, bool expected)
{
	static const char *const around[][2] = {
		{ "", "" }, { "a", "" }, { "", "z" }, { "a", "z" }
	};
	char buf[64];

	for (size_t i = 0; i < LENGTH(around); i++) {
		int n = snprintf(buf, sizeof(buf), "%s%s%s", around[i][0], text,
				 around[i][1]);

		ck_assert_int_eq(utf8_clean(buf, (size_t)n), expected);
	}
}

START_TEST(clean__accepts_text)
{
	check(clean[_i], true);
}
END_TEST

START_TEST(clean__refuses_bytes)
{
	check(refused[_i], false);
}
END_TEST

START_TEST(clean__refuses_nul)
{
	ck_assert(!utf8_clean("a\0b", 3));
}
END_TEST

/* Encode without any check. */
static size_t encode(uint32_t character, unsigned bytes, char *buf)
{
	static const unsigned char first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

	for (unsigned i = bytes; i-- > 1; character >>= 6)
		buf[i] = (char)(0x80 | (character & 0x3f));
	buf[0] = (char)(first[bytes] | character);
	return bytes;
}

static unsigned shortest(uint32_t character)
{
	if (character < 0x80)
		return 1;
	if (character < 0x800)
		return 2;
	return character < 0x10000 ? 3 : 4;
}

/* Every code point has one form, and its length is right. */
START_TEST(next__accepts_the_shortest_form_only)
{
	unsigned n_clean = 0;
	char buf[4];
	bool ok;

	for (uint32_t character = 0; character < 0x200000; character++) {
		for (unsigned bytes = 1; bytes <= 4; bytes++) {
			if (bytes < shortest(character))
				continue;
			ck_assert_uint_eq(encode(character, bytes, buf), bytes);
			if (utf8_next(buf, bytes, &ok) > 1)
				ck_assert(bytes == shortest(character) &&
					  character <= 0x10ffff);
			else
				ck_assert(!ok || bytes == 1);
			n_clean += ok;
		}
	}
	/* all but 65 controls, 2048 surrogates, 4174 ignorable, 2 separators, 3 annotations */
	ck_assert_uint_eq(n_clean, 0x110000 - 65 - 2048 - 4174 - 2 - 3);
}
END_TEST

START_TEST(cut__ends_between_two_characters)
{
	/* of two bytes each, behind a letter */
	ck_assert_uint_eq(utf8_cut("a\xc3\xa9\xc3\xa9", 5), 5);
	ck_assert_uint_eq(utf8_cut("a\xc3\xa9\xc3\xa9", 4), 3);
	ck_assert_uint_eq(utf8_cut("a\xc3\xa9\xc3\xa9", 3), 3);
	ck_assert_uint_eq(utf8_cut("\xa9\xa9\xa9", 2), 0);
	ck_assert_uint_eq(utf8_cut("", 0), 0);
}
END_TEST

/* What is said of others has one line, and nothing that a terminal acts on. */
START_TEST(sanitize__leaves_text_that_is_clean)
{
	static const struct {
		const char *text, *kept, *sanitized;
	} texts[] = {
		{ "caf\xc3\xa9 \xe2\x82\xac", "", "caf\xc3\xa9 \xe2\x82\xac" },
		{ "a\x1b[2Jb\r\n\tc\x7f", "", "a?[2Jb???c?" },
		{ "a\x1b[2Jb\r\n\tc", "\n\t", "a?[2Jb?\n\tc" },
		{ "\xc2\x9b"
		  "31m\x9b",
		  "", "??31m?" },                                 /* C1 */
		{ "x\xe2\x80\xaey\xe2\x81\xa6", "", "x???y???" }, /* directions */
		{ "cut \xe2\x82", "\n", "cut ??" },
		{ "", "", "" },
	};

	for (size_t i = 0; i < LENGTH(texts); i++) {
		char buf[64];

		(void)strcpy(buf, texts[i].text);
		ck_assert_str_eq(utf8_sanitize(buf, texts[i].kept), texts[i].sanitized);
	}
}
END_TEST

START_TEST(begins__tells_a_cut_from_a_fault)
{
	ck_assert(utf8_begins("\xe2", 1));
	ck_assert(utf8_begins("\xe2\x82", 2));
	ck_assert(!utf8_begins("\xe2\x82\xac", 3));
	ck_assert(!utf8_begins("\xe2x", 2));
	ck_assert(!utf8_begins("\x9b", 1));
	ck_assert(!utf8_begins("\xff", 1));
	ck_assert(!utf8_begins("a", 1));
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("utf8", NULL, NULL);

	tcase_add_loop_test(tc, clean__accepts_text, 0, LENGTH(clean));
	tcase_add_loop_test(tc, clean__refuses_bytes, 0, LENGTH(refused));
	tcase_add_test(tc, clean__refuses_nul);
	tcase_add_test(tc, next__accepts_the_shortest_form_only);
	tcase_add_test(tc, sanitize__leaves_text_that_is_clean);
	tcase_add_test(tc, begins__tells_a_cut_from_a_fault);
	tcase_add_test(tc, cut__ends_between_two_characters);
	return unit_main();
}
