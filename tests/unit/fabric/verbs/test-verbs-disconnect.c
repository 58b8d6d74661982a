/* SPDX-License-Identifier: BSD-3-Clause */
/* Disconnected channels of the server: the queue pair is stopped at once and then destroyed, the id
 * when the peer has answered or after a delay; no caller waits for that. */
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-server-stage.h"

/* as in fabric/verbs/server/ending.h, whose names are those of the server */
#define VERBS_DISCONNECTS_MAX 1024
#define CHANNELS (VERBS_DISCONNECTS_MAX + 2)

static void await_live(unsigned live)
{
	while (fake_live() > live)
		process_next();
	ck_assert_uint_eq(fake_live(), live);
}

START_TEST(id__stays_until_the_peer_answers)
{
	struct fabric_session *session = server_open_session();
	unsigned live = fake_live();
	struct rdma_cm_id *id = channel_new(session, 5);

	ck_assert_int_eq(SERVER->channel_close(session, 5), 0);
	ck_assert_uint_eq(live_qps(), 0);
	ck_assert_uint_eq(fake_disconnects(), 1);
	ck_assert_uint_eq(fake_live(), live + 1);
	/* other events of the id are ignored */
	fake_event(id, RDMA_CM_EVENT_ESTABLISHED);
	SERVER->process(server);
	ck_assert_uint_eq(fake_live(), live + 1);
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
	SERVER->process(server);
	settle();
	ck_assert_uint_eq(fake_live(), live);
	ck_assert_uint_eq(seen.downs + seen.events, 0);
}
END_TEST

START_TEST(id__is_destroyed_after_a_delay)
{
	struct fabric_session *session = server_open_session();
	unsigned live = fake_live();

	for (uint32_t i = 1; i <= 3; i++) {
		(void)channel_new(session, i);
		ck_assert_int_eq(SERVER->channel_close(session, i), 0);
	}
	settle();
	ck_assert_uint_eq(fake_live(), live + 3);
	await_live(live);
}
END_TEST

/* The server's answer to a disconnect also needs the id. */
START_TEST(id__stays_when_the_peer_disconnects_first)
{
	struct rdma_cm_id *id;
	unsigned live;

	server_open();
	id = channel_new(session_new(0), 5);
	live = live_qps();
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
	await(&seen.downs, 1);
	ck_assert_uint_eq(live_qps(), live - 1);
	live = fake_live();
	await_live(live - 1);
}
END_TEST

START_TEST(id__of_a_removed_device_is_destroyed_at_once)
{
	struct fabric_session *session = server_open_session();
	unsigned live = fake_live();

	(void)channel_new(session, 5);
	ck_assert_int_eq(SERVER->channel_close(session, 5), 0);
	settle();
	ck_assert_uint_eq(fake_live(), live + 1);
	fake_event(NULL, RDMA_CM_EVENT_DEVICE_REMOVAL);
	SERVER->process(server);
	/* freed: id, protection domain, listener, CQ and its completion channel */
	ck_assert_uint_eq(fake_live(), live - 4);
}
END_TEST

START_TEST(ids__that_wait_are_limited)
{
	struct fabric_session *session = server_open_session();
	unsigned live;

	for (uint32_t i = 1; i <= CHANNELS; i++)
		(void)channel_new(session, i);
	live = fake_live();
	SERVER->session_close(session);
	ck_assert_uint_eq(fake_serving_qps(), 0);
	settle();
	ck_assert_uint_eq(fake_disconnects(), CHANNELS);
	/* freed: the queue pairs, the mrs of their receives, a protection domain, and
	 * the ids above the limit */
	ck_assert_uint_eq(fake_live(),
			  live - 2 * CHANNELS - 1 - (CHANNELS - VERBS_DISCONNECTS_MAX));
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("disconnect", NULL, server_close);

	tcase_add_test(tcase, id__stays_until_the_peer_answers);
	tcase_add_test(tcase, id__is_destroyed_after_a_delay);
	tcase_add_test(tcase, id__stays_when_the_peer_disconnects_first);
	tcase_add_test(tcase, id__of_a_removed_device_is_destroyed_at_once);
	tcase_add_test(tcase, ids__that_wait_are_limited);
	return unit_main();
}
