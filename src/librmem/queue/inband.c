/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/inband.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/crc32c.h"
#include "base/err.h"
#include "librmem/lease/buffer.h"
#include "librmem/lease/lease.h"
#include "librmem/queue/endpoints.h"
#include "librmem/session/session.h"

/* ---- pings ---- */

/* Create the queue's placeholder lease, if there is none: one byte, reached through all
 * endpoints. */
static int nowhere_ensure(struct rmem_queue *queue)
{
	struct rmem_lease *lease;
	struct attachment *att;

	if (queue->nowhere)
		return 0;
	lease = calloc(1, sizeof(*lease));
	att = calloc(1, sizeof(*att) + sizeof(att->keys[0]));
	if (!lease || !att) {
		free(lease);
		free(att);
		return err_set(-ENOMEM, "no memory for pings");
	}
	att->bytes = 1;
	att->n_segments = 1;
	att->ends[0] = 1;
	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++)
		att->keys[0][i].present = true;
	lease->session = queue->session;
	atomic_store(&lease->attachment, att);
	queue->nowhere = lease;
	return 0;
}

void inband_nowhere_free(struct rmem_lease *lease)
{
	if (!lease)
		return;
	attachment_free(lease_attachment(lease));
	free(lease);
}

/* ---- submitting ---- */

static int source_check(const struct rmem_queue *queue,
			const struct rmem_source *source)
{
	if (!source)
		return err_set(-EINVAL, "a copy without its source");
	if (!source->lease || source->lease->session != queue->session)
		return err_set(-EINVAL, "the source's lease is not of this session");
	return 0;
}

int inband_able(struct rmem_queue *queue, const struct rmem_op *todo)
{
	int err;

	if (todo->opcode == RMEM_OP_COPY && source_check(queue, todo->source))
		return -EINVAL;
	if (opcode_is_remote(todo->opcode) && todo->buffer)
		return err_set(-EINVAL, "an operation without local "
					"memory has a buffer");
	err = endpoints_check(queue, FABRIC_CAN_INBAND);
	if (err)
		return err;
	return todo->opcode == RMEM_OP_PING ? nowhere_ensure(queue) : 0;
}

void inband_prepare(struct rmem_queue *queue, struct op *op, const struct rmem_op *todo)
{
	switch (todo->opcode) {
	case RMEM_OP_FILL:
		op->inband.pattern = todo->pattern;
		break;
	case RMEM_OP_COPY:
		op->inband.source = *todo->source;
		inflight_begin_shared(op->inband.source.lease, NULL, 1);
		break;
	case RMEM_OP_PING:
		op->todo.lease = queue->nowhere;
		op->todo.offset = 0;
		op->todo.bytes = 0;
		op->end.uncut_bytes = 0;
		op->inband.message = true;
		break;
	case RMEM_OP_WRITE_NOTIFY:
		op->inband.value = todo->value;
		op->inband.message = true;
		break;
	default:
		break;
	}
}

void inband_leave(const struct op *op)
{
	if (op->todo.opcode == RMEM_OP_COPY)
		inflight_end_shared(op->inband.source.lease, NULL, 1);
}

/* ---- starting ---- */

static const struct attachment *source_attachment(const struct op *op)
{
	return lease_attachment(op->inband.source.lease);
}

static bool ranges_overlap(const struct op *op)
{
	const struct rmem_source *source = &op->inband.source;
	uint64_t bytes = op->todo.bytes;

	return source->lease == op->todo.lease &&
	       source->offset < op->todo.offset + bytes &&
	       op->todo.offset < source->offset + bytes;
}

#define SOURCE_ENDED "the source's lease has ended"

static int copy_check(const struct op *op, const char **ret_why)
{
	const struct rmem_source *source = &op->inband.source;
	uint64_t bytes = source_attachment(op)->bytes;

	if (lease_ended(source->lease))
		return op_refuse(ret_why, -ESTALE, SOURCE_ENDED);
	if (!range_inside(bytes, source->offset, op->todo.bytes))
		return op_refuse(ret_why, -EINVAL, "it goes beyond the source's lease");
	if (!(source->lease->rights & RMEM_READ))
		return op_refuse(ret_why, -EACCES,
				 "the source's lease may not be read");
	/* fragments are done in any order, and perhaps twice */
	if (ranges_overlap(op))
		return op_refuse(ret_why, -EINVAL, "it overlaps its source");
	return 0;
}

int inband_check(const struct op *op, const char **ret_why)
{
	const struct attachment *att = lease_attachment(op->todo.lease);

	if (op->todo.opcode == RMEM_OP_COPY)
		return copy_check(op, ret_why);
	if (op->todo.opcode == RMEM_OP_CRC && !op->todo.addr)
		return op_refuse(ret_why, -EINVAL, "there is no place for its result");
	if (op->todo.opcode == RMEM_OP_CRC &&
	    buffer_is_device_only(op->todo.lease->session->buffers, op->todo.addr,
				  sizeof(uint32_t)))
		return op_refuse(ret_why, -EINVAL,
				 "its result is for a dma-buf, which takes only reads "
				 "and writes");
	if (op->todo.opcode == RMEM_OP_WRITE_NOTIFY && att->bytes == 0)
		return op_refuse(ret_why, -EINVAL,
				 "a lease of no bytes has nothing to notify of");
	return 0;
}

void inband_start(const struct rmem_queue *queue, struct op *op)
{
	const uint32_t none = 0;

	op->endpoints = endpoints_able(queue, ENDPOINTS_ALL, FABRIC_CAN_INBAND);
	if (opcode_is_remote(op->todo.opcode) &&
	    op->fragment_max > queue->inband_bytes_max)
		op->fragment_max = queue->inband_bytes_max;
	/* the CRC of no bytes; inband_done() adds the fragments' CRCs */
	if (op->todo.opcode == RMEM_OP_CRC)
		memcpy(op->todo.addr, &none, sizeof(none));
}

/* ---- fragments ---- */

/* The segment and offset of the source for the part of the operation at `offset`.  False: the
 * source was made shorter. */
static bool source_find(const struct op *op, const struct attachment *att,
			uint64_t offset, unsigned *ret_segment, uint64_t *ret_within)
{
	uint64_t at = op->inband.source.offset + offset;

	if (at >= att->bytes)
		return false;
	*ret_segment = attachment_segment(att, at);
	*ret_within = at - attachment_start(att, *ret_segment);
	return true;
}

uint64_t inband_span(const struct op *op, uint64_t offset)
{
	const struct attachment *att;
	uint64_t within;
	unsigned segment;

	if (op->todo.opcode != RMEM_OP_COPY)
		return UINT64_MAX;
	att = source_attachment(op);
	if (!source_find(op, att, offset, &segment, &within))
		return 0;
	return att->ends[segment] - (op->inband.source.offset + offset);
}

/* Whether the rkeys for a request are present. */
static bool channel_has_keys(const struct send_side *side, const struct op *op,
			     uint64_t offset, const struct attachment *att,
			     unsigned segment)
{
	const struct attachment *source;
	unsigned source_segment;
	uint64_t within;

	if (!att->keys[segment][side->endpoint].present)
		return false;
	if (op->todo.opcode != RMEM_OP_COPY)
		return true;
	source = source_attachment(op);
	return source_find(op, source, offset, &source_segment, &within) &&
	       source->keys[source_segment][side->endpoint].present;
}

enum pick inband_pick(struct rmem_queue *queue, const struct op *op, uint64_t offset,
		      const struct attachment *att, unsigned segment,
		      struct send_side **ret_side)
{
	unsigned endpoints = op->endpoints & op_reach(op, offset);
	struct channel_set *set = &queue->channels;
	bool keyed = false, any = false;

	if (!(endpoints & queue->table.endpoints))
		return PICK_NEVER;
	for (unsigned i = 0; i < set->n; i++) {
		struct send_side *side = channel_set_next(set);

		if (!side->live || !(endpoints & (1u << side->endpoint)))
			continue;
		any = true;
		if (!channel_has_keys(side, op, offset, att, segment))
			continue;
		keyed = true;
		if (side->in_flight < set->depth &&
		    side->requests < queue->inband_requests_max) {
			*ret_side = side;
			return PICK_OK;
		}
	}
	return any && !keyed ? PICK_NO_KEY : PICK_WAIT;
}

/* The pattern rotated to the fragment's offset. */
static uint64_t pattern_at(uint64_t pattern, uint64_t offset)
{
	unsigned char raw[8], turned[8];
	uint64_t result;

	memcpy(raw, &pattern, sizeof(raw));
	for (unsigned i = 0; i < sizeof(raw); i++)
		turned[i] = raw[(offset + i) % sizeof(raw)];
	memcpy(&result, turned, sizeof(result));
	return result;
}

/* False: the source was made shorter. */
static bool request_make(const struct fragment *fragment, const struct send_side *side,
			 struct fabric_inband_request *request)
{
	const struct op *op = fragment->op;
	const struct attachment *source;
	uint64_t within;
	unsigned segment;

	*request = (struct fabric_inband_request){ .value = 0 };
	if (op->todo.opcode == RMEM_OP_FILL)
		request->pattern = pattern_at(op->inband.pattern, fragment->offset);
	if (op->todo.opcode == RMEM_OP_WRITE_NOTIFY)
		request->value = op->inband.value;
	if (op->todo.opcode != RMEM_OP_COPY)
		return true;
	source = source_attachment(op);
	if (!source_find(op, source, fragment->offset, &segment, &within) ||
	    source->ends[segment] - attachment_start(source, segment) - within <
		    fragment->bytes)
		return false;
	request->source = source->keys[segment][side->endpoint].at;
	request->source.addr += within;
	return true;
}

int inband_put(struct rmem_queue *queue, struct fragment *fragment,
	       struct send_side *side, const struct attachment *att, unsigned segment)
{
	const struct op *op = fragment->op;
	const struct attachment_key *key = &att->keys[segment][side->endpoint];
	const struct fabric_batch common = {
		.opcode = op->todo.opcode == RMEM_OP_WRITE_NOTIFY
				  ? FABRIC_NOTIFY
				  : op_kinds[op->todo.opcode].carried,
		.remote_addr = key->at.addr,
		.rkey = key->at.rkey,
	};
	const struct fabric_op part = {
		.offset = op->todo.offset + fragment->offset -
			  attachment_start(att, segment),
		.addr = &fragment->answer,
		.bytes = fragment->bytes,
	};
	struct fabric_inband_request request;
	int result;

	if (!request_make(fragment, side, &request))
		return -ESTALE;
	result = queue->ops->prepare_inband(side->fabric, &common, &part, &request);
	if (result == 1)
		side->requests++;
	return result;
}

void inband_done(struct fragment *fragment)
{
	struct op *op = fragment->op;
	uint64_t behind = op->todo.bytes - fragment->offset - fragment->bytes;
	uint32_t sum;

	if (op->todo.opcode != RMEM_OP_CRC)
		return;
	/* the CRC of the range is the XOR of the fragments' CRCs, each extended by the zeros
	 * behind */
	memcpy(&sum, op->todo.addr, sizeof(sum));
	sum ^= crc32c_combine(fragment->answer, 0, behind);
	memcpy(op->todo.addr, &sum, sizeof(sum));
}

void inband_message(struct rmem_queue *queue, struct op *op)
{
	struct fragment *fragment = &op->own;
	const struct attachment *att = lease_attachment(op->todo.lease);

	op->inband.message = false;
	*fragment = (struct fragment){ .op = op };
	/* an empty range may begin behind the last byte */
	if (op->todo.offset == att->bytes)
		op->todo.offset--;
	op->fragments++;
	fragment_requeue(&queue->table, fragment, false);
}

const char *inband_stale(const struct op *op)
{
	if (lease_ended(op->todo.lease))
		return lease_ended_text(op->todo.lease);
	if (op->todo.opcode == RMEM_OP_COPY && lease_ended(op->inband.source.lease))
		return SOURCE_ENDED;
	return NULL;
}
