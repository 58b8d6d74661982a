/* SPDX-License-Identifier: BSD-3-Clause */
/* /v1/events: the list, and clients that follow. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "rmemd/admin/followers.h"
#include "rmemd/system/log_ratelimit.h"
#include "rmemd/system/recent.h"
#include "unit/rmemd/admin/admin-stage.h"

static uint64_t now_ms;

static uint64_t fake_clock(void)
{
	return now_ms * NS_PER_MS;
}

static void setup(void)
{
	/* as the daemon does */
	ck_assert_ptr_ne(signal(SIGPIPE, SIG_IGN), SIG_ERR);
	now_ms = 1000000;
	clock_set_source(fake_clock);
	log_set_level(LOG_ERR);
	recent_open(0);
	admin_setup();
	open_admin();
}

static void teardown(void)
{
	admin_teardown();
	log_set_tap(NULL);
	log_set_level(LOG_INFO);
	clock_set_source(NULL);
}

static void turns(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_ge(event_base_loop(base, EVLOOP_NONBLOCK), 0);
}

static int follow(const char *query)
{
	char text[256];
	int fd = connect_client();

	ck_assert_int_ge(fd, 0);
	(void)snprintf(text, sizeof(text),
		       "GET /v1/events?follow=yes%s HTTP/1.1\r\nHost: a\r\n\r\n",
		       query);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	turns(20);
	return fd;
}

/* What the client has got since the last call. */
static const char *received(int fd)
{
	size_t used = 0;
	ssize_t got;

	turns(20);
	while ((got = read(fd, reply + used, sizeof(reply) - 1 - used)) > 0) {
		used += (size_t)got;
		turns(2);
	}
	reply[used] = '\0';
	return reply;
}

static void check_has(const char *part)
{
	ck_assert_msg(strstr(reply, part) != NULL, "no %s in %s", part, reply);
}

START_TEST(events__are_listed)
{
	const struct log_ctx ctx = { .session = 5, .tenant = "blue" };
	json_t *array;

	for (unsigned i = 0; i < 100; i++)
		log_event(LOG_INFO, i % 2 ? "odd" : "even", i % 10 ? NULL : &ctx, "%u",
			  i);
	array = json_object_get(get("/v1/events"), "events");
	ck_assert_uint_eq(json_array_size(array), 100);
	ck_assert_int_eq(json_integer_value(
				 json_object_get(json_array_get(array, 99), "number")),
			 100);
	get("/v1/events?name=od*&after=50");
	ck_assert_uint_eq(json_array_size(json_object_get(body(), "events")), 25);
	get("/v1/events?tenant=blue");
	ck_assert_uint_eq(json_array_size(json_object_get(body(), "events")), 10);
	get("/v1/events?session=5&after=50");
	ck_assert_uint_eq(json_array_size(json_object_get(body(), "events")), 5);
	ck_assert_int_eq(request("GET", "/v1/events?older_ms=1"), 400);
}
END_TEST

START_TEST(follower__gets_each_event_as_it_comes)
{
	int fd;

	log_event(LOG_INFO, "before", NULL, "x");
	fd = follow("");
	(void)received(fd);
	check_has("Content-Type: application/x-ndjson\r\n");
	check_has("Transfer-Encoding: chunked\r\n");
	check_has("{\"number\":1,\"missed\":0,");
	check_has("\"event\":\"before\",\"text\":\"x\",\"session\":null,");
	ck_assert_str_eq(received(fd), "");
	log_event(LOG_DEBUG, "after", &(struct log_ctx){ .lease = 7 }, "y");
	(void)received(fd);
	check_has("\"level\":\"debug\",\"event\":\"after\"");
	check_has("\"lease\":\"7\"");
	ck_assert_int_eq(close(fd), 0);
	turns(10);
	log_event(LOG_INFO, "gone", NULL, "z");
	turns(10);
}
END_TEST

START_TEST(follower__chooses)
{
	int fd;

	log_event(LOG_INFO, "a", NULL, "x");
	log_event(LOG_INFO, "b", NULL, "x");
	fd = follow("&after=1&name=b*");
	log_event(LOG_INFO, "c", NULL, "x");
	(void)received(fd);
	check_has("\"event\":\"b\"");
	ck_assert_ptr_null(strstr(reply, "\"event\":\"a\""));
	ck_assert_ptr_null(strstr(reply, "\"event\":\"c\""));
	ck_assert_int_eq(close(fd), 0);
	/* the number of another process */
	fd = follow("&after=1000000");
	(void)received(fd);
	check_has("\"event\":\"a\"");
	ck_assert_int_eq(close(fd), 0);
}
END_TEST

/* It does not read, while more happens than is kept. */
/* The next process has logged as many events as the last one when its follower is back. */
START_TEST(events__of_a_new_process_begin_with_its_first)
{
	json_t *array;
	int fd;

	for (unsigned i = 0; i < 3; i++)
		log_event(LOG_INFO, "old", NULL, "x");
	recent_open(1000);
	for (unsigned i = 0; i < 5; i++)
		log_event(LOG_INFO, "new", NULL, "%u", i);
	fd = follow("&after=3");
	(void)received(fd);
	check_has("{\"number\":1001,\"missed\":0,");
	ck_assert_int_eq(close(fd), 0);
	fd = follow("&after=1003");
	(void)received(fd);
	ck_assert_ptr_null(strstr(reply, "\"number\":1003,"));
	check_has("{\"number\":1004,\"missed\":0,");
	ck_assert_int_eq(close(fd), 0);
	turns(10);
	/* a number that the clock, which was set back, has not reached */
	for (unsigned i = 0; i < 2; i++) {
		array = json_object_get(
			get(i ? "/v1/events?after=2000" : "/v1/events?after=3"),
			"events");
		ck_assert_uint_eq(json_array_size(array), 5);
		array = json_object_get(json_array_get(array, 0), "missed");
		ck_assert_int_eq(json_integer_value(array), 0);
	}
}
END_TEST

START_TEST(follower__that_is_slow_is_told_what_it_missed)
{
	const unsigned n = 3 * RECENT_MAX;
	unsigned seen = 0, missed = 0;
	int fd = follow("");

	for (unsigned i = 0; i < n; i++) {
		log_event(LOG_INFO, "event", NULL, "%0200u", i);
		now_ms += LOG_RATELIMIT_PERIOD_MS;
		if (i % 64 == 0)
			turns(2);
	}
	for (unsigned i = 0; i < 2000 && seen + missed < n; i++) {
		const char *at = received(fd);

		while ((at = strstr(at, "\"missed\":"))) {
			missed += (unsigned)atoi(at + strlen("\"missed\":"));
			at++;
			seen++;
		}
	}
	ck_assert_uint_gt(missed, 0);
	ck_assert_uint_ge(seen, RECENT_MAX);
	ck_assert_uint_eq(seen + missed, n);
	ck_assert_int_eq(close(fd), 0);
}
END_TEST

START_TEST(followers__are_limited)
{
	int fds[FOLLOWERS_MAX];

	for (unsigned i = 0; i < FOLLOWERS_MAX; i++)
		fds[i] = follow("");
	ck_assert_int_eq(request("GET", "/v1/events?follow=yes"), 503);
	ck_assert_str_eq(json_string_value(json_object_get(body(), "error")),
			 "8 clients follow the events already: end one");
	/* the list is there for all */
	(void)get("/v1/events?follow=no");
	ck_assert_int_eq(close(fds[0]), 0);
	turns(10);
	fds[0] = follow("");
	log_event(LOG_INFO, "event", NULL, "x");
	for (unsigned i = 0; i < FOLLOWERS_MAX; i++) {
		(void)received(fds[i]);
		check_has("\"event\":\"event\"");
	}
	/* the others are closed with the server */
	close_admin();
	for (unsigned i = 0; i < FOLLOWERS_MAX; i++) {
		ck_assert_int_eq(read(fds[i], reply, sizeof(reply)), 0);
		ck_assert_int_eq(close(fds[i]), 0);
	}
	log_event(LOG_INFO, "event", NULL, "x");
}
END_TEST

/* It shows that both are alive, and keeps the connection open. */
START_TEST(follower__gets_empty_lines)
{
	unsigned lines = 0;
	int fd = follow("");

	(void)received(fd);
	while (lines < 2) {
		ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE), 0);
		if (read(fd, reply, sizeof(reply)) > 0) {
			ck_assert_int_eq(strncmp(reply, "1\r\n\n\r\n", 6), 0);
			lines++;
		}
	}
	ck_assert_int_eq(close(fd), 0);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("followers", setup, teardown);

	tcase_add_test(tc, events__are_listed);
	tcase_add_test(tc, follower__gets_each_event_as_it_comes);
	tcase_add_test(tc, follower__chooses);
	tcase_add_test(tc, events__of_a_new_process_begin_with_its_first);
	tcase_add_test(tc, follower__that_is_slow_is_told_what_it_missed);
	tcase_add_test(tc, followers__are_limited);
	tcase_add_test(tc, follower__gets_empty_lines);
	return unit_main();
}
