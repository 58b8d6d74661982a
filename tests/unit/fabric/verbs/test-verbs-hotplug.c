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
	fake.absent[0] = true;
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
	ck_assert_ptr_null(strstr(seen.event_text, "again"));
	fake_device_return(0);
	await_event("fake0 serves again, at 10.1.0.1:7000");
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
	await_event("again");
	ck_assert_int_eq(SERVER->reg_mr(session, memory, 10, 0, NULL, &mr), -ENODEV);
}
END_TEST

START_TEST(device__may_be_replaced_repeatedly)
{
	server_open();
	for (unsigned i = 0; i < 3; i++) {
		seen = (struct seen){ 0 };
		device_remove();
		fake_device_return(0);
		await_event("again");
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
	fake.address_changed = true;
	verbs_discovery_schedule(server);
	await_event("serves again, at 10.1.0.9:7000");
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
	fake.address_changed = true;
	verbs_discovery_schedule(server);
	await_event("fake0 has lost the address 10.1.0.1:7000");
	process_next();
	ck_assert_ptr_null(strstr(seen.event_text, "again"));
	fake.address_changed = false;
	await_event("serves again, at 10.1.0.1:7000");
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
	return unit_main();
}
