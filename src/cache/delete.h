/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes a key out.  Threads: [owner] of the cache. */
#ifndef CACHE_DELETE_H
#define CACHE_DELETE_H

struct request;

/* Start a delete that has a piece. */
void delete_start(struct request *request);

#endif
