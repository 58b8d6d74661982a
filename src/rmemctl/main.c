/* SPDX-License-Identifier: BSD-3-Clause */
/* rmemctl: show the state of the daemon of this host, over its admin socket. */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/option.h"
#include "rmemctl/client.h"
#include "rmemctl/commands.h"

#define SOCKET_PATH RUNSTATEDIR "/rmemd/admin.sock"
#define LETTERS ":s:hV"
#define EXIT_USAGE 2

enum { OPTION_JSON = 256 };

static const struct option long_options[] = {
	{ "socket", required_argument, NULL, 's' },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

static void help_print(void)
{
	printf("usage: rmemctl [-s PATH] [--json] COMMAND\n\n"
	       "Show the state of the rmemd of this host.\n\n"
	       "commands:\n");
	for (const struct command *command = commands; command->name; command++)
		printf("  %-10s %s\n", command->name, command->summary);
	printf("\noptions:\n"
	       "  -s, --socket PATH  the admin socket, by default\n"
	       "                     " SOCKET_PATH "\n"
	       "      --json         print the answer of the daemon unchanged\n"
	       "  -h, --help         print this\n"
	       "  -V, --version      print the version\n");
}

static int usage_error(const char *text)
{
	(void)fprintf(stderr, "rmemctl: %s; see rmemctl --help\n", text);
	return EXIT_USAGE;
}

static int run(const struct command *command, const char *socket_path, bool json)
{
	char *body = NULL;
	int err = client_get(socket_path, command->resource, &body);

	if (err)
		return err;
	if (json)
		(void)fputs(body, stdout);
	else
		err = command_show(command, body, stdout);
	free(body);
	return err;
}

int main(int argc, char **argv)
{
	const char *socket_path = SOCKET_PATH;
	const struct command *command;
	bool json = false;
	int option, err;

	while ((option = getopt_long(argc, argv, LETTERS, long_options, NULL)) != -1) {
		switch (option) {
		case 's':
			socket_path = optarg;
			break;
		case OPTION_JSON:
			json = true;
			break;
		case 'h':
			help_print();
			return EXIT_SUCCESS;
		case 'V':
			printf("rmemctl %s\n", PACKAGE_VERSION);
			return EXIT_SUCCESS;
		default:
			(void)option_error(option, LETTERS, argv);
			return usage_error(err_text());
		}
	}
	if (optind == argc)
		return usage_error("no command given");
	if (optind + 1 < argc)
		return usage_error("more than one command given");
	if (command_find(argv[optind], &command))
		return usage_error(err_text());
	err = run(command, socket_path, json);
	if (!err && (fflush(stdout) || ferror(stdout)))
		err = err_errno(-EIO, "cannot write");
	if (err)
		(void)fprintf(stderr, "rmemctl: %s\n", err_text());
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}
