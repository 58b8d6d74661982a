/* SPDX-License-Identifier: BSD-3-Clause */
/* Values that are longer than one block may be: each part is a block of the key under a hash of its
 * own.  All parts have the value's id, and part 0 tells which value the key has.
 * Threads: [owner] of the cache. */
#ifndef CACHE_PARTS_H
#define CACHE_PARTS_H

#include <stdbool.h>

struct request;

/* Whether the request has to be split, as its value, or the room for it, takes several parts. */
bool parts_needed(const struct request *request);
/* Split it into requests that wait for pieces.  -ENOMEM: it has not begun. */
int parts_start(struct request *request);
/* Free the parts of a request that is forgotten, if it has any. */
void parts_forget(struct request *request);

#endif
