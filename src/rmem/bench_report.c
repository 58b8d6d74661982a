/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/bench_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include <jansson.h>

#include "base/err.h"
#include "base/units.h"
#include "rmem/entry.h"
#include "rmem/session.h"

static const struct load_plan *plan;
static struct rmem_info info;
static json_t *intervals; /* NULL: no JSON is asked for */

struct rates {
	double operations; /* per second */
	double bytes;      /* per second */
};

static struct rates rates_of(const struct histogram *latency_ns, uint64_t ns)
{
	struct rates rates = { 0 };

	if (ns > 0) {
		rates.operations = (double)latency_ns->count * 1e9 / (double)ns;
		rates.bytes = rates.operations * (double)plan->size_bytes;
	}
	return rates;
}

static const char *op_name(void)
{
	static const char *const names[] = {
		[LOAD_READ] = "read", [LOAD_WRITE] = "write",   [LOAD_MIXED] = "mixed",
		[LOAD_CAS] = "cas",   [LOAD_FETCH_ADD] = "faa",
	};

	return names[plan->op];
}

/* ---- a table ---- */

static void head_print(void)
{
	(void)printf("%s", op_name());
	if (plan->op == LOAD_MIXED)
		(void)printf(" (%u %% reads)", plan->read_percent);
	(void)printf(" of %s over %s%s%s, depth %u, batch %u, channels %u",
		     UNITS_BYTES(plan->size_bytes), session_fabric_name(info.fabric),
		     info.device[0] ? " on " : "", info.device, plan->depth,
		     plan->batch, info.channels);
	if (plan->threads > 1)
		(void)printf(", each of %u threads", plan->threads);
	(void)printf("%s\n", plan->random ? ", random" : "");
}

static double to_us(uint64_t ns)
{
	return (double)ns / 1e3;
}

static void interval_print(const struct histogram *h, double at_s, struct rates rates)
{
	static bool titled;

	if (!titled)
		(void)printf("  %9s %12s %12s %10s %10s %10s\n", "at [s]",
			     "operations/s", "MiB/s", "p50 [us]", "p99 [us]",
			     "max [us]");
	titled = true;
	(void)printf("  %9.3f %12.0f %12.2f %10.1f %10.1f %10.1f\n", at_s,
		     rates.operations, rates.bytes / (1 << 20),
		     to_us(histogram_quantile(h, 0.5)),
		     to_us(histogram_quantile(h, 0.99)), to_us(h->max));
}

static void end_print(const struct load_result *result, double seconds,
		      struct rates rates)
{
	const struct histogram *h = &result->latency_ns;

	(void)printf("  operations  %" PRIu64 " in %.2f s, %" PRIu64 " errors\n",
		     h->count, seconds, result->errors);
	(void)printf("  bandwidth   %.2f MiB/s\n", rates.bytes / (1 << 20));
	(void)printf("  rate        %.0f operations/s", rates.operations);
	if (plan->rate)
		(void)printf(" of %" PRIu64, plan->rate);
	(void)printf("\n  latency     %10s %10s %10s %10s %10s %10s\n", "min", "mean",
		     "p50", "p99", "p99.9", "max");
	(void)printf("         [us] %10.1f %10.1f %10.1f %10.1f %10.1f %10.1f\n",
		     to_us(h->min), histogram_mean(h) / 1e3,
		     to_us(histogram_quantile(h, 0.5)),
		     to_us(histogram_quantile(h, 0.99)),
		     to_us(histogram_quantile(h, 0.999)), to_us(h->max));
}

/* ---- an object ---- */

static json_t *latency_json(const struct histogram *h)
{
	return json_pack(
		"{s:I, s:f, s:I, s:I, s:I, s:I}", "min", (json_int_t)h->min, "mean",
		histogram_mean(h), "p50", (json_int_t)histogram_quantile(h, 0.5), "p99",
		(json_int_t)histogram_quantile(h, 0.99), "p99_9",
		(json_int_t)histogram_quantile(h, 0.999), "max", (json_int_t)h->max);
}

/* "" is null, as in the output of rmemctl. */
static json_t *text_json(const char *text)
{
	return *text ? json_string(text) : json_null();
}

static json_t *number_json(bool known, uint64_t number)
{
	return known ? json_integer((json_int_t)number) : json_null();
}

static json_t *interval_json(const struct histogram *h, double at_s, struct rates rates)
{
	return json_pack("{s:f, s:f, s:f, s:o}", "at_seconds", at_s,
			 "operations_per_second", rates.operations, "bytes_per_second",
			 rates.bytes, "latency_ns", latency_json(h));
}

static json_t *plan_json(void)
{
	return json_pack(
		"{s:s, s:o, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:b, s:o}", "op",
		op_name(), "read_percent",
		number_json(plan->op == LOAD_MIXED, plan->read_percent), "fabric",
		session_fabric_name(info.fabric), "device", text_json(info.device),
		"size_bytes", (json_int_t)plan->size_bytes, "threads",
		(json_int_t)plan->threads, "depth", (json_int_t)plan->depth, "batch",
		(json_int_t)plan->batch, "channels", (json_int_t)info.channels,
		"random", plan->random, "rate", number_json(plan->rate, plan->rate));
}

static json_t *end_json(const struct load_result *result, double seconds,
			struct rates rates)
{
	json_t *object = plan_json();
	json_t *measured = json_pack(
		"{s:f, s:I, s:I, s:o, s:f, s:f, s:o, s:O}", "seconds", seconds,
		"operations", (json_int_t)result->latency_ns.count, "errors",
		(json_int_t)result->errors, "first_error",
		text_json(result->first_error), "operations_per_second",
		rates.operations, "bytes_per_second", rates.bytes, "latency_ns",
		latency_json(&result->latency_ns), "intervals", intervals);
	bool failed = !object || !measured || json_object_update(object, measured);

	json_decref(measured);
	if (!failed)
		return object;
	json_decref(object);
	return NULL;
}

/* ---- the interface ---- */

int bench_report_begin(rmem *session, const struct load_plan *of, bool json)
{
	int err;

	plan = of;
	info = rmem_info_init();
	err = session_result(rmem_info(session, &info));
	if (err)
		return err;
	if (!json) {
		head_print();
		return 0;
	}
	intervals = json_array();
	return intervals ? 0 : err_set(-ENOMEM, "out of memory");
}

int bench_report_interval(const struct histogram *latency_ns, uint64_t at_ns,
			  uint64_t interval_ns)
{
	struct rates rates = rates_of(latency_ns, interval_ns);
	double at_s = (double)at_ns / 1e9;

	if (intervals)
		return json_array_append_new(intervals,
					     interval_json(latency_ns, at_s, rates))
			       ? err_set(-ENOMEM, "out of memory")
			       : 0;
	interval_print(latency_ns, at_s, rates);
	/* who watches through a pipe sees it at once */
	return fflush(stdout) ? err_errno(-errno, "stdout") : 0;
}

int bench_report_end(const struct load_result *result, uint64_t elapsed_ns)
{
	struct rates rates = rates_of(&result->latency_ns, elapsed_ns);
	double seconds = (double)elapsed_ns / 1e9;

	if (intervals)
		return json_print(end_json(result, seconds, rates));
	end_print(result, seconds, rates);
	return 0;
}

void bench_report_free(void)
{
	json_decref(intervals);
	intervals = NULL;
}
