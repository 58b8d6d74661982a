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
	(void)strcat(stage.uri, requests[_i].item);
	open_with(0);
	ck_assert_uint_eq(HELLO.channel, requests[_i].fabric);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_open_channel], 0);
	ck_assert_uint_eq(fake_latest()->hello.channel, GRANTED);
	(void)admission_token(proxy.last[WIRE_TYPE_welcome].welcome.secret,
			      fake_latest()->hello.session,
			      fake_latest()->hello.channel, token);
	ck_assert_mem_eq(fake_latest()->hello.token, token, sizeof(token));
	lease = alloc(20000, NULL);
	ck_assert_int_eq(rmem_write(lease, 5, stage.buf, sizeof(stage.buf)), 0);
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
	serve_devices(1);
	proxy.edit = edit_no_channel;
	open_with(0);
	ck_assert_uint_eq(HELLO.channel, WIRE_FABRIC_VERBS);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_open_channel], 1);
	client_close();
	proxy_fail(WIRE_TYPE_open_channel, EDQUOT, 0);
	(void)strcat(stage.uri, "?fabric=rdma");
	ck_assert_int_eq(rmem_open(stage.uri, NULL, &stage.client), -EDQUOT);
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
	serve_devices(1);
	fake.connect_err = -EACCES;
	(void)strcat(stage.uri, "?fabric=rdma");
	ck_assert_int_eq(rmem_open(stage.uri, NULL, &stage.client), -EACCES);
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
	ck_assert_int_eq(rmem_write(lease, 5, stage.buf, sizeof(stage.buf)), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_open_channel], 1);
}
END_TEST

/* Without rdma_cm one request joins it. */
START_TEST(granted__is_joined)
{
	rmem_lease *lease;

	serve_rdma();
	fake_endpoints[1].flags |= FABRIC_ENDPOINT_DIRECT;
	open_over(_i ? RMEM_NO_THREAD : 0, RMEM_FABRIC_RDMA);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_open_channel], 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_join_channel], 1);
	ck_assert_uint_eq(proxy.last[WIRE_TYPE_join_channel].join_channel.channel,
			  GRANTED);
	lease = alloc(20000, NULL);
	ck_assert_int_eq(rmem_write(lease, 5, stage.buf, sizeof(stage.buf)), 0);
	client_close();
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_close_channel], 1);
	ck_assert_uint_eq(CLOSED, GRANTED);
}
END_TEST

static int await_heartbeats(void)
{
	proxy_await(WIRE_TYPE_ping, 10);
	return 0;
}

/* While the thread that opens the session waits for a slow channel, longer than for its first
 * attempt, the service thread sends the heartbeats. */
START_TEST(open__that_is_slow_sends_heartbeats)
{
	set_heartbeat(50, 20000);
	fake.slow_ms = 1000;
	fake.at_connect = await_heartbeats;
	open_with(0);
	ck_assert_uint_eq(info().resumes, 0);
	ck_assert_uint_eq(proxy.connections, 1);
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
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
	tcase_add_loop_test(tc, granted__is_joined, 0, 2);
	tcase_add_test(tc, open__that_is_slow_sends_heartbeats);
	return unit_main();
}
