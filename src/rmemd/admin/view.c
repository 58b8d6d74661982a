/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/view.h"

#include <arpa/inet.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/log.h"
#include "fabric/address.h"
#include "rmemd/admin/admin.h"
#include "rmemd/admin/view_member.h"
#include "rmemd/control/control.h"
#include "rmemd/control/session.h"
#include "rmemd/control/endpoints.h"
#include "rmemd/lease/lease.h"
#include "rmemd/loop/turn.h"
#include "rmemd/metrics/port_counters.h"
#include "rmemd/metrics/sample.h"
#include "rmemd/provision/addition.h"
#include "rmemd/pool/pools.h"
#include "rmemd/provision/resize.h"
#include "rmemd/system/log_output.h"
#include "rmemd/system/recent.h"

/* ---- /v1/status ---- */

static json_t *memory_view(const struct pools *pools)
{
	json_t *object = json_object();
	uint64_t bytes = 0, lent = 0, scrubbing = 0, unused = 0;

	for (unsigned i = 0; i < pools_count(pools); i++) {
		struct pool_status status = pools_status(pools, i);

		bytes += status.bytes;
		lent += status.lent;
		scrubbing += status.scrubbing;
		unused += status.free;
	}
	view_number(&object, "pools", pools_count(pools));
	view_number(&object, "bytes", bytes);
	view_number(&object, "lent_bytes", lent);
	view_number(&object, "scrubbing_bytes", scrubbing);
	view_number(&object, "free_bytes", unused);
	return object;
}

struct session_sums {
	uint64_t active, fenced, channels, keys;
};

static int session_count(const struct session *session, void *arg)
{
	struct session_sums *sums = arg;

	if (session->state == WIRE_SESSION_ACTIVE)
		sums->active++;
	else
		sums->fenced++;
	sums->channels += session->n_connected;
	sums->keys += session->lease_client.n_keys;
	return 0;
}

static json_t *sessions_sum_view(const struct sessions *sessions)
{
	struct session_sums sums = { 0 };
	json_t *object = json_object();

	(void)sessions_each(sessions, 0, session_count, &sums);
	view_number(&object, "active", sums.active);
	view_number(&object, "fenced", sums.fenced);
	view_number(&object, "channels", sums.channels);
	view_number(&object, "keys", sums.keys);
	return object;
}

static json_t *state_view(const struct sample_sources *from)
{
	json_t *object = json_object();

	view_number(&object, "bytes", from->state_bytes);
	view_known(&object, "bytes_max",
		   from->state_max == SAMPLE_NONE ? 0 : from->state_max);
	return object;
}

static json_t *leases_sum_view(const struct leases *leases)
{
	const struct leases_counters *sums = leases_counters(leases);
	json_t *object = json_object();

	view_number(&object, "named", sums->named);
	view_number(&object, "ephemeral", sums->ephemeral);
	view_number(&object, "bytes", sums->bytes);
	return object;
}

/* Rounded up. */
static uint64_t to_us(uint64_t ns)
{
	return (ns + 999) / 1000;
}

static json_t *turns_view(const struct turn *turn)
{
	json_t *object = json_object();

	view_number(&object, "count", turn->n);
	view_number(&object, "long", turn->n_long);
	view_number(&object, "cpu_longest_us", to_us(turn->cpu.ever_ns));
	view_number(&object, "cpu_recent_us", to_us(turn_recent_ns(&turn->cpu)));
	view_number(&object, "wall_longest_us", to_us(turn->wall.ever_ns));
	view_number(&object, "wall_recent_us", to_us(turn_recent_ns(&turn->wall)));
	return object;
}

static json_t *counters_view(const struct admin_sources *from)
{
	const struct control_counters *counters = &from->control->counters;
	const struct leases_counters *leases = leases_counters(from->control->leases);
	json_t *object = json_object(), *refused = json_object();
	json_t *requests = json_object();

	view_number(&object, "connections", counters->connections);
	view_number(&object, "connections_refused", counters->connections_refused);
	for (unsigned i = 0; i < REFUSALS; i++)
		view_number(&refused, refusal_name(i), counters->refused[i]);
	view_add(&object, "refused", refused);
	view_number(&object, "requests", counters->requests);
	view_number(&object, "requests_failed", counters->requests_failed);
	for (unsigned i = 0; i < REQUEST_REFUSALS; i++)
		view_number(&requests, request_refusal_name(i),
			    counters->requests_refused[i]);
	view_add(&object, "requests_refused", requests);
	view_number(&object, "sessions_opened", counters->sessions_opened);
	view_number(&object, "sessions_fenced", counters->sessions_fenced);
	view_number(&object, "sessions_resumed", counters->sessions_resumed);
	view_number(&object, "leases_granted", leases->granted);
	view_number(&object, "leases_expired", leases->expired);
	view_number(&object, "leases_waited", leases->waited);
	view_number(&object, "leases_waited_ms", leases->waited_ms);
	view_number(&object, "channels_refused", counters->channels_refused);
	view_number(&object, "admin_views_refused", counters->admin_views_refused);
	view_number(&object, "admin_acts_refused", counters->admin_acts_refused);
	view_number(&object, "http_refused", counters->http_refused);
	view_number(&object, "log_lines_dropped", log_output_dropped());
	return object;
}

/* Why nobody can connect over RDMA now, or NULL. */
static const char *verbs_missing(const struct admin_sources *from)
{
	const struct endpoints *endpoints = &from->control->endpoints;

	if (from->verbs_missing)
		return from->verbs_missing;
	for (unsigned i = 0; i < endpoints->n; i++) {
		const struct fabric_endpoint *info = endpoints->at[i].info;

		if (info->kind == FABRIC_VERBS && !info->awaited)
			return NULL;
	}
	return "its device, or the address of that, is not there";
}

/* {"rdma": {"serving": false, "awaited": true, "why": "..."}, "tcp": {...}} */
static json_t *fabrics_view(const struct admin_sources *from)
{
	const char *missing = verbs_missing(from);
	json_t *object = json_object(), *verbs = json_object(), *tcp = json_object();
	bool serves_tcp = from->control->config->tcp;

	view_flag(&verbs, "serving", !missing);
	view_flag(&verbs, "awaited", missing && !from->verbs_missing);
	view_text(&verbs, "why", missing);
	view_flag(&tcp, "serving", serves_tcp);
	view_text(&tcp, "why", serves_tcp ? NULL : "[tcp] enabled = no");
	view_add(&object, "rdma", verbs);
	view_add(&object, "tcp", tcp);
	return object;
}

static json_t *control_view(const struct admin_sources *from)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < from->n_listeners; i++)
		view_append(&array, json_string(from->listeners[i]));
	return array;
}

json_t *view_log_level(const struct admin_sources *from)
{
	json_t *object = json_object();

	view_text(&object, "level", config_log_level_name(log_level()));
	view_text(&object, "configured",
		  config_log_level_name(from->control->config->log_level));
	return object;
}

json_t *view_drain(const struct admin_sources *from)
{
	const struct drain *drain = &from->control->drain;
	uint64_t left_ms = drain_left_ms(drain);
	json_t *object;

	if (!drain->on)
		return json_null();
	object = json_object();
	view_number(&object, "age_ms", clock_now_ms() - drain->since_ms);
	view_add(&object, "left_ms",
		 left_ms == DRAIN_NO_DEADLINE ? json_null()
					      : json_integer(json_number(left_ms)));
	return object;
}

json_t *view_status(const struct admin_sources *from)
{
	json_t *object = json_object();

	view_text(&object, "version", PACKAGE_VERSION);
	view_number(&object, "pid", (uint64_t)getpid());
	view_number(&object, "uptime_ms", clock_now_ms() - from->started_ms);
	view_add(&object, "draining", view_drain(from));
	view_add(&object, "control", control_view(from));
	view_add(&object, "fabrics", fabrics_view(from));
	view_add(&object, "memory", memory_view(from->control->pools));
	view_add(&object, "sessions", sessions_sum_view(from->control->sessions));
	view_add(&object, "leases", leases_sum_view(from->control->leases));
	view_add(&object, "state", state_view(from->metrics));
	view_add(&object, "counters", counters_view(from));
	view_add(&object, "turns", turns_view(&from->control->turn));
	view_number(&object, "last_event", recent_last());
	return object;
}

/* ---- /v1/pools ---- */

/* The percentage of the free bytes that are not in the largest piece, rounded up: 0 means one
 * piece.  null: nothing is free. */
static json_t *fragmentation_view(const struct pool_status *pool)
{
	uint64_t rest = pool->free - pool->largest_free;

	/* a pool has far less than the 2^57 bytes that would be too many here */
	return pool->free ? json_integer((json_int_t)((rest * 100 + pool->free - 1) /
						      pool->free))
			  : json_null();
}

static const char *pool_state(const struct pool_status *pool)
{
	static const char *const states[] = {
		[POOL_RESTS] = "ready",       [POOL_GROWS] = "growing",
		[POOL_CLOSES] = "shrinking",  [POOL_RECLAIMS] = "shrinking",
		[POOL_REOPENS] = "ready",     [POOL_CUTS] = "shrinking",
		[POOL_SHRINKS] = "shrinking", [POOL_EMPTY] = "shrinking"
	};

	return pool->leaving ? "leaving" : states[pool->resizing];
}

/* error: why it is not there; NULL: it is */
static json_t *pool_view(const struct pool_status *pool,
			 const struct pool_params *params, int node, const char *state,
			 const char *error)
{
	bool rests = pool->resizing == POOL_RESTS || pool->resizing == POOL_REOPENS;
	json_t *object = json_object();

	view_text(&object, "name", pool->name);
	view_optional(&object, "node_asked", pool->node_asked);
	view_optional(&object, "node", node);
	view_text(&object, "pages_asked", pool_pages_name(pool->pages_asked));
	view_text(&object, "pages",
		  pool->page_bytes ? pool_pages_name(pool->pages_got) : NULL);
	view_known(&object, "page_bytes", pool->page_bytes);
	/* null: auto */
	view_known(&object, "bytes_asked", pool->bytes_asked);
	view_number(&object, "bytes", pool->bytes);
	view_text(&object, "state", state);
	view_text(&object, "error", error);
	view_known(&object, "bytes_to", rests ? 0 : pool->bytes_to);
	view_number(&object, "populated_bytes", pool->populated);
	view_number(&object, "closed_bytes", pool->closed);
	view_number(&object, "recalled_bytes", pool->to_reclaim);
	view_number(&object, "lent_bytes", pool->lent);
	view_number(&object, "scrubbing_bytes", pool->scrubbing);
	view_number(&object, "free_bytes", pool->free);
	view_number(&object, "largest_free_bytes", pool->largest_free);
	view_add(&object, "fragmentation_percent", fragmentation_view(pool));
	view_add(&object, "devices",
		 texts_view(params->devices[0], sizeof(params->devices[0]),
			    params->n_devices));
	view_number(&object, "scrubbed_ever_bytes", pool->scrubbed_ever);
	return object;
}

/* A pool that is configured and not there. */
static json_t *addition_view(const struct addition *addition)
{
	const struct pool_params *params = &addition->params;
	bool failed = addition->state == ADDITION_FAILED;
	struct pool_status status = {
		.name = params->name,
		.node_asked = params->node,
		.pages_asked = params->pages,
		.bytes_asked = params->bytes,
		.resizing = failed ? POOL_RESTS : POOL_GROWS,
		.bytes_to = params->bytes,
	};

	if (addition->state == ADDITION_OPENS)
		status.populated = pools_add_progress(addition->pool, &status.bytes_to);
	return pool_view(&status, params, -1, failed ? "failed" : "adding",
			 failed ? addition->failed.text : NULL);
}

json_t *view_pools(const struct admin_sources *from)
{
	const struct pools *pools = from->control->pools;
	const struct additions *additions = resizes_additions(from->control->resizes);
	json_t *array = json_array();

	for (unsigned i = 0; i < pools_count(pools); i++) {
		struct pool_status status = pools_status(pools, i);

		view_append(&array,
			    pool_view(&status, pools_params(pools, i),
				      pools_node(pools, i), pool_state(&status), NULL));
	}
	if (additions)
		list_for_each_entry(const struct addition, addition, &additions->all,
				    link)
			if (addition->state != ADDITION_STOPS)
				view_append(&array, addition_view(addition));
	return list_view("pools", array);
}

/* ---- /v1/devices ---- */

static json_t *attr_view(const struct fabric_device_attr *attr)
{
	static const char *const transports[] = { [FABRIC_INFINIBAND] = "InfiniBand",
						  [FABRIC_ROCE] = "RoCE",
						  [FABRIC_IWARP] = "iWARP" };
	static const char *const atomics[] = { [FABRIC_ATOMICS_NONE] = "none",
					       [FABRIC_ATOMICS_DEVICE] = "HCA",
					       [FABRIC_ATOMICS_GLOBAL] = "global" };
	json_t *object = json_object();

	view_text(&object, "transport", transports[attr->transport]);
	view_text(&object, "atomics", atomics[attr->atomics]);
	view_flag(&object, "write_immediate", attr->write_immediate);
	view_flag(&object, "relaxed_ordering", attr->relaxed_ordering);
	view_flag(&object, "on_demand_paging", attr->on_demand_paging);
	view_number(&object, "inline_bytes", attr->inline_bytes);
	view_number(&object, "max_qp", attr->max_qp);
	view_number(&object, "max_qp_wr", attr->max_qp_wr);
	view_number(&object, "max_sge", attr->max_sge);
	view_number(&object, "max_cq", attr->max_cq);
	view_number(&object, "max_cqe", attr->max_cqe);
	view_number(&object, "max_mr", attr->max_mr);
	/* JSON's numbers end sooner than soft-RoCE's */
	view_number(&object, "max_mr_bytes",
		    attr->max_mr_bytes < INT64_MAX ? attr->max_mr_bytes : INT64_MAX);
	view_number(&object, "responder_resources", attr->responder_resources);
	view_number(&object, "initiator_depth", attr->initiator_depth);
	return object;
}

static json_t *gid_view(const struct fabric_gid *gid)
{
	json_t *object = json_object();
	char text[INET6_ADDRSTRLEN];

	view_number(&object, "index", gid->index);
	view_text(&object, "gid", inet_ntop(AF_INET6, gid->bytes, text, sizeof(text)));
	view_text(&object, "type", gid->type);
	view_flag(&object, "served", gid->served);
	return object;
}

static json_t *port_view(const struct fabric_port_attr *port)
{
	json_t *object = json_object(), *gids = json_array();

	view_number(&object, "number", port->number);
	view_text(&object, "state", port->state);
	view_known(&object, "active_mtu", port->active_mtu);
	view_known(&object, "max_mtu", port->max_mtu);
	for (unsigned i = 0; i < port->n_gids; i++)
		view_append(&gids, gid_view(&port->gids[i]));
	view_add(&object, "gids", gids);
	view_number(&object, "gids_more", port->gids_more);
	return object;
}

static json_t *rdma_options_view(const struct fabric_rdma_options *options)
{
	json_t *object = json_object();

	view_optional(&object, "mtu", options->mtu);
	view_optional(&object, "traffic_class", options->traffic_class);
	view_optional(&object, "service_level", options->service_level);
	view_optional(&object, "ack_timeout", options->ack_timeout);
	view_optional(&object, "retry_count", options->retry_count);
	view_optional(&object, "rnr_retry_count", options->rnr_retry_count);
	view_optional(&object, "rd_atomic", options->rd_atomic);
	view_flag(&object, "relaxed_ordering", options->relaxed_ordering);
	view_text(&object, "connect",
		  options->connect == FABRIC_CONNECT_DIRECT ? "direct" : "cm");
	view_optional(&object, "gid_index", options->gid_index);
	view_optional(&object, "pkey", options->pkey);
	return object;
}

/* null: not known */
static json_t *counter_view(uint64_t bytes)
{
	return bytes < INT64_MAX ? json_integer((json_int_t)bytes) : json_null();
}

/* Bytes of the clients' operations; of an RDMA port all that the kernel counts. */
static void traffic_view(json_t **object, const struct admin_sources *from,
			 const struct fabric_endpoint *endpoint, unsigned port,
			 const struct fabric_traffic *traffic)
{
	struct port_counters *ports = from->metrics->ports;
	unsigned n = ports ? port_counters_n(ports) : 0;
	struct port_numbers numbers = { .received_bytes = PORT_COUNTER_NONE,
					.sent_bytes = PORT_COUNTER_NONE };

	if (endpoint->kind == FABRIC_TCP) {
		numbers.received_bytes = traffic->received_bytes;
		numbers.sent_bytes = traffic->sent_bytes;
		n = 0;
	}
	for (unsigned i = 0; i < n; i++) {
		const struct port_id *id = port_counters_id(ports, i);

		if (id->number == port && strcmp(id->device, endpoint->device) == 0)
			port_counters_get(ports, i, &numbers);
	}
	view_add(object, "received_bytes", counter_view(numbers.received_bytes));
	view_add(object, "sent_bytes", counter_view(numbers.sent_bytes));
}

static json_t *device_view(const struct admin_sources *from, const struct endpoint *at)
{
	const struct fabric_endpoint *endpoint = at->info;
	const struct fabric_device_attr *attr = NULL;
	struct fabric_endpoint_stats stats = { 0 };
	struct fabric_port_attr port = { 0 };
	bool there = at->ops->device &&
		     !at->ops->device(at->server, at->local, &attr, &port);
	json_t *object = json_object();
	char address[FABRIC_ADDRESS_TEXT];

	at->ops->stats(at->server, at->local, &stats);
	view_text(&object, "device", endpoint->device[0] ? endpoint->device : NULL);
	view_text(&object, "fabric", endpoint->kind == FABRIC_VERBS ? "rdma" : "tcp");
	view_text(&object, "address",
		  endpoint->awaited ? NULL
				    : fabric_address_host(&endpoint->address, address));
	view_known(&object, "port", endpoint->awaited ? 0 : endpoint->address.port);
	view_text(&object, "advertised",
		  at->advertised.port ? fabric_address_text(&at->advertised, address)
				      : NULL);
	view_optional(&object, "node", endpoint->node);
	view_number(&object, "channels", stats.channels);
	view_flag(&object, "tls", (endpoint->flags & FABRIC_ENDPOINT_TLS) != 0);
	view_number(&object, "tls_in_kernel", stats.tls_kernel);
	view_number(&object, "channels_ever", stats.channels_ever);
	view_number(&object, "refused", stats.refused);
	view_number(&object, "errors", stats.errors);
	view_number(&object, "exposures", stats.exposures);
	view_number(&object, "exposed_bytes", stats.exposed_bytes);
	traffic_view(&object, from, endpoint, port.number, &stats.traffic);
	view_add(&object, "can", there ? attr_view(attr) : json_null());
	view_add(&object, "device_port", there ? port_view(&port) : json_null());
	view_add(&object, "knobs",
		 there ? rdma_options_view(&port.rdma_options) : json_null());
	return object;
}

json_t *view_devices(const struct admin_sources *from)
{
	json_t *array = json_array(), *object;

	for (unsigned i = 0; i < from->control->endpoints.n; i++)
		view_append(&array, device_view(from, &from->control->endpoints.at[i]));
	object = list_view("devices", array);
	view_add(&object, "fabrics", fabrics_view(from));
	return object;
}

/* ---- /v1/tenants ---- */

static json_t *tenant_view(const struct tenant *tenant)
{
	const struct tenant_limits *limits = &tenant->limits;
	const struct rights *rights = &tenant->rights;
	json_t *object = json_object();

	view_text(&object, "name", tenant->name);
	view_text(&object, "state", tenant->leaving ? "leaving" : "open");
	view_number(&object, "sessions", tenant->n_sessions);
	view_known(&object, "sessions_max", limits->sessions_max);
	view_number(&object, "channels", tenant->n_channels);
	view_known(&object, "channels_max", limits->channels_max);
	view_number(&object, "leases", tenant->n_leases);
	view_known(&object, "leases_max", limits->leases_max);
	view_number(&object, "lent_bytes", tenant->bytes);
	view_known(&object, "bytes_max", limits->bytes_max);
	view_number(&object, "keys", tenant->n_keys);
	view_known(&object, "keys_max", limits->keys_max);
	view_known(&object, "session_keys_max", limits->session_keys_max);
	view_known(&object, "lease_min", limits->lease_min);
	view_known(&object, "lease_max", limits->lease_max);
	view_known(&object, "ttl_max_ms", limits->ttl_max_ms);
	view_text(&object, "access",
		  rights->access == RIGHTS_READ_ONLY ? "read-only" : "read-write");
	view_add(&object, "pools",
		 texts_view(rights->pools.at[0], sizeof(rights->pools.at[0]),
			    rights->pools.n));
	view_add(&object, "names",
		 texts_view(rights->names[0], sizeof(rights->names[0]),
			    rights->n_names));
	view_number(&object, "refused", tenant->refused);
	view_number(&object, "denied_pools", tenant->denied[RIGHTS_DENY_POOLS]);
	view_number(&object, "denied_access", tenant->denied[RIGHTS_DENY_ACCESS]);
	view_number(&object, "denied_names", tenant->denied[RIGHTS_DENY_NAMES]);
	view_number(&object, "denied_shares", tenant->denied[RIGHTS_DENY_SHARES]);
	view_number(&object, "accesses_refused", tenant->accesses_refused);
	return object;
}

json_t *view_tenants(const struct admin_sources *from)
{
	json_t *array = json_array();

	list_for_each_entry(const struct tenant, tenant, &from->control->tenants->all,
			    link)
		view_append(&array, tenant_view(tenant));
	return list_view("tenants", array);
}
