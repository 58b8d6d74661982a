/* SPDX-License-Identifier: BSD-3-Clause */
/* Patterns of names. */
#include <string.h>

#include "base/glob.h"
#include "unit/unit.h"

static const struct {
	const char *pattern, *text;
	bool matches;
} cases[] = {
	{ "", "", true },
	{ "", "a", false },
	{ "*", "", true },
	{ "*", "any text/with everything", true },
	{ "a*", "a", true },
	{ "a*", "ba", false },
	{ "*.tmp", "x.tmp", true },
	{ "*.tmp", "x.tmp.tmp", true },
	{ "*.tmp", "x.tmp2", false },
	{ "a*b*c", "a-b-b-c", true },
	{ "a*b*c", "a-c-b", false },
	{ "**a**", "xax", true },
	{ "?", "", false },
	{ "?", "\xc3\xa4", true }, /* a umlaut */
	{ "?", "ab", false },
	{ "a?c", "abc", true },
	{ "*?", "", false },
	{ "*\xc3\xa4", "x\xc3\xa4", true },
	{ "\\*", "*", true },
	{ "\\*", "a", false },
	{ "a\\", "a\\", true },
	{ "A", "a", false },
	{ "[a]", "a", false },
	{ "[a]", "[a]", true },
};

START_TEST(glob__matches)
{
	ck_assert_int_eq(glob_match(cases[_i].pattern, cases[_i].text),
			 cases[_i].matches);
}
END_TEST

/* A matcher that goes back to each '*' would never end. */
START_TEST(glob__takes_a_bounded_time)
{
	char pattern[256] = "", text[256];

	for (size_t i = 0; i < 127; i++)
		memcpy(pattern + 2 * i, "*a", 3);
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	ck_assert(glob_match(pattern, text));
	memcpy(pattern + 252, "*b", 3);
	ck_assert(!glob_match(pattern, text));
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("glob", NULL, NULL);

	tcase_add_loop_test(tc, glob__matches, 0, sizeof(cases) / sizeof(cases[0]));
	tcase_add_test(tc, glob__takes_a_bounded_time);
	return unit_main();
}
