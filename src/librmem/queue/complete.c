/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/complete.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/rare.h"
#include "librmem/queue/inband.h"
#include "librmem/lease/lease.h"
#include "librmem/channel/channel.h"
#include "librmem/session/session.h"
#include "librmem/queue/vec.h"

/* Limit of connections that break under a fragment: the fragment may be the cause. */
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

/* Cut no more fragments of the operation. */
static void op_cut_end(struct rmem_queue *queue, struct op *op)
{
	if (op->state != OP_PENDING)
		return;
	fence_pass(queue, op);
	list_remove(&op->node);
	op->state = OP_POSTED;
}

void complete_done(struct rmem_queue *queue, struct op *op, int status)
{
	op_cut_end(queue, op);
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

/* The server may still apply the fragment: it has not confirmed yet that the end of the lost
 * connection is closed.  Of a session that is lost for good the server serves no connection. */
static bool fragment_in_doubt(const struct rmem_queue *queue,
			      const struct fragment *fragment)
{
	return fragment->state == FRAGMENT_LOST &&
	       opcode_changes(fragment->op->todo.opcode) &&
	       atomic_load_explicit(&queue->session->status, memory_order_acquire) !=
		       -ESTALE;
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

void complete_without_bytes(struct rmem_queue *queue, struct op *op)
{
	op_cut_end(queue, op);
	complete_check(queue, op);
}

void complete_error(struct rmem_queue *queue, struct op *op, int err, const char *why,
		    uint32_t vendor)
{
	if (op->end.status == 0) {
		op->end.status = err;
		op->end.why = why;
		op->end.vendor = vendor;
	}
	op_cut_end(queue, op);
}

void complete_failed(struct rmem_queue *queue, struct op *op, int err, const char *why)
{
	complete_error(queue, op, err, why, 0);
	complete_check(queue, op);
}

/* ---- the fast path ---- */

/* The first n fragments on the channel are done: move their operations into the reaper, up to the
 * first that is not implicit or has another inflight entry.  Returns the number moved. */
static unsigned reap_fast(struct reaper *reaper, struct send_side *side, unsigned n)
{
	const struct channel_set *set = &reaper->queue->channels;
	struct optable *table = &reaper->queue->table;
	struct fragment *const *fragments = &side->fragments[side->first];
	const struct op *first = fragments[0]->op;
	struct rmem_completion *next = reaper->next;
	struct op **free = &table->free[table->n_free];
	unsigned room = (unsigned)(reaper->end - next), i = 0;

	if (n > room)
		n = room;
	if (n > set->mask + 1 - side->first)
		n = set->mask + 1 - side->first;
	/* operations without an inflight entry may belong to different leases */
	if (!first->inflight && n > 1)
		n = 1;
	while (i < n && fragments[i]->op->implicit_fragment &&
	       fragments[i]->op->inflight == first->inflight) {
		struct op *op = fragments[i++]->op;

		completion_fill(next++, op);
		op->state = OP_FREE;
		*free++ = op;
	}
	if (i == 0)
		return 0;
	inflight_end(first->inflight, first->todo.lease, first->todo.buffer, i);
	side->ended += i;
	reaper->next = next;
	reaper->queue->active -= i;
	table->n_free += i;
	side->first = (side->first + i) & set->mask;
	side->in_flight -= i;
	return i;
}

/* ---- completions ---- */

/* The operation, or what it waits for, has moved: its time-out starts again. */
static void op_moved(const struct rmem_queue *queue, struct op *op, uint64_t moved_ns)
{
	uint64_t deadline_ns = moved_ns + queue_timeout_ns(queue, op->todo.timeout_ms);

	if (!(op->todo.flags & RMEM_OP_DEADLINE) && deadline_ns > op->deadline_ns)
		op->deadline_ns = deadline_ns;
}

static void fragment_done(struct rmem_queue *queue, struct fragment *fragment)
{
	struct op *op = fragment->op;

	op_moved(queue, op, queue_now_ns(queue));
	if (fragment->chunk && op->todo.opcode == RMEM_OP_READV)
		vec_scatter(op, fragment);
	else if (fragment->chunk && !opcode_writes(op->todo.opcode))
		memcpy((unsigned char *)op->todo.addr + fragment->offset,
		       fragment->chunk, fragment->bytes);
	if (fragment_is_request(fragment))
		inband_done(fragment);
	fragment_free(queue, fragment);
}

void complete_kill(struct rmem_queue *queue, struct send_side *side)
{
	if (!side->live)
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
 * can arrive any more, the fragment is posted again, or its operation ends. */
static void fragment_lost(struct rmem_queue *queue, struct send_side *side,
			  struct fragment *fragment)
{
	queue_unbounce(queue, fragment);
	fragment->state = FRAGMENT_LOST;
	fragment->channel = side->channel;
	fragment->losses++;
	list_append(&queue->table.lost, &fragment->node);
}

static void fragment_failed(struct rmem_queue *queue, struct send_side *side,
			    struct fragment *fragment, const struct fabric_wc *wc)
{
	struct op *op = fragment->op;
	const char *stale = inband_stale(op);
	bool retry;

	/* A refused access breaks an RDMA queue pair: the next flushed request (-ECONNRESET), or
	 * the next post, aborts the channel.  TCP and in-band requests survive a refusal. */
	if (wc->status != -EACCES) {
		complete_kill(queue, side);
		op->unknown = fragment_is_once(fragment);
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
		fragment_lost(queue, side, fragment);
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

/* The first fragment on the channel has ended.  Not inlined: most fragments are implicit and are
 * reaped on the fast path. */
static __attribute__((noinline)) void fragment_complete(struct rmem_queue *queue,
							struct send_side *side,
							const struct fabric_wc *wc)
{
	struct fragment *fragment = channel_set_pop(&queue->channels, side);
	struct op *op = fragment->op;

	op_fragment_fill(op);
	op->in_flight--;
	side->requests -= fragment_is_request(fragment);
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

static RARE void fragments_failed(struct rmem_queue *queue, struct send_side *side,
				  const struct fabric_wc *wc)
{
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

/* Free a connection; its fragments end in an error: once the connection is freed the device does
 * not touch local memory any more, and no completion comes. */
static void channel_lose(struct rmem_queue *queue, struct send_side *side, int err,
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
	for (unsigned i = 0; i < queue->channels.n; i++) {
		struct send_side *side = &queue->channels.sides[i];

		if (side->domain != domain || !side->fabric)
			continue;
		channel_lose(queue, side, -EIO,
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

	for (unsigned i = 0; i < queue->channels.n; i++) {
		struct send_side *side = &queue->channels.sides[i];

		if (side->live || !side->fabric || side->in_flight > 0)
			continue;
		channel_clear(queue, side);
		cleared = true;
	}
	if (cleared)
		session_wake(queue->session);
}

/* ---- refused and lost ---- */

/* The fragment's lease was attached again. */
static void refused_fragment_resolve(struct rmem_queue *queue,
				     struct fragment *fragment)
{
	struct op *op = fragment->op;
	const struct attachment *att = lease_attachment(op->todo.lease);
	const char *stale = inband_stale(op);

	if (stale) {
		complete_failed(queue, op, -ESTALE, stale);
	} else if (++fragment->refusals > REFUSALS_MAX ||
		   (fragment->att == att && op->todo.opcode != RMEM_OP_COPY)) {
		complete_failed(queue, op, -EACCES, "the server refuses the access");
	} else {
		list_remove(&fragment->node);
		fragment_requeue(&queue->table, fragment, false);
	}
}

static bool refusal_answered(const struct fragment *fragment)
{
	const struct op *op = fragment->op;

	return inband_stale(op) ||
	       (lease_verified(op->todo.lease, fragment->verify) &&
		(op->todo.opcode != RMEM_OP_COPY ||
		 lease_verified(op->inband.source.lease, fragment->verify_source)));
}

/* An operation that ends removes its other fragments from the list, so each step looks at the
 * first entry. */
static void refused_fragments_resolve(struct rmem_queue *queue)
{
	struct list due = LIST_INIT(due);
	struct fragment *fragment;

	list_splice(&due, &queue->table.refused);
	while ((fragment = list_first(&due, struct fragment, node))) {
		if (refusal_answered(fragment)) {
			refused_fragment_resolve(queue, fragment);
			continue;
		}
		list_remove(&fragment->node);
		list_append(&queue->table.refused, &fragment->node);
	}
}

/* The server's end of the lost connection is closed, or its state cannot be known. */
static void lost_fragment_resolve(struct rmem_queue *queue, struct fragment *fragment,
				  int peer_end)
{
	struct op *op = fragment->op;

	if (op->end.status || op->end.given_up) {
		/* not done, though no fragment is left */
		complete_error(queue, op, op->end.given_up, NULL, 0);
		fragment_drop(queue, fragment);
		complete_check(queue, op);
		return;
	}
	if (peer_end == PEER_END_UNKNOWN) {
		/* the server could not be asked to close its end, perhaps as the session ended */
		if (session_usable(queue->session, queue->now_ns) == -ESTALE)
			complete_failed(queue, op, -ESTALE, "the session has ended");
		else
			complete_failed(queue, op, -ECONNRESET, "its channel died");
		return;
	}
	/* a device may report a refusal as a lost connection: get new rkeys */
	if (fragment->losses > 1)
		(void)lease_verify(op->todo.lease);
	list_remove(&fragment->node);
	fragment_requeue(&queue->table, fragment, false);
}

static void lost_fragments_resolve(struct rmem_queue *queue)
{
	struct list due = LIST_INIT(due);
	struct fragment *fragment;

	list_splice(&due, &queue->table.lost);
	while ((fragment = list_first(&due, struct fragment, node))) {
		int peer_end = atomic_load_explicit(&fragment->channel->peer_end,
						    memory_order_acquire);

		if (peer_end != PEER_END_OPEN) {
			lost_fragment_resolve(queue, fragment, peer_end);
			continue;
		}
		list_remove(&fragment->node);
		list_append(&queue->table.lost, &fragment->node);
	}
}

void complete_retry(struct rmem_queue *queue)
{
	refused_fragments_resolve(queue);
	lost_fragments_resolve(queue);
}

/* ---- cancelling and time-outs ---- */

void complete_waiting(struct rmem_queue *queue, int err, const char *why)
{
	for (unsigned i = 0; i < queue->table.n_ops; i++) {
		struct op *op = &queue->table.ops[i];

		if (op->state == OP_PENDING ||
		    (op->state == OP_POSTED && op->fragments > op->in_flight)) {
			complete_failed(queue, op, err, why);
		}
	}
}

static bool channel_carries(const struct rmem_queue *queue,
			    const struct send_side *side, const struct op *op)
{
	for (unsigned i = 0; i < side->in_flight; i++) {
		unsigned at = (side->first + i) & queue->channels.mask;

		if (side->fragments[at]->op == op)
			return true;
	}
	return false;
}

void complete_given_up(struct rmem_queue *queue, struct op *op, int reason)
{
	if (op->end.given_up == 0)
		op->end.given_up = reason;
	op_fragment_fill(op);
	op_cut_end(queue, op);
	/* a fragment on the wire may still use the operation's memory */
	for (unsigned i = 0; op->in_flight > 0 && i < queue->channels.n; i++)
		if (queue->channels.sides[i].live &&
		    channel_carries(queue, &queue->channels.sides[i], op))
			complete_kill(queue, &queue->channels.sides[i]);
	complete_check(queue, op);
}

/* Free connections that the device, perhaps removed, has not flushed in time.  Returns the earliest
 * flush_ns of the others. */
static uint64_t unflushed_channels_lose(struct rmem_queue *queue, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	for (unsigned i = 0; i < queue->channels.n; i++) {
		struct send_side *side = &queue->channels.sides[i];

		if (side->live || side->in_flight == 0)
			continue;
		if (side->flush_ns <= now_ns)
			channel_lose(queue, side, -ECONNRESET,
				     "the device gave no completions");
		else if (side->flush_ns < next)
			next = side->flush_ns;
	}
	return next;
}

void complete_limit(struct rmem_queue *queue, uint64_t deadline_ns)
{
	for (unsigned i = 0; i < queue->table.n_ops; i++) {
		struct op *op = &queue->table.ops[i];

		if ((op->state == OP_PENDING || op->state == OP_POSTED) &&
		    op->deadline_ns > deadline_ns)
			op->deadline_ns = deadline_ns;
	}
	/* what channels have done before is no progress */
	for (unsigned i = 0; i < queue->channels.n; i++) {
		queue->channels.sides[i].progress_ns = 0;
		queue->channels.sides[i].seen = queue->channels.sides[i].ended;
	}
	if (deadline_ns < queue->next_deadline_ns)
		queue->next_deadline_ns = deadline_ns;
}

/* Find the channels on which fragments have completed since the last look; the operations of their
 * other fragments wait only for their turn. */
static void channels_look(struct rmem_queue *queue, uint64_t now_ns)
{
	for (unsigned i = 0; i < queue->channels.n; i++) {
		struct send_side *side = &queue->channels.sides[i];

		if (side->ended != side->seen)
			side->progress_ns = now_ns;
		side->seen = side->ended;
		for (unsigned k = 0; side->live && k < side->in_flight; k++) {
			unsigned at = (side->first + k) & queue->channels.mask;

			op_moved(queue, side->fragments[at]->op, side->progress_ns);
		}
	}
}

/* The last progress of the channels to one of `endpoints`. */
static uint64_t progress_ns(const struct rmem_queue *queue, unsigned endpoints)
{
	uint64_t last_ns = 0;

	for (unsigned i = 0; i < queue->channels.n; i++) {
		const struct send_side *side = &queue->channels.sides[i];

		if ((endpoints & (1u << side->endpoint)) && side->progress_ns > last_ns)
			last_ns = side->progress_ns;
	}
	return last_ns;
}

static void ops_moved(const struct rmem_queue *queue, struct list *ops,
		      uint64_t moved_ns)
{
	list_for_each_entry(struct op, op, ops, node)
		op_moved(queue, op, moved_ns);
}

/* Operations in a wait list wait for the channels to its endpoints; those that were not started, for
 * any operation before them.  Fragments that wait for the server, after a refusal or a loss, and
 * atomics that wait for their atomic device, are moved by no channel. */
static void waiting_look(struct rmem_queue *queue)
{
	struct optable *table = &queue->table;

	ops_moved(queue, &table->pending, progress_ns(queue, ENDPOINTS_ALL));
	list_for_each_entry(struct wait_list, list, &table->stalled, node) {
		unsigned set = (unsigned)(list - table->wait_lists) % table->n_sets;
		uint64_t moved_ns = progress_ns(queue, set);

		ops_moved(queue, &list->ops, moved_ns);
		list_for_each_entry(struct fragment, fragment, &list->reposts, node)
			op_moved(queue, fragment->op, moved_ns);
	}
}

/* When to look at the operation next. */
static uint64_t op_due_ns(const struct rmem_queue *queue, const struct op *op,
			  uint64_t now_ns)
{
	uint64_t look_ns =
		queue_look_ns(now_ns, queue_timeout_ns(queue, op->todo.timeout_ms));

	return look_ns < op->deadline_ns ? look_ns : op->deadline_ns;
}

void complete_deadlines(struct rmem_queue *queue, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX, flush;

	channels_look(queue, now_ns);
	waiting_look(queue);
	for (unsigned i = 0; i < queue->table.n_ops; i++) {
		struct op *op = &queue->table.ops[i];

		if ((op->state != OP_PENDING && op->state != OP_POSTED) ||
		    op->end.given_up)
			continue;
		if (op->deadline_ns <= now_ns)
			complete_given_up(queue, op, -ETIMEDOUT);
		else if (op_due_ns(queue, op, now_ns) < next)
			next = op_due_ns(queue, op, now_ns);
	}
	/* after giving up operations, which aborts connections */
	flush = unflushed_channels_lose(queue, now_ns);
	queue->next_deadline_ns = flush < next ? flush : next;
}

/* ---- moving completed operations into the reaper ---- */

static const char *given_up_text(const struct rmem_queue *queue, int status)
{
	if (status != -ETIMEDOUT)
		return status == -ECANCELED ? "it was cancelled" : NULL;
	return session_usable(queue->session, queue->now_ns)
		       ? "its time was over, and the session has lost its server"
		       : "its time was over";
}

/* rmem.h documents ENOTSUP; the C library names this number EOPNOTSUPP. */
static const char *error_name(int err)
{
	return err == ENOTSUP ? "ENOTSUP" : strerrorname_np(err);
}

/* Part of the operation must not be done twice. */
static bool op_is_once(const struct op *op)
{
	return opcode_is_atomic(op->todo.opcode) ||
	       op->todo.opcode == RMEM_OP_WRITE_NOTIFY;
}

/* What the operation changes at the server may have been changed, though it has failed. */
static bool op_outcome_unknown(const struct op *op)
{
	int status = op->end.status;

	if (opcode_is_atomic(op->todo.opcode))
		return op->unknown;
	return op->started && opcode_changes(op->todo.opcode) &&
	       (status == -ETIMEDOUT || status == -ECONNRESET || status == -ECANCELED ||
		status == -EIO);
}

static enum rmem_reason op_reason(const struct op *op)
{
	enum rmem_reason reason = RMEM_REASON_NONE;

	if (op->end.status != -ESTALE)
		return op_outcome_unknown(op) ? RMEM_REASON_OUTCOME : RMEM_REASON_NONE;
	reason = rmem_lease_reason(op->todo.lease);
	if (reason == RMEM_REASON_NONE && op->todo.opcode == RMEM_OP_COPY)
		reason = rmem_lease_reason(op->inband.source.lease);
	return reason;
}

/* Returns the number of the text. */
static uint32_t error_store(struct rmem_queue *queue, const struct op *op)
{
	char vendor[32] = "", range[96 + LEASE_LABEL_BYTES] = "";
	char label[LEASE_LABEL_BYTES];
	const char *reason = op->end.why;
	uint32_t number;

	if (op->end.given_up == op->end.status)
		reason = given_up_text(queue, op->end.status);
	if (!reason)
		reason = strerrordesc_np(-op->end.status);

	if (op->end.vendor)
		(void)snprintf(vendor, sizeof(vendor), " (vendor error 0x%x)",
			       op->end.vendor);
	/* a ping has no range */
	if (op->todo.opcode != RMEM_OP_PING)
		(void)snprintf(range, sizeof(range),
			       " of %" PRIu64 " bytes at offset %" PRIu64 " of %s",
			       op->todo.bytes, op->todo.offset,
			       lease_label(op->todo.lease, label));
	(void)snprintf(
		error_texts_next(&queue->errors, &number), ERROR_TEXT_BYTES,
		"%s%s at %s: %s%s%s: %s", op_kinds[op->todo.opcode].text, range,
		queue->session->server, reason, vendor,
		op_is_once(op) && op->unknown ? "; whether it was done is unknown" : "",
		error_name(-op->end.status));
	return number;
}

/* Add to the completion what only an operation that has failed has. */
static void completion_fail(struct rmem_queue *queue, const struct op *op,
			    struct rmem_completion *completion)
{
	completion->status = op->end.status;
	completion->vendor = op->end.vendor;
	completion->reason = (uint16_t)op_reason(op);
	completion->error = error_store(queue, op);
}

void reap_done(struct reaper *reaper)
{
	struct rmem_queue *queue = reaper->queue;

	while (reaper->next < reaper->end && queue->table.n_done > 0) {
		struct op *op = optable_done_pop(&queue->table);

		completion_fill(reaper->next, op);
		/* the library's placeholder */
		if (op->todo.opcode == RMEM_OP_PING)
			reaper->next->lease = NULL;
		if (op->end.status)
			completion_fail(queue, op, reaper->next);
		reaper->next++;
		inflight_end(op->inflight, op->todo.lease, op->todo.buffer, 1);
		vec_leave(op);
		inband_leave(op);
		op->end = (struct op_end){ 0 };
		optable_release(&queue->table, op);
	}
}
