/* SPDX-License-Identifier: BSD-3-Clause */
/* Many sessions with the daemon share the service threads. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "unit/librmem/core-case.h"

#define SESSIONS 12u

static rmem *sessions[SESSIONS];
static rmem_queue *queues[SESSIONS];

/* The heartbeats of all sessions came in time: the server fenced none. */
static void check_heartbeats(void)
{
	ck_assert_uint_eq(core.counters.sessions_fenced, 0);
	for (unsigned i = 0; i < SESSIONS; i++)
		ck_assert_uint_eq(info_of(sessions[i]).resumes, 0);
}

static void open_one(unsigned i)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;

	sessions[i] = open_another("");
	ck_assert_int_eq(rmem_queue_create(sessions[i], &params, &queues[i]), 0);
}

static void open_all(void)
{
	set_heartbeat(400, 1600);
	for (unsigned i = 0; i < SESSIONS; i++)
		open_one(i);
}

static void close_all(void)
{
	for (unsigned i = 0; i < SESSIONS; i++)
		rmem_close(sessions[i]);
}

/* A queue asks for another channel when its owner polls. */
static bool poll_all(void)
{
	for (unsigned i = 0; i < SESSIONS; i++)
		ck_assert_int_eq(rmem_poll(queues[i], NULL, 0), 0);
	return true;
}

/* The number of attempts of a session to connect. */
static unsigned attempts(unsigned i)
{
	return fake.tried[info_of(sessions[i]).session_id % FAKE_SESSIONS];
}

static bool all_tried(unsigned times)
{
	for (unsigned i = 1; i < SESSIONS; i++)
		if (attempts(i) < times)
			return false;
	return true;
}

/* End the channels of the session with the id `only`, or, if that is 0, of all but `except`. */
static void end_channels(uint64_t only, uint64_t except)
{
	struct fabric_channel *found[2 * SESSIONS];
	unsigned n = 0;

	pthread_mutex_lock(&fake.lock);
	for (struct fabric_channel *at = fake.channels; at; at = at->next)
		if (only ? at->hello.session == only : at->hello.session != except)
			found[n++] = at;
	pthread_mutex_unlock(&fake.lock);
	while (n > 0)
		fake_peer_gone(found[--n]);
}

/* The attempts of all sessions together take longer than the fence time.  All heartbeats come in
 * time, also those of the session that needs no connection, and each session gets its turn. */
START_TEST(unreachable_server__ends_no_session)
{
	open_all();
	fake.slow_ms = UINT_MAX;
	end_channels(0, info_of(sessions[0]).session_id);
	AWAIT_LONG(poll_all() && all_tried(4));
	ck_assert_uint_eq(attempts(0), 2);
	check_heartbeats();
	/* sessions close and open while others connect */
	rmem_close(sessions[0]);
	fake.slow_ms = 0;
	open_one(0);
	AWAIT_LONG(poll_all() && fake.connects >= 3 * SESSIONS + 1);
	check_heartbeats();
	close_all();
}
END_TEST

/* Connecting takes longer than the time-out of the first attempt. */
START_TEST(slow_server__is_reached_by_a_later_attempt)
{
	open_all();
	fake.slow_ms = 1300;
	end_channels(info_of(sessions[1]).session_id, 0);
	AWAIT_LONG(poll_all() && fake.connects > 2 * SESSIONS);
	ck_assert_uint_eq(attempts(1), 5);
	check_heartbeats();
	close_all();
}
END_TEST

int main(void)
{
	TCase *tc = core_case("service");

	tcase_add_test(tc, unreachable_server__ends_no_session);
	tcase_add_test(tc, slow_server__is_reached_by_a_later_attempt);
	return unit_main();
}
