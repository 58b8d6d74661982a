/* SPDX-License-Identifier: BSD-3-Clause */
#include <check.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "fabric-conformance-cases.h"
#include "fabric-conformance-stage.h"

static void roundtrip(struct scene *s, size_t from, int64_t offset, uint32_t bytes)
{
	const struct remote *remote = s->remote;
	const struct local *local = s->local;
	size_t half = local->bytes / 2;

	stage_fill(local->addr + from, bytes, bytes + (uint64_t)offset);
	memset(local->addr + half, 0, half);
	ck_assert_int_eq(scene_run(s, scene_op(s, FABRIC_WRITE, from, offset, bytes)),
			 0);
	ck_assert_int_eq(
		scene_run(s, scene_op(s, FABRIC_READ, half + from, offset, bytes)), 0);
	ck_assert_msg(memcmp(remote->addr + offset, local->addr + from, bytes) == 0,
		      "%u bytes written at %lld differ", bytes, (long long)offset);
	ck_assert_msg(memcmp(local->addr + half + from, local->addr + from, bytes) == 0,
		      "%u bytes read at %lld differ", bytes, (long long)offset);
	/* the bytes before and after are unchanged */
	ck_assert(from == 0 || local->addr[half + from - 1] == 0);
	ck_assert_int_eq(local->addr[half + from + bytes], 0);
}

START_TEST(write_and_read__move_all_sizes_at_all_alignments)
{
	uint32_t max = CLIENT->max_bytes > 1u << 20 ? 1u << 20 : CLIENT->max_bytes;
	struct scene s = scene_open(max + 64, RW, 2 * (size_t)max + 4096);

	for (uint32_t bytes = 1; bytes <= 130; bytes++)
		roundtrip(&s, bytes % 9, bytes % 11, bytes);
	for (uint32_t size = 256; size <= max; size *= 2) {
		roundtrip(&s, 0, 0, size);
		roundtrip(&s, 3, 5, size - 1);
		if (size < max)
			roundtrip(&s, 8, 1, size + 1);
	}
	for (uint32_t at = 0; at < 17; at++)
		roundtrip(&s, 16 - at, at, 8);
	/* the last byte of the range */
	roundtrip(&s, 0, 64, max);
	scene_close(&s);
}
END_TEST

/* Each of n operations completes once, without an error, in any order. */
static void await_all(struct party *party, unsigned n)
{
	bool *seen = calloc(n, sizeof(*seen));

	ck_assert_ptr_nonnull(seen);
	for (unsigned i = 0; i < n; i++) {
		struct wc wc = op_await(party);

		ck_assert_msg(wc.status == 0, "operation %llu: %d: %s",
			      (unsigned long long)wc.cookie, wc.status,
			      wc.text ? wc.text : "");
		ck_assert_uint_lt(wc.cookie, n);
		ck_assert(!seen[wc.cookie]);
		seen[wc.cookie] = true;
	}
	free(seen);
}

START_TEST(post__pipelines_as_many_as_the_depth)
{
	enum { BLOCK = 5000 };
	struct scene s = scene_open(STAGE_DEPTH * BLOCK, RW, 2 * STAGE_DEPTH * BLOCK);
	struct wr wrs[STAGE_DEPTH];

	stage_fill(s.local->addr, STAGE_DEPTH * BLOCK, 1);
	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < STAGE_DEPTH; i++) {
			wrs[i] = scene_op(&s, pass ? FABRIC_READ : FABRIC_WRITE,
					  (pass * STAGE_DEPTH + i) * BLOCK,
					  (int64_t)i * BLOCK, BLOCK);
			wrs[i].cookie = i;
		}
		/* one by one in the first pass, as one batch in the second */
		if (pass == 0)
			for (unsigned i = 0; i < STAGE_DEPTH; i++)
				ck_assert_int_eq(wr_post(CLIENT, s.channel, &wrs[i], 1),
						 1);
		else
			ck_assert_int_eq(wr_post(CLIENT, s.channel, wrs, STAGE_DEPTH),
					 STAGE_DEPTH);
		ck_assert_int_eq(wr_post(CLIENT, s.channel, wrs, 1), 0);
		await_all(s.party, STAGE_DEPTH);
	}
	ck_assert(memcmp(s.local->addr, s.remote->addr, STAGE_DEPTH * BLOCK) == 0);
	ck_assert(memcmp(s.local->addr, s.local->addr + STAGE_DEPTH * BLOCK,
			 STAGE_DEPTH * BLOCK) == 0);
	scene_close(&s);
}
END_TEST

START_TEST(post__takes_the_first_of_a_batch_beyond_the_depth)
{
	enum { DEPTH = 7, N = 100, BLOCK = 300 };
	struct party *party = party_new();
	struct fabric_channel *channel = party_connect(party, DEPTH);
	struct remote *remote = remote_new(party, N * BLOCK, RW);
	struct local *local = local_new(party, N * BLOCK);
	struct wr wrs[N];
	unsigned posted = 0, done = 0;

	stage_fill(local->addr, N * BLOCK, 2);
	for (unsigned i = 0; i < N; i++) {
		wrs[i] = op_make(FABRIC_WRITE, local, i * BLOCK, remote,
				 (int64_t)i * BLOCK, BLOCK);
		wrs[i].cookie = i;
	}
	while (done < N) {
		int taken = wr_post(CLIENT, channel, wrs + posted, N - posted);

		ck_assert_int_ge(taken, 0);
		ck_assert_int_le(taken, DEPTH);
		posted += (unsigned)taken;
		ck_assert_uint_lt(op_await(party).cookie, posted);
		done++;
	}
	ck_assert(memcmp(local->addr, remote->addr, N * BLOCK) == 0);
	local_free(local);
	channel_free(channel);
	remote_free(remote);
	party_free(party);
}
END_TEST

START_TEST(cq__serves_two_channels)
{
	enum { N = 200 };
	struct party *party = party_new();
	struct fabric_channel *channels[2] = { party_connect(party, STAGE_DEPTH),
					       party_connect(party, STAGE_DEPTH) };
	struct remote *remote = remote_new(party, 8 * N, RW);
	struct local *local = local_new(party, 8 * N);
	unsigned done[2] = { 0, 0 };

	stage_fill(local->addr, 8 * N, 3);
	for (unsigned i = 0; i < N; i++) {
		struct wr wr =
			op_make(FABRIC_WRITE, local, 8 * i, remote, 8 * (int64_t)i, 8);

		wr.cookie = i;
		op_post(channels[i % 2], &wr, 1);
		if (i >= STAGE_DEPTH / 2) {
			struct wc wc = op_await(party);

			ck_assert_int_eq(wc.status, 0);
			ck_assert_ptr_eq(wc.channel, channels[wc.cookie % 2]);
			done[wc.cookie % 2]++;
		}
	}
	while (done[0] + done[1] < N)
		done[op_await(party).cookie % 2]++;
	ck_assert_uint_eq(done[0], N / 2);
	ck_assert(memcmp(local->addr, remote->addr, 8 * N) == 0);
	/* the other channel still works */
	channel_free(channels[0]);
	ck_assert_int_eq(op_run(party, channels[1],
				op_make(FABRIC_READ, local, 0, remote, 0, 8)),
			 0);
	local_free(local);
	channel_free(channels[1]);
	remote_free(remote);
	party_free(party);
}
END_TEST

START_TEST(cq_arm__loses_no_wake_up)
{
	const unsigned rounds = stage_rounds(10000);
	struct scene s = scene_open(4096, RW, 4096);
	struct pollfd pfd = { .fd = CLIENT->cq_fd(s.party->cq), .events = POLLIN };

	for (unsigned i = 0; i < rounds; i++) {
		struct wr wr = scene_op(&s, i % 2 ? FABRIC_READ : FABRIC_WRITE, 0, 0,
					1 + i % 64);
		struct wc wc;

		/* armed before the post, so that the descriptor must become readable */
		ck_assert_int_eq(CLIENT->cq_arm(s.party->cq), 0);
		ck_assert_int_eq(wr_poll(CLIENT, s.party->cq, &wc, 1), 0);
		wr.cookie = i;
		op_post(s.channel, &wr, 1);
		for (;;) {
			int got;

			ck_assert_msg(poll(&pfd, 1, STAGE_WAIT_MS) == 1,
				      "no wake-up for operation %u", i);
			got = wr_poll(CLIENT, s.party->cq, &wc, 1);
			ck_assert_int_eq(CLIENT->cq_arm(s.party->cq), 0);
			if (got == 0)
				got = wr_poll(CLIENT, s.party->cq, &wc, 1);
			if (got == 1)
				break;
		}
		ck_assert_int_eq(wc.status, 0);
		ck_assert_uint_eq(wc.cookie, i);
	}
	scene_close(&s);
}
END_TEST

/* One request between a remote range and n pieces of local memory. */
static void slices_transfer(struct scene *s, enum fabric_opcode opcode, unsigned n)
{
	const struct remote *remote = s->remote;
	const struct local *local = s->local;
	struct fabric_sge slices[64];
	struct wr wr = scene_op(s, opcode, 0, 3, 0);
	char *far = remote->addr + 3;

	for (unsigned i = 0; i < n; i++) {
		slices[i] = (struct fabric_sge){ .addr = local->addr + 1000 * (size_t)i,
						 .bytes = 1 + 100 * i,
						 .region = wr.region };
		wr.bytes += (uint32_t)slices[i].bytes;
	}
	wr.slices = slices;
	wr.n_slices = n;
	stage_fill(local->addr, local->bytes, n);
	stage_fill(remote->addr, remote->bytes, n + 1u);
	ck_assert_int_eq(scene_run(s, wr), 0);
	for (unsigned i = 0; i < n; i++) {
		ck_assert(memcmp(slices[i].addr, far, slices[i].bytes) == 0);
		far += slices[i].bytes;
	}
}

START_TEST(slices__are_one_range_at_the_server)
{
	struct scene s = scene_open(1 << 17, RW, 1 << 17);

	for (enum fabric_opcode opcode = FABRIC_READ; opcode <= FABRIC_WRITE;
	     opcode++) {
		unsigned max = CLIENT->sge_max(s.party->domain, opcode);

		ck_assert_uint_ge(max, 1);
		ck_assert_uint_le(max, 64);
		for (unsigned n = 2; n <= max; n++)
			slices_transfer(&s, opcode, n);
	}
	/* then a request of one piece */
	roundtrip(&s, 0, 0, 4096);
	scene_close(&s);
}
END_TEST

void transfer_cases(TCase *tcase)
{
	tcase_add_test(tcase, slices__are_one_range_at_the_server);
	tcase_add_test(tcase, write_and_read__move_all_sizes_at_all_alignments);
	tcase_add_test(tcase, post__pipelines_as_many_as_the_depth);
	tcase_add_test(tcase, post__takes_the_first_of_a_batch_beyond_the_depth);
	tcase_add_test(tcase, cq__serves_two_channels);
	tcase_add_test(tcase, cq_arm__loses_no_wake_up);
}
