/* SPDX-License-Identifier: BSD-3-Clause */
/* What is put and posted on the client's side of a channel. */
#include "fabric/verbs/client/connection.h"

#include <errno.h>
#include <inttypes.h>

#include "base/err.h"
#include "base/rare.h"
#include "fabric/verbs/common/sigpipe.h"

#define PAGE_BYTES_MIN 4096u

/* The part of a short read that lies on its first page, if it goes beyond: siw, at the
 * peer, would take the rest from the wrong place. */
static uint64_t read_head(const struct fabric_batch *batch, const struct fabric_op *op)
{
	uint64_t at = batch->remote_addr + op->offset;
	uint64_t on_page = PAGE_BYTES_MIN - at % PAGE_BYTES_MIN;

	return op->bytes > VERBS_SIW_SHORT_READ || op->bytes <= on_page ? 0 : on_page;
}

/* As two requests, the first of which has so many bytes. */
static RARE void read_cut(struct verbs_sq *sq, const struct fabric_batch *batch,
			  const struct fabric_op *whole, uint64_t head_bytes)
{
	struct fabric_op op = *whole;

	op.bytes = head_bytes;
	verbs_sq_add(sq, batch, &op, VERBS_WR_HEAD);
	op.addr = (char *)op.addr + head_bytes;
	op.offset += head_bytes;
	op.bytes = whole->bytes - head_bytes;
	verbs_sq_add(sq, batch, &op, VERBS_WR_OPERATION);
}

/* The last write that is put, of those to be confirmed. */
static void written_set(struct fabric_channel *channel,
			const struct fabric_batch *batch, const struct fabric_op *op)
{
	if (batch->opcode != FABRIC_WRITE)
		return;
	channel->written = *batch;
	channel->written.remote_addr += op->offset;
}

/* Read back one byte of what the last write goes to: when it is here, the write and all
 * before it on this queue pair are placed; when they were refused, it never comes.  It is
 * the batch's last request, as no other may speak for the writes before it. */
static void confirm_put(struct fabric_channel *channel)
{
	struct fabric_domain *domain = channel->cq->domain;
	struct fabric_local_mr sink = { .mr = domain->sink };
	const struct fabric_op op = { .addr = &domain->sink_byte, .bytes = 1 };
	struct fabric_batch batch = channel->written;

	if (batch.opcode != FABRIC_WRITE)
		return;
	batch.opcode = FABRIC_READ;
	batch.region = &sink;
	verbs_sq_add(&channel->sq, &batch, &op, VERBS_WR_CONFIRM);
	channel->written = (struct fabric_batch){ 0 };
}

static const struct fabric_op *op_at(const struct fabric_op *ops, size_t stride,
				     unsigned i)
{
	return (const struct fabric_op *)((const char *)ops + i * stride);
}

/* Put operations, at least one, where some may be more than their request. */
static __attribute__((noinline)) void ops_put(struct fabric_channel *channel,
					      const struct fabric_batch *batch,
					      const struct fabric_op *ops,
					      size_t stride, unsigned n)
{
	struct verbs_sq *sq = &channel->sq;
	unsigned done = 0;

	written_set(channel, batch, op_at(ops, stride, n - 1));
	for (unsigned i = 0; batch->opcode == FABRIC_READ && i < n; i++) {
		const struct fabric_op *op = op_at(ops, stride, i);
		uint64_t head_bytes = read_head(batch, op);

		if (!head_bytes)
			continue;
		(void)verbs_sq_add_all(sq, batch, op_at(ops, stride, done), stride,
				       i - done);
		read_cut(sq, batch, op, head_bytes);
		done = i + 1;
	}
	(void)verbs_sq_add_all(sq, batch, op_at(ops, stride, done), stride, n - done);
}

unsigned verbs_connection_prepare(struct fabric_channel *channel,
				  const struct fabric_batch *batch,
				  const struct fabric_op *ops, size_t stride,
				  unsigned n)
{
	if (n > channel->depth - channel->outstanding)
		n = channel->depth - channel->outstanding;
	channel->outstanding += n;
	channel->n_put += n;
	if (!channel->confirm)
		return verbs_sq_add_all(&channel->sq, batch, ops, stride, n);
	if (n > 0)
		ops_put(channel, batch, ops, stride, n);
	return n;
}

int verbs_connection_prepare_sges(struct fabric_channel *channel,
				  const struct fabric_batch *batch,
				  const struct fabric_op *op,
				  const struct fabric_sge *sges, unsigned n)
{
	int err = verbs_sq_alloc_sges(&channel->sq);

	if (err)
		return err;
	if (channel->outstanding == channel->depth)
		return 0;
	channel->outstanding++;
	channel->n_put++;
	verbs_sq_add_sges(&channel->sq, batch, op, sges, n);
	if (channel->confirm)
		written_set(channel, batch, op);
	return 1;
}

int verbs_connection_prepare_atomic(struct fabric_channel *channel,
				    const struct fabric_batch *batch,
				    const struct fabric_op *op,
				    const struct fabric_atomic *atomic)
{
	int err = verbs_domain_supports(channel->cq->domain, FABRIC_CAN_ATOMICS);

	if (err)
		return err;
	/* a device would refuse it only when it is posted, with all that is beside it */
	if ((batch->remote_addr + op->offset) % FABRIC_ATOMIC_BYTES)
		return err_set(-EINVAL,
			       "an atomic at %#" PRIx64 ", not a multiple of %d",
			       batch->remote_addr + op->offset, FABRIC_ATOMIC_BYTES);
	if (channel->outstanding == channel->depth)
		return 0;
	channel->outstanding++;
	channel->n_put++;
	verbs_sq_add_atomic(&channel->sq, batch, op, atomic);
	return 1;
}

int verbs_connection_prepare_inband(struct fabric_channel *channel,
				    const struct fabric_batch *batch,
				    const struct fabric_op *op,
				    const struct fabric_inband_request *request)
{
	struct fabric_domain *domain = channel->cq->domain;
	int err = verbs_domain_supports(domain, FABRIC_CAN_INBAND);

	if (!err && !channel->inband)
		err = verbs_inband_open(channel, &channel->sq, domain->pd, channel->qp,
					channel->depth, channel->confirm,
					&channel->inband);
	if (err)
		return err;
	if (channel->inband->lost)
		verbs_connection_abort(channel);
	if (channel->outstanding == channel->depth || channel->inband->lost ||
	    verbs_inband_full(channel->inband))
		return 0;
	channel->outstanding++;
	channel->n_put++;
	verbs_inband_add(channel->inband, batch, op, request);
	return 1;
}

/* Some of what was put is not posted. */
static void inband_trim(struct fabric_channel *channel)
{
	if (channel->sq.n_inband > 0)
		verbs_inband_trim(channel->inband);
}

static RARE int post_failed(struct fabric_channel *channel, unsigned n_put,
			    unsigned taken, int err)
{
	channel->outstanding -= n_put - taken;
	inband_trim(channel);
	verbs_connection_abort(channel);
	if (taken > 0)
		return (int)taken;
	return err_errno(-ECONNRESET, "the channel to %s: ibv_post_send gives %d",
			 channel->cm_id.peer, err);
}

static RARE int post_dead(struct fabric_channel *channel, unsigned n_put)
{
	channel->outstanding -= n_put;
	verbs_sq_drop(&channel->sq);
	inband_trim(channel);
	return err_set(-ECONNRESET, "the channel to %s is dead", channel->cm_id.peer);
}

static RARE unsigned post_guarded(struct fabric_channel *channel, int *ret_errno)
{
	struct verbs_sigpipe sigpipe;
	unsigned taken;

	verbs_sigpipe_begin(&sigpipe, true);
	taken = verbs_sq_post(&channel->sq, channel->qp, ret_errno);
	verbs_sigpipe_end(&sigpipe);
	return taken;
}

/* The long way, where an operation may be more than its request, or nothing is posted. */
static __attribute__((noinline)) int post_slowly(struct fabric_channel *channel,
						 enum fabric_opcode opcode,
						 struct fabric_local_mr *region,
						 const struct fabric_key *key,
						 const struct fabric_op *op)
{
	const struct fabric_batch batch = fabric_batch_of(opcode, region, key);

	return verbs_connection_prepare(channel, &batch, op, 0, 1) == 1
		       ? verbs_connection_post(channel)
		       : 0;
}

/* One request is all that it takes. */
static inline bool is_one_wr(const struct fabric_channel *channel,
			     enum fabric_opcode opcode, const struct fabric_op *op)
{
	return !channel->confirm || op->bytes > channel->confirm_bytes[opcode];
}

int verbs_connection_post_one(struct fabric_channel *channel, enum fabric_opcode opcode,
			      struct fabric_local_mr *region,
			      const struct fabric_key *key, const struct fabric_op *op)
{
	int result;

	if (!is_one_wr(channel, opcode, op) || channel->outstanding == channel->depth ||
	    atomic_load_explicit(&channel->dead, memory_order_relaxed))
		return post_slowly(channel, opcode, region, key, op);
	channel->outstanding++;
	result = verbs_sq_post_one(&channel->sq, channel->qp, opcode, region->mr->lkey,
				   key, op);
	return result == 1 ? 1 : post_failed(channel, 1, result == 0, -result);
}

int verbs_connection_post(struct fabric_channel *channel)
{
	unsigned n_put = channel->n_put, taken;
	int err;

	channel->n_put = 0;
	if (atomic_load_explicit(&channel->dead, memory_order_relaxed))
		return post_dead(channel, n_put);
	if (n_put == 0)
		return 0;
	if (channel->confirm)
		confirm_put(channel);
	taken = channel->guard ? post_guarded(channel, &err)
			       : verbs_sq_post(&channel->sq, channel->qp, &err);
	return err ? post_failed(channel, n_put, taken, err) : (int)taken;
}
