/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include <jansson.h>

#include "base/err.h"
#include "base/units.h"
#include "rmem/bench.h"
#include "rmem/session.h"

struct rates {
	double seconds;
	double operations; /* per second */
	double bytes;      /* per second */
};

static struct rates rates_of(const struct bench_params *params,
			     const struct bench_result *result)
{
	struct rates rates = { .seconds = (double)result->elapsed_ns / 1e9 };

	if (rates.seconds > 0) {
		rates.operations = (double)result->operations / rates.seconds;
		rates.bytes = rates.operations * (double)params->size_bytes;
	}
	return rates;
}

static const char *opcode_name(enum rmem_opcode opcode)
{
	return opcode == RMEM_OP_READ ? "read" : "write";
}

void bench_print_table(const struct bench_params *params, const struct rmem_info *info,
		       const struct bench_result *result)
{
	const struct histogram *h = &result->latency_ns;
	struct rates rates = rates_of(params, result);
	char size[32];

	(void)printf("%s of %s over %s%s%s, depth %u, batch %u, channels %u\n",
		     opcode_name(params->opcode),
		     units_format_bytes(params->size_bytes, size, sizeof(size)),
		     session_fabric_name(info->fabric), info->device[0] ? " on " : "",
		     info->device, params->depth, params->batch, info->channels);
	(void)printf("  operations  %" PRIu64 " in %.2f s, %" PRIu64 " errors\n",
		     result->operations, rates.seconds, result->errors);
	(void)printf("  bandwidth   %.2f MiB/s\n", rates.bytes / (1 << 20));
	(void)printf("  rate        %.0f operations/s\n", rates.operations);
	(void)printf("  latency     %10s %10s %10s %10s %10s %10s\n", "min", "mean",
		     "p50", "p99", "p99.9", "max");
	(void)printf("         [us] %10.1f %10.1f %10.1f %10.1f %10.1f %10.1f\n",
		     (double)h->min / 1e3, histogram_mean(h) / 1e3,
		     (double)histogram_quantile(h, 0.5) / 1e3,
		     (double)histogram_quantile(h, 0.99) / 1e3,
		     (double)histogram_quantile(h, 0.999) / 1e3, (double)h->max / 1e3);
}

static json_t *latency_json(const struct histogram *h)
{
	return json_pack(
		"{s:I, s:f, s:I, s:I, s:I, s:I}", "min", (json_int_t)h->min, "mean",
		histogram_mean(h), "p50", (json_int_t)histogram_quantile(h, 0.5), "p99",
		(json_int_t)histogram_quantile(h, 0.99), "p99_9",
		(json_int_t)histogram_quantile(h, 0.999), "max", (json_int_t)h->max);
}

int bench_print_json(const struct bench_params *params, const struct rmem_info *info,
		     const struct bench_result *result)
{
	struct rates rates = rates_of(params, result);
	json_t *json = json_pack(
		"{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:s, s:f, s:f, "
		"s:o}",
		"op", opcode_name(params->opcode), "fabric",
		session_fabric_name(info->fabric), "device", info->device, "size_bytes",
		(json_int_t)params->size_bytes, "depth", (json_int_t)params->depth,
		"batch", (json_int_t)params->batch, "channels",
		(json_int_t)info->channels, "seconds", rates.seconds, "operations",
		(json_int_t)result->operations, "errors", (json_int_t)result->errors,
		"first_error", result->first_error, "operations_per_second",
		rates.operations, "bytes_per_second", rates.bytes, "latency_ns",
		latency_json(&result->latency_ns));
	int err = 0;

	if (!json)
		return err_set(-ENOMEM, "out of memory");
	if (json_dumpf(json, stdout, JSON_INDENT(2)))
		err = err_set(-EIO, "printing the result failed");
	(void)putchar('\n');
	json_decref(json);
	return err;
}
