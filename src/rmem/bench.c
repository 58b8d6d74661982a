/* SPDX-License-Identifier: BSD-3-Clause */
/* rmem bench: keeps one queue full of operations of one size for some time, and reports bandwidth,
 * rate and latency. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/units.h"
#include "rmem/command.h"
#include "rmem/entry.h"
#include "rmem/histogram.h"
#include "rmem/interrupt.h"
#include "rmem/lease_options.h"
#include "rmem/session.h"

#define REGION_BYTES (UINT64_C(64) << 20)
#define SIZE_MAX_BYTES (UINT64_C(1) << 30)
#define DURATION_MAX_MS (UINT64_C(24) * 3600 * 1000)
#define LOOK_NS (10 * NS_PER_MS)
#define COMPLETIONS 64
#define WAIT_MS 200
#define TEXT_BYTES 256

/* What to measure. */
static enum rmem_opcode opcode = RMEM_OP_READ;
static uint64_t size_bytes = 65536; /* of one operation */
static unsigned depth = 16;         /* operations outstanding */
static unsigned batch = 1;          /* submitted by one call, up to depth */
static uint64_t duration_ms = 3000;
static bool json;

static struct {
	uint64_t operations; /* that succeeded */
	uint64_t errors;
	uint64_t elapsed_ns;
	char first_error[TEXT_BYTES]; /* "": none */
	struct histogram latency_ns;  /* from submission to completion */
} result;

/* ---- measuring ---- */

struct run {
	rmem_lease *lease;
	rmem_buffer *buffer;
	rmem_queue *queue;
	struct rmem_op *ops;  /* one batch */
	uint64_t *started_ns; /* of the operation in each slot */
	unsigned *free_slots; /* a stack */
	unsigned n_free;
	uint64_t offset;
	uint64_t look_ns; /* for a signal, not before */
};

static int run_open(struct run *run, rmem *session)
{
	struct rmem_buffer_params buffer = rmem_buffer_params_init();
	struct rmem_queue_params queue = rmem_queue_params_init();
	int err;

	run->ops = calloc(batch, sizeof(*run->ops));
	run->started_ns = calloc(depth, sizeof(*run->started_ns));
	run->free_slots = calloc(depth, sizeof(*run->free_slots));
	if (!run->ops || !run->started_ns || !run->free_slots)
		return err_set(-ENOMEM, "out of memory");
	while (run->n_free < depth) {
		run->free_slots[run->n_free] = run->n_free;
		run->n_free++;
	}
	buffer.bytes = size_bytes * depth;
	queue.depth = depth;
	err = rmem_alloc(session, &new_lease, &run->lease);
	if (!err) {
		place_show(run->lease);
		err = rmem_buffer_create(session, &buffer, &run->buffer);
	}
	if (!err)
		err = rmem_queue_create(session, &queue, &run->queue);
	return session_result(err);
}

static void run_close(struct run *run)
{
	rmem_queue_free(run->queue);
	(void)rmem_buffer_free(run->buffer);
	if (run->lease)
		(void)rmem_destroy(run->lease);
	free(run->ops);
	free(run->started_ns);
	free(run->free_slots);
}

/* Submit one batch.  The queue has room for it. */
static int batch_submit(struct run *run)
{
	char *base = rmem_buffer_addr(run->buffer);
	uint64_t now;
	int n;

	for (unsigned i = 0; i < batch; i++) {
		unsigned slot = run->free_slots[run->n_free - 1 - i];

		run->ops[i] = (struct rmem_op){
			.opcode = (uint16_t)opcode,
			.lease = run->lease,
			.offset = run->offset,
			.addr = base + slot * size_bytes,
			.bytes = size_bytes,
			.buffer = run->buffer,
			.cookie = slot,
		};
		run->offset += size_bytes;
		if (run->offset + size_bytes > new_lease.bytes)
			run->offset = 0;
	}
	now = clock_now_ns();
	n = session_result(rmem_submit(run->queue, run->ops, batch));
	if (n < 0)
		return n;
	for (int i = 0; i < n; i++)
		run->started_ns[run->free_slots[--run->n_free]] = now;
	return 0;
}

static int completions_handle(struct run *run)
{
	struct rmem_completion completions[COMPLETIONS];
	int n = rmem_wait(run->queue, completions, COMPLETIONS, 1, WAIT_MS);
	uint64_t now = clock_now_ns();

	if (n < 0)
		return session_result(n);
	for (int i = 0; i < n; i++) {
		unsigned slot = (unsigned)completions[i].cookie;

		run->free_slots[run->n_free++] = slot;
		if (completions[i].status == 0) {
			result.operations++;
			histogram_add(&result.latency_ns, now - run->started_ns[slot]);
		} else if (result.errors++ == 0) {
			(void)snprintf(
				result.first_error, sizeof(result.first_error), "%s",
				rmem_completion_error(run->queue, &completions[i]));
		}
	}
	return 0;
}

/* Whether a signal has come.  A look is a system call, so there is one each 10 ms. */
static bool run_interrupted(struct run *run, uint64_t now_ns)
{
	if (now_ns < run->look_ns)
		return false;
	run->look_ns = now_ns + LOOK_NS;
	return interrupt_wait(0);
}

static int run_measure(struct run *run)
{
	uint64_t start = clock_now_ns(), end = start + duration_ms * 1000000;
	uint64_t now = start;
	int err = 0;

	while (!err && now < end && !result.errors && !run_interrupted(run, now)) {
		while (!err && run->n_free >= batch)
			err = batch_submit(run);
		if (!err)
			err = completions_handle(run);
		now = clock_now_ns();
	}
	while (!err && rmem_queue_outstanding(run->queue))
		err = completions_handle(run);
	result.elapsed_ns = clock_now_ns() - start;
	return err;
}

/* Run until the time is over, a signal comes or an operation fails; operations that fail are
 * counted, and are no error of this call. */
static int session_measure(rmem *session)
{
	struct run run = { 0 };
	int err = run_open(&run, session);

	if (!err)
		err = run_measure(&run);
	run_close(&run);
	return err;
}

/* ---- printing ---- */

struct rates {
	double seconds;
	double operations; /* per second */
	double bytes;      /* per second */
};

static struct rates rates_get(void)
{
	struct rates rates = { .seconds = (double)result.elapsed_ns / 1e9 };

	if (rates.seconds > 0) {
		rates.operations = (double)result.operations / rates.seconds;
		rates.bytes = rates.operations * (double)size_bytes;
	}
	return rates;
}

static const char *opcode_name(void)
{
	return opcode == RMEM_OP_READ ? "read" : "write";
}

static void table_print(const struct rmem_info *info)
{
	const struct histogram *h = &result.latency_ns;
	struct rates rates = rates_get();

	(void)printf("%s of %s over %s%s%s, depth %u, batch %u, channels %u\n",
		     opcode_name(), UNITS_BYTES(size_bytes),
		     session_fabric_name(info->fabric), info->device[0] ? " on " : "",
		     info->device, depth, batch, info->channels);
	(void)printf("  operations  %" PRIu64 " in %.2f s, %" PRIu64 " errors\n",
		     result.operations, rates.seconds, result.errors);
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

/* "" is null, as in the output of rmemctl. */
static json_t *text_json(const char *text)
{
	return *text ? json_string(text) : json_null();
}

static int object_print(const struct rmem_info *info)
{
	struct rates rates = rates_get();

	return json_print(json_pack(
		"{s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:o, s:f, s:f, "
		"s:o}",
		"op", opcode_name(), "fabric", session_fabric_name(info->fabric),
		"device", text_json(info->device), "size_bytes", (json_int_t)size_bytes,
		"depth", (json_int_t)depth, "batch", (json_int_t)batch, "channels",
		(json_int_t)info->channels, "seconds", rates.seconds, "operations",
		(json_int_t)result.operations, "errors", (json_int_t)result.errors,
		"first_error", text_json(result.first_error), "operations_per_second",
		rates.operations, "bytes_per_second", rates.bytes, "latency_ns",
		latency_json(&result.latency_ns)));
}

/* ---- the command ---- */

static int opcode_parse(const char *text, void *value)
{
	enum rmem_opcode *ret_opcode = value;

	if (strcmp(text, "read") == 0)
		*ret_opcode = RMEM_OP_READ;
	else if (strcmp(text, "write") == 0)
		*ret_opcode = RMEM_OP_WRITE;
	else
		return err_set(-EINVAL, "--op: '%s' is not read or write", text);
	return 0;
}

static int bench_check(char **args)
{
	(void)args;
	if (batch > depth)
		return options_usage("--batch %u is more than --depth %u", batch,
				     depth);
	if (!new_lease.bytes)
		new_lease.bytes = size_bytes > REGION_BYTES ? size_bytes : REGION_BYTES;
	if (new_lease.bytes < size_bytes)
		return options_usage("--region is smaller than --size");
	return 0;
}

static int bench_run(rmem *session, char **args)
{
	struct rmem_info info = rmem_info_init();
	int err = session_result(rmem_info(session, &info));

	(void)args;
	if (err)
		return err;
	/* after a signal the results so far are printed */
	err = interrupt_catch();
	if (!err)
		err = session_measure(session);
	if (err)
		return err;
	if (json)
		err = object_print(&info);
	else
		table_print(&info);
	if (!err && result.errors)
		err = err_set(-EIO, "%s", result.first_error);
	return err;
}

static const struct option_row bench_options[] = {
	{ "op", 0, OPTION_OTHER, &opcode, .parse = opcode_parse, .argument = "OP",
	  .help = "read or write (default read)" },
	{ "size", 0, OPTION_BYTES, &size_bytes, 1, SIZE_MAX_BYTES, .argument = "BYTES",
	  .help = "of one operation, as 4K (default 64K)" },
	{ "depth", 0, OPTION_NUMBER, &depth, 1, RMEM_DEPTH_MAX, .argument = "N",
	  .help = "operations outstanding (default 16)" },
	{ "batch", 0, OPTION_NUMBER, &batch, 1, RMEM_DEPTH_MAX, .argument = "N",
	  .help = "operations submitted at once (default 1)" },
	{ "duration", 0, OPTION_MS, &duration_ms, 1, DURATION_MAX_MS, .argument = "T",
	  .help = "how long, as 500ms or 10s (default 3s)" },
	{ "region", 0, OPTION_BYTES, &new_lease.bytes, 1, UINT64_MAX,
	  .argument = "BYTES", .help = "of memory to use in turn (default 64M)" },
	{ .more = place_options },
	{ "json", 0, OPTION_FLAG, &json, .help = "one object instead of a table" },
	{ .more = options_table },
	{ 0 },
};

const struct command bench_command = {
	.name = "bench",
	.synopsis = "bench [OPTION...]",
	.summary = "measure bandwidth, rate and latency of reads or writes",
	.options = bench_options,
	.args = "no argument but options",
	.check = bench_check,
	.run = bench_run,
};
