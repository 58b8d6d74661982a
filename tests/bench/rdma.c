/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares librmem with a loop of bare verbs calls in alternating slices: bare, librmem, bare,
 * librmem ...  Each slice of librmem is compared with the mean of the bare slices before and
 * after it, and every second bare slice with the next one (A/A), which shows the noise.  Prints
 * medians as a line of JSON.
 *
 *   rdma URI --op read|write --bytes N --depth N [--slices N] [--slice-ms MS] [--rest-us US]
 *        [--yield] */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdma-loop.h"

#define SLICES_DEFAULT 120u
#define SLICES_MAX 10000u
#define SLICE_MS_DEFAULT 20u
#define WARM_UP 4u
#define PROBES 4u
#define OPERATIONS_MIN 8u
#define OPERATIONS_MAX 1000000.0

struct options {
	const char *uri;
	unsigned slices, slice_ms;
	const char *op;
	unsigned bytes, depth;
	unsigned rest_us; /* at depth 1 */
	bool yields;      /* as bench_env.yields */
};

/* Medians of one quantity. */
struct figure {
	double bare, librmem;
	double ratio; /* of librmem to bare */
	double aa;    /* of bare to bare */
};

struct cell {
	struct work work;
	struct figure bandwidth, latency;
};

_Noreturn void give_up(const char *what)
{
	(void)fprintf(stderr, "rdma: %s\n", what);
	exit(1);
}

/* ---- medians ---- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts `values`. */
static double median(double *values, unsigned n)
{
	qsort(values, n, sizeof(*values), compare);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* From n slices of each loop, in the order of their runs.  `scratch` has room for n. */
static struct figure figure_make(double *bare, double *librmem, unsigned n,
				 double *scratch)
{
	struct figure figure;

	for (unsigned i = 0; i < n; i++) {
		double after = i + 1 < n ? bare[i + 1] : bare[i];

		scratch[i] = librmem[i] * 2 / (bare[i] + after);
	}
	figure.ratio = median(scratch, n);
	/* the quotient is inverted every second time, so that a drift cancels out */
	for (unsigned i = 0; i < n / 2; i++)
		scratch[i] = i % 2 ? bare[2 * i] / bare[2 * i + 1]
				   : bare[2 * i + 1] / bare[2 * i];
	figure.aa = median(scratch, n / 2);
	figure.bare = median(bare, n);
	figure.librmem = median(librmem, n);
	return figure;
}

/* ---- one cell ---- */

static double megabytes_per_second(const struct work *work, const struct slice *slice)
{
	return (double)work->bytes * work->n / slice->seconds / 1e6;
}

/* Set the number of operations, a multiple of `depth`, so that a slice lasts about slice_ms. */
static void work_size(struct bench_env *env, struct work *work, unsigned slice_ms)
{
	unsigned at_least = work->depth > OPERATIONS_MIN ? work->depth : OPERATIONS_MIN;
	struct slice slice;
	double n, best;

	for (work->n = at_least;; work->n *= 4) {
		bare_run(env, work, &slice);
		best = slice.seconds;
		/* the shortest run has the least disturbance */
		for (unsigned i = 0; i < PROBES; i++) {
			bare_run(env, work, &slice);
			if (slice.seconds < best)
				best = slice.seconds;
		}
		n = work->n * (slice_ms / 1e3) / best;
		if (best * 1e3 * 4 >= slice_ms || n >= OPERATIONS_MAX)
			break;
	}
	if (n > OPERATIONS_MAX)
		n = OPERATIONS_MAX;
	work->n = ((unsigned)n + work->depth - 1) / work->depth * work->depth;
	if (work->n < at_least)
		work->n = at_least;
}

static void cell_measure(struct bench_env *env, struct cell *cell, unsigned slices)
{
	const struct work *work = &cell->work;
	double *values = calloc(5 * (size_t)slices, sizeof(*values));
	double *bare_mbs = values, *bare_us = values + slices;
	double *mbs = values + 2 * slices, *us = values + 3 * slices;
	struct slice slice;

	if (!values)
		give_up("out of memory");
	for (unsigned i = 0; i < WARM_UP; i++) {
		bare_run(env, work, &slice);
		library_run(env, work, &slice);
	}
	for (unsigned i = 0; i < slices; i++) {
		bare_run(env, work, &slice);
		bare_mbs[i] = megabytes_per_second(work, &slice);
		bare_us[i] = slice.latency_us;
		library_run(env, work, &slice);
		mbs[i] = megabytes_per_second(work, &slice);
		us[i] = slice.latency_us;
	}
	cell->bandwidth = figure_make(bare_mbs, mbs, slices, values + 4 * slices);
	cell->latency = figure_make(bare_us, us, slices, values + 4 * slices);
	free(values);
}

static void figure_print(const char *name, const struct figure *figure)
{
	(void)printf(
		"\"%s\":{\"bare\":%.3f,\"librmem\":%.3f,\"ratio\":%.4f,\"aa\":%.4f}",
		name, figure->bare, figure->librmem, figure->ratio, figure->aa);
}

static void cell_run(struct bench_env *env, const struct options *options)
{
	struct cell cell = {
		.work = { .write = !strcmp(options->op, "write"),
			  .bytes = options->bytes,
			  .depth = options->depth,
			  .rest_us = options->depth == 1 ? options->rest_us : 0 },
	};
	const struct work *work = &cell.work;

	work_size(env, &cell.work, options->slice_ms);
	cell_measure(env, &cell, options->slices);
	(void)printf("{\"op\":\"%s\",\"bytes\":%u,\"depth\":%u,\"slices\":%u,"
		     "\"operations\":%u,",
		     work->write ? "write" : "read", work->bytes, work->depth,
		     options->slices, work->n);
	figure_print("bandwidth", &cell.bandwidth);
	(void)printf(",");
	figure_print("latency", &cell.latency);
	(void)printf("}\n");
	(void)fflush(stdout);
}

/* ---- arguments ---- */

static bool number_parse(const char *text, unsigned min, unsigned max,
			 unsigned *ret_number)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (*end || number < min || number > max)
		return false;
	*ret_number = (unsigned)number;
	return true;
}

static bool options_parse(int argc, char **argv, struct options *options)
{
	static const struct option names[] = {
		{ "slices", required_argument, NULL, 's' },
		{ "slice-ms", required_argument, NULL, 'm' },
		{ "op", required_argument, NULL, 'o' },
		{ "bytes", required_argument, NULL, 'b' },
		{ "depth", required_argument, NULL, 'd' },
		{ "rest-us", required_argument, NULL, 'r' },
		{ "yield", no_argument, NULL, 'y' },
		{ 0 },
	};
	bool ok = true;
	int c;

	*options = (struct options){ .slices = SLICES_DEFAULT,
				     .slice_ms = SLICE_MS_DEFAULT };
	while (ok && (c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (c == 's')
			ok = number_parse(optarg, 2, SLICES_MAX, &options->slices);
		else if (c == 'm')
			ok = number_parse(optarg, 1, 1000, &options->slice_ms);
		else if (c == 'o')
			options->op = optarg;
		else if (c == 'b')
			ok = number_parse(optarg, 1, LOOP_BYTES_MAX, &options->bytes);
		else if (c == 'd')
			ok = number_parse(optarg, 1, LOOP_DEPTH_MAX, &options->depth);
		else if (c == 'r')
			ok = number_parse(optarg, 0, 100000, &options->rest_us);
		else if (c == 'y')
			options->yields = true;
		else
			ok = false;
	}
	if (!ok || optind + 1 != argc || !options->op || !options->bytes ||
	    !options->depth ||
	    (strcmp(options->op, "read") != 0 && strcmp(options->op, "write") != 0))
		return false;
	options->uri = argv[optind];
	return true;
}

int main(int argc, char **argv)
{
	struct bench_env env = { 0 };
	struct options options;

	if (!options_parse(argc, argv, &options)) {
		(void)fprintf(
			stderr,
			"usage: rdma URI --op read|write --bytes N --depth N "
			"[--slices N] [--slice-ms MS] [--rest-us US] [--yield]\n");
		return 2;
	}
	env.yields = options.yields;
	/* siw raises SIGPIPE in a thread that posts after the peer has closed the connection.
	 * librmem blocks the signal for its own posts, at a cost, unless it is ignored */
	(void)signal(SIGPIPE, SIG_IGN);
	library_open(&env, options.uri);
	bare_open(&env);
	cell_run(&env, &options);
	bare_close(&env);
	library_close(&env);
	return 0;
}
