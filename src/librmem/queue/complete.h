/* SPDX-License-Identifier: BSD-3-Clause */
/* Completes operations after completions, refusals and errors; and posts fragments again.
 *
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_COMPLETE_H
#define LIBRMEM_QUEUE_COMPLETE_H

#include "base/rare.h"
#include "librmem/queue/queue.h"

struct reaper;

/* Cut no more fragments of the operation. */
void complete_cut(struct rmem_queue *queue, struct op *op);
/* Record an error of an operation, unless it has one, and cut no more fragments of it. */
void complete_error(struct rmem_queue *queue, struct op *op, int err, const char *why,
		    uint32_t vendor);
/* complete_error(), then complete_check(), for an operation that fails on this host. */
void complete_failed(struct rmem_queue *queue, struct op *op, int err, const char *why);
/* Complete the operation if none of its fragments is on a connection, and all are done or the
 * operation has failed. */
void complete_check(struct rmem_queue *queue, struct op *op);
/* Complete an operation that has no fragment. */
void complete_done(struct rmem_queue *queue, struct op *op, int status);

/* Let a fragment on no connection wait until its lease was attached again: the server has refused
 * the access, or the attachment has no rkey for the channel's endpoint (PICK_NO_KEY). */
void complete_refused(struct rmem_queue *queue, struct fragment *fragment);
/* Post again, or end, refused fragments whose lease was attached again, and lost fragments whose
 * connection is closed at the server. */
void complete_retry(struct rmem_queue *queue);
/* Abort the channel's connection: nothing more is posted to it. */
RARE void complete_kill(struct rmem_queue *queue, struct send_side *side);
/* Poll the fabric's completions.  Operations on the fast path go into the reaper (NULL: none). */
void complete_completions(struct rmem_queue *queue, struct reaper *reaper);
/* Process n completions of a domain in queue->wcs; n < 0: the completion queue is broken. */
void complete_wcs(struct rmem_queue *queue, unsigned domain, int n,
		  struct reaper *reaper);
/* Free the dead connections on which nothing is outstanding; the session then opens new ones. */
void complete_dead(struct rmem_queue *queue);
/* Complete with -ESTALE the operations of which some bytes are on no connection. */
void complete_session_ended(struct rmem_queue *queue);
/* Free a connection; its fragments end in an error: once the connection is freed the device does
 * not touch local memory any more, and no completion comes. */
void complete_channel_lost(struct rmem_queue *queue, struct send_side *side, int err,
			   const char *why);

/* Fill in the completion of an operation that has succeeded. */
static inline void completion_fill(struct rmem_completion *ret_completion,
				   struct rmem_lease *lease, uint16_t opcode,
				   uint64_t bytes, uint64_t cookie)
{
	*ret_completion = (struct rmem_completion){
		.cookie = cookie,
		.lease = lease,
		.bytes = bytes,
		.opcode = opcode,
	};
}

/* The first n operations on the channel have succeeded, which are of its first run. */
static inline void complete_run(struct rmem_queue *queue, struct send_side *side,
				unsigned n, struct rmem_completion *completions)
{
	const struct posted_run *run = &side->runs[side->first_run];
	const struct posted_op *posted = &side->posted[side->first];
	struct rmem_lease *lease = run->head.lease;
	uint16_t opcode = run->head.opcode;

	for (unsigned i = 0; i < n; i++)
		completion_fill(&completions[i], lease, opcode, posted[i].bytes,
				posted[i].cookie);
	inflight_end(run->inflight, lease, run->head.buffer, n);
	channel_set_pop(&queue->channels, side, n);
	queue->table.n_free += n;
	queue->active -= n;
}

/* Complete the only outstanding operation from its completion; inlined into rmem_poll() and the
 * synchronous calls.  False: the operation failed, or is not in a run. */
static inline bool complete_single(struct rmem_queue *queue, const struct fabric_wc *wc,
				   struct rmem_completion *ret_completion)
{
	struct send_side *side = wc->owner;

	if (wc->status != 0 || side->runs[side->first_run].fragment)
		return false;
	side->proven = true;
	complete_run(queue, side, 1, ret_completion);
	return true;
}

#endif
