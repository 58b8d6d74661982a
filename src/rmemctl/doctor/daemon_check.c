/* SPDX-License-Identifier: BSD-3-Clause */
/* Is the configuration good, and what does the running daemon say? */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "doctor/files.h"
#include "rmemctl/doctor/server.h"
#include "rmemd/config/changes.h"

static void unused_check(const struct server *server)
{
	static struct config_changes unused;
	struct report *report = server->host.report;
	char names[SERVER_TEXT_BYTES];

	config_unused(&server->config, &unused);
	if (!unused.n)
		return;
	report_find(report, REPORT_NOTE,
		    "keys without effect, as their fabric has enabled = no");
	report_seen(report, server->config_path, "%s",
		    config_changes_names(&unused, names, sizeof(names)));
	report_fix(report, "editor %s", server->config_path);
}

void config_check_file(const struct server *server)
{
	struct report *report = server->host.report;

	if (!server->config_err) {
		report_find(report, REPORT_OK, "%s%s",
			    server->config_path ? server->config_path
						: "no file: the defaults serve",
			    server->config_path ? " is good" : "");
		unused_check(server);
		return;
	}
	report_find(report, REPORT_ERROR,
		    "the configuration is wrong: rmemd does not start with it; the "
		    "defaults are examined instead");
	report_seen(report, "rmemd --check-config", "%s", server->config_text);
	report_fix(report, "editor %s", server->config_path);
}

/* Whether the daemon has its devices and addresses in a network that is not this one. */
static bool other_network(const struct server *server)
{
	struct stat own, daemon;

	return server->pid && stat("/proc/self/ns/net", &own) == 0 &&
	       stat(FILES_PATH("/proc/%ld/ns/net", server->pid), &daemon) == 0 &&
	       own.st_ino != daemon.st_ino;
}

static void namespace_check(const struct server *server)
{
	struct report *report = server->host.report;

	if (!other_network(server))
		return;
	report_find(
		report, REPORT_WARNING,
		"the daemon runs in another network namespace: what is said here of "
		"devices and addresses is not its own");
	report_seen(report, FILES_PATH("/proc/%ld/ns/net", server->pid),
		    "is not that of /proc/self/ns/net");
	report_fix(report, "nsenter -t %ld -n rmemctl doctor", server->pid);
}

static void fabric_check(const struct server *server, const char *name,
			 enum report_level level)
{
	const json_t *fabric =
		json_object_get(json_object_get(server->status, "fabrics"), name);
	const char *why = json_string_value(json_object_get(fabric, "why"));

	if (!fabric || json_is_true(json_object_get(fabric, "serving")))
		return;
	report_find(server->host.report, level, "the daemon does not serve %s", name);
	report_seen(server->host.report, "rmemctl status", "%s", why ? why : "-");
	if (!json_is_true(json_object_get(fabric, "awaited")))
		report_fix(server->host.report, "systemctl restart rmemd   # after "
						"the findings below are fixed");
}

static void running_check(const struct server *server)
{
	const char *version =
		json_string_value(json_object_get(server->status, "version"));
	struct report *report = server->host.report;

	report_find(report, REPORT_OK, "rmemd %s runs, pid %ld",
		    version ? version : "-", server->pid);
	if (version && strcmp(version, PACKAGE_VERSION) != 0) {
		report_find(report, REPORT_WARNING,
			    "the daemon is of another version than rmemctl: it was not "
			    "restarted after an upgrade");
		report_seen(report, "rmemctl status", "rmemd %s", version);
		report_seen(report, "rmemctl --version", PACKAGE_VERSION);
		report_fix(report, "systemctl restart rmemd");
	}
	if (server->config.verbs != CONFIG_NO)
		fabric_check(server, "rdma", host_level(&server->host));
	if (server->config.tcp)
		fabric_check(server, "tcp", REPORT_ERROR);
	namespace_check(server);
}

void daemon_check(const struct server *server)
{
	struct report *report = server->host.report;

	if (server->status) {
		running_check(server);
		return;
	}
	if (!host_is_live(&server->host))
		return;
	report_find(report,
		    server->daemon_err == -ECONNREFUSED || server->daemon_err == -EACCES
			    ? REPORT_NOTE
			    : REPORT_ERROR,
		    server->daemon_err == -ECONNREFUSED ? "rmemd does not run"
							: "rmemd does not answer");
	report_seen(report, server->socket_path, "%s", server->daemon_text);
	if (server->daemon_err == -EACCES)
		report_fix(report, "sudo rmemctl doctor");
	else
		report_fix(report, "systemctl start rmemd");
}
