/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon as a whole: it opens the parts, wires their news to each other, runs the
 * loop, and shows itself to the admin side.  Threads: [loop]. */
#ifndef RMEMD_DAEMON_H
#define RMEMD_DAEMON_H

#include <stdint.h>

#include "fabric/fabric.h"
#include "rmemd/config/config.h"

struct daemon;
struct leases;
struct pools;
struct sessions;
struct tenants;

/* Since the start. */
struct daemon_counters {
	uint64_t connections;         /* control connections accepted */
	uint64_t connections_refused; /* too many at once, not authenticated in time */
	uint64_t requests;
	uint64_t requests_failed; /* answered by an error */
	uint64_t sessions_opened;
	uint64_t sessions_fenced;
	uint64_t sessions_resumed;
	uint64_t leases_granted;
	uint64_t leases_expired;
	uint64_t leases_waited; /* for memory that was being zeroed */
	uint64_t leases_waited_ms;
	uint64_t channels_refused;
};

/* Open everything the configuration names.  `config` is copied; config_path (may be
 * NULL: defaults) is what a reload reads.  -errno with text that names cause and
 * remedy. */
int daemon_open(const struct config *config, const char *config_path,
		struct daemon **ret_daemon);
/* Serve until asked to stop.  Returns 0 after an orderly stop. */
int daemon_run(struct daemon *daemon);
/* NULL: nothing. */
void daemon_close(struct daemon *daemon);

/* ---- what the admin side shows; all borrowed while the daemon is open ---- */

const struct config *daemon_config(const struct daemon *daemon);
struct pools *daemon_pools(const struct daemon *daemon);
struct leases *daemon_leases(const struct daemon *daemon);
struct sessions *daemon_sessions(const struct daemon *daemon);
const struct tenants *daemon_tenants(const struct daemon *daemon);
uint64_t daemon_uptime_ms(const struct daemon *daemon);
/* Where control connections come in, "127.0.0.1:7460". */
unsigned daemon_n_listeners(const struct daemon *daemon);
const char *daemon_listener(const struct daemon *daemon, unsigned i);
/* Why RDMA is not served; NULL when it is. */
const char *daemon_verbs_missing(const struct daemon *daemon);
void daemon_counters(const struct daemon *daemon, struct daemon_counters *ret_counters);

unsigned daemon_n_endpoints(const struct daemon *daemon);
/* `i` is the endpoint's number in the protocol. */
const struct fabric_endpoint *daemon_endpoint(const struct daemon *daemon, unsigned i);
void daemon_endpoint_stats(const struct daemon *daemon, unsigned i,
			   struct fabric_endpoint_stats *ret_stats);
/* The device behind the endpoint.  -ENOTSUP: there is none; -ENODEV: it was removed. */
int daemon_endpoint_device(const struct daemon *daemon, unsigned i,
			   const struct fabric_device_attr **ret_attr,
			   struct fabric_port_attr *ret_port);

#endif
