/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"
#include "rmem/interrupt.h"
#include "rmem/options.h"
#include "rmem/place.h"
#include "rmem/session.h"

#define REGION_BYTES (UINT64_C(64) << 20)
#define SIZE_MAX_BYTES (UINT64_C(1) << 30)
#define DURATION_MAX_MS (UINT64_C(24) * 3600 * 1000)

enum {
	OPTION_OP = OPTIONS_OWN,
	OPTION_SIZE,
	OPTION_DEPTH,
	OPTION_BATCH,
	OPTION_DURATION,
	OPTION_REGION,
	OPTION_PLACE,
	OPTION_JSON
};

static int bytes_option(struct options *options, const char *name, const char *text,
			uint64_t max, uint64_t *ret_bytes)
{
	uint64_t bytes;

	if (units_parse_bytes(text, &bytes))
		return options_usage(options, "%s: %s", name, err_text());
	if (bytes == 0 || bytes > max)
		return options_usage(options, "%s: %s is out of its range", name, text);
	*ret_bytes = bytes;
	return 0;
}

static int bench_option(struct options *options, int opt, char **argv,
			struct bench_params *params, bool *json)
{
	switch (opt) {
	case OPTION_OP:
		if (strcmp(optarg, "read") == 0)
			params->opcode = RMEM_OP_READ;
		else if (strcmp(optarg, "write") == 0)
			params->opcode = RMEM_OP_WRITE;
		else
			return options_usage(options, "--op: '%s' is not read or write",
					     optarg);
		return 0;
	case OPTION_SIZE:
		return bytes_option(options, "--size", optarg, SIZE_MAX_BYTES,
				    &params->size_bytes);
	case OPTION_REGION:
		return bytes_option(options, "--region", optarg, UINT64_MAX,
				    &params->alloc.bytes);
	case OPTION_DEPTH:
		return options_number(options, "--depth", optarg, 1, RMEM_DEPTH_MAX,
				      &params->depth);
	case OPTION_BATCH:
		return options_number(options, "--batch", optarg, 1, RMEM_DEPTH_MAX,
				      &params->batch);
	case OPTION_DURATION:
		if (units_parse_ms(optarg, &params->duration_ms))
			return options_usage(options, "--duration: %s", err_text());
		if (params->duration_ms == 0 || params->duration_ms > DURATION_MAX_MS)
			return options_usage(
				options, "--duration: %s is out of its range", optarg);
		return 0;
	case OPTION_PLACE:
		return place_parse(options, optarg, &params->alloc);
	case OPTION_JSON:
		*json = true;
		return 0;
	default:
		return options_handle(options, opt, argv);
	}
}

static int bench_parse(struct options *options, int argc, char **argv,
		       struct bench_params *params, bool *json)
{
	static const struct option table[] = {
		{ "op", required_argument, NULL, OPTION_OP },
		{ "size", required_argument, NULL, OPTION_SIZE },
		{ "depth", required_argument, NULL, OPTION_DEPTH },
		{ "batch", required_argument, NULL, OPTION_BATCH },
		{ "duration", required_argument, NULL, OPTION_DURATION },
		{ "region", required_argument, NULL, OPTION_REGION },
		{ "place", required_argument, NULL, OPTION_PLACE },
		{ "json", no_argument, NULL, OPTION_JSON },
		OPTIONS_LONG,
	};
	int opt, err;

	while ((opt = getopt_long(argc, argv, ":" OPTIONS_SHORT, table, NULL)) != -1) {
		err = bench_option(options, opt, argv, params, json);
		if (err)
			return err;
	}
	if (optind < argc)
		return options_usage(options, "it takes no argument but options");
	if (params->batch > params->depth)
		return options_usage(options, "--batch %u is more than --depth %u",
				     params->batch, params->depth);
	if (!params->alloc.bytes)
		params->alloc.bytes = params->size_bytes > REGION_BYTES
					      ? params->size_bytes
					      : REGION_BYTES;
	if (params->alloc.bytes < params->size_bytes)
		return options_usage(options, "--region is smaller than --size");
	return 0;
}

static int session_bench(rmem *session, const struct bench_params *params, bool json)
{
	struct rmem_info info = { .size = sizeof(info) };
	struct bench_result *result;
	int err = rmem_info(session, &info);

	if (err)
		return session_failed(err);
	result = calloc(1, sizeof(*result));
	if (!result)
		return err_set(-ENOMEM, "out of memory");
	err = bench_measure(session, params, result);
	if (err)
		goto out;
	if (json)
		err = bench_print_json(params, &info, result);
	else
		bench_print_table(params, &info, result);
	if (!err && result->errors)
		err = err_set(-EIO, "%s", result->first_error);
out:
	free(result);
	return err;
}

static int bench_run(struct options *options, int argc, char **argv)
{
	struct bench_params params = {
		.options = options,
		.opcode = RMEM_OP_READ,
		.alloc = RMEM_ALLOC_INIT,
		.size_bytes = 65536,
		.depth = 16,
		.batch = 1,
		.duration_ms = 3000,
	};
	bool json = false;
	rmem *session;
	int err = bench_parse(options, argc, argv, &params, &json);

	if (err)
		return err;
	err = session_open(options, &session);
	if (err)
		return err;
	/* after a signal the results so far are printed */
	err = interrupt_catch();
	if (!err)
		err = session_bench(session, &params, json);
	rmem_close(session);
	return err;
}

const struct command bench_command = {
	.name = "bench",
	.synopsis = "bench [OPTION...]",
	.summary = "measure bandwidth, rate and latency of reads or writes",
	.details = "  --op OP             read or write (default read)\n"
		   "  --size BYTES        of one operation, as 4K (default 64K)\n"
		   "  --depth N           operations outstanding (default 16)\n"
		   "  --batch N           operations submitted at once (default 1)\n"
		   "  --duration T        how long, as 500ms or 10s (default 3s)\n"
		   "  --region BYTES      of memory to use in turn (default "
		   "64M)\n" PLACE_DETAILS
		   "  --json              one object instead of a table\n",
	.run = bench_run,
};
