/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/metrics/sample.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "fabric/address.h"
#include "rmemd/control/control.h"
#include "rmemd/control/session.h"
#include "rmemd/lease/lease.h"
#include "rmemd/pool/pools.h"
#include "rmemd/system/log_output.h"

/* Those of one slice. */
#define SESSIONS_STEP 128
#define TENANTS_STEP 64

/* ---- groups of few items ---- */

static uint64_t known(uint64_t number)
{
	return number ? number : SAMPLE_NONE;
}

static uint64_t process_cpu_ns(void)
{
	struct timespec used;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used))
		return SAMPLE_NONE;
	return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

static void add_server(struct sample_server *server, const struct sample_sources *from)
{
	const struct control *control = from->control;
	const struct control_counters *counters = &control->counters;
	const struct leases_counters *leases = leases_counters(control->leases);

	server->one = 1;
	server->state_bytes = from->state_bytes;
	server->state_max = from->state_max;
	server->restarts = from->restarts;
	server->cpu_ns = process_cpu_ns();
	server->started_s = from->started_s;
	server->sessions_max = control->config->sessions_max;
	server->sessions_opened = counters->sessions_opened;
	server->sessions_fenced_ever = counters->sessions_fenced;
	server->sessions_resumed = counters->sessions_resumed;
	server->leases_named = leases->named;
	server->leases_ephemeral = leases->ephemeral;
	server->leases_bytes = leases->bytes;
	server->leases_granted = leases->granted;
	server->leases_expired = leases->expired;
	server->leases_waited = leases->waited;
	server->leases_waited_ms = leases->waited_ms;
	server->connections = counters->connections;
	server->requests = counters->requests;
	server->views_refused = counters->admin_views_refused;
	server->acts_refused = counters->admin_acts_refused;
	server->http_refused = counters->http_refused;
	server->log_lines_dropped = log_output_dropped();
	server->turns_long = control->turn.n_long;
	server->turn_cpu_ns = turn_recent_ns(&control->turn.cpu);
	server->turn_wall_ns = turn_recent_ns(&control->turn.wall);
	server->turns = control->turn.cpu_times;
	server->grants = leases->grants;
	server->registrations = leases->registrations;
}

/* Names of pools, devices, tenants and reasons have no character that a label has to escape. */
static void add_pools(struct sample *sample, const struct pools *pools)
{
	unsigned n = pools_count(pools);

	for (unsigned i = 0; i < n && i < CONFIG_POOLS_MAX; i++) {
		struct pool_status status = pools_status(pools, i);
		struct sample_pool *pool = &sample->pools[i];

		(void)snprintf(pool->labels, sizeof(pool->labels), "pool=\"%s\"",
			       status.name);
		pool->bytes = status.bytes;
		pool->lent = status.lent;
		pool->scrubbing = status.scrubbing;
		pool->free = status.free;
		pool->largest_free = status.largest_free;
		pool->bytes_to = status.bytes_to;
		pool->page_bytes = status.page_bytes;
		pool->scrubbed = status.scrubbed_ever;
		sample->groups[SAMPLE_POOL].n = i + 1;
	}
}

static void add_device(struct sample_device *device, const struct endpoint *endpoint)
{
	const struct fabric_endpoint *info = endpoint->info;
	struct fabric_endpoint_stats stats = { 0 };
	bool rdma = info->kind == FABRIC_VERBS;
	char host[FABRIC_ADDRESS_TEXT];

	endpoint->ops->stats(endpoint->server, endpoint->local, &stats);
	(void)snprintf(device->labels, sizeof(device->labels),
		       "device=\"%s\",fabric=\"%s\",address=\"%s\"",
		       rdma ? info->device : "tcp", rdma ? "rdma" : "tcp",
		       fabric_address_host(&info->address, host));
	device->up = !info->awaited;
	device->channels = stats.channels;
	device->channels_max = known(endpoint->channels_max);
	device->channels_ever = stats.channels_ever;
	device->channels_tls_kernel = stats.tls_kernel;
	device->refused = stats.refused;
	device->errors = stats.errors;
	device->registrations = stats.exposures;
	device->registered_bytes = stats.exposed_bytes;
}

/* The endpoints over TCP have one port. */
static void add_tcp(struct sample_port *port, const struct endpoint *endpoint)
{
	struct fabric_endpoint_stats stats = { 0 };
	struct port_numbers *numbers = &port->numbers;
	const struct fabric_traffic *traffic = &stats.traffic;

	endpoint->ops->stats(endpoint->server, endpoint->local, &stats);
	if (!*port->labels) {
		memset(numbers, 0xff, sizeof(*numbers));
		numbers->received_bytes = numbers->sent_bytes = 0;
		numbers->reads = numbers->writes = numbers->atomics = 0;
		port->inband = port->refused = 0;
		(void)snprintf(port->labels, sizeof(port->labels),
			       "device=\"tcp\",port=\"%u\"",
			       endpoint->info->address.port);
	}
	numbers->received_bytes += traffic->received_bytes;
	numbers->sent_bytes += traffic->sent_bytes;
	numbers->reads += traffic->reads;
	numbers->writes += traffic->writes;
	numbers->atomics += traffic->atomics;
	port->inband += traffic->inband;
	port->refused += traffic->refused;
}

static void add_ports(struct sample *sample, const struct sample_sources *from)
{
	const struct endpoints *endpoints = &from->control->endpoints;
	unsigned n = from->ports ? port_counters_n(from->ports) : 0;

	for (unsigned i = 0; i < n; i++) {
		const struct port_id *id = port_counters_id(from->ports, i);
		struct sample_port *port = &sample->ports[i];

		(void)snprintf(port->labels, sizeof(port->labels),
			       "device=\"%s\",port=\"%u\"", id->device, id->number);
		port_counters_get(from->ports, i, &port->numbers);
		port->inband = port->refused = SAMPLE_NONE;
	}
	for (unsigned i = 0; i < endpoints->n; i++)
		if (endpoints->at[i].info->kind == FABRIC_TCP)
			add_tcp(&sample->ports[n], &endpoints->at[i]);
	sample->groups[SAMPLE_PORT].n = n + (*sample->ports[n].labels != '\0');
}

static void refusal_set(struct sample_refusal *refusal, const char *reason, uint64_t n)
{
	(void)snprintf(refusal->labels, sizeof(refusal->labels), "reason=\"%s\"",
		       reason);
	refusal->n = n;
}

static void add_refusals(struct sample *sample, const struct control_counters *counters)
{
	for (unsigned i = 0; i < REFUSALS; i++)
		refusal_set(&sample->refusals[i], refusal_name(i),
			    counters->refused[i]);
	for (unsigned i = 0; i < REQUEST_REFUSALS; i++)
		refusal_set(&sample->request_refusals[i], request_refusal_name(i),
			    counters->requests_refused[i]);
}

static void group_set(struct sample *sample, enum sample_group_id id, const void *items,
		      size_t item_bytes, unsigned n)
{
	sample->groups[id] = (struct sample_group){ items, item_bytes, n };
}

void sample_begin(struct sample *sample, const struct sample_sources *from)
{
	const struct endpoints *endpoints = &from->control->endpoints;

	group_set(sample, SAMPLE_SERVER, &sample->server, sizeof(sample->server), 1);
	group_set(sample, SAMPLE_POOL, sample->pools, sizeof(sample->pools[0]), 0);
	group_set(sample, SAMPLE_DEVICE, sample->devices, sizeof(sample->devices[0]),
		  endpoints->n);
	group_set(sample, SAMPLE_PORT, sample->ports, sizeof(sample->ports[0]), 0);
	group_set(sample, SAMPLE_TENANT, NULL, sizeof(sample->tenants[0]), 0);
	group_set(sample, SAMPLE_REFUSAL, sample->refusals, sizeof(sample->refusals[0]),
		  REFUSALS);
	group_set(sample, SAMPLE_REQUEST_REFUSAL, sample->request_refusals,
		  sizeof(sample->request_refusals[0]), REQUEST_REFUSALS);
	add_server(&sample->server, from);
	add_pools(sample, from->control->pools);
	for (unsigned i = 0; i < endpoints->n; i++)
		add_device(&sample->devices[i], &endpoints->at[i]);
	add_ports(sample, from);
	add_refusals(sample, &from->control->counters);
}

/* ---- sessions and tenants ---- */

struct sessions_step {
	struct sample *sample;
	unsigned n;
};

static int add_session(const struct session *session, void *arg)
{
	struct sessions_step *step = arg;
	struct sample_server *server = &step->sample->server;

	if (session->state == WIRE_SESSION_ACTIVE)
		server->sessions_active++;
	else
		server->sessions_fenced++;
	server->channels += session->n_connected;
	server->keys += session->lease_client.n_keys;
	step->sample->session = session->lease_client.id;
	return ++step->n == SESSIONS_STEP;
}

static void tenant_name_set(struct sample_tenant *item, const char *name)
{
	(void)snprintf(item->labels, sizeof(item->labels), "tenant=\"%s\"", name);
}

/* Add the uses of a tenant; the limits are set. */
static void tenant_add(struct sample_tenant *item, const struct tenant *tenant)
{
	item->sessions += tenant->n_sessions;
	item->channels += tenant->n_channels;
	item->leases += tenant->n_leases;
	item->bytes += tenant->bytes;
	item->keys += tenant->n_keys;
	item->over_quota += tenant->refused;
	item->denied_pools += tenant->denied[RIGHTS_DENY_POOLS];
	item->denied_access += tenant->denied[RIGHTS_DENY_ACCESS];
	item->denied_names += tenant->denied[RIGHTS_DENY_NAMES];
	item->denied_shares += tenant->denied[RIGHTS_DENY_SHARES];
	item->accesses_refused += tenant->accesses_refused;
}

static void tenant_set(struct sample_tenant *item, const struct tenant *tenant)
{
	const struct tenant_limits *limits = &tenant->limits;

	*item = (struct sample_tenant){
		.sessions_max = known(limits->sessions_max),
		.channels_max = known(limits->channels_max),
		.leases_max = known(limits->leases_max),
		.bytes_max = known(limits->bytes_max),
		.keys_max = known(limits->keys_max),
	};
	tenant_name_set(item, tenant->name);
	tenant_add(item, tenant);
}

static int add_tenant(struct sample *sample, const struct tenant *tenant)
{
	struct sample_group *group = &sample->groups[SAMPLE_TENANT];
	struct sample_tenant *others;

	if (group->n % TENANTS_STEP == 0 && group->n <= SAMPLE_TENANTS_MAX) {
		size_t n = group->n + TENANTS_STEP;
		void *grown = realloc(sample->tenants, n * sizeof(*sample->tenants));

		if (!grown)
			return -ENOMEM;
		group->items = sample->tenants = grown;
	}
	if (group->n < SAMPLE_TENANTS_MAX) {
		tenant_set(&sample->tenants[group->n++], tenant);
		return 0;
	}
	others = &sample->tenants[SAMPLE_TENANTS_MAX];
	if (group->n == SAMPLE_TENANTS_MAX) {
		*others = (struct sample_tenant){
			.sessions_max = SAMPLE_NONE,
			.channels_max = SAMPLE_NONE,
			.leases_max = SAMPLE_NONE,
			.bytes_max = SAMPLE_NONE,
			.keys_max = SAMPLE_NONE,
		};
		tenant_name_set(others, SAMPLE_OTHER_TENANTS);
		group->n++;
	}
	tenant_add(others, tenant);
	return 0;
}

/* A reference keeps the last tenant in the table until the next slice. */
static int add_tenants(struct sample *sample, const struct tenants *tenants)
{
	struct tenant *last = sample->tenant, *tenant = tenants_next(tenants, last);
	int err = 0;

	for (unsigned i = 0; tenant && !err && i < TENANTS_STEP; i++) {
		err = add_tenant(sample, tenant);
		sample->tenant = tenant;
		tenant = tenants_next(tenants, tenant);
	}
	if (sample->tenant && sample->tenant != last)
		tenant_ref(sample->tenant);
	if (last && sample->tenant != last)
		tenant_unref(last);
	return err ? err : tenant != NULL;
}

int sample_go_on(struct sample *sample, const struct sample_sources *from)
{
	struct sessions_step step = { .sample = sample };

	if (sample->sessions_done)
		return add_tenants(sample, from->control->tenants);
	sample->sessions_done = sessions_each(from->control->sessions, sample->session,
					      add_session, &step) == 0;
	return 1;
}

void sample_end(struct sample *sample)
{
	if (sample->tenant)
		tenant_unref(sample->tenant);
	sample->tenant = NULL;
	free(sample->tenants);
	sample->tenants = NULL;
}
