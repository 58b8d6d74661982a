/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration.  keys.c has one table of all keys with type, range, unit and default, which
 * rmemd.conf(5) and etc/rmemd.conf follow.
 * Threads: [loop]. */
#ifndef RMEMD_CONFIG_H
#define RMEMD_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/server.h"
#include "rmemd/lease/tenant_params.h"
#include "rmemd/pool/pool_params.h"

#define CONFIG_POOLS_MAX 64
#define CONFIG_TENANTS_MAX 64
#define CONFIG_LIST_MAX 16
#define CONFIG_VALUE_MAX 255

enum config_switch { CONFIG_NO, CONFIG_YES, CONFIG_AUTO };
enum config_auth {
	CONFIG_AUTH_NONE,
	CONFIG_AUTH_PSK,
	CONFIG_AUTH_CERTIFICATE,
	CONFIG_AUTH_BOTH, /* one of the two */
};
enum config_log_target {
	CONFIG_LOG_AUTO,
	CONFIG_LOG_STDERR,
	CONFIG_LOG_PLAIN, /* stderr, without time and level */
	CONFIG_LOG_JOURNAL,
};

struct config {
	/* [server] */
	struct fabric_address listen[CONFIG_LIST_MAX]; /* port 0; 127.0.0.1, ::1 */
	unsigned n_listen;
	uint16_t port;         /* control, 7460 */
	enum config_auth auth; /* none */
	/* paths; "": none */
	char psk[200];         /* of pre-shared keys */
	char certificate[200]; /* of the server */
	char key[200];         /* of the certificate; "": in its file */
	char ca[200];          /* of the clients' certificates */
	bool insecure;         /* auth = none on other addresses than loopback */
	char state[200];       /* where memory outlasts the process; "": with systemd */
	/* [session] */
	uint64_t heartbeat_ms; /* 500 */
	uint64_t fence_ms;     /* 2000, at least twice the heartbeat */
	uint64_t grace_ms;     /* 60000 */
	/* [limits] */
	uint32_t sessions_max;    /* 1024 */
	uint32_t connections_max; /* not yet authenticated, 64 */
	uint32_t channels_max;    /* per session, 128 */
	/* [tenant NAME] */
	struct tenant_params tenants[CONFIG_TENANTS_MAX];
	unsigned n_tenants; /* none configured: one, "default" */
	/* [scrubber] */
	uint64_t scrub_rate; /* bytes a second and node; 0: as fast as it goes */
	/* [rdma] */
	enum config_switch verbs; /* auto: where there is a device */
	char devices[CONFIG_LIST_MAX][64];
	unsigned n_devices;                      /* 0: all */
	uint16_t verbs_port;                     /* 7461 */
	uint64_t key_quarantine_ms;              /* 0 */
	struct fabric_rdma_options rdma_options; /* of devices without their own */
	/* [device NAME] */
	struct fabric_device_params device_params[CONFIG_LIST_MAX];
	unsigned n_device_params;
	/* [tcp] */
	bool tcp;          /* yes */
	uint16_t tcp_port; /* 7462 */
	/* with their ports; family 0: that of the control connection.  One for each endpoint */
	struct fabric_address tcp_advertise[CONFIG_LIST_MAX];
	unsigned n_tcp_advertise; /* 0: clients are told where it listens */
	int tcp_threads;          /* -1: config_tcp_threads() */
	bool tcp_tls;             /* no */
	/* auto: config_tcp_checks_address() */
	enum config_switch tcp_check_address;
	/* [admin] */
	char admin_socket[108];    /* RUNSTATEDIR/rmemd/admin.sock */
	char admin_view_group[33]; /* "": that of the daemon */
	char admin_act_group[33];  /* "": none */
	/* [metrics] */
	struct fabric_address metrics_listen; /* with its port; family 0: none */
	bool metrics_page;                    /* more than the metrics is there */
	char metrics_names[CONFIG_LIST_MAX][64];
	unsigned n_metrics_names;
	/* [log] */
	enum config_log_target log_target;
	int log_level; /* LOG_INFO */
	/* [pool NAME] */
	struct pool_params pools[CONFIG_POOLS_MAX];
	unsigned n_pools; /* none configured: one, "default", 1G, auto */
};

/* Parse a value of [log] target into an enum config_log_target.  -EINVAL with text */
int config_log_target_parse(const char *text, void *value);
/* The same of [log] level, LOG_*. */
int config_log_level_parse(const char *text, int *ret_level);
/* Its name in the file. */
const char *config_log_level_name(int level);
/* Fill with the defaults. */
void config_default(struct config *config);

/* Read a file over the defaults.
 *   -EINVAL  err_text() is "FILE:LINE: what is wrong, and the nearest known name"
 *   -ENOENT, -EACCES, ...  the file cannot be read */
int config_load(const char *path, struct config *ret_config);

/* Data threads of the tcp fabric, for each address that it listens on. */
unsigned config_tcp_threads(const struct config *config);

/* Whether a channel over TCP is refused that comes from none of its client's addresses.  Under TLS,
 * who has only seen the token of a channel does not have its key. */
static inline bool config_tcp_checks_address(const struct config *config)
{
	if (config->tcp_check_address == CONFIG_AUTO)
		return !config->tcp_tls;
	return config->tcp_check_address == CONFIG_YES;
}

/* Copy to `running` the changes of `fresh` that take effect while the daemon runs, and all of its
 * pools: how far they can follow is theirs to say. */
void config_reload(struct config *running, const struct config *fresh);

#endif
