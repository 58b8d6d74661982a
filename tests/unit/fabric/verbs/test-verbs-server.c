/* SPDX-License-Identifier: BSD-3-Clause */
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

	ck_assert_int_eq(open_plain(), 0);
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
	close_all();
}
END_TEST

START_TEST(open__listens_where_it_is_told)
{
	struct fabric_address address = {
		.family = 6,
		.bytes = { 0xfd, [15] = 1 },
		.port = PORT,
	};

	ck_assert_int_eq(open_with((struct fabric_server_params){ .listen = address }),
			 0);
	ck_assert_uint_eq(SERVER->n_endpoints(server), 1);
	ck_assert_uint_eq(SERVER->endpoint(server, 0)->address.family, 6);
	close_all();
	address.bytes[15] = 2;
	ck_assert_int_eq(open_with((struct fabric_server_params){ .listen = address }),
			 -ENODEV);
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

/* What the daemon is to listen at may be many addresses, and most of them no RDMA device's. */
START_TEST(open__listens_at_all_the_addresses_it_is_told)
{
	static const struct fabric_address also[] = {
		{ .family = 4, .bytes = { 192, 0, 2, 9 } },
		{ .family = 4, .bytes = { 10, 1, 0, 1 } },
	};
	struct fabric_server_params params = {
		.listen = { .family = 4, .bytes = { 127, 0, 0, 1 }, .port = PORT },
		.also = also,
	};

	ck_assert_int_eq(open_with(params), -ENODEV);
	params.n_also = 1;
	ck_assert_int_eq(open_with(params), -ENODEV);
	params.n_also = 2;
	ck_assert_int_eq(open_with(params), 0);
	ck_assert_uint_eq(SERVER->n_endpoints(server), 1);
	ck_assert_str_eq(SERVER->endpoint(server, 0)->device, "fake0");
	ck_assert_mem_eq(SERVER->endpoint(server, 0)->address.bytes, "\x0a\x01\x00\x01",
			 4);
	ck_assert_uint_eq(SERVER->endpoint(server, 0)->address.port, PORT);
	close_all();
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

START_TEST(open__serves_named_devices_or_fails)
{
	static const char *const second[] = { "fake1", NULL };
	static const char *const missing[] = { "fake1", "mlx5_9", NULL };

	ck_assert_int_eq(open_with((struct fabric_server_params){ .devices = second }),
			 0);
	ck_assert_uint_eq(SERVER->n_endpoints(server), 1);
	ck_assert_str_eq(SERVER->endpoint(server, 0)->device, "fake1");
	close_all();
	ck_assert_int_eq(open_with((struct fabric_server_params){ .devices = missing }),
			 -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), "mlx5_9"));
	ck_assert_ptr_nonnull(strstr(err_text(), "fake0, fake1"));
	fake.port_down[1] = true;
	ck_assert_int_eq(open_with((struct fabric_server_params){ .devices = second }),
			 -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), "fake1 has no active port"));
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

START_TEST(open__passes_over_inactive_ports)
{
	fake.port_down[0] = true;
	ck_assert_int_eq(open_plain(), 0);
	ck_assert_uint_eq(SERVER->n_endpoints(server), 1);
	ck_assert_str_eq(SERVER->endpoint(server, 0)->device, "fake1");
	close_all();
	fake.port_down[1] = true;
	ck_assert_int_eq(open_plain(), -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), "no RDMA device"));
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

START_TEST(open__says_when_there_is_no_device)
{
	fake.no_devices = true;
	ck_assert_int_eq(open_plain(), -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), "no RDMA device"));
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

START_TEST(open__names_a_port_that_is_taken)
{
	fake.taken_port = PORT;
	ck_assert_int_eq(open_plain(), -EADDRINUSE);
	ck_assert_ptr_nonnull(strstr(err_text(), "10.1.0.1:7000"));
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

START_TEST(open__asks_iwarp_peers_to_confirm)
{
	fake.iwarp = true;
	ck_assert_int_eq(open_plain(), 0);
	ck_assert_uint_eq(SERVER->endpoint(server, 0)->flags,
			  FABRIC_ENDPOINT_CONFIRM | FABRIC_ENDPOINT_INBAND);
	close_all();
}
END_TEST

/* ---- channels ---- */

START_TEST(request__is_admitted_by_its_hello)
{
	struct fabric_session *session;
	struct rdma_conn_param param;
	uint8_t junk[FABRIC_HELLO_BYTES] = { 1, 2, 3 };
	struct rdma_cm_id *id;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	seen.admitted = session;
	id = fake_request(0, junk, sizeof(junk));
	SERVER->process(server);
	ck_assert_int_eq(fake_fate(id), FAKE_REJECTED);
	ck_assert_uint_eq(seen.admits, 0);
	ck_assert_int_eq(fake_fate(request(2, 1)), FAKE_REJECTED);
	ck_assert_uint_eq(seen.admits, 1);
	ck_assert_uint_eq(stats().refused, 2);
	ck_assert_uint_eq(fake_live_qps(), 0);

	(void)channel_new(session, 5);
	param = fake_param();
	ck_assert_uint_eq(param.responder_resources, 8); /* of 16 asked for */
	ck_assert_uint_eq(param.initiator_depth, 0);
	ck_assert_uint_eq(param.rnr_retry_count, 6);
	ck_assert_uint_eq(seen.channel, 5);
	ck_assert_uint_eq(stats().channels, 1);
	ck_assert_uint_eq(stats().channels_ever, 1);
	/* the number is in use */
	ck_assert_int_eq(fake_fate(request(1, 5)), FAKE_REJECTED);
	ck_assert_uint_eq(seen.downs, 0);
	close_all();
}
END_TEST

START_TEST(request__of_another_endpoints_session_is_refused)
{
	ck_assert_int_eq(open_plain(), 0);
	seen.admitted = session_new(1);
	ck_assert_int_eq(fake_fate(request(1, 1)), FAKE_REJECTED);
	close_all();
}
END_TEST

START_TEST(request__waits_in_bounds)
{
	struct rdma_cm_id *ids[4];

	ck_assert_int_eq(open_plain(), 0);
	seen.admitted = session_new(0);
	for (uint32_t i = 0; i < 4; i++)
		ids[i] = request(1, i);
	ck_assert_int_eq(fake_fate(ids[2]), FAKE_ACCEPTED);
	ck_assert_int_eq(fake_fate(ids[3]), FAKE_REJECTED);
	/* one that comes to nothing makes room */
	fake_event(ids[0], RDMA_CM_EVENT_CONNECT_ERROR);
	SERVER->process(server);
	ck_assert_uint_eq(seen.downs, 1);
	ck_assert_ptr_nonnull(strstr(seen.why, "not established"));
	ck_assert_int_eq(fake_fate(request(1, 9)), FAKE_ACCEPTED);
	ck_assert_uint_eq(stats().channels, 0);
	close_all();
}
END_TEST

START_TEST(channel__that_breaks_is_reported_and_gone)
{
	struct rdma_cm_id *id;

	ck_assert_int_eq(open_plain(), 0);
	id = channel_new(session_new(0), 5);
	fake_break(id);
	await(&seen.downs, 1);
	ck_assert_uint_eq(seen.channel, 5);
	ck_assert_ptr_nonnull(strstr(seen.why, "ERROR"));
	ck_assert_uint_eq(fake_live_qps(), 0);
	ck_assert_uint_eq(stats().channels, 0);
	ck_assert_uint_eq(stats().errors, 1);
	close_all();
}
END_TEST

START_TEST(channel__that_breaks_while_the_poller_goes_to_sleep)
{
	struct fabric_session *session;
	struct rdma_cm_id *first;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	first = channel_new(session, 1);
	fake.break_at_arm = channel_new(session, 2);
	fake_break(first);
	await(&seen.downs, 2);
	close_all();
}
END_TEST

START_TEST(channel__that_the_peer_closes_is_no_error)
{
	struct rdma_cm_id *id;

	ck_assert_int_eq(open_plain(), 0);
	id = channel_new(session_new(0), 5);
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
	await(&seen.downs, 1);
	ck_assert_str_eq(seen.why, "");
	ck_assert_uint_eq(fake_live_qps(), 0);
	ck_assert_uint_eq(stats().errors, 0);
	close_all();
}
END_TEST

/* What is destroyed at once soft-RoCE does not tell the peer. */
START_TEST(close__disconnects_all_before_it_destroys_any)
{
	struct fabric_session *session;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	(void)channel_new(session, 5);
	(void)channel_new(session, 6);
	(void)channel_new(session_new(0), 7);
	close_all();
	ck_assert_uint_ge(fake_disconnects_first(), 3);
}
END_TEST

/* iWARP moves the queue pair to ERROR at an orderly end, too. */
START_TEST(channel__on_iwarp_ends_with_the_event)
{
	struct fabric_session *session;
	struct rdma_cm_id *id;

	fake.iwarp = true;
	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	id = channel_new(session, 5);
	fake_break(id);
	await_readable();
	SERVER->process(server);
	ck_assert_uint_eq(seen.downs, 0);
	ck_assert_uint_eq(fake_live_qps(), 0);
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
	await(&seen.downs, 1);
	ck_assert_str_eq(seen.why, "");

	id = channel_new(session, 6);
	fake_async(0, IBV_EVENT_QP_ACCESS_ERR, 0);
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
	await(&seen.downs, 2);
	ck_assert_str_eq(seen.why, "some event");
	close_all();
}
END_TEST

START_TEST(channel_close__leaves_nothing_for_who_comes_after)
{
	struct fabric_session *session;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	(void)channel_new(session, 5);
	SERVER->channel_close(session, 77);
	ck_assert_uint_eq(fake_live_qps(), 1);
	SERVER->channel_close(session, 5);
	ck_assert_uint_eq(fake_live_qps(), 0);
	/* the flushed receive of the old one arrives when a new one has its place */
	await_readable();
	seen.admitted = session;
	(void)request(1, 6);
	ck_assert_uint_eq(fake_live_qps(), 1);
	ck_assert_uint_eq(seen.downs, 0);
	close_all();
}
END_TEST

/* ---- devices ---- */

START_TEST(port_events__are_news_of_their_device)
{
	ck_assert_int_eq(open_plain(), 0);
	fake_async(1, IBV_EVENT_PORT_ERR, 1);
	await(&seen.news, 1);
	ck_assert_uint_eq(seen.news_endpoint, 1);
	ck_assert_ptr_nonnull(strstr(seen.news_text, "fake1"));
	ck_assert_ptr_nonnull(strstr(seen.news_text, "port error"));
	close_all();
}
END_TEST

enum removal { BY_LISTENER, BY_CHANNEL, BY_DEVICE };

START_TEST(removal__gives_everything_of_the_device_back)
{
	struct fabric_mr *exposure, *second = NULL;
	struct fabric_session *session, *other;
	struct rdma_cm_id *id;

	ck_assert_int_eq(open_plain(), 0);
	other = session_new(1);
	session = session_new(0);
	id = channel_new(session, 1);
	exposure = exposure_new(session);
	ck_assert_int_eq(SERVER->reg_mr(session, memory, 10, 0, NULL, &second), 0);
	if (_i == BY_DEVICE)
		fake_async(0, IBV_EVENT_DEVICE_FATAL, 0);
	else
		fake_event(_i == BY_CHANNEL ? id : NULL, RDMA_CM_EVENT_DEVICE_REMOVAL);
	/* the registration under way fails, what was there goes */
	await(&seen.exposeds, 2);
	ck_assert_int_eq(seen.err, -ENODEV);
	ck_assert_uint_eq(seen.downs, 1);
	ck_assert_ptr_nonnull(strstr(seen.why, "removed"));
	ck_assert_uint_eq(seen.news, _i == BY_DEVICE ? 2 : 1);
	while (fake_live_mrs()) {
		await_readable();
		SERVER->process(server);
	}
	ck_assert_uint_eq(seen.withdrawns, 0);

	/* its owner is served to the end */
	ck_assert_int_eq(SERVER->reg_mr(session, memory, 10, 0, NULL, &second),
			 -ENODEV);
	ck_assert_int_eq(SERVER->session_open(server, 0, NULL, &session), -ENODEV);
	SERVER->dereg_mr(exposure);
	await(&seen.withdrawns, 1);
	SERVER->session_close(session);
	await(&seen.closeds, 1);
	seen.closeds = 0;

	/* the other device carries on */
	(void)exposure_new(other);
	SERVER->session_close(other);
	await(&seen.closeds, 1);
	close_all();
}
END_TEST

/* ---- every call that can fail, in turn ---- */

static void life(void)
{
	struct fabric_mr *exposure = NULL;
	struct fabric_session *session = NULL;
	struct fabric_hello hello = { .session = 1, .channel = 1 };
	uint8_t buf[FABRIC_HELLO_BYTES];
	const struct fabric_device_attr *can;
	struct rdma_cm_id *id;
	struct fabric_port_attr port;
	unsigned device;

	memset(&seen, 0, sizeof(seen));
	if (open_plain()) {
		ck_assert_str_ne(err_text(), "");
		return;
	}
	ck_assert_uint_ge(SERVER->n_endpoints(server), 1);
	device = SERVER->endpoint(server, 0)->device[4] == '1';
	ck_assert_int_eq(SERVER->device(server, 0, &can, &port), 0);
	if (SERVER->session_open(server, 0, NULL, &session))
		goto close;
	seen.admitted = session;
	fabric_hello_encode(&hello, buf);
	id = fake_request(device, buf, sizeof(buf));
	SERVER->process(server);
	if (fake_fate(id) == FAKE_ACCEPTED && !seen.downs) {
		fake_event(id, RDMA_CM_EVENT_ESTABLISHED);
		fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
		await(&seen.downs, 1);
		ck_assert_uint_eq(seen.ups, 1);
	}
	ck_assert_uint_eq(seen.downs, 1);
	if (!SERVER->reg_mr(session, memory, 10, 0, NULL, &exposure)) {
		await(&seen.exposeds, 1);
		if (!seen.err)
			SERVER->dereg_mr(exposure);
		if (!seen.err)
			await(&seen.withdrawns, 1);
	}
	SERVER->session_close(session);
	await(&seen.closeds, 1);
close:
	SERVER->close(server);
}

START_TEST(sweep__no_failure_leaks)
{
	unsigned n = 0;

	fake.no_errno = _i;
	do {
		fake_fail_at(++n);
		life();
		ck_assert_msg(fake_live() == 0, "%u left after %s failed as call %u",
			      fake_live(), fake_failed_call(), n);
	} while (fake_failed());
	ck_assert_uint_gt(n, 25);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("verbs-server");
	TCase *tcase = tcase_create("server");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, open__listens_once_per_device_at_its_best_address);
	tcase_add_test(tcase, open__listens_where_it_is_told);
	tcase_add_test(tcase, open__listens_at_all_the_addresses_it_is_told);
	tcase_add_test(tcase, open__serves_named_devices_or_fails);
	tcase_add_test(tcase, open__passes_over_inactive_ports);
	tcase_add_test(tcase, open__says_when_there_is_no_device);
	tcase_add_test(tcase, open__names_a_port_that_is_taken);
	tcase_add_test(tcase, open__asks_iwarp_peers_to_confirm);
	tcase_add_test(tcase, request__is_admitted_by_its_hello);
	tcase_add_test(tcase, request__of_another_endpoints_session_is_refused);
	tcase_add_test(tcase, request__waits_in_bounds);
	tcase_add_test(tcase, channel__that_breaks_is_reported_and_gone);
	tcase_add_test(tcase, channel__that_breaks_while_the_poller_goes_to_sleep);
	tcase_add_test(tcase, channel__that_the_peer_closes_is_no_error);
	tcase_add_test(tcase, close__disconnects_all_before_it_destroys_any);
	tcase_add_test(tcase, channel__on_iwarp_ends_with_the_event);
	tcase_add_test(tcase, channel_close__leaves_nothing_for_who_comes_after);
	tcase_add_test(tcase, port_events__are_news_of_their_device);
	tcase_add_loop_test(tcase, removal__gives_everything_of_the_device_back, 0,
			    BY_DEVICE + 1);
	tcase_add_loop_test(tcase, sweep__no_failure_leaks, 0, 2);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
