/* SPDX-License-Identifier: BSD-3-Clause */
/* Loading and reloading rmemd.conf: defaults, every type of value, errors.  The linker calls the
 * function here instead of the C library's (-Wl,--wrap). */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "base/err.h"
#include "base/nearest.h"
#include "rmemd/config/keys.h"
#include "rmemd/config/config.h"
#include "unit/unit.h"

static char path[64];
static struct config config;

static void setup(void)
{
	int fd;

	(void)snprintf(path, sizeof(path), "/tmp/rmem-config-XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(close(fd), 0);
}

static void teardown(void)
{
	ck_assert_int_eq(unlink(path), 0);
}

static int load_bytes(const char *text, size_t bytes)
{
	FILE *file = fopen(path, "w");

	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fwrite(text, 1, bytes, file), bytes);
	ck_assert_int_eq(fclose(file), 0);
	return config_load(path, &config);
}

static int load(const char *text)
{
	return load_bytes(text, strlen(text));
}

static void load_ok(const char *text)
{
	ck_assert_msg(load(text) == 0, "%s", err_text());
}

/* The text of the error contains this part. */
static void load_fails(const char *text, int err, const char *part)
{
	ck_assert_int_eq(load(text), err);
	ck_assert_msg(strstr(err_text(), part), "%s", err_text());
}

static void listens_on(unsigned i, const char *text)
{
	struct fabric_address address;

	ck_assert_int_eq(fabric_address_parse(text, &address), 0);
	ck_assert_mem_eq(&config.listen[i], &address, sizeof(address));
}

START_TEST(load__an_empty_file_is_the_defaults)
{
	const struct tenant_limits *limits = &config.tenants[0].limits;
	struct config standard;

	config_default(&standard);
	load_ok("");
	ck_assert_int_eq(memcmp(&config, &standard, sizeof(config)), 0);
	ck_assert_uint_eq(config.n_listen, 2);
	listens_on(0, "127.0.0.1");
	listens_on(1, "::1");
	ck_assert_uint_eq(config.port, 7460);
	ck_assert(!config.insecure);
	ck_assert_uint_eq(config.heartbeat_ms, 500);
	ck_assert_uint_eq(config.fence_ms, 2000);
	ck_assert_uint_eq(config.grace_ms, 60000);
	ck_assert_uint_eq(config.sessions_max, 1024);
	ck_assert_int_eq(config.verbs, CONFIG_AUTO);
	ck_assert_uint_eq(config.n_devices, 0);
	ck_assert_uint_eq(config.verbs_port, 7461);
	ck_assert_uint_eq(config.key_quarantine_ms, 0);
	ck_assert(config.tcp);
	ck_assert_uint_eq(config.tcp_port, 7462);
	ck_assert_int_eq(config.tcp_threads, -1);
	ck_assert_str_eq(config.admin_socket, RUNSTATEDIR "/rmemd/admin.sock");
	ck_assert_str_eq(config.admin_view_group, "");
	ck_assert_str_eq(config.admin_act_group, "");
	ck_assert_int_eq(config.log_target, CONFIG_LOG_AUTO);
	ck_assert_int_eq(config.log_level, LOG_INFO);
	ck_assert_uint_eq(config.n_pools, 1);
	ck_assert_uint_eq(config.n_tenants, 1);
	ck_assert_str_eq(config.tenants[0].name, "default");
	ck_assert_uint_eq(limits->bytes_max, 0);
	ck_assert_uint_eq(limits->leases_max, 65536);
	ck_assert_uint_eq(limits->sessions_max, 0);
	ck_assert_uint_eq(limits->keys_max, 262144);
	ck_assert_str_eq(config.pools[0].name, "default");
	ck_assert_uint_eq(config.pools[0].bytes, 1 << 30);
	ck_assert_int_eq(config.pools[0].node, POOL_NODE_ANY);
	ck_assert_int_eq(config.pools[0].pages, POOL_PAGES_AUTO);
}
END_TEST

static int cores; /* of this process; -1: too many for a cpu_set_t */

int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *cpus);
int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *cpus)
{
	ck_assert_int_eq(pid, 0);
	ck_assert_uint_eq(bytes, sizeof(*cpus));
	if (cores < 0) {
		errno = EINVAL;
		return -1;
	}
	CPU_ZERO(cpus);
	for (unsigned i = 0; i < (unsigned)cores; i++)
		CPU_SET(2 * i + 1, cpus);
	return 0;
}

START_TEST(tcp_threads__are_as_many_as_cores_up_to_eight)
{
	config_default(&config);
	cores = 1;
	ck_assert_uint_eq(config_tcp_threads(&config), 1);
	cores = 8;
	ck_assert_uint_eq(config_tcp_threads(&config), 8);
	cores = 9;
	ck_assert_uint_eq(config_tcp_threads(&config), 8);
	cores = -1;
	ck_assert_uint_eq(config_tcp_threads(&config), 8);
	config.tcp_threads = 64;
	ck_assert_uint_eq(config_tcp_threads(&config), 64);
}
END_TEST

START_TEST(load__reads_every_type)
{
	const struct tenant_limits *limits = &config.tenants[0].limits;

	load_ok("\xef\xbb\xbf[server]\n"
		"listen = 10.0.0.1,\n"
		"         fd00::1 ; both\n"
		"insecure = yes\n"
		"port=7000\n"
		"# a comment\n"
		"[metrics]\n"
		"listen = [fd00::2]:9746\n"
		"[session]\n"
		"heartbeat = 1s\n"
		"fence = 1min\n"
		"[limits]\n"
		"channels = 4\n"
		"[rdma]\n"
		"enabled = no\n"
		"devices = mlx5_0 , mlx5_1\n"
		"[tcp]\n"
		"threads = 8\n"
		"[admin]\n"
		"socket = /tmp/x\n"
		"[log]\n"
		"level = debug\n"
		"[pool near]\n"
		"node = 1\n"
		"size = 2M\n"
		"page_size = 2M\n"
		"[pool far]\n"
		"size = 1T\n"
		"[pool rest]\n"
		"size = auto\n"
		"share = 80%\n"
		"[limits]\n"
		"sessions = 7\n"
		"[tenant a]\n"
		"bytes = 8G\n"
		"leases = 1\n"
		"sessions = 2\n"
		"channels = 3\n"
		"keys = 4\n"
		"session_keys = 5\n"
		"lease_min = 6\n"
		"lease_max = 7G\n"
		"ttl_max = 8h\n"
		"reserve = 20%\n"
		"[tenant b]\n");
	ck_assert_uint_eq(config.n_listen, 2);
	listens_on(1, "fd00::1");
	ck_assert(config.insecure);
	ck_assert_uint_eq(config.port, 7000);
	ck_assert_uint_eq(config.metrics_listen.family, 6);
	ck_assert_uint_eq(config.metrics_listen.bytes[15], 2);
	ck_assert_uint_eq(config.metrics_listen.port, 9746);
	ck_assert_uint_eq(config.heartbeat_ms, 1000);
	ck_assert_uint_eq(config.fence_ms, 60000);
	ck_assert_uint_eq(config.channels_max, 4);
	ck_assert_int_eq(config.verbs, CONFIG_NO);
	ck_assert_uint_eq(config.n_devices, 2);
	ck_assert_str_eq(config.devices[0], "mlx5_0");
	ck_assert_int_eq(config.tcp_threads, 8);
	ck_assert_uint_eq(config_tcp_threads(&config), 8);
	ck_assert_str_eq(config.admin_socket, "/tmp/x");
	ck_assert_int_eq(config.log_level, LOG_DEBUG);
	ck_assert_uint_eq(config.sessions_max, 7);
	ck_assert_uint_eq(config.n_tenants, 2);
	ck_assert_str_eq(config.tenants[0].name, "a");
	ck_assert_uint_eq(limits->bytes_max, UINT64_C(8) << 30);
	ck_assert_uint_eq(limits->leases_max, 1);
	ck_assert_uint_eq(limits->sessions_max, 2);
	ck_assert_uint_eq(limits->channels_max, 3);
	ck_assert_uint_eq(limits->keys_max, 4);
	ck_assert_uint_eq(limits->session_keys_max, 5);
	ck_assert_uint_eq(limits->lease_min, 6);
	ck_assert_uint_eq(limits->lease_max, UINT64_C(7) << 30);
	ck_assert_uint_eq(limits->ttl_max_ms, 8 * 3600000);
	ck_assert_uint_eq(limits->reserve, 20);
	ck_assert_uint_eq(config.tenants[1].limits.reserve, 0);
	ck_assert_str_eq(config.tenants[1].name, "b");
	ck_assert_uint_eq(config.tenants[1].limits.leases_max, 65536);
	ck_assert_uint_eq(config.n_pools, 3);
	ck_assert_str_eq(config.pools[0].name, "near");
	ck_assert_int_eq(config.pools[0].node, 1);
	ck_assert_uint_eq(config.pools[0].bytes, 2 << 20);
	ck_assert_int_eq(config.pools[0].pages, POOL_PAGES_2M);
	ck_assert_int_eq(config.pools[1].node, POOL_NODE_ANY);
	ck_assert_int_eq(config.pools[1].pages, POOL_PAGES_AUTO);
	ck_assert_uint_eq(config.pools[1].share, POOL_SHARE_AUTO);
	ck_assert_uint_eq(config.pools[2].bytes, POOL_BYTES_AUTO);
	ck_assert_uint_eq(config.pools[2].share, 80);
}
END_TEST

START_TEST(load__pools_have_devices)
{
	load_ok("[pool a]\nsize = 1M\n[pool b]\ndevices = mlx5_1, mlx5_0\n");
	ck_assert_uint_eq(config.pools[0].n_devices, 0);
	ck_assert_uint_eq(config.pools[1].n_devices, 2);
	ck_assert_str_eq(config.pools[1].devices[0], "mlx5_1");
	ck_assert_str_eq(config.pools[1].devices[1], "mlx5_0");
	load_fails("[rdma]\ndevices = a\n[pool p]\ndevices = a, b\n", -EINVAL,
		   "pool 'p': device 'b' is not in [rdma] devices");
	load_ok("[rdma]\ndevices = a, b\n[pool p]\ndevices = b\n");
}
END_TEST

START_TEST(load__devices_have_options)
{
	const struct fabric_device_params *device;
	const struct fabric_rdma_options *options;

	load_ok("[device mlx5_0]\n"
		"device_port = 2\n"
		"address = 10.0.0.1\n"
		"mtu = 1024\n"
		"retry_count = inherit\n"
		"relaxed_ordering = no\n"
		"[rdma]\n"
		"mtu = 2048\n"
		"traffic_class = 104\n"
		"service_level = 3\n"
		"ack_timeout = 14\n"
		"retry_count = 4\n"
		"rnr_retry_count = 0\n"
		"rd_atomic = 16\n"
		"relaxed_ordering = yes\n"
		"connect = direct\n"
		"gid_index = 3\n"
		"pkey = 0x7fff\n"
		"[device mlx5_1]\n"
		"connect = cm\n"
		"gid_index = auto\n"
		"pkey = auto\n"
		"address = fd00::1\n"
		"mtu = auto\n");
	ck_assert_int_eq(config.rdma_options.mtu, 2048);
	ck_assert_int_eq(config.rdma_options.relaxed_ordering, 1);
	ck_assert_uint_eq(config.n_device_params, 2);
	device = &config.device_params[0];
	options = &device->rdma_options;
	ck_assert_str_eq(device->name, "mlx5_0");
	ck_assert_int_eq(device->port, 2);
	ck_assert_uint_eq(device->address.family, 4);
	ck_assert_mem_eq(device->address.bytes, "\x0a\0\0\x01", 4);
	ck_assert_int_eq(options->mtu, 1024);
	ck_assert_int_eq(options->traffic_class, 104);
	ck_assert_int_eq(options->service_level, 3);
	ck_assert_int_eq(options->ack_timeout, 14);
	ck_assert_int_eq(options->retry_count, 4);
	ck_assert_int_eq(options->rnr_retry_count, 0);
	ck_assert_int_eq(options->rd_atomic, 16);
	ck_assert_int_eq(options->relaxed_ordering, 0);
	ck_assert_int_eq(options->connect, FABRIC_CONNECT_DIRECT);
	ck_assert_int_eq(options->gid_index, 3);
	ck_assert_int_eq(options->pkey, 0x7fff);
	device = &config.device_params[1];
	options = &device->rdma_options;
	ck_assert_int_eq(device->port, FABRIC_OPTION_AUTO);
	ck_assert_uint_eq(device->address.family, 6);
	ck_assert_int_eq(options->mtu, FABRIC_OPTION_AUTO);
	ck_assert_int_eq(options->connect, FABRIC_CONNECT_CM);
	ck_assert_int_eq(options->gid_index, FABRIC_OPTION_AUTO);
	ck_assert_int_eq(options->relaxed_ordering, 1);
}
END_TEST

START_TEST(load__checks_options_of_devices_only)
{
	load_ok("[rdma]\ndevices = a\ngid_index = 1\n[device a]\n"
		"connect = direct\n");
	ck_assert_int_eq(config.device_params[0].rdma_options.gid_index, 1);
}
END_TEST

START_TEST(load__default_options_are_those_of_the_fabric)
{
	const struct fabric_rdma_options standard = FABRIC_RDMA_OPTIONS_INIT;

	load_ok("[device rxe0]\n");
	ck_assert_mem_eq(&config.rdma_options, &standard, sizeof(standard));
	ck_assert_mem_eq(&config.device_params[0].rdma_options, &standard,
			 sizeof(standard));
	ck_assert_uint_eq(config.device_params[0].address.family, 0);
	/* a GID, as rmemctl devices shows it */
	load_ok("[device rxe0]\naddress = ::ffff:10.0.0.1\n");
	ck_assert_uint_eq(config.device_params[0].address.family, 4);
	ck_assert_mem_eq(config.device_params[0].address.bytes,
			 "\x0a\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0", 16);
}
END_TEST

/* Files with an error, and the text of the error behind "FILE:". */
static const struct {
	const char *file, *error;
} errors[] = {
	{ "[server]\nprot = 1\n",
	  "2: unknown key 'prot' in [server]; did you mean 'port'?" },
	{ "[server]\nheartbeat = 1s\n",
	  "2: unknown key 'heartbeat' in [server]; it belongs in [session]" },
	{ "[server]\nxyzzy = 1\n", "2: unknown key 'xyzzy' in [server]" },
	{ "\n\n[sever]\n", "3: unknown section [sever]; did you mean [server]?" },
	{ "[pol a]\n", "1: unknown section [pol a]" },
	{ "[pools]\n", "1: unknown section [pools]; did you mean [pool NAME]?" },
	{ "[something else]\n", "1: unknown section [something else]" },
	{ "[metrics]\nlisten = 192.0.2.1\n",
	  "2: listen: '192.0.2.1' is not ADDRESS:PORT, as 192.0.2.1:9746 or "
	  "[2001:db8::1]:9746" },
	{ "port = 1\n", "1: key 'port' stands before the first [section]" },
	{ "[server\nport = 1\n", "1: ']' is missing" },
	{ "[server] port = 1\n",
	  "1: text behind ']': a key, and a comment with #, need a line of their own" },
	{ "[pool a];b\n",
	  "1: text behind ']': a key, and a comment with #, need a line of their own" },
	{ "[log]\n[tcp] # none\n",
	  "2: text behind ']': a key, and a comment with #, need a line of their own" },
	{ "[server]\nport\n", "2: neither [section] nor key = value" },
	{ "[server]\nport = 1\nport = 2\n", "3: 'port' is already in line 2" },
	{ "[server]\nport = 1\n[log]\n[server]\nport = 2\n",
	  "5: 'port' is already in line 2" },
	{ "[server]\nport = 1\n port = 2\n", "3: the line begins with a blank, so it "
					     "continues 'port' of line 2: remove the "
					     "blank" },
	{ "[server]\n [tcp]\nport = 7463\n",
	  "2: a section's line begins with a blank: remove the blank" },
	{ "[server]\nport =\n", "2: port: no value" },
	{ "[server]\nport = 0\n", "2: port: 0 is not from 1 to 65535" },
	{ "[server]\nport = 65536\n", "2: port: 65536 is not from 1 to 65535" },
	{ "[server]\nport = http\n", "2: port: 'http' is not a number" },
	{ "[server]\nlisten = localhost\n",
	  "2: listen: 'localhost' is not an IPv4 or IPv6 address" },
	{ "[server]\nlisten = [::1]\n",
	  "2: listen: '[::1]' is not an IPv4 or IPv6 address; "
	  "write it without brackets" },
	{ "[server]\nlisten = ::1,,::2\n", "2: listen: an empty item in the list" },
	{ "[server]\nlisten = ::1, ::1\n", "2: listen: '::1' is in the list twice" },
	{ "[server]\nlisten = 0.0.0.0\n",
	  "2: listen: 0.0.0.0 is not loopback and auth = none accepts any client: "
	  "say auth = psk or certificate, or add "
	  "insecure = yes if every host that reaches it is trusted" },
	{ "[tcp]\ntls = yes\n",
	  "2: [tcp] tls = yes needs keys that only [server] auth = psk or certificate "
	  "gives" },
	{ "[server]\ninsecure = maybe\n",
	  "2: insecure: 'maybe' is neither yes nor no" },
	{ "[server]\ninsecure = true\n", "2: insecure: 'true' is neither yes nor no" },
	{ "[server]\ninsecure = yes # trusted\n",
	  "2: insecure: 'yes # trusted' is neither yes nor no; a comment needs a line "
	  "of "
	  "its own" },
	{ "[server]\nlisten = 127.0.0.1,\n\t::1\t# both\n",
	  "3: listen: '::1?# both' is not an IPv4 or IPv6 address; a comment needs a "
	  "line of its own" },
	{ "[server]\nauth = tls\n",
	  "2: auth: 'tls' is not one of none, psk, certificate, both" },
	{ "[server]\nauth = psk\n",
	  "2: auth asks for psk, the file with the keys of the "
	  "tenants: rmemctl keygen writes it" },
	{ "[server]\nauth = certificate\nca = /c\n",
	  "2: auth asks for certificate, that of this server, and for ca, which signs "
	  "those "
	  "of the clients" },
	{ "[server]\npsk = /k\n", "2: psk is for auth = psk or both" },
	{ "[server]\nauth = psk\npsk = /k\nca = /c\n",
	  "4: ca is for auth = certificate or both" },
	{ "[server]\n\ncertificate = /c\n",
	  "3: certificate is for auth = certificate or both" },
	{ "[server]\n\nkey = /c\n", "3: key is for auth = certificate or both" },
	{ "[tenant a]\ncertificates = example.org\n",
	  "2: certificates: 'example.org' does not begin with uri:, spiffe://, dns: or "
	  "subject:, or has no name" },
	{ "[log]\nlevel = warn\n",
	  "2: level: 'warn' is not one of error, warning, notice, "
	  "info, debug" },
	{ "[log]\nlevel = debgu\n", "2: level: 'debgu' is not one of error, warning, "
				    "notice, info, debug; did you mean "
				    "'debug'?" },
	{ "[session]\nheartbeat = 500\n",
	  "2: heartbeat: '500' is not a time: a whole number with ms, s, min, h or d, "
	  "such as 200ms" },
	{ "[session]\nheartbeat = 1h\n",
	  "2: heartbeat: 1h is not from 10ms to 60000ms" },
	{ "[session]\nheartbeat = 1500ms\n",
	  "2: fence (2000ms) must be at least twice the heartbeat (1500ms)" },
	{ "[session]\nheartbeat = 1500ms\nfence = 2900ms\n",
	  "3: fence (2900ms) must be at least twice the heartbeat (1500ms)" },
	{ "[tenant a]\n[tenant b]\nlease_max = 2G\nbytes = 1G\n",
	  "2: tenant 'b': lease_max is more than bytes" },
	{ "[tenant a]\nlease_min = 2G\nbytes = 1G\n",
	  "1: tenant 'a': lease_min is more than bytes" },
	{ "[tenant a]\nlease_min = 2G\nlease_max = 1G\n",
	  "1: tenant 'a': lease_min is more than lease_max" },
	{ "[tenant a]\nreserve = 60%\n[tenant b]\n[tenant c]\nreserve = 41%\n",
	  "4: tenant 'c': the reserves of tenants are more than 100% together" },
	{ "[tenant a]\npools = x\n[pool y]\n",
	  "1: tenant 'a': pools: there is no [pool x]" },
	{ "[admin]\nact_group = a b\n",
	  "2: act_group: 'a b' has other characters than letters, digits, '-', '_' "
	  "and '.'" },
	{ "[admin]\nview_group = a23456789012345678901234567890123\n",
	  "2: view_group: 'a23456789012345678901234567890123' is longer than 32 "
	  "characters" },
	{ "[tenant a]\naccess = none\n",
	  "2: access: 'none' is not one of read-write, read-only" },
	{ "[tenant a]\nnames = a*b\n",
	  "2: names: 'a*b' has a '*' that is not its end" },
	{ "[tenant a]\nnames = a b\n",
	  "2: names: 'a b' has a blank: end the item with '*' before it" },
	{ "[tenant a]\nnames = a\x01\n",
	  "2: names: 'a?' cannot be a part of a lease's name" },
	{ "[tenant a]\nnames = a*\n leases = 3\n",
	  "3: names: 'leases = 3' has a blank: end the item with '*' before it" },
	{ "[tenant]\n", "1: a tenant's section is [tenant NAME]" },
	{ "[tenants]\n", "1: unknown section [tenants]; did you mean [tenant NAME]?" },
	{ "[tenant a]\n[tenant b]\n[tenant a]\n",
	  "3: tenant 'a' is already in line 1" },
	{ "[tenant a/b]\n",
	  "1: tenant name 'a/b' has other characters than letters, digits, '-', "
	  "'_' and '.'" },
	{ "[tenant a23456789012345678901234567890123]\n",
	  "1: tenant name 'a23456789012345678901234567890123' is longer than 32 "
	  "characters" },
	{ "[tenant a]\nleases = 0\n", "2: leases: 0 is not from 1 to 16777216" },
	{ "[limits]\nleases = 1\n",
	  "2: unknown key 'leases' in [limits]; it belongs in [tenant]" },
	{ "[rdma]\nenabled = no\n[tcp]\nenabled = no\n",
	  "4: neither [rdma] nor [tcp] is enabled: nothing would carry data" },
	{ "[tcp]\nport = 7460\n", "2: [server] and [tcp] have the same port 7460" },
	{ "[server]\nport = 7461\n", "2: [server] and [rdma] have the same port 7461" },
	{ "[metrics]\nlisten = 127.0.0.1:7462\n",
	  "2: [tcp] and [metrics] have the same port 7462" },
	{ "[server]\nport = 9000\n[metrics]\nlisten = [::]:9000\n",
	  "4: [server] and [metrics] have the same port 9000" },
	{ "[server]\nlisten = 0.0.0.0\ninsecure = yes\n[metrics]\nlisten = "
	  "192.0.2.1:7461\n",
	  "5: [rdma] and [metrics] have the same port 7461" },
	{ "[tcp]\nadvertise = 192.0.2.1:7462\n",
	  "2: [tcp] advertise has 1 address: write 2, for 127.0.0.1, ::1 of [server] "
	  "listen, in that order" },
	{ "[server]\nlisten = ::\ninsecure = yes\n[tcp]\nadvertise = *:1, "
	  "*:2\n",
	  "5: [tcp] advertise has 2 addresses: write 1, for :: of [server] "
	  "listen" },
	{ "[tcp]\nadvertise = [2001:db8::1]:1, 192.0.2.1:2\n",
	  "2: [tcp] advertise: [2001:db8::1]:1 is in the place of 127.0.0.1 of "
	  "[server] listen: write an address of IPv4 there, or *:1 for the address "
	  "that clients have reached" },
	{ "[tcp]\nadvertise = *:1,\n 192.0.2.1:2\n",
	  "2: [tcp] advertise: 192.0.2.1:2 is in the place of ::1 of [server] listen: "
	  "write an address of IPv6 there, or *:2 for the address that clients have "
	  "reached" },
	{ "[server]\nlisten = ::1, 2001:db8::1\ninsecure = yes\n"
	  "[tcp]\nadvertise = *:1, *:1\n",
	  "5: [tcp] advertise: item 2, *:1, may be the same for clients as item 1, "
	  "*:1: give each a port or an address of its own" },
	{ "[server]\nlisten = 127.0.0.1, 127.0.0.2, 127.0.0.3\n"
	  "[tcp]\nadvertise = 192.0.2.1:1, 192.0.2.2:1, *:1\n",
	  "4: [tcp] advertise: item 3, *:1, may be the same for clients as item 1, "
	  "192.0.2.1:1: give each a port or an address of its own" },
	{ "[server]\nlisten = 127.0.0.1, 127.0.0.2\n"
	  "[tcp]\nadvertise = 192.0.2.1:1, 192.0.2.1:1\n",
	  "4: [tcp] advertise: item 2, 192.0.2.1:1, may be the same for clients as "
	  "item 1, 192.0.2.1:1: give each a port or an address of its own" },
	{ "[server]\nlisten = fe80::1\n",
	  "2: listen: fe80::1 is a link-local address, which is of one interface: "
	  "write ::, which stands for all addresses of all" },
	{ "[server]\nlisten = ::1, fe80::1%eth0\n",
	  "2: listen: fe80::1%eth0 is a link-local address, which is of one interface: "
	  "write ::, which stands for all addresses of all" },
	{ "[server]\nlisten = 2001:db8::1%eth0\n",
	  "2: listen: '2001:db8::1%eth0' is not an IPv4 or IPv6 address" },
	{ "[server]\nlisten = 239.1.2.3\n",
	  "2: listen: 239.1.2.3 is an address of many hosts, to which nobody connects: "
	  "write one of this host" },
	{ "[server]\nlisten = 255.255.255.255\n",
	  "2: listen: 255.255.255.255 is an address of many hosts, to which nobody "
	  "connects: write one of this host" },
	{ "[metrics]\nlisten = [ff02::1]:9746\n",
	  "2: listen: [ff02::1]:9746 is an address of many hosts, to which nobody "
	  "connects: write one of this host" },
	{ "[metrics]\nlisten = [fe80::1%eth0]:9746\n",
	  "2: listen: [fe80::1%eth0]:9746 is a link-local address, which is of one "
	  "interface: write [::]:9746, which stands for all addresses of all" },
	{ "[metrics]\nlisten = 192.0.2.1\n",
	  "2: listen: '192.0.2.1' is not ADDRESS:PORT, as 192.0.2.1:9746 or "
	  "[2001:db8::1]:9746" },
	{ "[tcp]\nadvertise = *\n",
	  "2: advertise: '*' is not ADDRESS:PORT, as 192.0.2.1:7462, "
	  "[2001:db8::1]:7462 or *:7462" },
	{ "[tcp]\nadvertise = memory.example:7462\n",
	  "2: advertise: 'memory.example' is not an IPv4 or IPv6 address" },
	{ "[tcp]\nadvertise = *:0\n",
	  "2: advertise: the port: 0 is not from 1 to 65535" },
	{ "[tcp]\nadvertise = [::]:7462, *:1\n",
	  "2: advertise: clients cannot connect to [::]:7462, which stands for all "
	  "addresses: write *:7462 for the address that they have reached" },
	{ "[tcp]\nadvertise = [fe80::1%eth0]:1, *:2\n",
	  "2: advertise: clients cannot connect to [fe80::1%eth0]:1, a link-local "
	  "address, which is of one interface: write *:1 for the address that they "
	  "have "
	  "reached" },
	{ "[tcp]\nadvertise = 224.0.0.1:1, *:2\n",
	  "2: advertise: clients cannot connect to 224.0.0.1:1, an address of many "
	  "hosts: write *:1 for the address that they have reached" },
	{ "[server]\nlisten = ::1, 127.0.0.1, 0.0.0.0\ninsecure = yes\n",
	  "2: listen: 127.0.0.1 and 0.0.0.0 overlap: take one of them out" },
	{ "[admin]\nsocket = rmem.sock\n",
	  "2: socket: 'rmem.sock' is not an absolute path" },
	{ "[rdma]\nretry_count = 7\n",
	  "2: retry_count: 7 stands for trying for ever, and a peer that is dead would "
	  "never be missed: 6 is the most" },
	{ "[device a]\nrnr_retry_count = 7\n",
	  "2: rnr_retry_count: 7 stands for trying for ever, and a peer that is dead "
	  "would never be missed: 6 is the most" },
	{ "[rdma]\nmtu = 1500\n", "2: mtu: 1500 is not 256, 512, 1024, 2048 or 4096" },
	{ "[rdma]\nmtu = inherit\n", "2: mtu: 'inherit' is neither a number nor auto" },
	{ "[rdma]\nrelaxed_ordering = maybe\n",
	  "2: relaxed_ordering: 'maybe' is neither yes nor no" },
	{ "[device a]\ndevice_port = 256\n",
	  "2: device_port: 256 is not from 1 to 255" },
	{ "[device a]\ndevice_port = any\n",
	  "2: device_port: 'any' is neither a number nor auto" },
	{ "[device a]\naddress = rxe0\n",
	  "2: address: 'rxe0' is not an IPv4 or IPv6 address" },
	{ "[device a]\nport = 1\n",
	  "2: unknown key 'port' in [device]; it belongs in [server]" },
	{ "[device]\n", "1: a device's section is [device NAME]" },
	{ "[devices]\n", "1: unknown section [devices]; did you mean [device NAME]?" },
	{ "[device a:1]\n",
	  "1: device name 'a:1' has other characters than letters, digits, '-', '_' "
	  "and '.'" },
	{ "[rdma]\ndevices = a, b:1\n",
	  "2: devices: 'b:1' has other characters than letters, digits, '-', '_' "
	  "and '.'" },
	/* an indented key is not the name of a device */
	{ "[rdma]\ndevices = a\n mtu=512\n",
	  "3: devices: 'mtu=512' has other characters than letters, digits, '-', '_' "
	  "and '.'" },
	{ "[device a]\n[device b]\n[device a]\n",
	  "3: device 'a' is already in line 1" },
	{ "[device a]\n[rdma]\ndevices = b, c\n",
	  "1: device 'a' is not in [rdma] devices" },
	{ "[rdma]\nmtu = 1024\npkey = 0xffff\n",
	  "3: gid_index and pkey are for connect = direct; with rdma_cm they are those "
	  "of the address's interface" },
	{ "[rdma]\ndevices = a, b\nconnect = direct\n[device a]\n[device b]\n"
	  "connect = cm\ngid_index = 1\n",
	  "5: device 'b': gid_index and pkey are for connect = direct; with rdma_cm "
	  "they "
	  "are those of the address's interface" },
	{ "[pool]\n", "1: a pool's section is [pool NAME]" },
	{ "[pool a/b]\n",
	  "1: pool name 'a/b' has other characters than letters, digits, '-', "
	  "'_' and '.'" },
	{ "[pool a23456789012345678901234567890123]\n",
	  "1: pool name 'a23456789012345678901234567890123' is longer than 32 "
	  "characters" },
	{ "[pool a]\n[pool b]\n[pool a]\n", "3: pool 'a' is already in line 1" },
	{ "[pool a]\nsize = 1\n", "2: size: 1 is not from 1 MiB to 1024 TiB" },
	{ "[pool a]\nsize = 1X\n",
	  "2: size: '1X' is not a size: a whole number of "
	  "bytes, or with K, M, G or T (powers of 1024), such as 64K" },
	{ "[pool a]\nnode = two\n", "2: node: 'two' is neither a NUMA node nor any" },
	{ "[pool a]\nnode = 4096\n", "2: node: 4096 is not from 0 to 1023" },
	{ "[pool a]\npage_size = 3M\n",
	  "2: page_size: '3M' is neither auto, thp or base nor a size of huge pages, "
	  "as 2M, 512M or 1G" },
	{ "[pool a]\npage_size = 8K\n",
	  "2: page_size: '8K' is neither auto, thp or base nor a size of huge pages, "
	  "as 2M, 512M or 1G" },
	{ "[pool a]\npage_size = bsae\n",
	  "2: page_size: 'bsae' is neither auto, thp or base nor a size of huge pages, "
	  "as 2M, 512M or 1G; did you mean 'base'?" },
	{ "[pool a]\nsize = 1G\nsize = 2G\n", "3: 'size' is already in line 2" },
	{ "[pool a]\nsize = auto\nshare = 50\n",
	  "3: share: '50' is neither auto nor per cent, as 50%" },
	{ "[pool a]\nsize = auto\nshare = x%\n", "3: share: 'x' is not a number" },
	{ "[pool a]\nsize = auto\nshare = 101%\n",
	  "3: share: 101 is not from 1 to 100" },
	{ "[pool a]\nshare = 50%\n", "1: pool 'a': share is for size = auto" },
	{ "[pool a]\nsize = auto\nshare = 60%\npage_size = thp\n"
	  "[pool b]\nsize = auto\nshare = 50%\npage_size = base\n",
	  "5: pool 'b': the shares of the pools of any node come to 110% of its free "
	  "memory" },
};

START_TEST(load__reports_error_and_line)
{
	char error[512];
	uint16_t before = config.port = 4711;

	ck_assert_int_lt(load(errors[_i].file), 0);
	(void)snprintf(error, sizeof(error), "%s:%s", path, errors[_i].error);
	ck_assert_str_eq(err_text(), error);
	ck_assert_uint_eq(config.port, before);
}
END_TEST

START_TEST(load__compares_addresses_with_the_same_port)
{
	load_ok("[metrics]\nlisten = 192.0.2.1:7462\n");
	load_ok("[tcp]\nenabled = no\n[metrics]\nlisten = 127.0.0.1:7462\n");
	load_ok("[server]\nlisten = 0.0.0.0, ::\ninsecure = yes\n");
	load_ok("[server]\nlisten = 192.0.2.2, ::\ninsecure = yes\n");
	load_ok("[server]\nlisten = 0.0.0.0, ::1\ninsecure = yes\n");
}
END_TEST

/* One address for each endpoint over TCP. */
START_TEST(load__advertises_each_endpoint)
{
	load_ok("[tcp]\nadvertise = *:80,\n [2001:db8::1]:90\n");
	ck_assert_uint_eq(config.n_tcp_advertise, 2);
	ck_assert_uint_eq(config.tcp_advertise[0].family, 0);
	ck_assert_uint_eq(config.tcp_advertise[0].port, 80);
	ck_assert_uint_eq(config.tcp_advertise[1].family, 6);
	ck_assert_uint_eq(config.tcp_advertise[1].port, 90);
	load_ok("[server]\nlisten = 0.0.0.0, ::\ninsecure = yes\n"
		"[tcp]\nadvertise = 192.0.2.1:7462, [2001:db8::1]:7462\n");
	ck_assert_uint_eq(config.tcp_advertise[1].family, 6);
	/* a client is told those of one family */
	load_ok("[tcp]\nadvertise = *:1, *:1\n");
	load_ok("[tcp]\nadvertise =\n");
	ck_assert_uint_eq(config.n_tcp_advertise, 0);
}
END_TEST

/* Like all sizes. */
START_TEST(load__sizes_of_pages_have_any_unit)
{
	static const char *const same[] = { "2M",    "2m",      "2MiB",    "2 MiB",
					    "2048K", "2048KiB", "2097152", "2097152B" };

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		char text[64];

		(void)snprintf(text, sizeof(text), "[pool a]\npage_size = %s\n",
			       same[i]);
		load_ok(text);
		ck_assert_int_eq(config.pools[0].pages, POOL_PAGES_2M);
	}
	load_ok("[pool a]\npage_size = 1024MiB\n");
	ck_assert_int_eq(config.pools[0].pages, POOL_PAGES_1G);
}
END_TEST

START_TEST(load__takes_comments_behind_a_section)
{
	load_ok("[server] \t\nport = 9000\n[tcp] ; TCP\nport = 9001\n[log]\r\n");
	ck_assert_uint_eq(config.port, 9000);
	ck_assert_uint_eq(config.tcp_port, 9001);
}
END_TEST

/* Wherever it is, also where it hides the end of the file. */
START_TEST(load__refuses_zero_bytes)
{
	static const char text[] = "[server]\nport = 9000";
	char bytes[sizeof(text)];

	for (size_t i = 0; i < sizeof(text); i++) {
		memcpy(bytes, text, sizeof(text));
		bytes[i] = '\0';
		ck_assert_int_eq(load_bytes(bytes, sizeof(bytes)), -EINVAL);
		ck_assert_msg(
			strstr(err_text(), i > 8 ? ":2: the line has a zero byte"
						 : ":1: the line has a zero byte"),
			"%zu: %s", i, err_text());
	}
}
END_TEST

START_TEST(load__refuses_lines_and_lists_that_are_too_long)
{
	char text[4096] = "[admin]\nsocket = /";
	size_t used = strlen(text);

	memset(text + used, 'x', 120);
	load_fails(text, -ERANGE, ":2: socket: the path is longer than 107");
	memset(text + used, 'x', 1000);
	load_fails(text, -EINVAL, ":2: the line is too long");

	(void)snprintf(text, sizeof(text), "[rdma]\ndevices = d0");
	for (unsigned i = 1; i <= CONFIG_LIST_MAX; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text),
			       ",\n d%u", i);
	load_fails(text, -ERANGE, ":18: devices: more than 16 items");
}
END_TEST

START_TEST(load__reads_the_rights_of_tenants)
{
	const struct rights *rights = &config.tenants[0].rights;

	load_ok("[tenant a]\npools = p, default\naccess = read-only\n"
		"names = job-*, a/b,\n"
		"   *\n"
		"[pool p]\n[pool default]\n[tenant b]\n");
	ck_assert_uint_eq(rights->pools.n, 2);
	ck_assert_str_eq(rights->pools.at[1], "default");
	ck_assert_int_eq(rights->access, RIGHTS_READ_ONLY);
	ck_assert_uint_eq(rights->n_names, 3);
	ck_assert_str_eq(rights->names[0], "job-*");
	ck_assert_str_eq(rights->names[1], "a/b");
	ck_assert_str_eq(rights->names[2], "*");
	rights = &config.tenants[1].rights;
	ck_assert_uint_eq(rights->pools.n, 0);
	ck_assert_int_eq(rights->access, RIGHTS_READ_WRITE);
	ck_assert_uint_eq(rights->n_names, 0);
	/* the pool that is there without a section */
	load_ok("[tenant a]\npools = default\n");
}
END_TEST

START_TEST(load__limits_the_number_of_tenants)
{
	char text[4096] = "";

	for (unsigned i = 0; i < CONFIG_TENANTS_MAX; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text),
			       "[tenant t%u]\n", i);
	load_ok(text);
	ck_assert_uint_eq(config.n_tenants, CONFIG_TENANTS_MAX);
	(void)strcat(text, "[tenant more]\n");
	load_fails(text, -EINVAL, ":65: more than 64 tenants");
}
END_TEST

START_TEST(load__reports_an_unreadable_file)
{
	ck_assert_int_eq(config_load("/nonexistent/rmemd.conf", &config), -ENOENT);
	ck_assert_str_eq(err_text(),
			 "/nonexistent/rmemd.conf: No such file or directory");
	ck_assert_int_eq(config_load("/tmp", &config), -EINVAL);
	ck_assert_str_eq(err_text(), "/tmp: it is not a regular file");
	/* it would wait for somebody who writes */
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(config_load(path, &config), -EINVAL);
}
END_TEST

START_TEST(reload__applies_keys_that_may_change)
{
	struct config fresh;

	config_default(&config);
	load_ok("");
	fresh = config;
	fresh.log_level = LOG_DEBUG;
	fresh.n_tenants = 2;
	(void)strcpy(fresh.tenants[1].name, "b");
	fresh.tenants[0].limits.leases_max = 3;
	(void)strcpy(fresh.metrics_names[0], "name");
	fresh.n_metrics_names = 1;
	config_reload(&config, &fresh);
	ck_assert_int_eq(config.log_level, LOG_DEBUG);
	ck_assert_uint_eq(config.n_metrics_names, 1);
	ck_assert_uint_eq(config.n_tenants, 2);
	ck_assert_str_eq(config.tenants[1].name, "b");
	ck_assert_uint_eq(config.tenants[0].limits.leases_max, 3);
	fresh.port = 1;
	fresh.tcp_threads = 9;
	fresh.pools[0].node = 7;
	fresh.n_pools = 2;
	fresh.rdma_options.mtu = 256;
	fresh.n_device_params = 1;
	config_reload(&config, &fresh);
	/* what the pools make of it they tell themselves */
	ck_assert_int_eq(config.pools[0].node, 7);
	ck_assert_uint_eq(config.n_pools, 2);
	/* what needs a restart stays */
	ck_assert_uint_eq(config.port, 7460);
	ck_assert_int_eq(config.tcp_threads, -1);
	ck_assert_int_eq(config.rdma_options.mtu, FABRIC_OPTION_AUTO);
	ck_assert_uint_eq(config.n_device_params, 0);
}
END_TEST

/* The example file has every key as a comment, with its default; without the '#' the file is valid
 * and has the defaults. */
START_TEST(example_file__has_all_keys_and_defaults)
{
	const char *top = getenv("top_builddir");
	char example[512], line[256], section[64] = "";
	static char text[65536];
	bool seen[CONFIG_KEYS_MAX] = { false };
	struct config standard;
	size_t used = 0;
	FILE *file;

	(void)snprintf(example, sizeof(example), "%s/etc/rmemd.conf", top ? top : ".");
	file = fopen(example, "r");
	ck_assert_msg(file != NULL, "%s: %s", example, strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		char name[64], value[128] = "";
		/* "# text" is a comment, "#key = value" a key */
		bool is_key =
			line[0] == '#' &&
			sscanf(line, "#%63[a-z_] = %127[^\n]", name, value) >= 1 &&
			strchr(line, '=');

		(void)sscanf(line, "%*[#][%63[a-z]", section);
		(void)sscanf(line, "[%63[a-z]", section);
		for (size_t i = 0; is_key && i < config_n_keys; i++) {
			const struct config_key *key = &config_keys[i];

			if (strcmp(key->section, section) || strcmp(key->name, name))
				continue;
			ck_assert_msg(!seen[i], "[%s] %s appears twice", section, name);
			ck_assert_str_eq(value, key->standard);
			seen[i] = true;
		}
		used += (size_t)snprintf(
			text + used, sizeof(text) - used, "%s",
			is_key || strncmp(line, "#[", 2) == 0 ? line + 1 : line);
	}
	ck_assert_int_eq(fclose(file), 0);
	for (size_t i = 0; i < config_n_keys; i++)
		ck_assert_msg(seen[i], "[%s] %s is missing", config_keys[i].section,
			      config_keys[i].name);
	load_ok(text);
	config_default(&standard);
	/* the section of a device has no other values */
	ck_assert_uint_eq(config.n_device_params, 1);
	ck_assert_mem_eq(&config.device_params[0].rdma_options, &config.rdma_options,
			 sizeof(config.rdma_options));
	memset(config.device_params, 0, sizeof(config.device_params));
	config.n_device_params = 0;
	ck_assert_int_eq(memcmp(&config, &standard, sizeof(config)), 0);
	ck_assert_int_eq(config_load(example, &config), 0);
}
END_TEST

START_TEST(nearest__finds_the_smallest_distance)
{
	struct nearest nearest;

	ck_assert_uint_eq(nearest_distance("", "abc"), 3);
	ck_assert_uint_eq(nearest_distance("kitten", "sitting"), 3);
	ck_assert_uint_eq(nearest_distance("Port", "port"), 0);
	nearest_init(&nearest, "abcd");
	ck_assert_ptr_null(nearest_get(&nearest));
	nearest_offer(&nearest, "wxyz");
	ck_assert_ptr_null(nearest_get(&nearest));
	nearest_offer(&nearest, "abxy");
	nearest_offer(&nearest, "abcx");
	nearest_offer(&nearest, "zbcy");
	ck_assert_str_eq(nearest_get(&nearest), "abcx");
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("config", setup, teardown);

	tcase_add_test(tc, load__an_empty_file_is_the_defaults);
	tcase_add_test(tc, tcp_threads__are_as_many_as_cores_up_to_eight);
	tcase_add_test(tc, load__reads_every_type);
	tcase_add_test(tc, load__pools_have_devices);
	tcase_add_test(tc, load__devices_have_options);
	tcase_add_test(tc, load__checks_options_of_devices_only);
	tcase_add_test(tc, load__default_options_are_those_of_the_fabric);
	tcase_add_loop_test(tc, load__reports_error_and_line, 0,
			    sizeof(errors) / sizeof(errors[0]));
	tcase_add_test(tc, load__compares_addresses_with_the_same_port);
	tcase_add_test(tc, load__advertises_each_endpoint);
	tcase_add_test(tc, load__sizes_of_pages_have_any_unit);
	tcase_add_test(tc, load__takes_comments_behind_a_section);
	tcase_add_test(tc, load__refuses_zero_bytes);
	tcase_add_test(tc, load__refuses_lines_and_lists_that_are_too_long);
	tcase_add_test(tc, load__reads_the_rights_of_tenants);
	tcase_add_test(tc, load__limits_the_number_of_tenants);
	tcase_add_test(tc, load__reports_an_unreadable_file);
	tcase_add_test(tc, reload__applies_keys_that_may_change);
	tcase_add_test(tc, example_file__has_all_keys_and_defaults);
	tcase_add_test(tc, nearest__finds_the_smallest_distance);
	return unit_main();
}
