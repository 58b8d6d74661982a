/* SPDX-License-Identifier: BSD-3-Clause */
/* Public parameter structures contain their size, so that a program works with a library of another
 * version.  Threads: [any]. */
#ifndef LIBRMEM_PARAMS_H
#define LIBRMEM_PARAMS_H

#include <stddef.h>

/* Copy a caller's structure of `bytes` over *dst, which holds the defaults.
 *   min    bytes of the first version of the structure
 *   known  bytes of the structure in this library
 * Members beyond `known` must be zero.
 *   -EINVAL  otherwise; the text names `what` */
int params_import(void *dst, size_t known, const void *src, size_t bytes, size_t min,
		  const char *what);

#endif
