/* SPDX-License-Identifier: BSD-3-Clause */
/* A channel that the server ends: its queue pair goes at once, its id only when the peer has
 * answered or a little time is over, and nothing waits for that. */
#include "fabric/verbs/server/disconnect.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-server-stage.h"

#define CHANNELS (VERBS_DISCONNECTS_MAX + 2)

static void live_await(unsigned live)
{
	while (fake_live() > live) {
		await_readable();
		SERVER->process(server);
	}
	ck_assert_uint_eq(fake_live(), live);
}

START_TEST(id__stays_until_the_peer_has_answered)
{
	struct fabric_session *session;
	struct rdma_cm_id *id;
	unsigned live;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	live = fake_live();
	id = channel_new(session, 5);
	ck_assert_int_eq(SERVER->channel_close(session, 5), 0);
	ck_assert_uint_eq(fake_live_qps(), 0);
	ck_assert_uint_eq(fake_disconnects(), 1);
	ck_assert_uint_eq(fake_live(), live + 1);
	/* what else comes of it means nothing */
	fake_event(id, RDMA_CM_EVENT_ESTABLISHED);
	SERVER->process(server);
	ck_assert_uint_eq(fake_live(), live + 1);
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
	SERVER->process(server);
	ck_assert_uint_eq(fake_live(), live);
	ck_assert_uint_eq(seen.downs + seen.news, 0);
	close_all();
}
END_TEST

START_TEST(id__goes_without_an_answer)
{
	struct fabric_session *session;
	unsigned live;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	live = fake_live();
	for (uint32_t i = 1; i <= 3; i++) {
		(void)channel_new(session, i);
		ck_assert_int_eq(SERVER->channel_close(session, i), 0);
	}
	ck_assert_uint_eq(fake_live(), live + 3);
	live_await(live);
	close_all();
}
END_TEST

/* The answer to a peer that has disconnected is sent in the same way. */
START_TEST(id__of_a_peer_that_disconnects_stays_too)
{
	struct rdma_cm_id *id;
	unsigned live;

	ck_assert_int_eq(open_plain(), 0);
	id = channel_new(session_new(0), 5);
	live = fake_live_qps();
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
	await(&seen.downs, 1);
	ck_assert_uint_eq(fake_live_qps(), live - 1);
	live = fake_live();
	live_await(live - 1);
	close_all();
}
END_TEST

START_TEST(id__of_a_removed_device_goes_at_once)
{
	struct fabric_session *session;
	unsigned live;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	live = fake_live();
	(void)channel_new(session, 5);
	ck_assert_int_eq(SERVER->channel_close(session, 5), 0);
	ck_assert_uint_eq(fake_live(), live + 1);
	fake_event(NULL, RDMA_CM_EVENT_DEVICE_REMOVAL);
	SERVER->process(server);
	/* protection domain, listener, completion queue and its channel */
	ck_assert_uint_eq(fake_live(), live - 4);
	close_all();
}
END_TEST

START_TEST(ids__that_wait_are_so_many)
{
	struct fabric_session *session;
	unsigned live;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	for (uint32_t i = 1; i <= CHANNELS; i++)
		(void)channel_new(session, i);
	live = fake_live();
	SERVER->session_close(session);
	ck_assert_uint_eq(fake_disconnects(), CHANNELS);
	/* queue pairs and the memory of their receives, a protection domain, and those ids
	 * for which there was no room */
	ck_assert_uint_eq(fake_live(),
			  live - 2 * CHANNELS - 1 - (CHANNELS - VERBS_DISCONNECTS_MAX));
	close_all();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("verbs-farewell");
	TCase *tcase = tcase_create("farewell");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, id__stays_until_the_peer_has_answered);
	tcase_add_test(tcase, id__goes_without_an_answer);
	tcase_add_test(tcase, id__of_a_peer_that_disconnects_stays_too);
	tcase_add_test(tcase, id__of_a_removed_device_goes_at_once);
	tcase_add_test(tcase, ids__that_wait_are_so_many);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
