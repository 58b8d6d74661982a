/* SPDX-License-Identifier: BSD-3-Clause */
/* The channel that comes with the welcome. */
#include <errno.h>
#include <string.h>

#include "unit/librmem/librmem-client.h"

static const struct {
	const char *item;
	unsigned fabric;
} wishes[] = {
	{ "", WIRE_FABRIC_VERBS },
	{ "?fabric=rdma", WIRE_FABRIC_VERBS },
	{ "?fabric=tcp", WIRE_FABRIC_TCP },
};

START_TEST(granted__is_the_first_channel)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	rmem_queue *queue = NULL;
	rmem_lease *lease;

	serve_rdma();
	server.grants = true;
	server.grant_endpoint = wishes[_i].fabric == WIRE_FABRIC_VERBS ? 1 : 0;
	(void)strcat(uri, wishes[_i].item);
	open_with(0);
	ck_assert_uint_eq(server.wanted, wishes[_i].fabric);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_open_channel], 0);
	ck_assert_uint_eq(fake_latest()->hello.channel, server.granted_channel);
	ck_assert_mem_eq(fake_latest()->hello.token, server.welcome.token, 16);
	lease = alloc(20000, NULL);
	ck_assert_int_eq(rmem_write(lease, 5, buf, sizeof(buf)), 0);
	/* others are asked for */
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), 0);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_open_channel], 1);
	ck_assert_uint_ne(fake_latest()->hello.channel, server.granted_channel);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_close_channel], 0);
	rmem_close(client);
}
END_TEST

/* A host without a device wants none of RDMA's. */
START_TEST(granted__is_of_the_likely_fabric)
{
	serve_rdma();
	server.grants = true;
	fake.available_err = -ENODEV;
	open_with(0);
	ck_assert_uint_eq(server.wanted, WIRE_FABRIC_TCP);
	ck_assert_int_eq(info().fabric, RMEM_FABRIC_TCP);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_open_channel], 0);
	rmem_close(client);
}
END_TEST

/* Where none was granted the client asks, and hears why. */
START_TEST(granted__may_be_none)
{
	serve_rdma();
	open_with(0);
	ck_assert_uint_eq(server.wanted, WIRE_FABRIC_VERBS);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_open_channel], 1);
	rmem_close(client);
	server_lock();
	server.fail_on = WIRE_TYPE_open_channel;
	server.fail_errno = EDQUOT;
	server_unlock();
	(void)strcat(uri, "?fabric=rdma");
	ck_assert_int_eq(rmem_open(uri, NULL, &client), -EDQUOT);
}
END_TEST

/* Of another fabric, of another device, or of none there is. */
static const uint8_t elsewhere[] = { 0, 2, 7, 255 };

START_TEST(granted__elsewhere_is_given_back)
{
	serve_rdma();
	server.grants = true;
	server.grant_endpoint = elsewhere[_i];
	open_with(0);
	ck_assert_int_eq(info().fabric, RMEM_FABRIC_RDMA);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_open_channel], 1);
	server_await(WIRE_TYPE_close_channel, 1);
	ck_assert_uint_eq(server.closed_channel, server.granted_channel);
	ck_assert_uint_ne(fake_latest()->hello.channel, server.granted_channel);
	rmem_close(client);
}
END_TEST

START_TEST(granted__is_given_back_by_who_falls_back)
{
	serve_rdma();
	server.grants = true;
	server.grant_endpoint = 1;
	fake.rdma_cq_err = -ENODEV;
	open_with(0);
	ck_assert_int_eq(info().fabric, RMEM_FABRIC_TCP);
	server_await(WIRE_TYPE_close_channel, 1);
	ck_assert_uint_eq(server.closed_channel, server.granted_channel);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_open_channel], 1);
	rmem_close(client);
}
END_TEST

START_TEST(granted__is_given_back_when_it_cannot_be_connected)
{
	serve_rdma();
	server.grants = true;
	server.grant_endpoint = 1;
	fake.connect_err = -EACCES;
	(void)strcat(uri, "?fabric=rdma");
	ck_assert_int_eq(rmem_open(uri, NULL, &client), -EACCES);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_close_channel], 1);
	ck_assert_uint_eq(server.closed_channel, server.granted_channel);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_open_channel], 0);
}
END_TEST

/* It went with the server's side of the session. */
START_TEST(granted__is_asked_for_by_a_session_that_resumes)
{
	rmem_lease *lease;

	serve_rdma();
	server.grants = true;
	server.grant_endpoint = 1;
	open_with(0);
	lease = alloc(20000, NULL);
	server_hang_up();
	server_await_count(&server.resumed, 1);
	ck_assert_uint_eq(server.wanted, 0);
	ck_assert_int_eq(rmem_write(lease, 5, buf, sizeof(buf)), 0);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_open_channel], 1);
	rmem_close(client);
}
END_TEST

/* ---- joined with the hello ---- */

static void serve_joining(void)
{
	serve_rdma();
	server.welcome.endpoints[1].flags = WIRE_ENDPOINT_DIRECT;
	server.grants = server.joins = true;
	server.grant_endpoint = 1;
	open_with(0);
	/* of the first one nothing is known before */
	ck_assert_uint_eq(server.hello_qpn, 0);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_join_channel], 1);
	rmem_close(client);
}

static void works(void)
{
	rmem_lease *lease = alloc(20000, NULL);

	ck_assert_int_eq(rmem_write(lease, 5, buf, sizeof(buf)), 0);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_hello], server.connections);
	rmem_close(client);
}

START_TEST(early__is_the_second_sessions_first_channel)
{
	serve_joining();
	for (unsigned i = 0; i < 2; i++) {
		open_with(i ? RMEM_NO_THREAD : 0);
		ck_assert_int_eq(info().fabric, RMEM_FABRIC_RDMA);
		ck_assert_uint_ne(server.hello_qpn, 0);
		ck_assert_uint_eq(fake.joined_qpn, server.hello_qpn + 1);
		ck_assert_uint_eq(server.seen[WIRE_TYPE_join_channel], 1);
		ck_assert_uint_eq(server.seen[WIRE_TYPE_open_channel], 0);
		works();
	}
	/* each channel is given back by its number, as the session ends */
	ck_assert_uint_eq(server.seen[WIRE_TYPE_close_channel], 3);
	ck_assert_uint_eq(server.closed_channel, server.granted_channel);
	(void)strcat(uri, "?fabric=tcp");
	server.grant_endpoint = 0;
	open_with(0);
	ck_assert_uint_eq(server.hello_qpn, 0);
	works();
}
END_TEST

/* Beyond the first channel there is one to where some memory is lent alone, and this one is
 * opened as ever.  That it is so since the last session is no less good. */
START_TEST(early__has_channels_to_where_memory_is)
{
	serve_joining();
	server.through = 1u << 2;
	for (unsigned i = 0; i < 3; i++) {
		unsigned opened = server.seen[WIRE_TYPE_open_channel];

		server.welcome.endpoints[2].flags =
			WIRE_ENDPOINT_DIRECT | WIRE_ENDPOINT_SOLE;
		open_with(i == 1 ? RMEM_NO_THREAD : 0);
		ck_assert_int_eq(info().fabric, RMEM_FABRIC_RDMA);
		ck_assert_uint_ne(server.hello_qpn, 0);
		ck_assert_str_eq(info().device, "fake0,fake1");
		/* the first has to learn that things have changed */
		ck_assert_uint_eq(server.seen[WIRE_TYPE_open_channel] - opened,
				  i ? 1 : 2);
		works();
	}
	/* all are given back: those that were joined, and those that came with a hello */
	ck_assert_uint_eq(server.seen[WIRE_TYPE_close_channel],
			  server.seen[WIRE_TYPE_join_channel] + 3);
}
END_TEST

static void join_none(void)
{
	server.joins = false;
}

static void move(void)
{
	server.welcome.endpoints[1].address[3]++;
}

static void lose_endpoint(void)
{
	server.welcome.n_endpoints = 2;
}

static void grant_another(void)
{
	server.grant_endpoint = 2;
}

static void (*const changes[])(void) = { join_none, move, lose_endpoint,
					 grant_another };

START_TEST(early__of_a_server_that_has_changed_is_given_back)
{
	serve_joining();
	changes[_i]();
	open_with(0);
	ck_assert_uint_ne(server.hello_qpn, 0);
	ck_assert_int_eq(info().fabric, RMEM_FABRIC_RDMA);
	/* it got another, the ordinary way */
	ck_assert_uint_eq(server.seen[WIRE_TYPE_open_channel], 1);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_join_channel], 2);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_close_channel], 2);
	ck_assert_uint_eq(server.closed_channel, server.granted_channel);
	works();
}
END_TEST

/* One that has no channels to be joined any more is not taken for such a one again. */
START_TEST(early__of_a_server_with_rdma_cm_is_forgotten)
{
	serve_joining();
	server.welcome.endpoints[1].flags = 0;
	for (unsigned i = 0; i < 2; i++) {
		open_with(0);
		ck_assert_int_eq(info().fabric, RMEM_FABRIC_RDMA);
		ck_assert_int_eq(server.hello_qpn != 0, i == 0);
		works();
	}
}
END_TEST

START_TEST(early__fails_as_any_hello)
{
	serve_joining();
	server.refuse = EDQUOT;
	ck_assert_int_eq(rmem_open(uri, NULL, &client), -EDQUOT);
	ck_assert_uint_eq(server.connections, 2);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_hello], 2);
	server.refuse = 0;
	/* what this host lacks costs no hello */
	fake.rdma_cq_err = -ENODEV;
	open_with(0);
	ck_assert_int_eq(info().fabric, RMEM_FABRIC_TCP);
	ck_assert_uint_eq(server.hello_qpn, 0);
	works();
}
END_TEST

/* The thread that opens a session sends the heartbeats, but not while it waits for a slow
 * channel: then the service thread does. */
START_TEST(open__that_is_slow_has_its_heartbeats)
{
	server.welcome.heartbeat_ms = 50;
	server.welcome.fence_ms = 300;
	server.grants = true;
	fake.slow_ms = 1000;
	open_with(0);
	ck_assert_uint_eq(info().resumes, 0);
	ck_assert_uint_eq(server.connections, 1);
	ck_assert_uint_ge(server.seen[WIRE_TYPE_ping], 10);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	rmem_close(client);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-granted");
	TCase *tc = tcase_create("granted");

	tcase_add_checked_fixture(tc, client_setup, client_teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, granted__is_the_first_channel, 0, 3);
	tcase_add_test(tc, granted__is_of_the_likely_fabric);
	tcase_add_test(tc, granted__may_be_none);
	tcase_add_loop_test(tc, granted__elsewhere_is_given_back, 0, 4);
	tcase_add_test(tc, granted__is_given_back_by_who_falls_back);
	tcase_add_test(tc, granted__is_given_back_when_it_cannot_be_connected);
	tcase_add_test(tc, granted__is_asked_for_by_a_session_that_resumes);
	tcase_add_test(tc, early__is_the_second_sessions_first_channel);
	tcase_add_test(tc, early__has_channels_to_where_memory_is);
	tcase_add_loop_test(tc, early__of_a_server_that_has_changed_is_given_back, 0,
			    4);
	tcase_add_test(tc, early__of_a_server_with_rdma_cm_is_forgotten);
	tcase_add_test(tc, early__fails_as_any_hello);
	tcase_add_test(tc, open__that_is_slow_has_its_heartbeats);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
