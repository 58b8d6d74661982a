/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/config/keys.h"

#include <syslog.h>

#include "rmemd/config/config.h"

#define MEMBER(type, name) offsetof(type, name), sizeof(((type *)0)->name)
#define FIELD(name) MEMBER(struct config, name), 0, NULL
#define LIST(name) MEMBER(struct config, name), offsetof(struct config, n_##name), NULL
#define CHOICES(...)                     \
	(const struct config_choice[])   \
	{                                \
		__VA_ARGS__, { NULL, 0 } \
	}
#define CHOICE(name, ...) MEMBER(struct config, name), 0, CHOICES(__VA_ARGS__)
#define POOL(name) MEMBER(struct pool_params, name), 0, NULL
#define POOL_CHOICE(name, ...) MEMBER(struct pool_params, name), 0, CHOICES(__VA_ARGS__)
#define POOL_LIST(name) \
	MEMBER(struct pool_params, name), offsetof(struct pool_params, n_##name), NULL
#define TENANT(name) MEMBER(struct tenant_params, limits.name), 0, NULL
#define RIGHT_LIST(list, n)                        \
	MEMBER(struct tenant_params, rights.list), \
		offsetof(struct tenant_params, rights.n), NULL
#define RIGHT_CHOICE(name, ...) \
	MEMBER(struct tenant_params, rights.name), 0, CHOICES(__VA_ARGS__)
#define DEVICE(name) MEMBER(struct fabric_device_params, name), 0, NULL
#define RELOAD true
#define RESTART false

#define DAY_MS UINT64_C(86400000)
#define MIB (UINT64_C(1) << 20)
#define PIB (UINT64_C(1) << 50)

/* clang-format off */
/* The options of [rdma], each of which a [device NAME] may have of its own. */
#define RDMA_OPTIONS(ROW) \
	ROW(mtu, "auto") \
	ROW(traffic_class, "auto") \
	ROW(service_level, "auto") \
	ROW(ack_timeout, "auto") \
	ROW(retry_count, "6") \
	ROW(rnr_retry_count, "6") \
	ROW(rd_atomic, "auto") \
	ROW(relaxed_ordering, "no") \
	ROW(connect, "auto") \
	ROW(gid_index, "auto") \
	ROW(pkey, "auto")
#define RDMA_ROW(name, standard) \
	{ "rdma", #name, CONFIG_TYPE_RDMA_OPTION, 0, 0, standard, \
	  FIELD(rdma_options.name), RESTART },
#define DEVICE_ROW(name, standard) \
	{ CONFIG_SECTION_DEVICE, #name, CONFIG_TYPE_RDMA_OPTION, 0, 0, CONFIG_INHERIT_WORD, \
	  DEVICE(rdma_options.name), RESTART },

/* One row per key; the order is that of the example file and the man page. */
const struct config_key config_keys[] = {
	{ "server", "listen", CONFIG_TYPE_ADDRESSES, 1, CONFIG_LIST_MAX, "127.0.0.1, ::1",
	  LIST(listen), RESTART },
	{ "server", "port", CONFIG_TYPE_COUNT, 1, UINT16_MAX, "7460",
	  FIELD(port), RESTART },
	{ "server", "auth", CONFIG_TYPE_CHOICE, 0, 0, "none",
	  CHOICE(auth, { "none", CONFIG_AUTH_NONE }, { "psk", CONFIG_AUTH_PSK },
		 { "certificate", CONFIG_AUTH_CERTIFICATE }, { "both", CONFIG_AUTH_BOTH }),
	  RESTART },
	{ "server", "psk", CONFIG_TYPE_PATH, 0, 0, "none",
	  FIELD(psk), RELOAD },
	{ "server", "certificate", CONFIG_TYPE_PATH, 0, 0, "none",
	  FIELD(certificate), RELOAD },
	{ "server", "key", CONFIG_TYPE_PATH, 0, 0, "none",
	  FIELD(key), RELOAD },
	{ "server", "ca", CONFIG_TYPE_PATH, 0, 0, "none",
	  FIELD(ca), RELOAD },
	{ "server", "insecure", CONFIG_TYPE_BOOL, 0, 0, "no",
	  FIELD(insecure), RESTART },
	{ "server", "state", CONFIG_TYPE_PATH, 0, 0, "auto",
	  FIELD(state), RESTART },
	{ "session", "heartbeat", CONFIG_TYPE_MS, 10, 60000, "500ms",
	  FIELD(heartbeat_ms), RESTART },
	{ "session", "fence", CONFIG_TYPE_MS, 20, 10 * 60000, "2s",
	  FIELD(fence_ms), RESTART },
	{ "session", "grace", CONFIG_TYPE_MS, 0, 30 * DAY_MS, "60s",
	  FIELD(grace_ms), RESTART },
	{ "limits", "sessions", CONFIG_TYPE_COUNT, 1, 1000000, "1024",
	  FIELD(sessions_max), RELOAD },
	{ "limits", "connections", CONFIG_TYPE_COUNT, 1, 65536, "64",
	  FIELD(connections_max), RELOAD },
	{ "limits", "channels", CONFIG_TYPE_COUNT, 1, 4096, "128",
	  FIELD(channels_max), RELOAD },
	{ CONFIG_SECTION_TENANT, "bytes", CONFIG_TYPE_BYTES, 0, PIB, "0",
	  TENANT(bytes_max), RELOAD },
	{ CONFIG_SECTION_TENANT, "leases", CONFIG_TYPE_COUNT, 1, 16777216, "65536",
	  TENANT(leases_max), RELOAD },
	{ CONFIG_SECTION_TENANT, "sessions", CONFIG_TYPE_COUNT, 0, 1000000, "0",
	  TENANT(sessions_max), RELOAD },
	{ CONFIG_SECTION_TENANT, "channels", CONFIG_TYPE_COUNT, 0, 16777216, "0",
	  TENANT(channels_max), RELOAD },
	{ CONFIG_SECTION_TENANT, "keys", CONFIG_TYPE_COUNT, 1, 16777216, "262144",
	  TENANT(keys_max), RELOAD },
	{ CONFIG_SECTION_TENANT, "session_keys", CONFIG_TYPE_COUNT, 1, 16777216, "65536",
	  TENANT(session_keys_max), RELOAD },
	{ CONFIG_SECTION_TENANT, "lease_min", CONFIG_TYPE_BYTES, 0, PIB, "0",
	  TENANT(lease_min), RELOAD },
	{ CONFIG_SECTION_TENANT, "lease_max", CONFIG_TYPE_BYTES, 0, PIB, "0",
	  TENANT(lease_max), RELOAD },
	{ CONFIG_SECTION_TENANT, "ttl_max", CONFIG_TYPE_MS, 0, 36500 * DAY_MS, "0",
	  TENANT(ttl_max_ms), RELOAD },
	{ CONFIG_SECTION_TENANT, "reserve", CONFIG_TYPE_PERCENT, 1, 100, "auto",
	  TENANT(reserve), RELOAD },
	{ CONFIG_SECTION_TENANT, "certificates", CONFIG_TYPE_CERTIFICATES, 0, 0, "none",
	  MEMBER(struct tenant_params, certificates), 0, NULL, RELOAD },
	{ CONFIG_SECTION_TENANT, "pools", CONFIG_TYPE_NAMES, 0, POOL_NAMES_MAX, "",
	  RIGHT_LIST(pools.at, pools.n), RELOAD },
	{ CONFIG_SECTION_TENANT, "access", CONFIG_TYPE_CHOICE, 0, 0, "read-write",
	  RIGHT_CHOICE(access, { "read-write", RIGHTS_READ_WRITE },
		       { "read-only", RIGHTS_READ_ONLY }),
	  RELOAD },
	{ CONFIG_SECTION_TENANT, "names", CONFIG_TYPE_PATTERNS, 0, RIGHTS_NAMES_MAX, "",
	  RIGHT_LIST(names, n_names), RELOAD },
	{ "scrubber", "rate", CONFIG_TYPE_BYTES, 0, PIB, "0",
	  FIELD(scrub_rate), RELOAD },
	{ "rdma", "enabled", CONFIG_TYPE_CHOICE, 0, 0, "auto",
	  CHOICE(verbs, { "auto", CONFIG_AUTO }, { "yes", CONFIG_YES }, { "no", CONFIG_NO }),
	  RESTART },
	{ "rdma", "devices", CONFIG_TYPE_NAMES, 0, CONFIG_LIST_MAX, "",
	  LIST(devices), RESTART },
	{ "rdma", "port", CONFIG_TYPE_COUNT, 1, UINT16_MAX, "7461",
	  FIELD(verbs_port), RESTART },
	{ "rdma", "key_quarantine", CONFIG_TYPE_MS, 0, 3600000, "0",
	  FIELD(key_quarantine_ms), RESTART },
	RDMA_OPTIONS(RDMA_ROW)
	{ CONFIG_SECTION_DEVICE, "device_port", CONFIG_TYPE_AUTO, 1, UINT8_MAX, "auto",
	  DEVICE(port), RESTART },
	{ CONFIG_SECTION_DEVICE, "address", CONFIG_TYPE_ADDRESS, 0, 0, "auto",
	  DEVICE(address), RESTART },
	RDMA_OPTIONS(DEVICE_ROW)
	{ "tcp", "enabled", CONFIG_TYPE_BOOL, 0, 0, "yes",
	  FIELD(tcp), RESTART },
	{ "tcp", "port", CONFIG_TYPE_COUNT, 1, UINT16_MAX, "7462",
	  FIELD(tcp_port), RESTART },
	{ "tcp", "advertise", CONFIG_TYPE_ADDRESS_PORTS, 0, CONFIG_LIST_MAX, "",
	  LIST(tcp_advertise), RESTART },
	{ "tcp", "threads", CONFIG_TYPE_AUTO, 1, 64, "auto",
	  FIELD(tcp_threads), RESTART },
	{ "tcp", "tls", CONFIG_TYPE_BOOL, 0, 0, "no",
	  FIELD(tcp_tls), RESTART },
	{ "tcp", "check_address", CONFIG_TYPE_CHOICE, 0, 0, "auto",
	  CHOICE(tcp_check_address, { "auto", CONFIG_AUTO }, { "yes", CONFIG_YES },
		 { "no", CONFIG_NO }),
	  RELOAD },
	{ "admin", "socket", CONFIG_TYPE_PATH, 0, 0,
	  RUNSTATEDIR "/rmemd/admin.sock",
	  FIELD(admin_socket), RESTART },
	{ "admin", "view_group", CONFIG_TYPE_GROUP, 0, 0, "auto",
	  FIELD(admin_view_group), RESTART },
	{ "admin", "act_group", CONFIG_TYPE_GROUP, 0, 0, "none",
	  FIELD(admin_act_group), RESTART },
	{ "metrics", "listen", CONFIG_TYPE_ADDRESS_PORT, 0, 0, "none",
	  FIELD(metrics_listen), RESTART },
	{ "metrics", "page", CONFIG_TYPE_BOOL, 0, 0, "yes",
	  FIELD(metrics_page), RELOAD },
	{ "metrics", "names", CONFIG_TYPE_NAMES, 0, CONFIG_LIST_MAX, "",
	  LIST(metrics_names), RELOAD },
	{ "log", "target", CONFIG_TYPE_CHOICE, 0, 0, "auto",
	  CHOICE(log_target, { "auto", CONFIG_LOG_AUTO }, { "stderr", CONFIG_LOG_STDERR },
		 { "plain", CONFIG_LOG_PLAIN }, { "journal", CONFIG_LOG_JOURNAL }),
	  RESTART },
	{ "log", "level", CONFIG_TYPE_CHOICE, 0, 0, "info",
	  CHOICE(log_level, { "error", LOG_ERR }, { "warning", LOG_WARNING },
		 { "notice", LOG_NOTICE }, { "info", LOG_INFO }, { "debug", LOG_DEBUG }),
	  RELOAD },
	{ CONFIG_SECTION_POOL, "size", CONFIG_TYPE_SIZE, MIB, PIB, "1G",
	  POOL(bytes), RELOAD },
	{ CONFIG_SECTION_POOL, "share", CONFIG_TYPE_PERCENT, 1, 100, "auto",
	  POOL(share), RESTART },
	{ CONFIG_SECTION_POOL, "node", CONFIG_TYPE_NODE, 0, 1023, "any",
	  POOL(node), RESTART },
	{ CONFIG_SECTION_POOL, "page_size", CONFIG_TYPE_PAGES, 0, 0, "auto",
	  POOL(pages), RESTART },
	{ CONFIG_SECTION_POOL, "shrink", CONFIG_TYPE_CHOICE, 0, 0, "refuse",
	  POOL_CHOICE(shrink, { "refuse", POOL_SHRINK_REFUSE }, { "revoke", POOL_SHRINK_REVOKE }),
	  RELOAD },
	{ CONFIG_SECTION_POOL, "shrink_wait", CONFIG_TYPE_MS, 0, 30 * DAY_MS, "60s",
	  POOL(shrink_wait_ms), RELOAD },
	{ CONFIG_SECTION_POOL, "devices", CONFIG_TYPE_NAMES, 0, CONFIG_LIST_MAX, "",
	  POOL_LIST(devices), RESTART },
};
/* clang-format on */

const size_t config_n_keys = sizeof(config_keys) / sizeof(config_keys[0]);

#define NAMED(title, array, count)                                     \
	{ .section = (title),                                          \
	  .offset = offsetof(struct config, array),                    \
	  .count_offset = offsetof(struct config, count),              \
	  .bytes = sizeof(((struct config *)0)->array[0]),             \
	  .name_max = sizeof(((struct config *)0)->array[0].name) - 1, \
	  .max = sizeof(((struct config *)0)->array) /                 \
		 sizeof(((struct config *)0)->array[0]) }

const struct config_named config_named[CONFIG_KINDS] = {
	[CONFIG_POOL] = NAMED(CONFIG_SECTION_POOL, pools, n_pools),
	[CONFIG_TENANT] = NAMED(CONFIG_SECTION_TENANT, tenants, n_tenants),
	[CONFIG_DEVICE] = NAMED(CONFIG_SECTION_DEVICE, device_params, n_device_params),
};

_Static_assert(offsetof(struct pool_params, name) == 0 &&
		       offsetof(struct tenant_params, name) == 0 &&
		       offsetof(struct fabric_device_params, name) == 0,
	       "named objects begin with their name");
_Static_assert(sizeof(config_keys) / sizeof(config_keys[0]) <= CONFIG_KEYS_MAX,
	       "raise CONFIG_KEYS_MAX");
_Static_assert(sizeof(enum config_switch) == sizeof(int), "choices are stored as int");
