/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/params.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

int params_import(void *dst, size_t known, const void *src, size_t bytes, size_t min,
		  const char *what)
{
	const unsigned char *from = src;

	if (bytes < min)
		return err_set(-EINVAL, "%s: its size is not set", what);
	for (size_t i = known; i < bytes; i++)
		if (from[i])
			return err_set(-EINVAL,
				       "%s asks for what this version, %s, does "
				       "not know",
				       what, PACKAGE_VERSION);
	memcpy(dst, src, bytes < known ? bytes : known);
	return 0;
}
