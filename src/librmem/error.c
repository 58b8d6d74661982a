/* SPDX-License-Identifier: BSD-3-Clause */
#include <rmem/rmem.h>

#include "base/err.h"

const char *rmem_error(void)
{
	return err_text();
}

const char *rmem_version(void)
{
	return PACKAGE_VERSION;
}
