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

/* Memory that is in neither gap; returns whether no range has some of it.  It becomes a range, or
 * the end of one, and the gap behind it takes the place of that which was not the last in use. */
static __attribute__((noinline)) bool ranges_add(struct tcp_input *in, uintptr_t start,
						 uintptr_t end)
{
	struct tcp_gap gap = { end, UINTPTR_MAX, in->n_ranges };

	for (unsigned i = 0; i < in->n_ranges; i++) {
		const struct tcp_range *range = &in->ranges[i];

		if (start < range->end && range->start < end)
			return false;
		if (range->start >= end && range->start < gap.end)
			gap.end = range->start;
		if (range->end == start)
			gap.range = i;
	}
	if (gap.range == TCP_RANGES_MAX)
		return false;
	if (gap.range == in->n_ranges)
		in->ranges[in->n_ranges++].start = start;
	in->ranges[gap.range].end = end;
	in->gap ^= 1;
	in->gaps[in->gap] = gap;
	return true;
}

static inline bool gap_holds(const struct tcp_gap *gap, uintptr_t start, uintptr_t end)
{
	return start >= gap->start && end <= gap->end;
}

/* Add memory of an operation.  False: it may be that of another one. */
static inline bool input_claim(struct tcp_input *in, const void *at, size_t bytes)
{
	uintptr_t start = (uintptr_t)at, end = start + bytes;
	struct tcp_gap *gap = &in->gaps[in->gap];

	if (!gap_holds(gap, start, end)) {
		gap = &in->gaps[in->gap ^ 1];
		if (!gap_holds(gap, start, end))
			return ranges_add(in, start, end);
		in->gap ^= 1;
	}
	if (start > gap->start) {
		if (in->n_ranges == TCP_RANGES_MAX)
			return false;
		gap->range = in->n_ranges++;
		in->ranges[gap->range].start = start;
	}
	in->ranges[gap->range].end = gap->start = end;
	return true;
}

static inline bool input_claim_op(struct tcp_input *in, const struct tcp_op *op)
{
	if (op->bytes == 0)
		return true;
	if (op->addr)
		return input_claim(in, op->addr, op->bytes);
	for (unsigned i = 0; i < op->n_slices; i++)
		if (!input_claim(in, op->slices[i].iov_base, op->slices[i].iov_len))
			return false;
	return true;
}

/* Begin, and add the memory of operations that are not placed.  False: as input_claim_op(). */
static __attribute__((noinline)) bool
input_claim_passed(struct tcp_input *in, struct fabric_channel *ch, uint64_t seq)
{
	if (in->seen == ch->head) {
		in->n_ranges = in->gap = 0;
		in->gaps[0] = in->gaps[1] = (struct tcp_gap){ 1, 0, 0 };
	}
	for (; in->seen < seq; in->seen++)
		if (!input_claim_op(in, tcp_channel_op(ch, in->seen)))
			return false;
	return true;
}

bool tcp_input_mixes(struct tcp_input *in, struct fabric_channel *ch, uint64_t seq,
		     const struct tcp_op *op)
{
	bool passed = in->seen < seq || seq == ch->head;

	if (passed && !input_claim_passed(in, ch, seq))
		return true;
	in->seen++;
	return !input_claim_op(in, op);
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
