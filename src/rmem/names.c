/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/names.h"

#include <stdio.h>

#include "base/err.h"
#include "rmem/options.h"
#include "rmem/session.h"

int names_check(char **names)
{
	for (; *names; names++) {
		int err = session_name_check(*names);

		if (err)
			return err;
	}
	return 0;
}

int names_each(rmem *session, const char *command, char **names,
	       int (*each)(rmem *session, const char *name))
{
	int failed = 0;

	for (; *names; names++) {
		int err = each(session, *names);

		if (!err)
			continue;
		failed = err;
		(void)fprintf(stderr, "rmem: %s: %s\n", command, err_text());
		options.reported = true;
	}
	return failed;
}
