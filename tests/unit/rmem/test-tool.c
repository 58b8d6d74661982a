/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of the client tool that need no server. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "rmem/histogram.h"
#include "rmem/options.h"
#include "rmem/progress.h"
#include "unit/unit.h"

static struct histogram histogram;

static void histogram_clear(void)
{
	memset(&histogram, 0, sizeof(histogram));
}

START_TEST(histogram__is_empty_at_first)
{
	histogram_clear();
	ck_assert_uint_eq(histogram_quantile(&histogram, 0.5), 0);
	ck_assert_double_eq(histogram_mean(&histogram), 0);
}
END_TEST

START_TEST(histogram__is_exact_for_small_values)
{
	histogram_clear();
	for (uint64_t v = 1; v <= 100; v++)
		histogram_add(&histogram, v);
	ck_assert_uint_eq(histogram.min, 1);
	ck_assert_uint_eq(histogram.max, 100);
	ck_assert_uint_eq(histogram_quantile(&histogram, 0), 1);
	ck_assert_uint_eq(histogram_quantile(&histogram, 0.5), 50);
	ck_assert_uint_eq(histogram_quantile(&histogram, 0.99), 99);
	ck_assert_uint_eq(histogram_quantile(&histogram, 1), 100);
	ck_assert_double_eq(histogram_mean(&histogram), 50.5);
}
END_TEST

/* Any value comes back as itself or at most one part in 64 more. */
START_TEST(histogram__keeps_its_precision_everywhere)
{
	for (unsigned bit = 0; bit < 64; bit++) {
		uint64_t base = UINT64_C(1) << bit;
		uint64_t values[] = { base, base + base / 3, base + (base - 1) };

		for (size_t i = 0; i < 3; i++) {
			uint64_t got;

			histogram_clear();
			histogram_add(&histogram, values[i]);
			histogram_add(&histogram, UINT64_MAX);
			got = histogram_quantile(&histogram, 0.5);
			ck_assert_uint_ge(got, values[i]);
			ck_assert_uint_le(got - values[i], values[i] / HISTOGRAM_SUB);
		}
	}
}
END_TEST

START_TEST(histogram__tail_is_not_above_the_maximum)
{
	histogram_clear();
	for (unsigned i = 0; i < 999; i++)
		histogram_add(&histogram, 1000);
	histogram_add(&histogram, 1000001);
	ck_assert_uint_lt(histogram_quantile(&histogram, 0.999), 1016);
	ck_assert_uint_eq(histogram_quantile(&histogram, 1), 1000001);
}
END_TEST

static const struct {
	const char *server, *fabric, *uri;
	unsigned channels;
} uris[] = {
	{ "rmem://h", NULL, "rmem://h", 0 },
	{ "h:1", NULL, "rmem://h:1", 0 },
	{ "[::1]:7460", "tcp", "rmem://[::1]:7460?fabric=tcp", 0 },
	{ "rmem://h?fabric=rdma", NULL, "rmem://h?fabric=rdma", 0 },
	/* the last one counts */
	{ "rmem://h?fabric=rdma", "tcp", "rmem://h?fabric=rdma&fabric=tcp", 0 },
	{ "rmem://h?channels=2", "auto", "rmem://h?channels=2&fabric=auto&channels=64",
	  64 },
	/* what is wrong is left for librmem to refuse */
	{ "rmem://h?fabric=x", "tcp", "rmem://h?fabric=x&fabric=tcp", 0 },
};

START_TEST(uri__options_come_last)
{
	struct options options = {
		.server = uris[_i].server,
		.fabric = uris[_i].fabric,
		.channels = uris[_i].channels,
	};
	char uri[128];

	ck_assert_int_eq(options_uri(&options, uri, sizeof(uri)), 0);
	ck_assert_str_eq(uri, uris[_i].uri);
}
END_TEST

START_TEST(uri__refuses_what_does_not_fit)
{
	struct options options = { .server = "rmem://h?channels=2", .fabric = "tcp" };
	char uri[sizeof("rmem://h?channels=2&fabric=tcp")];

	for (size_t room = 1; room < sizeof(uri); room++) {
		options.bad_usage = false;
		ck_assert_int_eq(options_uri(&options, uri, room), -EINVAL);
		ck_assert(options.bad_usage);
		ck_assert_uint_lt(strlen(uri), room);
	}
	ck_assert_int_eq(options_uri(&options, uri, sizeof(uri)), 0);
}
END_TEST

static int parse(struct options *options, const char *a, const char *b)
{
	/* options point into it */
	static char name[] = "command", first[32], second[32];
	char *argv[] = { name, first, second, NULL };

	strcpy(first, a);
	strcpy(second, b ? b : "");
	if (!b)
		argv[2] = NULL;
	optind = 0;
	return options_parse(options, b ? 3 : 2, argv);
}

static const struct {
	const char *a, *b, *text;
} bad[] = {
	{ "--channels", "0", "--channels: 0 is not from 1 to 64" },
	{ "--channels", "65", "--channels: 65 is not from 1 to 64" },
	{ "--channels", "two", "--channels: 'two' is not a number" },
	{ "--channels", NULL, "--channels needs a value" },
	{ "--fabric", "ib", "--fabric: 'ib' is not auto, rdma or tcp" },
	{ "--speed", NULL, "unknown option --speed" },
	{ "-vx", NULL, "unknown option -x" },
	{ "--verbose=1", NULL, "--verbose=1: the option takes no value" },
	{ "-s", NULL, "-s needs a value" },
};

START_TEST(options__refuse_what_is_wrong)
{
	struct options options = { 0 };

	ck_assert_int_eq(parse(&options, bad[_i].a, bad[_i].b), -EINVAL);
	ck_assert(options.bad_usage);
	ck_assert_str_eq(err_text(), bad[_i].text);
}
END_TEST

START_TEST(options__take_what_is_right)
{
	struct options options = { 0 };

	ck_assert_int_eq(parse(&options, "--channels", "64"), 0);
	ck_assert_uint_eq(options.channels, 64);
	ck_assert_int_eq(parse(&options, "--fabric=rdma", NULL), 0);
	ck_assert_str_eq(options.fabric, "rdma");
	ck_assert_int_eq(parse(&options, "-v", NULL), 0);
	ck_assert(options.verbose);
	ck_assert_int_eq(parse(&options, "--help", NULL), OPTIONS_STOP);
	ck_assert(options.help && !options.version && !options.bad_usage);
}
END_TEST

#define SECOND UINT64_C(1000000000)

START_TEST(progress__tells_share_rate_and_time_left)
{
	struct progress p = { .title = "name", .total_bytes = 400 << 20 };
	char line[256];

	progress_format(&p, 100 << 20, 10 * SECOND, 80, line, sizeof(line));
	ck_assert_ptr_nonnull(strstr(line, "name  [#"));
	ck_assert_ptr_nonnull(strstr(line, " 25 %  100 MiB  10 MiB/s  ETA 00:30"));
	ck_assert_uint_lt(strlen(line), 80);
	progress_format(&p, 100 << 20, 3610 * SECOND, 200, line, sizeof(line));
	ck_assert_ptr_nonnull(strstr(line, "ETA 3:00:30"));
	progress_format(&p, 0, 2 * SECOND, 200, line, sizeof(line));
	ck_assert_ptr_nonnull(strstr(line, "ETA --:--"));
}
END_TEST

START_TEST(progress__does_without_bar_or_total)
{
	struct progress p = { .title = "name", .total_bytes = 4096 };
	char line[256];

	progress_format(&p, 4096, SECOND, 20, line, sizeof(line));
	ck_assert_ptr_null(strchr(line, '['));
	ck_assert_ptr_nonnull(strstr(line, "100 %"));
	p.total_bytes = 0;
	progress_format(&p, 8192, 2 * SECOND, 80, line, sizeof(line));
	ck_assert_str_eq(line, "name  8 KiB  4 KiB/s");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tool");
	TCase *tc = tcase_create("tool");

	tcase_add_test(tc, histogram__is_empty_at_first);
	tcase_add_test(tc, histogram__is_exact_for_small_values);
	tcase_add_test(tc, histogram__keeps_its_precision_everywhere);
	tcase_add_test(tc, histogram__tail_is_not_above_the_maximum);
	tcase_add_loop_test(tc, uri__options_come_last, 0,
			    sizeof(uris) / sizeof(uris[0]));
	tcase_add_test(tc, uri__refuses_what_does_not_fit);
	tcase_add_loop_test(tc, options__refuse_what_is_wrong, 0,
			    sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(tc, options__take_what_is_right);
	tcase_add_test(tc, progress__tells_share_rate_and_time_left);
	tcase_add_test(tc, progress__does_without_bar_or_total);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
