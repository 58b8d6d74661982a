/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints follow devices that come back, and addresses that move. */
#include <errno.h>
#include <string.h>

#include "fabric/verbs/server/server.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-server-stage.h"

/* Until news of endpoint 0 have this in them. */
static void await_news(const char *words)
{
	while (!strstr(seen.news_text, words)) {
		await_readable();
		SERVER->process(server);
	}
	ck_assert_uint_eq(seen.news_endpoint, 0);
}

static void device_remove(void)
{
	fake.away[0] = true;
	fake_event(NULL, RDMA_CM_EVENT_DEVICE_REMOVAL);
	await(&seen.gones, 1);
	ck_assert_uint_eq(seen.gone_endpoint, 0);
}

START_TEST(device__that_is_back_serves_again)
{
	struct fabric_session *before, *after;
	const struct fabric_device_attr *can;
	struct fabric_port_attr port;

	ck_assert_int_eq(open_plain(), 0);
	before = session_new(0);
	(void)channel_new(before, 1);
	device_remove();
	ck_assert_int_eq(SERVER->device(server, 0, &can, &port), -ENODEV);
	/* looked for, and not found */
	await_readable();
	SERVER->process(server);
	ck_assert_ptr_null(strstr(seen.news_text, "again"));
	fake_return(0);
	await_news("fake0 serves again, at 10.1.0.1:7000");
	ck_assert_int_eq(SERVER->device(server, 0, &can, &port), 0);

	/* what is left of a session of before has no business on the new one */
	seen.admitted = before;
	ck_assert_int_eq(fake_fate(request(1, 2)), FAKE_REJECTED);
	after = session_new(0);
	(void)channel_new(after, 1);
	(void)exposure_new(after);
	SERVER->session_close(before);
	await(&seen.closeds, 1);
	close_all();
}
END_TEST

START_TEST(session__of_a_device_that_was_removed_exposes_nothing)
{
	struct fabric_mr *exposure = NULL;
	struct fabric_session *session;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	device_remove();
	fake_return(0);
	await_news("again");
	ck_assert_int_eq(SERVER->reg_mr(session, memory, 10, 0, NULL, &exposure),
			 -ENODEV);
	close_all();
}
END_TEST

START_TEST(device__comes_and_goes_again_and_again)
{
	ck_assert_int_eq(open_plain(), 0);
	for (unsigned i = 0; i < 3; i++) {
		seen = (struct seen){ 0 };
		device_remove();
		fake_return(0);
		await_news("again");
		/* nothing piles up */
		ck_assert_uint_eq(server->n_devices, 2);
		SERVER->session_close(session_new(0));
		await(&seen.closeds, 1);
	}
	close_all();
}
END_TEST

START_TEST(address__that_moves_takes_the_listener_along)
{
	const uint8_t moved[4] = { 10, 1, 0, 9 };
	struct fabric_session *session;

	/* or another address of the device would do */
	ck_assert_int_eq(
		open_with((struct fabric_server_params){ .listen = { .family = 4 } }),
		0);
	session = session_new(0);
	fake.moved = true;
	verbs_hotplug_schedule(&server->hotplug);
	await_news("serves again, at 10.1.0.9:7000");
	ck_assert_mem_eq(SERVER->endpoint(server, 0)->address.bytes, moved, 4);
	/* it is the same device, and sessions go on */
	ck_assert_uint_eq(seen.gones, 0);
	(void)channel_new(session, 1);
	close_all();
}
END_TEST

START_TEST(address__that_is_gone_is_waited_for)
{
	ck_assert_int_eq(open_with((struct fabric_server_params){
				 .listen = { .family = 4, .bytes = { 10, 1, 0, 1 } } }),
			 0);
	fake.moved = true;
	verbs_hotplug_schedule(&server->hotplug);
	await_news("fake0 has lost the address 10.1.0.1:7000");
	await_readable();
	SERVER->process(server);
	ck_assert_ptr_null(strstr(seen.news_text, "again"));
	fake.moved = false;
	await_news("serves again, at 10.1.0.1:7000");
	close_all();
}
END_TEST

START_TEST(address__that_stays_is_left_alone)
{
	unsigned news;

	ck_assert_int_eq(open_plain(), 0);
	news = seen.news;
	verbs_hotplug_schedule(&server->hotplug);
	await_readable();
	SERVER->process(server);
	ck_assert(!server->hotplug.due);
	ck_assert_uint_eq(seen.news, news);
	close_all();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("verbs-hotplug");
	TCase *tcase = tcase_create("hotplug");

	tcase_set_timeout(tcase, 30);
	tcase_add_test(tcase, device__that_is_back_serves_again);
	tcase_add_test(tcase, session__of_a_device_that_was_removed_exposes_nothing);
	tcase_add_test(tcase, device__comes_and_goes_again_and_again);
	tcase_add_test(tcase, address__that_moves_takes_the_listener_along);
	tcase_add_test(tcase, address__that_is_gone_is_waited_for);
	tcase_add_test(tcase, address__that_stays_is_left_alone);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
