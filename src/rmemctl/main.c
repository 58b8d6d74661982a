/* SPDX-License-Identifier: BSD-3-Clause */
/* rmemctl: show and change the state of the daemon of this host, over its admin socket. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/err.h"
#include "base/option.h"
#include "base/standard_fds.h"
#include "base/units.h"
#include "rmemctl/client.h"
#include "rmemctl/commands.h"
#include "rmemctl/keygen.h"

#define SOCKET_PATH RUNSTATEDIR "/rmemd/admin.sock"
#define EXIT_USAGE 2

static const char *socket_path = SOCKET_PATH;
static bool json, wide, help, version;
static uint64_t number; /* the argument of a command that takes one */

static const struct option_row options[] = {
	{ "socket", 's', OPTION_TEXT, &socket_path, .argument = "PATH",
	  .help = "the admin socket, by default" OPTION_INDENT SOCKET_PATH },
	{ "output", 'o', OPTION_OTHER, &wide, .parse = option_wide_parse,
	  .argument = "FORMAT",
	  .help = "wide: tables with all columns, and whole texts" },
	{ "json", 0, OPTION_FLAG, &json,
	  .help = "print the answer of the daemon unchanged" },
	{ "help", 'h', OPTION_LAST, &help, .help = "print this" },
	{ "version", 'V', OPTION_LAST, &version, .help = "print the version" },
	{ 0 },
};

static void help_print(void)
{
	printf("usage: rmemctl [-s PATH] [-o wide] [--json] COMMAND [LEASE]\n\n"
	       "Show or change the state of the rmemd of this host.\n\n"
	       "commands:\n");
	for (const struct command *command = commands; command->name; command++)
		printf("  %-10s %s\n", command->name, command->summary);
	printf("  %-10s %s\n", "keygen TENANT [FOLDER]",
	       "write a new key of a tenant to TENANT.psk, for" OPTION_INDENT
	       "clients, and to rmemd.psk, for the server");
	printf("\noptions:\n");
	option_help(options);
	printf("\nThe exit status is 0, 1 after an error, 2 when called wrongly.\n");
}

/* keygen alone needs no daemon. */
static bool is_keygen(int argc, char **argv)
{
	return optind < argc && strcmp(argv[optind], "keygen") == 0;
}

/* -EINVAL: rmemctl was called wrongly. */
static int keygen_check(int argc)
{
	if (optind + 1 == argc)
		return err_set(-EINVAL, "keygen: no tenant given");
	if (optind + 3 < argc)
		return err_set(-EINVAL,
			       "keygen: more than a tenant and a folder given");
	return 0;
}

static int keygen_run(int argc, char **argv)
{
	return keygen(argv[optind + 1], optind + 2 < argc ? argv[optind + 2] : ".");
}

/* -EINVAL with text: rmemctl was called wrongly. */
static int arguments_parse(int argc, char **argv, const struct command **ret_command)
{
	const size_t max = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;
	int n, err;

	if (!*socket_path || strlen(socket_path) > max)
		return err_set(-EINVAL,
			       "--socket: the path is %s, the limit is %zu bytes",
			       *socket_path ? "too long" : "empty", max);
	if (optind == argc)
		return err_set(-EINVAL, "no command given");
	err = command_find(argv[optind], ret_command);
	if (err)
		return err;
	n = argc - optind - 1;
	if (!(*ret_command)->takes)
		return n ? err_set(-EINVAL, "more than one command given") : 0;
	if (n != 1)
		return err_set(-EINVAL, "%s needs the number of one %s", argv[optind],
			       (*ret_command)->takes);
	if (units_parse_u64(argv[optind + 1], 1, UINT64_MAX, &number))
		return err_set(-EINVAL, "%s: %s", argv[optind], err_text());
	return 0;
}

static int run(const struct command *command)
{
	char resource[64], *body = NULL;
	int err;

	(void)snprintf(resource, sizeof(resource), "/v1/%s", command->name);
	if (command->takes)
		(void)snprintf(resource, sizeof(resource), "/v1/%s?%s=%" PRIu64,
			       command->name, command->takes, number);
	err = command->acts ? client_post(socket_path, resource, &body)
			    : client_get(socket_path, resource, &body);
	if (err)
		return err;
	if (json)
		(void)fputs(body, stdout);
	else
		err = command_show(command, body, wide, stdout);
	free(body);
	return err;
}

int main(int argc, char **argv)
{
	const struct command *command = NULL;
	int err = standard_fds_open();

	if (!err)
		err = option_parse(options, false, argc, argv);
	if (!err)
		err = is_keygen(argc, argv) ? keygen_check(argc)
					    : arguments_parse(argc, argv, &command);
	if (err < 0) {
		(void)fprintf(stderr, "rmemctl: %s; see rmemctl --help\n", err_text());
		return EXIT_USAGE;
	}
	err = 0;
	if (command)
		err = run(command);
	else if (!help && !version && is_keygen(argc, argv))
		err = keygen_run(argc, argv);
	else if (help)
		help_print();
	else
		printf("rmemctl %s\n", PACKAGE_VERSION);
	if (!err)
		err = standard_output_close();
	if (err)
		(void)fprintf(stderr, "rmemctl: %s\n", err_text());
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}
