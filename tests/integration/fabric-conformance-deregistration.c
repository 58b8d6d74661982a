/* SPDX-License-Identifier: BSD-3-Clause */
#include <check.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fabric-conformance-cases.h"
#include "fabric-conformance-stage.h"
#include "fabric-conformance-traffic.h"

START_TEST(deregister__ends_the_rkey)
{
	struct scene s = scene_open(4096, RW, 4096);
	struct remote *stays = remote_new(s.party, 4096, RW);
	char *before;

	ck_assert_int_eq(scene_run(&s, scene_op(&s, FABRIC_WRITE, 0, 0, 4096)), 0);
	remote_deregister(s.remote);
	remote_await_deregistered(s.remote);
	stage_fill(s.remote->addr, s.remote->bytes, 4);
	before = remote_snapshot(s.remote);
	memset(s.local->addr, 0, s.local->bytes);
	scene_run_refused(&s, scene_op(&s, FABRIC_READ, 0, 0, 4096));
	ck_assert(stage_all(s.local->addr, s.local->bytes, 0));
	scene_run_refused(&s, scene_op(&s, FABRIC_WRITE, 0, 0, 4096));
	ck_assert(remote_unchanged(s.remote, before));
	ck_assert_int_eq(
		scene_run(&s, op_make(FABRIC_READ, s.local, 0, stays, 0, 4096)), 0);
	free(before);
	remote_free(stays);
	scene_close(&s);
}
END_TEST

static void call_register_and_deregister(void *arg)
{
	struct remote *remote = arg;

	ck_assert_int_ge(SERVER->reg_mr(remote->party->session, remote->addr,
					remote->bytes, RW, remote, &remote->mr,
					&remote->key),
			 0);
	remote->deregistered = SERVER->dereg_mr(remote->mr);
}

START_TEST(deregister__may_come_before_registered)
{
	static char memory[4096];
	struct party *party = party_new();
	struct remote remote = { .party = party,
				 .addr = memory,
				 .bytes = sizeof(memory) };

	stage_call(call_register_and_deregister, &remote);
	remote_await_deregistered(&remote);
	ck_assert(!remote.registered);
	ck_assert_uint_eq(stage_stats().exposures, 0);
	ck_assert_uint_eq(stage_stats().exposed_bytes, 0);
	party_free(party);
}
END_TEST

/* siw passes the pages of a read response to TCP by reference, and TCP keeps them after the
 * deregistration: a read in flight may return bytes that were written later.  Hardware waits. */
static bool reads_may_be_late(void)
{
	return stage_confirms();
}

START_TEST(deregister__stops_operations_in_flight)
{
	static const uint32_t sizes[] = { 8, 64, 4096, 262144 };
	struct traffic t = { 0 };
	struct remote *remote;
	char *before;

	traffic_start(&t, sizes[_i]);
	remote = t.scene.remote;
	traffic_await(&t, 20);
	remote_deregister(remote);
	remote_await_deregistered(remote);
	/* from here on no other thread may touch the memory */
	memset(remote->addr, POISON, remote->bytes);
	before = remote_snapshot(remote);
	traffic_join(&t);
	ck_assert(remote_unchanged(remote, before));
	ck_assert(!t.poisoned || reads_may_be_late());
	/* the connection ends if it was in the middle of a response */
	ck_assert_msg(t.status == -EACCES || t.status == -ECONNRESET, "status %d",
		      t.status);
	free(before);
	traffic_free(&t);
}
END_TEST

START_TEST(session_close__ends_one_session_and_no_other)
{
	struct traffic ends = { 0 }, stays = { 0 };
	struct remote *remote;
	char *before;

	traffic_start(&ends, 65536);
	traffic_start(&stays, 65536);
	traffic_await(&ends, 20);
	traffic_await(&stays, 20);
	remote = ends.scene.remote;
	party_close_session(ends.scene.party);
	remote_deregister(remote);
	party_await_closed(ends.scene.party);
	/* the memory was deregistered before the session was closed */
	remote_await_deregistered(remote);
	memset(remote->addr, POISON, remote->bytes);
	before = remote_snapshot(remote);
	traffic_join(&ends);
	ck_assert_int_ne(ends.status, 0);
	ck_assert(!ends.poisoned || reads_may_be_late());
	ck_assert(remote_unchanged(remote, before));
	/* the server closed the channels, so it reports no channel_down */
	ck_assert_uint_eq(ends.scene.party->downs, 0);
	traffic_await(&stays, 50);
	ck_assert_uint_eq(stage_stats().exposures, 1);
	atomic_store(&stays.stop, true);
	traffic_join(&stays);
	ck_assert_int_eq(stays.status, 0);
	free(before);
	traffic_free(&ends);
	traffic_free(&stays);
}
END_TEST

void deregistration_cases(TCase *tcase)
{
	tcase_add_test(tcase, deregister__ends_the_rkey);
	tcase_add_test(tcase, deregister__may_come_before_registered);
	tcase_add_loop_test(tcase, deregister__stops_operations_in_flight, 0, 4);
	tcase_add_test(tcase, session_close__ends_one_session_and_no_other);
}
