/* SPDX-License-Identifier: BSD-3-Clause */
/* What every fabric promises in fabric.h, on whichever is given:
 *
 *   fabric-conformance                  tcp over loopback
 *   fabric-conformance tcp ADDRESS[,ADDRESS]...
 *   fabric-conformance verbs ADDRESS[,ADDRESS]...
 *
 * All cases run on each address in turn; one of an RDMA device for verbs, soft-RoCE or
 * iWARP (127.0.0.1 will not do there).
 *
 * RMEM_SEED=N repeats a run of the random traffic. */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric-conformance-stage.h"
#include "unit.h"

#define RW (FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE)

/* ---- bytes arrive ---- */

static void roundtrip(struct party *party, struct fabric_channel *channel,
		      const struct lent *lent, const struct local *local, size_t from,
		      int64_t offset, uint32_t bytes)
{
	size_t half = local->bytes / 2;

	stage_fill(local->addr + from, bytes, bytes + (uint64_t)offset);
	memset(local->addr + half, 0, half);
	ck_assert_int_eq(
		op_run(party, channel,
		       op_make(FABRIC_WRITE, local, from, lent, offset, bytes)),
		0);
	ck_assert_int_eq(
		op_run(party, channel,
		       op_make(FABRIC_READ, local, half + from, lent, offset, bytes)),
		0);
	ck_assert_msg(memcmp(lent->addr + offset, local->addr + from, bytes) == 0,
		      "%u bytes written at %lld differ", bytes, (long long)offset);
	ck_assert_msg(memcmp(local->addr + half + from, local->addr + from, bytes) == 0,
		      "%u bytes read at %lld differ", bytes, (long long)offset);
	/* nothing beside them */
	ck_assert(from == 0 || local->addr[half + from - 1] == 0);
	ck_assert_int_eq(local->addr[half + from + bytes], 0);
}

START_TEST(write_and_read__move_all_sizes_at_all_alignments)
{
	uint32_t max = CLIENT->max_bytes > 1u << 20 ? 1u << 20 : CLIENT->max_bytes;
	struct party *party = party_new();
	struct fabric_channel *channel = party_connect(party, STAGE_DEPTH);
	struct lent *lent = lent_new(party, max + 64, RW);
	struct local *local = local_new(party, 2 * (size_t)max + 4096);

	for (uint32_t bytes = 1; bytes <= 130; bytes++)
		roundtrip(party, channel, lent, local, bytes % 9, bytes % 11, bytes);
	for (uint32_t size = 256; size <= max; size *= 2) {
		roundtrip(party, channel, lent, local, 0, 0, size);
		roundtrip(party, channel, lent, local, 3, 5, size - 1);
		if (size < max)
			roundtrip(party, channel, lent, local, 8, 1, size + 1);
	}
	for (uint32_t at = 0; at < 17; at++)
		roundtrip(party, channel, lent, local, 16 - at, at, 8);
	/* up to the last byte */
	roundtrip(party, channel, lent, local, 0, 64, max);
	local_free(local);
	channel_free(channel);
	lent_free(lent);
	party_free(party);
}
END_TEST

/* The k-th completions may come in any order; each cookie once. */
static void await_all(struct party *party, unsigned n)
{
	bool *seen = calloc(n, sizeof(*seen));

	ck_assert_ptr_nonnull(seen);
	for (unsigned i = 0; i < n; i++) {
		struct fabric_wc wc = op_await(party);

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
	struct party *party = party_new();
	struct fabric_channel *channel = party_connect(party, STAGE_DEPTH);
	struct lent *lent = lent_new(party, STAGE_DEPTH * BLOCK, RW);
	struct local *local = local_new(party, 2 * STAGE_DEPTH * BLOCK);
	struct fabric_wr wrs[STAGE_DEPTH];

	stage_fill(local->addr, STAGE_DEPTH * BLOCK, 1);
	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < STAGE_DEPTH; i++) {
			wrs[i] = op_make(pass ? FABRIC_READ : FABRIC_WRITE, local,
					 (pass * STAGE_DEPTH + i) * BLOCK, lent,
					 (int64_t)i * BLOCK, BLOCK);
			wrs[i].cookie = i;
		}
		/* one by one, then as one batch: all must be taken at once */
		if (pass == 0)
			for (unsigned i = 0; i < STAGE_DEPTH; i++)
				ck_assert_int_eq(CLIENT->post(channel, &wrs[i], 1), 1);
		else
			ck_assert_int_eq(CLIENT->post(channel, wrs, STAGE_DEPTH),
					 STAGE_DEPTH);
		ck_assert_int_eq(CLIENT->post(channel, wrs, 1), 0);
		await_all(party, STAGE_DEPTH);
	}
	ck_assert(memcmp(local->addr, lent->addr, STAGE_DEPTH * BLOCK) == 0);
	ck_assert(memcmp(local->addr, local->addr + STAGE_DEPTH * BLOCK,
			 STAGE_DEPTH * BLOCK) == 0);
	local_free(local);
	channel_free(channel);
	lent_free(lent);
	party_free(party);
}
END_TEST

START_TEST(post__takes_the_first_of_a_batch_beyond_the_depth)
{
	enum { DEPTH = 7, N = 100, BLOCK = 300 };
	struct party *party = party_new();
	struct fabric_channel *channel = party_connect(party, DEPTH);
	struct lent *lent = lent_new(party, N * BLOCK, RW);
	struct local *local = local_new(party, N * BLOCK);
	struct fabric_wr wrs[N];
	unsigned posted = 0, done = 0;

	stage_fill(local->addr, N * BLOCK, 2);
	for (unsigned i = 0; i < N; i++) {
		wrs[i] = op_make(FABRIC_WRITE, local, i * BLOCK, lent,
				 (int64_t)i * BLOCK, BLOCK);
		wrs[i].cookie = i;
	}
	while (done < N) {
		int taken = CLIENT->post(channel, wrs + posted, N - posted);

		ck_assert_int_ge(taken, 0);
		ck_assert_int_le(taken, DEPTH);
		posted += (unsigned)taken;
		ck_assert_uint_lt(op_await(party).cookie, posted);
		done++;
	}
	ck_assert(memcmp(local->addr, lent->addr, N * BLOCK) == 0);
	local_free(local);
	channel_free(channel);
	lent_free(lent);
	party_free(party);
}
END_TEST

START_TEST(cq__serves_two_channels)
{
	enum { N = 200 };
	struct party *party = party_new();
	struct fabric_channel *channels[2] = { party_connect(party, STAGE_DEPTH),
					       party_connect(party, STAGE_DEPTH) };
	struct lent *lent = lent_new(party, 8 * N, RW);
	struct local *local = local_new(party, 8 * N);
	unsigned done[2] = { 0, 0 };

	stage_fill(local->addr, 8 * N, 3);
	for (unsigned i = 0; i < N; i++) {
		struct fabric_wr wr =
			op_make(FABRIC_WRITE, local, 8 * i, lent, 8 * (int64_t)i, 8);

		wr.cookie = i;
		op_post(channels[i % 2], &wr, 1);
		if (i >= STAGE_DEPTH / 2) {
			struct fabric_wc wc = op_await(party);

			ck_assert_int_eq(wc.status, 0);
			ck_assert_ptr_eq(wc.channel, channels[wc.cookie % 2]);
			done[wc.cookie % 2]++;
		}
	}
	while (done[0] + done[1] < N)
		done[op_await(party).cookie % 2]++;
	ck_assert_uint_eq(done[0], N / 2);
	ck_assert(memcmp(local->addr, lent->addr, 8 * N) == 0);
	/* the end of one is not the other's */
	channel_free(channels[0]);
	ck_assert_int_eq(
		op_run(party, channels[1], op_make(FABRIC_READ, local, 0, lent, 0, 8)),
		0);
	local_free(local);
	channel_free(channels[1]);
	lent_free(lent);
	party_free(party);
}
END_TEST

START_TEST(cq_arm__loses_no_wake_up)
{
	enum { N = 10000 };
	struct party *party = party_new();
	struct fabric_channel *channel = party_connect(party, STAGE_DEPTH);
	struct lent *lent = lent_new(party, 4096, RW);
	struct local *local = local_new(party, 4096);
	struct pollfd pfd = { .fd = CLIENT->cq_fd(party->cq), .events = POLLIN };

	for (unsigned i = 0; i < N; i++) {
		struct fabric_wr wr = op_make(i % 2 ? FABRIC_READ : FABRIC_WRITE, local,
					      0, lent, 0, 1 + i % 64);
		struct fabric_wc wc;

		/* armed before the post, so that only the descriptor can tell */
		ck_assert_int_eq(CLIENT->cq_arm(party->cq), 0);
		ck_assert_int_eq(CLIENT->poll(party->cq, &wc, 1), 0);
		wr.cookie = i;
		op_post(channel, &wr, 1);
		for (;;) {
			int got;

			ck_assert_msg(poll(&pfd, 1, STAGE_WAIT_MS) == 1,
				      "no wake-up for operation %u", i);
			got = CLIENT->poll(party->cq, &wc, 1);
			ck_assert_int_eq(CLIENT->cq_arm(party->cq), 0);
			if (got == 0)
				got = CLIENT->poll(party->cq, &wc, 1);
			if (got == 1)
				break;
		}
		ck_assert_int_eq(wc.status, 0);
		ck_assert_uint_eq(wc.cookie, i);
	}
	local_free(local);
	channel_free(channel);
	lent_free(lent);
	party_free(party);
}
END_TEST

/* ---- isolation ---- */

START_TEST(rights__are_enforced)
{
	static const unsigned rights[] = { 0, FABRIC_RIGHT_READ, FABRIC_RIGHT_WRITE,
					   RW };
	struct party *party = party_new();
	struct fabric_channel *channel = party_connect(party, STAGE_DEPTH);
	struct lent *lent = lent_new(party, 4096, rights[_i]);
	struct local *local = local_new(party, 8192);
	char *before = lent_snapshot(lent);
	struct fabric_wr wr = op_make(FABRIC_READ, local, 100, lent, 0, 4096);

	/* where writes are confirmed by a read, the one right brings the other; siw reads
	 * from whatever the session has, without any right */
	if ((rights[_i] & FABRIC_RIGHT_READ) || stage_confirms()) {
		ck_assert_int_eq(op_run(party, channel, wr), 0);
		ck_assert(memcmp(local->addr + 100, lent->addr, 4096) == 0);
	} else {
		channel = op_run_refused(party, channel, wr);
		for (size_t i = 0; i < local->bytes; i++)
			ck_assert_int_eq(local->addr[i], 0);
	}
	memset(local->addr, 0x5a, local->bytes);
	wr.opcode = FABRIC_WRITE;
	if (rights[_i] & FABRIC_RIGHT_WRITE) {
		ck_assert_int_eq(op_run(party, channel, wr), 0);
		ck_assert(memcmp(local->addr, lent->addr, 4096) == 0);
	} else {
		channel = op_run_refused(party, channel, wr);
		ck_assert(lent_unchanged(lent, before));
	}
	free(before);
	local_free(local);
	channel_free(channel);
	lent_free(lent);
	party_free(party);
}
END_TEST

START_TEST(key__works_in_its_session_alone)
{
	struct party *owner = party_new(), *thief = party_new();
	struct fabric_channel *owned = party_connect(owner, STAGE_DEPTH);
	struct fabric_channel *stolen = party_connect(thief, STAGE_DEPTH);
	struct lent *lent = lent_new(owner, 4096, RW);
	struct lent *other = lent_new(thief, 4096, RW);
	struct local *own_local = local_new(owner, 4096);
	struct local *local = local_new(thief, 4096);
	char *before = lent_snapshot(lent);

	stolen = op_run_refused(thief, stolen,
				op_make(FABRIC_READ, local, 0, lent, 0, 64));
	for (size_t i = 0; i < local->bytes; i++)
		ck_assert_int_eq(local->addr[i], 0);
	stolen = op_run_refused(thief, stolen,
				op_make(FABRIC_WRITE, local, 0, lent, 0, 64));
	stolen = op_run_refused(thief, stolen,
				op_make(FABRIC_WRITE, local, 0, lent, 8, 8));
	ck_assert(lent_unchanged(lent, before));
	/* both carry on */
	ck_assert_int_eq(
		op_run(thief, stolen, op_make(FABRIC_READ, local, 0, other, 0, 64)), 0);
	ck_assert_int_eq(
		op_run(owner, owned, op_make(FABRIC_WRITE, own_local, 0, lent, 0, 64)),
		0);
	free(before);
	local_free(local);
	local_free(own_local);
	channel_free(owned);
	channel_free(stolen);
	lent_free(lent);
	lent_free(other);
	party_free(owner);
	party_free(thief);
}
END_TEST

START_TEST(bounds__hold_to_the_byte)
{
	static const struct {
		int64_t offset;
		uint32_t bytes;
	} outside[] = {
		{ -1, 1 },         { -1, 2 },         { -8, 8 },      { 4096, 1 },
		{ 4095, 2 },       { 0, 4097 },       { -1, 4097 },   { 4089, 8 },
		{ 1, 4096 },       { -1, 4098 },      { 1 << 20, 8 }, { -(1 << 20), 8 },
		{ INT64_MAX, 64 }, { INT64_MIN, 64 },
	};
	struct party *party = party_new();
	struct fabric_channel *channel = party_connect(party, STAGE_DEPTH);
	struct lent *lent = lent_new(party, 4096, RW);
	struct local *local = local_new(party, 8192);
	char *before = lent_snapshot(lent);

	for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
		channel = op_run_refused(party, channel,
					 op_make(FABRIC_WRITE, local, 0, lent,
						 outside[i].offset, outside[i].bytes));
		ck_assert(lent_unchanged(lent, before));
		channel = op_run_refused(party, channel,
					 op_make(FABRIC_READ, local, 0, lent,
						 outside[i].offset, outside[i].bytes));
		/* over iWARP short reads go in two parts, of which one may be inside */
		for (size_t k = 0; k < local->bytes && !stage_confirms(); k++)
			ck_assert_int_eq(local->addr[k], 0);
	}
	/* at the end of the address space */
	channel = op_run_refused(party, channel,
				 op_make(FABRIC_READ, local, 0, lent,
					 (int64_t)(UINT64_MAX - lent->key.addr), 2));
	ck_assert_int_eq(
		op_run(party, channel, op_make(FABRIC_READ, local, 0, lent, 0, 4096)),
		0);
	free(before);
	local_free(local);
	channel_free(channel);
	lent_free(lent);
	party_free(party);
}
END_TEST

START_TEST(exposure__may_be_odd_and_lie_at_odd_addresses)
{
	struct party *party = party_new();
	struct fabric_channel *channel = party_connect(party, STAGE_DEPTH);
	struct lent *lent = lent_new(party, 4099, RW);
	struct local *local = local_new(party, 8192);
	char *before;

	ck_assert_int_eq(
		op_run(party, channel, op_make(FABRIC_WRITE, local, 1, lent, 0, 4099)),
		0);
	before = lent_snapshot(lent);
	channel = op_run_refused(party, channel,
				 op_make(FABRIC_WRITE, local, 0, lent, 4098, 2));
	channel = op_run_refused(party, channel,
				 op_make(FABRIC_WRITE, local, 0, lent, 4099, 1));
	ck_assert(lent_unchanged(lent, before));
	ck_assert_int_eq(
		op_run(party, channel, op_make(FABRIC_WRITE, local, 0, lent, 4098, 1)),
		0);
	free(before);
	local_free(local);
	channel_free(channel);
	lent_free(lent);
	party_free(party);
}
END_TEST

/* ---- the end of exposures ---- */

START_TEST(withdraw__ends_the_key)
{
	struct party *party = party_new();
	struct fabric_channel *channel = party_connect(party, STAGE_DEPTH);
	struct lent *lent = lent_new(party, 4096, RW),
		    *stays = lent_new(party, 4096, RW);
	struct local *local = local_new(party, 4096);
	char *before;

	ck_assert_int_eq(
		op_run(party, channel, op_make(FABRIC_WRITE, local, 0, lent, 0, 4096)),
		0);
	lent_withdraw_start(lent);
	lent_await_withdrawn(lent);
	stage_fill(lent->addr, lent->bytes, 4);
	before = lent_snapshot(lent);
	memset(local->addr, 0, local->bytes);
	channel = op_run_refused(party, channel,
				 op_make(FABRIC_READ, local, 0, lent, 0, 4096));
	for (size_t i = 0; i < local->bytes; i++)
		ck_assert_int_eq(local->addr[i], 0);
	channel = op_run_refused(party, channel,
				 op_make(FABRIC_WRITE, local, 0, lent, 0, 4096));
	ck_assert(lent_unchanged(lent, before));
	ck_assert_int_eq(
		op_run(party, channel, op_make(FABRIC_READ, local, 0, stays, 0, 4096)),
		0);
	free(before);
	local_free(local);
	channel_free(channel);
	lent_free(lent);
	lent_free(stays);
	party_free(party);
}
END_TEST

static void call_expose_and_withdraw(void *arg)
{
	struct lent *lent = arg;

	ck_assert_int_eq(SERVER->expose(lent->party->session, lent->addr, lent->bytes,
					RW, lent, &lent->exposure),
			 0);
	SERVER->withdraw(lent->exposure);
}

START_TEST(withdraw__may_come_before_exposed)
{
	static char memory[4096];
	struct party *party = party_new();
	struct lent lent = { .party = party, .addr = memory, .bytes = sizeof(memory) };

	stage_call(call_expose_and_withdraw, &lent);
	lent_await_withdrawn(&lent);
	ck_assert(!lent.exposed);
	ck_assert_uint_eq(stage_stats().exposures, 0);
	ck_assert_uint_eq(stage_stats().exposed_bytes, 0);
	party_free(party);
}
END_TEST

/* Traffic of one party without pause, until something ends in an error. */
struct traffic {
	struct party *party;
	struct fabric_channel *channel;
	struct lent *lent;
	struct local *local;
	uint32_t bytes;
	atomic_uint done; /* without error */
	atomic_bool stop; /* ends it without an error as well */
	int status;       /* of the first error */
	bool poisoned;    /* a read returned what was there after withdrawn() */
	pthread_t thread;
};

#define POISON 0xee

static bool is_poisoned(const char *addr, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if ((unsigned char)addr[i] == POISON)
			return true;
	return false;
}

/* Writes come from the first half of local, reads go to their own places behind. */
static void *traffic_main(void *arg)
{
	enum { DEPTH = 8 };
	struct traffic *t = arg;
	unsigned posted = 0, outstanding = 0;
	size_t half = t->local->bytes / 2;

	while ((t->status == 0 && !atomic_load(&t->stop)) || outstanding > 0) {
		struct fabric_wc wc;

		while (t->status == 0 && !atomic_load(&t->stop) &&
		       outstanding < DEPTH) {
			bool read = posted % 2;
			struct fabric_wr wr =
				op_make(read ? FABRIC_READ : FABRIC_WRITE, t->local,
					read ? half + posted % DEPTH * t->bytes : 0,
					t->lent, 0, t->bytes);
			int taken;

			wr.cookie = posted;
			taken = CLIENT->post(t->channel, &wr, 1);
			if (taken < 0)
				t->status = taken;
			if (taken <= 0)
				break;
			posted++;
			outstanding++;
		}
		if (outstanding == 0)
			break;
		wc = op_await(t->party);
		outstanding--;
		if (wc.status) {
			if (!t->status)
				t->status = wc.status;
			continue;
		}
		if (wc.cookie % 2 &&
		    is_poisoned(t->local->addr + half + wc.cookie % DEPTH * t->bytes,
				t->bytes))
			t->poisoned = true;
		atomic_fetch_add(&t->done, 1);
	}
	return NULL;
}

static void traffic_start(struct traffic *t, uint32_t bytes)
{
	t->bytes = bytes;
	t->party = party_new();
	t->channel = party_connect(t->party, STAGE_DEPTH);
	t->lent = lent_new(t->party, bytes, RW);
	t->local = local_new(t->party, 16 * (size_t)bytes);
	memset(t->local->addr, 0x11, t->local->bytes);
	memset(t->lent->addr, 0x11, t->lent->bytes);
	ck_assert_int_eq(pthread_create(&t->thread, NULL, traffic_main, t), 0);
}

static void traffic_await(struct traffic *t, unsigned more)
{
	unsigned from = atomic_load(&t->done);
	struct timespec nap = { .tv_nsec = 200000 };

	while (atomic_load(&t->done) - from < more)
		(void)nanosleep(&nap, NULL);
}

static void traffic_join(struct traffic *t)
{
	ck_assert_int_eq(pthread_join(t->thread, NULL), 0);
}

/* siw hands the pages of an answer to TCP by reference and does not call them back when
 * they are deregistered: an answer under way may show what is there later.  That is the
 * kernel's; hardware waits. */
static bool answers_linger(void)
{
	return stage_confirms();
}

static void traffic_free(struct traffic *t)
{
	channel_free(t->channel);
	local_free(t->local);
	lent_free(t->lent);
	party_free(t->party);
}

START_TEST(withdraw__stops_operations_in_flight)
{
	static const uint32_t sizes[] = { 8, 64, 4096, 262144 };
	struct traffic t = { 0 };
	struct lent *lent;
	char *before;

	traffic_start(&t, sizes[_i]);
	lent = t.lent;
	traffic_await(&t, 20);
	lent_withdraw_start(lent);
	lent_await_withdrawn(lent);
	/* from here on nobody but us touches it */
	memset(lent->addr, POISON, lent->bytes);
	before = lent_snapshot(lent);
	traffic_join(&t);
	ck_assert(lent_unchanged(lent, before));
	ck_assert(!t.poisoned || answers_linger());
	/* the stream may also end, when it was in the middle of an answer */
	ck_assert_msg(t.status == -EACCES || t.status == -ECONNRESET, "status %d",
		      t.status);
	free(before);
	traffic_free(&t);
}
END_TEST

START_TEST(session_close__ends_one_session_and_no_other)
{
	struct traffic ends = { 0 }, stays = { 0 };
	struct lent *lent;
	char *before;

	traffic_start(&ends, 65536);
	traffic_start(&stays, 65536);
	traffic_await(&ends, 20);
	traffic_await(&stays, 20);
	lent = ends.lent;
	party_close_session(ends.party);
	party_await_closed(ends.party);
	/* in this order */
	lent_await_withdrawn(lent);
	memset(lent->addr, POISON, lent->bytes);
	before = lent_snapshot(lent);
	traffic_join(&ends);
	ck_assert_int_ne(ends.status, 0);
	ck_assert(!ends.poisoned || answers_linger());
	ck_assert(lent_unchanged(lent, before));
	/* no news of channels that the server has ended */
	ck_assert_uint_eq(ends.party->downs, 0);
	traffic_await(&stays, 50);
	ck_assert_uint_eq(stage_stats().exposures, 1);
	atomic_store(&stays.stop, true);
	traffic_join(&stays);
	ck_assert_int_eq(stays.status, 0);
	free(before);
	traffic_free(&ends);
	traffic_free(&stays);
}
END_TEST

/* ---- admission ---- */

START_TEST(connect__needs_session_and_token)
{
	struct party *party = party_new();
	struct fabric_channel *channel = NULL;
	struct fabric_hello hello = party_hello(party);
	struct fabric_endpoint_stats stats;

	hello.token[FABRIC_TOKEN_BYTES - 1] ^= 1;
	ck_assert_int_eq(party_try_connect(party, &hello, &channel), -EACCES);
	hello.token[FABRIC_TOKEN_BYTES - 1] ^= 1;
	hello.session++;
	ck_assert_int_eq(party_try_connect(party, &hello, &channel), -EACCES);
	ck_assert_ptr_null(channel);
	stats = stage_stats();
	ck_assert_uint_eq(stats.refused, 2);
	ck_assert_uint_eq(stats.channels_ever, 0);
	hello.session--;
	ck_assert_int_eq(party_try_connect(party, &hello, &channel), 0);
	party_await_ups(party, 1);
	ck_assert_uint_eq(stage_stats().channels, 1);
	channel_free(channel);
	party_await_downs(party, 1);
	ck_assert_uint_eq(stage_stats().channels, 0);
	ck_assert_uint_eq(party->ups, 1);
	party_free(party);
}
END_TEST

START_TEST(connect__is_refused_once_the_session_is_closed)
{
	struct party *party = party_new();
	struct fabric_channel *channel = NULL;
	struct fabric_hello hello = party_hello(party);

	party_close_session(party);
	party_await_closed(party);
	ck_assert_int_eq(party_try_connect(party, &hello, &channel), -EACCES);
	party_free(party);
}
END_TEST

/* ---- the end of channels ---- */

/* Post what is taken at most; returns how many. */
static unsigned post_many(struct fabric_channel *channel, const struct local *local,
			  const struct lent *lent, unsigned n, uint32_t bytes)
{
	unsigned posted = 0;

	while (posted < n) {
		struct fabric_wr wr =
			op_make(posted % 2 ? FABRIC_READ : FABRIC_WRITE, local,
				posted * (size_t)bytes, lent, 0, bytes);

		wr.cookie = posted;
		if (CLIENT->post(channel, &wr, 1) != 1)
			break;
		posted++;
	}
	return posted;
}

/* Each of n completes once; returns how many in error. */
static unsigned await_each(struct party *party, unsigned n)
{
	bool *seen = calloc(n, sizeof(*seen));
	struct fabric_wc more;
	unsigned failed = 0;

	ck_assert_ptr_nonnull(seen);
	for (unsigned i = 0; i < n; i++) {
		struct fabric_wc wc = op_await(party);

		ck_assert_uint_lt(wc.cookie, n);
		ck_assert(!seen[wc.cookie]);
		seen[wc.cookie] = true;
		failed += wc.status != 0;
		ck_assert(wc.status == 0 || wc.text != NULL);
	}
	ck_assert_int_eq(CLIENT->poll(party->cq, &more, 1), 0);
	free(seen);
	return failed;
}

static void *abort_main(void *arg)
{
	CLIENT->abort(arg);
	return NULL;
}

START_TEST(abort__completes_everything_once)
{
	enum { BYTES = 65536 };
	struct party *party = party_new();
	struct fabric_channel *channel = party_connect(party, STAGE_DEPTH);
	struct lent *lent = lent_new(party, BYTES, RW);
	struct local *local = local_new(party, STAGE_DEPTH * BYTES);
	unsigned posted = post_many(channel, local, lent, STAGE_DEPTH, BYTES);
	struct fabric_wr wr = op_make(FABRIC_READ, local, 0, lent, 0, 8);
	pthread_t other;

	ck_assert_uint_eq(posted, STAGE_DEPTH);
	ck_assert_int_eq(pthread_create(&other, NULL, abort_main, channel), 0);
	ck_assert_int_eq(pthread_join(other, NULL), 0);
	(void)await_each(party, posted);
	ck_assert_int_eq(CLIENT->post(channel, &wr, 1), -ECONNRESET);
	ck_assert(!CLIENT->alive(channel));
	/* twice does no harm */
	CLIENT->abort(channel);
	channel_free(channel);
	party_await_downs(party, 1);
	/* the session lives */
	channel = party_connect(party, STAGE_DEPTH);
	ck_assert_int_eq(op_run(party, channel, wr), 0);
	local_free(local);
	channel_free(channel);
	lent_free(lent);
	party_free(party);
}
END_TEST

/* Sleep until the channel is found dead. */
static void await_death(struct party *party, struct fabric_channel *channel)
{
	struct pollfd pfds[2] = {
		{ .fd = CLIENT->cq_fd(party->cq), .events = POLLIN },
		{ .fd = CLIENT->alive_fd(channel), .events = POLLIN },
	};
	struct fabric_wc wc;

	for (;;) {
		ck_assert_int_eq(CLIENT->cq_arm(party->cq), 0);
		ck_assert_int_eq(CLIENT->poll(party->cq, &wc, 1), 0);
		if (!CLIENT->alive(channel))
			return;
		ck_assert_msg(poll(pfds, 2, STAGE_WAIT_MS) >= 1,
			      "nobody told of the end");
	}
}

START_TEST(server_close__is_noticed_on_an_idle_channel)
{
	struct party *party = party_new();
	struct fabric_channel *channel = party_connect(party, STAGE_DEPTH);
	struct lent *lent = lent_new(party, 4096, RW);
	struct local *local = local_new(party, 4096);
	struct fabric_wr wr = op_make(FABRIC_READ, local, 0, lent, 0, 8);

	ck_assert_int_eq(op_run(party, channel, wr), 0);
	ck_assert(CLIENT->alive(channel));
	stage_server_close();
	await_death(party, channel);
	ck_assert_int_eq(CLIENT->post(channel, &wr, 1), -ECONNRESET);
	local_free(local);
	channel_free(channel);
	lent_free(lent);
	party_free(party);
}
END_TEST

START_TEST(server_close__during_traffic_ends_every_operation)
{
	struct traffic t = { 0 };

	traffic_start(&t, 65536);
	traffic_await(&t, 20);
	stage_server_close();
	traffic_join(&t);
	ck_assert_int_ne(t.status, 0);
	traffic_free(&t);
}
END_TEST

struct channel_close_call {
	struct party *party;
	uint32_t channel;
};

static void call_channel_close(void *arg)
{
	struct channel_close_call *call = arg;

	SERVER->channel_close(call->party->session, call->channel);
	/* a number nobody has */
	SERVER->channel_close(call->party->session, 77777);
}

START_TEST(channel_close__ends_one_channel_without_news)
{
	enum { BYTES = 65536 };
	struct party *party = party_new();
	struct fabric_channel *ends = party_connect(party, STAGE_DEPTH);
	struct channel_close_call call = { party, party->next_channel };
	struct fabric_channel *stays = party_connect(party, STAGE_DEPTH);
	struct lent *lent = lent_new(party, BYTES, RW);
	struct local *local = local_new(party, STAGE_DEPTH * BYTES);
	char *before;
	unsigned posted = post_many(ends, local, lent, STAGE_DEPTH, BYTES);

	stage_call(call_channel_close, &call);
	/* what that channel still carried is not applied any more */
	memset(lent->addr, POISON, lent->bytes);
	before = lent_snapshot(lent);
	(void)await_each(party, posted);
	ck_assert(lent_unchanged(lent, before));
	await_death(party, ends);
	ck_assert_int_eq(
		op_run(party, stays, op_make(FABRIC_READ, local, 0, lent, 0, 8)), 0);
	channel_free(ends);
	channel_free(stays);
	party_await_downs(party, 1);
	ck_assert_uint_eq(party->downs, 1);
	free(before);
	local_free(local);
	lent_free(lent);
	party_free(party);
}
END_TEST

/* ---- everything at once ---- */

#define CHANNELS 4
#define WINDOW 16u                /* operations of a channel in flight */
#define AREA (1u << 19)           /* of one channel */
#define BLOCK_MAX (AREA / WINDOW) /* of one operation: each has its own place */

struct mixer {
	uint64_t seed;
	unsigned ops;
	struct party *party;
	struct fabric_channel *channels[CHANNELS];
	struct lent *lent;
	struct local *local;
	char *model; /* what lent must hold */
	struct {
		struct fabric_wr wr;
		size_t at; /* in local, lent and model */
		bool busy;
	} slots[CHANNELS * WINDOW];
	unsigned long long bytes;
	pthread_t thread;
};

static void mixer_post(struct mixer *m, unsigned slot)
{
	uint64_t r = stage_random(&m->seed);
	uint32_t bytes = (uint32_t)(r >> 8) % ((r & 4) ? 256 : BLOCK_MAX) + 1;
	size_t at = (size_t)slot * BLOCK_MAX +
		    (size_t)(stage_random(&m->seed) % (BLOCK_MAX - bytes + 1));
	struct fabric_wr *wr = &m->slots[slot].wr;

	m->slots[slot].at = at;
	m->slots[slot].busy = true;
	if (r & 1) {
		stage_fill(m->model + at, bytes, r);
		memcpy(m->local->addr + at, m->model + at, bytes);
	} else {
		memset(m->local->addr + at, 0, bytes);
	}
	*wr = op_make((r & 1) ? FABRIC_WRITE : FABRIC_READ, m->local, at, m->lent,
		      (int64_t)at, bytes);
	wr->cookie = slot;
	m->bytes += bytes;
	op_post(m->channels[slot / WINDOW], wr, 1);
}

static void mixer_await(struct mixer *m)
{
	struct fabric_wc wc = op_await(m->party);
	unsigned slot = (unsigned)wc.cookie;

	ck_assert_msg(wc.status == 0, "status %d: %s", wc.status,
		      wc.text ? wc.text : "");
	ck_assert_uint_lt(slot, CHANNELS * WINDOW);
	ck_assert(m->slots[slot].busy);
	ck_assert_ptr_eq(wc.channel, m->channels[slot / WINDOW]);
	m->slots[slot].busy = false;
	ck_assert_msg(
		memcmp(m->local->addr + m->slots[slot].at, m->model + m->slots[slot].at,
		       m->slots[slot].wr.bytes) == 0,
		"%u bytes at %zu differ", m->slots[slot].wr.bytes, m->slots[slot].at);
}

static void *mixer_main(void *arg)
{
	struct mixer *m = arg;
	unsigned outstanding = 0;

	for (unsigned i = 0; i < m->ops || outstanding > 0;) {
		for (unsigned slot = 0; slot < CHANNELS * WINDOW && i < m->ops;
		     slot++) {
			if (m->slots[slot].busy)
				continue;
			mixer_post(m, slot);
			i++;
			outstanding++;
		}
		mixer_await(m);
		outstanding--;
	}
	return NULL;
}

START_TEST(traffic__of_three_sessions_with_four_channels_is_exact)
{
	enum { SESSIONS = 3, OPS = 4000 };
	struct mixer *mixers = calloc(SESSIONS, sizeof(*mixers));
	uint64_t seed = stage_seed();
	unsigned long long bytes = 0;

	ck_assert_ptr_nonnull(mixers);
	for (unsigned s = 0; s < SESSIONS; s++) {
		struct mixer *m = &mixers[s];

		m->seed = stage_random(&seed);
		m->ops = OPS;
		m->party = party_new();
		for (unsigned c = 0; c < CHANNELS; c++)
			m->channels[c] = party_connect(m->party, STAGE_DEPTH);
		m->lent = lent_new(m->party, CHANNELS * AREA, RW);
		m->local = local_new(m->party, CHANNELS * AREA);
		m->model = malloc(CHANNELS * AREA);
		ck_assert_ptr_nonnull(m->model);
		memcpy(m->model, m->lent->addr, CHANNELS * AREA);
	}
	for (unsigned s = 0; s < SESSIONS; s++)
		ck_assert_int_eq(
			pthread_create(&mixers[s].thread, NULL, mixer_main, &mixers[s]),
			0);
	for (unsigned s = 0; s < SESSIONS; s++) {
		struct mixer *m = &mixers[s];

		ck_assert_int_eq(pthread_join(m->thread, NULL), 0);
		ck_assert(memcmp(m->model, m->lent->addr, CHANNELS * AREA) == 0);
		bytes += m->bytes;
	}
	fprintf(stderr, "# %u operations, %llu bytes\n", SESSIONS * OPS, bytes);
	for (unsigned s = 0; s < SESSIONS; s++) {
		struct mixer *m = &mixers[s];

		for (unsigned c = 0; c < CHANNELS; c++)
			channel_free(m->channels[c]);
		party_await_downs(m->party, CHANNELS);
		local_free(m->local);
		lent_free(m->lent);
		party_free(m->party);
		free(m->model);
	}
	free(mixers);
	ck_assert_uint_eq(stage_stats().channels, 0);
	ck_assert_uint_eq(stage_stats().exposures, 0);
	ck_assert_uint_eq(stage_stats().errors, 0);
}
END_TEST

static Suite *conformance_suite(void)
{
	Suite *suite = suite_create("fabric-conformance");
	TCase *tcase = tcase_create("conformance");

	tcase_add_checked_fixture(tcase, stage_open, stage_close);
	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, write_and_read__move_all_sizes_at_all_alignments);
	tcase_add_test(tcase, post__pipelines_as_many_as_the_depth);
	tcase_add_test(tcase, post__takes_the_first_of_a_batch_beyond_the_depth);
	tcase_add_test(tcase, cq__serves_two_channels);
	tcase_add_test(tcase, cq_arm__loses_no_wake_up);
	tcase_add_loop_test(tcase, rights__are_enforced, 0, 4);
	tcase_add_test(tcase, key__works_in_its_session_alone);
	tcase_add_test(tcase, bounds__hold_to_the_byte);
	tcase_add_test(tcase, exposure__may_be_odd_and_lie_at_odd_addresses);
	tcase_add_test(tcase, withdraw__ends_the_key);
	tcase_add_test(tcase, withdraw__may_come_before_exposed);
	tcase_add_loop_test(tcase, withdraw__stops_operations_in_flight, 0, 4);
	tcase_add_test(tcase, session_close__ends_one_session_and_no_other);
	tcase_add_test(tcase, connect__needs_session_and_token);
	tcase_add_test(tcase, connect__is_refused_once_the_session_is_closed);
	tcase_add_test(tcase, abort__completes_everything_once);
	tcase_add_test(tcase, server_close__is_noticed_on_an_idle_channel);
	tcase_add_test(tcase, server_close__during_traffic_ends_every_operation);
	tcase_add_test(tcase, channel_close__ends_one_channel_without_news);
	tcase_add_test(tcase, traffic__of_three_sessions_with_four_channels_is_exact);
	suite_add_tcase(suite, tcase);
	return suite;
}

static bool address_parse(const char *text, struct fabric_address *ret_address)
{
	struct fabric_address address = { .family = 4 };

	if (inet_pton(AF_INET, text, address.bytes) != 1) {
		address.family = 6;
		if (inet_pton(AF_INET6, text, address.bytes) != 1)
			return false;
	}
	*ret_address = address;
	return true;
}

static int usage(void)
{
	fprintf(stderr, "usage: fabric-conformance [tcp [ADDRESS] | verbs "
			"ADDRESS[,ADDRESS2]]\n");
	return 2;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "tcp";
	char *list = argc > 2 ? argv[2] : NULL, *next = NULL;
	char loopback[] = "127.0.0.1";
	int status = EXIT_SUCCESS;

	if (argc > 3) {
		return usage();
	} else if (strcmp(name, "tcp") == 0) {
		stage_setting.server = &fabric_tcp_server;
		stage_setting.client = &fabric_tcp_client;
	} else if (strcmp(name, "verbs") == 0 && list) {
		stage_setting.server = &fabric_verbs_server;
		stage_setting.client = &fabric_verbs_client;
	} else {
		return usage();
	}
	for (char *text = strtok_r(list ? list : loopback, ",", &next); text;
	     text = strtok_r(NULL, ",", &next)) {
		if (!address_parse(text, &stage_setting.address))
			return usage();
		if (unit_main(conformance_suite()) != EXIT_SUCCESS)
			status = EXIT_FAILURE;
	}
	return status;
}
