/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rmemd/provision/resize-case.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "rmemd/provision/plan.h"
#include "rmemd/system/fdstore.h"
#include "unit/unit.h"

struct config config;
struct resizes *resizes;
uint64_t now_ms;
struct fake fake;
struct record record;
struct coming coming;
char logged[LINES][256];

/* ---- fakes ---- */

/* The status of the second pool, if there are two. */
unsigned n_pools;
struct pool_status other;
const struct pool_params other_params = { .name = "other" };

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

void fake_rest(void)
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

/* ---- for the tests ---- */

void open_resizes(void)
{
	ck_assert_int_eq(resizes_open(NULL, NULL, NULL, &events, NULL, &resizes), 0);
}

void setup(void)
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

void teardown(void)
{
	resizes_close(resizes);
	log_set_sink(NULL);
	clock_set_source(NULL);
}

void advance(uint64_t ms)
{
	now_ms += ms;
	(void)resizes_work(resizes);
}

void reload(uint64_t bytes)
{
	config.pools[0].bytes = bytes;
	resizes_configure(resizes, &config);
	(void)resizes_work(resizes);
}

void free_closed_end(void)
{
	fake.status.to_reclaim = 0;
	(void)resizes_work(resizes);
}

void finish(int err, uint64_t bytes)
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

void assert_rests(uint64_t bytes)
{
	ck_assert_int_eq(fake.status.resizing, POOL_RESTS);
	ck_assert_uint_eq(fake.status.bytes, bytes);
	ck_assert_uint_eq(resizes_next_ms(resizes), UINT64_MAX);
	/* it does not start again without a reload */
	advance(10 * WAIT_MS);
	ck_assert_int_eq(fake.status.resizing, POOL_RESTS);
}

void assert_recorded(uint64_t bytes)
{
	ck_assert_uint_eq(record.bytes, bytes);
	ck_assert_uint_eq(record.grown, 0);
}

void assert_logged(const char *text)
{
	ck_assert_str_eq(logged[0], text);
}
