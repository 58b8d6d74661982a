/* SPDX-License-Identifier: BSD-3-Clause */
/* How operations flow into the channels: taken in, checked, cut into pieces, posted.
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_FLOW_H
#define LIBRMEM_FLOW_H

#include "librmem/queue.h"

/* Take an operation in; the table has room.  Nothing is posted yet. */
void flow_add(struct rmem_queue *queue, const struct rmem_op *todo, uint64_t now_ns);
/* Post what can be posted. */
void flow_pump(struct rmem_queue *queue, uint64_t now_ns);
/* Take news and completions, end what is overdue, free what is dead, then pump. */
void flow_progress(struct rmem_queue *queue, uint64_t now_ns);

#endif
