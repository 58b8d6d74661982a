/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/unit.h"

#include <errno.h>
#include <stdlib.h>

/* Of a case; generous, for busy machines. */
#define TIMEOUT_SECONDS 60

static Suite *suite;

TCase *unit_case(const char *name, SFun setup, SFun teardown)
{
	TCase *tcase = tcase_create(name);

	if (!suite)
		suite = suite_create(program_invocation_short_name);
	tcase_set_timeout(tcase, TIMEOUT_SECONDS);
	tcase_add_checked_fixture(tcase, setup, teardown);
	suite_add_tcase(suite, tcase);
	return tcase;
}

int unit_main(void)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	suite = NULL;
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
