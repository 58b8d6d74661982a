/* SPDX-License-Identifier: BSD-3-Clause */
/* MODULAR marks a function whose unsigned arithmetic wraps on purpose: hashes, random numbers, the
 * distance of two places in a ring.  In all others a sum or product that wraps is a mistake, which
 * `./dev sanitize` finds. */
#ifndef BASE_MODULAR_H
#define BASE_MODULAR_H

#ifdef __clang__
#define MODULAR __attribute__((no_sanitize("unsigned-integer-overflow")))
#else
#define MODULAR /* gcc has no such sanitizer */
#endif

#endif
