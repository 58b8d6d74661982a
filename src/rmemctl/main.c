/* SPDX-License-Identifier: BSD-3-Clause */
/* rmemctl: show the state of the daemon of this host, over its admin socket. */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/err.h"
#include "base/option.h"
#include "base/standard_fds.h"
#include "rmemctl/client.h"
#include "rmemctl/commands.h"

#define SOCKET_PATH RUNSTATEDIR "/rmemd/admin.sock"
#define EXIT_USAGE 2

static const char *socket_path = SOCKET_PATH;
static bool json, wide, help, version;

static int output_parse(const char *text, void *value)
{
	if (strcmp(text, "wide") != 0)
		return err_set(-EINVAL, "--output: '%s' is not wide", text);
	*(bool *)value = true;
	return 0;
}

static const struct option_row options[] = {
	{ "socket", 's', OPTION_TEXT, &socket_path, .argument = "PATH",
	  .help = "the admin socket, by default" OPTION_INDENT SOCKET_PATH },
	{ "output", 'o', OPTION_OTHER, &wide, .parse = output_parse,
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
	printf("usage: rmemctl [-s PATH] [-o wide] [--json] COMMAND\n\n"
	       "Show the state of the rmemd of this host.\n\n"
	       "commands:\n");
	for (const struct command *command = commands; command->name; command++)
		printf("  %-10s %s\n", command->name, command->summary);
	printf("\noptions:\n");
	option_help(options);
	printf("\nThe exit status is 0, 1 after an error, 2 when called wrongly.\n");
}

static int usage_error(const char *text)
{
	(void)fprintf(stderr, "rmemctl: %s; see rmemctl --help\n", text);
	return EXIT_USAGE;
}

/* A path that can be no socket's. */
static bool socket_valid(void)
{
	const size_t max = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;

	if (*socket_path && strlen(socket_path) <= max)
		return true;
	(void)err_set(-EINVAL, "--socket: the path is %s, the limit is %zu bytes",
		      *socket_path ? "too long" : "empty", max);
	return false;
}

static int run(const struct command *command)
{
	char *body = NULL;
	int err = client_get(socket_path, command->resource, &body);

	if (err)
		return err;
	if (json)
		(void)fputs(body, stdout);
	else
		err = command_show(command, body, wide, stdout);
	free(body);
	return err;
}

/* Whether all output was written. */
static int output_end(void)
{
	bool failed = ferror(stdout) != 0;

	/* what a failed write has left is written again, and errno says why that fails */
	errno = 0;
	if (!fclose(stdout) && !failed)
		return 0;
	return err_errno(errno ? -errno : -EIO, "writing the output");
}

int main(int argc, char **argv)
{
	const struct command *command;
	int err = standard_fds_open();

	if (!err)
		err = option_parse(NULL, options, false, argc, argv);
	if (err < 0)
		return usage_error(err_text());
	if (err && help)
		help_print();
	else if (err)
		printf("rmemctl %s\n", PACKAGE_VERSION);
	if (err && output_end()) {
		(void)fprintf(stderr, "rmemctl: %s\n", err_text());
		return EXIT_FAILURE;
	}
	if (err)
		return EXIT_SUCCESS;
	if (!socket_valid())
		return usage_error(err_text());
	if (optind == argc)
		return usage_error("no command given");
	if (optind + 1 < argc)
		return usage_error("more than one command given");
	if (command_find(argv[optind], &command))
		return usage_error(err_text());
	err = run(command);
	if (!err)
		err = output_end();
	if (err)
		(void)fprintf(stderr, "rmemctl: %s\n", err_text());
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}
