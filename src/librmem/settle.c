/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/settle.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/rare.h"
#include "librmem/inband.h"
#include "librmem/lease.h"
#include "librmem/limbo.h"
#include "librmem/pending.h"
#include "librmem/renew.h"
#include "librmem/reopen.h"
#include "librmem/session.h"
#include "librmem/vec.h"

#define NS_PER_MS UINT64_C(1000000)
/* How often one may lose its channel: perhaps it is the cause. */
#define LOSSES_MAX 8

/* ---- operations ---- */

/* Those behind an operation that never started, and so is in no lane, keep waiting as it
 * did. */
static void fence_pass(struct rmem_queue *queue, struct op *op)
{
	if (!op->fence || op->started)
		return;
	if (op->node.next == &queue->table.pending)
		queue->carry_fence = true;
	else
		container_of(op->node.next, struct op, node)->fence = true;
}

/* Nothing more of it will be cut. */
static void op_ground(struct rmem_queue *queue, struct op *op)
{
	if (op->state != OP_PENDING)
		return;
	fence_pass(queue, op);
	list_remove(&op->node);
	op->state = OP_FLYING;
}

void settle_done(struct rmem_queue *queue, struct op *op, int status)
{
	op_ground(queue, op);
	if (op->started)
		queue->active--;
	op->end.status = status;
	optable_done_put(&queue->table, op);
}

static void piece_free(struct rmem_queue *queue, struct piece *piece)
{
	queue_unbounce(queue, piece);
	piece->op->pieces--;
	piece_reset(piece);
	if (piece != &piece->op->own)
		list_append(&queue->table.free_pieces, &piece->node);
}

static void piece_drop(struct rmem_queue *queue, struct piece *piece)
{
	list_remove(&piece->node);
	piece_free(queue, piece);
}

/* All of its pieces that are on no channel. */
static void pieces_drop(struct rmem_queue *queue, struct op *op)
{
	struct optable *table = &queue->table;

	if (piece_waits(&op->own))
		piece_drop(queue, &op->own);
	for (unsigned i = 0; i < table->n_shared && op->pieces > op->in_flight; i++)
		if (table->pieces[i].op == op && piece_waits(&table->pieces[i]))
			piece_drop(queue, &table->pieces[i]);
}

void settle(struct rmem_queue *queue, struct op *op)
{
	bool failed = op->end.status != 0 || op->end.verdict != 0;
	/* the result counts even when a verdict came before it */
	bool complete = op->started && op->end.status == 0 && op->pieces == 0 &&
			op->end.left == 0;

	if (op->state == OP_DONE)
		return;
	if (failed && op->pieces > op->in_flight)
		pieces_drop(queue, op);
	if (op->in_flight > 0)
		return;
	if (complete && !inband_waits(op))
		settle_done(queue, op, 0);
	else if (complete && !failed)
		inband_message(queue, op);
	else if (failed)
		settle_done(queue, op,
			    op->end.verdict ? op->end.verdict : op->end.status);
}

void settle_nothing(struct rmem_queue *queue, struct op *op)
{
	op_ground(queue, op);
	settle(queue, op);
}

void settle_error(struct rmem_queue *queue, struct op *op, int err, const char *why,
		  uint32_t vendor)
{
	if (op->end.status == 0) {
		op->end.status = err;
		op->end.why = why;
		op->end.vendor = vendor;
	}
	op_ground(queue, op);
}

/* ---- completions ---- */

static void piece_done(struct rmem_queue *queue, struct piece *piece)
{
	struct op *op = piece->op;

	/* a large operation may take its time, as long as it moves */
	if (op->todo.timeout_ms == 0)
		op->deadline_ns =
			queue_now_ns(queue) + queue->session->timeout_ms * NS_PER_MS;
	if (piece->chunk && op->todo.opcode == RMEM_OP_READV)
		vec_scatter(op, piece);
	else if (piece->chunk && !opcode_writes(op->todo.opcode))
		memcpy((unsigned char *)op->todo.addr + piece->offset, piece->chunk,
		       piece->bytes);
	if (piece_is_request(piece))
		inband_done(piece);
	piece_free(queue, piece);
}

void settle_kill(struct rmem_queue *queue, struct channel_slot *slot)
{
	if (!slot->live)
		return;
	atomic_store_explicit(&slot->burial, BURIAL_DUE, memory_order_relaxed);
	channelset_kill(&queue->channels, slot, queue_now_ns(queue));
	if (slot->flush_ns < queue->next_deadline_ns)
		queue->next_deadline_ns = slot->flush_ns;
}

/* Whether it is worth posting again: the channel was at fault, not the piece, as far as one
 * can tell.  Some must not be done twice. */
static bool piece_survives(const struct piece *piece, int status)
{
	return (status == -ECONNRESET || status == -ETIMEDOUT) &&
	       piece->losses < LOSSES_MAX && piece->op->end.status == 0 &&
	       piece->op->end.verdict == 0 && !piece_is_once(piece);
}

static void piece_failed(struct rmem_queue *queue, struct channel_slot *slot,
			 struct piece *piece, const struct fabric_wc *wc)
{
	struct op *op = piece->op;

	/* a refusal need not cost the channel: the next post tells whether it did */
	if (wc->status != -EACCES) {
		settle_kill(queue, slot);
		op->unknown = piece_is_once(piece);
	}
	if (inband_stale(op)) {
		settle_error(queue, op, -ESTALE, "the lease has ended", wc->vendor);
	} else if (wc->status == -EACCES && op->end.status == 0 &&
		   op->end.verdict == 0) {
		/* rights and bounds were checked here, so the keys have changed, or the
		 * lease has ended and the news of it is still on its way */
		limbo_doubt(queue, piece);
		return;
	} else if (piece_survives(piece, wc->status)) {
		limbo_lose(queue, slot, piece);
		return;
	} else {
		settle_error(queue, op, wc->status, wc->text, wc->vendor);
	}
	piece_free(queue, piece);
}

/* The first piece on the channel has ended.  Not inlined: whole operations, which are most,
 * don't come here. */
static __attribute__((noinline)) void piece_land(struct rmem_queue *queue,
						 struct channel_slot *slot,
						 const struct fabric_wc *wc)
{
	struct piece *piece = channelset_take(&queue->channels, slot);
	struct op *op = piece->op;

	op_unfold(op);
	op->in_flight--;
	slot->requests -= piece_is_request(piece);
	if (wc->status == 0)
		piece_done(queue, piece);
	else
		piece_failed(queue, slot, piece, wc);
	settle(queue, op);
}

static void pieces_done(struct rmem_queue *queue, struct channel_slot *slot, unsigned n,
			struct taker *taker)
{
	static const struct fabric_wc done;

	slot->proven = true;
	while (n > 0) {
		unsigned taken = taker ? taker_wholes(taker, slot, n) : 0;

		n -= taken;
		if (taken > 0)
			continue;
		piece_land(queue, slot, &done);
		n--;
	}
}

static RARE void pieces_failed(struct rmem_queue *queue, struct channel_slot *slot,
			       const struct fabric_wc *wc)
{
	for (unsigned i = 0; i < wc->n; i++)
		piece_land(queue, slot, wc);
}

static void completion_take(struct rmem_queue *queue, const struct fabric_wc *wc,
			    struct taker *taker)
{
	struct channel_slot *slot = wc->owner;

	if (wc->status == 0)
		pieces_done(queue, slot, wc->n, taker);
	else
		pieces_failed(queue, slot, wc);
}

/* ---- dead channels ---- */

static void slot_clear(struct rmem_queue *queue, struct channel_slot *slot)
{
	struct rmem *session = queue->session;
	struct fabric_channel *channel = slot->channel;

	(void)pthread_mutex_lock(&session->lock);
	if (slot->watched)
		(void)epoll_ctl(session->epfd, EPOLL_CTL_DEL,
				queue->ops->alive_fd(channel), NULL);
	slot->watched = false;
	slot->doomed = false;
	slot->channel = NULL;
	/* one that never carried anything may not do so next time either */
	if (slot->proven)
		slot->backoff_ms = 0;
	reopen_want(slot, slot->proven);
	slot->proven = false;
	/* then there may be more to let go of */
	if (!renew_usable(session, slot))
		queue_news(queue);
	(void)pthread_mutex_unlock(&session->lock);
	/* the driver cannot reach it any more */
	queue->ops->channel_free(channel);
	queue->channels.n_dead--;
}

/* Free a channel with all that is on it, which ends in an error: once it is freed the
 * device does not touch local memory any more, and nothing of it can come. */
static void slot_lose(struct rmem_queue *queue, struct channel_slot *slot, int err,
		      const char *why)
{
	const struct fabric_wc wc = { .status = err, .text = why };

	settle_kill(queue, slot);
	slot_clear(queue, slot);
	while (slot->in_flight > 0)
		piece_land(queue, slot, &wc);
	session_wake(queue->session);
}

/* The device's completions cannot be had any more. */
static RARE void cq_broken(struct rmem_queue *queue, unsigned domain)
{
	for (unsigned i = 0; i < queue->channels.n; i++) {
		struct channel_slot *slot = &queue->channels.slots[i];

		if (slot->domain != domain || !slot->channel)
			continue;
		slot_lose(queue, slot, -EIO, "the device's completion queue is broken");
	}
}

void settle_taken(struct rmem_queue *queue, unsigned domain, int n, struct taker *taker)
{
	for (int i = 0; i < n; i++)
		completion_take(queue, &queue->wcs[i], taker);
	if (n < 0)
		cq_broken(queue, domain);
}

void settle_completions(struct rmem_queue *queue, struct taker *taker)
{
	int n;

	for (unsigned i = 0; i < queue->n_cqs; i++) {
		if (!queue->cqs[i])
			continue;
		do {
			n = queue->ops->poll(queue->cqs[i], queue->wcs, QUEUE_WCS);
			settle_taken(queue, i, n, taker);
		} while (n == QUEUE_WCS);
	}
}

/* ---- news ---- */

static void slot_look(struct rmem_queue *queue, struct channel_slot *slot)
{
	if (slot->fresh && !slot->channel) {
		slot->channel = slot->fresh;
		slot->fresh = NULL;
		slot->stage = SLOT_USED;
		slot->live = true;
	}
	if (slot->doomed)
		settle_kill(queue, slot);
}

void settle_news(struct rmem_queue *queue)
{
	eventfd_t count;

	(void)pthread_mutex_lock(&queue->session->lock);
	/* flag and descriptor change together, or one would stay without the other */
	(void)eventfd_read(queue->wake_fd, &count);
	atomic_store_explicit(&queue->news, false, memory_order_relaxed);
	for (unsigned i = 0; i < queue->channels.n; i++)
		slot_look(queue, &queue->channels.slots[i]);
	(void)pthread_mutex_unlock(&queue->session->lock);
	renew_tidy(queue);
	limbo_resolve(queue);
	pending_homes(queue);
}

void settle_dead(struct rmem_queue *queue)
{
	bool cleared = false;

	for (unsigned i = 0; i < queue->channels.n; i++) {
		struct channel_slot *slot = &queue->channels.slots[i];

		if (slot->live || !slot->channel || slot->in_flight > 0)
			continue;
		slot_clear(queue, slot);
		cleared = true;
	}
	if (cleared)
		session_wake(queue->session);
}

/* ---- ends before the time ---- */

void settle_waiting(struct rmem_queue *queue, int err, const char *why)
{
	for (unsigned i = 0; i < queue->table.n_ops; i++) {
		struct op *op = &queue->table.ops[i];

		if (op->state == OP_PENDING ||
		    (op->state == OP_FLYING && op->pieces > op->in_flight)) {
			settle_error(queue, op, err, why, 0);
			settle(queue, op);
		}
	}
}

static bool slot_carries(const struct rmem_queue *queue,
			 const struct channel_slot *slot, const struct op *op)
{
	for (unsigned i = 0; i < slot->in_flight; i++) {
		unsigned at = (slot->first + i) & queue->channels.mask;

		if (slot->pieces[at]->op == op)
			return true;
	}
	return false;
}

void settle_verdict(struct rmem_queue *queue, struct op *op, int verdict)
{
	if (op->end.verdict == 0)
		op->end.verdict = verdict;
	op_unfold(op);
	op_ground(queue, op);
	/* it may still be under way on the wire, and its memory in use */
	for (unsigned i = 0; op->in_flight > 0 && i < queue->channels.n; i++)
		if (queue->channels.slots[i].live &&
		    slot_carries(queue, &queue->channels.slots[i], op))
			settle_kill(queue, &queue->channels.slots[i]);
	settle(queue, op);
}

/* A device that is gone gives nothing back. */
static uint64_t flushes_end(struct rmem_queue *queue, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	for (unsigned i = 0; i < queue->channels.n; i++) {
		struct channel_slot *slot = &queue->channels.slots[i];

		if (slot->live || slot->in_flight == 0)
			continue;
		if (slot->flush_ns <= now_ns)
			slot_lose(queue, slot, -ECONNRESET,
				  "the device gave no completions");
		else if (slot->flush_ns < next)
			next = slot->flush_ns;
	}
	return next;
}

void settle_deadlines(struct rmem_queue *queue, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX, flush;

	for (unsigned i = 0; i < queue->table.n_ops; i++) {
		struct op *op = &queue->table.ops[i];

		if ((op->state != OP_PENDING && op->state != OP_FLYING) ||
		    op->end.verdict)
			continue;
		if (op->deadline_ns <= now_ns)
			settle_verdict(queue, op, -ETIMEDOUT);
		else if (op->deadline_ns < next)
			next = op->deadline_ns;
	}
	/* a verdict may have cost a channel just now */
	flush = flushes_end(queue, now_ns);
	queue->next_deadline_ns = flush < next ? flush : next;
}
