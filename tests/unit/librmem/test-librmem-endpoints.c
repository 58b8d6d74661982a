/* SPDX-License-Identifier: BSD-3-Clause */
/* The server comes back with other endpoints: in another order, at other addresses, or not all. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "fabric/address.h"
#include "librmem/lease/lease.h"
#include "librmem/queue/queue.h"
#include "unit/librmem/core-case.h"

static struct fabric_endpoint kept[WIRE_ENDPOINTS_MAX];

/* Stop the server; the next one has the endpoints with these numbers in the list of the first. */
static void serve_again(const unsigned *numbers, unsigned n)
{
	if (kept[0].kind == 0)
		memcpy(kept, fake_endpoints, sizeof(kept));
	server_stop();
	n_fake_endpoints = n;
	for (unsigned i = 0; i < n; i++)
		fake_endpoints[i] = kept[numbers[i]];
	server_start();
}
#define SERVE_AGAIN(...)                               \
	serve_again((const unsigned[]){ __VA_ARGS__ }, \
		    sizeof((const unsigned[]){ __VA_ARGS__ }) / sizeof(unsigned))

/* Number of connections of the queue to this device of the server. */
static unsigned connections_to(const char *device)
{
	unsigned n = 0;

	(void)pthread_mutex_lock(&stage.client->lock);
	for (unsigned i = 0; i < stage.queue->channels.n; i++) {
		const struct channel *channel = &stage.queue->channels.all[i];
		const struct fabric_channel *fabric =
			channel->fabric ? channel->fabric : channel->fresh;

		n += fabric && !channel->doomed &&
		     !strcmp(fabric->cq->domain->endpoint.device, device);
	}
	(void)pthread_mutex_unlock(&stage.client->lock);
	return n;
}

/* Let the queue's owner follow what has changed. */
static bool connected_to(const char *device)
{
	struct rmem_completion completion;

	ck_assert_int_eq(rmem_poll(stage.queue, &completion, 1), 0);
	return connections_to(device) == 1;
}

static void check_writes(rmem_lease *lease)
{
	unsigned char *memory;

	memset(stage.buf, stage.buf[0] + 1, sizeof(stage.buf));
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(queue_write(lease), 0);
	memory = proxy_memory(rmem_lease_id(lease));
	ck_assert_mem_eq(memory, stage.buf, 9);
}

/* The endpoints of a session over TCP do not depend on the server's devices. */
START_TEST(tcp__goes_on_with_other_devices)
{
	rmem_lease *lease;

	serve_rdma();
	(void)strcat(stage.uri, "?fabric=tcp");
	lease = open_with_lease(0);
	queue_open(1);
	SERVE_AGAIN(0);
	check_writes(lease);
	SERVE_AGAIN(2, 1, 0);
	check_writes(lease);
	ck_assert_uint_eq(info().resumes, 2);
}
END_TEST

START_TEST(tcp__follows_a_moved_data_port)
{
	rmem_lease *lease;

	fake_endpoints[0].address.port = 4000;
	server_restart();
	lease = open_with_lease(0);
	queue_open(1);
	ck_assert_uint_eq(fake_opened_port(), 4000);
	fake_endpoints[0].address.port = 4001;
	server_restart();
	check_writes(lease);
	ck_assert_uint_eq(fake_opened_port(), 4001);
	/* synchronous calls have a queue of their own */
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 1), 0);
	ck_assert_uint_eq(fake_latest()->cq->domain->endpoint.address.port, 4001);
}
END_TEST

START_TEST(rdma__finds_its_devices_in_another_order)
{
	rmem_lease *lease;

	serve_rdma();
	(void)strcat(stage.uri, "?fabric=rdma&channels=2");
	lease = open_with_lease(0);
	queue_open(2);
	SERVE_AGAIN(2, 0, 1);
	AWAIT(connected_to("fake0") && connected_to("fake1"));
	check_writes(lease);
	/* memory that is asked for now */
	lease = alloc(1000, NULL);
	check_writes(lease);
	ck_assert_uint_eq(info().resumes, 1);
}
END_TEST

/* The other device carries everything until the missing one is back. */
START_TEST(rdma__goes_on_without_a_device)
{
	rmem_lease *lease;

	serve_rdma();
	(void)strcat(stage.uri, "?fabric=rdma&channels=2");
	lease = open_with_lease(0);
	queue_open(2);
	SERVE_AGAIN(0, 2);
	AWAIT(connected_to("fake1"));
	check_writes(lease);
	ck_assert_uint_eq(connections_to("fake0"), 0);
	SERVE_AGAIN(0, 1, 2);
	AWAIT(connected_to("fake0") && connected_to("fake1"));
	check_writes(lease);
}
END_TEST

/* Operations wait for the only device, at most for their time-out. */
START_TEST(rdma__waits_for_its_only_device)
{
	struct rmem_op op = { .opcode = RMEM_OP_WRITE, .addr = stage.buf, .bytes = 10 };
	unsigned asked;

	serve_devices(1);
	(void)strcat(stage.uri, "?fabric=rdma");
	op.lease = open_with_lease(0);
	queue_open(1);
	asked = proxy.seen[WIRE_TYPE_open_channel];
	SERVE_AGAIN(0);
	AWAIT(info().resumes == 1);
	op.timeout_ms = 100;
	ck_assert_int_eq(rmem_submit(stage.queue, &op, 1), 1);
	ck_assert_int_eq(wait_status(), -ETIMEDOUT);
	/* the server is not asked for what it does not have */
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_open_channel], asked);
	op.timeout_ms = 0;
	ck_assert_int_eq(rmem_submit(stage.queue, &op, 1), 1);
	SERVE_AGAIN(0, 1);
	ck_assert_int_eq(wait_status(), 0);
	check_writes(op.lease);
}
END_TEST

static void queue_open_on(int node)
{
	struct rmem_queue_params params = rmem_queue_params_init();

	params.channels = 1;
	params.node = node;
	ck_assert_int_eq(rmem_queue_create(stage.client, &params, &stage.queue), 0);
}

/* The devices fake1 and fake2 are on node 1. */
START_TEST(node__whose_devices_are_silent_is_done_without)
{
	rmem_lease *lease;

	serve_devices(3);
	fake_endpoints[2].node = fake_endpoints[3].node = 1;
	server_restart();
	(void)strcat(stage.uri, "?fabric=rdma&channels=3");
	lease = open_with_lease(0);
	(void)strcpy(fake.silent, "fake1");
	queue_open_on(1);
	ck_assert_uint_eq(connections_to("fake2"), 1);
	check_writes(lease);
	rmem_queue_free(stage.queue);
	(void)strcpy(fake.silent, "none");
	queue_open_on(1);
	ck_assert_uint_eq(connections_to("fake1"), 1);
	check_writes(lease);
	rmem_queue_free(stage.queue);
}
END_TEST

/* ---- the map ---- */

static struct wire_welcome known, now;

static void add(struct wire_welcome *welcome, const char *device, unsigned host)
{
	struct wire_endpoint *endpoint = &welcome->endpoints[welcome->n_endpoints++];

	endpoint->fabric = device[0] ? WIRE_FABRIC_VERBS : WIRE_FABRIC_TCP;
	endpoint->family = 4;
	endpoint->address[3] = (uint8_t)host;
	(void)strcpy(endpoint->device, device);
}

START_TEST(map__keeps_the_numbers)
{
	struct endpoint_map map;

	add(&known, "", 1);
	add(&known, "a", 1);
	add(&known, "b", 1);
	add(&known, "b", 2);
	endpoint_map_follow(&map, &known, &known);
	ck_assert_uint_eq(map.present, 15);
	ck_assert_uint_eq(map.away, 0);
	ck_assert_uint_eq(endpoint_mask_to_server(&map, 10), 10);
	/* one device is new, one is missing; the ports of another have changed places */
	add(&now, "new", 1);
	add(&now, "b", 2);
	add(&now, "b", 3);
	add(&now, "", 9);
	endpoint_map_follow(&map, &known, &now);
	ck_assert_uint_eq(map.present, 1 | 4 | 8);
	ck_assert_uint_eq(map.away, 2);
	ck_assert_uint_eq(map.index[0], 3);
	ck_assert_uint_eq(map.index[2], 2);
	ck_assert_uint_eq(map.index[3], 1);
	ck_assert_uint_eq(endpoint_mask_to_server(&map, 15), 2 | 4 | 8);
	ck_assert_uint_eq(endpoint_mask_from_server(&map, 15), 1 | 4 | 8);
	ck_assert_uint_eq(endpoint_mask_from_server(&map, 1), 0);
	/* the address of the missing one is kept, the others have moved */
	ck_assert_str_eq(known.endpoints[1].device, "a");
	ck_assert_uint_eq(known.endpoints[0].address[3], 9);
	ck_assert_uint_eq(known.endpoints[2].address[3], 3);
}
END_TEST

/* ---- link-local addresses ---- */

/* The scope of the socket address of an endpoint, seen from a peer at fe80::1%5. */
static unsigned scope_of(uint8_t family, uint8_t first, uint8_t second)
{
	struct sockaddr_in6 peer = { .sin6_family = AF_INET6, .sin6_scope_id = 5 };
	struct wire_endpoint wire = { .family = family, .port = 1 };
	struct fabric_endpoint endpoint;
	struct sockaddr_storage to;
	struct sockaddr_in6 in6;

	peer.sin6_addr.s6_addr[0] = 0xfe;
	peer.sin6_addr.s6_addr[1] = 0x80;
	wire.address[0] = first;
	wire.address[1] = second;
	domain_endpoint_parse(&wire, (const struct sockaddr *)&peer, &endpoint);
	if (endpoint.address.family != 6)
		return 0;
	ck_assert_uint_eq(fabric_address_to_sockaddr(&endpoint.address, &to),
			  sizeof(in6));
	memcpy(&in6, &to, sizeof(in6));
	ck_assert_uint_eq(ntohs(in6.sin6_port), 1);
	return in6.sin6_scope_id;
}

START_TEST(link_local__keeps_the_scope_of_the_peer)
{
	ck_assert_uint_eq(scope_of(0, 0, 0), 5);
	ck_assert_uint_eq(scope_of(6, 0xfe, 0x80), 5);
	ck_assert_uint_eq(scope_of(6, 0xfe, 0xbf), 5);
	ck_assert_uint_eq(scope_of(6, 0xfd, 0x80), 0);
	ck_assert_uint_eq(scope_of(6, 0xfe, 0xc0), 0);
	ck_assert_uint_eq(scope_of(4, 0xfe, 0x80), 0);
}
END_TEST

int main(void)
{
	TCase *tc = core_case("endpoints"), *map = unit_case("map", NULL, NULL);

	tcase_add_test(tc, tcp__goes_on_with_other_devices);
	tcase_add_test(tc, tcp__follows_a_moved_data_port);
	tcase_add_test(tc, rdma__finds_its_devices_in_another_order);
	tcase_add_test(tc, rdma__goes_on_without_a_device);
	tcase_add_test(tc, rdma__waits_for_its_only_device);
	tcase_add_test(tc, node__whose_devices_are_silent_is_done_without);
	tcase_add_test(map, map__keeps_the_numbers);
	tcase_add_test(map, link_local__keeps_the_scope_of_the_peer);
	return unit_main();
}
