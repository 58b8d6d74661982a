/* SPDX-License-Identifier: BSD-3-Clause */
/* What pools are to become, step by step: the pools, the leases in them and the ledger are
 * fakes, defined here. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "rmemd/pool/plan.h"
#include "rmemd/pool/resize.h"
#include "unit/unit.h"

#define MIB (UINT64_C(1024) * 1024)
#define WAIT_MS 1000

static struct config config;
static struct resizes *resizes;
static uint64_t now_ms;

/* ---- fakes ---- */

/* One pool, and where there are two what becomes of the other one. */
static unsigned n_pools;
static struct pool_status other;
static const struct pool_params other_params = { .name = "other" };

static struct fake {
	struct pool_params params;
	struct pool_status status;
	int grow_err, recall_err;
	bool stopped;     /* growing */
	unsigned n_grown; /* calls of pools_grow() */
	bool done;        /* pools_resized() tells so: */
	struct pools_resized resized;
	bool leased; /* some of what is reclaimed */
} fake;

/* What the ledger says. */
static struct kept {
	int err;
	uint64_t bytes, grown;
} kept;

static char logged[8][256]; /* the last one first */

static void log_keep(int level, const char *event, const struct log_ctx *ctx,
		     const char *text)
{
	(void)level;
	if (ctx)
		ck_assert_str_eq(ctx->pool, "a");
	memmove(logged[1], logged[0], sizeof(logged) - sizeof(logged[0]));
	(void)snprintf(logged[0], sizeof(logged[0]), "%s: %s", event, text);
}

static uint64_t clock_of_test(void)
{
	return now_ms * 1000000;
}

unsigned pools_count(const struct pools *pools)
{
	(void)pools;
	return n_pools;
}

void pools_status(const struct pools *pools, unsigned i, struct pool_status *ret_status)
{
	(void)pools;
	*ret_status = i ? other : fake.status;
}

const struct pool_params *pools_params(const struct pools *pools, unsigned i)
{
	(void)pools;
	return i ? &other_params : &fake.params;
}

uint64_t pools_round(const struct pools *pools, unsigned i, uint64_t bytes)
{
	(void)pools;
	(void)i;
	return bytes;
}

void pools_set_asked(struct pools *pools, unsigned i, uint64_t bytes)
{
	(void)pools;
	(void)i;
	fake.params.bytes = bytes;
}

int pools_grow(struct pools *pools, unsigned i, uint64_t bytes)
{
	(void)pools;
	(void)i;
	ck_assert_int_eq(fake.status.resizing, POOL_RESTS);
	ck_assert_uint_gt(bytes, fake.status.bytes);
	/* whatever becomes of the process now, the ledger knows */
	ck_assert_uint_eq(kept.bytes, fake.status.bytes);
	ck_assert_uint_eq(kept.grown, bytes);
	fake.n_grown++;
	if (fake.grow_err)
		return err_set(fake.grow_err, "no thread");
	fake.status.resizing = POOL_GROWS;
	fake.status.bytes_to = bytes;
	fake.stopped = false;
	return 0;
}

void pools_grow_stop(struct pools *pools, unsigned i)
{
	(void)pools;
	(void)i;
	fake.stopped = true;
}

int pools_reclaim(struct pools *pools, unsigned i, uint64_t bytes, uint64_t until_ms,
		  enum pool_shrink then)
{
	(void)pools;
	(void)i;
	(void)then;
	ck_assert_int_eq(fake.status.resizing, POOL_RESTS);
	ck_assert_uint_eq(until_ms, now_ms + WAIT_MS);
	if (fake.recall_err)
		return err_set(fake.recall_err, "no thread");
	fake.status.resizing = POOL_RECLAIMS;
	fake.status.bytes_to = bytes;
	fake.status.reclaimed = fake.status.bytes - bytes;
	return 0;
}

static void rest(void)
{
	fake.status.resizing = POOL_RESTS;
	fake.status.bytes_to = fake.status.bytes;
	fake.status.reclaimed = 0;
}

void pools_reclaim_end(struct pools *pools, unsigned i)
{
	(void)pools;
	(void)i;
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	rest();
}

void pools_shrink(struct pools *pools, unsigned i)
{
	(void)pools;
	(void)i;
	ck_assert_uint_eq(fake.status.reclaimed, 0);
	if (fake.status.resizing == POOL_RECLAIMS)
		fake.status.bytes = fake.status.bytes_to;
	fake.status.resizing = POOL_SHRINKS;
}

bool pools_resized(struct pools *pools, struct pools_resized *ret_resized)
{
	(void)pools;
	if (!fake.done)
		return false;
	fake.done = false;
	*ret_resized = fake.resized;
	rest();
	return true;
}

void pools_lend(struct pools *pools, unsigned i)
{
	(void)pools;
	(void)i;
	fake.status.bytes = fake.status.bytes_to = fake.resized.bytes;
}

static void on_reclaim(void *ctx)
{
	(void)ctx;
}

static bool in_the_way(void *ctx, uint32_t pool, char *buf, size_t buf_bytes)
{
	(void)ctx;
	ck_assert_uint_eq(pool, fake.params.id);
	(void)snprintf(buf, buf_bytes, "1 lease");
	return fake.leased;
}

static const struct resizes_events events = { .reclaim = on_reclaim,
					      .in_the_way = in_the_way };

static int keep(uint64_t bytes, uint64_t grown)
{
	if (kept.err)
		return err_set(kept.err, "the ledger is full");
	kept.bytes = bytes;
	kept.grown = grown;
	return 0;
}

int plan_record_growth(const struct pools *pools, unsigned i, uint64_t bytes,
		       struct ledger *ledger)
{
	(void)pools;
	(void)i;
	(void)ledger;
	return keep(fake.status.bytes, bytes);
}

int plan_record_size(const struct pools *pools, unsigned i, uint64_t bytes,
		     struct ledger *ledger)
{
	(void)pools;
	(void)i;
	(void)ledger;
	return keep(bytes, 0);
}

/* ---- what the tests do ---- */

static void begin(void)
{
	ck_assert_int_eq(resizes_open(NULL, NULL, &events, NULL, &resizes), 0);
}

static void setup(void)
{
	memset(&fake, 0, sizeof(fake));
	memset(&kept, 0, sizeof(kept));
	memset(logged, 0, sizeof(logged));
	memset(&config, 0, sizeof(config));
	n_pools = 1;
	now_ms = 5000;
	clock_set_source(clock_of_test);
	log_set_sink(log_keep);
	fake.params = (struct pool_params){ .name = "a",
					    .node = POOL_NODE_ANY,
					    .bytes = 64 * MIB,
					    .pages = POOL_PAGES_BASE,
					    .id = 3 };
	fake.status.name = "a";
	fake.status.bytes = fake.status.bytes_to = 64 * MIB;
	config.n_pools = 1;
	config.pools[0] = fake.params;
	config.pools[0].shrink_wait_ms = WAIT_MS;
	begin();
}

static void teardown(void)
{
	resizes_close(resizes);
	log_set_sink(NULL);
	clock_set_source(NULL);
}

static void reload(uint64_t bytes)
{
	config.pools[0].bytes = bytes;
	resizes_configure(resizes, &config);
	(void)resizes_work(resizes);
}

/* What was under way has come to this. */
static void end(int err, uint64_t bytes)
{
	fake.done = true;
	fake.resized =
		(struct pools_resized){ .grown = fake.status.resizing == POOL_GROWS,
					.err = err,
					.wanted = fake.status.bytes_to,
					.bytes = bytes,
					.text = err ? "because" : "" };
	(void)resizes_work(resizes);
}

static void assert_rests(uint64_t bytes)
{
	ck_assert_int_eq(fake.status.resizing, POOL_RESTS);
	ck_assert_uint_eq(fake.status.bytes, bytes);
	ck_assert_uint_eq(resizes_next_ms(resizes), UINT64_MAX);
	/* it is not begun again by itself */
	now_ms += 10 * WAIT_MS;
	(void)resizes_work(resizes);
	ck_assert_int_eq(fake.status.resizing, POOL_RESTS);
}

static void assert_logged(const char *text)
{
	ck_assert_str_eq(logged[0], text);
}

START_TEST(grow__is_known_to_the_ledger)
{
	reload(128 * MIB);
	ck_assert_int_eq(fake.status.resizing, POOL_GROWS);
	end(0, 128 * MIB);
	assert_logged("pool-grown: it has 128 MiB now");
	ck_assert_uint_eq(kept.bytes, 128 * MIB);
	ck_assert_uint_eq(kept.grown, 0);
	assert_rests(128 * MIB);
}
END_TEST

START_TEST(grow__not_without_room_in_the_ledger)
{
	kept.err = -ENOSPC;
	reload(128 * MIB);
	ck_assert_uint_eq(fake.n_grown, 0);
	assert_logged("pool-not-grown: it stays at 64 MiB: the ledger is full");
	assert_rests(64 * MIB);
}
END_TEST

START_TEST(grow__that_fails_is_given_up)
{
	fake.grow_err = _i ? -EMFILE : 0;
	reload(128 * MIB);
	if (!_i)
		end(-ENOMEM, 64 * MIB);
	assert_logged(_i ? "pool-not-grown: it stays at 64 MiB: no thread"
			 : "pool-not-grown: it stays at 64 MiB: because");
	ck_assert_uint_eq(kept.bytes, 64 * MIB);
	ck_assert_uint_eq(kept.grown, 0);
	assert_rests(64 * MIB);
}
END_TEST

START_TEST(grow__stopped_and_told_to_go_on)
{
	reload(128 * MIB);
	reload(64 * MIB);
	ck_assert(fake.stopped);
	reload(128 * MIB);
	end(-ECANCELED, 64 * MIB);
	ck_assert_int_eq(fake.status.resizing, POOL_GROWS);
	ck_assert_uint_eq(fake.n_grown, 2);
	ck_assert(!fake.stopped);
	assert_logged("pool-growing: from 64 MiB to 128 MiB");
	reload(64 * MIB);
	end(-ECANCELED, 64 * MIB);
	ck_assert_uint_eq(fake.n_grown, 2);
	ck_assert_uint_eq(kept.grown, 0);
	assert_rests(64 * MIB);
}
END_TEST

/* As much, or more, is not tried by each process that takes the place of one that ended. */
START_TEST(grow__that_ended_a_process_waits_for_a_reload)
{
	static const uint64_t sizes[] = { 128 * MIB, 256 * MIB };

	fake.params.bytes_grown = 128 * MIB;
	resizes_close(resizes);
	begin();
	reload(sizes[_i]);
	ck_assert_uint_eq(fake.n_grown, 0);
	assert_logged(
		"pool-not-grown: it stays at 64 MiB: the last process ended while "
		"it made it 128 MiB; reload to try again");
	assert_rests(64 * MIB);
	reload(sizes[_i]);
	ck_assert_uint_eq(fake.n_grown, 1);
	/* one that ends as it should does not end by that */
	resizes_close(resizes);
	ck_assert_uint_eq(kept.bytes, 64 * MIB);
	ck_assert_uint_eq(kept.grown, 0);
	rest();
	fake.params.bytes_grown = 128 * MIB;
	begin();
	reload(96 * MIB);
	ck_assert_uint_eq(fake.n_grown, 2);
	end(0, 96 * MIB);
}
END_TEST

START_TEST(shrink__when_its_end_is_free)
{
	reload(32 * MIB);
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	ck_assert_uint_eq(resizes_next_ms(resizes), now_ms + WAIT_MS);
	fake.status.reclaimed = 0;
	(void)resizes_work(resizes);
	ck_assert_int_eq(fake.status.resizing, POOL_SHRINKS);
	end(0, 32 * MIB);
	assert_logged("pool-shrunk: it has 32 MiB now");
	ck_assert_uint_eq(kept.bytes, 32 * MIB);
	assert_rests(32 * MIB);
}
END_TEST

START_TEST(shrink__refused_for_what_is_leased)
{
	fake.leased = true;
	reload(32 * MIB);
	now_ms += WAIT_MS - 1;
	(void)resizes_work(resizes);
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	now_ms++;
	(void)resizes_work(resizes);
	assert_logged("pool-not-shrunk: it stays at 64 MiB: in the way are still 1 "
		      "lease; have "
		      "them freed and reload, or say shrink = revoke");
	assert_rests(64 * MIB);
}
END_TEST

/* It is being zeroed, or keys die: nobody has to do anything. */
START_TEST(shrink__waits_for_what_is_nobodys)
{
	config.pools[0].shrink = _i ? POOL_SHRINK_REVOKE : POOL_SHRINK_REFUSE;
	reload(32 * MIB);
	now_ms += 2 * WAIT_MS;
	(void)resizes_work(resizes);
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	ck_assert_uint_eq(resizes_next_ms(resizes), UINT64_MAX);
	ck_assert_ptr_nonnull(strstr(logged[0], "pool-shrinking: "));
	fake.status.reclaimed = 0;
	(void)resizes_work(resizes);
	end(0, 32 * MIB);
	assert_rests(32 * MIB);
}
END_TEST

START_TEST(shrink__revokes)
{
	fake.leased = true;
	config.pools[0].shrink = POOL_SHRINK_REVOKE;
	reload(32 * MIB);
	now_ms += WAIT_MS;
	(void)resizes_work(resizes);
	assert_logged("pool-revokes: in the way are still 1 lease");
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	ck_assert_uint_eq(resizes_next_ms(resizes), UINT64_MAX);
}
END_TEST

static void assert_growing(uint64_t done, uint64_t bytes)
{
	uint64_t is_done = 0, is_bytes = 0;

	ck_assert_int_eq(resizes_growing(resizes, &is_done, &is_bytes), bytes > 0);
	ck_assert_uint_eq(is_done, done);
	ck_assert_uint_eq(is_bytes, bytes);
}

/* Of two of which one is ready before the other. */
START_TEST(grow__tells_how_far_it_is)
{
	const struct pool_status rests = { .bytes = 100 * MIB, .bytes_to = 100 * MIB };

	resizes_close(resizes);
	n_pools = 2;
	other = rests;
	begin();
	assert_growing(0, 0);
	reload(128 * MIB);
	assert_growing(0, 64 * MIB);
	fake.status.populated = 10 * MIB;
	other = (struct pool_status){ .bytes = 70 * MIB,
				      .bytes_to = 100 * MIB,
				      .populated = 5 * MIB,
				      .resizing = POOL_GROWS };
	assert_growing(15 * MIB, 94 * MIB);
	end(0, 128 * MIB);
	assert_growing(69 * MIB, 94 * MIB);
	/* one that is told to go on meanwhile comes along */
	fake.status.populated = 0;
	reload(148 * MIB);
	assert_growing(69 * MIB, 114 * MIB);
	/* what failed is not there */
	end(-ENOMEM, 128 * MIB);
	assert_growing(69 * MIB, 94 * MIB);
	other = rests;
	assert_growing(0, 0);
	/* the next time it begins from nothing */
	reload(158 * MIB);
	assert_growing(0, 30 * MIB);
	end(0, 158 * MIB);
	assert_growing(0, 0);
}
END_TEST

/* Also where nobody has looked between one and the next. */
START_TEST(grow__is_timed_by_itself)
{
	reload(128 * MIB);
	resizes_log_growth(resizes, 0, 64 * MIB);
	now_ms += 6000;
	resizes_log_growth(resizes, 32 * MIB, 64 * MIB);
	assert_logged("pools-populating: 32 MiB of 64 MiB after 6 s");
	end(0, 128 * MIB);
	reload(192 * MIB);
	resizes_log_growth(resizes, 40 * MIB, 64 * MIB);
	now_ms += 7000;
	resizes_log_growth(resizes, 50 * MIB, 64 * MIB);
	assert_logged("pools-populating: 50 MiB of 64 MiB after 7 s");
	end(0, 192 * MIB);
}
END_TEST

START_TEST(shrink__that_cannot_begin_is_given_up)
{
	fake.recall_err = -EMFILE;
	reload(32 * MIB);
	assert_logged("pool-not-shrunk: it stays at 64 MiB: no thread");
	assert_rests(64 * MIB);
}
END_TEST

START_TEST(take__says_what_it_does_not_resize)
{
	config.pools[0].node = 1;
	reload(64 * MIB);
	/* that was said when it was opened */
	ck_assert_str_eq(logged[0], "");
	reload(64 * MIB);
	ck_assert_str_eq(logged[0], "");
	reload(128 * MIB);
	assert_logged(
		"pool-stays: it stays at 64 MiB, too, as its node or page_size is "
		"configured otherwise");
	assert_rests(64 * MIB);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resizes");
	TCase *tc = tcase_create("resizes");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, grow__is_known_to_the_ledger);
	tcase_add_test(tc, grow__not_without_room_in_the_ledger);
	tcase_add_loop_test(tc, grow__that_fails_is_given_up, 0, 2);
	tcase_add_test(tc, grow__stopped_and_told_to_go_on);
	tcase_add_loop_test(tc, grow__that_ended_a_process_waits_for_a_reload, 0, 2);
	tcase_add_test(tc, grow__tells_how_far_it_is);
	tcase_add_test(tc, grow__is_timed_by_itself);
	tcase_add_test(tc, shrink__when_its_end_is_free);
	tcase_add_test(tc, shrink__refused_for_what_is_leased);
	tcase_add_loop_test(tc, shrink__waits_for_what_is_nobodys, 0, 2);
	tcase_add_test(tc, shrink__revokes);
	tcase_add_test(tc, shrink__that_cannot_begin_is_given_up);
	tcase_add_test(tc, take__says_what_it_does_not_resize);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
