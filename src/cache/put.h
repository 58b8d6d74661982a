/* SPDX-License-Identifier: BSD-3-Clause */
/* Publishes a block that is written.  Threads: [owner] of the cache. */
#ifndef CACHE_PUT_H
#define CACHE_PUT_H

struct request;
struct task;

/* Block and directory entry were written, and the bucket was read: the step of a put's task. */
void put_written(struct task *task);
/* Why a put that has no place yet ends. */
void put_refused(struct request *request);

#endif
