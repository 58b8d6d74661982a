/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "rmemd/admin/admin.h"
#include "rmemd/control/session.h"
#include "rmemd/daemon.h"
#include "rmemd/lease/lease.h"
#include "rmemd/lease/tenants.h"
#include "rmemd/pool/pools.h"
#include "unit.h"

/* ---- a daemon that is nothing but what it shows ---- */

static struct config config;
static struct pools *pools;
static const struct fabric_endpoint endpoints[] = {
	{ .kind = FABRIC_TCP,
	  .address = { .family = 4, .bytes = { 127, 0, 0, 1 }, .port = 7462 },
	  .node = -1 },
	{ .kind = FABRIC_VERBS,
	  .address = { .family = 6, .bytes = { [15] = 1 }, .port = 7461 },
	  .node = 1,
	  .device = "rxe0" },
};

const struct config *daemon_config(const struct daemon *daemon)
{
	(void)daemon;
	return &config;
}

struct pools *daemon_pools(const struct daemon *daemon)
{
	(void)daemon;
	return pools;
}

struct leases *daemon_leases(const struct daemon *daemon)
{
	(void)daemon;
	return NULL;
}

struct sessions *daemon_sessions(const struct daemon *daemon)
{
	(void)daemon;
	return NULL;
}

static struct tenants tenants;

const struct tenants *daemon_tenants(const struct daemon *daemon)
{
	(void)daemon;
	return &tenants;
}

uint64_t daemon_uptime_ms(const struct daemon *daemon)
{
	(void)daemon;
	return 1234;
}

unsigned daemon_n_listeners(const struct daemon *daemon)
{
	(void)daemon;
	return 2;
}

const char *daemon_listener(const struct daemon *daemon, unsigned i)
{
	(void)daemon;
	return i ? "[::1]:7460" : "127.0.0.1:7460";
}

const char *daemon_verbs_missing(const struct daemon *daemon)
{
	(void)daemon;
	return "no device";
}

void daemon_counters(const struct daemon *daemon, struct daemon_counters *ret_counters)
{
	(void)daemon;
	*ret_counters = (struct daemon_counters){ .requests = 42 };
}

unsigned daemon_n_endpoints(const struct daemon *daemon)
{
	(void)daemon;
	return sizeof(endpoints) / sizeof(endpoints[0]);
}

const struct fabric_endpoint *daemon_endpoint(const struct daemon *daemon, unsigned i)
{
	(void)daemon;
	return &endpoints[i];
}

void daemon_endpoint_stats(const struct daemon *daemon, unsigned i,
			   struct fabric_endpoint_stats *ret_stats)
{
	(void)daemon;
	*ret_stats =
		(struct fabric_endpoint_stats){ .channels = i, .exposed_bytes = 4096 };
}

static const struct fabric_abilities abilities = {
	.transport = FABRIC_IWARP,
	.atomics = FABRIC_ATOMICS_DEVICE,
	.relaxed_ordering = true,
	.inline_bytes = 64,
	.max_mr_bytes = UINT64_MAX,
	.initiator_depth = 128,
};

int daemon_endpoint_device(const struct daemon *daemon, unsigned i,
			   const struct fabric_abilities **ret_abilities,
			   struct fabric_port *ret_port)
{
	(void)daemon;
	if (i == 0)
		return -ENOTSUP;
	*ret_abilities = &abilities;
	*ret_port = (struct fabric_port){
		.number = 1,
		.state = "active",
		.active_mtu = 1024,
		.gids = { { .index = 3,
			    .bytes = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 7 },
			    .type = "RoCE v2",
			    .served = true } },
		.n_gids = 1,
		.knobs = FABRIC_KNOBS_INIT,
	};
	ret_port->knobs.traffic_class = 104;
	ret_port->knobs.connect = FABRIC_CONNECT_DIRECT;
	ret_port->knobs.gid_index = 3;
	return 0;
}

static unsigned n_sessions = 2;

int sessions_each(const struct sessions *sessions,
		  int (*each)(const struct session_status *status, void *arg),
		  void *arg)
{
	struct session_status status = { .id = UINT64_C(0xfffffffffffffff0),
					 .tenant = "default",
					 .client = "caf\xe9 \x1b[31m\"",
					 .peer = "[::1]:9",
					 .state = "active",
					 .fabric = "tcp",
					 .channels = 2,
					 .keys = 5,
					 .lent_bytes = 4096 };
	int err = 0;

	(void)sessions;
	for (unsigned i = 0; i < n_sessions && !err; i++) {
		err = each(&status, arg);
		status.id++;
		status.state = "fenced";
	}
	return err;
}

int leases_each(const struct leases *leases,
		int (*each)(const struct lease_status *status, void *arg), void *arg)
{
	struct lease_status named = { .id = 1,
				      .name = "data",
				      .tenant = "default",
				      .bytes = 5000,
				      .lent = 8192,
				      .segments = 2,
				      .placement = WIRE_PLACE_INTERLEAVE,
				      .node = POOL_NODE_ANY,
				      .ready = true };
	struct lease_status ephemeral = named;
	int err;

	(void)leases;
	ephemeral.id = 2;
	ephemeral.name = "";
	ephemeral.owner = 7;
	ephemeral.ttl_ms = 9;
	ephemeral.placement = WIRE_PLACE_DEVICE;
	ephemeral.node = 3;
	ephemeral.ready = false;
	err = each(&named, arg);
	return err ? err : each(&ephemeral, arg);
}

unsigned lease_shares(const struct lease_status *status,
		      struct lease_share ret_shares[WIRE_SEGMENTS_MAX])
{
	ret_shares[0] = (struct lease_share){ 0, status->bytes - 1000 };
	ret_shares[1] = (struct lease_share){ 1, 1000 };
	return 2;
}

/* ---- a client ---- */

static char directory[sizeof("/tmp/rmem-admin-XXXXXX")];
static char path[64];
static struct event_base *base;
static struct admin *admin;

static void base_make(void)
{
	const struct pool_params params = { .name = "a",
					    .node = POOL_NODE_ANY,
					    .bytes = 1 << 20,
					    .pages = POOL_PAGES_BASE,
					    .devices = { "a0", "b1" },
					    .n_devices = 2 };

	memcpy(directory, "/tmp/rmem-admin-XXXXXX", sizeof(directory));
	ck_assert_ptr_nonnull(mkdtemp(directory));
	(void)snprintf(path, sizeof(path), "%s/run/rmemd/admin.sock", directory);
	config_default(&config);
	base = event_base_new();
	ck_assert_ptr_nonnull(base);
	ck_assert_int_eq(pools_open(&params, 1, NULL, &pools), 0);
}

static void base_unmake(void)
{
	char command[64];

	pools_close(pools);
	event_base_free(base);
	(void)snprintf(command, sizeof(command), "rm -rf %s", directory);
	ck_assert_int_eq(system(command), 0);
}

static int dial(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		(void)close(fd);
		return -errno;
	}
	return fd;
}

/* Send a request and run the loop until the answer is complete; its status. */
static int ask(const char *method, const char *resource, char *answer, size_t bytes)
{
	char request[256];
	size_t used = 0;
	int fd = dial(), status = 0;

	ck_assert_int_ge(fd, 0);
	(void)snprintf(request, sizeof(request),
		       "%s %s HTTP/1.0\r\nContent-Length: 0\r\n\r\n", method, resource);
	ck_assert_int_eq(write(fd, request, strlen(request)), (ssize_t)strlen(request));
	ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	for (;;) {
		ssize_t got = read(fd, answer + used, bytes - 1 - used);

		if (got == 0)
			break;
		if (got > 0)
			used += (size_t)got;
		else
			ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
	}
	ck_assert_int_eq(close(fd), 0);
	answer[used] = '\0';
	ck_assert_int_eq(sscanf(answer, "HTTP/1.%*d %d", &status), 1);
	return status;
}

static char answer[1 << 20];

static json_t *body(void)
{
	const char *text = strstr(answer, "\r\n\r\n");
	json_error_t error;
	json_t *json;

	ck_assert_ptr_nonnull(text);
	json = json_loads(text + 4, 0, &error);
	ck_assert_msg(json != NULL, "%s: %s", error.text, text);
	return json;
}

static json_t *get(const char *resource)
{
	ck_assert_int_eq(ask("GET", resource, answer, sizeof(answer)), 200);
	ck_assert_ptr_nonnull(strstr(answer, "Content-Type: application/json\r\n"));
	return body();
}

static void open_admin(void)
{
	ck_assert_msg(admin_open(base, NULL, path, -1, &admin) == 0, "%s", err_text());
}

/* ---- resources ---- */

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
	ck_assert_int_eq(pools_take(pools, &request, &extent, 1, &n), 0);
	ck_assert_int_eq(pools_recall(pools, 0, 512 << 10, 0, POOL_SHRINK_REFUSE), 0);
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
		ck_assert_int_eq(pools_take(pools, &request, &extents[i], 1, &n), 0);
	ck_assert_int_eq(fragmented(), -1);
	pools_give(pools, extents[0]);
	pools_give(pools, extents[2]);
	pools_give(pools, extents[3]);
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

static const struct {
	const char *method, *resource;
	int status;
} refused[] = {
	{ "GET", "/", 404 },
	{ "GET", "/v1", 404 },
	{ "GET", "/v1/status/", 404 },
	{ "GET", "/v2/status", 404 },
	{ "POST", "/nothing", 404 },
	{ "POST", "/v1/status", 405 },
	{ "DELETE", "/v1/pools", 405 },
	{ "PUT", "/v1/leases", 405 },
};

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

START_TEST(request__is_refused_in_json)
{
	json_t *json;
	int status;
	const char *text;

	open_admin();
	ck_assert_int_eq(
		ask(refused[_i].method, refused[_i].resource, answer, sizeof(answer)),
		refused[_i].status);
	json = body();
	ck_assert_int_eq(
		json_unpack(json, "{s:i, s:s}", "status", &status, "error", &text), 0);
	ck_assert_int_eq(status, refused[_i].status);
	ck_assert(refused[_i].status != 405 || strstr(answer, "Allow: GET, HEAD\r\n"));
	json_decref(json);
	admin_close(admin);
}
END_TEST

START_TEST(request__of_garbage_does_no_harm)
{
	static char garbage[1 << 16];
	int fd;

	open_admin();
	memset(garbage, 'x', sizeof(garbage));
	fd = dial();
	ck_assert_int_ge(fd, 0);
	ck_assert_int_gt(send(fd, garbage, sizeof(garbage), MSG_DONTWAIT), 0);
	/* until it has been refused and closed */
	for (;;) {
		struct pollfd pollfd = { .fd = fd, .events = POLLRDHUP };

		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
		if (poll(&pollfd, 1, 0) == 1)
			break;
	}
	ck_assert_int_eq(close(fd), 0);
	json_decref(get("/v1/status"));
	/* a connection that is open when the daemon stops */
	fd = dial();
	ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
	admin_close(admin);
	ck_assert_int_eq(close(fd), 0);
}
END_TEST

/* ---- the socket ---- */

START_TEST(open__makes_directory_and_mode)
{
	mode_t before = umask(077);
	struct stat st;

	open_admin();
	(void)umask(before);
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert(S_ISSOCK(st.st_mode));
	ck_assert_int_eq(st.st_mode & 0777, 0660);
	admin_close(admin);
	ck_assert_int_eq(lstat(path, &st), -1);
	admin_close(NULL);
}
END_TEST

START_TEST(open__refuses_beside_a_living_daemon)
{
	struct admin *other = NULL;
	char said[128];

	open_admin();
	ck_assert_int_eq(admin_open(base, NULL, path, -1, &other), -EADDRINUSE);
	ck_assert_ptr_null(other);
	(void)snprintf(said, sizeof(said), "another rmemd serves %s", path);
	ck_assert_str_eq(err_text(), said);
	/* which has lost nothing by it */
	json_decref(get("/v1/status"));
	admin_close(admin);
}
END_TEST

START_TEST(open__replaces_the_socket_of_a_dead_daemon)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat st;
	int fd;

	/* makes the directory */
	open_admin();
	admin_close(admin);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(close(fd), 0);
	open_admin();
	json_decref(get("/v1/pools"));
	/* somebody else's is left alone at the end */
	ck_assert_int_eq(unlink(path), 0);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	admin_close(admin);
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert_int_eq(close(fd), 0);
}
END_TEST

START_TEST(open__leaves_other_files_alone)
{
	char blocked[256];
	struct stat st;
	FILE *file;

	open_admin();
	admin_close(admin);
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(fclose(file), 0);
	ck_assert_int_eq(admin_open(base, NULL, path, -1, &admin), -EEXIST);
	ck_assert_int_eq(lstat(path, &st), 0);
	(void)snprintf(blocked, sizeof(blocked), "%s/x", path);
	ck_assert_int_eq(admin_open(base, NULL, blocked, -1, &admin), -ENOTDIR);
	memset(blocked, '/', 200);
	blocked[200] = '\0';
	ck_assert_int_eq(admin_open(base, NULL, blocked, -1, &admin), -ENAMETOOLONG);
}
END_TEST

START_TEST(open__serves_a_socket_that_was_passed)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/passed", directory);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(fd, 4), 0);
	ck_assert_int_eq(admin_open(base, NULL, "/nonexistent/path", fd, &admin), 0);
	json_decref(get("/v1/leases"));
	admin_close(admin);
	/* the file is the service manager's, the descriptor was handed over */
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
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
	tcase_add_loop_test(tc, request__is_refused_in_json, 0,
			    sizeof(refused) / sizeof(refused[0]));
	tcase_add_test(tc, request__of_garbage_does_no_harm);
	tcase_add_test(tc, open__makes_directory_and_mode);
	tcase_add_test(tc, open__refuses_beside_a_living_daemon);
	tcase_add_test(tc, open__replaces_the_socket_of_a_dead_daemon);
	tcase_add_test(tc, open__leaves_other_files_alone);
	tcase_add_test(tc, open__serves_a_socket_that_was_passed);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
