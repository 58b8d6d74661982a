/* SPDX-License-Identifier: BSD-3-Clause */
/* Resizing pools to their configured size, adding and removing them.  The pools, the leases in them and the ledger are fakes,
 * defined here. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "rmemd/pool/addition.h"
#include "rmemd/pool/plan.h"
#include "rmemd/pool/resize.h"
#include "rmemd/system/fdstore.h"
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

/* A pool that is added, and what became of the pools. */
static struct coming {
	const struct pool_params *params; /* NULL: none */
	int add_err, file_err;
	bool stopped, done;
	struct pools_added added;
	unsigned n_files; /* made and not dropped */
	unsigned n_adds, n_recorded, n_forgotten, n_entered, n_removed;
	uint32_t recorded_id, next_id;
	struct pools_dropped dropped;
	bool has_dropped;
} coming;

#define COMING ((struct pool *)&coming)

static char logged[8][256]; /* the last line first */

static void record_line(int level, const char *event, const struct log_ctx *ctx,
			const char *text)
{
	(void)level;
	if (ctx && strcmp(ctx->pool, "b") != 0)
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
	fake.params.share = params->share;
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
	ck_assert_uint_eq(until_ms, bytes ? now_ms + WAIT_MS : UINT64_MAX);
	if (fake.reclaim_err)
		return err_set(fake.reclaim_err, "no thread");
	fake.status.leaving = bytes == 0;
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
	fake.status.leaving = false;
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
	if (fake.status.bytes == 0)
		fake.status.resizing = POOL_EMPTY;
	return true;
}

int pools_add(struct pools *pools, const struct pool_params *params,
	      const struct share *shares, const uint64_t *unused,
	      struct pool **ret_pool)
{
	(void)pools;
	(void)shares;
	(void)unused;
	coming.n_adds++;
	if (coming.add_err)
		return err_set(coming.add_err, "no thread");
	ck_assert_ptr_null(coming.params);
	coming.params = params;
	coming.stopped = false;
	*ret_pool = COMING;
	return 0;
}

void pools_add_stop(struct pool *pool)
{
	ck_assert_ptr_eq(pool, COMING);
	coming.stopped = true;
}

uint64_t pools_add_progress(const struct pool *pool, uint64_t *ret_bytes)
{
	ck_assert_ptr_eq(pool, COMING);
	*ret_bytes = coming.params->bytes;
	return coming.params->bytes / 4;
}

bool pools_added(struct pools *pools, struct pools_added *ret_added)
{
	(void)pools;
	if (!coming.done)
		return false;
	coming.done = false;
	*ret_added = coming.added;
	return true;
}

/* It is the only pool then. */
void pools_enter(struct pools *pools, struct pool *pool)
{
	(void)pools;
	ck_assert_ptr_eq(pool, COMING);
	ck_assert_uint_eq(n_pools, 0);
	/* it is in the ledger before it is lent */
	ck_assert_uint_eq(coming.recorded_id, coming.params->id);
	fake.params = *coming.params;
	fake.status = coming.added.status;
	coming.params = NULL;
	n_pools = 1;
}

void pools_drop(struct pools *pools, struct pool *pool)
{
	(void)pools;
	ck_assert_ptr_eq(pool, COMING);
	coming.dropped =
		(struct pools_dropped){ .id = (uint32_t)coming.added.status.file };
	coming.has_dropped = true;
	coming.params = NULL;
}

void pools_remove(struct pools *pools, unsigned i)
{
	(void)pools;
	ck_assert_uint_eq(i, 0);
	ck_assert_int_eq(fake.status.resizing, POOL_EMPTY);
	/* the next process must not look for it */
	ck_assert_uint_eq(coming.n_forgotten, coming.n_removed + 1);
	coming.dropped = (struct pools_dropped){
		.id = fake.params.id, .name = "a", .bytes = 64 * MIB, .entered = true
	};
	coming.has_dropped = true;
	fake_rest();
	n_pools = 0;
}

bool pools_dropped(struct pools *pools, struct pools_dropped *ret_dropped)
{
	(void)pools;
	if (!coming.has_dropped)
		return false;
	coming.has_dropped = false;
	*ret_dropped = coming.dropped;
	return true;
}

int plan_next_id(const struct ledger *ledger, uint32_t *ret_id)
{
	(void)ledger;
	*ret_id = 4;
	return 0;
}

int plan_record_added(const struct pool_params *params,
		      const struct pool_status *status, uint32_t next_id,
		      struct ledger *ledger, struct fdstore *store)
{
	(void)ledger;
	(void)store;
	ck_assert_uint_eq(status->bytes, params->bytes);
	ck_assert_uint_gt(next_id, params->id);
	if (record.err)
		return err_set(record.err, "the ledger is full");
	coming.recorded_id = params->id;
	coming.n_recorded++;
	return 0;
}

void plan_forget(uint32_t id, struct ledger *ledger)
{
	(void)ledger;
	ck_assert_uint_eq(id, fake.params.id);
	coming.n_forgotten++;
}

int fdstore_make_pool(struct fdstore *store, uint32_t id, int *ret_fd)
{
	(void)store;
	if (coming.file_err)
		return err_set(coming.file_err, "no file");
	ck_assert_uint_ge(id, 4);
	coming.n_files++;
	*ret_fd = 0;
	return 0;
}

void fdstore_drop_pool(struct fdstore *store, uint32_t id)
{
	(void)store;
	ck_assert_uint_ne(id, 0);
	coming.n_files -= id >= 4;
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

static void on_added(void *ctx, unsigned i)
{
	(void)ctx;
	ck_assert_uint_eq(i, 0);
	coming.n_entered++;
}

static void on_removed(void *ctx)
{
	(void)ctx;
	coming.n_removed++;
}

static const struct resizes_events events = { .reclaim = on_reclaim,
					      .find_leases = find_leases,
					      .added = on_added,
					      .removed = on_removed };

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
	ck_assert_int_eq(resizes_open(NULL, NULL, NULL, &events, NULL, &resizes), 0);
}

static void setup(void)
{
	memset(&fake, 0, sizeof(fake));
	memset(&record, 0, sizeof(record));
	memset(&coming, 0, sizeof(coming));
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
	config.pools[config.n_pools++] = other_params;
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
	config.pools[0].node = POOL_NODE_ANY;
	reload(64 * MIB);
}
END_TEST

/* What only a restart changes stays in force: _i says what. */
START_TEST(reload__keeps_what_needs_a_restart)
{
	struct pool_params *params = &config.pools[0], before;

	switch (_i) {
	case 0:
		params->pages = POOL_PAGES_2M;
		break;
	case 1:
		(void)strcpy(params->devices[0], "able0");
		params->n_devices = 1;
		break;
	case 2:
		params->bytes = POOL_BYTES_AUTO;
		break;
	default:
		fake.params.bytes = params->bytes = POOL_BYTES_AUTO;
		fake.params.share = 20;
		params->share = 30;
		break;
	}
	before = fake.params;
	resizes_configure(resizes, &config);
	(void)resizes_work(resizes);
	assert_rests(64 * MIB);
	ck_assert_uint_eq(fake.params.bytes, before.bytes);
	ck_assert_uint_eq(fake.params.share, before.share);
	ck_assert_int_eq(fake.params.pages, before.pages);
	ck_assert_uint_eq(fake.params.n_devices, before.n_devices);
}
END_TEST

/* How a pool of an automatic size is removed, and a fixed size instead of it. */
START_TEST(reload__changes_an_automatic_pool)
{
	struct pool_params *params = &config.pools[0];

	fake.params.bytes = params->bytes = POOL_BYTES_AUTO;
	fake.params.share = params->share = 20;
	params->shrink = POOL_SHRINK_REVOKE;
	params->shrink_wait_ms = 7;
	resizes_configure(resizes, &config);
	ck_assert_int_eq(fake.params.shrink, POOL_SHRINK_REVOKE);
	ck_assert_uint_eq(fake.params.shrink_wait_ms, 7);
	ck_assert_uint_eq(fake.params.share, 20);
	(void)resizes_work(resizes);
	assert_rests(64 * MIB);
	params->share = POOL_SHARE_AUTO;
	params->bytes = 64 * MIB;
	resizes_configure(resizes, &config);
	ck_assert_uint_eq(fake.params.bytes, 64 * MIB);
	ck_assert_uint_eq(fake.params.share, POOL_SHARE_AUTO);
}
END_TEST

/* ---- removing ---- */

/* The pool has no section any more. */
static void unconfigure(void)
{
	config.n_pools = 0;
	resizes_configure(resizes, &config);
	(void)resizes_work(resizes);
}

START_TEST(remove__waits_for_the_last_lease)
{
	fake.leased = true;
	fake.n_searches = 1;
	unconfigure();
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	ck_assert(fake.status.leaving);
	/* the leases are searched for in turns, and named once */
	ck_assert_uint_le(resizes_next_ms(resizes), now_ms);
	advance(0);
	assert_logged("pool-leaving: it has no section any more, and is removed when "
		      "these are free: 1 lease");
	ck_assert_uint_eq(resizes_next_ms(resizes), UINT64_MAX);
	logged[0][0] = '\0';
	advance(100 * WAIT_MS);
	ck_assert_str_eq(logged[0], "");
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	/* another reload changes nothing */
	unconfigure();
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	ck_assert_uint_eq(coming.n_forgotten, 0);
	free_closed_end();
	ck_assert_uint_eq(n_pools, 0);
	ck_assert_uint_eq(coming.n_removed, 1);
	(void)resizes_work(resizes);
	assert_logged("pool-removed: the system has its 64 MiB back");
	ck_assert_uint_eq(resizes_next_ms(resizes), UINT64_MAX);
}
END_TEST

/* It also interrupts growing; _i 1: an end that is closed. */
START_TEST(remove__of_a_pool_that_is_being_resized)
{
	reload(_i ? 32 * MIB : 128 * MIB);
	unconfigure();
	if (_i == 0) {
		ck_assert(fake.stopped);
		finish(-ECANCELED, 64 * MIB);
	} else {
		ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	}
	ck_assert(fake.status.leaving);
	free_closed_end();
	ck_assert_uint_eq(coming.n_removed, 1);
}
END_TEST

/* Its section is back before it is removed.  _i 1: with another node */
START_TEST(remove__is_taken_back)
{
	fake.leased = true;
	unconfigure();
	ck_assert(fake.status.leaving);
	config.n_pools = 1;
	config.pools[0].node = _i ? 1 : POOL_NODE_ANY;
	reload(64 * MIB);
	ck_assert(!fake.status.leaving);
	ck_assert_str_eq(logged[0], "pool-returns: it has a section again, and stays");
	assert_rests(64 * MIB);
	ck_assert_uint_eq(coming.n_adds, 0);
	ck_assert_uint_eq(coming.n_forgotten, 0);
}
END_TEST

START_TEST(remove__that_cannot_start_is_not_repeated)
{
	fake.reclaim_err = -EMFILE;
	unconfigure();
	assert_logged("pool-not-removed: it stays at 64 MiB: no thread");
	assert_rests(64 * MIB);
	fake.reclaim_err = 0;
	unconfigure();
	ck_assert(fake.status.leaving);
}
END_TEST

/* ---- adding ---- */

static const struct addition *only_addition(void)
{
	const struct list *all = &resizes_additions(resizes)->all;

	return list_first(all, struct addition, link);
}

/* The last pool is gone, and the configuration has another one, of this name. */
static void configure_new(const char *name)
{
	n_pools = 0;
	config.n_pools = 1;
	(void)strcpy(config.pools[0].name, name);
	resizes_configure(resizes, &config);
	(void)resizes_work(resizes);
}

static void added(int err)
{
	coming.added = (struct pools_added){
		.pool = COMING,
		.err = err,
		.text = err ? "because" : "a note",
		.status = { .name = "b",
			    .pages_got = POOL_PAGES_BASE,
			    .page_bytes = 4096,
			    .file = (int)coming.params->id,
			    .bytes = coming.params->bytes,
			    .bytes_to = coming.params->bytes },
	};
	coming.done = true;
	(void)resizes_work(resizes);
	(void)resizes_work(resizes);
}

START_TEST(add__records_and_lends)
{
	uint64_t done, bytes;

	configure_new("b");
	ck_assert_ptr_nonnull(coming.params);
	ck_assert_int_eq(only_addition()->state, ADDITION_OPENS);
	ck_assert(resizes_growing(resizes, &done, &bytes));
	ck_assert_uint_eq(done, 16 * MIB);
	ck_assert_uint_eq(bytes, 64 * MIB);
	/* the same configuration again changes nothing */
	configure_new("b");
	ck_assert_uint_eq(coming.n_adds, 1);
	ck_assert(!coming.stopped);
	coming.added.pool = NULL;
	added(0);
	assert_logged("pool-added: 64 MiB on pages of 4 KiB (base), node 0; a note");
	ck_assert_uint_eq(coming.n_entered, 1);
	ck_assert_uint_eq(coming.n_files, 1);
	ck_assert_ptr_null(only_addition());
	ck_assert(!resizes_growing(resizes, &done, &bytes));
	/* it is resized like others */
	reload(128 * MIB);
	ck_assert_int_eq(fake.status.resizing, POOL_GROWS);
}
END_TEST

/* _i says what fails */
START_TEST(add__that_fails_leaves_nothing)
{
	static const char *const why[] = { "no file", "no thread", "because",
					   "the ledger is full" };
	char text[200];

	coming.file_err = _i == 0 ? -ENOSPC : 0;
	coming.add_err = _i == 1 ? -EAGAIN : 0;
	record.err = _i == 3 ? -ENOSPC : 0;
	configure_new("b");
	if (_i >= 2)
		added(_i == 2 ? -ENOMEM : 0);
	(void)snprintf(text, sizeof(text),
		       "pool-not-added: %s; mend that and reload: rmemd would not "
		       "start with this configuration",
		       why[_i]);
	assert_logged(text);
	ck_assert_int_eq(only_addition()->state, ADDITION_FAILED);
	ck_assert_str_eq(only_addition()->failed.text, why[_i]);
	ck_assert_uint_eq(coming.n_files, 0);
	ck_assert_uint_eq(coming.n_entered, 0);
	/* it is tried again by a reload only */
	coming.n_adds = 0;
	advance(WAIT_MS);
	ck_assert_uint_eq(coming.n_adds, 0);
	coming.file_err = coming.add_err = record.err = 0;
	configure_new("b");
	ck_assert_int_eq(only_addition()->state, ADDITION_OPENS);
	added(0);
	ck_assert_uint_eq(coming.n_entered, 1);
	ck_assert_ptr_null(only_addition());
}
END_TEST

/* _i 1: it was complete before it was told to stop */
START_TEST(add__is_taken_back)
{
	configure_new("b");
	unconfigure();
	ck_assert(coming.stopped);
	ck_assert_int_eq(only_addition()->state, ADDITION_STOPS);
	logged[0][0] = '\0';
	added(_i ? 0 : -ECANCELED);
	ck_assert_str_eq(logged[0], "");
	ck_assert_ptr_null(only_addition());
	ck_assert_uint_eq(coming.n_recorded, 0);
	ck_assert_uint_eq(coming.n_files, 0);
}
END_TEST

/* The pool is removed, and one of its name is added, as it was configured again too late. */
START_TEST(add__waits_for_the_end_of_its_namesake)
{
	unconfigure();
	fake.n_steps = 1;
	free_closed_end();
	ck_assert_int_eq(fake.status.resizing, POOL_CUTS);
	fake.n_steps = 1;
	config.n_pools = 1;
	reload(64 * MIB);
	ck_assert_int_eq(fake.status.resizing, POOL_CUTS);
	ck_assert_uint_eq(coming.n_adds, 0);
	advance(0);
	ck_assert_uint_eq(coming.n_removed, 1);
	ck_assert_uint_eq(coming.n_adds, 1);
	ck_assert_uint_eq(coming.params->id, 4);
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
	tcase_add_test(tc, reload__changes_an_automatic_pool);
	tcase_add_loop_test(tc, reload__keeps_what_needs_a_restart, 0, 4);
	tcase_add_test(tc, remove__waits_for_the_last_lease);
	tcase_add_loop_test(tc, remove__of_a_pool_that_is_being_resized, 0, 2);
	tcase_add_loop_test(tc, remove__is_taken_back, 0, 2);
	tcase_add_test(tc, remove__that_cannot_start_is_not_repeated);
	tcase_add_test(tc, add__records_and_lends);
	tcase_add_loop_test(tc, add__that_fails_leaves_nothing, 0, 4);
	tcase_add_loop_test(tc, add__is_taken_back, 0, 2);
	tcase_add_test(tc, add__waits_for_the_end_of_its_namesake);
	return unit_main();
}
