/* SPDX-License-Identifier: BSD-3-Clause */
/* Preparing and posting operations on the client's side of a channel, and aborting it. */
#include "fabric/verbs/client/connection.h"

#include <errno.h>
#include <inttypes.h>

#include "base/err.h"
#include "base/rare.h"
#include "fabric/verbs/common/iwarp.h"
#include "fabric/verbs/common/qp.h"

#define PAGE_BYTES_MIN 4096u

/* Works around a bug of siw, see VERBS_SIW_SHORT_READ: returns the length of the first part of a
 * short read that crosses a page boundary; 0: there is no need to cut the read. */
static uint64_t read_head(const struct fabric_batch *batch, const struct fabric_op *op)
{
	uint64_t at = batch->remote_addr + op->offset;
	uint64_t on_page = PAGE_BYTES_MIN - at % PAGE_BYTES_MIN;

	return op->bytes > VERBS_SIW_SHORT_READ || op->bytes <= on_page ? 0 : on_page;
}

/* Add the read as two requests, the first one of head_bytes. */
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

/* Store the address of the last write that is to be confirmed. */
static void written_set(struct fabric_channel *channel,
			const struct fabric_batch *batch, const struct fabric_op *op)
{
	if (batch->opcode != FABRIC_WRITE)
		return;
	channel->written = *batch;
	channel->written.remote_addr += op->offset;
}

/* Over iWARP a write completes before the peer has placed or refused it.  So read back one byte at
 * the last write's address: the read succeeds only if that write and all before it on the queue
 * pair are in memory.  It is the last request of the batch, so that no other request's entry
 * completes those writes. */
static void confirm_add(struct fabric_channel *channel)
{
	struct fabric_domain *domain = channel->cq->domain;
	/* where the read puts the byte, which nobody uses */
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

/* Add operations, at least one, of which some may take several work requests. */
static __attribute__((noinline)) void ops_add(struct fabric_channel *channel,
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
	channel->n_prepared += n;
	if (!channel->confirm)
		return verbs_sq_add_all(&channel->sq, batch, ops, stride, n);
	if (n > 0)
		ops_add(channel, batch, ops, stride, n);
	return n;
}

/* False: the channel is full. */
static bool op_reserve(struct fabric_channel *channel)
{
	if (channel->outstanding == channel->depth)
		return false;
	channel->outstanding++;
	channel->n_prepared++;
	return true;
}

int verbs_connection_prepare_sges(struct fabric_channel *channel,
				  const struct fabric_batch *batch,
				  const struct fabric_op *op,
				  const struct fabric_sge *sges, unsigned n)
{
	int err = verbs_sq_alloc_sges(&channel->sq);

	if (err)
		return err;
	if (!op_reserve(channel))
		return 0;
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
	/* a device would refuse it only when it is posted, with the rest of the batch */
	if ((batch->remote_addr + op->offset) % FABRIC_ATOMIC_BYTES)
		return err_set(-EINVAL,
			       "an atomic at %#" PRIx64 ", not a multiple of %d",
			       batch->remote_addr + op->offset, FABRIC_ATOMIC_BYTES);
	if (!op_reserve(channel))
		return 0;
	verbs_sq_add_atomic(&channel->sq, batch, op, atomic);
	return 1;
}

int verbs_connection_prepare_inband(struct fabric_channel *channel,
				    const struct fabric_batch *batch,
				    const struct fabric_op *op,
				    const struct fabric_inband_request *request)
{
	int err = verbs_domain_supports(channel->cq->domain, FABRIC_CAN_INBAND);

	if (!err && !channel->inband)
		err = verbs_inband_open(channel);
	if (err)
		return err;
	if (channel->inband->lost)
		verbs_connection_abort(channel);
	if (channel->inband->lost || channel->sq.n_inband == channel->inband->credits ||
	    !op_reserve(channel))
		return 0;
	verbs_inband_add(channel->inband, batch, op, request);
	return 1;
}

void verbs_connection_abort(struct fabric_channel *channel)
{
	bool iwarp = channel->cq->domain->attr.iwarp;

	atomic_store_explicit(&channel->dead, true, memory_order_relaxed);
	(void)verbs_qp_fail(channel->qp, iwarp);
	if (!iwarp)
		return;
	atomic_store(&channel->aborted, true);
	verbs_cq_aborted(channel->cq);
}

static RARE int post_failed(struct fabric_channel *channel, unsigned n_prepared,
			    unsigned taken, int err)
{
	channel->outstanding -= n_prepared - taken;
	verbs_inband_trim(channel);
	verbs_connection_abort(channel);
	if (taken > 0)
		return (int)taken;
	return err_errno(-ECONNRESET, "the channel to %s: ibv_post_send gives %d",
			 channel->cm_id.peer, err);
}

static RARE int post_dead(struct fabric_channel *channel, unsigned n_prepared)
{
	channel->outstanding -= n_prepared;
	verbs_sq_drop(&channel->sq);
	verbs_inband_trim(channel);
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

/* For an operation that may take several work requests, and a channel that is full or dead. */
static __attribute__((noinline)) int post_one_slow(struct fabric_channel *channel,
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

/* Whether one work request is enough. */
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
		return post_one_slow(channel, opcode, region, key, op);
	channel->outstanding++;
	result = verbs_sq_post_one(&channel->sq, channel->qp, opcode,
				   verbs_sq_lkey(region), key, op);
	return result == 1 ? 1 : post_failed(channel, 1, result == 0, -result);
}

int verbs_connection_post(struct fabric_channel *channel)
{
	unsigned n_prepared = channel->n_prepared, taken;
	int err;

	channel->n_prepared = 0;
	if (atomic_load_explicit(&channel->dead, memory_order_relaxed))
		return post_dead(channel, n_prepared);
	if (n_prepared == 0)
		return 0;
	if (channel->confirm)
		confirm_add(channel);
	taken = channel->guard ? post_guarded(channel, &err)
			       : verbs_sq_post(&channel->sq, channel->qp, &err);
	return err ? post_failed(channel, n_prepared, taken, err) : (int)taken;
}

uint32_t verbs_connection_inline_max(const struct fabric_channel *channel)
{
	return channel->sq.inline_bytes;
}
