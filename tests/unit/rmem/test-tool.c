/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of the client tool that need no server. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "rmem/histogram.h"
#include "rmem/options.h"
#include "rmem/progress.h"
#include "rmem/visible.h"
#include "unit/unit.h"

static struct histogram histogram;

static void histogram_clear(void)
{
	memset(&histogram, 0, sizeof(histogram));
}

START_TEST(histogram__is_empty_at_first)
{
	ck_assert_uint_eq(histogram_quantile(&histogram, 0.5), 0);
	ck_assert_double_eq(histogram_mean(&histogram), 0);
}
END_TEST

START_TEST(histogram__is_exact_for_small_values)
{
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

START_TEST(histogram__merges_all_values)
{
	static struct histogram other;

	other = (struct histogram){ 0 };
	histogram_merge(&histogram, &other);
	ck_assert_uint_eq(histogram.count, 0);
	histogram_add(&other, 7);
	histogram_add(&other, 9);
	histogram_merge(&histogram, &other);
	ck_assert_uint_eq(histogram.min, 7);
	histogram_add(&histogram, 5);
	histogram_add(&histogram, 1000);
	histogram_merge(&histogram, &other);
	ck_assert_uint_eq(histogram.count, 6);
	ck_assert_uint_eq(histogram.min, 5);
	ck_assert_uint_eq(histogram.max, 1000);
	ck_assert_double_eq(histogram_mean(&histogram),
			    (5 + 2 * 7 + 2 * 9 + 1000) / 6.0);
	ck_assert_uint_eq(histogram_quantile(&histogram, 0.5), 7);
	ck_assert_uint_eq(histogram_quantile(&histogram, 0.8), 9);
}
END_TEST

/* A quantile is exact, or up to one part in 64 more. */
START_TEST(histogram__is_precise_for_all_values)
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

START_TEST(histogram__quantiles_are_not_above_the_maximum)
{
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
	{ "h:1", NULL, "h:1", 0 },
	{ "[::1]:7460", "tcp", "[::1]:7460?fabric=tcp", 0 },
	{ "rmem://h?fabric=rdma", NULL, "rmem://h?fabric=rdma", 0 },
	/* the library refuses an option that is there twice */
	{ "rmem://h?fabric=rdma", "tcp", "rmem://h?fabric=tcp", 0 },
	{ "rmem://h?channels=2", "auto", "rmem://h?fabric=auto&channels=64", 64 },
	{ "h?channels=2&tenant=a&fabric=tcp&mtu=256", "rdma",
	  "h?tenant=a&mtu=256&fabric=rdma&channels=3", 3 },
	{ "h?fabric=rdma&channels=2", NULL, "h?fabric=rdma&channels=4", 4 },
	/* librmem refuses invalid options */
	{ "rmem://h?fabric=x", "tcp", "rmem://h?fabric=x&fabric=tcp", 0 },
	{ "rmem://h?channels=65", NULL, "rmem://h?channels=65&channels=3", 3 },
	{ "rmem://h?fabrics=x", "tcp", "rmem://h?fabrics=x&fabric=tcp", 0 },
	{ "rmem://h?", NULL, "rmem://h?", 0 },
	{ "rmem://h?a&", "tcp", "rmem://h?a&&fabric=tcp", 0 },
};

START_TEST(uri__has_the_options_at_its_end)
{
	char uri[128];

	options.server = uris[_i].server;
	options.fabric = uris[_i].fabric;
	options.channels = uris[_i].channels;

	ck_assert_int_eq(options_uri(uri, sizeof(uri)), 0);
	ck_assert_str_eq(uri, uris[_i].uri);
}
END_TEST

START_TEST(uri__that_does_not_fit_is_refused)
{
	char uri[sizeof("rmem://h?mtu=512&fabric=tcp")];

	options.server = "rmem://h?mtu=512";
	options.fabric = "tcp";

	for (size_t capacity = 1; capacity < sizeof(uri); capacity++) {
		options.bad_usage = false;
		ck_assert_int_eq(options_uri(uri, capacity), -EINVAL);
		ck_assert(options.bad_usage);
		ck_assert_uint_lt(strlen(uri), capacity);
	}
	ck_assert_int_eq(options_uri(uri, sizeof(uri)), 0);
}
END_TEST

static int parse(const char *a, const char *b)
{
	/* static: the parsed options point to the text */
	static char name[] = "command", first[32], second[32];
	char *argv[] = { name, first, second, NULL };

	strcpy(first, a);
	if (b)
		strcpy(second, b);
	else
		argv[2] = NULL;
	return option_parse(options_table, false, b ? 3 : 2, argv);
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

START_TEST(options__that_are_invalid_are_refused)
{
	ck_assert_int_eq(parse(bad[_i].a, bad[_i].b), -EINVAL);
	ck_assert_str_eq(err_text(), bad[_i].text);
}
END_TEST

START_TEST(options__that_are_valid_are_stored)
{
	ck_assert_int_eq(parse("--channels", "64"), 0);
	ck_assert_uint_eq(options.channels, 64);
	ck_assert_int_eq(parse("--fabric=rdma", NULL), 0);
	ck_assert_str_eq(options.fabric, "rdma");
	ck_assert_int_eq(parse("-v", NULL), 0);
	ck_assert(options.verbose);
	ck_assert_int_eq(parse("--help", NULL), OPTION_ENDED);
	ck_assert(options.help && !options.version);
}
END_TEST

#define SECOND UINT64_C(1000000000)

START_TEST(progress__has_percentage_rate_and_time_left)
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

START_TEST(progress__has_no_bar_without_columns_or_total)
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

/* Pieces end anywhere, also in a character. */
START_TEST(visible__is_text_in_any_pieces)
{
	static const struct {
		const char *text;
		bool good;
	} texts[] = {
		{ "one\ttwo\r\n", true },
		{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80!", true },
		{ "one\x1b[2J", false },
		{ "a\xc2\x9b"
		  "31m",
		  false },
		{ "\x9b", false },
		{ "a\x7f", false },
		{ "a\xe2\x80\xae"
		  "b",
		  false },
		{ "a\xe2\x82xyz", false },
		{ "\xc3\x1b", false },
		{ "cut\xc3", false },
		{ "cut\xf0\x9f\x98", false },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		for (size_t unit = 1; unit < 16; unit++) {
			struct visible visible = { .n_cut = 0 };
			const char *at = texts[i].text;
			size_t left = strlen(at);
			bool good = true;

			for (; good && left > 0;) {
				size_t n = unit < left ? unit : left;

				good = visible_check(&visible, at, n, n == left);
				at += n;
				left -= n;
			}
			ck_assert_msg(good == texts[i].good, "%zu in pieces of %zu", i,
				      unit);
		}
	ck_assert(!visible_check(&(struct visible){ .n_cut = 0 }, "a\0b", 3, true));
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("tool", histogram_clear, NULL);

	tcase_add_test(tc, histogram__is_empty_at_first);
	tcase_add_test(tc, histogram__is_exact_for_small_values);
	tcase_add_test(tc, histogram__merges_all_values);
	tcase_add_test(tc, histogram__is_precise_for_all_values);
	tcase_add_test(tc, histogram__quantiles_are_not_above_the_maximum);
	tcase_add_loop_test(tc, uri__has_the_options_at_its_end, 0,
			    sizeof(uris) / sizeof(uris[0]));
	tcase_add_test(tc, uri__that_does_not_fit_is_refused);
	tcase_add_loop_test(tc, options__that_are_invalid_are_refused, 0,
			    sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(tc, options__that_are_valid_are_stored);
	tcase_add_test(tc, progress__has_percentage_rate_and_time_left);
	tcase_add_test(tc, progress__has_no_bar_without_columns_or_total);
	tcase_add_test(tc, visible__is_text_in_any_pieces);
	return unit_main();
}
