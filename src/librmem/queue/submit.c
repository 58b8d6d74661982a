/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/submit.h"

#include <errno.h>

#include "base/err.h"
#include "librmem/queue/deadlines.h"

/* The state of one rmem_submit().  A run is a sequence of operations with equal lease, buffer,
 * opcode, flags and time-out; a share is what goes to one channel with one doorbell. */
struct batch {
	struct rmem_queue *queue;
	const struct rmem_op *first; /* first operation of the run */
	struct run run;
	uint64_t deadline_ns;   /* of each operation of the run */
	struct send_side *side; /* the share's channel; NULL: no share */
	unsigned room;          /* number of operations that the share still takes */
	uint64_t share_bytes;   /* limit of bytes of each operation of the share */
	struct fabric_batch common; /* of all operations of the run on this channel */
};

RARE struct send_side *submit_search(struct rmem_queue *queue,
				     const struct attachment *att)
{
	struct send_side *side;

	return channel_set_pick(&queue->channels, ENDPOINTS_ALL, att, 0, &side) ==
			       PICK_OK
		       ? side
		       : NULL;
}

/* Post the share. */
static void share_end(struct batch *batch)
{
	if (batch->side)
		schedule_post(batch->queue, batch->side);
	batch->side = NULL;
}

/* Set rkey and local memory region for the channel.  False: the lease has no rkey there. */
static bool share_keys(struct batch *batch)
{
	const struct send_side *side = batch->side;
	const struct attachment_key *key = &batch->run.att->keys[0][side->endpoint];
	const struct rmem_buffer *buffer = batch->first->buffer;

	batch->common.remote_addr = key->at.addr;
	batch->common.rkey = key->at.rkey;
	batch->common.region = buffer ? buffer->mrs[side->domain] : NULL;
	return key->present;
}

/* Choose the next channel and the limits of its share: CHANNEL_SHARE_BYTES in operations of at most
 * `bytes` or `small`, whichever is more.  A single channel has no such limit.  False: the operation
 * has to be cut, or no channel can carry it. */
static bool share_begin(struct batch *batch, uint64_t bytes)
{
	const uint64_t small = CHANNEL_SHARE_BYTES / CHANNEL_SHARE;
	const struct channel_set *set = &batch->queue->channels;

	if (bytes > batch->run.max_bytes)
		return false;
	batch->side = submit_pick(batch->queue, batch->run.att);
	if (!batch->side)
		return false;
	batch->share_bytes = set->n == 1 ? UINT64_MAX : bytes > small ? bytes : small;
	batch->room = set->n == 1
			      ? set->depth
			      : (unsigned)(CHANNEL_SHARE_BYTES / batch->share_bytes);
	return share_keys(batch);
}

/* The operation a is in the run that begins with b, whose reserved members are 0. */
static bool ops_match(const struct rmem_op *a, const struct rmem_op *b)
{
	return a->lease == b->lease && a->buffer == b->buffer &&
	       a->opcode == b->opcode && a->flags == b->flags &&
	       a->timeout_ms == b->timeout_ms && (a->reserved[0] | a->reserved[1]) == 0;
}

/* Number of the n operations that belong to the run and fit into the share.  Not inlined: the loop
 * needs all registers. */
static __attribute__((noinline)) unsigned
ops_check(const struct batch *batch, const struct rmem_op *ops, unsigned n)
{
	const struct rmem_op first = *batch->first;
	struct run run = batch->run;
	/* of no length; most operations of a run have the same */
	struct run_limits limits = { .bytes = ~ops->bytes };
	const struct rmem_op *op = ops, *end = ops + n;

	run.max_bytes = lesser(run.max_bytes, batch->share_bytes);
	for (; op < end && ops_match(op, &first); op++) {
		if (op->bytes != limits.bytes &&
		    !run_limits_set(&run, op->bytes, &limits))
			break;
		if (!run_limits_hold(&run, &limits, op))
			break;
	}
	return (unsigned)(op - ops);
}

/* Put at most n operations of the run into the channel; returns their number. */
static unsigned share_fill(struct batch *batch, const struct rmem_op *ops, unsigned n)
{
	struct rmem_queue *queue = batch->queue;
	struct send_side *side = batch->side;
	struct posted_op *posted;

	if (n > batch->room)
		n = batch->room;
	posted = channel_set_end(&queue->channels, side, &n);
	n = ops_check(batch, ops, n);
	if (n > 0)
		n = queue->ops->prepare(side->fabric, &batch->common, op_part(ops),
					sizeof(*ops), n);
	if (n > 0)
		runs_put(queue, side, &batch->run, batch->deadline_ns, ops, n, posted);
	side->n_put += n;
	batch->room -= n;
	if (batch->room == 0 || side->in_flight == queue->channels.depth)
		share_end(batch);
	return n;
}

/* Put the operations of a run into channels, up to the first that cannot be posted now; returns
 * their number. */
static unsigned batch_add(struct batch *batch, const struct rmem_op *ops, unsigned n)
{
	struct rmem_queue *queue = batch->queue;
	unsigned total = 0, got;
	bool open;

	if (!run_allowed(queue, ops))
		return 0;
	batch->first = ops;
	batch->common.opcode = (enum fabric_opcode)ops->opcode;
	run_begin(&batch->run, queue, ops, n);
	batch->deadline_ns = queue_deadline_ns(queue, ops->timeout_ms);
	/* a lease without bytes has no segment, so share_keys() must not be called */
	open = batch->run.max_bytes > 0 && run_valid(ops);
	if (open && batch->side && !share_keys(batch))
		share_end(batch);
	while (open && total < n) {
		if (!batch->side && !share_begin(batch, ops[total].bytes))
			break;
		got = share_fill(batch, ops + total, n - total);
		total += got;
		/* an operation too large for this share begins another share */
		if (got == 0 && ops[total].bytes > batch->share_bytes)
			share_end(batch);
		else if (got == 0)
			break;
	}
	if (total < n)
		inflight_end(batch->run.inflight, ops->lease, ops->buffer, n - total);
	return total;
}

RARE void submit_deadlines(struct rmem_queue *queue)
{
	complete_completions(queue, NULL);
	deadlines_handle(queue, queue->now_ns);
}

__attribute__((noinline)) int submit_all(struct rmem_queue *queue,
					 const struct rmem_op *ops, unsigned n)
{
	struct batch batch = { .queue = queue };
	unsigned room = queue->table.n_free, accepted = 0, taken;
	bool open = submit_is_open(queue);
	int err = 0;

	if (room > n)
		room = n;
	while (accepted < room) {
		taken = open ? batch_add(&batch, &ops[accepted], room - accepted) : 0;
		if (taken == 0) {
			err = validate_form(queue, &ops[accepted]);
			if (err)
				break;
			/* once an operation waits, all later operations wait */
			open = false;
			schedule_add(queue, &ops[accepted]);
			taken = 1;
		}
		accepted += taken;
	}
	/* which posts the share too, together with what it puts behind it */
	if (schedule_waits(queue))
		schedule_pump(queue, queue->now_ns);
	share_end(&batch);
	if (accepted > 0 || n == 0)
		return (int)accepted;
	return err ? err
		   : err_set(-EOVERFLOW,
			     "%u operations are outstanding, as many as "
			     "the queue holds",
			     queue->table.n_ops);
}

int rmem_submit(rmem_queue *queue, const struct rmem_op *ops, unsigned n)
{
	int result = submit_begin(queue);

	if (result)
		return err_prefix(result, "rmem_submit");
	result = n == 1 && submit_one(queue, ops) ? 1 : submit_all(queue, ops, n);
	submit_end(queue);
	return result < 0 ? err_prefix(result, "rmem_submit") : result;
}
