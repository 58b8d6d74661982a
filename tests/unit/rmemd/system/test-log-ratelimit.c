/* SPDX-License-Identifier: BSD-3-Clause */
/* The limit of equal events in the log. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "rmemd/system/log_ratelimit.h"
#include "unit/unit.h"

static uint64_t now_ms;
static unsigned lines;
static char last[128], last_tenant[64];

static uint64_t fake_clock(void)
{
	return now_ms * 1000000;
}

static void record_line(int level, const char *event, const struct log_ctx *ctx,
			const char *text)
{
	lines++;
	(void)snprintf(last, sizeof(last), "%d %s: %s%s", level, event, text,
		       !ctx           ? ""
		       : !ctx->tenant ? " with fields"
		       : ctx->session ? " with tenant"
				      : " of tenant");
	(void)snprintf(last_tenant, sizeof(last_tenant), "%s",
		       ctx && ctx->tenant ? ctx->tenant : "");
}

static void setup(void)
{
	now_ms = 1000000;
	lines = 0;
	clock_set_source(fake_clock);
	(void)log_ratelimit_open(LOG_RATELIMIT_LOG, record_line);
	log_set_sink(log_ratelimit_sink);
}

static void teardown(void)
{
	log_set_sink(NULL);
	log_set_level(LOG_INFO);
	clock_set_source(NULL);
}

static void log_n(int level, const char *event, unsigned n)
{
	const struct log_ctx ctx = { .session = 1 };

	for (unsigned i = 0; i < n; i++)
		log_event(level, event, &ctx, "hello");
}

START_TEST(lines__of_one_event_have_a_limit)
{
	log_n(LOG_INFO, "session-opened", 100);
	ck_assert_uint_eq(lines, 100);
	ck_assert_str_eq(last, "6 session-opened: hello with fields");
	log_n(LOG_INFO, "session-opened", 50000);
	ck_assert_uint_eq(lines, 100);
	/* other events are not suppressed */
	log_n(LOG_NOTICE, "session-fenced", 1);
	ck_assert_uint_eq(lines, 101);
	log_ratelimit_flush();
	ck_assert_uint_eq(lines, 101);
	now_ms += 10000;
	log_n(LOG_INFO, "session-opened", 1);
	ck_assert_uint_eq(lines, 103);
	ck_assert_str_eq(last, "6 session-opened: hello with fields");
}
END_TEST

START_TEST(flush__logs_the_number_of_suppressed_lines)
{
	log_n(LOG_NOTICE, "lease-expired", 107);
	ck_assert_uint_eq(lines, 100);
	now_ms += 10000;
	log_ratelimit_flush();
	ck_assert_uint_eq(lines, 101);
	ck_assert_str_eq(last, "5 lease-expired: 7 more suppressed");
	log_ratelimit_flush();
	ck_assert_uint_eq(lines, 101);
	log_n(LOG_NOTICE, "lease-expired", 101);
	ck_assert_uint_eq(lines, 201);
}
END_TEST

static void log_tenant(const char *tenant, const char *event, unsigned n)
{
	const struct log_ctx ctx = { .session = 1, .tenant = tenant };

	for (unsigned i = 0; i < n; i++)
		log_event(LOG_NOTICE, event, &ctx, "hello");
}

START_TEST(lines__of_one_tenant_hide_no_others)
{
	char loud[] = "loud";

	log_tenant(loud, "session-fenced", 50000);
	ck_assert_uint_eq(lines, 100);
	/* the name of a tenant may be freed between its lines */
	memcpy(loud, "gone", sizeof(loud));
	log_tenant("quiet", "session-fenced", 1);
	ck_assert_uint_eq(lines, 101);
	ck_assert_str_eq(last_tenant, "quiet");
	log_n(LOG_NOTICE, "session-fenced", 1);
	ck_assert_uint_eq(lines, 102);
	log_tenant("loud", "session-fenced", 1);
	ck_assert_uint_eq(lines, 102);
	now_ms += 10000;
	log_ratelimit_flush();
	ck_assert_uint_eq(lines, 103);
	ck_assert_str_eq(last, "5 session-fenced: 49901 more suppressed of tenant");
	ck_assert_str_eq(last_tenant, "loud");
}
END_TEST

/* More tenants than there is memory for share a limit in one period, and the next has places
 * again. */
START_TEST(tenants__in_any_number_are_limited)
{
	char name[16];

	for (unsigned i = 0; i < 10000; i++) {
		(void)snprintf(name, sizeof(name), "t%u", i);
		log_tenant(name, "session-fenced", 1);
	}
	ck_assert_uint_eq(lines, 1024 + 100);
	now_ms += 10000;
	log_ratelimit_flush();
	ck_assert_uint_eq(lines, 1024 + 100 + 1);
	ck_assert_str_eq(last, "5 other-events: 8876 more suppressed");
	log_tenant("late", "session-fenced", 200);
	ck_assert_uint_eq(lines, 1024 + 100 + 1 + 100);
	log_tenant("later", "session-fenced", 1);
	ck_assert_uint_eq(lines, 1024 + 100 + 1 + 101);
}
END_TEST

START_TEST(debug_lines__have_no_limit)
{
	log_set_level(LOG_DEBUG);
	log_n(LOG_DEBUG, "lease-freed", 1000);
	ck_assert_uint_eq(lines, 1000);
}
END_TEST

/* A flood of refused requests hides no act, and acts count for no limit. */
START_TEST(acts__have_no_limit_and_no_level)
{
	const struct log_ctx act = { .act = true };

	log_n(LOG_WARNING, "admin-acts", 1000);
	ck_assert_uint_eq(lines, 100);
	log_set_level(LOG_ERR);
	for (unsigned i = 0; i < 1000; i++)
		log_event(LOG_NOTICE, "admin-acts", &act, "hello");
	ck_assert_uint_eq(lines, 1100);
	ck_assert_str_eq(last, "5 admin-acts: hello with fields");
}
END_TEST

START_TEST(different_events__have_no_limit)
{
	static char names[200][8];

	for (unsigned i = 0; i < 200; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "e%u", i);
		log_n(LOG_INFO, names[i], 1);
	}
	ck_assert_uint_eq(lines, 200);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("log-ratelimit", setup, teardown);

	tcase_add_test(tc, lines__of_one_event_have_a_limit);
	tcase_add_test(tc, flush__logs_the_number_of_suppressed_lines);
	tcase_add_test(tc, lines__of_one_tenant_hide_no_others);
	tcase_add_test(tc, tenants__in_any_number_are_limited);
	tcase_add_test(tc, debug_lines__have_no_limit);
	tcase_add_test(tc, acts__have_no_limit_and_no_level);
	tcase_add_test(tc, different_events__have_no_limit);
	return unit_main();
}
