/* SPDX-License-Identifier: BSD-3-Clause */
/* The texts of failures, and when their numbers begin again. */
#include <stdbool.h>
#include <stdio.h>

#include "base/error_texts.h"
#include "unit/unit.h"

static struct error_texts texts;

static void setup(void)
{
	ck_assert_int_eq(error_texts_init(&texts, ERROR_TEXTS_MAX), 0);
}

static void teardown(void)
{
	error_texts_free(&texts);
}

/* Take a number, and write it down as its text. */
static uint32_t add(void)
{
	uint32_t number;
	char *text = error_texts_next(&texts, &number);

	(void)snprintf(text, ERROR_TEXT_BYTES, "%u", number);
	return number;
}

/* What is kept for the number is its own text. */
static bool kept(uint32_t number)
{
	const char *text = error_texts_find(&texts, number);
	char own[16];

	if (!text)
		return false;
	(void)snprintf(own, sizeof(own), "%u", number);
	ck_assert_str_eq(text, own);
	return true;
}

START_TEST(last_texts__are_kept)
{
	uint32_t first = add();

	ck_assert(!kept(0) && kept(first) && !kept(first + 1));
	for (unsigned i = 1; i < ERROR_TEXTS_MAX; i++)
		(void)add();
	ck_assert(kept(first));
	(void)add();
	ck_assert(!kept(first) && kept(first + 1));
}
END_TEST

/* 0 is the number of no text: the numbers leave it out. */
START_TEST(numbers_that_begin_again__have_their_own_texts)
{
	uint32_t numbers[ERROR_TEXTS_MAX / 2];

	texts.last = UINT32_MAX - ERROR_TEXTS_MAX / 4;
	for (unsigned i = 0; i < ERROR_TEXTS_MAX / 2; i++) {
		numbers[i] = add();
		for (unsigned j = 0; j <= i; j++)
			ck_assert_msg(kept(numbers[j]), "%u of %u", j, i);
	}
	ck_assert(!kept(0));
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("error-texts", setup, teardown);

	tcase_add_test(tc, last_texts__are_kept);
	tcase_add_test(tc, numbers_that_begin_again__have_their_own_texts);
	return unit_main();
}
