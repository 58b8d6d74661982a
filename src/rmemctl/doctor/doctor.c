/* SPDX-License-Identifier: BSD-3-Clause */
/* rmemctl doctor: what makes RDMA, or the daemon, fail or be slow on this host. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "doctor/files.h"
#include "rmemctl/command.h"
#include "rmemctl/doctor/server.h"

static const char *config_path; /* NULL: the default one, if it exists */
static const char *root = "";
static bool quiet;

/* In the order of the output.  A check is of the host, which clients examine too, or of the server;
 * those with `rdma` are left out if the configuration does not use RDMA. */
static const struct check {
	const char *name;
	void (*host)(const struct host *host);
	void (*server)(const struct server *server);
	bool rdma;
} checks[] = {
	{ "configuration", .server = config_check_file },
	{ "daemon", .server = daemon_check },
	{ "rdma", .host = rdma_check, .rdma = true },
	{ "listen", .server = listen_check, .rdma = true },
	{ "advertise", .server = advertise_check },
	{ "ports", .server = sockets_check },
	{ "clients", .server = clients_check },
	{ "memlock", .server = memlock_check },
	{ "descriptors", .server = descriptors_check },
	{ "huge-pages", .server = hugepages_check },
	{ "thp", .server = thp_check },
	{ "numa", .server = nodes_check },
	{ "clock", .host = clock_check },
};

static void checks_run(const struct server *server)
{
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		const struct check *check = &checks[i];

		if (check->rdma && server->host.rdma == HOST_RDMA_UNUSED)
			continue;
		report_check(server->host.report, check->name);
		if (check->host)
			check->host(&server->host);
		else
			check->server(server);
	}
}

static int report_show(const struct report *report)
{
	int err = report_end(report);
	json_t *json;

	if (err)
		return err;
	if (!options.json) {
		report_print(report, quiet ? REPORT_NOTE : REPORT_OK, stdout);
		report_print_counts(report, stdout);
		return 0;
	}
	json = report_json(report);
	if (!json)
		return err_set(-ENOMEM, "no memory for findings");
	/* a full device is found when stdout is closed */
	(void)json_dumpf(json, stdout, JSON_INDENT(2));
	(void)putchar('\n');
	json_decref(json);
	return 0;
}

static int doctor_check(char **)
{
	size_t length = strlen(root);

	if (length >= FILES_PATH_BYTES)
		return err_set(-EINVAL, "--root: the path is too long");
	if (*root && !files_exist(root, "/"))
		return err_set(-EINVAL, "--root: there is no folder %s", root);
	return 0;
}

static int doctor_run(const struct command *, char **)
{
	static struct server server;
	int err = report_create(&server.host.report);

	if (err)
		return err;
	/* "/" is this host as well */
	server.host.root = strcmp(root, "/") == 0 ? "" : root;
	/* without --socket, that of the configuration */
	server_read(&server, config_path,
		    strcmp(options.socket, OPTIONS_SOCKET) == 0 ? NULL
								: options.socket);
	checks_run(&server);
	err = report_show(server.host.report);
	if (!err)
		err = report_status(server.host.report);
	server_release(&server);
	report_free(server.host.report);
	return err;
}

static const struct option_row doctor_options[] = {
	{ "config", 'c', OPTION_TEXT, &config_path, .argument = "FILE",
	  .help = "the configuration, by default" OPTION_INDENT SYSCONFDIR
		  "/rmem/rmemd.conf" },
	{ "quiet", 'q', OPTION_FLAG, &quiet, .help = "without what is ok" },
	{ "root", 0, OPTION_TEXT, &root, .argument = "FOLDER",
	  .help = "examine the files of a host below it, not this host" },
	{ .more = options_table },
	{ 0 },
};

const struct command doctor_command = {
	.name = "doctor",
	.synopsis = "doctor [-q] [-c FILE]",
	.summary = "what makes RDMA fail or be slow on this host",
	.options = doctor_options,
	.args = "no argument but options",
	.check = doctor_check,
	.run = doctor_run,
};
