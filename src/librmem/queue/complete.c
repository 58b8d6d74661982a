/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/complete.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/rare.h"
#include "librmem/queue/inband.h"
#include "librmem/lease/lease.h"
#include "librmem/queue/device.h"
#include "librmem/channel/channel.h"
#include "librmem/session/session.h"
#include "librmem/queue/vec.h"

#define NS_PER_MS UINT64_C(1000000)
/* How often one may lose its channel: perhaps it is the cause. */
#define LOSSES_MAX 8

/* ---- operations ---- */

/* Those behind an operation that never started, and so is in no list, keep waiting as it
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
	op->state = OP_POSTED;
}

void complete_done(struct rmem_queue *queue, struct op *op, int status)
{
	op_ground(queue, op);
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

/* All of its fragments that are on no channel. */
static void fragments_drop(struct rmem_queue *queue, struct op *op)
{
	struct optable *table = &queue->table;

	if (fragment_waits(&op->own))
		fragment_drop(queue, &op->own);
	for (unsigned i = 0; i < table->n_shared && op->fragments > op->in_flight; i++)
		if (table->fragments[i].op == op &&
		    fragment_waits(&table->fragments[i]))
			fragment_drop(queue, &table->fragments[i]);
}

void complete_check(struct rmem_queue *queue, struct op *op)
{
	bool failed = op->end.status != 0 || op->end.verdict != 0;
	/* the result counts even when a verdict came before it */
	bool complete = op->started && op->end.status == 0 && op->fragments == 0 &&
			op->end.left == 0;

	if (op->state == OP_DONE)
		return;
	if (failed && op->fragments > op->in_flight)
		fragments_drop(queue, op);
	if (op->in_flight > 0)
		return;
	if (complete && !inband_waits(op))
		complete_done(queue, op, 0);
	else if (complete && !failed)
		inband_message(queue, op);
	else if (failed)
		complete_done(queue, op,
			      op->end.verdict ? op->end.verdict : op->end.status);
}

void complete_nothing(struct rmem_queue *queue, struct op *op)
{
	op_ground(queue, op);
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
	op_ground(queue, op);
}

/* ---- taking whole operations ---- */

static bool inflight_same(const struct reaper *reaper, const struct op *op)
{
	return reaper->inflight == op->inflight && reaper->lease == op->todo.lease &&
	       reaper->buffer == op->todo.buffer;
}

static void inflight_switch(struct reaper *reaper, const struct op *op)
{
	reap_end(reaper);
	reaper->n_run = 0;
	reaper->inflight = op->inflight;
	reaper->lease = op->todo.lease;
	reaper->buffer = op->todo.buffer;
}

static void took(struct reaper *reaper, unsigned n)
{
	reaper->next += n;
	reaper->n_run += n;
}

/* Those of n fragments, at least one, side by side in memory, that are of the run. */
static unsigned wholes_take(struct reaper *reaper, struct fragment *const *fragments,
			    unsigned n)
{
	struct optable *table = &reaper->queue->table;
	const struct inflight *inflight = reaper->inflight;
	struct rmem_completion *next = reaper->next;
	struct op **free = &table->free[table->n_free];
	struct fragment *const *at = fragments, *const *end = fragments + n;

	do {
		struct op *op = (*at)->op;

		if (!op->whole || op->inflight != inflight)
			break;
		*next++ = (struct rmem_completion){ .cookie = op->todo.cookie,
						    .bytes = op->todo.bytes };
		op->state = OP_FREE;
		*free++ = op;
	} while (++at < end);
	n = (unsigned)(at - fragments);
	table->n_free += n;
	reaper->queue->active -= n;
	took(reaper, n);
	return n;
}

/* The first n fragments in the channel are done: take their operations as long as they are whole
 * and there is room.  Returns how many it took. */
static unsigned reap_wholes(struct reaper *reaper, struct send_side *side, unsigned n)
{
	const struct channel_set *set = &reaper->queue->channels;
	unsigned to_end = set->mask + 1 - side->first;
	unsigned room = (unsigned)(reaper->end - reaper->next);

	if (n > room)
		n = room;
	if (n > to_end)
		n = to_end;
	if (n == 0)
		return 0;
	if (!inflight_same(reaper, side->fragments[side->first]->op))
		inflight_switch(reaper, side->fragments[side->first]->op);
	/* those without may be of any lease */
	if (!reaper->inflight)
		n = 1;
	n = wholes_take(reaper, &side->fragments[side->first], n);
	side->first = (side->first + n) & set->mask;
	side->in_flight -= n;
	return n;
}

/* ---- completions ---- */

static void fragment_done(struct rmem_queue *queue, struct fragment *fragment)
{
	struct op *op = fragment->op;

	/* a large operation may take its time, as long as it moves */
	if (op->todo.timeout_ms == 0)
		op->deadline_ns =
			queue_now_ns(queue) + queue->session->timeout_ms * NS_PER_MS;
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

/* Whether it is worth posting again: the channel was at fault, not the fragment, as far as one
 * can tell.  Some must not be done twice. */
static bool fragment_survives(const struct fragment *fragment, int status)
{
	return (status == -ECONNRESET || status == -ETIMEDOUT) &&
	       fragment->losses < LOSSES_MAX && fragment->op->end.status == 0 &&
	       fragment->op->end.verdict == 0 && !fragment_is_once(fragment);
}

void complete_refused(struct rmem_queue *queue, struct fragment *fragment)
{
	queue_unbounce(queue, fragment);
	fragment->state = FRAGMENT_REFUSED;
	fragment->verify = lease_verify(fragment->op->todo.lease);
	if (fragment->op->todo.opcode == RMEM_OP_COPY)
		fragment->verify_source =
			lease_verify(fragment->op->inband.source.lease);
	list_append(&queue->table.doubt, &fragment->node);
}

/* It may have been applied, or may still be: it goes again when no packet of its channel
 * can arrive any more. */
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

	/* a refusal need not cost the channel: the next post tells whether it did */
	if (wc->status != -EACCES) {
		complete_kill(queue, side);
		op->unknown = fragment_is_once(fragment);
	}
	if (inband_stale(op)) {
		complete_error(queue, op, -ESTALE, "the lease has ended", wc->vendor);
	} else if (wc->status == -EACCES && op->end.status == 0 &&
		   op->end.verdict == 0) {
		/* rights and bounds were checked here, so the keys have changed, or the
		 * lease has ended and the news of it is still on its way */
		complete_refused(queue, fragment);
		return;
	} else if (fragment_survives(fragment, wc->status)) {
		fragment_lost(queue, side, fragment);
		return;
	} else {
		complete_error(queue, op, wc->status, wc->text, wc->vendor);
	}
	fragment_free(queue, fragment);
}

/* The first fragment on the channel has ended.  Not inlined: whole operations, which are most,
 * don't come here. */
static __attribute__((noinline)) void fragment_land(struct rmem_queue *queue,
						    struct send_side *side,
						    const struct fabric_wc *wc)
{
	struct fragment *fragment = channel_set_take(&queue->channels, side);
	struct op *op = fragment->op;

	op_unfold(op);
	op->in_flight--;
	side->requests -= fragment_is_request(fragment);
	if (wc->status == 0)
		fragment_done(queue, fragment);
	else
		fragment_failed(queue, side, fragment, wc);
	complete_check(queue, op);
}

static void fragments_done(struct rmem_queue *queue, struct send_side *side, unsigned n,
			   struct reaper *reaper)
{
	static const struct fabric_wc done;

	side->proven = true;
	while (n > 0) {
		unsigned taken = reaper ? reap_wholes(reaper, side, n) : 0;

		n -= taken;
		if (taken > 0)
			continue;
		fragment_land(queue, side, &done);
		n--;
	}
}

static RARE void fragments_failed(struct rmem_queue *queue, struct send_side *side,
				  const struct fabric_wc *wc)
{
	for (unsigned i = 0; i < wc->n; i++)
		fragment_land(queue, side, wc);
}

static void completion_take(struct rmem_queue *queue, const struct fabric_wc *wc,
			    struct reaper *reaper)
{
	struct send_side *side = wc->owner;

	if (wc->status == 0)
		fragments_done(queue, side, wc->n, reaper);
	else
		fragments_failed(queue, side, wc);
}

/* ---- dead channels ---- */

static void channel_clear(struct rmem_queue *queue, struct send_side *side)
{
	struct rmem *session = queue->session;

	(void)pthread_mutex_lock(&session->lock);
	channel_release(side->channel, side->proven);
	(void)pthread_mutex_unlock(&session->lock);
	/* the driver cannot reach it any more */
	queue->ops->channel_free(side->fabric);
	channel_set_disconnected(&queue->channels, side);
}

/* Free a channel with all that is on it, which ends in an error: once it is freed the
 * device does not touch local memory any more, and nothing of it can come. */
static void channel_lose(struct rmem_queue *queue, struct send_side *side, int err,
			 const char *why)
{
	const struct fabric_wc wc = { .status = err, .text = why };

	complete_kill(queue, side);
	channel_clear(queue, side);
	while (side->in_flight > 0)
		fragment_land(queue, side, &wc);
	session_wake(queue->session);
}

/* The device's completions cannot be had any more. */
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

void complete_taken(struct rmem_queue *queue, unsigned domain, int n,
		    struct reaper *reaper)
{
	for (int i = 0; i < n; i++)
		completion_take(queue, &queue->wcs[i], reaper);
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
			complete_taken(queue, i, n, reaper);
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

/* ---- ends before the time ---- */

void complete_waiting(struct rmem_queue *queue, int err, const char *why)
{
	for (unsigned i = 0; i < queue->table.n_ops; i++) {
		struct op *op = &queue->table.ops[i];

		if (op->state == OP_PENDING ||
		    (op->state == OP_POSTED && op->fragments > op->in_flight)) {
			complete_error(queue, op, err, why, 0);
			complete_check(queue, op);
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

void complete_verdict(struct rmem_queue *queue, struct op *op, int verdict)
{
	if (op->end.verdict == 0)
		op->end.verdict = verdict;
	op_unfold(op);
	op_ground(queue, op);
	/* it may still be under way on the wire, and its memory in use */
	for (unsigned i = 0; op->in_flight > 0 && i < queue->channels.n; i++)
		if (queue->channels.sides[i].live &&
		    channel_carries(queue, &queue->channels.sides[i], op))
			complete_kill(queue, &queue->channels.sides[i]);
	complete_check(queue, op);
}

/* A device that is gone gives nothing back. */
static uint64_t flushes_end(struct rmem_queue *queue, uint64_t now_ns)
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

void complete_deadlines(struct rmem_queue *queue, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX, flush;

	for (unsigned i = 0; i < queue->table.n_ops; i++) {
		struct op *op = &queue->table.ops[i];

		if ((op->state != OP_PENDING && op->state != OP_POSTED) ||
		    op->end.verdict)
			continue;
		if (op->deadline_ns <= now_ns)
			complete_verdict(queue, op, -ETIMEDOUT);
		else if (op->deadline_ns < next)
			next = op->deadline_ns;
	}
	/* a verdict may have cost a channel just now */
	flush = flushes_end(queue, now_ns);
	queue->next_deadline_ns = flush < next ? flush : next;
}

/* ---- taking all others ---- */

static const char *verdict_text(const struct rmem_queue *queue, int status)
{
	if (status != -ETIMEDOUT)
		return status == -ECANCELED ? "it was cancelled" : NULL;
	return session_usable(queue->session, queue->now_ns)
		       ? "its time was over, and the session has lost its server"
		       : "its time was over";
}

/* As rmem.h has it: Linux has another name for the same number. */
static const char *error_name(int err)
{
	return err == ENOTSUP ? "ENOTSUP" : strerrorname_np(err);
}

static void error_keep(struct rmem_queue *queue, const struct op *op)
{
	char vendor[32] = "", range[96] = "";
	bool unknown = (opcode_is_atomic(op->todo.opcode) ||
			op->todo.opcode == RMEM_OP_WRITE_NOTIFY) &&
		       op->unknown;
	const char *words = op->end.why;

	if (op->end.verdict == op->end.status)
		words = verdict_text(queue, op->end.status);
	if (!words)
		words = strerrordesc_np(-op->end.status);

	if (op->end.vendor)
		(void)snprintf(vendor, sizeof(vendor), " (vendor error 0x%x)",
			       op->end.vendor);
	/* a ping is of no range */
	if (op->todo.opcode != RMEM_OP_PING)
		(void)snprintf(range, sizeof(range),
			       " of %" PRIu64 " bytes at offset %" PRIu64
			       " of lease %" PRIu64,
			       op->todo.bytes, op->todo.offset, op->todo.lease->id);
	(void)snprintf(queue->error, sizeof(queue->error), "%s%s at %s: %s%s%s: %s",
		       op_kinds[op->todo.opcode].text, range, queue->session->server,
		       words, vendor, unknown ? "; whether it was done is unknown" : "",
		       error_name(-op->end.status));
}

void reap_done(struct reaper *reaper)
{
	struct rmem_queue *queue = reaper->queue;

	while (reaper->next < reaper->end && queue->table.n_done > 0) {
		struct op *op = optable_done_take(&queue->table);

		*reaper->next = (struct rmem_completion){
			.cookie = op->todo.cookie,
			.status = op->end.status,
			.vendor = op->end.vendor,
			.bytes = op->todo.bytes,
		};
		if (op->end.status)
			error_keep(queue, op);
		if (!inflight_same(reaper, op))
			inflight_switch(reaper, op);
		took(reaper, 1);
		vec_leave(op);
		inband_leave(op);
		op->end = (struct op_end){ 0 };
		optable_give(&queue->table, op);
	}
}
