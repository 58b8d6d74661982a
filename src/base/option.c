/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/option.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <string.h>

#include "base/err.h"

int option_error(int result, const char *letters, char *const *argv)
{
	const char *arg = argv[optind - 1];

	if (result == ':')
		return err_set(-EINVAL, "%s needs a value", arg);
	if (optopt == 0)
		return err_set(-EINVAL, "unknown option %s", arg);
	/* the option is known, so it was given a value that it does not take */
	if (optopt > UCHAR_MAX || strchr(letters, optopt))
		return err_set(-EINVAL, "%s: the option takes no value", arg);
	return err_set(-EINVAL, "unknown option -%c", optopt);
}
