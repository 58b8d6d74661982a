/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t size_min(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The places of an operation's payload; `own` holds the only one.  Returns their number. */
static size_t op_places(const struct tcp_op *op, struct iovec *own,
			const struct iovec **ret_places)
{
	*ret_places = op->addr ? own : op->slices;
	*own = (struct iovec){ op->addr, op->bytes };
	if (op->bytes == 0)
		return 0;
	return op->addr ? 1 : op->n_slices;
}

/* ---- expecting ---- */

size_t tcp_input_add_slices(struct tcp_input *in, size_t n, const struct tcp_op *op,
			    unsigned from)
{
	for (unsigned i = from; i < op->n_slices; i++) {
		in->payloads |= UINT64_C(1) << n;
		in->iov[n++] = op->slices[i];
	}
	return n;
}

#define EXTENT_APART ((uintptr_t)1 << 20) /* memory so far away is another range's */

static bool extent_has(const struct tcp_extent *extent, uintptr_t start, uintptr_t end)
{
	return start < extent->end && extent->start < end;
}

/* Whether it is near, or the range is empty. */
static bool extent_takes(const struct tcp_extent *extent, uintptr_t start,
			 uintptr_t end)
{
	return extent->end == 0 || (start < extent->end + EXTENT_APART &&
				    extent->start < end + EXTENT_APART);
}

static void extent_grow(struct tcp_extent *extent, uintptr_t start, uintptr_t end)
{
	if (extent->end == 0 || start < extent->start)
		extent->start = start;
	if (end > extent->end)
		extent->end = end;
}

/* Add memory of an operation.  False: it may be that of another one. */
static inline bool extents_take(struct tcp_extent extents[2], const void *at,
				size_t bytes)
{
	uintptr_t start = (uintptr_t)at, end = start + bytes;
	bool apart = !extent_has(&extents[0], start, end) &&
		     !extent_has(&extents[1], start, end);

	extent_grow(&extents[!extent_takes(&extents[0], start, end)], start, end);
	return apart;
}

static bool extents_add(struct tcp_extent extents[2], const struct tcp_op *op)
{
	bool apart = true;

	if (op->bytes == 0)
		return true;
	if (op->addr)
		return extents_take(extents, op->addr, op->bytes);
	for (unsigned i = 0; i < op->n_slices; i++)
		apart &= extents_take(extents, op->slices[i].iov_base,
				      op->slices[i].iov_len);
	return apart;
}

static bool ops_overlap(const struct tcp_op *a, const struct tcp_op *b)
{
	struct iovec own_a, own_b;
	const struct iovec *in_a, *in_b;
	size_t n_a = op_places(a, &own_a, &in_a), n_b = op_places(b, &own_b, &in_b);

	for (size_t i = 0; i < n_a * n_b; i++) {
		const struct iovec *x = &in_a[i / n_b], *y = &in_b[i % n_b];
		uintptr_t at_x = (uintptr_t)x->iov_base, at_y = (uintptr_t)y->iov_base;

		if (at_x < at_y + y->iov_len && at_y < at_x + x->iov_len)
			return true;
	}
	return false;
}

/* Whether an operation before `seq` has some of its memory, which would not keep what has to be
 * rearranged. */
static bool channel_overlaps(struct fabric_channel *ch, uint64_t seq)
{
	const struct tcp_op *op = tcp_channel_op(ch, seq);

	for (uint64_t other = ch->head; other < seq; other++)
		if (ops_overlap(op, tcp_channel_op(ch, other)))
			return true;
	return false;
}

bool tcp_input_mixes(struct tcp_input *in, struct fabric_channel *ch, uint64_t seq)
{
	bool apart = true;

	if (in->seen == ch->head)
		in->extents[0] = in->extents[1] = (struct tcp_extent){ 0, 0 };
	for (; in->seen <= seq; in->seen++)
		apart = extents_add(in->extents, tcp_channel_op(ch, in->seen));
	return !apart && channel_overlaps(ch, seq);
}

/* ---- taking ---- */

static char *append(char *end, const void *from, size_t bytes, size_t *left)
{
	size_t n = size_min(bytes, *left);

	*left -= n;
	return mempcpy(end, from, n);
}

RARE int tcp_places_rearrange(struct fabric_channel *ch)
{
	size_t untaken = tcp_channel_untaken(ch), bytes = untaken + ch->ahead;
	char *row = malloc(bytes), *end = row;

	if (!row)
		return -ENOMEM;
	for (uint64_t seq = ch->head; end < row + bytes; seq++) {
		const struct tcp_op *op = tcp_channel_op(ch, seq);
		bool small = op->bytes <= TCP_SMALL_BYTES;
		size_t answer = (seq > ch->head ? sizeof(struct stream_response) : 0) +
				(small ? op->bytes : 0);
		struct iovec own;
		const struct iovec *places;
		size_t n = op_places(op, &own, &places);
		const char *start = end;

		end = append(end, ch->answers, answer, &untaken);
		ch->answers += end - start;
		for (size_t i = 0; i < n && !small; i++)
			end = append(end, places[i].iov_base, places[i].iov_len,
				     &ch->ahead);
	}
	ch->row = ch->answers = row;
	ch->answers_end = end;
	return 0;
}

void tcp_places_next(struct fabric_channel *ch)
{
	const struct tcp_op *op = tcp_channel_op(ch, ch->head);

	while (ch->left == 0 && ch->slices_left > 0) {
		const struct iovec *slice =
			&op->slices[op->n_slices - ch->slices_left--];

		ch->place = ch->tried = slice->iov_base;
		ch->left = (uint32_t)slice->iov_len;
		if (op->bytes > TCP_SMALL_BYTES)
			tcp_places_skip(ch);
		else
			ch->tried += slice->iov_len;
	}
}
