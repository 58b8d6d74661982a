/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/schedule.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/rare.h"
#include "librmem/queue/device.h"
#include "librmem/lease/buffer.h"
#include "librmem/queue/inband.h"
#include "librmem/lease/lease.h"
#include "librmem/queue/retry.h"
#include "librmem/session/session.h"
#include "librmem/queue/complete.h"
#include "librmem/queue/endpoints.h"
#include "librmem/queue/validate.h"
#include "librmem/queue/vec.h"

/* Shares of a large operation are cut at multiples of a page. */
#define STRIPE_ALIGN UINT64_C(4096)

/* ---- starting ---- */

void schedule_add(struct rmem_queue *queue, const struct rmem_op *todo, uint64_t now_ns)
{
	struct op *op = optable_take(&queue->table);

	*op = (struct op){
		.own = { .op = op },
		.todo = *todo,
		.state = OP_PENDING,
		.fence = (todo->flags & RMEM_OP_FENCE) != 0 || queue->carry_fence,
		.deadline_ns = now_ns + queue_timeout_ns(queue, todo->timeout_ms),
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
	op->inflight =
		inflight_begin(&queue->inflights, op->todo.lease, op->todo.buffer, 1);
	queue->carry_fence = false;
	list_append(&queue->table.pending, &op->node);
	if (op->deadline_ns < queue->next_deadline_ns)
		queue->next_deadline_ns = op->deadline_ns;
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

/* Memory for what is about to bounce, at the first time. */
static int bounce_ready(struct rmem_queue *queue, const struct op *op,
			const char **ret_why)
{
	int err;

	if (queue->bounce.memory || !queue->ops->needs_local_mr ||
	    !(queue_bounces(queue, op) || vec_unregistered(op)))
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
	int err = validate_start(op, &why);

	if (!err && op->todo.bytes > 0)
		err = bounce_ready(queue, op, &why);
	if (err || (op->todo.bytes == 0 && !opcode_is_inband(op->todo.opcode))) {
		op->end.why = why;
		complete_done(queue, op, err);
		return false;
	}
	op->started = true;
	queue->active++;
	op->fragment_max = stripe_bytes(queue, op->todo.bytes);
	if (op->fragment_max > queue->ops->max_bytes &&
	    !opcode_is_remote(op->todo.opcode))
		op->fragment_max = queue->ops->max_bytes;
	if (opcode_is_inband(op->todo.opcode))
		inband_start(queue, op);
	if (op->todo.bytes == 0) {
		complete_nothing(queue, op);
		return false;
	}
	if (queue_bounces(queue, op) && op->fragment_max > queue->bounce.chunk_bytes)
		op->fragment_max = queue->bounce.chunk_bytes;
	return true;
}

/* The list of an atomic.  Not 0: it ended here. */
static int atomic_wait_list(struct rmem_queue *queue, struct op *op,
			    struct wait_list **ret_wait_list)
{
	const char *why;
	int err = endpoints_atomic(queue, op->todo.lease, op_reach(op, 0),
				   &op->endpoints, &why);

	if (err && err != -EAGAIN) {
		complete_error(queue, op, err, why, 0);
		complete_check(queue, op);
		return err;
	}
	*ret_wait_list =
		optable_wait_list(&queue->table, WAIT_ATOMIC, err ? 0 : op->endpoints);
	return 0;
}

/* It was started. */
static void op_enter(struct rmem_queue *queue, struct op *op)
{
	struct wait_list *list;

	if (!opcode_is_atomic(op->todo.opcode))
		list = op_wait_list(&queue->table, op, op->todo.bytes - op->end.left,
				    opcode_is_remote(op->todo.opcode) ? WAIT_REQUEST
								      : WAIT_PLAIN);
	else if (atomic_wait_list(queue, op, &list))
		return;
	op_wait(&queue->table, op, list);
}

/* Start what no fence holds up: it goes to a list, or ends here. */
static void pending_start(struct rmem_queue *queue)
{
	struct op *op;

	while ((op = list_first(&queue->table.pending, struct op, node))) {
		if (op->fence && !op->started && queue->active > 0)
			return;
		if (op->started || op_start(queue, op))
			op_enter(queue, op);
	}
}

/* There is news: start anew what waits to be told where atomics are done. */
static void atomics_resume(struct rmem_queue *queue)
{
	struct list *waiting = &optable_wait_list(&queue->table, WAIT_ATOMIC, 0)->ops;

	/* ahead of all others */
	list_splice(waiting, &queue->table.pending);
	list_splice(&queue->table.pending, waiting);
}

/* ---- posting ---- */

/* The last fragment in the channel was not posted. */
static struct fragment *fragment_unpost(struct rmem_queue *queue,
					struct send_side *side)
{
	struct fragment *fragment = channel_set_take_last(&queue->channels, side);

	op_unfold(fragment->op);
	fragment->op->in_flight--;
	side->requests -= fragment_is_request(fragment);
	queue_unbounce(queue, fragment);
	fragment_again_first(&queue->table, fragment);
	return fragment;
}

/* The channel took no more than the first `taken` of n. */
static RARE void post_cut(struct rmem_queue *queue, struct send_side *side,
			  unsigned taken, unsigned n)
{
	complete_kill(queue, side);
	for (unsigned i = taken; i < n; i++)
		complete_check(queue, fragment_unpost(queue, side)->op);
}

void schedule_post(struct rmem_queue *queue, struct send_side *side)
{
	unsigned n = side->n_put;
	int result;

	if (n == 0)
		return;
	side->n_put = 0;
	result = queue->ops->post(side->fabric);
	if (result != (int)n)
		post_cut(queue, side, result > 0 ? (unsigned)result : 0, n);
}

static struct fabric_local_mr *region_of(const struct rmem_queue *queue,
					 const struct fragment *fragment,
					 unsigned domain)
{
	if (fragment->chunk)
		return queue->bounce.mrs[domain];
	return fragment->op->todo.buffer ? fragment->op->todo.buffer->mrs[domain]
					 : NULL;
}

/* 1: it was put; 0: there is no room; or why it never can be. */
static int part_put(struct rmem_queue *queue, struct op *op, struct send_side *side,
		    const struct fabric_batch *run, const struct fabric_op *part)
{
	if (opcode_is_atomic(op->todo.opcode))
		return queue->ops->prepare_atomic(side->fabric, run, part, &op->atomic);
	return (int)queue->ops->prepare(side->fabric, run, part, sizeof(*part), 1);
}

/* The same for a fragment of a list. */
static int slices_put(struct rmem_queue *queue, struct fragment *fragment,
		      struct send_side *side, struct fabric_batch *run,
		      struct fabric_op *part)
{
	struct fabric_sge slices[VEC_SLICES_MAX];
	unsigned n = vec_slices(fragment->op, fragment, side->domain, slices);

	if (n > 1)
		return queue->ops->prepare_sges(side->fabric, run, part, slices, n);
	run->region = slices[0].region;
	part->addr = slices[0].addr;
	return (int)queue->ops->prepare(side->fabric, run, part, sizeof(*part), 1);
}

/* NULL: the error says it. */
static const char *unputable_text(int err)
{
	if (err == -ESTALE)
		return "the source's lease was made shorter";
	return err == -EINVAL ? "its address at the server is not a multiple of 8"
			      : NULL;
}

/* Put it into the channel, which has a credit, and a key of the segment. */
static void fragment_put(struct rmem_queue *queue, struct fragment *fragment,
			 struct send_side *side, const struct attachment *att,
			 unsigned segment)
{
	struct op *op = fragment->op;
	const struct attachment_key *key = &att->keys[segment][side->endpoint];
	bool listed = opcode_is_vectored(op->todo.opcode) && !fragment->chunk;
	struct fabric_batch run = {
		.opcode = op_kinds[op->todo.opcode].carried,
		.region = region_of(queue, fragment, side->domain),
		.remote_addr = key->at.addr,
		.rkey = key->at.rkey,
	};
	struct fabric_op part = {
		.offset = op->todo.offset + fragment->offset -
			  attachment_start(att, segment),
		.addr = fragment->chunk,
		.bytes = fragment->bytes,
	};
	int taken;

	fragment->att = att;
	fragment->state = FRAGMENT_POSTED;
	channel_set_put(&queue->channels, side, fragment);
	op->in_flight++;
	if (!listed && !fragment->chunk && !fragment_is_request(fragment))
		part.addr = (unsigned char *)op->todo.addr + fragment->offset;
	if (fragment_is_request(fragment))
		taken = inband_put(queue, fragment, side, att, segment);
	else
		taken = listed ? slices_put(queue, fragment, side, &run, &part)
			       : part_put(queue, op, side, &run, &part);
	if (taken == 1) {
		side->n_put++;
		return;
	}
	if (taken < 0)
		complete_error(queue, op, taken, unputable_text(taken), 0);
	else
		complete_kill(queue, side);
	/* it was never counted as a request */
	side->requests += fragment_is_request(fragment);
	complete_check(queue, fragment_unpost(queue, side)->op);
}

/* The next channel that takes what lies `offset` into it. */
static enum pick op_pick(struct rmem_queue *queue, const struct op *op, uint64_t offset,
			 bool request, const struct attachment *att, unsigned segment,
			 struct send_side **ret_side)
{
	unsigned endpoints =
		opcode_is_atomic(op->todo.opcode) ? op->endpoints : ENDPOINTS_ALL;

	if (request)
		return inband_pick(queue, op, offset, att, segment, ret_side);
	return channel_set_pick(&queue->channels, endpoints, att, segment, ret_side);
}

/* No channel of the queue leads to where it is lent. */
static void op_strand(struct rmem_queue *queue, struct op *op)
{
	complete_error(
		queue, op, -ENOTSUP,
		op->todo.opcode == RMEM_OP_COPY
			? "no RDMA device that this queue has a channel to reaches "
			  "both leases"
			: "its memory is lent through other RDMA devices than this "
			  "queue has channels to",
		0);
	complete_check(queue, op);
}

/* A chunk of the bounce buffer, if it needs one, with what it writes.  False: there is none. */
static bool chunk_take(struct rmem_queue *queue, struct fragment *fragment)
{
	struct op *op = fragment->op;

	if (!fragment->bounces)
		return true;
	fragment->chunk = bounce_take(&queue->bounce);
	if (!fragment->chunk)
		return false;
	if (op->todo.opcode == RMEM_OP_WRITEV)
		vec_gather(op, fragment);
	else if (opcode_writes(op->todo.opcode))
		memcpy(fragment->chunk,
		       (unsigned char *)op->todo.addr + fragment->offset,
		       fragment->bytes);
	return true;
}

/* There is no chunk for it: let those go by that need none.  False: it did, or must not. */
static bool fragment_yield(struct rmem_queue *queue, struct fragment *fragment)
{
	struct optable *table = &queue->table;
	const struct wait_list *plain =
		op_wait_list(table, fragment->op, fragment->offset, WAIT_PLAIN);
	bool first = fragment == list_first(&plain->again, struct fragment, node);

	if (first)
		fragment_wait(table, fragment,
			      op_wait_list(table, fragment->op, fragment->offset,
					   WAIT_SCARCE));
	return first;
}

/* Post again what came back.  False: it has to wait. */
static bool fragment_repost(struct rmem_queue *queue, struct fragment *fragment)
{
	struct op *op = fragment->op;
	const struct attachment *att =
		atomic_load_explicit(&op->todo.lease->attachment, memory_order_acquire);
	uint64_t at = op->todo.offset + fragment->offset;
	struct send_side *side;
	enum pick pick;
	unsigned segment;

	if (at >= att->bytes ||
	    fragment->bytes > att->ends[attachment_segment(att, at)] - at) {
		complete_error(queue, op, -ESTALE, "the lease was made shorter", 0);
		complete_check(queue, op);
		return true;
	}
	if (inband_stale(op)) {
		complete_error(queue, op, -ESTALE, "the lease has ended", 0);
		complete_check(queue, op);
		return true;
	}
	segment = attachment_segment(att, at);
	pick = op_pick(queue, op, fragment->offset, fragment_is_request(fragment), att,
		       segment, &side);
	if (pick == PICK_WAIT)
		return false;
	if (pick == PICK_NEVER) {
		op_strand(queue, op);
		return true;
	}
	if (pick == PICK_OK && !chunk_take(queue, fragment))
		return fragment_yield(queue, fragment);
	list_remove(&fragment->node);
	if (pick == PICK_NO_KEY)
		complete_refused(queue, fragment);
	else
		fragment_put(queue, fragment, side, att, segment);
	return true;
}

/* ---- cutting ---- */

/* A fragment that is free, or NULL. */
static struct fragment *fragment_find(struct rmem_queue *queue, struct op *op)
{
	if (op->own.state == FRAGMENT_FREE)
		return &op->own;
	return list_first(&queue->table.free_fragments, struct fragment, node);
}

/* How much of it goes into the next fragment, `max` at most. */
static uint64_t cut_bytes(struct rmem_queue *queue, struct op *op, uint64_t max,
			  bool *ret_bounces)
{
	uint64_t offset = op->todo.bytes - op->end.left;

	if (max > op->end.left)
		max = op->end.left;
	if (max > op->fragment_max)
		max = op->fragment_max;
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

/* A fragment of the operation, behind those there are; NULL: wait for one, or for a chunk. */
static struct fragment *fragment_cut(struct rmem_queue *queue, struct op *op,
				     uint64_t max)
{
	struct fragment *fragment = fragment_find(queue, op);
	uint64_t offset = op->todo.bytes - op->end.left, bytes;
	bool bounces;

	if (!fragment)
		return NULL;
	bytes = cut_bytes(queue, op, max, &bounces);
	if (bounces && queue->bounce.n_free == 0)
		return NULL;
	list_remove(&fragment->node);
	*fragment = (struct fragment){
		.op = op,
		.offset = offset,
		.bytes = (uint32_t)bytes,
		.bounces = bounces,
	};
	list_init(&fragment->node);
	(void)chunk_take(queue, fragment);
	op->end.left -= bytes;
	op->fragments++;
	return fragment;
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

/* There is no fragment for it, or no chunk: let those go by that may do with their own fragment, and
 * registered memory.  False: nobody is there. */
static bool op_yield(struct rmem_queue *queue, struct op *op)
{
	struct optable *table = &queue->table;
	uint64_t offset = op->todo.bytes - op->end.left;
	const struct wait_list *plain = op_wait_list(table, op, offset, WAIT_PLAIN);
	bool first = op == list_first(&plain->ops, struct op, node);

	if (first)
		op_wait(table, op, op_wait_list(table, op, offset, WAIT_SCARCE));
	return first;
}

/* What is left of it may wait for other channels than what began at `before`. */
static void op_move(struct rmem_queue *queue, struct op *op, uint64_t before)
{
	enum wait_kind kind =
		opcode_is_remote(op->todo.opcode) ? WAIT_REQUEST : WAIT_PLAIN;
	struct wait_list *list =
		op_wait_list(&queue->table, op, op->todo.bytes - op->end.left, kind);

	if (list != op_wait_list(&queue->table, op, before, kind))
		op_wait(&queue->table, op, list);
}

/* Cut one fragment and post it.  False: the operation has to wait. */
static bool op_advance(struct rmem_queue *queue, struct op *op)
{
	const struct attachment *att =
		atomic_load_explicit(&op->todo.lease->attachment, memory_order_acquire);
	uint64_t at = op->todo.offset + (op->todo.bytes - op->end.left);
	const char *why = op_stale(op, att);
	struct send_side *side;
	struct fragment *fragment;
	unsigned segment;
	enum pick pick;

	if (why) {
		complete_error(queue, op, -ESTALE, why, 0);
		complete_check(queue, op);
		return true;
	}
	segment = attachment_segment(att, at);
	pick = op_pick(queue, op, at - op->todo.offset,
		       opcode_is_remote(op->todo.opcode), att, segment, &side);
	if (pick == PICK_WAIT)
		return false;
	if (pick == PICK_NEVER) {
		op_strand(queue, op);
		return true;
	}
	fragment = fragment_cut(queue, op, att->ends[segment] - at);
	if (!fragment)
		return op_yield(queue, op);
	if (op->end.left == 0) {
		list_remove(&op->node);
		op->state = OP_POSTED;
	} else if (att->bound || op->todo.opcode == RMEM_OP_COPY) {
		op_move(queue, op, at - op->todo.offset);
	}
	if (pick == PICK_NO_KEY)
		complete_refused(queue, fragment);
	else
		fragment_put(queue, fragment, side, att, segment);
	return true;
}

/* ---- wait_lists ---- */

/* False: there is none, or it has to wait. */
static bool again_step(struct rmem_queue *queue, struct wait_list *list)
{
	struct fragment *fragment = list_first(&list->again, struct fragment, node);

	return fragment && fragment_repost(queue, fragment);
}

static bool ops_step(struct rmem_queue *queue, struct wait_list *list)
{
	struct op *op = list_first(&list->ops, struct op, node);

	return op && op_advance(queue, op);
}

/* Post one fragment, of what came back and of what is to be cut in turn.  False: both wait. */
static bool wait_list_step(struct rmem_queue *queue, struct wait_list *list)
{
	for (unsigned i = 0; i < 2; i++) {
		list->turn = !list->turn;
		if (list->turn ? ops_step(queue, list) : again_step(queue, list))
			return true;
	}
	return false;
}

/* Each in turn, until all wait; who waited longest is the first next time. */
static void wait_lists_run(struct rmem_queue *queue)
{
	struct list *stalled = &queue->table.stalled;
	struct list waiting = LIST_INIT(waiting);
	struct wait_list *list;

	while ((list = list_first(stalled, struct wait_list, node))) {
		bool went = wait_list_step(queue, list);

		list_remove(&list->node);
		if (!wait_list_empty(list))
			list_append(went ? stalled : &waiting, &list->node);
	}
	list_splice(stalled, &waiting);
}

/* ---- all together ---- */

void schedule_pump(struct rmem_queue *queue, uint64_t now_ns)
{
	int err = session_usable(queue->session, now_ns);
	unsigned n_dead, n_done;

	/* one that may come back is waited for, as long as each has time */
	if (err == -ESTALE)
		complete_waiting(queue, err, "the session has ended");
	if (err)
		return;
	/* what a dying channel did not take goes to the others */
	do {
		n_dead = queue->channels.n_dead;
		do {
			n_done = queue->table.n_done;
			pending_start(queue);
			wait_lists_run(queue);
			/* what ends in here gives back what others wait for */
		} while (queue->table.n_done > n_done);
		for (unsigned i = 0; i < queue->channels.n; i++)
			schedule_post(queue, &queue->channels.sides[i]);
	} while (queue->channels.n_dead > n_dead);
}

static void channel_look(struct rmem_queue *queue, struct send_side *side)
{
	struct channel *channel = side->channel;

	if (channel_adopt(channel))
		channel_set_connected(side, channel->fabric);
	if (channel->doomed)
		complete_kill(queue, side);
}

void schedule_news(struct rmem_queue *queue)
{
	eventfd_t count;

	(void)pthread_mutex_lock(&queue->session->lock);
	/* flag and descriptor change together, or one would stay without the other */
	(void)eventfd_read(queue->wake_fd, &count);
	atomic_store_explicit(&queue->woken, false, memory_order_relaxed);
	for (unsigned i = 0; i < queue->channels.n; i++)
		channel_look(queue, &queue->channels.sides[i]);
	(void)pthread_mutex_unlock(&queue->session->lock);
	device_tidy(queue);
	retry_resolve(queue);
	atomics_resume(queue);
}

/* Everything but taking what is there. */
static RARE void tend(struct rmem_queue *queue)
{
	if (queue_now_ns(queue) >= queue->next_deadline_ns)
		complete_deadlines(queue, queue_now_ns(queue));
	if (queue->channels.n_dead > 0)
		complete_dead(queue);
	if (schedule_waits(queue))
		schedule_pump(queue, queue_now_ns(queue));
	if (queue->channels.n_dead > 0)
		complete_dead(queue);
}

bool schedule_overdue(const struct rmem_queue *queue)
{
	return clock_coarse_ns() >= queue->next_deadline_ns;
}

void schedule_progress(struct rmem_queue *queue, struct reaper *reaper)
{
	const struct rmem_completion *before = reaper ? reaper->next : NULL;

	queue->now_ns = 0;
	if (atomic_load_explicit(&queue->woken, memory_order_acquire))
		schedule_news(queue);
	complete_completions(queue, reaper);
	/* A caller that takes completions calls again, or submits, and then the clock is read.  A
	 * caller that polls an empty queue calls again at once; the coarse clock is precise enough
	 * for it. */
	if (!reaper || queue->channels.n_dead > 0 || schedule_waits(queue) ||
	    (reaper->next == before && schedule_overdue(queue)))
		tend(queue);
}
