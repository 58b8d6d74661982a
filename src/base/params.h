/* SPDX-License-Identifier: BSD-3-Clause */
/* Public parameter structures contain their size, so that a program works with a library of another
 * version.  Threads: [any]. */
#ifndef BASE_PARAMS_H
#define BASE_PARAMS_H

#include <stddef.h>

/* Copy a caller's structure of `bytes` over *dst, which holds the defaults.
 *   min    bytes of the first version of the structure
 *   known  bytes of the structure in this library
 * Members beyond `known` must be zero.
 *   -EINVAL  otherwise; the text names `what` */
int params_import(void *dst, size_t known, const void *src, size_t bytes, size_t min,
		  const char *what);

/* Copy a structure of `known` bytes to the caller's structure, which begins with its size, a
 * size_t.  Members that the caller does not know are left out; members that this library does not
 * know become zero.
 *   min    bytes of the first version of the structure
 *   -EINVAL  the caller's size is less; the text names `what` */
int params_export(void *dst, const void *src, size_t known, size_t min,
		  const char *what);

/* Bytes of a structure up to the end of a member: `min` of a version whose last member that is. */
#define PARAMS_UP_TO(type, member) \
	(offsetof(type, member) + sizeof(((type *)0)->member))

#endif
