/* SPDX-License-Identifier: BSD-3-Clause */
/* What is put and posted on the client's side of a channel. */
#include "fabric/verbs/client/connection_state.h"

#include <errno.h>
#include <inttypes.h>

#include "base/err.h"
#include "base/rare.h"
#include "fabric/verbs/common/sigpipe.h"

/* siw answers a read this short from a single page, whatever it was to read */
#define SIW_SHORT_BYTES 32
#define PAGE_BYTES_MIN 4096u

/* The part of a short read that lies on its first page, if it goes beyond: siw, at the
 * peer, would take the rest from the wrong place. */
static uint64_t read_head(const struct fabric_batch *run, const struct fabric_op *part)
{
	uint64_t at = run->remote_addr + part->offset;
	uint64_t on_page = PAGE_BYTES_MIN - at % PAGE_BYTES_MIN;

	return part->bytes > SIW_SHORT_BYTES || part->bytes <= on_page ? 0 : on_page;
}

void verbs_link_plan(struct fabric_channel *channel)
{
	if (!channel->confirm)
		return;
	channel->joined_bytes[FABRIC_WRITE] = UINT64_MAX;
	channel->joined_bytes[FABRIC_READ] =
		channel->guard ? UINT64_MAX : SIW_SHORT_BYTES;
}

/* As two requests, the first of which has so many bytes. */
static RARE void read_cut(struct verbs_ring *ring, const struct fabric_batch *run,
			  const struct fabric_op *whole, uint64_t head_bytes)
{
	struct fabric_op part = *whole;

	part.bytes = head_bytes;
	verbs_ring_put(ring, run, &part, VERBS_ROLE_HEAD);
	part.addr = (char *)part.addr + head_bytes;
	part.offset += head_bytes;
	part.bytes = whole->bytes - head_bytes;
	verbs_ring_put(ring, run, &part, VERBS_ROLE_CALLERS);
}

/* The last write that is put, of those to be confirmed. */
static void written_set(struct fabric_channel *channel, const struct fabric_batch *run,
			const struct fabric_op *part)
{
	if (run->opcode != FABRIC_WRITE)
		return;
	channel->written = *run;
	channel->written.remote_addr += part->offset;
}

/* Read back one byte of what the last write goes to: when it is here, the write and all
 * before it on this queue pair are placed; when they were refused, it never comes.  It is
 * the batch's last request, as no other may speak for the writes before it. */
static void confirm_put(struct fabric_channel *channel)
{
	struct fabric_domain *domain = channel->cq->domain;
	struct fabric_local_mr sink = { .mr = domain->sink };
	const struct fabric_op part = { .addr = &domain->sink_byte, .bytes = 1 };
	struct fabric_batch run = channel->written;

	if (run.opcode != FABRIC_WRITE)
		return;
	run.opcode = FABRIC_READ;
	run.region = &sink;
	verbs_ring_put(&channel->ring, &run, &part, VERBS_ROLE_CONFIRM);
	channel->written = (struct fabric_batch){ 0 };
}

static const struct fabric_op *part_at(const struct fabric_op *parts, size_t stride,
				       unsigned i)
{
	return (const struct fabric_op *)((const char *)parts + i * stride);
}

/* Put operations, at least one, where some may be more than their request. */
static __attribute__((noinline)) void ops_put(struct fabric_channel *channel,
					      const struct fabric_batch *run,
					      const struct fabric_op *parts,
					      size_t stride, unsigned n)
{
	struct verbs_ring *ring = &channel->ring;
	unsigned done = 0;

	written_set(channel, run, part_at(parts, stride, n - 1));
	for (unsigned i = 0; run->opcode == FABRIC_READ && i < n; i++) {
		const struct fabric_op *part = part_at(parts, stride, i);
		uint64_t head_bytes = read_head(run, part);

		if (!head_bytes)
			continue;
		(void)verbs_ring_put_all(ring, run, part_at(parts, stride, done),
					 stride, i - done);
		read_cut(ring, run, part, head_bytes);
		done = i + 1;
	}
	(void)verbs_ring_put_all(ring, run, part_at(parts, stride, done), stride,
				 n - done);
}

unsigned verbs_link_put(struct fabric_channel *channel, const struct fabric_batch *run,
			const struct fabric_op *parts, size_t stride, unsigned n)
{
	if (n > channel->depth - channel->outstanding)
		n = channel->depth - channel->outstanding;
	channel->outstanding += n;
	channel->n_put += n;
	if (!channel->confirm)
		return verbs_ring_put_all(&channel->ring, run, parts, stride, n);
	if (n > 0)
		ops_put(channel, run, parts, stride, n);
	return n;
}

int verbs_link_put_slices(struct fabric_channel *channel,
			  const struct fabric_batch *run, const struct fabric_op *part,
			  const struct fabric_sge *slices, unsigned n)
{
	int err = verbs_ring_slices(&channel->ring);

	if (err)
		return err;
	if (channel->outstanding == channel->depth)
		return 0;
	channel->outstanding++;
	channel->n_put++;
	verbs_ring_put_slices(&channel->ring, run, part, slices, n);
	if (channel->confirm)
		written_set(channel, run, part);
	return 1;
}

int verbs_link_put_atomic(struct fabric_channel *channel,
			  const struct fabric_batch *run, const struct fabric_op *part,
			  const struct fabric_atomic *atomic)
{
	int err = verbs_domain_able(channel->cq->domain, FABRIC_CAN_ATOMICS);

	if (err)
		return err;
	/* a device would refuse it only when it is posted, with all that is beside it */
	if ((run->remote_addr + part->offset) % FABRIC_ATOMIC_BYTES)
		return err_set(-EINVAL,
			       "an atomic at %#" PRIx64 ", not a multiple of %d",
			       run->remote_addr + part->offset, FABRIC_ATOMIC_BYTES);
	if (channel->outstanding == channel->depth)
		return 0;
	channel->outstanding++;
	channel->n_put++;
	verbs_ring_put_atomic(&channel->ring, run, part, atomic);
	return 1;
}

int verbs_link_put_request(struct fabric_channel *channel,
			   const struct fabric_batch *run, const struct fabric_op *part,
			   const struct fabric_inband_request *request)
{
	struct fabric_domain *domain = channel->cq->domain;
	int err = verbs_domain_able(domain, FABRIC_CAN_INBAND);

	if (!err && !channel->asks)
		err = verbs_asks_open(channel, &channel->ring, domain->pd, channel->qp,
				      channel->depth, channel->confirm, &channel->asks);
	if (err)
		return err;
	if (channel->asks->lost)
		verbs_link_abort(channel);
	if (channel->outstanding == channel->depth || channel->asks->lost ||
	    verbs_asks_full(channel->asks))
		return 0;
	channel->outstanding++;
	channel->n_put++;
	verbs_asks_put(channel->asks, run, part, request);
	return 1;
}

/* Some of what was put is not posted. */
static void asks_trim(struct fabric_channel *channel)
{
	if (channel->ring.n_asked > 0)
		verbs_asks_trim(channel->asks);
}

static RARE int post_failed(struct fabric_channel *channel, unsigned n_put,
			    unsigned taken, int err)
{
	channel->outstanding -= n_put - taken;
	asks_trim(channel);
	verbs_link_abort(channel);
	if (taken > 0)
		return (int)taken;
	return err_errno(-ECONNRESET, "the channel to %s: ibv_post_send gives %d",
			 channel->dial.peer, err);
}

static RARE int post_dead(struct fabric_channel *channel, unsigned n_put)
{
	channel->outstanding -= n_put;
	verbs_ring_drop(&channel->ring);
	asks_trim(channel);
	return err_set(-ECONNRESET, "the channel to %s is dead", channel->dial.peer);
}

static RARE unsigned post_guarded(struct fabric_channel *channel, int *ret_errno)
{
	struct verbs_sigpipe sigpipe;
	unsigned taken;

	verbs_sigpipe_begin(&sigpipe, true);
	taken = verbs_ring_post(&channel->ring, channel->qp, ret_errno);
	verbs_sigpipe_end(&sigpipe);
	return taken;
}

/* The long way, where an operation may be more than its request, or nothing is posted. */
static __attribute__((noinline)) int post_slowly(struct fabric_channel *channel,
						 enum fabric_opcode opcode,
						 struct fabric_local_mr *region,
						 const struct fabric_key *key,
						 const struct fabric_op *part)
{
	const struct fabric_batch run = fabric_batch_of(opcode, region, key);

	return verbs_link_put(channel, &run, part, 0, 1) == 1 ? verbs_link_post(channel)
							      : 0;
}

/* One request is all that it takes. */
static inline bool alone(const struct fabric_channel *channel,
			 enum fabric_opcode opcode, const struct fabric_op *part)
{
	return !channel->confirm || part->bytes > channel->joined_bytes[opcode];
}

int verbs_link_post_one(struct fabric_channel *channel, enum fabric_opcode opcode,
			struct fabric_local_mr *region, const struct fabric_key *key,
			const struct fabric_op *part)
{
	int result;

	if (!alone(channel, opcode, part) || channel->outstanding == channel->depth ||
	    atomic_load_explicit(&channel->dead, memory_order_relaxed))
		return post_slowly(channel, opcode, region, key, part);
	channel->outstanding++;
	result = verbs_ring_post_one(&channel->ring, channel->qp, opcode,
				     region->mr->lkey, key, part);
	return result == 1 ? 1 : post_failed(channel, 1, result == 0, -result);
}

int verbs_link_post(struct fabric_channel *channel)
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
			       : verbs_ring_post(&channel->ring, channel->qp, &err);
	return err ? post_failed(channel, n_put, taken, err) : (int)taken;
}
