/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/complete.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/rare.h"
#include "librmem/queue/inband.h"
#include "librmem/queue/reap.h"
#include "librmem/queue/runs.h"
#include "librmem/lease/lease.h"
#include "librmem/channel/channel.h"
#include "librmem/session/session.h"
#include "librmem/queue/vec.h"

/* Limit of connections that a fragment may have broken. */
#define LOSSES_MAX 8
/* Limit of posts of a fragment after its lease was attached again. */
#define REFUSALS_MAX 4

/* ---- operations ---- */

/* The fence of an operation that ends without a start passes to the next pending operation, or to
 * the next submitted. */
static void fence_pass(struct rmem_queue *queue, struct op *op)
{
	if (!op->fence || op->started)
		return;
	if (op->node.next == &queue->table.pending)
		queue->carry_fence = true;
	else
		container_of(op->node.next, struct op, node)->fence = true;
}

void complete_cut(struct rmem_queue *queue, struct op *op)
{
	if (op->state != OP_PENDING)
		return;
	fence_pass(queue, op);
	list_remove(&op->node);
	op->state = OP_POSTED;
}

void complete_done(struct rmem_queue *queue, struct op *op, int status)
{
	complete_cut(queue, op);
	if (op->started)
		queue->active--;
	op->end.status = status;
	optable_done_put(&queue->table, op);
}

static void fragment_free(struct rmem_queue *queue, struct fragment *fragment)
{
	queue_unbounce(queue, fragment);
	fragment->op->fragments--;
	fragment_reset(fragment);
	if (fragment != &fragment->op->own)
		list_append(&queue->table.free_fragments, &fragment->node);
}

static void fragment_drop(struct rmem_queue *queue, struct fragment *fragment)
{
	list_remove(&fragment->node);
	fragment_free(queue, fragment);
}

/* False: the server has ended the session, or has fenced it for good. */
static bool session_is_served(struct rmem_queue *queue)
{
	struct rmem *session = queue->session;

	return atomic_load_explicit(&session->status, memory_order_acquire) !=
		       -ESTALE ||
	       queue_now_ns(queue) < session->fenced_ns;
}

/* The server may still apply the fragment: it has not confirmed yet that the end of the lost
 * connection is closed. */
static bool fragment_in_doubt(struct rmem_queue *queue, const struct fragment *fragment)
{
	return fragment->state == FRAGMENT_LOST &&
	       opcode_changes(fragment->op->todo.opcode) && session_is_served(queue);
}

/* Drop the operation's fragments that are on no connection, and cannot be applied any more. */
static void fragments_drop(struct rmem_queue *queue, struct op *op)
{
	struct optable *table = &queue->table;

	if (fragment_waits(&op->own) && !fragment_in_doubt(queue, &op->own))
		fragment_drop(queue, &op->own);
	for (unsigned i = 0; i < table->n_shared && op->fragments > op->in_flight; i++)
		if (table->fragments[i].op == op &&
		    fragment_waits(&table->fragments[i]) &&
		    !fragment_in_doubt(queue, &table->fragments[i]))
			fragment_drop(queue, &table->fragments[i]);
}

void complete_check(struct rmem_queue *queue, struct op *op)
{
	bool failed = op->end.status != 0 || op->end.given_up != 0;
	/* an operation that has completed succeeds, even if it was given up */
	bool complete = op->started && op->end.status == 0 && op->fragments == 0 &&
			op->end.uncut_bytes == 0;

	if (op->state == OP_DONE)
		return;
	if (failed && op->fragments > op->in_flight)
		fragments_drop(queue, op);
	/* a fragment that is left is in doubt: the error is reported when it is not any more */
	if (op->in_flight > 0 || (failed && op->fragments > 0))
		return;
	if (complete && !inband_waits(op))
		complete_done(queue, op, 0);
	else if (complete && !failed)
		inband_message(queue, op);
	else if (failed)
		complete_done(queue, op,
			      op->end.given_up ? op->end.given_up : op->end.status);
}

void complete_error(struct rmem_queue *queue, struct op *op, int err, const char *why,
		    uint32_t vendor)
{
	if (op->end.status == 0) {
		op->end.status = err;
		op->end.why = why;
		op->end.vendor = vendor;
	}
	complete_cut(queue, op);
}

void complete_failed(struct rmem_queue *queue, struct op *op, int err, const char *why)
{
	complete_error(queue, op, err, why, 0);
	complete_check(queue, op);
}

/* ---- the fast path ---- */

/* What is first on the channel is done n times: if it is a run, complete operations of it into the
 * reaper.  Returns their number. */
static unsigned reap_fast(struct reaper *reaper, struct send_side *side, unsigned n)
{
	const struct posted_run *run = &side->runs[side->first_run];

	if (run->fragment)
		return 0;
	if (n > run->n)
		n = run->n;
	if (n > reaper->end - reaper->next)
		n = (unsigned)(reaper->end - reaper->next);
	complete_run(reaper->queue, side, n, reaper->next);
	reaper->next += n;
	return n;
}

/* ---- completions ---- */

/* Copy what was read from the chunk. */
static void chunk_take(struct rmem_queue *queue, const struct fragment *fragment)
{
	struct op *op = fragment->op;

	if (op->todo.opcode == RMEM_OP_READV)
		vec_copy(op, fragment);
	else
		memcpy((unsigned char *)op->todo.addr + fragment->offset,
		       fragment->chunk, fragment->bytes);
	session_copied(queue->session, fragment->bytes);
}

static void fragment_done(struct rmem_queue *queue, struct fragment *fragment)
{
	struct op *op = fragment->op;

	op_moved(queue, op, queue_now_ns(queue));
	if (fragment->chunk && !opcode_writes(op->todo.opcode))
		chunk_take(queue, fragment);
	if (fragment_is_request(fragment))
		inband_done(fragment);
	fragment_free(queue, fragment);
}

void complete_kill(struct rmem_queue *queue, struct send_side *side)
{
	if (!channel_set_serves(side))
		return;
	atomic_store_explicit(&side->channel->peer_end, PEER_END_OPEN,
			      memory_order_relaxed);
	channel_set_kill(&queue->channels, side, queue_now_ns(queue));
	if (side->flush_ns < queue->next_deadline_ns)
		queue->next_deadline_ns = side->flush_ns;
}

/* Whether to post the fragment again: the connection failed rather than the request, and executing
 * the request twice does no harm. */
static bool fragment_may_retry(const struct fragment *fragment, int status)
{
	return (status == -ECONNRESET || status == -ETIMEDOUT) &&
	       fragment->losses < LOSSES_MAX && fragment->op->end.status == 0 &&
	       fragment->op->end.given_up == 0 && !fragment_is_once(fragment);
}

void complete_refused(struct rmem_queue *queue, struct fragment *fragment)
{
	queue_unbounce(queue, fragment);
	fragment->state = FRAGMENT_REFUSED;
	fragment->verify = lease_verify(fragment->op->todo.lease);
	if (fragment->op->todo.opcode == RMEM_OP_COPY)
		fragment->verify_source =
			lease_verify(fragment->op->inband.source.lease);
	list_append(&queue->table.refused, &fragment->node);
}

/* The server may have executed the fragment, or still execute it: once no packet of its connection
 * can arrive any more, the fragment is posted again, or its operation ends.  The connection may
 * have broken because of its oldest fragment; the others only waited behind that one. */
static void fragment_lost(struct rmem_queue *queue, struct send_side *side,
			  struct fragment *fragment, bool oldest)
{
	queue_unbounce(queue, fragment);
	fragment->state = FRAGMENT_LOST;
	fragment->channel = side->channel;
	fragment->losses += oldest;
	list_append(&queue->table.lost, &fragment->node);
}

static void fragment_failed(struct rmem_queue *queue, struct send_side *side,
			    struct fragment *fragment, const struct fabric_wc *wc)
{
	struct op *op = fragment->op;
	const char *stale = inband_stale(op);
	bool oldest = !side->failed, retry;

	/* A refused access breaks an RDMA queue pair: the next flushed request (-ECONNRESET), or
	 * the next post, aborts the channel.  TCP and in-band requests survive a refusal. */
	if (wc->status != -EACCES) {
		complete_kill(queue, side);
		side->failed = true;
		op->unknown = fragment_is_once(fragment);
		op->end.unheard = op->end.unheard || wc->status == -ETIMEDOUT;
	}
	if (!stale && wc->status == -EACCES && op->end.status == 0 &&
	    op->end.given_up == 0) {
		/* this host has checked rights and bounds, so the rkeys have changed, or the lease
		 * has ended and the event has not arrived yet */
		complete_refused(queue, fragment);
		return;
	}
	retry = !stale && fragment_may_retry(fragment, wc->status);
	if (stale)
		complete_error(queue, op, -ESTALE, stale, wc->vendor);
	else if (!retry)
		complete_error(queue, op, wc->status, wc->text, wc->vendor);
	/* a refused fragment is not applied, and one that changes nothing can end at once */
	if (retry || (wc->status != -EACCES && opcode_changes(op->todo.opcode)))
		fragment_lost(queue, side, fragment, oldest);
	else
		fragment_free(queue, fragment);
}

/* Soft-RoCE that loses a packet with the answer may complete the atomic without it: then the
 * sentinel is still there. */
static bool atomic_is_answered(const struct rmem_queue *queue,
			       const struct fragment *fragment)
{
	const struct op *op = fragment->op;
	const void *answer = fragment->chunk ? fragment->chunk : op->todo.addr;

	return !queue->ops->needs_local_mr ||
	       memcmp(answer, &op->sentinel, sizeof(op->sentinel)) != 0;
}

static RARE void atomic_unanswered(struct rmem_queue *queue, struct fragment *fragment)
{
	fragment->op->unknown = true;
	complete_error(queue, fragment->op, -ECONNRESET,
		       "the device has lost the number that was found", 0);
	fragment_free(queue, fragment);
}

/* The first fragment on the channel, or operation of a run, has ended.  Not inlined: most
 * operations are reaped on the fast path. */
static __attribute__((noinline)) void fragment_complete(struct rmem_queue *queue,
							struct send_side *side,
							const struct fabric_wc *wc)
{
	struct fragment *fragment = runs_pop(queue, side);
	struct op *op = fragment->op;

	op->in_flight--;
	side->requests -= fragment_is_request(fragment);
	side->large_bytes -= fragment_is_large(fragment) ? fragment->bytes : 0;
	/* a failure is no progress */
	side->seen += wc->status != 0;
	if (wc->status != 0)
		fragment_failed(queue, side, fragment, wc);
	else if (opcode_is_atomic(op->todo.opcode) &&
		 !atomic_is_answered(queue, fragment))
		atomic_unanswered(queue, fragment);
	else
		fragment_done(queue, fragment);
	complete_check(queue, op);
}

static void fragments_done(struct rmem_queue *queue, struct send_side *side, unsigned n,
			   struct reaper *reaper)
{
	static const struct fabric_wc done;

	side->proven = true;
	while (n > 0) {
		unsigned reaped = reaper ? reap_fast(reaper, side, n) : 0;

		n -= reaped;
		if (reaped > 0)
			continue;
		fragment_complete(queue, side, &done);
		n--;
	}
}

/* The connection is to be replaced: as when it is lost, but first what is on it completes. */
static RARE void side_retire(struct rmem_queue *queue, struct send_side *side)
{
	if (!side->live)
		return;
	atomic_store_explicit(&side->channel->peer_end, PEER_END_OPEN,
			      memory_order_relaxed);
	channel_set_retire(&queue->channels, side);
}

static RARE void fragments_failed(struct rmem_queue *queue, struct send_side *side,
				  const struct fabric_wc *wc)
{
	if (wc->n == 0)
		side_retire(queue, side);
	for (unsigned i = 0; i < wc->n; i++)
		fragment_complete(queue, side, wc);
}

static void completion_process(struct rmem_queue *queue, const struct fabric_wc *wc,
			       struct reaper *reaper)
{
	struct send_side *side = wc->owner;

	if (wc->status == 0)
		fragments_done(queue, side, wc->n, reaper);
	else
		fragments_failed(queue, side, wc);
}

/* ---- dead connections ---- */

static void channel_clear(struct rmem_queue *queue, struct send_side *side)
{
	struct rmem *session = queue->session;

	(void)pthread_mutex_lock(&session->lock);
	channel_release(side->channel, side->proven);
	(void)pthread_mutex_unlock(&session->lock);
	/* the driver cannot use side->fabric any more */
	queue->ops->channel_free(side->fabric);
	channel_set_disconnected(&queue->channels, side);
}

void complete_channel_lost(struct rmem_queue *queue, struct send_side *side, int err,
			   const char *why)
{
	const struct fabric_wc wc = { .status = err, .text = why };

	complete_kill(queue, side);
	channel_clear(queue, side);
	while (side->in_flight > 0)
		fragment_complete(queue, side, &wc);
	session_wake(queue->session);
}

/* The device's completion queue cannot be polled any more. */
static RARE void cq_broken(struct rmem_queue *queue, unsigned domain)
{
	sides_for_each(side, &queue->channels) {
		if (side->domain != domain || !side->fabric)
			continue;
		complete_channel_lost(queue, side, -EIO,
				      "the device's completion queue is broken");
	}
}

void complete_wcs(struct rmem_queue *queue, unsigned domain, int n,
		  struct reaper *reaper)
{
	for (int i = 0; i < n; i++)
		completion_process(queue, &queue->wcs[i], reaper);
	if (n < 0)
		cq_broken(queue, domain);
}

void complete_completions(struct rmem_queue *queue, struct reaper *reaper)
{
	int n;

	for (unsigned i = 0; i < queue->n_cqs; i++) {
		if (!queue->cqs[i])
			continue;
		do {
			n = queue->ops->poll(queue->cqs[i], queue->wcs, QUEUE_WCS);
			complete_wcs(queue, i, n, reaper);
		} while (n == QUEUE_WCS);
	}
}

void complete_dead(struct rmem_queue *queue)
{
	bool cleared = false;

	sides_for_each(side, &queue->channels) {
		if (side->live || !side->fabric || side->in_flight > 0)
			continue;
		channel_clear(queue, side);
		cleared = true;
	}
	if (cleared)
		session_wake(queue->session);
}

/* ---- refused and lost ---- */

static bool refusal_answered(const struct fragment *fragment)
{
	const struct op *op = fragment->op;

	return inband_stale(op) ||
	       (lease_verified(op->todo.lease, fragment->verify) &&
		(op->todo.opcode != RMEM_OP_COPY ||
		 lease_verified(op->inband.source.lease, fragment->verify_source)));
}

/* The session has ended, and its leases with it; the operation's may have ended before, and knows
 * why. */
static void op_session_ended(struct rmem_queue *queue, struct op *op)
{
	const char *stale = inband_stale(op);

	complete_failed(queue, op, -ESTALE, stale ? stale : "the session has ended");
}

/* The server knows no better rkey, or cannot make one. */
static void op_refused(struct rmem_queue *queue, struct op *op)
{
	int err =
		atomic_load_explicit(&op->todo.lease->rekey_err, memory_order_relaxed);

	if (err)
		complete_failed(queue, op, err,
				"the server could not attach the lease again");
	else
		complete_failed(queue, op, -EACCES, "the server refuses the access");
}

/* False: the fragment's lease was not attached again yet. */
static bool refused_fragment_resolve(struct rmem_queue *queue,
				     struct fragment *fragment)
{
	struct op *op = fragment->op;
	const struct attachment *att = lease_attachment(op->todo.lease);
	const char *stale = inband_stale(op);

	if (!refusal_answered(fragment))
		return false;
	if (stale) {
		complete_failed(queue, op, -ESTALE, stale);
	} else if (session_usable(queue->session, queue->now_ns) == -ESTALE) {
		/* the event of the lease has not come */
		op_session_ended(queue, op);
	} else if (++fragment->refusals > REFUSALS_MAX ||
		   (fragment->generation == att->generation &&
		    op->todo.opcode != RMEM_OP_COPY)) {
		op_refused(queue, op);
	} else {
		list_remove(&fragment->node);
		fragment_requeue(&queue->table, fragment, false);
	}
	return true;
}

/* False: the server may still have its end of the lost connection open. */
static bool lost_fragment_resolve(struct rmem_queue *queue, struct fragment *fragment)
{
	int peer_end = atomic_load_explicit(&fragment->channel->peer_end,
					    memory_order_acquire);
	struct op *op = fragment->op;

	if (peer_end == PEER_END_OPEN)
		return false;
	if (op->end.status || op->end.given_up) {
		/* not done, though no fragment is left */
		complete_error(queue, op, op->end.given_up, NULL, 0);
		fragment_drop(queue, fragment);
		complete_check(queue, op);
	} else if (peer_end == PEER_END_CLOSED) {
		/* a device may report a refusal as a lost connection: get new rkeys */
		if (fragment->losses > 1)
			(void)lease_verify(op->todo.lease);
		list_remove(&fragment->node);
		fragment_requeue(&queue->table, fragment, false);
	} else if (session_usable(queue->session, queue->now_ns) == -ESTALE) {
		/* the server could not be asked to close its end, perhaps as the session ended */
		op_session_ended(queue, op);
	} else {
		complete_failed(queue, op, -ECONNRESET, "its channel died");
	}
	return true;
}

/* An operation that ends removes its other fragments from the list, so each step looks at the
 * first entry. */
static void fragments_resolve(struct rmem_queue *queue, struct list *fragments,
			      bool (*resolve)(struct rmem_queue *queue,
					      struct fragment *fragment))
{
	struct list due = LIST_INIT(due);
	struct fragment *fragment;

	list_splice(&due, fragments);
	while ((fragment = list_first(&due, struct fragment, node)))
		if (!resolve(queue, fragment))
			list_move(fragments, &fragment->node);
}

void complete_retry(struct rmem_queue *queue)
{
	fragments_resolve(queue, &queue->table.refused, refused_fragment_resolve);
	fragments_resolve(queue, &queue->table.lost, lost_fragment_resolve);
}

/* ---- without the server ---- */

void complete_session_ended(struct rmem_queue *queue)
{
	ops_for_each(op, &queue->table) {
		if (op->state == OP_PENDING ||
		    (op->state == OP_POSTED && op->fragments > op->in_flight))
			op_session_ended(queue, op);
	}
}
