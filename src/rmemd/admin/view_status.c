/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <unistd.h>

#include "rmemd/admin/view.h"
#include "rmemd/control/control.h"
#include "rmemd/control/session.h"
#include "base/clock.h"
#include "rmemd/admin/admin.h"
#include "rmemd/lease/lease.h"
#include "rmemd/pool/pools.h"

static json_t *memory_view(const struct pools *pools)
{
	json_t *object = json_object();
	uint64_t bytes = 0, lent = 0, scrubbing = 0, unused = 0;

	for (unsigned i = 0; i < pools_count(pools); i++) {
		struct pool_status status;

		pools_status(pools, i, &status);
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

static int session_count(const struct session_status *session, void *arg)
{
	struct session_sums *sums = arg;

	if (strcmp(session->state, "active") == 0)
		sums->active++;
	else
		sums->fenced++;
	sums->channels += session->channels;
	sums->keys += session->keys;
	return 0;
}

static json_t *sessions_sum_view(const struct sessions *sessions)
{
	struct session_sums sums = { 0 };
	json_t *object = json_object();

	(void)sessions_each(sessions, session_count, &sums);
	view_number(&object, "active", sums.active);
	view_number(&object, "fenced", sums.fenced);
	view_number(&object, "channels", sums.channels);
	view_number(&object, "keys", sums.keys);
	return object;
}

struct lease_sums {
	uint64_t named, ephemeral, bytes;
};

static int lease_count(const struct lease_status *lease, void *arg)
{
	struct lease_sums *sums = arg;

	if (lease->name[0])
		sums->named++;
	else
		sums->ephemeral++;
	sums->bytes += lease->bytes;
	return 0;
}

static json_t *leases_sum_view(const struct leases *leases)
{
	struct lease_sums sums = { 0 };
	json_t *object = json_object();

	(void)leases_each(leases, lease_count, &sums);
	view_number(&object, "named", sums.named);
	view_number(&object, "ephemeral", sums.ephemeral);
	view_number(&object, "bytes", sums.bytes);
	return object;
}

static json_t *counters_view(const struct admin_sources *from)
{
	const struct control_counters *counters = from->counters;
	const struct leases_counters *leases = leases_counters(from->leases);
	json_t *object = json_object();

	view_number(&object, "connections", counters->connections);
	view_number(&object, "connections_refused", counters->connections_refused);
	view_number(&object, "requests", counters->requests);
	view_number(&object, "requests_failed", counters->requests_failed);
	view_number(&object, "sessions_opened", counters->sessions_opened);
	view_number(&object, "sessions_fenced", counters->sessions_fenced);
	view_number(&object, "sessions_resumed", counters->sessions_resumed);
	view_number(&object, "leases_granted", leases->granted);
	view_number(&object, "leases_expired", leases->expired);
	view_number(&object, "leases_waited", leases->waited);
	view_number(&object, "leases_waited_ms", leases->waited_ms);
	view_number(&object, "channels_refused", counters->channels_refused);
	return object;
}

/* {"rdma": {"serving": false, "why": "..."}, "tcp": {...}} */
static json_t *fabrics_view(const struct admin_sources *from)
{
	const char *missing = from->verbs_missing;
	json_t *object = json_object(), *verbs = json_object(), *tcp = json_object();
	bool serves_tcp = from->config->tcp;

	view_flag(&verbs, "serving", !missing);
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

json_t *view_status(const struct admin_sources *from)
{
	json_t *object = json_object();

	view_text(&object, "version", PACKAGE_VERSION);
	view_number(&object, "pid", (uint64_t)getpid());
	view_number(&object, "uptime_ms", clock_now_ms() - from->started_ms);
	view_add(&object, "control", control_view(from));
	view_add(&object, "fabrics", fabrics_view(from));
	view_add(&object, "memory", memory_view(from->pools));
	view_add(&object, "sessions", sessions_sum_view(from->sessions));
	view_add(&object, "leases", leases_sum_view(from->leases));
	view_add(&object, "counters", counters_view(from));
	return object;
}
