/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a queue's owner when a device is removed, or comes back: the completion queue and
 * the memory that are in a domain are the queue's own. */
#ifndef LIBRMEM_QUEUE_DEVICE_H
#define LIBRMEM_QUEUE_DEVICE_H

#include "librmem/queue/queue.h"

/* Leave the domains that are to be closed, and use those that are open again.  [owner], without
 * the lock. */
void device_tidy(struct rmem_queue *queue);

/* The queue of the synchronous calls has an owner only while a call is made.  What came for it
 * too late for that one is left to the thread that drives the session.  [any], without the
 * lock. */
void device_sync_leave(struct rmem *session);
/* Do what is left so.  Under the lock, which is released meanwhile. */
void device_sync_run(struct rmem *session);

#endif
