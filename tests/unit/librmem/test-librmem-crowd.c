/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions of a server that is too busy for all of its clients: its welcomes come late, and
 * sessions that have resumed are lost again. */
#include <pthread.h>
#include <unistd.h>

#include "unit/librmem/core-case.h"
#include "librmem/session/session.h"

/* What the client is told; the server itself is patient, as it would count from its welcome. */
#define FENCE_MS 1000
#define LATE_MS (FENCE_MS + 200)

static void edit_fence(struct wire_msg *msg)
{
	if (msg->type != WIRE_TYPE_welcome)
		return;
	msg->welcome.heartbeat_ms = FENCE_MS / 5;
	msg->welcome.fence_ms = FENCE_MS;
}

static void serve(void)
{
	core_config.fence_ms = 20000;
	proxy.edit = edit_fence;
}

/* Let the welcome to the hello of this number come after the fence time. */
static void *welcome_late(void *number)
{
	uint64_t until_ms;

	proxy_await(WIRE_TYPE_hello, *(const unsigned *)number);
	until_ms = clock_now_ms() + LATE_MS;
	AWAIT(clock_now_ms() >= until_ms);
	proxy_release();
	return NULL;
}

/* ... after the time of a heartbeat, and nothing more. */
static void *welcome_alone(void *arg)
{
	(void)arg;
	proxy_await(WIRE_TYPE_hello, 1);
	proxy.mute = true;
	(void)usleep(FENCE_MS / 2 * 1000);
	proxy_release();
	return NULL;
}

/* With a lease, whose keys are asked for, and without one. */
START_TEST(welcome__that_is_late_resumes_the_session)
{
	unsigned second = 2;

	serve();
	open_with(0);
	if (_i)
		(void)alloc(1000, NULL);
	proxy.hold = WIRE_TYPE_hello;
	proxy_cut();
	welcome_late(&second);
	AWAIT(info().resumes > 0);
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
	ck_assert_uint_eq(info().resumes, 1);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_hello], 2);
}
END_TEST

START_TEST(welcome__that_is_late_opens_the_session)
{
	unsigned first = 1;
	pthread_t thread;

	serve();
	proxy.hold = WIRE_TYPE_hello;
	ck_assert_int_eq(pthread_create(&thread, NULL, welcome_late, &first), 0);
	open_with(0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
	ck_assert_uint_eq(info().resumes, 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_hello], 1);
}
END_TEST

/* The first ping, which a late welcome needs, has no answer. */
START_TEST(welcome__that_is_late_and_the_last_word_opens_no_session)
{
	struct rmem_options options = rmem_options_init();
	pthread_t thread;

	serve();
	proxy.hold = WIRE_TYPE_hello;
	options.timeout_ms = FENCE_MS * 3 / 4;
	ck_assert_int_eq(pthread_create(&thread, NULL, welcome_alone, NULL), 0);
	ck_assert_int_eq(rmem_open(stage.uri, &options, &stage.client), -ETIMEDOUT);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

/* Lose the connection, and resume; returns the longest pause before the next attempt. */
static unsigned lose_and_resume(void)
{
	uint64_t resumes = info().resumes;
	unsigned ms;

	proxy_cut();
	AWAIT(info().resumes > resumes);
	(void)pthread_mutex_lock(&stage.client->lock);
	ms = stage.client->backoff.ms;
	(void)pthread_mutex_unlock(&stage.client->lock);
	return ms;
}

static bool has_held(void)
{
	bool held;

	(void)pthread_mutex_lock(&stage.client->lock);
	held = stage.client->alive_ns >= stage.client->up_ns + FENCE_MS * NS_PER_MS;
	(void)pthread_mutex_unlock(&stage.client->lock);
	return held;
}

START_TEST(pauses__grow_until_the_session_has_held)
{
	unsigned ms = 0;

	serve();
	open_with(0);
	for (unsigned i = 0; i < 4; i++)
		ms = lose_and_resume();
	ck_assert_uint_ge(ms, BACKOFF_FIRST_MS << 3);
	AWAIT(has_held());
	ck_assert_uint_eq(lose_and_resume(), BACKOFF_FIRST_MS);
}
END_TEST

int main(void)
{
	TCase *tc = core_case("crowd");

	tcase_add_loop_test(tc, welcome__that_is_late_resumes_the_session, 0, 2);
	tcase_add_test(tc, welcome__that_is_late_opens_the_session);
	tcase_add_test(tc, welcome__that_is_late_and_the_last_word_opens_no_session);
	tcase_add_test(tc, pauses__grow_until_the_session_has_held);
	return unit_main();
}
