/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether operations of a channel have memory in common, against a look at all pairs. */
#include <stdlib.h>

#include "fabric/tcp/places.h"
#include "unit/unit.h"

#define DEPTH 32
#define SLICES 2
#define MEMORY ((char *)0x10000)

static struct fabric_channel *channel;
static struct iovec slices[DEPTH][SLICES];

static void make_channel(void)
{
	channel = calloc(1, sizeof(*channel) + DEPTH * sizeof(channel->ops[0]));
	ck_assert_ptr_nonnull(channel);
	channel->depth = DEPTH;
	channel->head = channel->put = DEPTH / 2; /* the ring wraps */
}

static void free_channel(void)
{
	free(channel);
}

static void add(size_t header, size_t value)
{
	struct tcp_op *op = tcp_channel_op(channel, channel->put);
	struct iovec *own = slices[channel->put++ % DEPTH];

	own[0] = (struct iovec){ MEMORY + header, 64 };
	own[1] = (struct iovec){ MEMORY + value, 4096 };
	*op = (struct tcp_op){ .slices = own, .n_slices = SLICES, .bytes = 4160 };
}

static void add_range(size_t at, uint32_t bytes)
{
	*tcp_channel_op(channel, channel->put++) =
		(struct tcp_op){ .addr = MEMORY + at, .bytes = bytes };
}

/* The number of operations up to the first that mixes, or of all; every `step`-th is asked for. */
static unsigned mixes_from(unsigned step)
{
	struct tcp_input in = { .seen = channel->head };

	for (uint64_t seq = channel->head + step - 1; seq < channel->put; seq += step)
		if (tcp_input_mixes(&in, channel, seq, tcp_channel_op(channel, seq)))
			return (unsigned)(seq - channel->head);
	return (unsigned)(channel->put - channel->head);
}

static size_t all_slices(uint64_t end, struct iovec *all)
{
	size_t n = 0;

	for (uint64_t seq = channel->head; seq <= end; seq++) {
		const struct tcp_op *op = tcp_channel_op(channel, seq);

		if (op->addr)
			all[n++] = (struct iovec){ op->addr, op->bytes };
		else
			for (unsigned i = 0; i < op->n_slices; i++)
				all[n++] = op->slices[i];
	}
	return n;
}

static bool has_pair(const struct iovec *all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++) {
			const char *a = all[i].iov_base, *b = all[k].iov_base;

			if (a < b + all[k].iov_len && b < a + all[i].iov_len)
				return true;
		}
	return false;
}

static unsigned pairs_from(unsigned step)
{
	struct iovec all[DEPTH * SLICES];

	for (uint64_t seq = channel->head + step - 1; seq < channel->put; seq += step)
		if (has_pair(all, all_slices(seq, all)))
			return (unsigned)(seq - channel->head);
	return (unsigned)(channel->put - channel->head);
}

/* A loop test: the seed. */
START_TEST(mixes__is_exact)
{
	srandom((unsigned)_i + 1);
	for (unsigned i = 0; i < DEPTH; i++)
		switch (random() % 4) {
		case 0: /* the memory behind the last */
			add((size_t)_i * 8000 + i * 64, 10000000 + (size_t)i * 4096);
			break;
		case 1: /* or before it */
			add(2000000 - (size_t)i * 64, 9000000 - (size_t)i * 4096);
			break;
		case 2:
			add((size_t)random() % 1000000, (size_t)random() % 10000000);
			break;
		default:
			add_range((size_t)random() % 20000000,
				  (uint32_t)(random() % 3000));
		}
	for (unsigned step = 1; step <= 3; step++)
		ck_assert_uint_eq(mixes_from(step), pairs_from(step));
}
END_TEST

/* Pieces that were freed in another order than they are taken. */
START_TEST(mixes__finds_no_pair_in_a_row_out_of_order)
{
	for (unsigned i = 0; i < DEPTH; i++)
		add(i * 13 % DEPTH * 64, 65536 + (size_t)i * 4096);
	ck_assert_uint_eq(mixes_from(1), DEPTH);
}
END_TEST

START_TEST(mixes__takes_ends_that_touch)
{
	add_range(4096, 4096);
	add_range(12288, 4096);
	add_range(8192, 4096);
	add_range(0, 4096);
	add_range(16384, 1);
	add_range(16384, 0);
	add_range(16384, 1);
	ck_assert_uint_eq(mixes_from(1), 6);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("places", make_channel, free_channel);

	tcase_add_loop_test(tcase, mixes__is_exact, 0, 200);
	tcase_add_test(tcase, mixes__finds_no_pair_in_a_row_out_of_order);
	tcase_add_test(tcase, mixes__takes_ends_that_touch);
	return unit_main();
}
