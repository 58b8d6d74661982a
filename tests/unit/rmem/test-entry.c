/* SPDX-License-Identifier: BSD-3-Clause */
/* The names that ls and rm PATTERN collect, of a server that has as many as asked for. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "rmem/entry.h"
#include "rmem/session.h"
#include "unit/unit.h"

static unsigned n_listed; /* names that the server has sent */
static unsigned n_names;
static int list_err; /* of the library or the server, behind the names */

int rmem_list(rmem *, const char *,
	      int (*each)(const struct rmem_stat *stat, void *arg), void *arg)
{
	struct rmem_stat stat = { .name = "name" };
	int result = 0;

	while (!result && n_listed < n_names) {
		n_listed++;
		result = each(&stat, arg);
	}
	return result ? result : list_err;
}

int session_result(int result)
{
	return result < 0 ? err_set(result, "the server's text") : result;
}

/* As many as rmem(1) says. */
START_TEST(entries__have_a_limit)
{
	struct entries entries = { 0 };

	n_names = 262144 + (unsigned)_i;
	ck_assert_int_eq(entries_list(NULL, NULL, &entries), _i ? -E2BIG : 0);
	ck_assert_uint_eq(entries.n, 262144);
	ck_assert_uint_eq(n_listed, n_names);
	ck_assert(!_i || strstr(err_text(), "more than 262144 names"));
	free(entries.stats);
}
END_TEST

static const int list_errors[] = { -ENOMEM, -E2BIG, -ETIMEDOUT };

/* They are not those of collecting the names. */
START_TEST(entries__errors_of_the_list_keep_their_text)
{
	struct entries entries = { 0 };

	n_names = 1;
	list_err = list_errors[_i];
	ck_assert_int_eq(entries_list(NULL, NULL, &entries), list_errors[_i]);
	ck_assert_str_eq(err_text(), "the server's text");
	free(entries.stats);
}
END_TEST

/* Names that do not match take no place. */
START_TEST(entries__of_a_pattern_are_those_that_match)
{
	struct entries entries = { .pattern = "other*" };

	n_names = 300000;
	ck_assert_int_eq(entries_list(NULL, NULL, &entries), 0);
	ck_assert_uint_eq(entries.n, 0);
	ck_assert_ptr_null(entries.stats);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("entry", NULL, NULL);

	tcase_add_loop_test(tc, entries__have_a_limit, 0, 2);
	tcase_add_loop_test(tc, entries__errors_of_the_list_keep_their_text, 0,
			    sizeof(list_errors) / sizeof(list_errors[0]));
	tcase_add_test(tc, entries__of_a_pattern_are_those_that_match);
	return unit_main();
}
