/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/flow.h"

#include <errno.h>
#include <string.h>

#include "base/rare.h"
#include "librmem/buffer.h"
#include "librmem/inband.h"
#include "librmem/lease.h"
#include "librmem/limbo.h"
#include "librmem/pending.h"
#include "librmem/session.h"
#include "librmem/settle.h"
#include "librmem/vec.h"

/* ---- posting ---- */

/* The last piece in the slot was not posted. */
static struct piece *piece_unpost(struct rmem_queue *queue, struct channel_slot *slot)
{
	struct piece *piece = channelset_take_last(&queue->channels, slot);

	op_unfold(piece->op);
	piece->op->in_flight--;
	slot->requests -= piece_is_request(piece);
	queue_unbounce(queue, piece);
	piece_again_first(&queue->table, piece);
	return piece;
}

/* The channel took no more than the first `taken` of n. */
static RARE void post_cut(struct rmem_queue *queue, struct channel_slot *slot,
			  unsigned taken, unsigned n)
{
	settle_kill(queue, slot);
	for (unsigned i = taken; i < n; i++)
		settle(queue, piece_unpost(queue, slot)->op);
}

void flow_post(struct rmem_queue *queue, struct channel_slot *slot)
{
	unsigned n = slot->n_put;
	int result;

	if (n == 0)
		return;
	slot->n_put = 0;
	result = queue->ops->post(slot->channel);
	if (result != (int)n)
		post_cut(queue, slot, result > 0 ? (unsigned)result : 0, n);
}

static struct fabric_local_mr *region_of(const struct rmem_queue *queue,
					 const struct piece *piece, unsigned domain)
{
	if (piece->chunk)
		return queue->bounce.regions[domain];
	return piece->op->todo.buffer ? piece->op->todo.buffer->regions[domain] : NULL;
}

/* 1: it was put; 0: there is no room; or why it never can be. */
static int part_put(struct rmem_queue *queue, struct op *op, struct channel_slot *slot,
		    const struct fabric_batch *run, const struct fabric_op *part)
{
	if (opcode_is_atomic(op->todo.opcode))
		return queue->ops->prepare_atomic(slot->channel, run, part,
						  &op->atomic);
	return (int)queue->ops->prepare(slot->channel, run, part, sizeof(*part), 1);
}

/* The same for a piece of a list. */
static int slices_put(struct rmem_queue *queue, struct piece *piece,
		      struct channel_slot *slot, struct fabric_batch *run,
		      struct fabric_op *part)
{
	struct fabric_sge slices[VEC_SLICES_MAX];
	unsigned n = vec_slices(piece->op, piece, slot->domain, slices);

	if (n > 1)
		return queue->ops->prepare_sges(slot->channel, run, part, slices, n);
	run->region = slices[0].region;
	part->addr = slices[0].addr;
	return (int)queue->ops->prepare(slot->channel, run, part, sizeof(*part), 1);
}

/* NULL: the error says it. */
static const char *unputable_text(int err)
{
	if (err == -ESTALE)
		return "the source's lease was made shorter";
	return err == -EINVAL ? "its address at the server is not a multiple of 8"
			      : NULL;
}

/* Put it into the slot, which has a credit, and a key of the segment. */
static void piece_put(struct rmem_queue *queue, struct piece *piece,
		      struct channel_slot *slot, const struct attachment *att,
		      unsigned segment)
{
	struct op *op = piece->op;
	const struct attachment_key *key = &att->keys[segment][slot->endpoint];
	bool listed = opcode_is_vectored(op->todo.opcode) && !piece->chunk;
	struct fabric_batch run = {
		.opcode = op_kinds[op->todo.opcode].carried,
		.region = region_of(queue, piece, slot->domain),
		.remote_addr = key->at.addr,
		.rkey = key->at.rkey,
	};
	struct fabric_op part = {
		.offset = op->todo.offset + piece->offset -
			  attachment_start(att, segment),
		.addr = piece->chunk,
		.bytes = piece->bytes,
	};
	int taken;

	piece->att = att;
	piece->state = PIECE_FLYING;
	channelset_put(&queue->channels, slot, piece);
	op->in_flight++;
	if (!listed && !piece->chunk && !piece_is_request(piece))
		part.addr = (unsigned char *)op->todo.addr + piece->offset;
	if (piece_is_request(piece))
		taken = inband_put(queue, piece, slot, att, segment);
	else
		taken = listed ? slices_put(queue, piece, slot, &run, &part)
			       : part_put(queue, op, slot, &run, &part);
	if (taken == 1) {
		slot->n_put++;
		return;
	}
	if (taken < 0)
		settle_error(queue, op, taken, unputable_text(taken), 0);
	else
		settle_kill(queue, slot);
	/* it was never counted as a request */
	slot->requests += piece_is_request(piece);
	settle(queue, piece_unpost(queue, slot)->op);
}

/* The next channel that takes what lies `offset` into it. */
static enum pick op_pick(struct rmem_queue *queue, const struct op *op, uint64_t offset,
			 bool request, const struct attachment *att, unsigned segment,
			 struct channel_slot **ret_slot)
{
	unsigned endpoints =
		opcode_is_atomic(op->todo.opcode) ? op->endpoints : ENDPOINTS_ALL;

	if (request)
		return inband_pick(queue, op, offset, att, segment, ret_slot);
	return channelset_pick(&queue->channels, endpoints, att, segment, ret_slot);
}

/* No channel of the queue leads to where it is lent. */
static void op_strand(struct rmem_queue *queue, struct op *op)
{
	settle_error(
		queue, op, -ENOTSUP,
		op->todo.opcode == RMEM_OP_COPY
			? "no RDMA device that this queue has a channel to reaches "
			  "both leases"
			: "its memory is lent through other RDMA devices than this "
			  "queue has channels to",
		0);
	settle(queue, op);
}

/* A chunk of the bounce buffer, if it needs one, with what it writes.  False: there is none. */
static bool chunk_take(struct rmem_queue *queue, struct piece *piece)
{
	struct op *op = piece->op;

	if (!piece->bounces)
		return true;
	piece->chunk = bounce_take(&queue->bounce);
	if (!piece->chunk)
		return false;
	if (op->todo.opcode == RMEM_OP_WRITEV)
		vec_gather(op, piece);
	else if (opcode_writes(op->todo.opcode))
		memcpy(piece->chunk, (unsigned char *)op->todo.addr + piece->offset,
		       piece->bytes);
	return true;
}

/* There is no chunk for it: let those go by that need none.  False: it did, or must not. */
static bool piece_yield(struct rmem_queue *queue, struct piece *piece)
{
	struct optable *table = &queue->table;
	const struct lane *plain = op_lane(table, piece->op, piece->offset, LANE_PLAIN);
	bool first = piece == list_first(&plain->again, struct piece, node);

	if (first)
		piece_wait(table, piece,
			   op_lane(table, piece->op, piece->offset, LANE_SCARCE));
	return first;
}

/* Post again what came back.  False: it has to wait. */
static bool piece_repost(struct rmem_queue *queue, struct piece *piece)
{
	struct op *op = piece->op;
	const struct attachment *att =
		atomic_load_explicit(&op->todo.lease->attachment, memory_order_acquire);
	uint64_t at = op->todo.offset + piece->offset;
	struct channel_slot *slot;
	enum pick pick;
	unsigned segment;

	if (at >= att->bytes ||
	    piece->bytes > att->ends[attachment_segment(att, at)] - at) {
		settle_error(queue, op, -ESTALE, "the lease was made shorter", 0);
		settle(queue, op);
		return true;
	}
	if (inband_stale(op)) {
		settle_error(queue, op, -ESTALE, "the lease has ended", 0);
		settle(queue, op);
		return true;
	}
	segment = attachment_segment(att, at);
	pick = op_pick(queue, op, piece->offset, piece_is_request(piece), att, segment,
		       &slot);
	if (pick == PICK_WAIT)
		return false;
	if (pick == PICK_NEVER) {
		op_strand(queue, op);
		return true;
	}
	if (pick == PICK_OK && !chunk_take(queue, piece))
		return piece_yield(queue, piece);
	list_remove(&piece->node);
	if (pick == PICK_NO_KEY)
		limbo_doubt(queue, piece);
	else
		piece_put(queue, piece, slot, att, segment);
	return true;
}

/* ---- cutting ---- */

/* A piece that is free, or NULL. */
static struct piece *piece_find(struct rmem_queue *queue, struct op *op)
{
	if (op->own.state == PIECE_FREE)
		return &op->own;
	return list_first(&queue->table.free_pieces, struct piece, node);
}

/* How much of it goes into the next piece, `max` at most. */
static uint64_t cut_bytes(struct rmem_queue *queue, struct op *op, uint64_t max,
			  bool *ret_bounces)
{
	uint64_t offset = op->todo.bytes - op->end.left;

	if (max > op->end.left)
		max = op->end.left;
	if (max > op->piece_max)
		max = op->piece_max;
	if (opcode_is_remote(op->todo.opcode) && max > inband_span(op, offset))
		max = inband_span(op, offset);
	*ret_bounces = queue_bounces(queue, op);
	if (opcode_is_vectored(op->todo.opcode))
		max = vec_span(op, offset, max,
			       opcode_writes(op->todo.opcode) ? queue->write_slices
							      : queue->read_slices,
			       queue->ops->needs_local_mr, ret_bounces);
	if (*ret_bounces && max > queue->bounce.chunk_bytes)
		max = queue->bounce.chunk_bytes;
	return max;
}

/* A piece of the operation, behind those there are; NULL: wait for one, or for a chunk. */
static struct piece *piece_cut(struct rmem_queue *queue, struct op *op, uint64_t max)
{
	struct piece *piece = piece_find(queue, op);
	uint64_t offset = op->todo.bytes - op->end.left, bytes;
	bool bounces;

	if (!piece)
		return NULL;
	bytes = cut_bytes(queue, op, max, &bounces);
	if (bounces && queue->bounce.n_free == 0)
		return NULL;
	list_remove(&piece->node);
	*piece = (struct piece){
		.op = op,
		.offset = offset,
		.bytes = (uint32_t)bytes,
		.bounces = bounces,
	};
	list_init(&piece->node);
	(void)chunk_take(queue, piece);
	op->end.left -= bytes;
	op->pieces++;
	return piece;
}

/* Its lease has ended, or was made shorter, while it waited. */
static const char *op_stale(const struct op *op, const struct attachment *att)
{
	uint64_t offset = op->todo.bytes - op->end.left, at = op->todo.offset + offset;

	if (inband_stale(op))
		return "the lease has ended";
	if (at >= att->bytes || inband_span(op, offset) == 0 ||
	    (opcode_is_atomic(op->todo.opcode) &&
	     att->bytes - at < FABRIC_ATOMIC_BYTES))
		return "the lease was made shorter";
	return NULL;
}

/* There is no piece for it, or no chunk: let those go by that may do with their own piece, and
 * registered memory.  False: nobody is there. */
static bool op_yield(struct rmem_queue *queue, struct op *op)
{
	struct optable *table = &queue->table;
	uint64_t offset = op->todo.bytes - op->end.left;
	const struct lane *plain = op_lane(table, op, offset, LANE_PLAIN);
	bool first = op == list_first(&plain->ops, struct op, node);

	if (first)
		op_wait(table, op, op_lane(table, op, offset, LANE_SCARCE));
	return first;
}

/* What is left of it may wait for other channels than what began at `before`. */
static void op_move(struct rmem_queue *queue, struct op *op, uint64_t before)
{
	enum lane_kind kind =
		opcode_is_remote(op->todo.opcode) ? LANE_REQUEST : LANE_PLAIN;
	struct lane *lane =
		op_lane(&queue->table, op, op->todo.bytes - op->end.left, kind);

	if (lane != op_lane(&queue->table, op, before, kind))
		op_wait(&queue->table, op, lane);
}

/* Cut one piece and post it.  False: the operation has to wait. */
static bool op_advance(struct rmem_queue *queue, struct op *op)
{
	const struct attachment *att =
		atomic_load_explicit(&op->todo.lease->attachment, memory_order_acquire);
	uint64_t at = op->todo.offset + (op->todo.bytes - op->end.left);
	const char *why = op_stale(op, att);
	struct channel_slot *slot;
	struct piece *piece;
	unsigned segment;
	enum pick pick;

	if (why) {
		settle_error(queue, op, -ESTALE, why, 0);
		settle(queue, op);
		return true;
	}
	segment = attachment_segment(att, at);
	pick = op_pick(queue, op, at - op->todo.offset,
		       opcode_is_remote(op->todo.opcode), att, segment, &slot);
	if (pick == PICK_WAIT)
		return false;
	if (pick == PICK_NEVER) {
		op_strand(queue, op);
		return true;
	}
	piece = piece_cut(queue, op, att->ends[segment] - at);
	if (!piece)
		return op_yield(queue, op);
	if (op->end.left == 0) {
		list_remove(&op->node);
		op->state = OP_FLYING;
	} else if (att->bound || op->todo.opcode == RMEM_OP_COPY) {
		op_move(queue, op, at - op->todo.offset);
	}
	if (pick == PICK_NO_KEY)
		limbo_doubt(queue, piece);
	else
		piece_put(queue, piece, slot, att, segment);
	return true;
}

/* ---- lanes ---- */

/* False: there is none, or it has to wait. */
static bool again_step(struct rmem_queue *queue, struct lane *lane)
{
	struct piece *piece = list_first(&lane->again, struct piece, node);

	return piece && piece_repost(queue, piece);
}

static bool ops_step(struct rmem_queue *queue, struct lane *lane)
{
	struct op *op = list_first(&lane->ops, struct op, node);

	return op && op_advance(queue, op);
}

/* Post one piece, of what came back and of what is to be cut in turn.  False: both wait. */
static bool lane_step(struct rmem_queue *queue, struct lane *lane)
{
	for (unsigned i = 0; i < 2; i++) {
		lane->turn = !lane->turn;
		if (lane->turn ? ops_step(queue, lane) : again_step(queue, lane))
			return true;
	}
	return false;
}

/* Each in turn, until all wait; who waited longest is the first next time. */
static void lanes_run(struct rmem_queue *queue)
{
	struct list *stalled = &queue->table.stalled;
	struct list waiting = LIST_INIT(waiting);
	struct lane *lane;

	while ((lane = list_first(stalled, struct lane, node))) {
		bool went = lane_step(queue, lane);

		list_remove(&lane->node);
		if (!lane_empty(lane))
			list_append(went ? stalled : &waiting, &lane->node);
	}
	list_splice(stalled, &waiting);
}

/* ---- all together ---- */

void flow_pump(struct rmem_queue *queue, uint64_t now_ns)
{
	int err = session_usable(queue->session, now_ns);
	unsigned n_dead, n_done;

	/* one that may come back is waited for, as long as each has time */
	if (err == -ESTALE)
		settle_waiting(queue, err, "the session has ended");
	if (err)
		return;
	/* what a dying channel did not take goes to the others */
	do {
		n_dead = queue->channels.n_dead;
		do {
			n_done = queue->table.n_done;
			pending_start(queue);
			lanes_run(queue);
			/* what ends in here gives back what others wait for */
		} while (queue->table.n_done > n_done);
		for (unsigned i = 0; i < queue->channels.n; i++)
			flow_post(queue, &queue->channels.slots[i]);
	} while (queue->channels.n_dead > n_dead);
}

/* Everything but taking what is there. */
static RARE void tend(struct rmem_queue *queue)
{
	if (queue_now_ns(queue) >= queue->next_deadline_ns)
		settle_deadlines(queue, queue_now_ns(queue));
	if (queue->channels.n_dead > 0)
		settle_dead(queue);
	if (flow_waits(queue))
		flow_pump(queue, queue_now_ns(queue));
	if (queue->channels.n_dead > 0)
		settle_dead(queue);
}

bool flow_overdue(const struct rmem_queue *queue)
{
	return clock_coarse_ns() >= queue->next_deadline_ns;
}

void flow_progress(struct rmem_queue *queue, struct taker *taker)
{
	const struct rmem_completion *before = taker ? taker->next : NULL;

	queue->now_ns = 0;
	if (atomic_load_explicit(&queue->news, memory_order_acquire))
		settle_news(queue);
	settle_completions(queue, taker);
	/* Who takes completions calls again, or submits, and then the clock is read.  Who spins
	 * in vain is to see the next one soon: for him a cheap clock will do. */
	if (!taker || queue->channels.n_dead > 0 || flow_waits(queue) ||
	    (taker->next == before && flow_overdue(queue)))
		tend(queue);
}
