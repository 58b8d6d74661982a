/* SPDX-License-Identifier: BSD-3-Clause */
/* rmemctl: show and change the state of the daemon of this host, over its admin socket. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/standard_fds.h"
#include "rmemctl/command.h"
#include "rmemctl/list.h"

#define EXIT_USAGE 2
#define HELP_COLUMN 24 /* of the summaries; a wider synopsis has a line of its own */

static void commands_print(void)
{
	for (size_t i = 0; commands[i]; i++) {
		const char *synopsis = commands[i]->synopsis;
		bool wide = strlen(synopsis) >= HELP_COLUMN;

		(void)printf("  %-*s%s%*s%s\n", HELP_COLUMN, synopsis, wide ? "\n" : "",
			     wide ? HELP_COLUMN + 2 : 0, "", commands[i]->summary);
	}
}

/* command NULL: of all. */
static void help_print(const struct command *command)
{
	if (command) {
		(void)printf("usage: rmemctl [OPTION...] %s\n%s\n\noptions:\n",
			     command->synopsis, command->summary);
		option_help(command->options);
		return;
	}
	(void)printf("usage: rmemctl [OPTION...] COMMAND [ARGUMENT...]\n\n"
		     "Show or change the state of the rmemd of this host.\n\n"
		     "commands:\n");
	commands_print();
	(void)printf("\noptions:\n");
	option_help(options_table);
	(void)printf("\nThe exit status is 0, 1 after an error, 2 when called wrongly; "
		     "of reload\n"
		     "3 if something needs a restart, of doctor 3 with warnings, 4 "
		     "with errors.\n");
}

/* Parse the options and arguments of a command, which is argv[0].  The result is that of
 * option_parse(). */
static int command_parse(const struct command *command, int argc, char **argv)
{
	int err = option_parse(command->options, false, argc, argv), n = argc - optind;

	if (!err)
		err = options_check();
	if (!err && (n < command->args_min || n > command->args_max))
		err = err_set(-EINVAL, "it takes %s", command->args);
	if (!err && command->columns)
		err = list_sort_check(command->columns);
	if (!err && command->check)
		err = command->check(argv + optind);
	return err;
}

/* Parse all; ret_command stays NULL without a command that is known. */
static int parse(int argc, char **argv, const struct command **ret_command,
		 char ***ret_args)
{
	const struct command *command;
	int err = option_parse(options_table, true, argc, argv);

	if (err)
		return err;
	if (optind == argc)
		return err_set(-EINVAL, "no command given");
	argc -= optind;
	argv += optind;
	err = command_find(argv[0], &command);
	if (err)
		return err;
	*ret_command = command;
	err = command_parse(command, argc, argv);
	*ret_args = argv + optind;
	return err;
}

/* The command line is wrong. */
static int usage(const struct command *command)
{
	const char *name = command ? command->name : "";

	(void)fprintf(stderr, "rmemctl: %s%s%s; see rmemctl %s%s--help\n", name,
		      command ? ": " : "", err_text(), name, command ? " " : "");
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	const struct command *command = NULL;
	char **args = NULL;
	int err = standard_fds_open(), status = 0;

	/* a file that may not grow is an error of write(2), not a reason to die */
	(void)signal(SIGXFSZ, SIG_IGN);
	if (!err)
		err = parse(argc, argv, &command, &args);
	if (err < 0)
		return usage(command);
	if (options.help)
		help_print(command);
	else if (options.version)
		(void)printf("rmemctl %s\n", PACKAGE_VERSION);
	else
		status = command->run(command, args);
	err = status < 0 ? status : standard_output_close();
	if (err)
		(void)fprintf(stderr, "rmemctl: %s\n", err_text());
	return err ? EXIT_FAILURE : status;
}
