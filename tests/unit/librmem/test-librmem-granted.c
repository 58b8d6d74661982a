/* SPDX-License-Identifier: BSD-3-Clause */
/* The channel that the server grants with the welcome. */
#include <errno.h>
#include <string.h>

#include "tls/admission.h"
#include "unit/librmem/core-case.h"

#define HELLO (proxy.last[WIRE_TYPE_hello].hello)
#define GRANTED (proxy.last[WIRE_TYPE_welcome].welcome.channel)
#define CLOSED (proxy.last[WIRE_TYPE_close_channel].close_channel.channel)

static const struct {
	const char *item;
	unsigned fabric;
} requests[] = {
	{ "", WIRE_FABRIC_VERBS },
	{ "?fabric=rdma", WIRE_FABRIC_VERBS },
	{ "?fabric=tcp", WIRE_FABRIC_TCP },
};

START_TEST(granted__is_the_first_channel)
{
	uint8_t token[ADMISSION_BYTES];
	rmem_lease *lease;

	serve_rdma();
	(void)strcat(uri, requests[_i].item);
	open_with(0);
	ck_assert_uint_eq(HELLO.channel, requests[_i].fabric);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_open_channel], 0);
	ck_assert_uint_eq(fake_latest()->hello.channel, GRANTED);
	(void)admission_token(proxy.last[WIRE_TYPE_welcome].welcome.token,
			      WIRE_TOKEN_BYTES, fake_latest()->hello.session,
			      fake_latest()->hello.channel, token);
	ck_assert_mem_eq(fake_latest()->hello.token, token, sizeof(token));
	lease = alloc(20000, NULL);
	ck_assert_int_eq(rmem_write(lease, 5, buf, sizeof(buf)), 0);
	/* further channels are requested */
	queue_open(1);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_open_channel], 1);
	ck_assert_uint_ne(fake_latest()->hello.channel, GRANTED);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_close_channel], 0);
}
END_TEST

/* A host without an RDMA device asks for a TCP channel. */
START_TEST(granted__is_of_the_fabric_of_the_host)
{
	serve_rdma();
	fake.available_err = -ENODEV;
	open_over(0, RMEM_FABRIC_TCP);
	ck_assert_uint_eq(HELLO.channel, WIRE_FABRIC_TCP);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_open_channel], 0);
}
END_TEST

START_TEST(granted__may_be_none)
{
	serve_rdma();
	proxy.edit = edit_no_channel;
	open_with(0);
	ck_assert_uint_eq(HELLO.channel, WIRE_FABRIC_VERBS);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_open_channel], 1);
	client_close();
	proxy_fail(WIRE_TYPE_open_channel, EDQUOT, 0);
	(void)strcat(uri, "?fabric=rdma");
	ck_assert_int_eq(rmem_open(uri, NULL, &client), -EDQUOT);
}
END_TEST

/* Endpoints of another fabric and of another device, and numbers of no endpoint. */
static const uint8_t other_endpoints[] = { 0, 2, 7, 255 };

static uint8_t granted_endpoint;

static void edit_endpoint(struct wire_msg *msg)
{
	if (msg->type == WIRE_TYPE_welcome)
		msg->welcome.endpoint = granted_endpoint;
}

START_TEST(granted__to_another_endpoint_is_closed)
{
	serve_rdma();
	granted_endpoint = other_endpoints[_i];
	proxy.edit = edit_endpoint;
	open_over(0, RMEM_FABRIC_RDMA);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_open_channel], 1);
	proxy_await(WIRE_TYPE_close_channel, 1);
	ck_assert_uint_eq(CLOSED, GRANTED);
	ck_assert_uint_ne(fake_latest()->hello.channel, GRANTED);
}
END_TEST

START_TEST(granted__is_closed_when_the_client_falls_back)
{
	serve_rdma();
	fake.rdma_cq_err = -ENODEV;
	open_over(0, RMEM_FABRIC_TCP);
	proxy_await(WIRE_TYPE_close_channel, 1);
	ck_assert_uint_eq(CLOSED, GRANTED);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_open_channel], 1);
}
END_TEST

START_TEST(granted__is_closed_when_it_cannot_be_connected)
{
	serve_rdma();
	fake.connect_err = -EACCES;
	(void)strcat(uri, "?fabric=rdma");
	ck_assert_int_eq(rmem_open(uri, NULL, &client), -EACCES);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_close_channel], 1);
	ck_assert_uint_eq(CLOSED, GRANTED);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_open_channel], 0);
}
END_TEST

/* The server ended it when the connection was lost. */
START_TEST(granted__is_requested_again_after_a_resume)
{
	rmem_lease *lease;

	serve_rdma();
	open_with(0);
	lease = alloc(20000, NULL);
	proxy_cut();
	proxy_await_count(&proxy.resumed, 1);
	ck_assert_uint_eq(HELLO.channel, 0);
	ck_assert_int_eq(rmem_write(lease, 5, buf, sizeof(buf)), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_open_channel], 1);
}
END_TEST

/* ---- joined with the hello ---- */

/* Serve without rdma_cm, and open a session, by which the library learns of that. */
static void learn_direct_server(void)
{
	serve_rdma();
	fake_endpoints[1].flags |= FABRIC_ENDPOINT_DIRECT;
	open_with(0);
	ck_assert_uint_eq(HELLO.qpn, 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_join_channel], 1);
	client_close();
}

/* The open session works, and needed one connection. */
static void check_session(void)
{
	rmem_lease *lease = alloc(20000, NULL);

	ck_assert_int_eq(rmem_write(lease, 5, buf, sizeof(buf)), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_hello], proxy.connections);
	client_close();
}

START_TEST(early__is_the_first_channel_of_the_second_session)
{
	learn_direct_server();
	for (unsigned i = 0; i < 2; i++) {
		open_over(i ? RMEM_NO_THREAD : 0, RMEM_FABRIC_RDMA);
		ck_assert_uint_ne(HELLO.qpn, 0);
		ck_assert_uint_eq(fake.joined_qpn, HELLO.qpn + 1);
		ck_assert_uint_eq(proxy.seen[WIRE_TYPE_join_channel], 1);
		ck_assert_uint_eq(proxy.seen[WIRE_TYPE_open_channel], 0);
		check_session();
	}
	/* each session closes its channel by its number */
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_close_channel], 3);
	ck_assert_uint_eq(CLOSED, GRANTED);
	(void)strcat(uri, "?fabric=tcp");
	open_with(0);
	ck_assert_uint_eq(HELLO.qpn, 0);
	check_session();
}
END_TEST

/* Only the first channel is joined with the hello; the channel to the other sole endpoint, which is
 * sole since the last session, is requested. */
START_TEST(early__leaves_extra_channels_to_requests)
{
	learn_direct_server();
	serve_sole_rdma();
	fake_endpoints[1].flags |= FABRIC_ENDPOINT_DIRECT;
	fake_endpoints[2].flags |= FABRIC_ENDPOINT_DIRECT;
	for (unsigned i = 0; i < 3; i++) {
		unsigned opened = proxy.seen[WIRE_TYPE_open_channel];

		open_over(i == 1 ? RMEM_NO_THREAD : 0, RMEM_FABRIC_RDMA);
		ck_assert_uint_ne(HELLO.qpn, 0);
		ck_assert_str_eq(info().device, "fake0,fake1");
		/* the first session learns that the endpoints have changed */
		ck_assert_uint_eq(proxy.seen[WIRE_TYPE_open_channel] - opened,
				  i ? 1 : 2);
		check_session();
	}
	/* all are closed: those that were joined, and those that came with a hello */
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_close_channel],
			  proxy.seen[WIRE_TYPE_join_channel] + 3);
}
END_TEST

static void edit_no_qpn(struct wire_msg *msg)
{
	if (msg->type == WIRE_TYPE_welcome)
		msg->welcome.qpn = 0;
}

static void refuse_join(void)
{
	proxy.edit = edit_no_qpn;
}

static void move_endpoint(void)
{
	fake_endpoints[1].address.bytes[3]++;
}

static void remove_endpoint(void)
{
	n_fake_endpoints = 2;
	server_restart();
}

static void grant_other_endpoint(void)
{
	granted_endpoint = 2;
	proxy.edit = edit_endpoint;
}

static void (*const changes[])(void) = { refuse_join, move_endpoint, remove_endpoint,
					 grant_other_endpoint };

START_TEST(early__is_closed_when_the_server_has_changed)
{
	learn_direct_server();
	changes[_i]();
	open_over(0, RMEM_FABRIC_RDMA);
	ck_assert_uint_ne(HELLO.qpn, 0);
	/* another channel was requested */
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_open_channel], 1);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_join_channel], 2);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_close_channel], 2);
	ck_assert_uint_eq(CLOSED, GRANTED);
	check_session();
}
END_TEST

START_TEST(early__is_not_tried_again_with_a_server_that_needs_rdma_cm)
{
	learn_direct_server();
	fake_endpoints[1].flags &= ~FABRIC_ENDPOINT_DIRECT;
	for (unsigned i = 0; i < 2; i++) {
		open_over(0, RMEM_FABRIC_RDMA);
		ck_assert_int_eq(HELLO.qpn != 0, i == 0);
		check_session();
	}
}
END_TEST

START_TEST(early__hello_fails_with_the_error_of_the_server)
{
	learn_direct_server();
	proxy_fail(WIRE_TYPE_hello, EDQUOT, 0);
	ck_assert_int_eq(rmem_open(uri, NULL, &client), -EDQUOT);
	ck_assert_uint_eq(proxy.connections, 2);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_hello], 2);
	proxy_fail(WIRE_TYPE_hello, 0, 0);
	/* a missing device of this host costs no hello */
	fake.rdma_cq_err = -ENODEV;
	open_over(0, RMEM_FABRIC_TCP);
	ck_assert_uint_eq(HELLO.qpn, 0);
	check_session();
}
END_TEST

/* While the thread that opens the session waits for a slow channel, the service thread sends the
 * heartbeats. */
START_TEST(open__that_is_slow_sends_heartbeats)
{
	set_heartbeat(50, 300);
	fake.slow_ms = 1000;
	open_with(0);
	ck_assert_uint_eq(info().resumes, 0);
	ck_assert_uint_eq(proxy.connections, 1);
	ck_assert_uint_ge(proxy.seen[WIRE_TYPE_ping], 10);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
}
END_TEST

int main(void)
{
	TCase *tc = core_case("granted");

	tcase_add_loop_test(tc, granted__is_the_first_channel, 0, 3);
	tcase_add_test(tc, granted__is_of_the_fabric_of_the_host);
	tcase_add_test(tc, granted__may_be_none);
	tcase_add_loop_test(tc, granted__to_another_endpoint_is_closed, 0, 4);
	tcase_add_test(tc, granted__is_closed_when_the_client_falls_back);
	tcase_add_test(tc, granted__is_closed_when_it_cannot_be_connected);
	tcase_add_test(tc, granted__is_requested_again_after_a_resume);
	tcase_add_test(tc, early__is_the_first_channel_of_the_second_session);
	tcase_add_test(tc, early__leaves_extra_channels_to_requests);
	tcase_add_loop_test(tc, early__is_closed_when_the_server_has_changed, 0, 4);
	tcase_add_test(tc, early__is_not_tried_again_with_a_server_that_needs_rdma_cm);
	tcase_add_test(tc, early__hello_fails_with_the_error_of_the_server);
	tcase_add_test(tc, open__that_is_slow_sends_heartbeats);
	return unit_main();
}
