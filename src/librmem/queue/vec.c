/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/vec.h"

#include <errno.h>
#include <string.h>

#include "librmem/lease/buffer.h"

/* The entry's buffer; NULL: it is unregistered. */
static struct rmem_buffer *entry_buffer(const struct op *op, const struct rmem_vec *at)
{
	struct rmem_buffer *found = op->vec.found;

	if (at->buffer)
		return at->buffer;
	return found && buffer_holds(found, at->addr, at->bytes) ? found : NULL;
}

void vec_acquire(const struct rmem_queue *queue, struct op *op,
		 const struct rmem_op *todo)
{
	bool searches = queue->ops->needs_local_mr;
	uint64_t bytes = 0;

	op->vec.list = todo->vec;
	op->vec.n = (unsigned)todo->n_vec;
	for (unsigned i = 0; i < op->vec.n; i++) {
		const struct rmem_vec *at = &op->vec.list[i];

		/* a sum that wraps is beyond every lease */
		bytes = at->bytes > UINT64_MAX - bytes ? UINT64_MAX : bytes + at->bytes;
		if (at->buffer)
			buffer_use(at->buffer);
		if (!searches || at->buffer || at->bytes <= BUFFER_COPY_BYTES)
			continue;
		op->vec.found =
			buffer_find(queue->session->buffers, at->addr, at->bytes);
		searches = false;
	}
	op->todo.bytes = bytes;
	op->todo.addr = NULL;
	op->todo.buffer = NULL;
	op->end.uncut_bytes = bytes;
}

void vec_leave(const struct op *op)
{
	if (!opcode_is_vectored(op->todo.opcode))
		return;
	for (unsigned i = 0; i < op->vec.n; i++)
		if (op->vec.list[i].buffer)
			buffer_unuse(op->vec.list[i].buffer);
	if (op->vec.found)
		buffer_unuse(op->vec.found);
}

int vec_check(const struct op *op, const char **ret_why)
{
	for (unsigned i = 0; i < op->vec.n; i++) {
		const struct rmem_vec *at = &op->vec.list[i];

		if (at->bytes > 0 && !at->addr)
			return op_refuse(ret_why, -EINVAL,
					 "a piece of its local memory is NULL");
		if (at->buffer && !buffer_holds(at->buffer, at->addr, at->bytes))
			return op_refuse(ret_why, -EINVAL,
					 "a piece of its local memory lies outside of "
					 "its buffer");
		if (at->bytes > 0 && !entry_buffer(op, at) &&
		    buffer_is_device_only(op->todo.lease->session->buffers, at->addr,
					  at->bytes))
			return op_refuse(ret_why, -EINVAL,
					 "a piece of its local memory is in a dma-buf, "
					 "and does not name the buffer");
	}
	return 0;
}

bool vec_unregistered(const struct op *op)
{
	if (!opcode_is_vectored(op->todo.opcode))
		return false;
	for (unsigned i = 0; i < op->vec.n; i++)
		if (op->vec.list[i].bytes > 0 && !entry_buffer(op, &op->vec.list[i]))
			return true;
	return false;
}

/* The entry that contains an offset below the end; *ret_within: the offset in the entry.  The
 * search continues where the last search ended. */
static unsigned vec_find(struct op *op, uint64_t offset, uint64_t *ret_within)
{
	struct op_vec *vec = &op->vec;

	if (offset < vec->start) {
		vec->at = 0;
		vec->start = 0;
	}
	while (offset - vec->start >= vec->list[vec->at].bytes)
		vec->start += vec->list[vec->at++].bytes;
	*ret_within = offset - vec->start;
	return vec->at;
}

uint64_t vec_span(struct op *op, uint64_t offset, uint64_t max, unsigned sge_max,
		  bool needs_local_mr, bool *ret_bounces)
{
	uint64_t within, bytes = 0;
	unsigned first = vec_find(op, offset, &within), slices = 0;
	bool bounces = needs_local_mr && !entry_buffer(op, &op->vec.list[first]);

	for (unsigned i = first; i < op->vec.n && bytes < max; i++) {
		const struct rmem_vec *at = &op->vec.list[i];

		if (at->bytes == 0)
			continue;
		if ((needs_local_mr && !entry_buffer(op, at)) != bounces ||
		    (!bounces && slices == sge_max))
			break;
		bytes += at->bytes - within;
		within = 0;
		slices++;
	}
	*ret_bounces = bounces;
	return bytes < max ? bytes : max;
}

/* The next part of the list from `offset` on, `left` bytes at most. */
static struct fabric_sge part_at(struct op *op, uint64_t offset, uint64_t left,
				 const struct rmem_vec **ret_entry)
{
	uint64_t within;
	const struct rmem_vec *at = &op->vec.list[vec_find(op, offset, &within)];
	struct fabric_sge slice = { .addr = (unsigned char *)at->addr + within,
				    .bytes = at->bytes - within };

	if (slice.bytes > left)
		slice.bytes = left;
	*ret_entry = at;
	return slice;
}

unsigned vec_slices(struct op *op, const struct fragment *fragment, unsigned domain,
		    struct fabric_sge slices[VEC_SLICES_MAX])
{
	uint64_t offset = fragment->offset, end = offset + fragment->bytes;
	const struct rmem_vec *at;
	unsigned n = 0;

	while (offset < end && n < VEC_SLICES_MAX) {
		const struct rmem_buffer *buffer;

		slices[n] = part_at(op, offset, end - offset, &at);
		buffer = entry_buffer(op, at);
		slices[n].region = buffer ? buffer->mrs[domain] : NULL;
		offset += slices[n++].bytes;
	}
	return n;
}

void vec_copy(struct op *op, const struct fragment *fragment)
{
	bool gather = opcode_writes(op->todo.opcode);
	uint64_t done = 0;
	const struct rmem_vec *at;

	while (done < fragment->bytes) {
		const struct fabric_sge slice = part_at(op, fragment->offset + done,
							fragment->bytes - done, &at);

		if (gather)
			memcpy(fragment->chunk + done, slice.addr, slice.bytes);
		else
			memcpy(slice.addr, fragment->chunk + done, slice.bytes);
		done += slice.bytes;
	}
}
