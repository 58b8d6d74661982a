/* SPDX-License-Identifier: BSD-3-Clause */
/* What the daemon shows of itself. */
#include <string.h>

#include "unit/rmemd/admin/admin-stage.h"

START_TEST(status__sums_up)
{
	int bytes, requests, active, fenced, named, serving;
	const char *version, *why, *control[2];
	json_t *json;

	open_admin();
	json = get("/v1/status");
	ck_assert_int_eq(
		json_unpack(json,
			    "{s:s, s:[s,s], s:{s:{s:b, s:s}}, s:{s:i}, s:{s:i, s:i}, "
			    "s:{s:i}, s:{s:i}}",
			    "version", &version, "control", &control[0], &control[1],
			    "fabrics", "rdma", "serving", &serving, "why", &why,
			    "memory", "free_bytes", &bytes, "sessions", "active",
			    &active, "fenced", &fenced, "leases", "named", &named,
			    "counters", "requests", &requests),
		0);
	ck_assert_str_eq(version, PACKAGE_VERSION);
	ck_assert_str_eq(control[0], "127.0.0.1:7460");
	ck_assert_str_eq(control[1], "[::1]:7460");
	ck_assert(!serving);
	ck_assert_str_eq(why, "no device");
	ck_assert_int_eq(bytes, 1 << 20);
	ck_assert_int_eq(active, 1);
	ck_assert_int_eq(fenced, 1);
	ck_assert_int_eq(named, 1);
	ck_assert_int_eq(requests, 42);
	json_decref(json);
	admin_close(admin);
}
END_TEST

START_TEST(pools__show_what_they_got)
{
	const char *name, *pages, *asked;
	json_t *json, *node_asked;
	int page, bytes, bytes_asked;

	open_admin();
	json = get("/v1/pools");
	ck_assert_int_eq(json_unpack(json, "{s:[{s:s, s:s, s:s, s:i, s:i, s:i, s:o}]}",
				     "pools", "name", &name, "pages", &pages,
				     "pages_asked", &asked, "page_bytes", &page,
				     "bytes", &bytes, "bytes_asked", &bytes_asked,
				     "node_asked", &node_asked),
			 0);
	ck_assert_int_eq(bytes_asked, 1 << 20);
	ck_assert_str_eq(name, "a");
	ck_assert_str_eq(pages, "base");
	ck_assert_str_eq(asked, "base");
	ck_assert_int_eq(page, 4096);
	ck_assert_int_eq(bytes, 1 << 20);
	ck_assert(json_is_null(node_asked));
	json_decref(json);
	admin_close(admin);
}
END_TEST

START_TEST(pools__show_what_becomes_of_them)
{
	const struct pool_request request = { .bytes = 768 << 10, .align = 1 };
	struct extent extent;
	json_t *json, *to;
	const char *pool_state;
	int closed, recalled;
	unsigned n;

	open_admin();
	json = get("/v1/pools");
	ck_assert_int_eq(json_unpack(json, "{s:[{s:s, s:o, s:i, s:i}]}", "pools",
				     "state", &pool_state, "bytes_to", &to,
				     "closed_bytes", &closed, "recalled_bytes",
				     &recalled),
			 0);
	ck_assert_str_eq(pool_state, "ready");
	ck_assert(json_is_null(to));
	ck_assert_int_eq(closed, 0);
	ck_assert_int_eq(recalled, 0);
	json_decref(json);
	ck_assert_int_eq(pools_alloc(pools, &request, &extent, 1, &n), 0);
	ck_assert_int_eq(pools_reclaim(pools, 0, 512 << 10, 0, POOL_SHRINK_REFUSE), 0);
	json = get("/v1/pools");
	ck_assert_int_eq(json_unpack(json, "{s:[{s:s, s:o, s:i, s:i}]}", "pools",
				     "state", &pool_state, "bytes_to", &to,
				     "closed_bytes", &closed, "recalled_bytes",
				     &recalled),
			 0);
	ck_assert_str_eq(pool_state, "shrinking");
	ck_assert_int_eq(json_integer_value(to), 512 << 10);
	ck_assert_int_eq(closed, 256 << 10);
	ck_assert_int_eq(recalled, 256 << 10);
	json_decref(json);
	admin_close(admin);
}
END_TEST

START_TEST(pools__show_their_devices)
{
	json_t *json, *devices;

	open_admin();
	json = get("/v1/pools");
	ck_assert_int_eq(json_unpack(json, "{s:[{s:o}]}", "pools", "devices", &devices),
			 0);
	ck_assert_uint_eq(json_array_size(devices), 2);
	ck_assert_str_eq(json_string_value(json_array_get(devices, 1)), "b1");
	json_decref(json);
	admin_close(admin);
}
END_TEST

/* Null when nothing is free. */
static int fragmented(void)
{
	json_t *json = get("/v1/pools"), *value;
	int percent;

	ck_assert_int_eq(json_unpack(json, "{s:[{s:o}]}", "pools",
				     "fragmentation_percent", &value),
			 0);
	percent = json_is_null(value) ? -1 : (int)json_integer_value(value);
	json_decref(json);
	return percent;
}

START_TEST(pools__show_how_fragmented_they_are)
{
	const struct pool_request request = { .bytes = 4096, .align = 1 };
	struct extent extents[256];
	unsigned n;

	open_admin();
	ck_assert_int_eq(fragmented(), 0);
	for (unsigned i = 0; i < 256; i++)
		ck_assert_int_eq(pools_alloc(pools, &request, &extents[i], 1, &n), 0);
	ck_assert_int_eq(fragmented(), -1);
	pools_free(pools, extents[0]);
	pools_free(pools, extents[2]);
	pools_free(pools, extents[3]);
	for (uint64_t clean = 0; clean < UINT64_C(3) * 4096;)
		clean += pools_process(pools);
	ck_assert_int_eq(fragmented(), 34);
	admin_close(admin);
}
END_TEST

START_TEST(devices__show_address_and_node)
{
	const char *fabrics[2], *addresses[2], *device;
	json_t *json, *no_node, *no_device;
	int node, port;

	open_admin();
	json = get("/v1/devices");
	ck_assert_int_eq(
		json_unpack(json,
			    "{s:[{s:s, s:s, s:o, s:o}, {s:s, s:s, s:i, s:s, s:i}]}",
			    "devices", "fabric", &fabrics[0], "address", &addresses[0],
			    "node", &no_node, "device", &no_device, "fabric",
			    &fabrics[1], "address", &addresses[1], "node", &node,
			    "device", &device, "port", &port),
		0);
	ck_assert_str_eq(fabrics[0], "tcp");
	ck_assert_str_eq(addresses[0], "127.0.0.1");
	ck_assert(json_is_null(no_node) && json_is_null(no_device));
	ck_assert_str_eq(fabrics[1], "rdma");
	ck_assert_str_eq(addresses[1], "::1");
	ck_assert_int_eq(node, 1);
	ck_assert_str_eq(device, "rxe0");
	ck_assert_int_eq(port, 7461);
	json_decref(json);
	admin_close(admin);
}
END_TEST

START_TEST(devices__show_what_they_can)
{
	int immediate, relaxed, inline_bytes, depth, number, mtu, index, served, tos;
	const char *transport, *atomics, *state, *gid, *type, *connect;
	json_t *json, *no_can, *no_port, *max_mtu, *level, *pkey;
	int gid_index;
	json_int_t mr_bytes;

	open_admin();
	json = get("/v1/devices");
	ck_assert_int_eq(
		json_unpack(json,
			    "{s:[{s:o, s:o}, {s:{s:s, s:s, s:b, s:b, s:i, s:i, s:I},"
			    "s:{s:i, s:s, s:i, s:o, s:[{s:i, s:s, s:s, s:b}]},"
			    "s:{s:i, s:o, s:s, s:i, s:o}}]}",
			    "devices", "can", &no_can, "device_port", &no_port, "can",
			    "transport", &transport, "atomics", &atomics,
			    "write_immediate", &immediate, "relaxed_ordering", &relaxed,
			    "inline_bytes", &inline_bytes, "initiator_depth", &depth,
			    "max_mr_bytes", &mr_bytes, "device_port", "number", &number,
			    "state", &state, "active_mtu", &mtu, "max_mtu", &max_mtu,
			    "gids", "index", &index, "gid", &gid, "type", &type,
			    "served", &served, "knobs", "traffic_class", &tos,
			    "service_level", &level, "connect", &connect, "gid_index",
			    &gid_index, "pkey", &pkey),
		0);
	ck_assert(json_is_null(no_can) && json_is_null(no_port));
	ck_assert_str_eq(transport, "iWARP");
	ck_assert_str_eq(atomics, "HCA");
	ck_assert(!immediate && relaxed && served);
	ck_assert_int_eq(inline_bytes, 64);
	ck_assert_int_eq(depth, 128);
	ck_assert_int_eq(tos, 104);
	ck_assert(json_is_null(level) && json_is_null(pkey));
	ck_assert_str_eq(connect, "direct");
	ck_assert_int_eq(gid_index, 3);
	ck_assert(mr_bytes == INT64_MAX);
	ck_assert_str_eq(state, "active");
	ck_assert_int_eq(mtu, 1024);
	ck_assert(json_is_null(max_mtu));
	ck_assert_int_eq(index, 3);
	ck_assert_str_eq(gid, "::ffff:10.0.0.7");
	ck_assert_str_eq(type, "RoCE v2");
	json_decref(json);
	admin_close(admin);
}
END_TEST

START_TEST(sessions__keep_wide_ids_and_foreign_bytes)
{
	const char *id, *client;
	json_t *json;

	open_admin();
	json = get("/v1/sessions");
	ck_assert_int_eq(json_unpack(json, "{s:[{s:s, s:s}, {}]}", "sessions", "id",
				     &id, "client", &client),
			 0);
	ck_assert_str_eq(id, "18446744073709551600");
	ck_assert_str_eq(client, "caf? \x1b[31m\"");
	json_decref(json);
	admin_close(admin);
}
END_TEST

START_TEST(sessions__may_be_many)
{
	json_t *json, *array;

	n_sessions = 2000;
	open_admin();
	json = get("/v1/sessions");
	array = json_object_get(json, "sessions");
	ck_assert_uint_eq(json_array_size(array), 2000);
	json_decref(json);
	admin_close(admin);
}
END_TEST

START_TEST(leases__tell_named_from_ephemeral)
{
	json_t *json, *no_owner, *no_ttl, *no_name;
	const char *name, *owner, *state;
	int bytes, ttl;

	open_admin();
	json = get("/v1/leases");
	ck_assert_int_eq(
		json_unpack(json, "{s:[{s:s, s:o, s:o, s:i}, {s:o, s:s, s:i, s:s}]}",
			    "leases", "name", &name, "owner", &no_owner, "ttl_ms",
			    &no_ttl, "bytes", &bytes, "name", &no_name, "owner", &owner,
			    "ttl_ms", &ttl, "state", &state),
		0);
	ck_assert_str_eq(name, "data");
	ck_assert(json_is_null(no_owner) && json_is_null(no_ttl) &&
		  json_is_null(no_name));
	ck_assert_int_eq(bytes, 5000);
	ck_assert_str_eq(owner, "7");
	ck_assert_int_eq(ttl, 9);
	ck_assert_str_eq(state, "waiting");
	json_decref(json);
	admin_close(admin);
}
END_TEST

START_TEST(leases__show_where_they_lie_and_were_to_lie)
{
	const char *placements[2];
	int asked, nodes[2], bytes[2];
	json_t *json, *any;

	open_admin();
	json = get("/v1/leases");
	ck_assert_int_eq(
		json_unpack(json,
			    "{s:[{s:s, s:o, s:[{s:i, s:i}, {s:i, s:i}]}, {s:s, s:i}]}",
			    "leases", "placement", &placements[0], "node_asked", &any,
			    "nodes", "node", &nodes[0], "bytes", &bytes[0], "node",
			    &nodes[1], "bytes", &bytes[1], "placement", &placements[1],
			    "node_asked", &asked),
		0);
	ck_assert_str_eq(placements[0], "interleave");
	ck_assert(json_is_null(any));
	ck_assert_int_eq(nodes[0], 0);
	ck_assert_int_eq(bytes[0], 4000);
	ck_assert_int_eq(nodes[1], 1);
	ck_assert_int_eq(bytes[1], 1000);
	ck_assert_str_eq(placements[1], "device");
	ck_assert_int_eq(asked, 3);
	json_decref(json);
	admin_close(admin);
}
END_TEST

static int set_uses(const struct tenant *tenant, void *arg)
{
	struct tenant *t = (struct tenant *)(uintptr_t)tenant;

	(void)arg;
	t->n_sessions = 1;
	t->n_channels = 2;
	t->n_leases = 3;
	t->bytes = 4;
	t->n_keys = 5;
	t->refused = 6;
	return 0;
}

START_TEST(tenants__show_quotas_and_uses)
{
	static const char *const uses[] = { "sessions",   "channels", "leases",
					    "lent_bytes", "keys",     "refused" };
	static const char *const limits[] = { "sessions_max", "channels_max",
					      "leases_max",   "bytes_max",
					      "keys_max",     "session_keys_max",
					      "lease_min",    "lease_max",
					      "ttl_max_ms" };
	const struct tenant_params params[] = {
		{ "a",
		  { .sessions_max = 11,
		    .channels_max = 12,
		    .leases_max = 13,
		    .bytes_max = 14,
		    .keys_max = 15,
		    .session_keys_max = 16,
		    .lease_min = 17,
		    .lease_max = 18,
		    .ttl_max_ms = 19 } },
		{ "b", { .leases_max = 1 } },
	};
	json_t *json, *a, *b;

	tenants_init(&tenants);
	ck_assert_int_eq(tenants_set(&tenants, params, 2), 0);
	(void)tenants_each(&tenants, set_uses, NULL);
	open_admin();
	json = get("/v1/tenants");
	ck_assert_int_eq(json_unpack(json, "{s:[o,o!]}", "tenants", &a, &b), 0);
	ck_assert_str_eq(json_string_value(json_object_get(a, "name")), "a");
	ck_assert_str_eq(json_string_value(json_object_get(a, "state")), "open");
	for (int i = 0; i < 6; i++)
		ck_assert_int_eq(json_integer_value(json_object_get(a, uses[i])),
				 i + 1);
	for (int i = 0; i < 9; i++)
		ck_assert_int_eq(json_integer_value(json_object_get(a, limits[i])),
				 i + 11);
	ck_assert_int_eq(json_integer_value(json_object_get(b, "leases_max")), 1);
	ck_assert(json_is_null(json_object_get(b, "bytes_max")));
	json_decref(json);
	/* one that leaves is shown as long as it is there */
	tenant_ref(tenants_find(&tenants, "b"));
	ck_assert_int_eq(tenants_set(&tenants, params, 1), 0);
	json = get("/v1/tenants");
	ck_assert_int_eq(json_unpack(json, "{s:[o,o!]}", "tenants", &a, &b), 0);
	ck_assert_str_eq(json_string_value(json_object_get(b, "state")), "leaving");
	json_decref(json);
	tenant_unref(container_of(tenants.all.prev, struct tenant, link));
	json = get("/v1/tenants");
	ck_assert_int_eq(json_unpack(json, "{s:[o!]}", "tenants", &a), 0);
	json_decref(json);
	admin_close(admin);
	tenants_destroy(&tenants);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("admin");
	TCase *tc = tcase_create("admin");

	tcase_add_checked_fixture(tc, base_make, base_unmake);
	tcase_add_test(tc, status__sums_up);
	tcase_add_test(tc, pools__show_what_they_got);
	tcase_add_test(tc, pools__show_what_becomes_of_them);
	tcase_add_test(tc, pools__show_how_fragmented_they_are);
	tcase_add_test(tc, pools__show_their_devices);
	tcase_add_test(tc, devices__show_address_and_node);
	tcase_add_test(tc, devices__show_what_they_can);
	tcase_add_test(tc, sessions__keep_wide_ids_and_foreign_bytes);
	tcase_add_test(tc, sessions__may_be_many);
	tcase_add_test(tc, leases__tell_named_from_ephemeral);
	tcase_add_test(tc, leases__show_where_they_lie_and_were_to_lie);
	tcase_add_test(tc, tenants__show_quotas_and_uses);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
