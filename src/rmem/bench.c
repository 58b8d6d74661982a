/* SPDX-License-Identifier: BSD-3-Clause */
/* rmem bench: threads that each keep a queue full of operations for some time, or submit them at a
 * rate; and bandwidth, rate and latency of all. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/option.h"
#include "base/random.h"
#include "rmem/bench_report.h"
#include "rmem/command.h"
#include "rmem/interrupt.h"
#include "rmem/lease_options.h"
#include "rmem/load.h"
#include "rmem/session.h"

#define REGION_BYTES (UINT64_C(64) << 20)
#define SIZE_BYTES UINT64_C(65536)
#define SIZE_MAX_BYTES (UINT64_C(1) << 30)
#define ATOMIC_BYTES 8
#define THREADS_MAX 256
#define RATE_MAX 1000000000u
#define DURATION_MAX_MS (UINT64_C(24) * 3600 * 1000)
#define INTERVAL_MIN_MS 100
#define LOOK_NS (20 * NS_PER_MS)

/* What to measure. */
static struct load_plan plan = {
	.op = LOAD_READ,
	.read_percent = 50,
	.depth = 16,
	.batch = 1,
	.threads = 1,
};
static unsigned rate;
static uint64_t duration_ms = 3000;
static uint64_t interval_ms; /* 0: none */
static bool json;

/* ---- measuring ---- */

static struct load *loads[THREADS_MAX];
static unsigned n_started;
static struct load_result result;
static uint64_t start_ns;

static int loads_open(rmem *session)
{
	int err = session_result(rmem_alloc(session, &new_lease, &plan.lease));

	if (err)
		return err;
	place_show(plan.lease);
	for (unsigned i = 0; !err && i < plan.threads; i++)
		err = load_open(session, &plan, i, &loads[i]);
	return err;
}

static int loads_start(void)
{
	int err = 0;

	start_ns = result.end_ns = clock_now_ns();
	while (!err && n_started < plan.threads) {
		err = load_start(loads[n_started], start_ns);
		n_started += !err;
	}
	return err;
}

static int interval_report(uint64_t now_ns, uint64_t since_ns)
{
	static struct histogram recent;

	recent = (struct histogram){ 0 };
	for (unsigned i = 0; i < plan.threads; i++)
		load_take_recent(loads[i], &recent);
	return bench_report_interval(&recent, now_ns - start_ns, now_ns - since_ns);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Report each interval, until the time is over, a signal comes, or an operation fails. */
static int watch(void)
{
	uint64_t end_ns = start_ns + duration_ms * NS_PER_MS;
	uint64_t interval_ns = interval_ms * NS_PER_MS, since_ns = start_ns;
	int err = 0;

	while (!err && !atomic_load(&plan.stop)) {
		uint64_t now_ns = clock_now_ns(), next_ns = end_ns;

		if (interval_ns && now_ns >= since_ns + interval_ns) {
			err = interval_report(now_ns, since_ns);
			since_ns = now_ns - (now_ns - start_ns) % interval_ns;
		}
		if (interval_ns)
			next_ns = least(next_ns, since_ns + interval_ns);
		next_ns = least(next_ns, now_ns + LOOK_NS);
		if (now_ns >= end_ns ||
		    interrupt_wait((int)((next_ns - now_ns) / NS_PER_MS) + 1))
			break;
	}
	return err;
}

/* Stop those that were started; the error of the last one that has one. */
static int loads_join(void)
{
	int err = 0;

	atomic_store(&plan.stop, true);
	for (unsigned i = 0; i < n_started; i++) {
		int failed = load_join(loads[i], &result);

		err = failed ? failed : err;
	}
	return err;
}

static void loads_close(void)
{
	for (unsigned i = 0; i < plan.threads; i++)
		load_close(loads[i]);
	if (plan.lease)
		(void)rmem_destroy(plan.lease);
}

/* Operations that fail are counted, and are no error of this call. */
static int measure(rmem *session)
{
	int err = loads_open(session), failed;

	if (!err)
		err = loads_start();
	if (!err)
		err = watch();
	failed = loads_join();
	loads_close();
	return err ? err : failed;
}

/* ---- the command ---- */

/* "mixed", "mixed:70" */
static int mixed_parse(const char *text)
{
	const char *percent = text + strlen("mixed");

	plan.op = LOAD_MIXED;
	return *percent == ':' ? option_number("--op mixed", percent + 1, 0, 100,
					       &plan.read_percent)
			       : 0;
}

static int op_parse(const char *text, void *)
{
	static const struct {
		const char *name;
		enum load_op op;
	} ops[] = { { "read", LOAD_READ },
		    { "write", LOAD_WRITE },
		    { "cas", LOAD_CAS },
		    { "faa", LOAD_FETCH_ADD } };

	if (strcmp(text, "mixed") == 0 || strncmp(text, "mixed:", 6) == 0)
		return mixed_parse(text);
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (strcmp(text, ops[i].name) == 0) {
			plan.op = ops[i].op;
			return 0;
		}
	return err_set(-EINVAL,
		       "--op: '%s' is not read, write, mixed[:PERCENT], cas or faa",
		       text);
}

static int size_check(void)
{
	bool atomic = plan.op == LOAD_CAS || plan.op == LOAD_FETCH_ADD;

	if (atomic && plan.size_bytes && plan.size_bytes != ATOMIC_BYTES)
		return options_usage("--size: atomics have 8 bytes");
	if (!plan.size_bytes)
		plan.size_bytes = atomic ? ATOMIC_BYTES : SIZE_BYTES;
	return 0;
}

static int region_check(void)
{
	uint64_t needed = plan.size_bytes * (plan.random ? 1 : plan.threads);

	if (!new_lease.bytes)
		new_lease.bytes = needed > REGION_BYTES ? needed : REGION_BYTES;
	if (new_lease.bytes < needed)
		return options_usage("--region is smaller than --size%s",
				     plan.random ? "" : ", for each of --threads");
	plan.region_bytes = new_lease.bytes;
	return 0;
}

static int bench_check(char **)
{
	int err = size_check();

	if (err)
		return err;
	if (plan.batch > plan.depth)
		return options_usage("--batch %u is more than --depth %u", plan.batch,
				     plan.depth);
	plan.rate = rate;
	plan.has_recent = interval_ms;
	plan.seed = random_u64();
	return region_check();
}

static int bench_run(rmem *session, char **)
{
	/* after a signal the results so far are printed */
	int err = interrupt_catch("");

	if (!err)
		err = bench_report_begin(session, &plan, json);
	if (!err)
		err = measure(session);
	if (!err)
		err = bench_report_end(&result, result.end_ns - start_ns);
	bench_report_free();
	return !err && result.errors ? err_set(-EIO, "%s", result.first_error) : err;
}

static const struct option_row bench_options[] = {
	{ "op", 0, OPTION_OTHER, .parse = op_parse, .argument = "OP",
	  .help = "read, write, mixed[:PERCENT OF READS]," OPTION_INDENT
		  "cas or faa (default read)" },
	{ "size", 0, OPTION_BYTES, &plan.size_bytes, 1, SIZE_MAX_BYTES,
	  .argument = "BYTES", .help = "of one operation, as 4K (default 64K)" },
	{ "random", 0, OPTION_FLAG, &plan.random,
	  .help = "at random places, not one after the other" },
	{ "threads", 0, OPTION_NUMBER, &plan.threads, 1, THREADS_MAX, .argument = "N",
	  .help = "each with its queue and channels (default 1)" },
	{ "depth", 0, OPTION_NUMBER, &plan.depth, 1, RMEM_DEPTH_MAX, .argument = "N",
	  .help = "operations outstanding (default 16)" },
	{ "batch", 0, OPTION_NUMBER, &plan.batch, 1, RMEM_DEPTH_MAX, .argument = "N",
	  .help = "operations submitted at once (default 1)" },
	{ "rate", 0, OPTION_NUMBER, &rate, 1, RATE_MAX, .argument = "N",
	  .help = "operations a second, of all threads" OPTION_INDENT
		  "(default: as many as can be)" },
	{ "duration", 0, OPTION_MS, &duration_ms, 1, DURATION_MAX_MS, .argument = "T",
	  .help = "how long, as 500ms or 10s (default 3s)" },
	{ "interval", 0, OPTION_MS, &interval_ms, INTERVAL_MIN_MS, DURATION_MAX_MS,
	  .argument = "T", .help = "report each interval, too" },
	{ "region", 0, OPTION_BYTES, &new_lease.bytes, 1, UINT64_MAX,
	  .argument = "BYTES", .help = "of memory to use (default 64M)" },
	{ .more = place_options },
	{ "json", 0, OPTION_FLAG, &json, .help = "one object instead of a table" },
	{ .more = options_table },
	{ 0 },
};

const struct command bench_command = {
	.name = "bench",
	.synopsis = "bench [OPTION...]",
	.summary = "measure bandwidth, rate and latency",
	.options = bench_options,
	.args = "no argument but options",
	.check = bench_check,
	.run = bench_run,
};
