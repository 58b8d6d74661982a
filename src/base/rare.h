/* SPDX-License-Identifier: BSD-3-Clause */
/* RARE marks a function that is off the path of most operations: it is kept out of those that
 * call it, which then save and restore fewer registers each time. */
#ifndef BASE_RARE_H
#define BASE_RARE_H

#define RARE __attribute__((cold, noinline))

#endif
