/* SPDX-License-Identifier: BSD-3-Clause */
/* Zeroing of much memory that nobody reads soon.  Threads: [any]. */
#ifndef BASE_ZERO_H
#define BASE_ZERO_H

#include <stddef.h>

#define ZERO_GRAIN 64

/* Past the caches, so that what is in them stays there; whoever hears of it afterwards sees
 * zeros.  Address and size are multiples of ZERO_GRAIN. */
void zero_stream(void *addr, size_t bytes);

#endif
