/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/config/keys.h"

#include <syslog.h>

#include "rmemd/config/config.h"

#define MEMBER(type, name) offsetof(type, name), sizeof(((type *)0)->name)
#define FIELD(name) MEMBER(struct config, name), 0, NULL
#define LIST(name) MEMBER(struct config, name), offsetof(struct config, n_##name), NULL
#define CHOICES(...)                   \
	(const struct config_choice[]) \
	{                              \
		__VA_ARGS__,           \
		{                      \
			NULL, 0        \
		}                      \
	}
#define CHOICE(name, ...) MEMBER(struct config, name), 0, CHOICES(__VA_ARGS__)
#define POOL(name) MEMBER(struct pool_params, name), 0, NULL
#define POOL_CHOICE(name, ...) MEMBER(struct pool_params, name), 0, CHOICES(__VA_ARGS__)
#define POOL_LIST(name) \
	MEMBER(struct pool_params, name), offsetof(struct pool_params, n_##name), NULL
#define TENANT(name) MEMBER(struct tenant_params, limits.name), 0, NULL
#define DEVICE(name) MEMBER(struct fabric_device_params, name), 0, NULL
#define RELOAD true
#define RESTART false

#define DAY_MS UINT64_C(86400000)
#define MIB (UINT64_C(1) << 20)
#define PIB (UINT64_C(1) << 50)

/* clang-format off */
/* The options of [rdma], each of which a [device NAME] may have of its own. */
#define RDMA_OPTIONS(ROW) \
	ROW(mtu, "auto", "MTU of a channel at most, in bytes") \
	ROW(traffic_class, "auto", "traffic class of packets, DSCP times 4") \
	ROW(service_level, "auto", "service level of packets") \
	ROW(ack_timeout, "auto", "local ACK timeout: 4.096us times two to the power of it") \
	ROW(retry_count, "6", "how often a request without an answer is sent again") \
	ROW(rnr_retry_count, "6", "how often a send is repeated that the peer is not ready for") \
	ROW(rd_atomic, "auto", "reads and atomics of a channel under way at most") \
	ROW(relaxed_ordering, "no", "whether the device may reorder its writes to memory") \
	ROW(connect, "auto", "how channels are set up: cm (auto), or direct") \
	ROW(gid_index, "auto", "GID to use of the port's table; connect = direct") \
	ROW(pkey, "auto", "P_Key to use of the port's table; connect = direct")
#define RDMA_ROW(name, standard, text) \
	{ "rdma", #name, CONFIG_TYPE_RDMA_OPTION, 0, 0, standard, \
	  FIELD(rdma_options.name), RESTART, text },
#define DEVICE_ROW(name, standard, text) \
	{ CONFIG_SECTION_DEVICE, #name, CONFIG_TYPE_RDMA_OPTION, 0, 0, CONFIG_INHERIT_WORD, \
	  DEVICE(rdma_options.name), RESTART, "as in [rdma]" },

/* One row per key; the order is that of the example file and the man page. */
const struct config_key config_keys[] = {
	{ "server", "listen", CONFIG_TYPE_ADDRESSES, 1, CONFIG_LIST_MAX, "127.0.0.1, ::1",
	  LIST(listen), RESTART, "addresses to serve on" },
	{ "server", "port", CONFIG_TYPE_COUNT, 1, UINT16_MAX, "7460",
	  FIELD(port), RESTART, "TCP port of the control connections" },
	{ "server", "auth", CONFIG_TYPE_CHOICE, 0, 0, "none",
	  CHOICE(auth, { "none", CONFIG_AUTH_NONE }), RESTART, "how clients are authenticated" },
	{ "server", "insecure", CONFIG_TYPE_BOOL, 0, 0, "no",
	  FIELD(insecure), RESTART, "allow auth = none on other addresses than loopback" },
	{ "server", "state", CONFIG_TYPE_PATH, 0, 0, "auto",
	  FIELD(state), RESTART, "directory that keeps the memory; auto: the service manager does" },
	{ "session", "heartbeat", CONFIG_TYPE_MS, 10, 60000, "500ms",
	  FIELD(heartbeat_ms), RESTART, "how often a client gives a sign of life" },
	{ "session", "fence", CONFIG_TYPE_MS, 20, 10 * 60000, "2s",
	  FIELD(fence_ms), RESTART, "keys have stopped working after this long without one" },
	{ "session", "grace", CONFIG_TYPE_MS, 0, 30 * DAY_MS, "60s",
	  FIELD(grace_ms), RESTART, "ephemeral leases outlast their fenced session for this long" },
	{ "limits", "sessions", CONFIG_TYPE_COUNT, 1, 1000000, "1024",
	  FIELD(sessions_max), RELOAD, "sessions at a time" },
	{ "limits", "connections", CONFIG_TYPE_COUNT, 1, 65536, "64",
	  FIELD(connections_max), RELOAD, "connections not yet authenticated" },
	{ "limits", "channels", CONFIG_TYPE_COUNT, 1, 4096, "128",
	  FIELD(channels_max), RELOAD, "data channels per session" },
	{ CONFIG_SECTION_TENANT, "bytes", CONFIG_TYPE_BYTES, 0, PIB, "0",
	  TENANT(bytes_max), RELOAD, "memory of the pools that it has at a time; 0: no limit" },
	{ CONFIG_SECTION_TENANT, "leases", CONFIG_TYPE_COUNT, 1, 16777216, "65536",
	  TENANT(leases_max), RELOAD, "leases at a time" },
	{ CONFIG_SECTION_TENANT, "sessions", CONFIG_TYPE_COUNT, 0, 1000000, "0",
	  TENANT(sessions_max), RELOAD, "sessions at a time; 0: no limit" },
	{ CONFIG_SECTION_TENANT, "channels", CONFIG_TYPE_COUNT, 0, 16777216, "0",
	  TENANT(channels_max), RELOAD, "data channels of all its sessions; 0: no limit" },
	{ CONFIG_SECTION_TENANT, "keys", CONFIG_TYPE_COUNT, 1, 16777216, "262144",
	  TENANT(keys_max), RELOAD, "keys of all its sessions" },
	{ CONFIG_SECTION_TENANT, "session_keys", CONFIG_TYPE_COUNT, 1, 16777216, "65536",
	  TENANT(session_keys_max), RELOAD, "keys of one session" },
	{ CONFIG_SECTION_TENANT, "lease_min", CONFIG_TYPE_BYTES, 0, PIB, "0",
	  TENANT(lease_min), RELOAD, "length of one lease that has memory at least" },
	{ CONFIG_SECTION_TENANT, "lease_max", CONFIG_TYPE_BYTES, 0, PIB, "0",
	  TENANT(lease_max), RELOAD, "length of one lease at most; 0: no limit" },
	{ CONFIG_SECTION_TENANT, "ttl_max", CONFIG_TYPE_MS, 0, 36500 * DAY_MS, "0",
	  TENANT(ttl_max_ms), RELOAD, "time to live of a named lease at most; 0: no limit" },
	{ CONFIG_SECTION_TENANT, "reserve", CONFIG_TYPE_PERCENT, 1, 100, "auto",
	  TENANT(reserve), RELOAD, "part of sessions and channels that is kept for it" },
	{ "scrubber", "rate", CONFIG_TYPE_BYTES, 0, PIB, "0",
	  FIELD(scrub_rate), RELOAD, "bytes zeroed a second on a node at most; 0: no limit" },
	{ "rdma", "enabled", CONFIG_TYPE_CHOICE, 0, 0, "auto",
	  CHOICE(verbs, { "auto", CONFIG_AUTO }, { "yes", CONFIG_YES }, { "no", CONFIG_NO }),
	  RESTART, "serve RDMA; auto: where there is a device" },
	{ "rdma", "devices", CONFIG_TYPE_NAMES, 0, CONFIG_LIST_MAX, "",
	  LIST(devices), RESTART, "RDMA devices to use; none named: all that are active" },
	{ "rdma", "port", CONFIG_TYPE_COUNT, 1, UINT16_MAX, "7461",
	  FIELD(verbs_port), RESTART, "rdma_cm port of the data channels" },
	RDMA_OPTIONS(RDMA_ROW)
	{ CONFIG_SECTION_DEVICE, "device_port", CONFIG_TYPE_AUTO, 1, UINT8_MAX, "auto",
	  DEVICE(port), RESTART, "its port to serve on" },
	{ CONFIG_SECTION_DEVICE, "address", CONFIG_TYPE_ADDRESS, 0, 0, "auto",
	  DEVICE(address), RESTART, "the one of its addresses to serve at" },
	RDMA_OPTIONS(DEVICE_ROW)
	{ "tcp", "enabled", CONFIG_TYPE_BOOL, 0, 0, "yes",
	  FIELD(tcp), RESTART, "serve data over TCP" },
	{ "tcp", "port", CONFIG_TYPE_COUNT, 1, UINT16_MAX, "7462",
	  FIELD(tcp_port), RESTART, "TCP port of the data channels" },
	{ "tcp", "threads", CONFIG_TYPE_COUNT, 1, 64, "2",
	  FIELD(tcp_threads), RESTART, "threads that move data" },
	{ "admin", "socket", CONFIG_TYPE_PATH, 0, 0,
	  RUNSTATEDIR "/rmemd/admin.sock",
	  FIELD(admin_socket), RESTART, "UNIX socket that rmemctl talks to" },
	{ "log", "target", CONFIG_TYPE_CHOICE, 0, 0, "auto",
	  CHOICE(log_target, { "auto", CONFIG_LOG_AUTO }, { "stderr", CONFIG_LOG_STDERR },
		 { "journal", CONFIG_LOG_JOURNAL }),
	  RESTART, "auto: the journal under systemd, else stderr" },
	{ "log", "level", CONFIG_TYPE_CHOICE, 0, 0, "info",
	  CHOICE(log_level, { "error", LOG_ERR }, { "warning", LOG_WARNING },
		 { "notice", LOG_NOTICE }, { "info", LOG_INFO }, { "debug", LOG_DEBUG }),
	  RELOAD, "the least important lines to write" },
	{ CONFIG_SECTION_POOL, "size", CONFIG_TYPE_SIZE, MIB, PIB, "1G",
	  POOL(bytes), RELOAD, "memory to lend, rounded up to whole pages, or auto" },
	{ CONFIG_SECTION_POOL, "share", CONFIG_TYPE_PERCENT, 1, 100, "auto",
	  POOL(share), RESTART, "of size = auto: how much of what is free, in per cent" },
	{ CONFIG_SECTION_POOL, "node", CONFIG_TYPE_NODE, 0, 1023, "any",
	  POOL(node), RESTART, "NUMA node to take it from" },
	{ CONFIG_SECTION_POOL, "page_size", CONFIG_TYPE_CHOICE, 0, 0, "auto",
	  POOL_CHOICE(pages, { "auto", POOL_PAGES_AUTO }, { "1G", POOL_PAGES_1G },
		      { "2M", POOL_PAGES_2M }, { "thp", POOL_PAGES_THP },
		      { "base", POOL_PAGES_BASE }),
	  RESTART, "auto: the largest pages that are available" },
	{ CONFIG_SECTION_POOL, "shrink", CONFIG_TYPE_CHOICE, 0, 0, "refuse",
	  POOL_CHOICE(shrink, { "refuse", POOL_SHRINK_REFUSE }, { "revoke", POOL_SHRINK_REVOKE }),
	  RELOAD, "what a reload with a lower size does to leases in the way" },
	{ CONFIG_SECTION_POOL, "shrink_wait", CONFIG_TYPE_MS, 0, 30 * DAY_MS, "60s",
	  POOL(shrink_wait_ms), RELOAD, "how long clients have to give memory back before that" },
	{ CONFIG_SECTION_POOL, "devices", CONFIG_TYPE_NAMES, 0, CONFIG_LIST_MAX, "",
	  POOL_LIST(devices), RESTART, "RDMA devices it is lent through; none named: all" },
};
/* clang-format on */

const size_t config_n_keys = sizeof(config_keys) / sizeof(config_keys[0]);

#define NAMED(title, array, count)                                            \
	{                                                                     \
		.section = (title), .offset = offsetof(struct config, array), \
		.count_offset = offsetof(struct config, count),               \
		.bytes = sizeof(((struct config *)0)->array[0]),              \
		.name_max = sizeof(((struct config *)0)->array[0].name) - 1,  \
		.max = sizeof(((struct config *)0)->array) /                  \
		       sizeof(((struct config *)0)->array[0])                 \
	}

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
