/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/flow.h"

#include <errno.h>
#include <string.h>

#include "base/rare.h"
#include "librmem/buffer.h"
#include "librmem/inband.h"
#include "librmem/lease.h"
#include "librmem/limbo.h"
#include "librmem/session.h"
#include "librmem/settle.h"
#include "librmem/vec.h"

/* Shares of a large operation are cut at multiples of a page. */
#define STRIPE_ALIGN UINT64_C(4096)
#define NS_PER_MS UINT64_C(1000000)

void flow_add(struct rmem_queue *queue, const struct rmem_op *todo, uint64_t now_ns)
{
	struct op *op = optable_take(&queue->table);
	unsigned timeout_ms =
		todo->timeout_ms ? todo->timeout_ms : queue->session->timeout_ms;

	*op = (struct op){
		.own = { .op = op },
		.todo = *todo,
		.state = OP_PENDING,
		.fence = (todo->flags & RMEM_OP_FENCE) != 0 || queue->carry_fence,
		.deadline_ns = now_ns + timeout_ms * NS_PER_MS,
		.end = { .left = todo->bytes },
	};
	if (opcode_is_atomic(todo->opcode))
		op->atomic = (struct fabric_atomic){
			.compare = todo->atomic->compare,
			.operand = todo->atomic->operand,
		};
	if (opcode_is_vectored(todo->opcode))
		vec_take(op, todo);
	if (opcode_is_inband(todo->opcode))
		inband_take(queue, op, todo);
	/* operands need not last longer than the call */
	op->todo.atomic = NULL;
	list_init(&op->own.node);
	op_count(op->todo.lease, op->todo.buffer, 1);
	queue->carry_fence = false;
	list_append(&queue->table.pending, &op->node);
	if (op->deadline_ns < queue->next_deadline_ns)
		queue->next_deadline_ns = op->deadline_ns;
}

/* ---- starting ---- */

/* It lies in the lease. */
static int atomic_check(const struct rmem_op *todo, const struct attachment *att,
			const char **ret_why)
{
	if (todo->bytes != FABRIC_ATOMIC_BYTES) {
		*ret_why = "an atomic is of 8 bytes";
		return -EINVAL;
	}
	if (todo->offset % FABRIC_ATOMIC_BYTES) {
		*ret_why = "its offset is not a multiple of 8";
		return -EINVAL;
	}
	if (att->ends[attachment_segment(att, todo->offset)] - todo->offset <
	    FABRIC_ATOMIC_BYTES) {
		*ret_why = "it lies in two segments of the lease";
		return -EINVAL;
	}
	return 0;
}

/* 0, or why the operation cannot be started, for its own fault. */
static int op_check(const struct op *op, const char **ret_why)
{
	const struct rmem_op *todo = &op->todo;
	const struct attachment *att =
		atomic_load_explicit(&todo->lease->attachment, memory_order_acquire);
	int err;

	if (lease_ended(todo->lease)) {
		*ret_why = "the lease has ended";
		return -ESTALE;
	}
	if (todo->offset > att->bytes || todo->bytes > att->bytes - todo->offset) {
		*ret_why = "it goes beyond the lease";
		return -EINVAL;
	}
	if (op_kinds[todo->opcode].rights & ~todo->lease->rights) {
		*ret_why = "the lease is not attached with that right";
		return -EACCES;
	}
	if (opcode_is_vectored(todo->opcode))
		return vec_check(op, ret_why);
	if (opcode_is_inband(todo->opcode)) {
		err = inband_check(op, ret_why);
		if (err || opcode_is_remote(todo->opcode))
			return err;
	}
	if (todo->bytes > 0 && !todo->addr) {
		*ret_why = "its local memory is NULL";
		return -EINVAL;
	}
	if (todo->buffer && !buffer_holds(todo->buffer, todo->addr, todo->bytes)) {
		*ret_why = "its local memory lies outside of its buffer";
		return -EINVAL;
	}
	return opcode_is_atomic(todo->opcode) ? atomic_check(todo, att, ret_why) : 0;
}

/* Cut so that all channels carry a large operation. */
static uint64_t stripe_bytes(const struct rmem_queue *queue, uint64_t bytes)
{
	uint64_t stripe;

	if (queue->channels.n == 1)
		return UINT64_MAX;
	stripe = bytes / queue->channels.n;
	stripe += STRIPE_ALIGN - stripe % STRIPE_ALIGN;
	return stripe < CHANNEL_SHARE_BYTES ? CHANNEL_SHARE_BYTES : stripe;
}

/* All of it; what of a vectored one does is seen as it is cut. */
static bool bounces(const struct rmem_queue *queue, const struct op *op)
{
	return queue->ops->needs_region && !op->todo.buffer &&
	       !opcode_is_vectored(op->todo.opcode) &&
	       !opcode_is_remote(op->todo.opcode);
}

/* Memory for what is about to bounce, at the first time. */
static int bounce_ready(struct rmem_queue *queue, const struct op *op,
			const char **ret_why)
{
	int err;

	if (queue->bounce.memory || !queue->ops->needs_region ||
	    !(bounces(queue, op) || vec_unregistered(op)))
		return 0;
	err = bounce_create(&queue->bounce);
	if (err == -ENOMEM)
		*ret_why = "no memory for a bounce buffer, or RLIMIT_MEMLOCK is too "
			   "low (ulimit -l)";
	else if (err)
		*ret_why = "a bounce buffer could not be registered";
	return err;
}

/* False: it ended here. */
static bool op_start(struct rmem_queue *queue, struct op *op)
{
	const char *why = NULL;
	int err = op_check(op, &why);

	if (!err && op->todo.bytes > 0)
		err = bounce_ready(queue, op, &why);
	if (err || (op->todo.bytes == 0 && !opcode_is_inband(op->todo.opcode))) {
		op->end.why = why;
		settle_done(queue, op, err);
		return false;
	}
	op->started = true;
	queue->active++;
	op->piece_max = stripe_bytes(queue, op->todo.bytes);
	if (op->piece_max > queue->ops->max_bytes && !opcode_is_remote(op->todo.opcode))
		op->piece_max = queue->ops->max_bytes;
	if (opcode_is_inband(op->todo.opcode))
		inband_start(queue, op);
	if (op->todo.bytes == 0) {
		settle_nothing(queue, op);
		return false;
	}
	if (bounces(queue, op) && op->piece_max > queue->bounce.chunk_bytes)
		op->piece_max = queue->bounce.chunk_bytes;
	return true;
}

/* ---- posting ---- */

/* The last piece in the slot was not posted. */
static struct piece *piece_unpost(struct rmem_queue *queue, struct channel_slot *slot)
{
	struct piece *piece = channelset_take_last(&queue->channels, slot);

	op_unfold(piece->op);
	piece->op->in_flight--;
	slot->requests -= piece_is_request(piece);
	piece->state = PIECE_AGAIN;
	list_prepend(&queue->table.again, &piece->node);
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

static struct fabric_region *region_of(const struct rmem_queue *queue,
				       const struct piece *piece, unsigned domain)
{
	if (piece->chunk)
		return queue->bounce.regions[domain];
	return piece->op->todo.buffer ? piece->op->todo.buffer->regions[domain] : NULL;
}

/* 1: it was put; 0: there is no room; or why it never can be. */
static int part_put(struct rmem_queue *queue, struct op *op, struct channel_slot *slot,
		    const struct fabric_run *run, const struct fabric_part *part)
{
	if (opcode_is_atomic(op->todo.opcode))
		return queue->ops->put_atomic(slot->channel, run, part, &op->atomic);
	return (int)queue->ops->put(slot->channel, run, part, sizeof(*part), 1);
}

/* The same for a piece of a list. */
static int slices_put(struct rmem_queue *queue, struct piece *piece,
		      struct channel_slot *slot, struct fabric_run *run,
		      struct fabric_part *part)
{
	struct fabric_slice slices[VEC_SLICES_MAX];
	unsigned n = vec_slices(piece->op, piece, slot->domain, slices);

	if (n > 1)
		return (int)queue->ops->put_slices(slot->channel, run, part, slices, n);
	run->region = slices[0].region;
	part->addr = slices[0].addr;
	return (int)queue->ops->put(slot->channel, run, part, sizeof(*part), 1);
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
	struct fabric_run run = {
		.opcode = op_kinds[op->todo.opcode].carried,
		.region = region_of(queue, piece, slot->domain),
		.remote_addr = key->addr,
		.rkey = key->rkey,
	};
	struct fabric_part part = {
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
	if (!listed && !piece->chunk)
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
	list_remove(&piece->node);
	if (pick == PICK_NO_KEY)
		limbo_doubt(queue, piece);
	else
		piece_put(queue, piece, slot, att, segment);
	return true;
}

static void again_post(struct rmem_queue *queue)
{
	struct piece *piece;

	while ((piece = list_first(&queue->table.again, struct piece, node)))
		if (!piece_repost(queue, piece))
			break;
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
	*ret_bounces = bounces(queue, op);
	if (opcode_is_vectored(op->todo.opcode))
		max = vec_span(op, offset, max,
			       opcode_writes(op->todo.opcode) ? queue->write_slices
							      : queue->read_slices,
			       queue->ops->needs_region, ret_bounces);
	if (*ret_bounces && max > queue->bounce.chunk_bytes)
		max = queue->bounce.chunk_bytes;
	return max;
}

/* A piece of the operation, behind those there are; NULL: wait for one, or for a chunk. */
static struct piece *piece_cut(struct rmem_queue *queue, struct op *op, uint64_t max)
{
	struct piece *piece = piece_find(queue, op);
	uint64_t offset = op->todo.bytes - op->end.left, bytes;
	unsigned char *chunk = NULL;
	bool bounced;

	if (!piece)
		return NULL;
	bytes = cut_bytes(queue, op, max, &bounced);
	if (bounced) {
		chunk = bounce_take(&queue->bounce);
		if (!chunk)
			return NULL;
	}
	list_remove(&piece->node);
	*piece = (struct piece){
		.op = op,
		.offset = offset,
		.bytes = (uint32_t)bytes,
		.chunk = chunk,
	};
	list_init(&piece->node);
	if (chunk && (op->todo.opcode == RMEM_OP_WRITE ||
		      op->todo.opcode == RMEM_OP_WRITE_NOTIFY))
		memcpy(chunk, (unsigned char *)op->todo.addr + offset, bytes);
	else if (chunk && op->todo.opcode == RMEM_OP_WRITEV)
		vec_gather(op, piece);
	op->end.left -= bytes;
	op->pieces++;
	return piece;
}

/* Cut one piece and post it.  False: the operation has to wait. */
static bool op_advance(struct rmem_queue *queue, struct op *op)
{
	const struct attachment *att =
		atomic_load_explicit(&op->todo.lease->attachment, memory_order_acquire);
	uint64_t at = op->todo.offset + (op->todo.bytes - op->end.left);
	struct channel_slot *slot;
	struct piece *piece;
	unsigned segment;
	enum pick pick;

	if (at >= att->bytes || inband_span(op, at - op->todo.offset) == 0 ||
	    (opcode_is_atomic(op->todo.opcode) &&
	     att->bytes - at < FABRIC_ATOMIC_BYTES)) {
		settle_error(queue, op, -ESTALE, "the lease was made shorter", 0);
		settle(queue, op);
		return true;
	}
	segment = attachment_segment(att, at);
	pick = op_pick(queue, op, at - op->todo.offset,
		       opcode_is_remote(op->todo.opcode), att, segment, &slot);
	if (pick == PICK_WAIT)
		return false;
	piece = piece_cut(queue, op, att->ends[segment] - at);
	if (!piece)
		return false;
	if (op->end.left == 0) {
		list_remove(&op->node);
		op->state = OP_FLYING;
	}
	if (pick == PICK_NO_KEY)
		limbo_doubt(queue, piece);
	else
		piece_put(queue, piece, slot, att, segment);
	return true;
}

/* Work on the first operation that is not cut whole.  False: it has to wait. */
static bool pending_advance(struct rmem_queue *queue, struct op *op)
{
	const char *why;
	int err;

	if (op->fence && !op->started && queue->active > 0)
		return false;
	if (!op->started && !op_start(queue, op))
		return true;
	if (inband_stale(op)) {
		settle_error(queue, op, -ESTALE, "the lease has ended", 0);
		settle(queue, op);
		return true;
	}
	if (opcode_is_atomic(op->todo.opcode) && op->endpoints == 0) {
		err = home_find(queue, op->todo.lease, &op->endpoints, &why);
		if (err == -EAGAIN)
			return false;
		if (err) {
			settle_error(queue, op, err, why, 0);
			settle(queue, op);
			return true;
		}
	}
	return op_advance(queue, op);
}

static void pending_cut(struct rmem_queue *queue)
{
	struct op *op;

	while ((op = list_first(&queue->table.pending, struct op, node)))
		if (!pending_advance(queue, op))
			break;
}

/* ---- all together ---- */

void flow_pump(struct rmem_queue *queue, uint64_t now_ns)
{
	int err = session_usable(queue->session, now_ns);
	unsigned n_dead;

	/* one that may come back is waited for, as long as each has time */
	if (err == -ESTALE)
		settle_waiting(queue, err, "the session has ended");
	if (err)
		return;
	/* what a dying channel did not take goes to the others */
	do {
		n_dead = queue->channels.n_dead;
		again_post(queue);
		pending_cut(queue);
		/* messages of those that have nothing else */
		again_post(queue);
		for (unsigned i = 0; i < queue->channels.n; i++)
			flow_post(queue, &queue->channels.slots[i]);
	} while (queue->channels.n_dead > n_dead);
}

/* Everything but taking what is there. */
static RARE void tend(struct rmem_queue *queue, bool spins)
{
	/* a program that spins reads no clock; before it sleeps what is overdue has ended */
	if ((spins ? clock_coarse_ns() : queue_now_ns(queue)) >=
	    queue->next_deadline_ns)
		settle_deadlines(queue, queue_now_ns(queue));
	if (queue->channels.n_dead > 0)
		settle_dead(queue);
	if (flow_waits(queue))
		flow_pump(queue, queue_now_ns(queue));
	if (queue->channels.n_dead > 0)
		settle_dead(queue);
}

void flow_progress(struct rmem_queue *queue, struct taker *taker)
{
	queue->now_ns = 0;
	if (atomic_load_explicit(&queue->news, memory_order_acquire))
		settle_news(queue);
	settle_completions(queue, taker);
	/* who takes completions calls again, or submits, and then the clock is read */
	if (!taker || taker->n == 0 || queue->channels.n_dead > 0 || flow_waits(queue))
		tend(queue, taker != NULL);
}
