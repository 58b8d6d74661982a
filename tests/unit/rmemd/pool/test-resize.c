/* SPDX-License-Identifier: BSD-3-Clause */
/* Resizing pools to their configured size.  The pools, the leases in them and the ledger are fakes,
 * defined here. */
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

/* The status of the second pool, if there are two. */
static unsigned n_pools;
static struct pool_status other;
static const struct pool_params other_params = { .name = "other" };

static struct fake {
	struct pool_params params;
	struct pool_status status;
	int grow_err, reclaim_err;
	bool stopped;     /* pools_grow_stop() was called */
	unsigned n_grown; /* calls of pools_grow() */
	bool done;        /* pools_resized() returns `resized` */
	struct pools_resized resized;
	bool leased;                  /* leases are in the closed end */
	unsigned n_steps, n_searches; /* that take another turn before the last one */
	uint64_t searched;
} fake;

/* The record of the ledger. */
static struct record {
	int err;
	uint64_t bytes, grown;
} record;

static char logged[8][256]; /* the last line first */

static void record_line(int level, const char *event, const struct log_ctx *ctx,
			const char *text)
{
	(void)level;
	if (ctx)
		ck_assert_str_eq(ctx->pool, "a");
	memmove(logged[1], logged[0], sizeof(logged) - sizeof(logged[0]));
	(void)snprintf(logged[0], sizeof(logged[0]), "%s: %s", event, text);
}

static uint64_t fake_clock(void)
{
	return now_ms * 1000000;
}

unsigned pools_count(const struct pools *pools)
{
	(void)pools;
	return n_pools;
}

struct pool_status pools_status(const struct pools *pools, unsigned i)
{
	(void)pools;
	return i ? other : fake.status;
}

const struct pool_params *pools_params(const struct pools *pools, unsigned i)
{
	(void)pools;
	return i ? &other_params : &fake.params;
}

void pools_set_asked(struct pools *pools, unsigned i, const struct pool_params *params)
{
	(void)pools;
	(void)i;
	fake.params.bytes = params->bytes;
	fake.params.shrink = params->shrink;
	fake.params.shrink_wait_ms = params->shrink_wait_ms;
}

int pools_grow(struct pools *pools, unsigned i, uint64_t bytes)
{
	(void)pools;
	(void)i;
	ck_assert_int_eq(fake.status.resizing, POOL_RESTS);
	ck_assert_uint_gt(bytes, fake.status.bytes);
	/* the growth is in the ledger before it starts */
	ck_assert_uint_eq(record.bytes, fake.status.bytes);
	ck_assert_uint_eq(record.grown, bytes);
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

int pools_reclaim(struct pools *pools, unsigned i, uint64_t bytes, uint64_t until_ms)
{
	(void)pools;
	(void)i;
	ck_assert_int_eq(fake.status.resizing, POOL_RESTS);
	ck_assert_uint_eq(until_ms, now_ms + WAIT_MS);
	if (fake.reclaim_err)
		return err_set(fake.reclaim_err, "no thread");
	fake.status.resizing = POOL_CLOSES;
	fake.status.bytes_to = bytes;
	return 0;
}

static void fake_rest(void)
{
	fake.status.resizing = POOL_RESTS;
	fake.status.bytes_to = fake.status.bytes;
	fake.status.to_reclaim = 0;
}

void pools_reclaim_cancel(struct pools *pools, unsigned i)
{
	(void)pools;
	(void)i;
	ck_assert(fake.status.resizing == POOL_CLOSES ||
		  fake.status.resizing == POOL_RECLAIMS);
	fake_rest();
	fake.status.resizing = POOL_REOPENS;
}

void pools_shrink(struct pools *pools, unsigned i)
{
	(void)pools;
	(void)i;
	ck_assert_uint_eq(fake.status.to_reclaim, 0);
	fake.status.resizing =
		fake.status.resizing == POOL_RECLAIMS ? POOL_CUTS : POOL_SHRINKS;
}

bool pools_move_end(struct pools *pools, unsigned i)
{
	static const enum pool_resizing next[] = { [POOL_CLOSES] = POOL_RECLAIMS,
						   [POOL_REOPENS] = POOL_RESTS,
						   [POOL_CUTS] = POOL_SHRINKS };

	(void)pools;
	(void)i;
	if (fake.n_steps > 0) {
		fake.n_steps--;
		return false;
	}
	fake.status.resizing = next[fake.status.resizing];
	if (fake.status.resizing == POOL_RECLAIMS)
		fake.status.to_reclaim = fake.status.bytes - fake.status.bytes_to;
	if (fake.status.resizing == POOL_SHRINKS)
		fake.status.bytes = fake.status.bytes_to;
	return true;
}

bool pools_resized(struct pools *pools, struct pools_resized *ret_resized)
{
	(void)pools;
	if (!fake.done)
		return false;
	fake.done = false;
	*ret_resized = fake.resized;
	fake_rest();
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

static bool find_leases(void *ctx, struct pool_holders *holders, char *buf,
			size_t buf_bytes)
{
	(void)ctx;
	ck_assert_uint_eq(holders->pool, fake.params.id);
	/* a search continues, and another one begins anew */
	ck_assert_uint_eq(holders->after, fake.searched);
	holders->after = ++fake.searched;
	if (fake.searched <= fake.n_searches)
		return false;
	fake.searched = 0;
	holders->n = fake.leased;
	(void)snprintf(buf, buf_bytes, "1 lease");
	return true;
}

static const struct resizes_events events = { .reclaim = on_reclaim,
					      .find_leases = find_leases };

int plan_record_size(const struct pools *pools, unsigned i, uint64_t bytes,
		     uint64_t bytes_grown, struct ledger *ledger)
{
	(void)pools;
	(void)i;
	(void)ledger;
	if (record.err)
		return err_set(record.err, "the ledger is full");
	record.bytes = bytes;
	record.grown = bytes_grown;
	return 0;
}

/* ---- the tests ---- */

static void open_resizes(void)
{
	ck_assert_int_eq(resizes_open(NULL, NULL, &events, NULL, &resizes), 0);
}

static void setup(void)
{
	memset(&fake, 0, sizeof(fake));
	memset(&record, 0, sizeof(record));
	memset(logged, 0, sizeof(logged));
	memset(&config, 0, sizeof(config));
	n_pools = 1;
	now_ms = 5000;
	clock_set_source(fake_clock);
	log_set_sink(record_line);
	fake.params = (struct pool_params){ .name = "a",
					    .node = POOL_NODE_ANY,
					    .bytes = 64 * MIB,
					    .pages = POOL_PAGES_BASE,
					    .id = 3 };
	fake.status.name = "a";
	fake.status.page_bytes = 1;
	fake.status.bytes = fake.status.bytes_to = 64 * MIB;
	config.n_pools = 1;
	config.pools[0] = fake.params;
	config.pools[0].shrink_wait_ms = WAIT_MS;
	open_resizes();
}

static void teardown(void)
{
	resizes_close(resizes);
	log_set_sink(NULL);
	clock_set_source(NULL);
}

static void advance(uint64_t ms)
{
	now_ms += ms;
	(void)resizes_work(resizes);
}

static void reload(uint64_t bytes)
{
	config.pools[0].bytes = bytes;
	resizes_configure(resizes, &config);
	(void)resizes_work(resizes);
}

static void free_closed_end(void)
{
	fake.status.to_reclaim = 0;
	(void)resizes_work(resizes);
}

/* Growing or shrinking ends with this result. */
static void finish(int err, uint64_t bytes)
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
	/* it does not start again without a reload */
	advance(10 * WAIT_MS);
	ck_assert_int_eq(fake.status.resizing, POOL_RESTS);
}

/* The ledger has this size, and no growth. */
static void assert_recorded(uint64_t bytes)
{
	ck_assert_uint_eq(record.bytes, bytes);
	ck_assert_uint_eq(record.grown, 0);
}

static void assert_logged(const char *text)
{
	ck_assert_str_eq(logged[0], text);
}

START_TEST(grow__is_recorded_in_the_ledger)
{
	reload(128 * MIB);
	ck_assert_int_eq(fake.status.resizing, POOL_GROWS);
	finish(0, 128 * MIB);
	assert_logged("pool-grown: it has 128 MiB now");
	assert_recorded(128 * MIB);
	assert_rests(128 * MIB);
}
END_TEST

START_TEST(grow__needs_space_in_the_ledger)
{
	record.err = -ENOSPC;
	reload(128 * MIB);
	ck_assert_uint_eq(fake.n_grown, 0);
	assert_logged("pool-not-grown: it stays at 64 MiB: the ledger is full");
	assert_rests(64 * MIB);
}
END_TEST

START_TEST(failed_grow__is_not_repeated)
{
	fake.grow_err = _i ? -EMFILE : 0;
	reload(128 * MIB);
	if (!_i)
		finish(-ENOMEM, 64 * MIB);
	assert_logged(_i ? "pool-not-grown: it stays at 64 MiB: no thread"
			 : "pool-not-grown: it stays at 64 MiB: because");
	assert_recorded(64 * MIB);
	assert_rests(64 * MIB);
}
END_TEST

START_TEST(stopped_grow__continues_after_a_reload)
{
	reload(128 * MIB);
	reload(64 * MIB);
	ck_assert(fake.stopped);
	reload(128 * MIB);
	finish(-ECANCELED, 64 * MIB);
	ck_assert_int_eq(fake.status.resizing, POOL_GROWS);
	ck_assert_uint_eq(fake.n_grown, 2);
	ck_assert(!fake.stopped);
	assert_logged("pool-growing: from 64 MiB to 128 MiB");
	reload(64 * MIB);
	finish(-ECANCELED, 64 * MIB);
	ck_assert_uint_eq(fake.n_grown, 2);
	ck_assert_uint_eq(record.grown, 0);
	assert_rests(64 * MIB);
}
END_TEST

/* If a process ended while a pool grew, the next one does not grow it to this size or more. */
START_TEST(grow__that_ended_a_process_waits_for_a_reload)
{
	static const uint64_t sizes[] = { 128 * MIB, 256 * MIB };

	fake.params.bytes_grown = 128 * MIB;
	resizes_close(resizes);
	open_resizes();
	reload(sizes[_i]);
	ck_assert_uint_eq(fake.n_grown, 0);
	assert_logged(
		"pool-not-grown: it stays at 64 MiB: the last process ended while "
		"it made it 128 MiB; reload to try again");
	assert_rests(64 * MIB);
	reload(sizes[_i]);
	ck_assert_uint_eq(fake.n_grown, 1);
	/* an orderly end is not taken for a failed growth */
	resizes_close(resizes);
	assert_recorded(64 * MIB);
	fake_rest();
	fake.params.bytes_grown = 128 * MIB;
	open_resizes();
	reload(96 * MIB);
	ck_assert_uint_eq(fake.n_grown, 2);
	finish(0, 96 * MIB);
}
END_TEST

START_TEST(shrink__waits_for_a_free_end)
{
	reload(32 * MIB);
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	ck_assert_uint_eq(resizes_next_ms(resizes), now_ms + WAIT_MS);
	free_closed_end();
	ck_assert_int_eq(fake.status.resizing, POOL_SHRINKS);
	finish(0, 32 * MIB);
	assert_logged("pool-shrunk: it has 32 MiB now");
	ck_assert_uint_eq(record.bytes, 32 * MIB);
	assert_rests(32 * MIB);
}
END_TEST

START_TEST(shrink__is_refused_if_leases_are_in_the_way)
{
	fake.leased = true;
	reload(32 * MIB);
	advance(WAIT_MS - 1);
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	advance(1);
	assert_logged("pool-not-shrunk: it stays at 64 MiB: in the way are still 1 "
		      "lease; have "
		      "them freed and reload, or say shrink = revoke");
	assert_rests(64 * MIB);
	reload(32 * MIB);
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	ck_assert_uint_eq(resizes_next_ms(resizes), now_ms + WAIT_MS);
}
END_TEST

static void assert_goes_on(enum pool_resizing state)
{
	ck_assert_int_eq(fake.status.resizing, state);
	ck_assert_uint_eq(resizes_next_ms(resizes), 0);
}

/* Long work is done in parts, one in each turn. */
START_TEST(shrink__of_many_blocks_and_leases_takes_turns)
{
	const uint64_t deadline_ms = now_ms + WAIT_MS;

	fake.leased = true;
	fake.n_steps = 2;
	fake.n_searches = 1;
	reload(32 * MIB);
	assert_goes_on(POOL_CLOSES);
	advance(0);
	assert_goes_on(POOL_CLOSES);
	ck_assert_str_eq(logged[0], "");
	advance(1);
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	ck_assert_uint_eq(resizes_next_ms(resizes), deadline_ms);
	advance(WAIT_MS);
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	ck_assert_uint_le(resizes_next_ms(resizes), now_ms);
	fake.n_steps = 1;
	advance(0);
	assert_goes_on(POOL_REOPENS);
	ck_assert(resizes_work(resizes));
	assert_rests(64 * MIB);
	/* nothing is in the way */
	reload(32 * MIB);
	fake.n_steps = 1;
	free_closed_end();
	assert_goes_on(POOL_CUTS);
	advance(0);
	ck_assert_int_eq(fake.status.resizing, POOL_SHRINKS);
	ck_assert_uint_eq(resizes_next_ms(resizes), UINT64_MAX);
	finish(0, 32 * MIB);
	assert_rests(32 * MIB);
}
END_TEST

/* The size changes before the end is closed. */
START_TEST(reload__reopens_an_end_that_is_half_closed)
{
	fake.n_steps = 1;
	reload(32 * MIB);
	assert_goes_on(POOL_CLOSES);
	fake.n_steps = 1;
	reload(16 * MIB);
	assert_goes_on(POOL_REOPENS);
	advance(0);
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	ck_assert_uint_eq(fake.status.bytes_to, 16 * MIB);
	free_closed_end();
	finish(0, 16 * MIB);
	assert_rests(16 * MIB);
}
END_TEST

/* The memory is being zeroed, or keys are not dead yet; no lease is in the way. */
START_TEST(shrink__waits_for_memory_without_leases)
{
	config.pools[0].shrink = _i ? POOL_SHRINK_REVOKE : POOL_SHRINK_REFUSE;
	reload(32 * MIB);
	advance(2 * WAIT_MS);
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	ck_assert_uint_eq(resizes_next_ms(resizes), UINT64_MAX);
	ck_assert_ptr_nonnull(strstr(logged[0], "pool-shrinking: "));
	free_closed_end();
	finish(0, 32 * MIB);
	assert_rests(32 * MIB);
}
END_TEST

START_TEST(shrink__revokes_leases)
{
	fake.leased = true;
	config.pools[0].shrink = POOL_SHRINK_REVOKE;
	reload(32 * MIB);
	advance(WAIT_MS);
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

/* The sum of two pools; one is complete before the other. */
START_TEST(grow__reports_its_progress)
{
	const struct pool_status rests = { .bytes = 100 * MIB, .bytes_to = 100 * MIB };

	resizes_close(resizes);
	n_pools = 2;
	other = rests;
	open_resizes();
	assert_growing(0, 0);
	reload(128 * MIB);
	assert_growing(0, 64 * MIB);
	fake.status.populated = 10 * MIB;
	other = (struct pool_status){ .bytes = 70 * MIB,
				      .bytes_to = 100 * MIB,
				      .populated = 5 * MIB,
				      .resizing = POOL_GROWS };
	assert_growing(15 * MIB, 94 * MIB);
	finish(0, 128 * MIB);
	assert_growing(69 * MIB, 94 * MIB);
	/* a further growth is added to the sum */
	fake.status.populated = 0;
	reload(148 * MIB);
	assert_growing(69 * MIB, 114 * MIB);
	/* a failed growth is not in the sum */
	finish(-ENOMEM, 128 * MIB);
	assert_growing(69 * MIB, 94 * MIB);
	other = rests;
	assert_growing(0, 0);
	/* the next sum starts at 0 */
	reload(158 * MIB);
	assert_growing(0, 30 * MIB);
	finish(0, 158 * MIB);
	assert_growing(0, 0);
}
END_TEST

/* Each growth has its own time, also if its progress was not read. */
START_TEST(grow__has_its_own_time)
{
	reload(128 * MIB);
	resizes_log_growth(resizes, 0, 64 * MIB);
	now_ms += 6000;
	resizes_log_growth(resizes, 32 * MIB, 64 * MIB);
	assert_logged("pools-populating: 32 MiB of 64 MiB after 6 s");
	finish(0, 128 * MIB);
	reload(192 * MIB);
	resizes_log_growth(resizes, 40 * MIB, 64 * MIB);
	now_ms += 7000;
	resizes_log_growth(resizes, 50 * MIB, 64 * MIB);
	assert_logged("pools-populating: 50 MiB of 64 MiB after 7 s");
	finish(0, 192 * MIB);
}
END_TEST

START_TEST(shrink__that_cannot_start_is_not_repeated)
{
	fake.reclaim_err = -EMFILE;
	reload(32 * MIB);
	assert_logged("pool-not-shrunk: it stays at 64 MiB: no thread");
	assert_rests(64 * MIB);
}
END_TEST

START_TEST(reload__logs_pools_that_keep_their_size)
{
	config.pools[0].node = 1;
	reload(64 * MIB);
	/* this was logged when the pool was opened */
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
	TCase *tc = unit_case("resizes", setup, teardown);

	tcase_add_test(tc, grow__is_recorded_in_the_ledger);
	tcase_add_test(tc, grow__needs_space_in_the_ledger);
	tcase_add_loop_test(tc, failed_grow__is_not_repeated, 0, 2);
	tcase_add_test(tc, stopped_grow__continues_after_a_reload);
	tcase_add_loop_test(tc, grow__that_ended_a_process_waits_for_a_reload, 0, 2);
	tcase_add_test(tc, grow__reports_its_progress);
	tcase_add_test(tc, grow__has_its_own_time);
	tcase_add_test(tc, shrink__waits_for_a_free_end);
	tcase_add_test(tc, shrink__is_refused_if_leases_are_in_the_way);
	tcase_add_test(tc, shrink__of_many_blocks_and_leases_takes_turns);
	tcase_add_test(tc, reload__reopens_an_end_that_is_half_closed);
	tcase_add_loop_test(tc, shrink__waits_for_memory_without_leases, 0, 2);
	tcase_add_test(tc, shrink__revokes_leases);
	tcase_add_test(tc, shrink__that_cannot_start_is_not_repeated);
	tcase_add_test(tc, reload__logs_pools_that_keep_their_size);
	return unit_main();
}
