/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits under which the daemon runs, or would run. */
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>

#include "base/units.h"
#include "doctor/files.h"
#include "fabric/address.h"
#include "rmemctl/doctor/server.h"
#include "rmemd/control/descriptors.h"

#define PROC_BYTES 8192
#define SERVICE_PATH "/org/freedesktop/systemd1/unit/rmemd_2eservice"
#define BUS_TIMEOUT_US (UINT64_C(3) * 1000 * 1000)

/* ---- of a process ---- */

/* The hard limit of a line "Max locked memory  8388608  8388608  bytes": the daemon raises its own
 * soft limit of descriptors; the kernel compares locked memory with the soft one. */
static bool limit_find(const char *text, const char *name, bool hard,
		       uint64_t *ret_value)
{
	const char *line = strstr(text, name);
	char soft[32], limit[32];

	if (!line || sscanf(line + strlen(name), " %31s %31s", soft, limit) != 2)
		return false;
	if (!hard)
		memcpy(limit, soft, sizeof(limit));
	if (strcmp(limit, "unlimited") == 0) {
		*ret_value = SERVER_UNLIMITED;
		return true;
	}
	*ret_value = strtoull(limit, NULL, 10);
	return true;
}

bool limits_capable(const char *root, const char *process, unsigned capability)
{
	char text[PROC_BYTES];
	const char *line;
	int err = files_text(root, FILES_PATH("/proc/%s/status", process), text,
			     sizeof(text));

	line = err ? NULL : strstr(text, "\nCapEff:");
	return line && (strtoull(line + 8, NULL, 16) >> capability & 1);
}

static bool limits_of_process(const char *root, const char *process,
			      struct server_limits *limits)
{
	char text[PROC_BYTES];
	const char *path = FILES_PATH("/proc/%s/limits", process);

	if (files_text(root, path, text, sizeof(text)) ||
	    !limit_find(text, "Max locked memory", false, &limits->memlock) ||
	    !limit_find(text, "Max open files", true, &limits->nofile))
		return false;
	limits->locks_all = limits_capable(root, process, CAP_IPC_LOCK);
	(void)snprintf(limits->source, sizeof(limits->source), "%s", path);
	(void)snprintf(limits->process, sizeof(limits->process), "%s", process);
	return true;
}

/* ---- of the unit ---- */

static int unit_number(sd_bus *bus, const char *name, uint64_t *ret_value)
{
	return sd_bus_get_property_trivial(
		bus, "org.freedesktop.systemd1", SERVICE_PATH,
		"org.freedesktop.systemd1.Service", name, NULL, 't', ret_value);
}

static int unit_ask(sd_bus *bus, struct server_limits *limits)
{
	uint64_t high = SERVER_UNLIMITED;
	char *state = NULL;
	int err = sd_bus_get_property_string(
		bus, "org.freedesktop.systemd1", SERVICE_PATH,
		"org.freedesktop.systemd1.Unit", "LoadState", NULL, &state);

	if (err >= 0 && strcmp(state, "loaded") != 0)
		err = -ENOENT;
	free(state);
	if (err >= 0)
		err = unit_number(bus, "LimitMEMLOCKSoft", &limits->memlock);
	if (err >= 0)
		err = unit_number(bus, "LimitNOFILE", &limits->nofile);
	if (err >= 0)
		err = unit_number(bus, "MemoryMax", &limits->memory);
	if (err >= 0)
		err = unit_number(bus, "MemoryHigh", &high);
	limits->memory_setting = "MemoryMax=";
	if (err >= 0 && high < limits->memory) {
		limits->memory = high;
		limits->memory_setting = "MemoryHigh=";
	}
	return err;
}

static bool limits_of_unit(struct server_limits *limits)
{
	sd_bus *bus = NULL;
	int err = sd_bus_open_system(&bus);

	if (err >= 0)
		err = sd_bus_set_method_call_timeout(bus, BUS_TIMEOUT_US);
	if (err >= 0)
		err = unit_ask(bus, limits);
	sd_bus_flush_close_unref(bus);
	if (err < 0)
		return false;
	/* the unit takes all capabilities away */
	limits->locks_all = false;
	(void)snprintf(limits->source, sizeof(limits->source), "rmemd.service");
	return true;
}

void limits_read(const struct server *server, struct server_limits *ret_limits)
{
	struct server_limits limits = { .memory = SERVER_UNLIMITED };
	const char *root = server->host.root;
	char process[24];

	(void)snprintf(process, sizeof(process), "%ld", server->pid);
	if (!(server->pid && limits_of_process(root, process, &limits)) &&
	    !(host_is_live(&server->host) && limits_of_unit(&limits)) &&
	    !limits_of_process(root, "self", &limits))
		limits.source[0] = '\0';
	*ret_limits = limits;
}

/* ---- checks ---- */

/* How to raise a limit of what the source names. */
static void limit_fix(const struct server *server, const char *unit, const char *shell)
{
	if (strncmp(server->limits.source, "/proc/self", 10) == 0)
		report_fix(server->host.report, "ulimit %s   # before rmemd is started",
			   shell);
	else
		report_fix(server->host.report,
			   "systemctl edit rmemd   # [Service] %s; then restart it",
			   unit);
}

/* Bytes of all pools; *ret_auto: pools of automatic size are not counted. */
static uint64_t pools_bytes(const struct config *config, bool *ret_auto)
{
	uint64_t sum = 0;

	*ret_auto = false;
	for (unsigned i = 0; i < config->n_pools; i++) {
		sum += config->pools[i].bytes;
		*ret_auto |= config->pools[i].bytes == POOL_BYTES_AUTO;
	}
	return sum;
}

/* What the daemon locks beside its pools: private keys, and a ledger of up to 4,096 sessions. */
#define LOCKED_BYTES (UINT64_C(16) << 20)

void memlock_check(const struct server *server)
{
	const struct server_limits *limits = &server->limits;
	struct report *report = server->host.report;
	bool is_auto;
	uint64_t needed = pools_bytes(&server->config, &is_auto);

	if (!limits->source[0])
		return;
	if (limits->locks_all || limits->memlock == SERVER_UNLIMITED) {
		report_find(report, REPORT_OK, "locked memory is not limited (%s)",
			    limits->source);
		return;
	}
	if (limits->memlock >= needed + LOCKED_BYTES && !is_auto) {
		report_find(report, REPORT_OK,
			    "%s of memory may be locked, pools need %s",
			    UNITS_BYTES(limits->memlock), UNITS_BYTES(needed));
		return;
	}
	report_find(
		report, limits->memlock > needed ? REPORT_WARNING : REPORT_ERROR,
		"only %s of memory may be locked; the pools need %s%s, and the daemon "
		"up to %s beside them",
		UNITS_BYTES(limits->memlock), UNITS_BYTES(needed),
		is_auto ? " and what size = auto takes" : "",
		UNITS_BYTES(LOCKED_BYTES));
	report_seen(report, limits->source, "RLIMIT_MEMLOCK %" PRIu64, limits->memlock);
	limit_fix(server, "LimitMEMLOCK=infinity", "-l unlimited");
}

/* The number of addresses for TCP. */
static unsigned tcp_endpoints(const struct config *config)
{
	return config->tcp ? config->n_listen : 0;
}

void descriptors_check(const struct server *server)
{
	const struct server_limits *limits = &server->limits;
	struct report *report = server->host.report;
	struct descriptors_plan plan;

	if (!limits->source[0])
		return;
	plan = descriptors_divide(limits->nofile, &server->config,
				  tcp_endpoints(&server->config));
	if (plan.needed <= limits->nofile) {
		report_find(report, REPORT_OK,
			    "%" PRIu64 " descriptors may be open, %" PRIu64
			    " are needed at most",
			    limits->nofile, plan.needed);
		return;
	}
	report_find(report, REPORT_WARNING,
		    "only %" PRIu64 " descriptors may be open: with all sessions and "
		    "channels that [limits] allows %" PRIu64 " are needed; %" PRIu64
		    " of %" PRIu64 " sessions and %" PRIu64 " of %" PRIu64
		    " channels over TCP fit",
		    limits->nofile, plan.needed, plan.fits.sessions,
		    plan.wanted.sessions, plan.fits.channels, plan.wanted.channels);
	report_seen(report, limits->source, "RLIMIT_NOFILE %" PRIu64, limits->nofile);
	limit_fix(server,
		  files_path((char[64]){ 0 }, 64, "LimitNOFILE=%" PRIu64, plan.needed),
		  files_path((char[64]){ 0 }, 64, "-n %" PRIu64, plan.needed));
}
