/* SPDX-License-Identifier: BSD-3-Clause */
/* Looks for a key, and reads its value.  Threads: [owner] of the cache. */
#ifndef CACHE_GET_H
#define CACHE_GET_H

struct request;

/* Start a get or an exists that has a piece. */
void get_start(struct request *request);

#endif
