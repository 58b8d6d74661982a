/* SPDX-License-Identifier: BSD-3-Clause */
/* The assertions of the unit tests' stages, which the fuzz targets use without Check: one that does
 * not hold ends the program. */
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void _ck_assert_failed(const char *file, int line, const char *expr, const char *msg,
		       ...)
{
	va_list args;

	(void)fprintf(stderr, "%s:%d: %s", file, line, expr);
	if (msg) {
		(void)fputs(": ", stderr);
		va_start(args, msg);
		(void)vfprintf(stderr, msg, args);
		va_end(args);
	}
	(void)fputc('\n', stderr);
	abort();
}

void _mark_point(const char *, int)
{
}
