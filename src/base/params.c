/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/params.h"

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

int params_export(void *dst, const void *src, size_t known, size_t min,
		  const char *what)
{
	unsigned char *to = dst;
	size_t bytes;

	memcpy(&bytes, dst, sizeof(bytes));
	if (bytes < min)
		return err_set(-EINVAL, "%s: its size is not set", what);
	memcpy(to + sizeof(bytes), (const unsigned char *)src + sizeof(bytes),
	       (bytes < known ? bytes : known) - sizeof(bytes));
	if (bytes > known)
		memset(to + known, 0, bytes - known);
	return 0;
}
