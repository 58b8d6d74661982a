/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations become requests in the ring of a channel. */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/err.h"
#include "fabric/tcp/places.h"

int tcp_domain_supports(const struct fabric_domain *domain,
			enum fabric_capability capability)
{
	bool able = capability == FABRIC_CAN_ATOMICS ? domain->atomics : domain->inband;

	if (able)
		return 0;
	return err_set(-ENOTSUP, "the server has no %s over tcp",
		       capability == FABRIC_CAN_ATOMICS ? "atomics"
							: "in-band requests");
}

_Static_assert((int)STREAM_READ == FABRIC_READ && (int)STREAM_WRITE == FABRIC_WRITE &&
		       (int)STREAM_CAS == FABRIC_CAS &&
		       (int)STREAM_FETCH_ADD == FABRIC_FETCH_ADD,
	       "opcodes are those of the stream");

/* `bytes`: of the request; a write sends them, a read receives them. */
static void op_set(struct tcp_op *op, const struct fabric_batch *batch,
		   const struct fabric_op *part, uint32_t bytes, uint64_t seq)
{
	bool write = batch->opcode == FABRIC_WRITE;

	op->request = (struct stream_request){
		.op = htole16((uint16_t)batch->opcode),
		.bytes = htole32(bytes),
		.rkey = htole64(batch->rkey),
		.addr = htole64(batch->remote_addr + part->offset),
		.cookie = htole64(seq),
	};
	op->payload = part->addr;
	op->payload_bytes = write ? bytes : 0;
	op->addr = part->addr;
	op->bytes = write ? 0 : bytes;
	op->opcode = batch->opcode;
}

unsigned tcp_channel_prepare(struct fabric_channel *ch,
			     const struct fabric_batch *batch,
			     const struct fabric_op *parts, size_t stride, unsigned n)
{
	unsigned room = ch->depth - (unsigned)(ch->put - ch->head);
	const char *part = (const char *)parts;

	if (n > room)
		n = room;
	for (unsigned i = 0; i < n; i++, part += stride, ch->put++)
		op_set(tcp_channel_op(ch, ch->put), batch,
		       (const struct fabric_op *)part,
		       (uint32_t)((const struct fabric_op *)part)->bytes, ch->put);
	return n;
}

int tcp_channel_prepare_sges(struct fabric_channel *ch,
			     const struct fabric_batch *batch,
			     const struct fabric_op *part,
			     const struct fabric_sge *sges, unsigned n)
{
	const struct fabric_op bare = { .offset = part->offset };
	struct tcp_op *op = tcp_channel_op(ch, ch->put);

	if (!ch->slices)
		ch->slices =
			calloc((size_t)ch->depth * TCP_SLICES_MAX, sizeof(*ch->slices));
	if (!ch->slices)
		return err_errno(-ENOMEM, "the slices of %u operations", ch->depth);
	if (ch->put - ch->head == ch->depth)
		return 0;
	op_set(op, batch, &bare, (uint32_t)part->bytes, ch->put++);
	op->slices = &ch->slices[(size_t)(op - ch->ops) * TCP_SLICES_MAX];
	op->n_slices = n;
	for (unsigned i = 0; i < n; i++)
		op->slices[i] = (struct iovec){ sges[i].addr, sges[i].bytes };
	return 1;
}

int tcp_channel_prepare_atomic(struct fabric_channel *ch,
			       const struct fabric_batch *batch,
			       const struct fabric_op *part,
			       const struct fabric_atomic *atomic)
{
	struct tcp_op *op = tcp_channel_op(ch, ch->put);
	int err = tcp_domain_supports(ch->cq->domain, FABRIC_CAN_ATOMICS);

	if (err)
		return err;
	if ((batch->remote_addr + part->offset) % FABRIC_ATOMIC_BYTES)
		return err_set(-EINVAL,
			       "an atomic at %#" PRIx64 ", not a multiple of %d",
			       batch->remote_addr + part->offset, FABRIC_ATOMIC_BYTES);
	if (ch->put - ch->head == ch->depth)
		return 0;
	op_set(op, batch, part, sizeof(op->atomic), ch->put++);
	op->atomic.compare = htole64(atomic->compare);
	op->atomic.operand = htole64(atomic->operand);
	op->payload = (char *)&op->atomic;
	op->payload_bytes = sizeof(op->atomic);
	op->bytes = FABRIC_ATOMIC_BYTES;
	return 1;
}

int tcp_channel_prepare_inband(struct fabric_channel *ch,
			       const struct fabric_batch *batch,
			       const struct fabric_op *part,
			       const struct fabric_inband_request *request)
{
	struct tcp_op *op = tcp_channel_op(ch, ch->put);
	struct inband_request made;
	int err = tcp_domain_supports(ch->cq->domain, FABRIC_CAN_INBAND);

	if (err)
		return err;
	if (ch->put - ch->head == ch->depth)
		return 0;
	made = inband_request_make(batch->opcode, (uint32_t)part->bytes, request);
	op_set(op, batch, part, (uint32_t)part->bytes, ch->put++);
	op->operands = made.operands;
	op->payload = (char *)&op->operands;
	op->payload_bytes = sizeof(op->operands);
	op->addr = (char *)&op->result;
	op->bytes = sizeof(op->result);
	op->crc = batch->opcode == FABRIC_CRC ? part->addr : NULL;
	return 1;
}
