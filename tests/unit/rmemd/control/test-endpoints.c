/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: the limit of a segment, the endpoints of a pool, the node of a device. */
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "fabric/address.h"
#include "rmemd/control/control.h"
#include "rmemd/control/endpoint_address.h"
#include "rmemd/control/endpoints.h"
#include "unit/unit.h"

#define REMOVED UINT64_C(1)

/* The size that each endpoint's device registers at once, or REMOVED. */
static uint64_t devices[4];

static int device(const struct fabric_server *, unsigned endpoint,
		  const struct fabric_device_attr **ret_attr,
		  struct fabric_port_attr *ret_port)
{
	static struct fabric_device_attr attr[4];

	if (devices[endpoint] == REMOVED)
		return -ENODEV;
	attr[endpoint].max_mr_bytes = devices[endpoint];
	*ret_attr = &attr[endpoint];
	*ret_port = (struct fabric_port_attr){ 0 };
	return 0;
}

static const struct fabric_server_ops rdma = { .name = "verbs", .device = device };
static const struct fabric_server_ops tcp = { .name = "tcp" };

static const struct {
	unsigned n;
	uint64_t devices[4];
	uint64_t max;
} hosts[] = {
	{ 0, { 0 }, 0 },
	{ 1, { UINT64_MAX }, UINT64_MAX },
	{ 3, { 1 << 30, 1 << 20, UINT64_MAX }, 1 << 20 },
	/* a device that reports no limit, and a removed one, do not count */
	{ 3, { 0, REMOVED, 1 << 30 }, 1 << 30 },
	{ 2, { 0, REMOVED }, 0 },
};

START_TEST(segment_max__is_the_smallest_limit_of_the_devices)
{
	struct endpoints endpoints = { .at = { { .ops = &tcp } },
				       .n = hosts[_i].n + 1 };

	for (unsigned i = 0; i < hosts[_i].n; i++) {
		devices[i] = hosts[_i].devices[i];
		endpoints.at[i + 1] = (struct endpoint){ .ops = &rdma, .local = i };
	}
	ck_assert_uint_eq(endpoints_segment_max(&endpoints), hosts[_i].max);
}
END_TEST

static const struct fabric_endpoint mixed[] = {
	{ .kind = FABRIC_VERBS, .node = 1, .device = "a", .channels_max = 4096 },
	{ .kind = FABRIC_TCP, .node = -1 },
	{ .kind = FABRIC_VERBS, .node = 2, .device = "b" },
	{ .kind = FABRIC_TCP, .node = -1 },
	{ .kind = FABRIC_VERBS, .node = -1, .awaited = true },
};

static const struct {
	const char *devices[2];
	unsigned endpoints;
	const char *missing;
} pools[] = {
	{ { NULL }, 31, NULL },
	{ { "a" }, 11, NULL },
	{ { "b", "a" }, 15, NULL },
	{ { "b", "none" }, 14, "none" },
	{ { "none", "other" }, 10, "none" },
};

static void init_mixed(struct endpoints *endpoints)
{
	endpoints->n = 5;
	for (unsigned i = 0; i < 5; i++)
		endpoints->at[i] = (struct endpoint){ .info = &mixed[i] };
}

/* TCP endpoints lend all pools. */
START_TEST(endpoints_of_a_pool__are_those_of_its_devices)
{
	struct pool_params pool = { .n_devices = 0 };
	struct endpoints endpoints;
	const char *missing;

	init_mixed(&endpoints);
	for (unsigned i = 0; i < 2 && pools[_i].devices[i]; i++)
		(void)strcpy(pool.devices[pool.n_devices++], pools[_i].devices[i]);
	ck_assert_uint_eq(endpoints_of_pool(&endpoints, &pool), pools[_i].endpoints);
	missing = endpoints_missing(&endpoints, &pool);
	ck_assert(!missing == !pools[_i].missing);
	if (missing)
		ck_assert_str_eq(missing, pools[_i].missing);
	ck_assert_uint_eq(endpoints_all(&endpoints), 31);
}
END_TEST

/* The endpoints over TCP share the descriptors of the process. */
START_TEST(channels__are_divided_by_endpoints)
{
	struct endpoints endpoints;

	init_mixed(&endpoints);
	ck_assert_uint_eq(endpoints_n_tcp(&endpoints), 2);
	endpoints_set_channels(&endpoints, 101);
	ck_assert_uint_eq(endpoints.at[0].channels_max, 4096);
	ck_assert_uint_eq(endpoints.at[1].channels_max, 50);
	/* this device has told nothing */
	ck_assert_uint_eq(endpoints.at[2].channels_max, 0);
	ck_assert_uint_eq(endpoints.at[3].channels_max, 50);
	ck_assert_uint_eq(endpoints.at[4].channels_max, 0);
	endpoints_set_channels(&endpoints, 1);
	ck_assert_uint_eq(endpoints.at[3].channels_max, 1);
}
END_TEST

START_TEST(node__is_that_of_the_device)
{
	struct endpoints endpoints;
	int node = 7;

	init_mixed(&endpoints);
	ck_assert_int_eq(endpoints_node(&endpoints, "c", &node), -ENODEV);
	ck_assert_int_eq(node, 7);
	ck_assert_int_eq(endpoints_node(&endpoints, "b", &node), 0);
	ck_assert_int_eq(node, 2);
}
END_TEST

/* ---- more than there is room for ---- */

static const struct fabric_endpoint many[WIRE_ENDPOINTS_MAX + 2] = {
	[WIRE_ENDPOINTS_MAX - 1] = { .device = "last" },
	[WIRE_ENDPOINTS_MAX] = { .device = "c", .address = { .port = 7461 } },
	[WIRE_ENDPOINTS_MAX + 1] = { .device = "d", .address = { .port = 7462 } },
};
static char left_out[256];

static int open_many(const struct fabric_server_params *,
		     const struct fabric_server_events *, void *,
		     struct fabric_server **)
{
	return 0;
}

static void close_many(struct fabric_server *)
{
}

static int silent;

static int silent_fd(const struct fabric_server *)
{
	return silent;
}

static unsigned count_many(const struct fabric_server *)
{
	return WIRE_ENDPOINTS_MAX + 2;
}

static const struct fabric_endpoint *one_of_many(const struct fabric_server *,
						 unsigned endpoint)
{
	return &many[endpoint];
}

static void read_left_out(int level, const char *event, const struct log_ctx *ctx,
			  const char *text)
{
	size_t at = strlen(left_out);

	ck_assert_int_eq(level, LOG_WARNING);
	ck_assert_str_eq(event, "endpoint-left-out");
	(void)snprintf(left_out + at, sizeof(left_out) - at, "%s %.29s\n", ctx->device,
		       text);
}

START_TEST(endpoints__beyond_the_room_are_each_left_out_with_a_line)
{
	static const struct fabric_server_ops ops = { .name = "verbs",
						      .open = open_many,
						      .close = close_many,
						      .fd = silent_fd,
						      .n_endpoints = count_many,
						      .endpoint = one_of_many };
	static struct control control;

	control.base = event_base_new();
	silent = eventfd(0, 0);
	log_set_sink(read_left_out);
	ck_assert_int_eq(endpoints_serve(&control, &ops, NULL), 0);
	log_set_sink(NULL);
	ck_assert_uint_eq(control.endpoints.n, WIRE_ENDPOINTS_MAX);
	ck_assert_ptr_eq(control.endpoints.at[31].info, &many[31]);
	ck_assert_uint_eq(endpoints_all(&control.endpoints), UINT32_MAX);
	ck_assert_str_eq(left_out, "c verbs at *:7461 is not served\n"
				   "d verbs at *:7462 is not served\n");
	endpoints_close(&control.endpoints);
	event_base_free(control.base);
	(void)close(silent);
}
END_TEST

static struct fabric_address address_of(const char *text)
{
	struct fabric_address address = { .family = 0 };

	if (*text)
		ck_assert_int_eq(fabric_address_parse(text, &address), 0);
	return address;
}

/* What clients are told of an endpoint that listens at an address: by the address from which their
 * control connection comes; "": what they have reached. */
static const struct {
	const char *listen, *client, *told;
} told[] = {
	{ "192.0.2.2", "192.0.2.9", "192.0.2.2" },
	{ "192.0.2.2", "2001:db8::9", "192.0.2.2" },
	{ "0.0.0.0", "192.0.2.9", "" },
	{ "0.0.0.0", "::1", "0.0.0.0" },
	{ "::", "2001:db8::9", "" },
	{ "::", "192.0.2.9", "::" },
};

static bool address_is(const struct fabric_address *address, const char *text)
{
	const struct fabric_address expected = address_of(text);

	return fabric_address_host_equal(address, &expected);
}

START_TEST(address__of_a_wildcard_is_what_a_client_of_its_family_has_reached)
{
	const struct fabric_endpoint info = { .kind = FABRIC_TCP,
					      .address = address_of(told[_i].listen) };
	const struct fabric_address client = address_of(told[_i].client);
	struct endpoint endpoint = { .info = &info };
	struct fabric_address address = endpoint_address(&endpoint, &client);

	ck_assert(address_is(&address, told[_i].told));
	/* behind a NAT */
	endpoint.advertised = address_of("198.51.100.1");
	endpoint.advertised.port = 17462;
	address = endpoint_address(&endpoint, &client);
	ck_assert(address_is(&address, "198.51.100.1"));
	ck_assert_uint_eq(address.port, 17462);
	endpoint.advertised.family = 0;
	memset(endpoint.advertised.bytes, 0, sizeof(endpoint.advertised.bytes));
	address = endpoint_address(&endpoint, &client);
	ck_assert_uint_eq(address.family, info.address.family == client.family
						  ? 0
						  : info.address.family);
	ck_assert_uint_eq(address.port, 17462);
}
END_TEST

/* Of an endpoint whose device or address is missing clients are told no address, so they leave it
 * out. */
START_TEST(address__that_is_awaited_is_not_told)
{
	const struct fabric_endpoint info = { .kind = FABRIC_VERBS,
					      .address = address_of("192.0.2.2"),
					      .awaited = true };
	const struct fabric_address client = address_of("192.0.2.9");
	const struct endpoint endpoint = { .info = &info };
	struct endpoints endpoints = { .at = { endpoint }, .n = 1 };
	struct fabric_address address = endpoint_address(&endpoint, &client);

	ck_assert(address_is(&address, "0.0.0.0"));
	ck_assert_uint_eq(endpoints_nearest(&endpoints, FABRIC_VERBS, &info.address),
			  1);
}
END_TEST

static const char *const listens[] = { "192.0.2.2", "192.0.2.2", "198.51.100.2",
				       "2001:db8::2", "::1" };

/* The first of them is of RDMA, the others are of TCP. */
static const struct {
	const char *reached;
	enum fabric_kind kind;
	unsigned endpoint;
} nearest[] = {
	{ "192.0.2.2", FABRIC_TCP, 1 },      { "198.51.100.2", FABRIC_TCP, 2 },
	{ "2001:db8::2", FABRIC_TCP, 3 },    { "::1", FABRIC_TCP, 4 },
	{ "203.0.113.1", FABRIC_TCP, 1 },    { "192.0.2.2", FABRIC_VERBS, 0 },
	{ "198.51.100.2", FABRIC_VERBS, 0 },
};

START_TEST(nearest__is_at_the_address_of_the_control_connection)
{
	const struct fabric_address reached = address_of(nearest[_i].reached);
	struct fabric_endpoint info[5] = { { .kind = FABRIC_VERBS } };
	struct endpoints endpoints = { .n = 5 };

	for (unsigned i = 0; i < 5; i++) {
		info[i].kind = i ? FABRIC_TCP : FABRIC_VERBS;
		info[i].address = address_of(listens[i]);
		endpoints.at[i].info = &info[i];
	}
	ck_assert_uint_eq(endpoints_nearest(&endpoints, nearest[_i].kind, &reached),
			  nearest[_i].endpoint);
	/* all addresses of IPv4 */
	info[4].address = address_of("0.0.0.0");
	if (nearest[_i].endpoint == 4)
		ck_assert_uint_eq(endpoints_nearest(&endpoints, FABRIC_TCP, &reached),
				  1);
	endpoints.n = 1;
	ck_assert_uint_eq(endpoints_nearest(&endpoints, FABRIC_TCP, &reached), 1);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("endpoint", NULL, NULL);

	tcase_add_loop_test(tc, segment_max__is_the_smallest_limit_of_the_devices, 0,
			    sizeof(hosts) / sizeof(hosts[0]));
	tcase_add_loop_test(tc, endpoints_of_a_pool__are_those_of_its_devices, 0,
			    sizeof(pools) / sizeof(pools[0]));
	tcase_add_test(tc, channels__are_divided_by_endpoints);
	tcase_add_test(tc, node__is_that_of_the_device);
	tcase_add_loop_test(
		tc, address__of_a_wildcard_is_what_a_client_of_its_family_has_reached,
		0, sizeof(told) / sizeof(told[0]));
	tcase_add_test(tc, address__that_is_awaited_is_not_told);
	tcase_add_loop_test(tc, nearest__is_at_the_address_of_the_control_connection, 0,
			    sizeof(nearest) / sizeof(nearest[0]));
	tcase_add_test(tc, endpoints__beyond_the_room_are_each_left_out_with_a_line);
	return unit_main();
}
