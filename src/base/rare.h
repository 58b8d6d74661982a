/* SPDX-License-Identifier: BSD-3-Clause */
/* RARE marks a function that most operations do not call: it is not inlined, so that its callers
 * save and restore fewer registers. */
#ifndef BASE_RARE_H
#define BASE_RARE_H

#define RARE __attribute__((cold, noinline))

#endif
