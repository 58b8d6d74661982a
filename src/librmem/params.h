/* SPDX-License-Identifier: BSD-3-Clause */
/* Public parameter structures carry their size, so that programs and libraries of
 * different versions understand each other.  Threads: [any]. */
#ifndef LIBRMEM_PARAMS_H
#define LIBRMEM_PARAMS_H

#include <stddef.h>

/* Copy a caller's structure of `bytes` over *dst, which holds the defaults.
 *   min    bytes of the first version of the structure
 *   known  bytes of the structure in this library
 * A longer one is taken as long as what is unknown in it is zero.
 *   -EINVAL  otherwise; the text names `what` */
int params_take(void *dst, size_t known, const void *src, size_t bytes, size_t min,
		const char *what);

#endif
