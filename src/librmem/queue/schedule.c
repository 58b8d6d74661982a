/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/schedule.h"

#include <errno.h>
#include <string.h>

#include "base/random.h"
#include "base/rare.h"
#include "librmem/lease/buffer.h"
#include "librmem/queue/inband.h"
#include "librmem/lease/lease.h"
#include "librmem/session/session.h"
#include "librmem/queue/complete.h"
#include "librmem/queue/deadlines.h"
#include "librmem/queue/reap.h"
#include "librmem/queue/runs.h"
#include "librmem/queue/endpoints.h"
#include "librmem/queue/validate.h"
#include "librmem/queue/vec.h"

/* Large operations are cut at multiples of a page. */
#define STRIPE_ALIGN UINT64_C(4096)

/* ---- starting ---- */

/* Count the operation's uses, also of a registered buffer that has its memory and was not named. */
static void uses_begin(struct rmem_queue *queue, struct op *op)
{
	struct buffer_table *buffers = queue->session->buffers;
	struct rmem_op *todo = &op->todo;
	struct rmem_buffer *found = NULL;

	if (queue_bounces(queue, op) && buffer_worth_search(buffers, todo->bytes))
		found = buffer_find(buffers, todo->addr, todo->bytes);
	if (found)
		todo->buffer = found;
	op->inflight = inflight_begin(&queue->inflights, todo->lease, todo->buffer, 1);
	if (found)
		buffer_unuse(found);
}

void schedule_add(struct rmem_queue *queue, const struct rmem_op *todo)
{
	struct op *op = optable_acquire(&queue->table);

	queue->table.n_free--;
	*op = (struct op){
		.own = { .op = op },
		.todo = *todo,
		.state = OP_PENDING,
		.fence = (todo->flags & RMEM_OP_FENCE) != 0 || queue->carry_fence,
		.deadline_ns = queue_deadline_ns(queue, todo->timeout_ms),
		.end = { .uncut_bytes = todo->bytes },
	};
	if (opcode_is_atomic(todo->opcode))
		op->atomic = (struct fabric_atomic){
			.compare = todo->atomic->compare,
			.operand = todo->atomic->operand,
		};
	if (opcode_is_vectored(todo->opcode))
		vec_acquire(queue, op, todo);
	if (opcode_is_inband(todo->opcode))
		inband_prepare(queue, op, todo);
	/* the caller's operands are valid only during the call */
	op->todo.atomic = NULL;
	list_init(&op->own.node);
	uses_begin(queue, op);
	queue->carry_fence = false;
	list_append(&queue->table.pending, &op->node);
}

/* Limit of bytes of a fragment, so that all channels carry a large operation. */
static uint64_t stripe_bytes(const struct rmem_queue *queue, uint64_t bytes)
{
	uint64_t stripe;

	if (queue->channels.n == 1)
		return UINT64_MAX;
	stripe = bytes / queue->channels.n;
	stripe += STRIPE_ALIGN - stripe % STRIPE_ALIGN;
	return stripe < CHANNEL_SHARE_BYTES ? CHANNEL_SHARE_BYTES : stripe;
}

/* Limit of bytes of a fragment that moves them over the wire.  A large one goes to a channel that
 * has less than its limit of such bytes: a few of them are enough to keep it busy. */
static uint64_t fragment_max(const struct rmem_queue *queue)
{
	uint32_t large_max = queue->ops->large_max;

	return large_max ? lesser(queue->bytes_max, large_max / 4) : queue->bytes_max;
}

/* Create the bounce buffer before the first operation that needs it. */
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

/* False: the operation has ended. */
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
	if (!opcode_is_remote(op->todo.opcode))
		op->fragment_max = lesser(op->fragment_max, fragment_max(queue));
	if (opcode_is_inband(op->todo.opcode))
		inband_start(queue, op);
	/* it is complete, or its message follows */
	if (op->todo.bytes == 0) {
		complete_cut(queue, op);
		complete_check(queue, op);
		return false;
	}
	if (queue_bounces(queue, op) && op->fragment_max > queue->bounce.chunk_bytes)
		op->fragment_max = queue->bounce.chunk_bytes;
	return true;
}

/* The lease has ended, or was made shorter, while the operation waited: the text; else NULL. */
static const char *op_stale(const struct op *op, const struct attachment *att)
{
	uint64_t offset = op->todo.bytes - op->end.uncut_bytes,
		 at = op->todo.offset + offset;
	const char *stale = inband_stale(op);

	if (stale)
		return stale;
	if (at >= att->bytes || inband_span(op, offset) == 0 ||
	    (opcode_is_atomic(op->todo.opcode) &&
	     att->bytes - at < FABRIC_ATOMIC_BYTES))
		return "the lease was made shorter";
	return NULL;
}

/* Find the endpoints of an atomic.  False: it waits for the server's answer, or has ended. */
static bool atomic_enter(struct rmem_queue *queue, struct op *op)
{
	const char *why = op_stale(op, lease_attachment(op->todo.lease));
	int err = -ESTALE;

	if (!why)
		err = endpoints_atomic(queue, op->todo.lease, op_reach(op, 0),
				       &op->endpoints, &why);
	if (err == -EAGAIN)
		list_move(&queue->table.await_atomic_device, &op->node);
	else if (err)
		complete_failed(queue, op, err, why);
	return err == 0;
}

/* Put a started operation into its wait list. */
static void op_enter(struct rmem_queue *queue, struct op *op)
{
	if (!opcode_is_atomic(op->todo.opcode) || atomic_enter(queue, op))
		op_wait(&queue->table, op,
			op_wait_list(&queue->table, op,
				     op->todo.bytes - op->end.uncut_bytes,
				     op_wait_kind(op)));
}

/* Start operations up to the first that a fence holds up. */
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

/* Let the atomics that wait for their atomic device try again, ahead of all others. */
static void atomics_resume(struct rmem_queue *queue)
{
	list_splice(&queue->table.await_atomic_device, &queue->table.pending);
	list_splice(&queue->table.pending, &queue->table.await_atomic_device);
}

/* ---- posting ---- */

/* Remove the last fragment put into the channel, which was not posted. */
static struct fragment *fragment_unpost(struct rmem_queue *queue,
					struct send_side *side)
{
	struct fragment *fragment = channel_set_pop_last(&queue->channels, side);

	fragment->op->in_flight--;
	side->requests -= fragment_is_request(fragment);
	side->large_bytes -= fragment_is_large(fragment) ? fragment->bytes : 0;
	queue_unbounce(queue, fragment);
	fragment_requeue(&queue->table, fragment, true);
	return fragment;
}

/* The connection accepted only the first `accepted` of n fragments. */
static RARE void post_incomplete(struct rmem_queue *queue, struct send_side *side,
				 unsigned accepted, unsigned n)
{
	complete_kill(queue, side);
	runs_split(queue, side);
	for (unsigned i = accepted; i < n; i++)
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
		post_incomplete(queue, side, result > 0 ? (unsigned)result : 0, n);
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

/* A device gets a random number in the place of the answer, see atomic_is_answered(). */
static int atomic_put(struct rmem_queue *queue, struct op *op, struct send_side *side,
		      const struct fabric_batch *common, const struct fabric_op *part)
{
	if (queue->ops->needs_local_mr) {
		op->sentinel = random_next(&queue->sentinels);
		memcpy(part->addr, &op->sentinel, sizeof(op->sentinel));
	}
	return queue->ops->prepare_atomic(side->fabric, common, part, &op->atomic);
}

/* Prepare the only local range of a fragment.  Returns 1; 0: the channel is full; or -errno: the
 * operation can never be posted. */
static int range_put(struct rmem_queue *queue, struct op *op, struct send_side *side,
		     const struct fabric_batch *common, const struct fabric_op *part)
{
	if (opcode_is_atomic(op->todo.opcode))
		return atomic_put(queue, op, side, common, part);
	return (int)queue->ops->prepare(side->fabric, common, part, sizeof(*part), 1);
}

/* range_put() for a fragment of a vectored operation that does not bounce. */
static int slices_put(struct rmem_queue *queue, struct fragment *fragment,
		      struct send_side *side, struct fabric_batch *common,
		      struct fabric_op *part)
{
	struct fabric_sge slices[VEC_SLICES_MAX];
	unsigned n = vec_slices(fragment->op, fragment, side->domain, slices);

	if (n > 1)
		return queue->ops->prepare_sges(side->fabric, common, part, slices, n);
	common->region = slices[0].region;
	part->addr = slices[0].addr;
	return (int)queue->ops->prepare(side->fabric, common, part, sizeof(*part), 1);
}

/* Why an operation can never be posted; NULL: the error number's own text. */
static const char *prepare_error_text(int err)
{
	if (err == -ESTALE)
		return "the source's lease was made shorter";
	return err == -EINVAL ? "its address at the server is not a multiple of 8"
			      : NULL;
}

/* Put the fragment into a channel that has a credit, and an rkey of the segment. */
static void fragment_put(struct rmem_queue *queue, struct fragment *fragment,
			 struct send_side *side, const struct attachment *att,
			 unsigned segment)
{
	struct op *op = fragment->op;
	const struct attachment_key *key = &att->keys[segment][side->endpoint];
	bool listed = opcode_is_vectored(op->todo.opcode) && !fragment->chunk;
	struct fabric_batch common = {
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
	int result;

	fragment->generation = att->generation;
	fragment->state = FRAGMENT_POSTED;
	*channel_set_put(&queue->channels, side, 1) =
		(struct posted_run){ .fragment = fragment, .n = 1 };
	side->large_bytes += fragment_is_large(fragment) ? fragment->bytes : 0;
	op->in_flight++;
	if (!listed && !fragment->chunk && !fragment_is_request(fragment))
		part.addr = (unsigned char *)op->todo.addr + fragment->offset;
	if (fragment_is_request(fragment))
		result = inband_put(queue, fragment, side, att, segment);
	else
		result = listed ? slices_put(queue, fragment, side, &common, &part)
				: range_put(queue, op, side, &common, &part);
	if (result == 1) {
		side->n_put++;
		return;
	}
	if (result < 0)
		complete_error(queue, op, result, prepare_error_text(result), 0);
	else
		complete_kill(queue, side);
	/* inband_put() has not counted the request, but fragment_unpost() subtracts it */
	side->requests += fragment_is_request(fragment);
	complete_check(queue, fragment_unpost(queue, side)->op);
}

/* The next channel that can carry the part of the operation at `offset`. */
static enum pick op_pick(struct rmem_queue *queue, const struct op *op, uint64_t offset,
			 enum wait_kind kind, const struct attachment *att,
			 unsigned segment, struct send_side **ret_side)
{
	/* channel_set_pick() returns PICK_NEVER for memory that other endpoints lend */
	unsigned endpoints =
		opcode_is_atomic(op->todo.opcode) ? op->endpoints : ENDPOINTS_ALL;

	if (kind == WAIT_REQUEST)
		return inband_pick(queue, op, offset, att, segment, ret_side);
	if (kind == WAIT_LARGE)
		return channel_set_pick_large(&queue->channels, endpoints, att, segment,
					      ret_side);
	return channel_set_pick(&queue->channels, endpoints, att, segment, ret_side);
}

/* No channel of the queue leads to an endpoint that lends the memory. */
static void op_unreachable(struct rmem_queue *queue, struct op *op)
{
	complete_failed(queue, op, -ENOTSUP,
			op->todo.opcode == RMEM_OP_COPY
				? "no RDMA device that this queue has a channel to "
				  "reaches both leases"
				: "its memory is lent through other RDMA devices than "
				  "this queue has channels to");
}

/* Give the fragment a chunk of the bounce buffer if it needs one, filled with the bytes to be
 * written.  False: no chunk is free. */
static bool chunk_acquire(struct rmem_queue *queue, struct fragment *fragment)
{
	struct op *op = fragment->op;

	/* a channel connected since may have a lower limit of inline data */
	if (fragment->bytes > 0 && queue_bounces(queue, op))
		fragment->bounces = true;
	if (!fragment->bounces)
		return true;
	fragment->chunk = bounce_acquire(&queue->bounce);
	if (!fragment->chunk)
		return false;
	if (!opcode_writes(op->todo.opcode))
		return true;
	if (op->todo.opcode == RMEM_OP_WRITEV)
		vec_copy(op, fragment);
	else
		memcpy(fragment->chunk,
		       (unsigned char *)op->todo.addr + fragment->offset,
		       fragment->bytes);
	session_copied(queue->session, fragment->bytes);
	return true;
}

/* The lists whose members move on to WAIT_SCARCE; those of other kinds are in neither of them. */
static enum wait_kind plain_kind(enum wait_kind kind)
{
	return kind == WAIT_LARGE ? WAIT_LARGE : WAIT_PLAIN;
}

/* No chunk is free: move the fragment to WAIT_SCARCE, so that fragments behind it that need no
 * chunk can go.  False: it is not the first fragment of its plain list, and was not moved. */
static bool fragment_to_scarce(struct rmem_queue *queue, struct fragment *fragment)
{
	struct optable *table = &queue->table;
	const struct wait_list *own =
		op_wait_list(table, fragment->op, fragment->offset,
			     plain_kind(fragment_wait_kind(fragment)));
	bool first = fragment == list_first(&own->reposts, struct fragment, node);

	if (first)
		fragment_wait(table, fragment,
			      op_wait_list(table, fragment->op, fragment->offset,
					   WAIT_SCARCE));
	return first;
}

/* Put a fragment into a channel again.  False: it has to wait. */
static bool fragment_repost(struct rmem_queue *queue, struct fragment *fragment)
{
	struct op *op = fragment->op;
	const struct attachment *att = lease_attachment(op->todo.lease);
	uint64_t at = op->todo.offset + fragment->offset;
	const char *stale = inband_stale(op);
	struct send_side *side;
	enum pick pick;
	unsigned segment;

	if (at >= att->bytes ||
	    fragment->bytes > att->ends[attachment_segment(att, at)] - at) {
		complete_failed(queue, op, -ESTALE, "the lease was made shorter");
		return true;
	}
	if (stale) {
		complete_failed(queue, op, -ESTALE, stale);
		return true;
	}
	segment = attachment_segment(att, at);
	pick = op_pick(queue, op, fragment->offset, fragment_wait_kind(fragment), att,
		       segment, &side);
	if (pick == PICK_WAIT)
		return false;
	if (pick == PICK_NEVER) {
		op_unreachable(queue, op);
		return true;
	}
	if (pick == PICK_OK && !chunk_acquire(queue, fragment))
		return fragment_to_scarce(queue, fragment);
	list_remove(&fragment->node);
	if (pick == PICK_NO_KEY)
		complete_refused(queue, fragment);
	else
		fragment_put(queue, fragment, side, att, segment);
	return true;
}

/* ---- cutting ---- */

/* A free fragment for the operation, or NULL. */
static struct fragment *fragment_find(struct rmem_queue *queue, struct op *op)
{
	if (op->own.state == FRAGMENT_FREE)
		return &op->own;
	return list_first(&queue->table.free_fragments, struct fragment, node);
}

/* Number of bytes of the next fragment, `max` at most. */
static uint64_t cut_bytes(struct rmem_queue *queue, struct op *op, uint64_t max,
			  bool *ret_bounces)
{
	uint64_t offset = op->todo.bytes - op->end.uncut_bytes;

	if (max > op->end.uncut_bytes)
		max = op->end.uncut_bytes;
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

/* Cut the next fragment of the operation; NULL: wait for a fragment, or for a chunk. */
static struct fragment *fragment_cut(struct rmem_queue *queue, struct op *op,
				     uint64_t max)
{
	struct fragment *fragment = fragment_find(queue, op);
	uint64_t offset = op->todo.bytes - op->end.uncut_bytes, bytes;
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
	(void)chunk_acquire(queue, fragment);
	op->end.uncut_bytes -= bytes;
	op->fragments++;
	return fragment;
}

/* No fragment or no chunk is free: move the operation to WAIT_SCARCE, so that operations behind it
 * that need only their own fragment and no chunk can go.  False: it is not the first operation of
 * its plain list, and was not moved. */
static bool op_to_scarce(struct rmem_queue *queue, struct op *op)
{
	struct optable *table = &queue->table;
	uint64_t offset = op->todo.bytes - op->end.uncut_bytes;
	const struct wait_list *own =
		op_wait_list(table, op, offset, plain_kind(op_wait_kind(op)));
	bool first = op == list_first(&own->ops, struct op, node);

	if (first)
		op_wait(table, op, op_wait_list(table, op, offset, WAIT_SCARCE));
	return first;
}

/* The rest of the operation may need another wait list than the part at `before`. */
static void op_move(struct rmem_queue *queue, struct op *op, uint64_t before)
{
	enum wait_kind kind = op_wait_kind(op);
	struct wait_list *list = op_wait_list(
		&queue->table, op, op->todo.bytes - op->end.uncut_bytes, kind);

	if (list != op_wait_list(&queue->table, op, before, kind))
		op_wait(&queue->table, op, list);
}

/* Cut one fragment of the operation, and put the fragment into a channel.  False: the operation
 * has to wait. */
static bool op_advance(struct rmem_queue *queue, struct op *op)
{
	const struct attachment *att = lease_attachment(op->todo.lease);
	uint64_t at = op->todo.offset + (op->todo.bytes - op->end.uncut_bytes);
	const char *why = op_stale(op, att);
	struct send_side *side;
	struct fragment *fragment;
	unsigned segment;
	enum pick pick;

	if (why) {
		complete_failed(queue, op, -ESTALE, why);
		return true;
	}
	segment = attachment_segment(att, at);
	pick = op_pick(queue, op, at - op->todo.offset, op_wait_kind(op), att, segment,
		       &side);
	if (pick == PICK_WAIT)
		return false;
	if (pick == PICK_NEVER) {
		op_unreachable(queue, op);
		return true;
	}
	fragment = fragment_cut(queue, op, att->ends[segment] - at);
	if (!fragment)
		return op_to_scarce(queue, op);
	if (op->end.uncut_bytes == 0) {
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

/* ---- wait lists ---- */

/* Put one fragment into a channel: in turn one to be posted again, and one cut from an operation.
 * False: both wait. */
static bool wait_list_step(struct rmem_queue *queue, struct wait_list *list)
{
	for (unsigned i = 0; i < 2; i++) {
		struct fragment *fragment =
			list_first(&list->reposts, struct fragment, node);
		struct op *op = list_first(&list->ops, struct op, node);

		list->last_was_op = !list->last_was_op;
		if (list->last_was_op ? op && op_advance(queue, op)
				      : fragment && fragment_repost(queue, fragment))
			return true;
	}
	return false;
}

/* Step the lists in turn, until all wait; the list that waited longest is the first next time. */
static void wait_lists_run(struct rmem_queue *queue)
{
	struct list *stalled = &queue->table.stalled;
	struct list waiting = LIST_INIT(waiting);
	struct wait_list *list;

	while ((list = list_first(stalled, struct wait_list, node))) {
		bool progress = wait_list_step(queue, list);

		list_remove(&list->node);
		if (!wait_list_empty(list))
			list_append(progress ? stalled : &waiting, &list->node);
	}
	list_splice(stalled, &waiting);
}

/* ---- pumping ---- */

void schedule_pump(struct rmem_queue *queue, uint64_t now_ns)
{
	int err = session_usable(queue->session, now_ns);
	unsigned n_dead, n_done;

	/* while the session may resume, operations wait until their deadlines */
	if (err == -ESTALE)
		complete_session_ended(queue);
	if (err)
		return;
	/* fragments that a failing connection did not accept go to other channels */
	do {
		n_dead = queue->channels.n_dead;
		do {
			n_done = queue->table.n_done;
			pending_start(queue);
			wait_lists_run(queue);
			/* an operation that ends here frees resources that others wait for */
		} while (queue->table.n_done > n_done);
		sides_for_each(side, &queue->channels)
			schedule_post(queue, side);
	} while (queue->channels.n_dead > n_dead);
}

static void channel_check(struct rmem_queue *queue, struct send_side *side)
{
	struct channel *channel = side->channel;

	if (channel_adopt(channel))
		channel_set_connected(&queue->channels, side, channel->fabric);
	if (channel->doomed)
		complete_kill(queue, side);
}

void schedule_events(struct rmem_queue *queue)
{
	(void)pthread_mutex_lock(&queue->session->lock);
	/* under the lock, so that `woken` and the wake-up change together */
	if (!wakeup_clear(&queue->wake) && queue->session->state != SESSION_LOST)
		session_robbed(queue->session);
	atomic_store_explicit(&queue->woken, false, memory_order_relaxed);
	sides_for_each(side, &queue->channels)
		channel_check(queue, side);
	if (queue->session->buffers->n_device_only > 0)
		channel_set_inline_never(&queue->channels);
	(void)pthread_mutex_unlock(&queue->session->lock);
	queue_domains_follow(queue);
	complete_retry(queue);
	atomics_resume(queue);
}

/* End overdue operations, free dead connections, and pump. */
static RARE void queue_housekeeping(struct rmem_queue *queue)
{
	if (queue_now_ns(queue) >= queue->next_deadline_ns)
		deadlines_handle(queue, queue_now_ns(queue));
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

	attachments_enter(&queue->inflights);
	queue->now_ns = 0;
	if (atomic_load_explicit(&queue->woken, memory_order_acquire))
		schedule_events(queue);
	complete_completions(queue, reaper);
	/* A caller that took completions calls again or submits, and the clock is read then.  A
	 * caller that polls an empty queue calls again at once; the coarse clock is precise enough
	 * for it. */
	if (!reaper || queue->channels.n_dead > 0 || schedule_waits(queue) ||
	    (reaper->next == before && schedule_overdue(queue)))
		queue_housekeeping(queue);
	attachments_leave(&queue->inflights);
}
