/* SPDX-License-Identifier: BSD-3-Clause */
/* alloc SEED STEPS RANGE_BYTES: runs one trace of allocations and frees through rmemd's
 * allocator, DPDK's, and rmemd's again.  Prints a line for each run: name, median and p99.9 of a
 * step in ns, number of failed allocations, and the share of the range that is allocated when
 * an allocation first fails. */
#include "alloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/map.h"

#define SIZE_MIN ALLOC_GRAIN
#define SIZE_MAX_BYTES (UINT64_C(1) << 30)
/* of the Pareto distribution of the sizes, which is cut at both ends */
#define SHAPE 0.8
#define FULL 0.9
#define FILLS_MAX 99u
#define NS_MAX 1000000u

/* The free of an allocation that failed is skipped. */
struct step {
	uint32_t id;     /* of the allocation */
	uint32_t grains; /* its size; 0: free it */
};

struct trace {
	struct step *steps;
	uint32_t n, n_ids;
};

static uint64_t state;

static void die(const char *what)
{
	(void)fprintf(stderr, "alloc: %s\n", what);
	exit(1);
}

static void *array_alloc(size_t n, size_t bytes)
{
	void *memory = calloc(n, bytes);

	if (!memory)
		die("no memory");
	return memory;
}

/* The hash makes the sequences of neighbouring seeds differ. */
static void seed_set(uint64_t seed)
{
	state = map_hash_u64(seed + 1);
}

/* xorshift64* (Vigna 2014). */
static uint64_t next(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * UINT64_C(0x2545f4914f6cdd1d);
}

static uint64_t size_next(void)
{
	double least = pow((double)SIZE_MIN, -SHAPE),
	       most = pow((double)SIZE_MAX_BYTES, -SHAPE);
	double u = (double)(next() >> 11) / 9007199254740992.0;
	uint64_t bytes = (uint64_t)pow(least - u * (least - most), -1 / SHAPE);

	bytes = (bytes + ALLOC_GRAIN - 1) / ALLOC_GRAIN * ALLOC_GRAIN;
	return bytes < SIZE_MAX_BYTES ? bytes : SIZE_MAX_BYTES;
}

/* ---- the trace ---- */

/* The allocations that are live at a point of the trace. */
struct live {
	struct step *at;
	uint32_t n;
	uint64_t bytes;
};

static struct step live_pick(struct live *live)
{
	uint32_t i = (uint32_t)(next() % live->n);
	struct step picked = live->at[i];

	live->at[i] = live->at[--live->n];
	live->bytes -= picked.grains * ALLOC_GRAIN;
	return picked;
}

static void live_add(struct live *live, struct step step)
{
	live->at[live->n++] = step;
	live->bytes += step.grains * ALLOC_GRAIN;
}

/* Fills the range to FULL, then keeps it there: before each allocation, allocations picked at
 * random are freed until the sum of the sizes has room for it.  `*ret_begin` is the first step
 * after the range was filled; `steps` steps follow. */
static struct trace trace_make(uint64_t range_bytes, uint32_t steps,
			       uint32_t *ret_begin)
{
	uint64_t full = (uint64_t)(FULL * (double)range_bytes);
	uint32_t max = steps + (uint32_t)(full / ALLOC_GRAIN) + 1;
	struct trace trace = { .steps = array_alloc(max, sizeof(*trace.steps)) };
	struct live live = { .at = array_alloc(max, sizeof(*live.at)) };
	uint32_t end = 0;

	while (end == 0 || trace.n < end) {
		uint64_t bytes = size_next();
		struct step step = { .grains = (uint32_t)(bytes / ALLOC_GRAIN) };

		/* possible in a small range */
		if (bytes > full)
			continue;
		if (end == 0 && live.bytes + bytes > full) {
			*ret_begin = trace.n;
			end = trace.n + steps;
		}
		while (live.bytes + bytes > full && trace.n < end)
			trace.steps[trace.n++] =
				(struct step){ .id = live_pick(&live).id };
		if (end > 0 && trace.n == end)
			break;
		step.id = trace.n_ids++;
		trace.steps[trace.n++] = step;
		live_add(&live, step);
	}
	free(live.at);
	return trace;
}

/* ---- cost ---- */

static uint64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static unsigned quantile(const uint32_t *counts, uint64_t n, double q)
{
	uint64_t wanted = (uint64_t)(q * (double)n), seen = 0;
	unsigned ns = 0;

	while (ns < NS_MAX && (seen += counts[ns]) <= wanted)
		ns++;
	return ns;
}

/* The median time that a measurement of nothing shows. */
static unsigned clock_cost(void)
{
	uint32_t *counts = array_alloc(NS_MAX + 1, sizeof(*counts));
	const unsigned n = 1000000;
	unsigned cost;

	for (unsigned i = 0; i < n; i++) {
		uint64_t begin = now_ns(), ns = now_ns() - begin;

		counts[ns < NS_MAX ? ns : NS_MAX]++;
	}
	cost = quantile(counts, n, 0.5);
	free(counts);
	return cost;
}

static void step_run(const struct allocator *allocator, void **blocks, struct step step)
{
	if (step.grains)
		blocks[step.id] = allocator->alloc(step.grains * ALLOC_GRAIN);
	else if (blocks[step.id])
		allocator->free(blocks[step.id]);
}

struct cost {
	unsigned median, p999;
	uint32_t failed;
};

static struct cost cost_of(const struct allocator *allocator, const struct trace *trace,
			   uint32_t begin, uint64_t range_bytes)
{
	uint32_t *counts = array_alloc(NS_MAX + 1, sizeof(*counts));
	void **blocks = array_alloc(trace->n_ids, sizeof(*blocks));
	unsigned nothing = clock_cost();
	struct cost cost = { 0 };

	allocator->open(range_bytes);
	for (uint32_t i = 0; i < begin; i++)
		step_run(allocator, blocks, trace->steps[i]);
	for (uint32_t i = begin; i < trace->n; i++) {
		struct step step = trace->steps[i];
		uint64_t start = now_ns(), ns;

		step_run(allocator, blocks, step);
		ns = now_ns() - start;
		counts[ns < NS_MAX ? ns : NS_MAX]++;
		if (step.grains && !blocks[step.id])
			cost.failed++;
	}
	cost.median = quantile(counts, trace->n - begin, 0.5) - nothing;
	cost.p999 = quantile(counts, trace->n - begin, 0.999) - nothing;
	for (uint32_t i = 0; i < trace->n; i++)
		if (!trace->steps[i].grains)
			blocks[trace->steps[i].id] = NULL;
	for (uint32_t i = 0; i < trace->n_ids; i++)
		if (blocks[i])
			allocator->free(blocks[i]);
	allocator->close();
	free(blocks);
	free(counts);
	return cost;
}

/* ---- utilisation ---- */

/* Starts with an empty range and frees one allocation after every two, until one fails.
 * Returns the share of the range that is allocated then. */
static double fill(const struct allocator *allocator, uint64_t seed,
		   uint64_t range_bytes)
{
	uint32_t max = (uint32_t)(range_bytes / ALLOC_GRAIN) + 1, n_ids = 0;
	void **blocks = array_alloc(2 * (size_t)max, sizeof(*blocks));
	struct live live = { .at = array_alloc(max, sizeof(*live.at)) };
	double full;

	seed_set(seed);
	allocator->open(range_bytes);
	for (unsigned i = 1;; i++) {
		struct step step = { .id = n_ids };

		if (i % 3 == 0) {
			allocator->free(blocks[live_pick(&live).id]);
			continue;
		}
		step.grains = (uint32_t)(size_next() / ALLOC_GRAIN);
		blocks[n_ids] = allocator->alloc(step.grains * ALLOC_GRAIN);
		if (!blocks[n_ids])
			break;
		if (++n_ids == 2 * max)
			die("the range is never full");
		live_add(&live, step);
	}
	full = (double)live.bytes / (double)range_bytes;
	while (live.n > 0)
		allocator->free(blocks[live_pick(&live).id]);
	allocator->close();
	free(live.at);
	free(blocks);
	return full;
}

static int less(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double fill_median(const struct allocator *allocator, uint64_t seed,
			  unsigned fills, uint64_t range_bytes)
{
	double fulls[FILLS_MAX];

	for (unsigned i = 0; i < fills; i++)
		fulls[i] = fill(allocator, seed + i, range_bytes);
	qsort(fulls, fills, sizeof(fulls[0]), less);
	return fulls[fills / 2];
}

int main(int argc, char **argv)
{
	static const struct allocator *const turns[] = { &allocator_ours,
							 &allocator_dpdk,
							 &allocator_ours };
	uint64_t seed, range_bytes;
	struct trace trace;
	uint32_t begin = 0;
	unsigned long fills;

	if (argc != 5)
		die("usage: alloc SEED STEPS FILLS RANGE_BYTES");
	seed = strtoull(argv[1], NULL, 10);
	fills = strtoul(argv[3], NULL, 10);
	if (fills < 1 || fills > FILLS_MAX)
		die("FILLS is from 1 to 99");
	range_bytes = strtoull(argv[4], NULL, 10);
	seed_set(seed);
	trace = trace_make(range_bytes, (uint32_t)strtoul(argv[2], NULL, 10), &begin);
	for (unsigned i = 0; i < sizeof(turns) / sizeof(turns[0]); i++) {
		struct cost cost = cost_of(turns[i], &trace, begin, range_bytes);

		(void)printf(
			"%s %u %u %" PRIu32 " %.4f\n", turns[i]->name, cost.median,
			cost.p999, cost.failed,
			fill_median(turns[i], seed + 1, (unsigned)fills, range_bytes));
		(void)fflush(stdout);
	}
	free(trace.steps);
	return 0;
}
