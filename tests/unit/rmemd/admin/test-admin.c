/* SPDX-License-Identifier: BSD-3-Clause */
/* The views of the daemon. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "rmemd/admin/filter.h"
#include "rmemd/admin/view.h"
#include "unit/rmemd/admin/admin-stage.h"

static void setup(void)
{
	admin_setup();
	open_admin();
}

/* Whether a value has all members and items of the expected value. */
static bool contains(const json_t *value, json_t *expected)
{
	void *iter = json_object_iter(expected);

	if (!json_is_object(expected) && !json_is_array(expected))
		return json_equal(value, expected);
	if (!value || json_typeof(value) != json_typeof(expected))
		return false;
	for (; iter; iter = json_object_iter_next(expected, iter))
		if (!contains(json_object_get(value, json_object_iter_key(iter)),
			      json_object_iter_value(iter)))
			return false;
	for (size_t i = 0; i < json_array_size(expected); i++)
		if (!contains(json_array_get(value, i), json_array_get(expected, i)))
			return false;
	return true;
}

/* The view contains the expected JSON, in which quotation marks are single. */
static void check_view(const char *resource, const char *expected)
{
	char text[1024];
	json_t *json;

	(void)snprintf(text, sizeof(text), "%s", expected);
	for (char *quote = text; (quote = strchr(quote, '\''));)
		*quote = '"';
	json = json_loads(text, 0, NULL);
	ck_assert_ptr_nonnull(json);
	ck_assert_msg(contains(get(resource), json), "%s", reply);
	json_decref(json);
}

START_TEST(status__has_the_sums)
{
	check_view("/v1/status",
		   "{'version': '" PACKAGE_VERSION "',"
		   " 'control': ['127.0.0.1:7460', '[::1]:7460'],"
		   " 'fabrics': {'rdma': {'serving': false, 'why': 'no device'}},"
		   " 'memory': {'free_bytes': 1048576},"
		   " 'sessions': {'active': 1, 'fenced': 1},"
		   " 'leases': {'named': 1},"
		   " 'counters': {'requests': 42},"
		   " 'turns': {'count': 9, 'long': 1, 'cpu_longest_us': 2501}}");
}
END_TEST

START_TEST(status__tells_whether_rdma_is_served)
{
	device_served(true);
	check_view("/v1/status",
		   "{'fabrics': {'rdma': {'serving': true, 'why': null}}}");
	device_served(false);
	check_view("/v1/status",
		   "{'fabrics': {'rdma': {'serving': false, 'why': 'its device, or the "
		   "address of that, is not there'}}}");
	check_view("/v1/devices",
		   "{'devices': [{'fabric': 'tcp'}, {'fabric': 'rdma',"
		   " 'device': 'rxe0', 'address': null, 'port': null}],"
		   " 'fabrics': {'rdma': {'serving': false, 'awaited': true}}}");
}
END_TEST

START_TEST(log_level__is_that_in_force)
{
	log_set_level(LOG_WARNING);
	check_view("/v1/log-level", "{'level': 'warning', 'configured': 'info'}");
	log_set_level(LOG_INFO);
	check_view("/v1/log-level", "{'level': 'info', 'configured': 'info'}");
}
END_TEST

START_TEST(pools__show_their_memory)
{
	check_view("/v1/pools",
		   "{'pools': [{'name': 'a', 'pages': 'base', 'pages_asked': 'base',"
		   " 'page_bytes': 4096, 'bytes': 1048576, 'bytes_asked': 1048576,"
		   " 'node_asked': null}]}");
}
END_TEST

START_TEST(pools__show_their_resizing)
{
	const struct pool_request request = { .bytes = 768 << 10, .align = 1 };
	struct extent extent;
	unsigned n;

	check_view("/v1/pools", "{'pools': [{'state': 'ready', 'bytes_to': null,"
				" 'closed_bytes': 0, 'recalled_bytes': 0}]}");
	ck_assert_int_eq(pools_alloc(pools, &request, &extent, 1, &n), 0);
	ck_assert_int_eq(pools_reclaim(pools, 0, 512 << 10, 0), 0);
	check_view("/v1/pools", "{'pools': [{'state': 'shrinking', 'bytes_to': 524288,"
				" 'closed_bytes': 0, 'recalled_bytes': 0}]}");
	ck_assert(pools_move_end(pools, 0));
	check_view("/v1/pools", "{'pools': [{'state': 'shrinking', 'bytes_to': 524288,"
				" 'closed_bytes': 262144, 'recalled_bytes': 262144}]}");
	pools_reclaim_cancel(pools, 0);
	check_view("/v1/pools", "{'pools': [{'state': 'ready', 'bytes_to': null}]}");
}
END_TEST

START_TEST(pools__show_their_devices)
{
	json_t *json = get("/v1/pools"), *devices;

	ck_assert_int_eq(json_unpack(json, "{s:[{s:o}]}", "pools", "devices", &devices),
			 0);
	ck_assert_uint_eq(json_array_size(devices), 2);
	ck_assert_str_eq(json_string_value(json_array_get(devices, 1)), "b1");
}
END_TEST

/* -1: null, as no memory is free. */
static int fragmented(void)
{
	json_t *json = get("/v1/pools"), *value;

	ck_assert_int_eq(json_unpack(json, "{s:[{s:o}]}", "pools",
				     "fragmentation_percent", &value),
			 0);
	return json_is_null(value) ? -1 : (int)json_integer_value(value);
}

START_TEST(pools__show_how_fragmented_they_are)
{
	const struct pool_request request = { .bytes = 4096, .align = 1 };
	struct extent extents[256];
	unsigned n;

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
}
END_TEST

START_TEST(extents__are_cells_with_sums)
{
	const struct pool_request request = { .bytes = 3 * 4096, .align = 1 };
	struct extent extent;
	unsigned n;

	ck_assert_int_eq(pools_alloc(pools, &request, &extent, 1, &n), 0);
	extent_set_owner(&extent, "red");
	ck_assert_uint_eq(
		json_array_size(json_object_get(get("/v1/extents"), "extents")), 256);
	check_view(
		"/v1/extents",
		"{'extents': [{'pool': 'a', 'offset': 0, 'bytes': 4096,"
		"  'lent_bytes': 4096, 'free_bytes': 0, 'scrubbing_bytes': 0,"
		"  'closed_bytes': 0, 'tenants': [{'tenant': 'red', 'bytes': 4096}]},"
		" {'offset': 4096}, {'lent_bytes': 4096},"
		" {'free_bytes': 4096, 'tenants': []}]}");
}
END_TEST

START_TEST(page__lets_only_its_own_script_run)
{
	const char *policy;

	ck_assert_int_eq(request("GET", "/"), 200);
	policy = strstr(reply, "Content-Security-Policy: default-src 'none'; "
			       "style-src 'sha256-");
	ck_assert_ptr_nonnull(policy);
	ck_assert_ptr_nonnull(strstr(policy, "script-src 'sha256-"));
	ck_assert_ptr_nonnull(strstr(reply, "Content-Type: text/html; charset=utf-8"));
	ck_assert_ptr_nonnull(strstr(reply, "</html>"));
	ck_assert_ptr_null(strstr(policy, "unsafe"));
}
END_TEST

START_TEST(devices__show_address_and_node)
{
	check_view("/v1/devices",
		   "{'devices': [{'fabric': 'tcp', 'address': '127.0.0.1',"
		   "              'node': null, 'device': null},"
		   "             {'fabric': 'rdma', 'address': '::1',"
		   "              'node': 1, 'device': 'rxe0', 'port': 7461}]}");
}
END_TEST

START_TEST(devices__show_their_attributes)
{
	check_view("/v1/devices",
		   "{'devices': [{'can': null, 'device_port': null},"
		   " {'can': {'transport': 'iWARP', 'atomics': 'HCA',"
		   "          'write_immediate': false, 'relaxed_ordering': true,"
		   "          'inline_bytes': 64, 'initiator_depth': 128,"
		   "          'max_mr_bytes': 9223372036854775807},"
		   "  'device_port': {'number': 1, 'state': 'active',"
		   "                  'active_mtu': 1024, 'max_mtu': null,"
		   "                  'gids': [{'index': 3, 'gid': '::ffff:10.0.0.7',"
		   "                            'type': 'RoCE v2', 'served': true}]},"
		   "  'knobs': {'traffic_class': 104, 'service_level': null,"
		   "            'connect': 'direct', 'gid_index': 3, 'pkey': null}}]}");
}
END_TEST

START_TEST(sessions__show_64_bit_ids_and_invalid_utf8)
{
	check_view("/v1/sessions", "{'sessions': [{'id': '18446744073709551600',"
				   " 'client': 'caf? \\u001b[31m\\''}, {}]}");
}
END_TEST

START_TEST(sessions__may_be_many)
{
	n_sessions = 2000;
	ck_assert_uint_eq(
		json_array_size(json_object_get(get("/v1/sessions"), "sessions")),
		2000);
}
END_TEST

START_TEST(leases__show_name_or_owner)
{
	check_view("/v1/leases",
		   "{'leases': [{'name': 'data', 'owner': null, 'ttl_ms': null,"
		   "             'bytes': 5000},"
		   "            {'name': null, 'owner': '7',"
		   "             'ttl_ms': 9223372036854775807,"
		   "             'state': 'waiting'}]}");
}
END_TEST

START_TEST(leases__are_sent_in_pages)
{
	json_t *json, *array;

	n_ephemeral = 1000;
	json = get("/v1/leases");
	array = json_object_get(json, "leases");
	ck_assert_uint_eq(json_array_size(array), 1001);
	for (unsigned i = 0; i < 1001; i++)
		ck_assert_int_eq(atoi(json_string_value(json_object_get(
					 json_array_get(array, i), "id"))),
				 (int)i + 1);
	ck_assert_uint_gt(n_pages, 1001 / VIEW_PAGE_ITEMS);
	n_ephemeral = 1;
}
END_TEST

/* A client that does not read, and goes. */
START_TEST(leases__are_made_as_the_client_reads)
{
	const char *text = "GET /v1/leases HTTP/1.1\r\nHost: a\r\n\r\n";
	int fd;

	/* as the daemon does */
	ck_assert_ptr_ne(signal(SIGPIPE, SIG_IGN), SIG_ERR);
	n_ephemeral = 1000000;
	fd = connect_client();
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	for (unsigned i = 0; i < 2000; i++)
		ck_assert_int_ge(event_base_loop(base, EVLOOP_NONBLOCK), 0);
	ck_assert_uint_lt(n_pages, 1000);
	ck_assert_int_eq(close(fd), 0);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_int_ge(event_base_loop(base, EVLOOP_NONBLOCK), 0);
	n_ephemeral = 1;
	ck_assert_int_eq(request("GET", "/v1/leases"), 200);
}
END_TEST

START_TEST(leases__show_placement_and_nodes)
{
	check_view("/v1/leases",
		   "{'leases': [{'placement': 'interleave', 'node_asked': null,"
		   "             'shares': ['blue:read', 'red:read-write'],"
		   "             'nodes': [{'node': 0, 'bytes': 4000},"
		   "                       {'node': 1, 'bytes': 1000}]},"
		   "            {'placement': 'device', 'node_asked': 3}]}");
}
END_TEST

START_TEST(leases__show_creator_and_sessions)
{
	n_holders = 3;
	check_view("/v1/leases",
		   "{'leases': [{'name': 'data',"
		   "  'creator': {'session': '6', 'client': '?', 'peer': '[::1]:8'},"
		   "  'attached': [{'session': '1', 'tenant': 'blue', 'client': null,"
		   "                'peer': null, 'rights': 'read',"
		   "                'state': 'active'},"
		   "               {'session': '2', 'client': 'reader',"
		   "                'peer': '[::1]:9', 'rights': 'read-write'},"
		   "               {'session': '3', 'state': 'fenced'}]},"
		   " {'creator': null, 'attached': []}]}");
	check_view("/v1/leases?attached=no", "{'leases': [{'name': 'data'}, {}]}");
	ck_assert_ptr_null(strstr(reply, "attached"));
}
END_TEST

/* One lease's sessions take many pages. */
START_TEST(leases__with_many_sessions_are_sent_in_pages)
{
	json_t *array;

	n_holders = 5000;
	array = json_object_get(get("/v1/leases"), "leases");
	ck_assert_uint_eq(json_array_size(array), 2);
	array = json_object_get(json_array_get(array, 0), "attached");
	ck_assert_uint_eq(json_array_size(array), 5000);
	for (int i = 0; i < 5000; i++)
		ck_assert_int_eq(atoi(json_string_value(json_object_get(
					 json_array_get(array, (size_t)i), "session"))),
				 i + 1);
	ck_assert_uint_ge(n_pages, 5000 / VIEW_PAGE_ITEMS);
}
END_TEST

/* It ends while its sessions are being sent. */
START_TEST(lease__that_ends_meanwhile_is_complete_json)
{
	struct evbuffer *text = evbuffer_new();
	static const struct filter all;
	struct view_page page = { .filter = &all, .body = text };
	char json[65536] = "[";
	json_t *array;

	n_holders = 5000;
	ck_assert(view_leases(&sources, &page));
	ck_assert(page.open);
	named_ended = true;
	page.rows = page.seen = 0;
	ck_assert(!view_leases(&sources, &page));
	ck_assert_int_eq(page.err, 0);
	ck_assert_int_ge(evbuffer_remove(text, json + 1, sizeof(json) - 3), 0);
	evbuffer_free(text);
	(void)strcat(json, "]");
	array = json_loads(json, 0, NULL);
	ck_assert_msg(array != NULL, "%s", json);
	ck_assert_uint_eq(json_array_size(array), 2);
	json_decref(array);
}
END_TEST

static const struct {
	const char *resource;
	size_t n;
} filtered[] = {
	{ "leases?tenant=default", 2 },
	{ "leases?tenant=blue", 0 },
	{ "leases?name=d*a", 1 },
	{ "leases?name=d%2a", 1 },
	{ "leases?name=*", 2 },
	{ "leases?name=x*", 0 },
	{ "leases?session=7", 1 },
	{ "leases?session=8", 0 },
	{ "leases?older_ms=5000", 1 },
	{ "leases?older_ms=4000&name=data", 1 },
	{ "leases?older_ms=4000&session=7&name=data", 0 },
	{ "sessions?tenant=default", 2 },
	{ "sessions?tenant=d", 0 },
	{ "sessions?session=18446744073709551600", 1 },
	{ "sessions?session=5", 0 },
	{ "sessions?name=caf*", 2 },
	{ "sessions?name=f*", 0 },
	{ "sessions?older_ms=9223372036854775807", 0 },
};

START_TEST(lists__have_filters)
{
	char path_text[128];
	json_t *list;

	(void)snprintf(path_text, sizeof(path_text), "/v1/%s", filtered[_i].resource);
	list = json_object_iter_value(json_object_iter(get(path_text)));
	ck_assert_msg(json_array_size(list) == filtered[_i].n, "%s", reply);
}
END_TEST

/* The filter lets few of many pass. */
START_TEST(filter__looks_at_few_in_a_turn)
{
	n_ephemeral = 4000;
	ck_assert_uint_eq(
		json_array_size(json_object_get(get("/v1/leases?name=data"), "leases")),
		1);
	ck_assert_uint_gt(n_pages, 4000 / 64);
	n_ephemeral = 1;
}
END_TEST

static const struct {
	const char *resource, *error;
} unfiltered[] = {
	{ "leases?tenat=a", "unknown parameter 'tenat'; this resource has tenant, "
			    "name, session, older_ms, attached" },
	{ "pools?name=a", "unknown parameter 'name'; this resource has none" },
	{ "sessions?attached=no", "unknown parameter 'attached'; this resource has "
				  "tenant, name, session, older_ms" },
	{ "leases?session=x", "session: 'x' is not a number" },
	{ "leases?session=0", "session: 0 is not from 1 to " },
	{ "leases?older_ms=1s", "older_ms: '1s' is not a number" },
	{ "leases?attached=maybe", "attached: " },
	{ "leases?tenant", "the query of the request is malformed" },
};

START_TEST(query__that_is_wrong_is_refused)
{
	const char *error = unfiltered[_i].error, *text;
	char path_text[128];

	(void)snprintf(path_text, sizeof(path_text), "/v1/%s", unfiltered[_i].resource);
	ck_assert_int_eq(request("GET", path_text), 400);
	text = json_string_value(json_object_get(body(), "error"));
	ck_assert_msg(strncmp(text, error, strlen(error)) == 0, "%s", text);
}
END_TEST

START_TEST(query__too_long_is_refused)
{
	char path_text[400] = "/v1/leases?name=";

	memset(path_text + strlen(path_text), 'a', 256);
	ck_assert_int_eq(request("GET", path_text), 400);
	ck_assert_str_eq(json_string_value(json_object_get(body(), "error")),
			 "name: is longer than 255 bytes");
}
END_TEST

static void set_uses(struct tenant *t)
{
	t->n_sessions = 1;
	t->n_channels = 2;
	t->n_leases = 3;
	t->bytes = 4;
	t->n_keys = 5;
	t->refused = 6;
	t->denied[RIGHTS_DENY_POOLS] = 20;
	t->denied[RIGHTS_DENY_ACCESS] = 21;
	t->denied[RIGHTS_DENY_NAMES] = 22;
	t->denied[RIGHTS_DENY_SHARES] = 23;
	t->accesses_refused = 7;
}

static void check_tenants(size_t n, const char *expected)
{
	check_view("/v1/tenants", expected);
	ck_assert_uint_eq(json_array_size(json_object_get(body(), "tenants")), n);
}

START_TEST(tenants__show_quotas_and_uses)
{
	const struct tenant_params params[] = {
		{ .name = "a",
		  .limits = { .sessions_max = 11,
			      .channels_max = 12,
			      .leases_max = 13,
			      .bytes_max = 14,
			      .keys_max = 15,
			      .session_keys_max = 16,
			      .lease_min = 17,
			      .lease_max = 18,
			      .ttl_max_ms = 19 },
		  .rights = { .pools = { { "p" }, 1 },
			      .access = RIGHTS_READ_ONLY,
			      .names = { "n*", "m" },
			      .n_names = 2 } },
		{ .name = "b", .limits = { .leases_max = 1 } },
	};

	tenants_init(&tenants);
	ck_assert_int_eq(tenants_set(&tenants, params, 2), 0);
	list_for_each_entry(struct tenant, tenant, &tenants.all, link)
		set_uses(tenant);
	check_tenants(2,
		      "{'tenants': [{'name': 'a', 'state': 'open', 'sessions': 1,"
		      " 'channels': 2, 'leases': 3, 'lent_bytes': 4, 'keys': 5,"
		      " 'refused': 6, 'accesses_refused': 7, 'sessions_max': 11, "
		      "'channels_max': 12,"
		      " 'leases_max': 13, 'bytes_max': 14, 'keys_max': 15,"
		      " 'session_keys_max': 16, 'lease_min': 17, 'lease_max': 18,"
		      " 'ttl_max_ms': 19, 'access': 'read-only', 'pools': ['p'],"
		      " 'names': ['n*', 'm'], 'denied_pools': 20,"
		      " 'denied_access': 21, 'denied_names': 22, 'denied_shares': 23},"
		      " {'leases_max': 1, 'bytes_max': null,"
		      "  'access': 'read-write', 'pools': [], 'names': []}]}");
	list_for_each_entry(struct tenant, unused, &tenants.all, link) {
		unused->n_sessions = unused->n_channels = unused->n_leases = 0;
		unused->n_keys = 0;
		unused->bytes = 0;
	}
	/* a leaving tenant is shown until it is unused */
	tenant_ref(tenants_find(&tenants, "b"));
	ck_assert_int_eq(tenants_set(&tenants, params, 1), 0);
	check_tenants(2, "{'tenants': [{}, {'state': 'leaving'}]}");
	tenant_unref(container_of(tenants.all.prev, struct tenant, link));
	check_tenants(1, "{'tenants': [{}]}");
	tenants_destroy(&tenants);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("admin", setup, admin_teardown);

	tcase_add_test(tc, status__has_the_sums);
	tcase_add_test(tc, status__tells_whether_rdma_is_served);
	tcase_add_test(tc, log_level__is_that_in_force);
	tcase_add_test(tc, pools__show_their_memory);
	tcase_add_test(tc, pools__show_their_resizing);
	tcase_add_test(tc, pools__show_how_fragmented_they_are);
	tcase_add_test(tc, pools__show_their_devices);
	tcase_add_test(tc, extents__are_cells_with_sums);
	tcase_add_test(tc, page__lets_only_its_own_script_run);
	tcase_add_test(tc, devices__show_address_and_node);
	tcase_add_test(tc, devices__show_their_attributes);
	tcase_add_test(tc, sessions__show_64_bit_ids_and_invalid_utf8);
	tcase_add_test(tc, sessions__may_be_many);
	tcase_add_test(tc, leases__show_name_or_owner);
	tcase_add_test(tc, leases__show_placement_and_nodes);
	tcase_add_test(tc, leases__are_sent_in_pages);
	tcase_add_test(tc, leases__are_made_as_the_client_reads);
	tcase_add_test(tc, leases__show_creator_and_sessions);
	tcase_add_test(tc, leases__with_many_sessions_are_sent_in_pages);
	tcase_add_test(tc, lease__that_ends_meanwhile_is_complete_json);
	tcase_add_loop_test(tc, lists__have_filters, 0,
			    sizeof(filtered) / sizeof(filtered[0]));
	tcase_add_test(tc, filter__looks_at_few_in_a_turn);
	tcase_add_loop_test(tc, query__that_is_wrong_is_refused, 0,
			    sizeof(unfiltered) / sizeof(unfiltered[0]));
	tcase_add_test(tc, query__too_long_is_refused);
	tcase_add_test(tc, tenants__show_quotas_and_uses);
	return unit_main();
}
