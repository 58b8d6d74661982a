/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz/real-pools.h"

#include <check.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "rmemd/pool/pool.h"
#include "unit/rmemd/control-pools.h"
#include "unit/rmemd/control-stage.h"
#include "unit/rmemd/owners.h"

#define BASE_MAX (128 * REAL_PAGE)
#define HUGE_MAX (4 * REAL_HUGE)
#define WORKERS_MAX 8

static char base[BASE_MAX] __attribute__((aligned(REAL_PAGE)));
static char huge[HUGE_MAX] __attribute__((aligned(REAL_HUGE)));

/* What outlasts a process of the daemon. */
static struct place {
	struct pool_params params;
	char *addr;
	uint64_t page_bytes, first, max, bytes;
} places[] = {
	{ .params = { .name = "base", .pages = POOL_PAGES_BASE, .id = 1 },
	  .addr = base,
	  .page_bytes = REAL_PAGE,
	  .first = REAL_BYTES,
	  .max = BASE_MAX },
	{ .params = { .name = "huge", .pages = POOL_PAGES_2M, .id = 2 },
	  .addr = huge,
	  .page_bytes = REAL_HUGE,
	  .first = REAL_HUGE_BYTES,
	  .max = HUGE_MAX },
};
#define PLACES (sizeof(places) / sizeof(places[0]))

static struct pools *pools;
static struct worker *workers[WORKERS_MAX];
static unsigned n_workers;

/* ---- the kernel's memory ---- */

int __wrap_memory_open(const struct pool_params *params, struct memory_work *work,
		       struct memory *ret_memory);
void __wrap_memory_close(struct memory *memory);
int __wrap_memory_grow(struct memory *memory, uint64_t bytes, int node,
		       struct memory_work *work);
int __wrap_memory_cut(struct memory *memory, uint64_t bytes);
uint64_t __wrap_capacity_available(void);
void __wrap_capacity_free(int node, uint64_t ret_bytes[CAPACITY_KINDS]);
void __wrap_zero_stream(void *addr, size_t bytes);

int __wrap_memory_open(const struct pool_params *params, struct memory_work *,
		       struct memory *ret_memory)
{
	const struct place *place = &places[params->id - 1];

	*ret_memory = (struct memory){ .fd = -1,
				       .addr = place->addr,
				       .bytes = place->bytes,
				       .reserved = place->max,
				       .pages = params->pages,
				       .page_bytes = place->page_bytes,
				       .kept = params->kept,
				       .node = (int)params->id - 1 };
	return 0;
}

void __wrap_memory_close(struct memory *)
{
}

static int memory_set(struct memory *memory, uint64_t bytes)
{
	ck_assert_uint_le(bytes, memory->reserved);
	memory->bytes = bytes;
	return 0;
}

int __wrap_memory_grow(struct memory *memory, uint64_t bytes, int, struct memory_work *)
{
	return memory_set(memory, bytes);
}

int __wrap_memory_cut(struct memory *memory, uint64_t bytes)
{
	return memory_set(memory, bytes);
}

uint64_t __wrap_capacity_available(void)
{
	return UINT64_MAX;
}

void __wrap_capacity_free(int, uint64_t ret_bytes[CAPACITY_KINDS])
{
	memset(ret_bytes, 0, CAPACITY_KINDS * sizeof(ret_bytes[0]));
}

/* Nobody writes to it. */
void __wrap_zero_stream(void *, size_t)
{
}

/* ---- the threads ---- */

int __wrap_worker_start(struct worker *worker, const char *name, int node,
			bool (*run)(struct worker *worker, struct list *job),
			struct mailbox *done);
void __wrap_worker_stop(struct worker *worker);
void __real_mailbox_post(struct mailbox *box, struct list *message);
void __wrap_mailbox_post(struct mailbox *box, struct list *message);

int __wrap_worker_start(struct worker *worker, const char *, int node,
			bool (*run)(struct worker *worker, struct list *job),
			struct mailbox *done)
{
	worker->node = node;
	worker->run = run;
	worker->done = done;
	atomic_init(&worker->stop, false);
	ck_assert_int_eq(mailbox_init(&worker->jobs), 0);
	ck_assert_uint_lt(n_workers, WORKERS_MAX);
	workers[n_workers++] = worker;
	return 0;
}

void __wrap_worker_stop(struct worker *worker)
{
	struct list dropped = LIST_INIT(dropped);
	unsigned i = 0;

	while (workers[i] != worker)
		i++;
	/* a job that was not begun leaves the list, as its owner frees it */
	mailbox_receive(&worker->jobs, &dropped);
	list_for_each_safe(job, &dropped)
		list_remove(job);
	mailbox_destroy(&worker->jobs);
	workers[i] = workers[--n_workers];
}

static bool is_scrubber(const struct worker *worker)
{
	return pools && worker->done == &pools->done && worker != &pools->resizer;
}

static void check_unreached(struct list *message)
{
	const struct scrub_job *job = container_of(message, struct scrub_job, link);

	ck_assert_msg(!fake_fabric_reaches(job->addr, job->bytes),
		      "memory is freed before its key is dead");
}

/* Work on the kernel's memory is done at once. */
void __wrap_mailbox_post(struct mailbox *box, struct list *message)
{
	unsigned i = 0;

	while (i < n_workers && box != &workers[i]->jobs)
		i++;
	if (i == n_workers) {
		__real_mailbox_post(box, message);
	} else if (is_scrubber(workers[i])) {
		check_unreached(message);
		__real_mailbox_post(box, message);
	} else {
		(void)workers[i]->run(workers[i], message);
		__real_mailbox_post(workers[i]->done, message);
	}
}

static void worker_work(struct worker *worker)
{
	struct list jobs = LIST_INIT(jobs);

	mailbox_receive(&worker->jobs, &jobs);
	list_for_each_safe(job, &jobs) {
		list_remove(job);
		ck_assert(worker->run(worker, job));
		__real_mailbox_post(worker->done, job);
	}
}

/* ---- the pools ---- */

static bool has_results(void)
{
	struct pollfd pollfd = { .fd = pools_fd(pools), .events = POLLIN };

	return poll(&pollfd, 1, 0) == 1;
}

static void open_all(bool kept)
{
	struct pool_params params[PLACES];
	struct pools *opened;

	for (unsigned i = 0; i < PLACES; i++) {
		params[i] = places[i].params;
		params[i].node = POOL_NODE_ANY;
		params[i].bytes = places[i].bytes;
		params[i].kept = kept;
	}
	ck_assert_msg(pools_open(params, PLACES, NULL, &opened) == 0, "%s", err_text());
	pools = opened;
}

struct pools *control_pools_open(void)
{
	for (unsigned i = 0; i < PLACES; i++)
		places[i].bytes = places[i].first;
	open_all(false);
	return pools;
}

struct pools *control_pools_open_again(void)
{
	/* a shrinking pool keeps its end until that is cut off */
	for (unsigned i = 0; i < PLACES; i++)
		places[i].bytes = pools_status(pools, i).bytes;
	control_pools_close();
	open_all(true);
	return pools;
}

void control_pools_restored(void)
{
	ck_assert_int_eq(pools_zero_unlent(pools), 0);
	control_pools_scrub();
}

void control_pools_close(void)
{
	pools_close(pools);
	pools = NULL;
}

void control_pools_scrub(void)
{
	for (unsigned i = 0; i < n_workers; i++)
		worker_work(workers[i]);
	while (has_results())
		(void)pools_process(pools);
}

/* ---- resizing ---- */

static void resize_go_on(unsigned pool)
{
	struct pools_resized resized;

	while (!pools_move_end(pools, pool))
		;
	while (has_results())
		(void)pools_process(pools);
	while (pools_resized(pools, &resized))
		if (resized.grown)
			pools_lend(pools, resized.i);
}

static void reclaim_begin(unsigned pool, uint64_t bytes, uint64_t until_ms, bool revoke)
{
	const struct pool_params params = {
		.bytes = bytes,
		.shrink = revoke ? POOL_SHRINK_REVOKE : POOL_SHRINK_REFUSE,
	};

	pools_set_asked(pools, pool, &params);
	ck_assert_int_eq(pools_reclaim(pools, pool, bytes, until_ms), 0);
}

void real_pools_resize(unsigned pool, uint64_t bytes, uint64_t until_ms, bool revoke)
{
	struct pool_status status;
	uint64_t page;

	pool %= PLACES;
	status = pools_status(pools, pool);
	page = status.page_bytes;
	bytes = (bytes % places[pool].max / page + 1) * page;
	if (status.resizing == POOL_RECLAIMS && status.to_reclaim == 0)
		pools_shrink(pools, pool);
	else if (status.resizing == POOL_RECLAIMS)
		pools_reclaim_cancel(pools, pool);
	else if (bytes > status.bytes)
		ck_assert_int_eq(pools_grow(pools, pool, bytes), 0);
	else if (bytes < status.bytes)
		reclaim_begin(pool, bytes, until_ms, revoke);
	resize_go_on(pool);
}

void real_pools_rest(void)
{
	for (unsigned i = 0; i < PLACES; i++)
		if (pools_status(pools, i).resizing == POOL_RECLAIMS) {
			pools_reclaim_cancel(pools, i);
			resize_go_on(i);
		}
}

/* ---- the rules ---- */

void owners_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	(void)fputc('\n', stderr);
	abort();
}

void real_pools_check(void)
{
	owners_find(stage_control.leases, pools);
}

void control_pools_check(const struct leases *leases)
{
	owners_find(leases, pools);
}
