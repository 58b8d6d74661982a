/* SPDX-License-Identifier: BSD-3-Clause */
/* The log when clients do the same thing over and over. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "rmemd/system/log_ratelimit.h"
#include "unit/unit.h"

static uint64_t now_ms;
static unsigned lines;
static char last[128];

static uint64_t fake_clock(void)
{
	return now_ms * 1000000;
}

static void sink(int level, const char *event, const struct log_ctx *ctx,
		 const char *text)
{
	lines++;
	(void)snprintf(last, sizeof(last), "%d %s: %s%s", level, event, text,
		       ctx ? " with fields" : "");
}

static void setup(void)
{
	now_ms = 1000000;
	lines = 0;
	clock_set_source(fake_clock);
	log_ratelimit_open(sink);
	log_set_sink(log_ratelimit_sink);
}

static void teardown(void)
{
	log_set_sink(NULL);
	log_set_level(LOG_INFO);
	clock_set_source(NULL);
}

static void say(int level, const char *event, unsigned n)
{
	const struct log_ctx ctx = { .session = 1 };

	for (unsigned i = 0; i < n; i++)
		log_event(level, event, &ctx, "hello");
}

START_TEST(lines__of_one_event_are_counted_when_too_many)
{
	say(LOG_INFO, "session-opened", 100);
	ck_assert_uint_eq(lines, 100);
	ck_assert_str_eq(last, "6 session-opened: hello with fields");
	say(LOG_INFO, "session-opened", 50000);
	ck_assert_uint_eq(lines, 100);
	/* others are not held back for it */
	say(LOG_NOTICE, "session-fenced", 1);
	ck_assert_uint_eq(lines, 101);
	log_ratelimit_flush();
	ck_assert_uint_eq(lines, 101);
	now_ms += 10000;
	say(LOG_INFO, "session-opened", 1);
	ck_assert_uint_eq(lines, 103);
	ck_assert_str_eq(last, "6 session-opened: hello with fields");
}
END_TEST

START_TEST(flush__tells_what_was_held_back)
{
	say(LOG_NOTICE, "lease-expired", 107);
	ck_assert_uint_eq(lines, 100);
	now_ms += 10000;
	log_ratelimit_flush();
	ck_assert_uint_eq(lines, 101);
	ck_assert_str_eq(last, "5 lease-expired: 7 more suppressed");
	log_ratelimit_flush();
	ck_assert_uint_eq(lines, 101);
	say(LOG_NOTICE, "lease-expired", 101);
	ck_assert_uint_eq(lines, 201);
}
END_TEST

START_TEST(debug_lines__all_pass)
{
	log_set_level(LOG_DEBUG);
	say(LOG_DEBUG, "lease-freed", 1000);
	ck_assert_uint_eq(lines, 1000);
}
END_TEST

START_TEST(events__of_any_number_pass)
{
	static char names[200][8];

	for (unsigned i = 0; i < 200; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "e%u", i);
		say(LOG_INFO, names[i], 1);
	}
	ck_assert_uint_eq(lines, 200);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("throttle");
	TCase *tc = tcase_create("throttle");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, lines__of_one_event_are_counted_when_too_many);
	tcase_add_test(tc, flush__tells_what_was_held_back);
	tcase_add_test(tc, debug_lines__all_pass);
	tcase_add_test(tc, events__of_any_number_pass);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
