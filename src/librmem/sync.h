/* SPDX-License-Identifier: BSD-3-Clause */
/* The session's own queue, which the synchronous calls use one after the other. */
#ifndef LIBRMEM_SYNC_H
#define LIBRMEM_SYNC_H

#include "librmem/lease/buffer.h"
#include "librmem/queue/queue.h"
#include "librmem/session/turns.h"

struct sync {
	struct turns turns; /* held by the thread that makes a call */
	/* under `turns`: when the call times out, as it has waited for its turn; 0: it has not */
	uint64_t until_ns;
	struct rmem_queue *queue;   /* used under `turns` */
	struct rmem_buffer *buffer; /* copies of unregistered memory; NULL: none yet */
};

/* Create the queue and connect its channel. */
int sync_open(struct rmem *session);

extern const struct session_observer sync_observer;

#endif
