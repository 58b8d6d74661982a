/* SPDX-License-Identifier: BSD-3-Clause */
/* The question to the service manager how many files it stores: it does not answer a message that
 * stores one, and drops what is over FileDescriptorStoreMax=.  Nothing waits for it: all is done
 * by events.  Threads: [loop]. */
#ifndef RMEMD_SYSTEM_FDSTORE_QUERY_H
#define RMEMD_SYSTEM_FDSTORE_QUERY_H

#include <event2/event.h>

struct fdstore_query;

/* err: 0, or -errno with text: the number is not known.  n: files that are stored now. */
typedef void fdstore_answered(void *ctx, int err, unsigned n);

/* Ask once the service manager has handled all messages sent so far; `answered` is called once,
 * from the loop.  -errno with text: it cannot be asked. */
int fdstore_query_start(struct event_base *base, fdstore_answered *answered, void *ctx,
			struct fdstore_query **ret_query);
/* Also after the answer; without one, `answered` is not called.  NULL: nothing. */
void fdstore_query_end(struct fdstore_query *query);

#endif
