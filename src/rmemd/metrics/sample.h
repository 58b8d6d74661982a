/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers of the daemon at one time: in groups of items, each with labels.  Their number is
 * limited: sessions and leases have no items, and tenants beyond a limit have one together.
 * Threads: [loop]. */
#ifndef RMEMD_METRICS_SAMPLE_H
#define RMEMD_METRICS_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "rmemd/config/config.h"
#include "rmemd/control/refusal.h"
#include "rmemd/loop/durations.h"
#include "rmemd/metrics/port_counters.h"
#include "wire/msg.h"

struct control;
struct slices;
struct tenant;

/* Tenants beyond this number are together. */
#define SAMPLE_TENANTS_MAX 1000
#define SAMPLE_OTHER_TENANTS "(others)"
/* A number that is not known, or a limit that there is not. */
#define SAMPLE_NONE UINT64_MAX

/* What a sample is taken of; borrowed. */
struct sample_sources {
	const struct control *control;
	struct slices *slices;           /* of control */
	uint64_t started_s;              /* since 1970 */
	uint64_t restarts;               /* restarts_get() */
	uint64_t state_bytes, state_max; /* of ledger_usage(), some seconds ago */
	struct port_counters *ports;     /* NULL: there are none */
};

/* Each item begins with its labels: `pool="a"`. */
#define SAMPLE_LABELS_BYTES 192

struct sample_server {
	char labels[1];
	uint64_t one, started_s, restarts, cpu_ns;
	uint64_t sessions_active, sessions_fenced, sessions_max;
	uint64_t sessions_opened, sessions_fenced_ever, sessions_resumed;
	uint64_t channels, keys;
	uint64_t leases_named, leases_ephemeral, leases_bytes;
	uint64_t state_bytes, state_max;
	uint64_t leases_granted, leases_expired, leases_waited, leases_waited_ms;
	uint64_t connections, requests;
	uint64_t views_refused, acts_refused, http_refused;
	uint64_t log_lines_dropped;
	uint64_t turns_long, turn_cpu_ns, turn_wall_ns; /* the latter: recent maximum */
	struct durations grants, registrations, turns;
};

struct sample_pool {
	char labels[SAMPLE_LABELS_BYTES];
	uint64_t bytes, lent, scrubbing, free, largest_free, bytes_to, page_bytes;
	uint64_t scrubbed;
};

struct sample_device {
	char labels[SAMPLE_LABELS_BYTES];
	uint64_t up; /* 1 or 0 */
	uint64_t channels, channels_max, channels_ever, channels_tls_kernel;
	uint64_t refused, errors, registrations, registered_bytes;
};

/* A port of an RDMA device, or all of TCP. */
struct sample_port {
	char labels[SAMPLE_LABELS_BYTES];
	struct port_numbers numbers;
	/* of TCP alone */
	uint64_t inband, refused;
};

struct sample_tenant {
	char labels[SAMPLE_LABELS_BYTES];
	uint64_t sessions, channels, leases, bytes, keys;
	uint64_t sessions_max, channels_max, leases_max, bytes_max, keys_max;
	uint64_t over_quota, denied_pools, denied_access, denied_names, denied_shares;
	uint64_t accesses_refused;
};

struct sample_refusal {
	char labels[SAMPLE_LABELS_BYTES];
	uint64_t n;
};

enum sample_group_id {
	SAMPLE_SERVER,
	SAMPLE_POOL,
	SAMPLE_DEVICE,
	SAMPLE_PORT,
	SAMPLE_TENANT,
	SAMPLE_REFUSAL, /* of connections and channels, by reason */
	SAMPLE_REQUEST_REFUSAL,
	SAMPLE_GROUPS,
};

struct sample_group {
	const void *items;
	size_t item_bytes;
	unsigned n;
};

struct sample {
	struct sample_group groups[SAMPLE_GROUPS];
	struct sample_server server;
	struct sample_pool pools[CONFIG_POOLS_MAX];
	struct sample_device devices[WIRE_ENDPOINTS_MAX];
	struct sample_port ports[WIRE_ENDPOINTS_MAX + 1];
	struct sample_refusal refusals[REFUSALS];
	struct sample_refusal request_refusals[REQUEST_REFUSALS];
	struct sample_tenant *tenants; /* up to SAMPLE_TENANTS_MAX, and the others */
	/* where it goes on */
	uint64_t session; /* the id of the last one that was counted */
	bool sessions_done;
	struct tenant *tenant; /* the last one, with a reference; NULL: none */
};

/* Begin a sample, which is all zero: what takes a limited time. */
void sample_begin(struct sample *sample, const struct sample_sources *from);
/* Add some sessions and tenants.  1: there are more; 0: the sample is complete; -ENOMEM */
int sample_go_on(struct sample *sample, const struct sample_sources *from);
/* Free what it has. */
void sample_end(struct sample *sample);

#endif
