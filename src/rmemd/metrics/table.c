/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/metrics/table.h"

#define SERVER(member) SAMPLE_SERVER, offsetof(struct sample_server, member)
#define POOL(member) SAMPLE_POOL, offsetof(struct sample_pool, member)
#define DEVICE(member) SAMPLE_DEVICE, offsetof(struct sample_device, member)
#define PORT(member) SAMPLE_PORT, offsetof(struct sample_port, member)
#define TENANT(member) SAMPLE_TENANT, offsetof(struct sample_tenant, member)
#define REFUSAL(group) SAMPLE_##group, offsetof(struct sample_refusal, n)

#define GAUGE METRIC_GAUGE
#define COUNTER METRIC_COUNTER
#define PLAIN METRIC_PLAIN
#define HISTOGRAM METRIC_HISTOGRAM
#define FROM_MS METRIC_FROM_MS
#define FROM_NS METRIC_FROM_NS

/* clang-format off */
const struct metric metrics[] = {
	{ "rmemd_build_info", "The version of rmemd; the value is 1.",
	  GAUGE, SERVER(one), PLAIN, "version=\"" PACKAGE_VERSION "\"" },
	{ "rmemd_start_time_seconds", "Start of the process, in seconds since 1970.",
	  GAUGE, SERVER(started_s), PLAIN, "" },
	{ "rmemd_restarts_survived_total", "Restarts after which a process took over "
	  "sessions or leases; it lasts as long as they do.",
	  COUNTER, SERVER(restarts), PLAIN, "" },
	{ "rmemd_state_bytes", "What the ledger of sessions and leases has in it.",
	  GAUGE, SERVER(state_bytes), PLAIN, "" },
	{ "rmemd_state_limit_bytes", "With more in the ledger nothing more is lent, as "
	  "its file system has no room; missing without a limit.",
	  GAUGE, SERVER(state_max), PLAIN, "" },
	{ "rmemd_cpu_seconds_total", "Time of the CPU that all threads have used.",
	  COUNTER, SERVER(cpu_ns), FROM_NS, "" },

	{ "rmemd_pool_size_bytes", "Memory of the pool.",
	  GAUGE, POOL(bytes), PLAIN, "" },
	{ "rmemd_pool_target_bytes", "Size that the pool is to have; while it is "
	  "resized it differs from its size.",
	  GAUGE, POOL(bytes_to), PLAIN, "" },
	{ "rmemd_pool_lent_bytes", "Memory in leases.",
	  GAUGE, POOL(lent), PLAIN, "" },
	{ "rmemd_pool_scrubbing_bytes", "Freed memory that is not zeroed yet.",
	  GAUGE, POOL(scrubbing), PLAIN, "" },
	{ "rmemd_pool_free_bytes", "Memory that can be lent at once.",
	  GAUGE, POOL(free), PLAIN, "" },
	{ "rmemd_pool_largest_free_bytes", "Longest free range of the pool.",
	  GAUGE, POOL(largest_free), PLAIN, "" },
	{ "rmemd_pool_page_bytes", "Size of the pages of the pool.",
	  GAUGE, POOL(page_bytes), PLAIN, "" },
	{ "rmemd_pool_scrubbed_bytes_total", "Freed memory that was zeroed.",
	  COUNTER, POOL(scrubbed), PLAIN, "" },

	{ "rmemd_sessions", "Sessions, by state.",
	  GAUGE, SERVER(sessions_active), PLAIN, "state=\"active\"" },
	{ "rmemd_sessions", NULL,
	  GAUGE, SERVER(sessions_fenced), PLAIN, "state=\"fenced\"" },
	{ "rmemd_sessions_limit", "[limits] sessions.",
	  GAUGE, SERVER(sessions_max), PLAIN, "" },
	{ "rmemd_sessions_opened_total", "Sessions that were opened.",
	  COUNTER, SERVER(sessions_opened), PLAIN, "" },
	{ "rmemd_sessions_fenced_total", "Times that a session was fenced, as its "
	  "client was silent or lost.",
	  COUNTER, SERVER(sessions_fenced_ever), PLAIN, "" },
	{ "rmemd_sessions_resumed_total", "Times that a client came back to its session.",
	  COUNTER, SERVER(sessions_resumed), PLAIN, "" },
	{ "rmemd_channels", "Connected channels of all sessions.",
	  GAUGE, SERVER(channels), PLAIN, "" },
	{ "rmemd_keys", "Keys of all sessions.",
	  GAUGE, SERVER(keys), PLAIN, "" },

	{ "rmemd_leases", "Leases, by kind.",
	  GAUGE, SERVER(leases_named), PLAIN, "kind=\"named\"" },
	{ "rmemd_leases", NULL,
	  GAUGE, SERVER(leases_ephemeral), PLAIN, "kind=\"ephemeral\"" },
	{ "rmemd_leases_bytes", "Sum of the lengths of all leases.",
	  GAUGE, SERVER(leases_bytes), PLAIN, "" },
	{ "rmemd_leases_granted_total", "Leases that were granted.",
	  COUNTER, SERVER(leases_granted), PLAIN, "" },
	{ "rmemd_leases_expired_total", "Leases that ended because they were not renewed.",
	  COUNTER, SERVER(leases_expired), PLAIN, "" },
	{ "rmemd_memory_waits_total", "Requests that waited for memory to be zeroed.",
	  COUNTER, SERVER(leases_waited), PLAIN, "" },
	{ "rmemd_memory_wait_seconds_total", "Time that requests waited for memory to be zeroed.",
	  COUNTER, SERVER(leases_waited_ms), FROM_MS, "" },

	{ "rmemd_connections_total", "Control connections that were accepted.",
	  COUNTER, SERVER(connections), PLAIN, "" },
	{ "rmemd_refused_total", "Control connections and channels that were refused, by reason.",
	  COUNTER, REFUSAL(REFUSAL), PLAIN, "" },
	{ "rmemd_requests_total", "Requests of sessions.",
	  COUNTER, SERVER(requests), PLAIN, "" },
	{ "rmemd_requests_refused_total", "Requests of sessions that failed, by reason.",
	  COUNTER, REFUSAL(REQUEST_REFUSAL), PLAIN, "" },
	{ "rmemd_admin_refused_total", "Requests over the admin socket that were refused.",
	  COUNTER, SERVER(views_refused), PLAIN, "action=\"view\"" },
	{ "rmemd_admin_refused_total", NULL,
	  COUNTER, SERVER(acts_refused), PLAIN, "action=\"act\"" },
	{ "rmemd_http_refused_total", "Over HTTP: connections that sent too much, "
	  "requests to names of other hosts.",
	  COUNTER, SERVER(http_refused), PLAIN, "" },
	{ "rmemd_log_lines_dropped_total", "Lines of the log that were dropped, as "
	  "nobody read them.",
	  COUNTER, SERVER(log_lines_dropped), PLAIN, "" },

	{ "rmemd_tenant_sessions", "Sessions of the tenant.",
	  GAUGE, TENANT(sessions), PLAIN, "" },
	{ "rmemd_tenant_sessions_limit", "[tenant] sessions, if there is a limit.",
	  GAUGE, TENANT(sessions_max), PLAIN, "" },
	{ "rmemd_tenant_channels", "Channels of the tenant.",
	  GAUGE, TENANT(channels), PLAIN, "" },
	{ "rmemd_tenant_channels_limit", "[tenant] channels, if there is a limit.",
	  GAUGE, TENANT(channels_max), PLAIN, "" },
	{ "rmemd_tenant_leases", "Leases of the tenant.",
	  GAUGE, TENANT(leases), PLAIN, "" },
	{ "rmemd_tenant_leases_limit", "[tenant] leases.",
	  GAUGE, TENANT(leases_max), PLAIN, "" },
	{ "rmemd_tenant_lent_bytes", "Memory in leases of the tenant.",
	  GAUGE, TENANT(bytes), PLAIN, "" },
	{ "rmemd_tenant_lent_limit_bytes", "[tenant] bytes, if there is a limit.",
	  GAUGE, TENANT(bytes_max), PLAIN, "" },
	{ "rmemd_tenant_keys", "Keys of the tenant.",
	  GAUGE, TENANT(keys), PLAIN, "" },
	{ "rmemd_tenant_keys_limit", "[tenant] keys.",
	  GAUGE, TENANT(keys_max), PLAIN, "" },
	{ "rmemd_tenant_requests_refused_total", "Requests of the tenant that were "
	  "refused: over a limit, or without the right.",
	  COUNTER, TENANT(over_quota), PLAIN, "reason=\"quota\"" },
	{ "rmemd_tenant_requests_refused_total", NULL,
	  COUNTER, TENANT(denied_pools), PLAIN, "reason=\"pools\"" },
	{ "rmemd_tenant_requests_refused_total", NULL,
	  COUNTER, TENANT(denied_access), PLAIN, "reason=\"access\"" },
	{ "rmemd_tenant_requests_refused_total", NULL,
	  COUNTER, TENANT(denied_names), PLAIN, "reason=\"names\"" },
	{ "rmemd_tenant_requests_refused_total", NULL,
	  COUNTER, TENANT(denied_shares), PLAIN, "reason=\"shares\"" },
	{ "rmemd_tenant_accesses_refused_total", "Accesses of the tenant with a wrong "
	  "key, outside of a lease, or without the right.",
	  COUNTER, TENANT(accesses_refused), PLAIN, "" },

	{ "rmemd_device_up", "Whether clients can connect channels there; over RDMA "
	  "its device, or the address of that, may be missing.",
	  GAUGE, DEVICE(up), PLAIN, "" },
	{ "rmemd_device_channels", "Connected channels of the device.",
	  GAUGE, DEVICE(channels), PLAIN, "" },
	{ "rmemd_device_channels_limit", "Channels that the device, or the limit of "
	  "descriptors, allows.",
	  GAUGE, DEVICE(channels_max), PLAIN, "" },
	{ "rmemd_device_channels_tls_kernel", "Channels whose TLS is done by the kernel.",
	  GAUGE, DEVICE(channels_tls_kernel), PLAIN, "" },
	{ "rmemd_device_channels_opened_total", "Channels that were connected.",
	  COUNTER, DEVICE(channels_ever), PLAIN, "" },
	{ "rmemd_device_channels_refused_total", "Channels that were not admitted.",
	  COUNTER, DEVICE(refused), PLAIN, "" },
	{ "rmemd_device_channel_errors_total", "Channels that ended in an error.",
	  COUNTER, DEVICE(errors), PLAIN, "" },
	{ "rmemd_device_registrations", "Registered memory regions.",
	  GAUGE, DEVICE(registrations), PLAIN, "" },
	{ "rmemd_device_registered_bytes", "Sum of the lengths of registered memory regions.",
	  GAUGE, DEVICE(registered_bytes), PLAIN, "" },

	{ "rmemd_port_up", "Whether the port of the RDMA device is active.",
	  GAUGE, PORT(numbers.up), PLAIN, "" },
	{ "rmemd_port_received_bytes_total", "Bytes that the port received.",
	  COUNTER, PORT(numbers.received_bytes), PLAIN, "" },
	{ "rmemd_port_sent_bytes_total", "Bytes that the port sent.",
	  COUNTER, PORT(numbers.sent_bytes), PLAIN, "" },
	{ "rmemd_port_received_packets_total", "Packets that the port received.",
	  COUNTER, PORT(numbers.received_packets), PLAIN, "" },
	{ "rmemd_port_sent_packets_total", "Packets that the port sent.",
	  COUNTER, PORT(numbers.sent_packets), PLAIN, "" },
	{ "rmemd_port_operations_total", "Operations of clients that the port received.",
	  COUNTER, PORT(numbers.reads), PLAIN, "operation=\"read\"" },
	{ "rmemd_port_operations_total", NULL,
	  COUNTER, PORT(numbers.writes), PLAIN, "operation=\"write\"" },
	{ "rmemd_port_operations_total", NULL,
	  COUNTER, PORT(numbers.atomics), PLAIN, "operation=\"atomic\"" },
	{ "rmemd_port_operations_total", NULL,
	  COUNTER, PORT(numbers.sends), PLAIN, "operation=\"send\"" },
	{ "rmemd_port_operations_total", NULL,
	  COUNTER, PORT(inband), PLAIN, "operation=\"inband\"" },
	{ "rmemd_port_operations_refused_total", "Operations with a wrong key, outside "
	  "of a lease, or without the right.",
	  COUNTER, PORT(refused), PLAIN, "" },
	{ "rmemd_port_retries_total", "Requests that were sent again, or came again or "
	  "in a wrong order, by cause.",
	  COUNTER, PORT(numbers.retries_timeout), PLAIN, "cause=\"timeout\"" },
	{ "rmemd_port_retries_total", NULL,
	  COUNTER, PORT(numbers.retries_sequence), PLAIN, "cause=\"sequence\"" },
	{ "rmemd_port_retries_total", NULL,
	  COUNTER, PORT(numbers.retries_rnr), PLAIN, "cause=\"receiver_not_ready\"" },
	{ "rmemd_port_retries_total", NULL,
	  COUNTER, PORT(numbers.duplicates), PLAIN, "cause=\"duplicate\"" },
	{ "rmemd_port_retries_total", NULL,
	  COUNTER, PORT(numbers.out_of_order), PLAIN, "cause=\"out_of_order\"" },
	{ "rmemd_port_errors_total", "Errors of the port, by kind.",
	  COUNTER, PORT(numbers.access_errors), PLAIN, "kind=\"access\"" },
	{ "rmemd_port_errors_total", NULL,
	  COUNTER, PORT(numbers.length_errors), PLAIN, "kind=\"length\"" },
	{ "rmemd_port_errors_total", NULL,
	  COUNTER, PORT(numbers.retries_exceeded), PLAIN, "kind=\"retries_exceeded\"" },
	{ "rmemd_port_errors_total", NULL,
	  COUNTER, PORT(numbers.receive_errors), PLAIN, "kind=\"receive\"" },
	{ "rmemd_port_errors_total", NULL,
	  COUNTER, PORT(numbers.discards), PLAIN, "kind=\"discard\"" },
	{ "rmemd_port_errors_total", NULL,
	  COUNTER, PORT(numbers.link_downed), PLAIN, "kind=\"link_down\"" },
	{ "rmemd_port_congestion_total", "Signs of congestion: notifications that were "
	  "sent and handled, marked packets.",
	  COUNTER, PORT(numbers.cnp_sent), PLAIN, "sign=\"cnp_sent\"" },
	{ "rmemd_port_congestion_total", NULL,
	  COUNTER, PORT(numbers.cnp_handled), PLAIN, "sign=\"cnp_handled\"" },
	{ "rmemd_port_congestion_total", NULL,
	  COUNTER, PORT(numbers.ecn_marked), PLAIN, "sign=\"ecn_marked\"" },

	{ "rmemd_grant_seconds", "Time from the request for a lease to its grant.",
	  HISTOGRAM, SERVER(grants), FROM_NS, "" },
	{ "rmemd_registration_seconds", "Time to register a memory region, until its key works.",
	  HISTOGRAM, SERVER(registrations), FROM_NS, "" },
	{ "rmemd_loop_turn_seconds", "Time of the CPU that a turn of the main loop took.",
	  HISTOGRAM, SERVER(turns), FROM_NS, "" },
	{ "rmemd_loop_turns_long_total", "Turns of the main loop that took more than 2 "
	  "ms of the CPU.",
	  COUNTER, SERVER(turns_long), PLAIN, "" },
	{ "rmemd_loop_turn_recent_max_seconds", "The longest turn of the last 30 to 60 "
	  "seconds, by clock.",
	  GAUGE, SERVER(turn_cpu_ns), FROM_NS, "clock=\"cpu\"" },
	{ "rmemd_loop_turn_recent_max_seconds", NULL,
	  GAUGE, SERVER(turn_wall_ns), FROM_NS, "clock=\"wall\"" },
};
/* clang-format on */

const size_t metrics_n = sizeof(metrics) / sizeof(metrics[0]);
