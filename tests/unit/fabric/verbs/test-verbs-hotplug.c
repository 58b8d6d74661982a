/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints of the server when devices return, and when addresses change. */
#include <errno.h>
#include <string.h>

#include "fabric/verbs/server/discovery.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-server-stage.h"

/* Process until an event of endpoint 0 contains these words. */
static void await_event(const char *words)
{
	while (!strstr(seen.event_text, words))
		process_next();
	ck_assert_uint_eq(seen.event_endpoint, 0);
}

static void device_remove(void)
{
	verbs_fake.absent[0] = true;
	fake_event(NULL, RDMA_CM_EVENT_DEVICE_REMOVAL);
	await(&seen.removed, 1);
	ck_assert_uint_eq(seen.removed_endpoint, 0);
	/* its objects are released */
	settle();
}

START_TEST(device__that_returns_is_served_again)
{
	struct fabric_session *before = server_open_session(), *after;
	const struct fabric_device_attr *attr;
	struct fabric_port_attr port;

	(void)channel_new(before, 1);
	device_remove();
	ck_assert_int_eq(SERVER->device(server, 0, &attr, &port), -ENODEV);
	/* the server looks for the device and does not find it */
	process_next();
	ck_assert_ptr_null(strstr(seen.event_text, "serves"));
	fake_device_return(0);
	await_event("fake0 serves now, at 10.1.0.1:7000");
	ck_assert_int_eq(SERVER->device(server, 0, &attr, &port), 0);

	/* a session on the removed device gets no channel on the new one */
	seen.admitted = before;
	ck_assert_int_eq(fake_request_state(request(1, 2)), FAKE_REJECTED);
	after = session_new(0);
	(void)channel_new(after, 1);
	(void)mr_new(after);
	session_end(before);
}
END_TEST

START_TEST(session__of_a_removed_device_registers_nothing)
{
	struct fabric_mr *mr = NULL;
	struct fabric_session *session = server_open_session();

	device_remove();
	fake_device_return(0);
	await_event("serves now");
	ck_assert_int_eq(SERVER->reg_mr(session, memory, 10, 0, NULL, &mr, NULL),
			 -ENODEV);
}
END_TEST

START_TEST(device__may_be_replaced_repeatedly)
{
	server_open();
	for (unsigned i = 0; i < 3; i++) {
		seen = (struct seen){ 0 };
		device_remove();
		fake_device_return(0);
		await_event("serves now");
		/* the removed device was freed */
		ck_assert_uint_eq(server->n_devices, 2);
		session_end(session_new(0));
	}
}
END_TEST

START_TEST(address__changed_moves_the_listener)
{
	const uint8_t moved[4] = { 10, 1, 0, 9 };
	struct fabric_session *session;

	/* with any family the server would use the device's IPv6 address */
	ck_assert_int_eq(server_try_open((struct fabric_server_params){
				 .listen = { .family = 4 } }),
			 0);
	session = session_new(0);
	verbs_fake.address_changed = true;
	verbs_discovery_schedule(server);
	await_event("serves now, at 10.1.0.9:7000");
	ck_assert_mem_eq(SERVER->endpoint(server, 0)->address.bytes, moved, 4);
	/* the device was not removed, so its sessions continue */
	ck_assert_uint_eq(seen.removed, 0);
	(void)channel_new(session, 1);
}
END_TEST

START_TEST(address__lost_is_served_when_it_returns)
{
	ck_assert_int_eq(server_try_open((struct fabric_server_params){
				 .listen = { .family = 4, .bytes = { 10, 1, 0, 1 } } }),
			 0);
	verbs_fake.address_changed = true;
	verbs_discovery_schedule(server);
	await_event("fake0 has lost the address 10.1.0.1:7000");
	ck_assert(SERVER->endpoint(server, 0)->awaited);
	process_next();
	ck_assert_ptr_null(strstr(seen.event_text, "serves"));
	verbs_fake.address_changed = false;
	await_event("serves now, at 10.1.0.1:7000");
}
END_TEST

START_TEST(address__unchanged_keeps_its_listener)
{
	unsigned n_events;

	server_open();
	n_events = seen.events;
	verbs_discovery_schedule(server);
	process_next();
	ck_assert(list_empty(&server->rescan.link));
	ck_assert_uint_eq(seen.events, n_events);
}
END_TEST

/* ---- what is missing when the server is opened ---- */

static const char *const first[] = { "fake0", NULL };

static void expect_serves(void)
{
	await_event("RDMA device fake0 serves now, at 10.1.0.1:7000");
	ck_assert(!SERVER->endpoint(server, 0)->awaited);
	expect_one_endpoint("fake0");
	(void)channel_new(session_new(0), 1);
}

START_TEST(device__missing_at_open_is_served_when_it_comes)
{
	verbs_fake.absent[0] = true;
	ck_assert_int_eq(
		server_try_open((struct fabric_server_params){ .devices = first }), 0);
	expect_awaited(0, "fake0");
	process_next();
	expect_awaited(0, "fake0");
	/* the other one is not wanted */
	expect_one_endpoint("fake0");
	fake_device_return(0);
	expect_serves();
	device_remove();
	fake_device_return(0);
	expect_serves();
}
END_TEST

/* Without a device there is no rdma_cm either. */
START_TEST(device__any_that_comes_first_is_served)
{
	verbs_fake.no_devices = true;
	ck_assert_int_eq(
		server_try_open((struct fabric_server_params){ .required = true }), 0);
	process_next();
	expect_awaited(0, "");
	verbs_fake.no_devices = false;
	expect_serves();
}
END_TEST

START_TEST(address__missing_at_open_is_served_when_it_comes)
{
	verbs_fake.address_changed = true;
	ck_assert_int_eq(server_try_open((struct fabric_server_params){
				 .listen = { .family = 4, .bytes = { 10, 1, 0, 1 } } }),
			 0);
	process_next();
	expect_awaited(0, "");
	verbs_fake.address_changed = false;
	expect_serves();
}
END_TEST

START_TEST(device__that_cannot_be_served_is_reported_once)
{
	unsigned events;

	verbs_fake.absent[0] = true;
	ck_assert_int_eq(
		server_try_open((struct fabric_server_params){ .devices = first }), 0);
	verbs_fake.port_in_use = PORT;
	fake_device_return(0);
	await_event("fake0 is not served: RDMA device fake0: 10.1.0.1:7000 is taken");
	events = seen.events;
	process_next();
	ck_assert_uint_eq(seen.events, events);
	ck_assert(SERVER->endpoint(server, 0)->awaited);
	verbs_fake.port_in_use = 0;
	expect_serves();
}
END_TEST

/* A device that could not be served at once does not keep the endpoint. */
START_TEST(device__any_may_be_another_than_the_first_tried)
{
	verbs_fake.no_devices = true;
	ck_assert_int_eq(
		server_try_open((struct fabric_server_params){ .required = true }), 0);
	verbs_fake.port_in_use = PORT;
	verbs_fake.no_devices = false;
	await_event("is not served: RDMA device fake0: 10.1.0.1:7000 is taken");
	verbs_fake.absent[0] = true;
	verbs_fake.port_in_use = 0;
	await_event("fake1 serves now, at 10.2.0.1:7000");
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("hotplug", NULL, server_close);

	tcase_set_timeout(tcase, 30);
	tcase_add_test(tcase, device__that_returns_is_served_again);
	tcase_add_test(tcase, session__of_a_removed_device_registers_nothing);
	tcase_add_test(tcase, device__may_be_replaced_repeatedly);
	tcase_add_test(tcase, address__changed_moves_the_listener);
	tcase_add_test(tcase, address__lost_is_served_when_it_returns);
	tcase_add_test(tcase, address__unchanged_keeps_its_listener);
	tcase_add_test(tcase, device__missing_at_open_is_served_when_it_comes);
	tcase_add_test(tcase, device__any_that_comes_first_is_served);
	tcase_add_test(tcase, address__missing_at_open_is_served_when_it_comes);
	tcase_add_test(tcase, device__that_cannot_be_served_is_reported_once);
	tcase_add_test(tcase, device__any_may_be_another_than_the_first_tried);
	return unit_main();
}
