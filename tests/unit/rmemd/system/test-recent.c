/* SPDX-License-Identifier: BSD-3-Clause */
/* The events that are kept for the administrator. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "rmemd/system/log_ratelimit.h"
#include "rmemd/system/recent.h"
#include "unit/unit.h"

static uint64_t now_ms;
static unsigned lines, watched;

static uint64_t fake_clock(void)
{
	return now_ms * NS_PER_MS;
}

static void count_line(int level, const char *event, const struct log_ctx *ctx,
		       const char *text)
{
	(void)level;
	(void)event;
	(void)ctx;
	(void)text;
	lines++;
}

static void setup(void)
{
	now_ms = 1000000;
	lines = watched = 0;
	clock_set_source(fake_clock);
	log_set_sink(count_line);
	log_set_level(LOG_WARNING);
	recent_open(0);
}

static void teardown(void)
{
	log_set_tap(NULL);
	log_set_sink(NULL);
	log_set_level(LOG_INFO);
	clock_set_source(NULL);
}

START_TEST(events__are_kept_whatever_the_level_of_the_log)
{
	const struct log_ctx ctx = { .session = 5,
				     .lease = 6,
				     .tenant = "blue",
				     .peer = "[::1]:7",
				     .pool = "p",
				     .device = "rxe0" };
	const struct recent_event *event;

	ck_assert_ptr_null(recent_after(0));
	log_event(LOG_DEBUG, "lease-granted", &ctx, "%d bytes", 9);
	log_event(LOG_WARNING, "other", NULL, "text");
	ck_assert_uint_eq(lines, 1);
	ck_assert_uint_eq(recent_last(), 2);
	event = recent_after(0);
	ck_assert_uint_eq(event->number, 1);
	ck_assert_int_eq(event->level, LOG_DEBUG);
	ck_assert_str_eq(event->event, "lease-granted");
	ck_assert_str_eq(event->text, "9 bytes");
	ck_assert_uint_eq(event->session, 5);
	ck_assert_uint_eq(event->lease, 6);
	ck_assert_str_eq(event->tenant, "blue");
	ck_assert_str_eq(event->peer, "[::1]:7");
	ck_assert_str_eq(event->pool, "p");
	ck_assert_str_eq(event->device, "rxe0");
	ck_assert_uint_gt(event->time_ms, UINT64_C(1600000000000));
	event = recent_after(1);
	ck_assert_uint_eq(event->number, 2);
	ck_assert_uint_eq(event->session, 0);
	ck_assert_str_eq(event->tenant, "");
	ck_assert_ptr_null(recent_after(2));
	ck_assert_ptr_null(recent_after(UINT64_MAX));
}
END_TEST

START_TEST(texts__are_cut_between_characters)
{
	char text[2 * RECENT_TEXT_BYTES] = "";
	const struct recent_event *event;

	for (size_t i = 0; i + 2 < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xa4", 3);
	log_event(LOG_INFO, "long", NULL, "%s", text);
	event = recent_after(0);
	ck_assert_uint_eq(strlen(event->text), RECENT_TEXT_BYTES - 2);
}
END_TEST

START_TEST(ring__keeps_the_last_ones)
{
	/* a period each, so that none is over the limit */
	for (unsigned i = 0; i < RECENT_MAX + 10; i++) {
		log_event(LOG_INFO, "event", NULL, "%u", i);
		now_ms += LOG_RATELIMIT_PERIOD_MS;
	}
	ck_assert_uint_eq(recent_last(), RECENT_MAX + 10);
	ck_assert_uint_eq(recent_after(0)->number, 11);
	ck_assert_str_eq(recent_after(0)->text, "10");
	ck_assert_uint_eq(recent_after(10)->number, 11);
	ck_assert_uint_eq(recent_after(RECENT_MAX + 9)->number, RECENT_MAX + 10);
}
END_TEST

/* A tenant that does something all the time does not hide the others. */
START_TEST(tenant__has_a_limit)
{
	const struct log_ctx busy = { .tenant = "busy" }, other = { .tenant = "other" };

	for (unsigned i = 0; i < 10 * RECENT_MAX; i++)
		log_event(LOG_DEBUG, "lease-granted", &busy, "x");
	log_event(LOG_DEBUG, "lease-granted", &other, "y");
	ck_assert_uint_eq(recent_last(), LOG_RATELIMIT_LINES + 1);
	now_ms += LOG_RATELIMIT_PERIOD_MS;
	log_ratelimit_flush();
	ck_assert_uint_eq(recent_last(), LOG_RATELIMIT_LINES + 2);
	ck_assert_str_eq(recent_after(recent_last() - 1)->text,
			 "40860 more suppressed");
	ck_assert_str_eq(recent_after(recent_last() - 1)->tenant, "busy");
}
END_TEST

/* Administrators' acts are all kept, and clients do not push them out. */
START_TEST(acts__have_room_of_their_own)
{
	const struct log_ctx act = { .act = true };

	log_event(LOG_INFO, "event", NULL, "first");
	for (unsigned i = 0; i < 2 * LOG_RATELIMIT_LINES; i++)
		log_event(LOG_NOTICE, "admin-acts", &act, "%u", i);
	/* also beyond the level of the log */
	ck_assert_uint_eq(lines, 2 * LOG_RATELIMIT_LINES);
	for (unsigned i = 0; i < 2 * RECENT_MAX; i++) {
		log_event(LOG_INFO, "event", NULL, "%u", i);
		now_ms += LOG_RATELIMIT_PERIOD_MS;
	}
	for (unsigned i = 0; i < 2 * LOG_RATELIMIT_LINES; i++) {
		const struct recent_event *event = recent_after(i ? i + 1 : 0);

		ck_assert_uint_eq(event->number, i + 2);
		ck_assert_str_eq(event->event, "admin-acts");
	}
	ck_assert_str_eq(recent_after(2 * LOG_RATELIMIT_LINES + 1)->event, "event");
	ck_assert_uint_eq(recent_last(), 1 + 2 * LOG_RATELIMIT_LINES + 2 * RECENT_MAX);
	/* an event and an act in turn */
	log_event(LOG_INFO, "event", NULL, "before");
	log_event(LOG_NOTICE, "admin-acts", &act, "now");
	log_event(LOG_INFO, "event", NULL, "after");
	ck_assert_str_eq(recent_after(recent_last() - 3)->text, "before");
	ck_assert_str_eq(recent_after(recent_last() - 2)->text, "now");
	ck_assert_str_eq(recent_after(recent_last() - 1)->text, "after");
	for (unsigned i = 0; i < RECENT_ACTS_MAX; i++)
		log_event(LOG_NOTICE, "admin-acts", &act, "%u", i);
	/* many acts push out no events either */
	ck_assert_str_eq(recent_after(0)->event, "event");
	ck_assert_uint_eq(recent_after(recent_last() - RECENT_ACTS_MAX)->number,
			  recent_last() - RECENT_ACTS_MAX + 1);
}
END_TEST

static void count_event(void *ctx)
{
	ck_assert_ptr_eq(ctx, &watched);
	watched++;
}

START_TEST(watcher__is_called_for_each)
{
	recent_watch(count_event, &watched);
	log_event(LOG_INFO, "a", NULL, "x");
	log_event(LOG_DEBUG, "b", NULL, "x");
	ck_assert_uint_eq(watched, 2);
	recent_watch(NULL, NULL);
	log_event(LOG_INFO, "a", NULL, "x");
	ck_assert_uint_eq(watched, 2);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("recent", setup, teardown);

	tcase_add_test(tc, events__are_kept_whatever_the_level_of_the_log);
	tcase_add_test(tc, texts__are_cut_between_characters);
	tcase_add_test(tc, ring__keeps_the_last_ones);
	tcase_add_test(tc, tenant__has_a_limit);
	tcase_add_test(tc, acts__have_room_of_their_own);
	tcase_add_test(tc, watcher__is_called_for_each);
	return unit_main();
}
