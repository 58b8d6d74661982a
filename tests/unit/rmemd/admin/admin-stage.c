/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rmemd/admin/admin-stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmemd/config/changes.h"
#include "rmemd/control/control.h"
#include "rmemd/control/session.h"
#include "rmemd/lease/lease.h"
#include "rmemd/lease/origin.h"
#include "rmemd/lease/share.h"
#include "rmemd/loop/slices.h"
#include "rmemd/metrics/sample.h"

/* ---- the daemon ---- */

struct pools *pools;
struct tenants tenants;
unsigned n_sessions = 2, n_ephemeral = 1, n_pages, n_holders, most_sessions;
bool named_ended;
static struct config config;
static const struct fabric_endpoint info[] = {
	{ .kind = FABRIC_TCP,
	  .address = { .family = 4, .bytes = { 127, 0, 0, 1 }, .port = 7462 },
	  .node = -1 },
	{ .kind = FABRIC_VERBS,
	  .address = { .family = 6, .bytes = { [15] = 1 }, .port = 7461 },
	  .node = 1,
	  .device = "rxe0" },
};

static const struct fabric_endpoint awaited = {
	.kind = FABRIC_VERBS,
	.address = { .family = 4 },
	.node = -1,
	.device = "rxe0",
	.awaited = true,
};

static struct control control = {
	.config = &config,
	.counters = { .requests = 42 },
	.tenants = &tenants,
	.turn = { .n = 9, .n_long = 1, .cpu = { .ever_ns = 2500001 } },
};
unsigned n_reloads;
uint64_t last_revoked, last_kicked;

static int reload(void *, const struct config_reloaded **ret_reloaded)
{
	static struct config_reloaded reloaded;

	reloaded.changed.n = reloaded.needs_restart.n = 0;
	config_change_add(&reloaded.changed, "log", "level", "info", "debug");
	config_change_add(&reloaded.changed, "pool b", NULL, "", "present");
	config_change_add(&reloaded.needs_restart, "rdma", "devices", "", "a0");
	reloaded.needs_restart.more = 2;
	*ret_reloaded = &reloaded;
	return n_reloads++ ? err_set(-EINVAL, "line 3 is wrong") : 0;
}

int leases_revoke(struct leases *, uint64_t id)
{
	last_revoked = id;
	return 0;
}

static void lease_fill(uint64_t id, const char *tenant, struct lease_status *ret_status)
{
	*ret_status = (struct lease_status){ .id = id,
					     .name = id == UINT64_MAX ? "" : "data",
					     .tenant = tenant,
					     .bytes = 5000,
					     .sessions = 2 };
}

bool leases_find_status(const struct leases *, uint64_t id,
			struct lease_status *ret_status)
{
	if (id == UINT64_MAX)
		lease_fill(id, "red", ret_status);
	return id == UINT64_MAX;
}

bool leases_find_named(const struct tenant *tenant, const char *name,
		       struct lease_status *ret_status)
{
	bool red = strcmp(tenant->name, "red") == 0;

	if (strcmp(name, "both") != 0 && (strcmp(name, "data & 7") != 0 || !red))
		return false;
	lease_fill(red ? LEASE_OF_RED : LEASE_OF_BLUE, tenant->name, ret_status);
	return true;
}

struct sample_sources metrics_sources = { .control = &control,
					  .slices = &control.slices };

struct session *sessions_find(const struct sessions *, uint64_t id)
{
	static struct tenant tenant = { .name = "red" };
	static struct session session = {
		.client = "prog[7]",
		.address = "127.0.0.1:5",
		.lease_client = { .tenant = &tenant, .n_attachments = 3, .n_keys = 4 },
	};

	return id == UINT64_MAX ? &session : NULL;
}

int sessions_kick(struct sessions *, uint64_t id)
{
	if (id != UINT64_MAX)
		return err_set(-ENOENT, "there is no such session");
	last_kicked = id;
	return 0;
}

int drain_begin(struct drain *drain, uint64_t left_ms)
{
	if (left_ms == 4)
		return err_set(-EBUSY, "too late");
	drain->on = true;
	drain->since_ms = clock_now_ms();
	drain->deadline_ms =
		left_ms == DRAIN_NO_DEADLINE ? left_ms : clock_now_ms() + left_ms;
	return 0;
}

int drain_end(struct drain *drain)
{
	drain->on = false;
	return 0;
}

unsigned leases_count(const struct leases *)
{
	return n_ephemeral;
}

unsigned sessions_count(const struct sessions *)
{
	return n_sessions;
}

struct admin_sources sources = {
	.metrics = &metrics_sources,
	.reload = reload,
	.control = &control,
	.listeners = { "127.0.0.1:7460", "[::1]:7460" },
	.n_listeners = 2,
	.verbs_missing = "no device",
};

static void endpoint_stats(const struct fabric_server *, unsigned local,
			   struct fabric_endpoint_stats *ret_stats)
{
	*ret_stats = (struct fabric_endpoint_stats){ .channels = local,
						     .exposed_bytes = 4096 };
}

static const struct fabric_device_attr attr = {
	.transport = FABRIC_IWARP,
	.atomics = FABRIC_ATOMICS_DEVICE,
	.relaxed_ordering = true,
	.inline_bytes = 64,
	.max_mr_bytes = UINT64_MAX,
	.initiator_depth = 128,
};

void device_served(bool served)
{
	control.endpoints.at[1].info = served ? &info[1] : &awaited;
	sources.verbs_missing = NULL;
}

static int endpoint_device(const struct fabric_server *, unsigned,
			   const struct fabric_device_attr **ret_attr,
			   struct fabric_port_attr *ret_port)
{
	*ret_attr = &attr;
	*ret_port = (struct fabric_port_attr){
		.number = 1,
		.state = "active",
		.active_mtu = 1024,
		.gids = { { .index = 3,
			    .bytes = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 7 },
			    .type = "RoCE v2",
			    .served = true } },
		.n_gids = 1,
		.rdma_options = FABRIC_RDMA_OPTIONS_INIT,
	};
	ret_port->rdma_options.traffic_class = 104;
	ret_port->rdma_options.connect = FABRIC_CONNECT_DIRECT;
	ret_port->rdma_options.gid_index = 3;
	return 0;
}

static const struct fabric_server_ops tcp = { .kind = FABRIC_TCP,
					      .stats = endpoint_stats };
static const struct fabric_server_ops verbs = { .stats = endpoint_stats,
						.device = endpoint_device };

int sessions_each(const struct sessions *, uint64_t after,
		  int (*each)(const struct session *session, void *arg), void *arg)
{
	static struct tenant tenant = { .name = "default" };
	struct session session = {
		.lease_client = { .tenant = &tenant, .n_keys = 5, .lent_bytes = 4096 },
		.client = "caf\xe9 \x1b[31m\"",
		.address = "[::1]:9",
		.state = WIRE_SESSION_ACTIVE,
		.n_connected = 2
	};
	struct lease_client *client = &session.lease_client;
	unsigned n = 0;
	int err = 0;

	client->ports[0].ops = &tcp;
	client->ports[0].session = (struct fabric_session *)&session;
	client->id = UINT64_C(0xfffffffffffffff2) - n_sessions;
	for (unsigned i = 0; i < n_sessions && !err; i++) {
		if (client->id > after) {
			err = each(&session, arg);
			n++;
		}
		client->id++;
		session.state = WIRE_SESSION_FENCED;
	}
	if (n > most_sessions)
		most_sessions = n;
	return err;
}

int leases_each(const struct leases *, uint64_t after,
		int (*each)(const struct lease_status *status, void *arg), void *arg)
{
	static const struct origin creator = { .session = 6,
					       .client = "\xe9",
					       .peer = "[::1]:8" };
	static const struct share shares[] = { { "blue", WIRE_RIGHT_READ },
					       { "red",
						 WIRE_RIGHT_READ | WIRE_RIGHT_WRITE } };
	struct lease_status named = { .id = 1,
				      .shares = shares,
				      .n_shares = 2,
				      .name = "data",
				      .creator = &creator,
				      .age_ms = 5000,
				      .tenant = "default",
				      .bytes = 5000,
				      .lent = 8192,
				      .segments = 2,
				      .placement = WIRE_PLACE_INTERLEAVE,
				      .node = POOL_NODE_ANY,
				      .ready = true };
	struct lease_status ephemeral = named;
	int err = 0;

	ephemeral.id = 2;
	ephemeral.n_shares = 0;
	ephemeral.name = "";
	ephemeral.owner = 7;
	ephemeral.creator = NULL;
	ephemeral.age_ms = 4000;
	ephemeral.ttl_ms = UINT64_MAX;
	ephemeral.placement = WIRE_PLACE_DEVICE;
	ephemeral.node = 3;
	ephemeral.ready = false;
	if (after < named.id && !named_ended)
		err = each(&named, arg);
	for (; !err && ephemeral.id < 2 + n_ephemeral; ephemeral.id++)
		if (after < ephemeral.id)
			err = each(&ephemeral, arg);
	n_pages++;
	return err;
}

/* The named lease alone has some. */
int lease_each_holder(const struct lease_status *status, uint64_t after,
		      int (*each)(const struct lease_holder *holder, void *arg),
		      void *arg)
{
	static const struct origin origin = { .client = "reader", .peer = "[::1]:9" };
	int err = 0;

	for (uint64_t id = after + 1; id <= n_holders && *status->name && !err; id++) {
		const struct lease_holder holder = {
			.session = id,
			.tenant = "blue",
			.origin = id == 1 ? NULL : &origin,
			.rights = WIRE_RIGHT_READ | (id == 2 ? WIRE_RIGHT_WRITE : 0),
			.fenced = id == 3,
		};

		err = each(&holder, arg);
	}
	return err;
}

struct fabric_mr_traffic lease_traffic(const struct lease_status *status)
{
	return (struct fabric_mr_traffic){ .operations = status->id, .bytes = 4096 };
}

struct fabric_mr_traffic lease_client_traffic(const struct lease_client *client)
{
	return (struct fabric_mr_traffic){ .operations = client->n_keys,
					   .bytes = 8192 };
}

bool lease_is_of(const struct lease_status *status, uint64_t session)
{
	return status->owner == session;
}

unsigned lease_parts(const struct lease_status *status,
		     struct lease_part ret_parts[WIRE_SEGMENTS_MAX])
{
	ret_parts[0] = (struct lease_part){ 0, status->bytes - 1000 };
	ret_parts[1] = (struct lease_part){ 1, 1000 };
	return 2;
}

const struct leases_counters *leases_counters(const struct leases *leases)
{
	static const struct leases_counters none = { .named = 1,
						     .ephemeral = 1,
						     .bytes = 10000 };
	static const struct leases_counters ones = { .granted = 1,
						     .expired = 1,
						     .waited = 1,
						     .waited_ms = 1,
						     .named = 1,
						     .ephemeral = 1,
						     .bytes = 10000 };

	return leases ? &ones : &none;
}

static struct event *slices_event;

static void on_slices(evutil_socket_t, short, void *arg)
{
	slices_run(arg);
}

static void on_wake(void *)
{
	const struct timeval at_once = { 0 };

	ck_assert_int_eq(event_add(slices_event, &at_once), 0);
}

/* ---- a client ---- */

char directory[sizeof("/tmp/rmem-admin-XXXXXX")];
char path[64];
struct event_base *base;
struct admin *admin;
char reply[1 << 20];
static json_t *last_body;

void admin_setup(void)
{
	const struct pool_params params = { .name = "a",
					    .node = POOL_NODE_ANY,
					    .bytes = 1 << 20,
					    .pages = POOL_PAGES_BASE,
					    .devices = { "a0", "b1" },
					    .n_devices = 2 };

	memcpy(directory, "/tmp/rmem-admin-XXXXXX", sizeof(directory));
	ck_assert_ptr_nonnull(mkdtemp(directory));
	(void)snprintf(path, sizeof(path), "%s/admin.sock", directory);
	config_default(&config);
	control.endpoints = (struct endpoints){
		.n = 2,
		.at = { { .ops = &tcp, .info = &info[0] },
			{ .ops = &verbs, .local = 1, .info = &info[1] } }
	};
	base = event_base_new();
	ck_assert_ptr_nonnull(base);
	ck_assert_int_eq(pools_open(&params, 1, NULL, &pools), 0);
	control.pools = pools;
	slices_init(&control.slices, &control.turn, on_wake, NULL);
	slices_event = evtimer_new(base, on_slices, &control.slices);
	ck_assert_ptr_nonnull(slices_event);
	n_pages = 0;
	n_holders = 0;
	named_ended = false;
	n_reloads = 0;
	last_revoked = 0;
}

void admin_teardown(void)
{
	char command[64];

	close_admin();
	json_decref(last_body);
	pools_close(pools);
	event_free(slices_event);
	event_base_free(base);
	(void)snprintf(command, sizeof(command), "rm -rf %s", directory);
	ck_assert_int_eq(system(command), 0);
}

void open_admin(void)
{
	ck_assert_msg(admin_open(base, &sources, path, -1, &admin) == 0, "%s",
		      err_text());
}

void close_admin(void)
{
	admin_close(admin);
	admin = NULL;
}

static struct sockaddr_un socket_address(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	return address;
}

int bind_socket(void)
{
	const struct sockaddr_un address = socket_address();
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&address, sizeof(address)),
			 0);
	return fd;
}

int connect_client(void)
{
	const struct sockaddr_un address = socket_address();
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (connect(fd, (const struct sockaddr *)&address, sizeof(address))) {
		(void)close(fd);
		return -errno;
	}
	return fd;
}

int request(const char *method, const char *resource)
{
	return request_with(method, resource, "");
}

int request_with(const char *method, const char *resource, const char *header)
{
	char text[512];
	size_t used = 0;
	int fd = connect_client(), status = 0;

	ck_assert_int_ge(fd, 0);
	(void)snprintf(text, sizeof(text),
		       "%s %s HTTP/1.0\r\n%sContent-Length: 0\r\n\r\n", method,
		       resource, header);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	for (;;) {
		ssize_t got = read(fd, reply + used, sizeof(reply) - 1 - used);

		if (got == 0)
			break;
		if (got > 0)
			used += (size_t)got;
		else
			ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
	}
	ck_assert_int_eq(close(fd), 0);
	reply[used] = '\0';
	ck_assert_int_eq(sscanf(reply, "HTTP/1.%*d %d", &status), 1);
	return status;
}

json_t *body(void)
{
	const char *text = strstr(reply, "\r\n\r\n");
	json_error_t error;

	ck_assert_ptr_nonnull(text);
	json_decref(last_body);
	last_body = json_loads(text + 4, 0, &error);
	ck_assert_msg(last_body != NULL, "%s: %s", error.text, text);
	return last_body;
}

json_t *get(const char *resource)
{
	ck_assert_int_eq(request("GET", resource), 200);
	ck_assert_ptr_nonnull(strstr(reply, "Content-Type: application/json\r\n"));
	return body();
}
