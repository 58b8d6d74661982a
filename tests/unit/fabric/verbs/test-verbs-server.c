/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs server: its endpoints, channels and devices. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-server-stage.h"

/* ---- endpoints ---- */

START_TEST(open__listens_once_per_device_at_its_best_address)
{
	const struct fabric_endpoint *endpoint;

	server_open();
	ck_assert_uint_eq(SERVER->n_endpoints(server), 2);
	endpoint = SERVER->endpoint(server, 0);
	ck_assert_str_eq(endpoint->device, "fake0");
	ck_assert_int_eq(endpoint->kind, FABRIC_VERBS);
	ck_assert_uint_eq(endpoint->address.family, 4);
	ck_assert_mem_eq(endpoint->address.bytes, "\x0a\x01\x00\x01", 4);
	ck_assert_uint_eq(endpoint->address.port, PORT);
	ck_assert_uint_eq(endpoint->flags, FABRIC_ENDPOINT_INBAND);
	ck_assert_int_eq(endpoint->node, -1);
	ck_assert_str_eq(SERVER->endpoint(server, 1)->device, "fake1");
}
END_TEST

START_TEST(open__listens_at_the_given_address)
{
	struct fabric_address address = {
		.family = 6,
		.bytes = { 0xfd, [15] = 1 },
		.port = PORT,
	};

	ck_assert_int_eq(
		server_try_open((struct fabric_server_params){ .listen = address }), 0);
	ck_assert_uint_eq(SERVER->n_endpoints(server), 1);
	ck_assert_uint_eq(SERVER->endpoint(server, 0)->address.family, 6);
}
END_TEST

/* The daemon passes all its addresses; most of them belong to no RDMA device. */
START_TEST(open__listens_at_each_address_of_a_device)
{
	static const struct fabric_address also[] = {
		{ .family = 4, .bytes = { 192, 0, 2, 9 } },
		{ .family = 4, .bytes = { 10, 1, 0, 1 } },
	};
	struct fabric_server_params params = {
		.listen = { .family = 4, .bytes = { 127, 0, 0, 1 }, .port = PORT },
		.extra_listen = also,
	};

	ck_assert_int_eq(server_try_open(params), -ENODEV);
	params.n_extra_listen = 1;
	ck_assert_int_eq(server_try_open(params), 0);
	expect_awaited(0, "");
	server_close();
	params.n_extra_listen = 2;
	ck_assert_int_eq(server_try_open(params), 0);
	expect_one_endpoint("fake0");
	ck_assert_mem_eq(SERVER->endpoint(server, 0)->address.bytes, "\x0a\x01\x00\x01",
			 4);
	ck_assert_uint_eq(SERVER->endpoint(server, 0)->address.port, PORT);
}
END_TEST

START_TEST(open__serves_named_devices_and_waits_for_others)
{
	static const char *const second[] = { "fake1", NULL };
	static const char *const missing[] = { "fake1", "mlx5_9", NULL };

	ck_assert_int_eq(
		server_try_open((struct fabric_server_params){ .devices = second }), 0);
	expect_one_endpoint("fake1");
	server_close();
	ck_assert_int_eq(
		server_try_open((struct fabric_server_params){ .devices = missing }),
		0);
	ck_assert_uint_eq(SERVER->n_endpoints(server), 2);
	ck_assert(!SERVER->endpoint(server, 0)->awaited);
	expect_awaited(1, "mlx5_9");
	server_close();
	verbs_fake.port_down[1] = true;
	ck_assert_int_eq(
		server_try_open((struct fabric_server_params){ .devices = second }), 0);
	expect_one_endpoint("fake1");
	expect_awaited(0, "fake1");
}
END_TEST

START_TEST(open__skips_inactive_ports)
{
	verbs_fake.port_down[0] = true;
	server_open();
	expect_one_endpoint("fake1");
	server_close();
	verbs_fake.port_down[1] = true;
	server_open();
	expect_awaited(0, "");
}
END_TEST

/* The host has no device, or the server listens where no device can be. */
START_TEST(open__without_anything_to_wait_for_gives_enodev)
{
	struct fabric_server_params params = {
		.listen = { .family = 4, .bytes = { 127, 0, 0, 1 } },
		.required = true,
	};

	ck_assert_int_eq(server_try_open(params), -ENODEV);
	verbs_fake.no_devices = true;
	ck_assert_int_eq(server_try_open(params), -ENODEV);
	ck_assert_int_eq(server_try_open((struct fabric_server_params){ 0 }), -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), "no RDMA device"));
	ck_assert_ptr_nonnull(strstr(err_text(), "module rdma_ucm"));
	ck_assert_int_eq(
		server_try_open((struct fabric_server_params){ .required = true }), 0);
	expect_awaited(0, "");
}
END_TEST

START_TEST(open__names_a_port_in_use)
{
	verbs_fake.port_in_use = PORT;
	ck_assert_int_eq(server_try_open((struct fabric_server_params){ 0 }),
			 -EADDRINUSE);
	ck_assert_ptr_nonnull(strstr(err_text(), "10.1.0.1:7000"));
}
END_TEST

START_TEST(open__sets_confirm_on_iwarp)
{
	verbs_fake.iwarp = true;
	server_open();
	ck_assert_uint_eq(SERVER->endpoint(server, 0)->flags,
			  FABRIC_ENDPOINT_CONFIRM | FABRIC_ENDPOINT_INBAND);
}
END_TEST

/* ---- channels ---- */

START_TEST(connect_request__is_admitted_by_its_hello)
{
	struct fabric_session *session = server_open_session();
	struct rdma_conn_param param;
	uint8_t junk[FABRIC_HELLO_BYTES] = { 1, 2, 3 };
	struct rdma_cm_id *id;

	seen.admitted = session;
	id = fake_request(0, junk, sizeof(junk));
	SERVER->process(server);
	settle();
	ck_assert_int_eq(fake_request_state(id), FAKE_REJECTED);
	ck_assert_uint_eq(seen.admits, 0);
	ck_assert_int_eq(fake_request_state(request(2, 1)), FAKE_REJECTED);
	ck_assert_uint_eq(seen.admits, 1);
	ck_assert_uint_eq(stats().refused, 2);
	ck_assert_uint_eq(live_qps(), 0);

	(void)channel_new(session, 5);
	param = fake_param();
	ck_assert_uint_eq(param.responder_resources, 8); /* of 16 asked for */
	ck_assert_uint_eq(param.initiator_depth, 0);
	ck_assert_uint_eq(param.rnr_retry_count, 6);
	ck_assert_uint_eq(seen.channel, 5);
	ck_assert_uint_eq(stats().channels, 1);
	ck_assert_uint_eq(stats().channels_ever, 1);
	/* a channel number in use is refused */
	ck_assert_int_eq(fake_request_state(request(1, 5)), FAKE_REJECTED);
	ck_assert_uint_eq(seen.downs, 0);
}
END_TEST

START_TEST(connect_request__for_a_session_of_another_endpoint_is_refused)
{
	server_open();
	seen.admitted = session_new(1);
	ck_assert_int_eq(fake_request_state(request(1, 1)), FAKE_REJECTED);
	ck_assert_uint_eq(seen.downs, 1);
}
END_TEST

START_TEST(connect_requests__are_limited_by_the_backlog)
{
	struct rdma_cm_id *ids[4];

	seen.admitted = server_open_session();
	for (uint32_t i = 0; i < 4; i++)
		ids[i] = request(1, i);
	ck_assert_int_eq(fake_request_state(ids[2]), FAKE_ACCEPTED);
	ck_assert_int_eq(fake_request_state(ids[3]), FAKE_REJECTED);
	/* it was admitted: the daemon learns that it is no channel */
	ck_assert_uint_eq(seen.downs, 1);
	ck_assert_uint_eq(seen.channel, 3);
	/* a failed request frees its slot */
	fake_event(ids[0], RDMA_CM_EVENT_CONNECT_ERROR);
	SERVER->process(server);
	ck_assert_uint_eq(seen.downs, 2);
	ck_assert_ptr_nonnull(strstr(seen.why, "not established"));
	ck_assert_int_eq(fake_request_state(request(1, 9)), FAKE_ACCEPTED);
	ck_assert_uint_eq(stats().channels, 0);
}
END_TEST

START_TEST(channel__in_error_is_reported_and_destroyed)
{
	struct rdma_cm_id *id = channel_new(server_open_session(), 5);

	fake_break(id);
	await(&seen.downs, 1);
	ck_assert_uint_eq(seen.channel, 5);
	ck_assert_ptr_nonnull(strstr(seen.why, "access was refused"));
	ck_assert_uint_eq(seen.refused, 1);
	ck_assert_uint_eq(live_qps(), 0);
	ck_assert_uint_eq(stats().channels, 0);
	ck_assert_uint_eq(stats().errors, 1);
}
END_TEST

START_TEST(channel__in_error_is_found_while_the_cq_is_armed)
{
	struct fabric_session *session = server_open_session();
	struct rdma_cm_id *first = channel_new(session, 1);

	verbs_fake.break_at_arm = channel_new(session, 2);
	fake_break(first);
	await(&seen.downs, 2);
}
END_TEST

START_TEST(channel__closed_by_the_peer_is_no_error)
{
	struct rdma_cm_id *id = channel_new(server_open_session(), 5);

	fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
	await(&seen.downs, 1);
	ck_assert_str_eq(seen.why, "");
	ck_assert_uint_eq(live_qps(), 0);
	ck_assert_uint_eq(stats().errors, 0);
}
END_TEST

/* The poller has not seen yet that the receives were flushed. */
START_TEST(channel__disconnected_behind_a_refused_access_is_counted)
{
	struct fabric_session *session = server_open_session();
	struct rdma_cm_id *id = channel_new(session, 5);

	id->qp->state = IBV_QPS_ERR;
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
	await(&seen.downs, 1);
	ck_assert_ptr_nonnull(strstr(seen.why, "access was refused"));
	await(&seen.refused, 1);
	id = channel_new(session, 6);
	id->qp->state = IBV_QPS_ERR;
	ck_assert_int_eq(SERVER->channel_close(session, 6), 0);
	await(&seen.refused, 2);
}
END_TEST

/* soft-RoCE does not tell the peer about an id that is destroyed at once. */
START_TEST(close__disconnects_all_before_it_destroys_any)
{
	struct fabric_session *session = server_open_session();

	(void)channel_new(session, 5);
	(void)channel_new(session, 6);
	(void)channel_new(session_new(0), 7);
	server_close();
	ck_assert_uint_ge(fake_disconnects_before_destroy(), 3);
}
END_TEST

/* iWARP moves the queue pair to ERROR also when the peer closes the channel. */
START_TEST(channel__on_iwarp_ends_when_its_cause_may_be_known)
{
	struct fabric_session *session;
	struct rdma_cm_id *id;

	verbs_fake.iwarp = true;
	session = server_open_session();
	id = channel_new(session, 5);
	fake_break(id);
	process_next();
	ck_assert_uint_eq(seen.downs, 0);
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
	await(&seen.downs, 1);
	ck_assert_str_eq(seen.why, "");
	ck_assert_uint_eq(seen.refused, 0);
	ck_assert_uint_eq(live_qps(), 0);

	id = channel_new(session, 6);
	fake_async_event(0, IBV_EVENT_QP_ACCESS_ERR, 0);
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
	await(&seen.downs, 2);
	/* this device tells */
	ck_assert_ptr_nonnull(strstr(seen.why, "access was refused"));
	ck_assert_uint_eq(seen.refused, 1);

	/* and so it tells of a read */
	id = channel_new(session, 7);
	fake_async_event(0, IBV_EVENT_QP_REQ_ERR, 0);
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
	await(&seen.downs, 3);
	ck_assert_ptr_nonnull(strstr(seen.why, "access was refused"));
	ck_assert_uint_eq(seen.refused, 2);

	/* after the end of the connection, too */
	id = channel_new(session, 8);
	fake_break(id);
	process_next();
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
	SERVER->process(server);
	ck_assert_uint_eq(seen.downs, 3);
	fake_async_event(0, IBV_EVENT_QP_REQ_ERR, 0);
	await(&seen.downs, 4);
	ck_assert_ptr_nonnull(strstr(seen.why, "access was refused"));
	ck_assert_uint_eq(seen.refused, 3);
	ck_assert_uint_eq(live_qps(), 0);
}
END_TEST

START_TEST(channel_close__hides_late_flushes_from_the_next_channel)
{
	struct fabric_session *session = server_open_session();

	(void)channel_new(session, 5);
	SERVER->channel_close(session, 77);
	ck_assert_uint_eq(live_qps(), 1);
	SERVER->channel_close(session, 5);
	ck_assert_uint_eq(live_qps(), 0);
	/* the flushed receive arrives when another channel has the old one's number */
	await_readable();
	seen.admitted = session;
	(void)request(1, 6);
	ck_assert_uint_eq(live_qps(), 1);
	ck_assert_uint_eq(seen.downs, 0);
}
END_TEST

/* ---- devices ---- */

START_TEST(port_events__are_reported_with_their_device)
{
	server_open();
	fake_async_event(1, IBV_EVENT_PORT_ERR, 1);
	await(&seen.events, 1);
	ck_assert_uint_eq(seen.event_endpoint, 1);
	ck_assert_ptr_nonnull(strstr(seen.event_text, "fake1"));
	ck_assert_ptr_nonnull(strstr(seen.event_text, "port error"));
}
END_TEST

enum removal { BY_LISTENER, BY_CHANNEL, BY_DEVICE };

START_TEST(removal__frees_all_objects_of_the_device)
{
	struct fabric_session *session = server_open_session();
	struct fabric_session *other = session_new(1);
	struct rdma_cm_id *id = channel_new(session, 1);
	struct fabric_mr *mr = mr_new(session), *second;

	(void)mr_request(session, 10, 0);
	if (_i == BY_DEVICE)
		fake_async_event(0, IBV_EVENT_DEVICE_FATAL, 0);
	else
		fake_event(_i == BY_CHANNEL ? id : NULL, RDMA_CM_EVENT_DEVICE_REMOVAL);
	/* the registration in progress fails, the objects are freed */
	await(&seen.registered, 2);
	ck_assert_int_eq(seen.err, -ENODEV);
	ck_assert_uint_eq(seen.downs, 1);
	ck_assert_ptr_nonnull(strstr(seen.why, "removed"));
	ck_assert_uint_eq(seen.events, _i == BY_DEVICE ? 2 : 1);
	while (fake_live_mrs())
		process_next();
	ck_assert_uint_eq(seen.deregistered, 0);

	/* the session's calls still get their events */
	ck_assert_int_eq(SERVER->reg_mr(session, memory, 10, 0, NULL, &second, NULL),
			 -ENODEV);
	ck_assert_int_eq(SERVER->session_open(server, 0, NULL, &session), -ENODEV);
	SERVER->dereg_mr(mr);
	await(&seen.deregistered, 1);
	session_end(session);
	seen.closed = 0;

	/* the other device is not affected */
	(void)mr_new(other);
	session_end(other);
}
END_TEST

/* ---- each call that can fail ---- */

/* Open a server, connect and end a channel, register and deregister memory, close. */
static void run_server(void)
{
	struct fabric_mr *mr = NULL;
	struct fabric_session *session = NULL;
	struct fabric_hello hello = { .session = 1, .channel = 1 };
	uint8_t buf[FABRIC_HELLO_BYTES];
	const struct fabric_device_attr *attr;
	struct rdma_cm_id *id;
	struct fabric_port_attr port;
	unsigned device;

	memset(&seen, 0, sizeof(seen));
	if (server_try_open((struct fabric_server_params){ 0 })) {
		ck_assert_str_ne(err_text(), "");
		return;
	}
	ck_assert_uint_ge(SERVER->n_endpoints(server), 1);
	device = SERVER->endpoint(server, 0)->device[4] == '1';
	ck_assert_int_eq(SERVER->device(server, 0, &attr, &port), 0);
	if (SERVER->session_open(server, 0, NULL, &session))
		goto close;
	seen.admitted = session;
	fabric_hello_encode(&hello, buf);
	id = fake_request(device, buf, sizeof(buf));
	SERVER->process(server);
	settle();
	if (fake_request_state(id) == FAKE_ACCEPTED && !seen.downs) {
		fake_event(id, RDMA_CM_EVENT_ESTABLISHED);
		fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
		await(&seen.downs, 1);
		ck_assert_uint_eq(seen.ups, 1);
	}
	ck_assert_uint_eq(seen.downs, 1);
	if (!SERVER->reg_mr(session, memory, 10, 0, NULL, &mr, NULL)) {
		await(&seen.registered, 1);
		if (!seen.err)
			SERVER->dereg_mr(mr);
		if (!seen.err)
			await(&seen.deregistered, 1);
	}
	session_end(session);
close:
	SERVER->close(server);
	server = NULL;
}

START_TEST(sweep__no_failure_leaks)
{
	verbs_fake.fail_errno = _i ? 0 : ENOMEM;
	ck_assert_uint_gt(fake_fail_each(run_server), 25);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("server", NULL, server_close);

	tcase_add_test(tcase, open__listens_once_per_device_at_its_best_address);
	tcase_add_test(tcase, open__listens_at_the_given_address);
	tcase_add_test(tcase, open__listens_at_each_address_of_a_device);
	tcase_add_test(tcase, open__serves_named_devices_and_waits_for_others);
	tcase_add_test(tcase, open__skips_inactive_ports);
	tcase_add_test(tcase, open__without_anything_to_wait_for_gives_enodev);
	tcase_add_test(tcase, open__names_a_port_in_use);
	tcase_add_test(tcase, open__sets_confirm_on_iwarp);
	tcase_add_test(tcase, connect_request__is_admitted_by_its_hello);
	tcase_add_test(tcase,
		       connect_request__for_a_session_of_another_endpoint_is_refused);
	tcase_add_test(tcase, connect_requests__are_limited_by_the_backlog);
	tcase_add_test(tcase, channel__in_error_is_reported_and_destroyed);
	tcase_add_test(tcase, channel__in_error_is_found_while_the_cq_is_armed);
	tcase_add_test(tcase, channel__closed_by_the_peer_is_no_error);
	tcase_add_test(tcase, channel__disconnected_behind_a_refused_access_is_counted);
	tcase_add_test(tcase, close__disconnects_all_before_it_destroys_any);
	tcase_add_test(tcase, channel__on_iwarp_ends_when_its_cause_may_be_known);
	tcase_add_test(tcase, channel_close__hides_late_flushes_from_the_next_channel);
	tcase_add_test(tcase, port_events__are_reported_with_their_device);
	tcase_add_loop_test(tcase, removal__frees_all_objects_of_the_device, 0,
			    BY_DEVICE + 1);
	tcase_add_loop_test(tcase, sweep__no_failure_leaks, 0, 2);
	return unit_main();
}
