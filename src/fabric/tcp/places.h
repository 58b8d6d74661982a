/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the client's end of a stream receives: large payloads straight into the local memory of
 * their operations, which is one range or several slices, and what is between them into the
 * channel's buffer.  Threads: [owner] of the queue. */
#ifndef FABRIC_TCP_PLACES_H
#define FABRIC_TCP_PLACES_H

#include "base/rare.h"
#include "fabric/tcp/channel.h"

/* Payloads up to this size are copied from among the responses, many after one system call; larger
 * ones are received into their place. */
#define TCP_SMALL_BYTES 2048u
/* Places of one call; a bit each. */
#define TCP_PLACES_MAX 64u

/* So many ranges of memory are told apart: contiguous ones count as one. */
#define TCP_RANGES_MAX 64u

struct tcp_range {
	uintptr_t start, end;
};

/* Where the next bytes of the stream go.  The first places are the rest of the payload that is
 * being received, and the first of all is empty if there is none. */
struct tcp_input {
	struct iovec iov[TCP_PLACES_MAX];
	size_t n;
	size_t n_rest; /* so many are of that payload */
	/* bits of those behind it that are payloads; the others are answers */
	uint64_t payloads;
	/* The memory of the operations before `seen`, and two gaps in it: programs read into the
	 * memory behind the last one, and headers elsewhere.  A gap begins where the range with
	 * its number ends. */
	uint64_t seen;
	unsigned n_ranges, gap; /* which gap was the last to take memory */
	struct tcp_range ranges[TCP_RANGES_MAX];
	struct tcp_gap {
		uintptr_t start, end;
		unsigned range;
	} gaps[2];
};

static inline struct tcp_op *tcp_channel_op(struct fabric_channel *ch, uint64_t seq)
{
	return &ch->ops[seq % ch->depth];
}

/* The one behind it in the ring. */
static inline struct tcp_op *tcp_op_after(struct fabric_channel *ch, struct tcp_op *op)
{
	return ++op == ch->ops + ch->depth ? ch->ops : op;
}

static inline size_t tcp_channel_untaken(const struct fabric_channel *ch)
{
	return (size_t)(ch->answers_end - ch->answers);
}

/* Add the slices from this one on as the places from n on; returns the number of places then. */
size_t tcp_input_add_slices(struct tcp_input *in, size_t n, const struct tcp_op *op,
			    unsigned from);
/* Whether the operation has memory twice, or may have some of one before it: that would not keep
 * what has to be rearranged.  If so the input takes no further operation.  in->seen begins at the
 * head. */
bool tcp_input_mixes(struct tcp_input *in, struct fabric_channel *ch, uint64_t seq,
		     const struct tcp_op *op);
/* The answer to the operation at the head has no payload, so all behind it went to wrong places:
 * put it in a row, as it was sent.  -ENOMEM */
RARE int tcp_places_rearrange(struct fabric_channel *ch);
/* The first bytes of a large payload may be in their place already. */
static inline void tcp_places_skip(struct fabric_channel *ch)
{
	size_t n = ch->left < ch->ahead ? ch->left : ch->ahead;

	ch->ahead -= n;
	ch->place += n;
	ch->left -= (uint32_t)n;
}

/* A slice of the payload at the head is received, or none yet: go on with the next one that has
 * bytes to come.  None: ch->left stays 0. */
void tcp_places_next(struct fabric_channel *ch);

#endif
