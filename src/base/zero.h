/* SPDX-License-Identifier: BSD-3-Clause */
/* Zeroing of large memory that is not read soon.  Threads: [any]. */
#ifndef BASE_ZERO_H
#define BASE_ZERO_H

#include <stddef.h>

#define ZERO_GRAIN 64

/* Zero without filling the caches.  The stores are ordered before later ones of the thread.
 * Address and size are multiples of ZERO_GRAIN. */
void zero_stream(void *addr, size_t bytes);

#endif
