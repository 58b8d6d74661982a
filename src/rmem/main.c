/* SPDX-License-Identifier: BSD-3-Clause */
/* rmem: move bytes to and from a memory server, and measure it. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/nearest.h"
#include "base/standard_fds.h"
#include "rmem/command.h"
#include "rmem/interrupt.h"
#include "rmem/session.h"

#define EXIT_USAGE 2
#define HELP_COLUMN 30 /* of the summaries; a wider synopsis has a line of its own */

static const struct command help_command = {
	.name = "help",
	.synopsis = "help [COMMAND]",
	.summary = "print this text, or that of a command",
	.options = options_table,
	.args_max = 1,
	.args = "at most one COMMAND",
};

static const struct command *const commands[] = {
	&put_command,   &get_command,    &ls_command,    &stat_command,
	&mv_command,    &touch_command,  &share_command, &unshare_command,
	&rm_command,    &copy_command,   &fill_command,  &crc_command,
	&ping_command,  &bench_command,  &watch_command, &notify_command,
	&cache_command, &doctor_command, &help_command,
};
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void help_print(const struct command *command)
{
	if (command) {
		(void)printf("usage: rmem [OPTION...] %s\n%s\n\noptions:\n",
			     command->synopsis, command->summary);
		option_help(command->options);
		return;
	}
	(void)printf("usage: rmem [OPTION...] COMMAND [ARGUMENT...]\n\ncommands:\n");
	for (size_t i = 0; i < N_COMMANDS; i++) {
		const char *synopsis = commands[i]->synopsis;
		bool wide = strlen(synopsis) >= HELP_COLUMN;

		(void)printf("  %-*s%s%*s%s\n", HELP_COLUMN, synopsis, wide ? "\n" : "",
			     wide ? HELP_COLUMN + 2 : 0, "", commands[i]->summary);
	}
	(void)printf("\noptions:\n");
	option_help(options_table);
	(void)printf(
		"\nThe exit status is 0, 1 after an error, 2 when called wrongly.\n");
}

static const struct command *command_find(const char *name)
{
	struct nearest nearest;

	nearest_init(&nearest, name);
	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
		nearest_offer(&nearest, commands[i]->name);
	}
	options.bad_usage = true;
	(void)nearest_unknown(&nearest, "command");
	return NULL;
}

/* Print an error, help or version; returns the exit status.  `err` may be one. */
static int finish(const struct command *command, int err)
{
	if (err == OPTION_ENDED) {
		if (options.help)
			help_print(command);
		else
			(void)printf("rmem %s\n", rmem_version());
		err = 0;
	}
	if (err < 0 && !options.reported) {
		(void)fprintf(stderr, "rmem: %s%s%s\n", command ? command->name : "",
			      command ? ": " : "", err_text());
		if (options.bad_usage)
			(void)fprintf(stderr, "rmem: see rmem %s%s--help\n",
				      command ? command->name : "", command ? " " : "");
	}
	if (standard_output_close() && err >= 0) {
		(void)fprintf(stderr, "rmem: %s\n", err_text());
		err = -EIO;
	}
	if (err == -EINTR)
		interrupt_die();
	if (err < 0)
		return options.bad_usage ? EXIT_USAGE : EXIT_FAILURE;
	return err;
}

static int options_parse(const struct command *command, int argc, char **argv)
{
	int err = option_parse(command ? command->options : options_table, !command,
			       argc, argv);

	if (err < 0)
		options.bad_usage = true;
	return err;
}

/* As --help, with the command's name behind. */
static int help_run(char **args)
{
	const struct command *command = NULL;

	if (args[0]) {
		command = command_find(args[0]);
		if (!command)
			return -EINVAL;
	}
	help_print(command);
	return 0;
}

static int command_run(const struct command *command, int argc, char **argv)
{
	rmem *session;
	int n, err = options_parse(command, argc, argv);

	if (err)
		return err;
	argv += optind;
	n = argc - optind;
	if (n < command->args_min || n > command->args_max)
		return options_usage("it takes %s", command->args);
	if (command == &help_command)
		return help_run(argv);
	if (options.quiet && options.verbose)
		return options_usage("--quiet and --verbose exclude each other");
	for (int i = 0; !err && i < command->names && argv[i]; i++)
		err = session_name_check(argv[i]);
	if (!err && command->check)
		err = command->check(argv);
	if (!err && command->run_alone)
		return command->run_alone(argv);
	if (!err)
		err = session_open(&session);
	if (err)
		return err;
	err = command->run(session, argv);
	rmem_close(session);
	return err;
}

int main(int argc, char **argv)
{
	const char *server = getenv("RMEM_SERVER");
	const struct command *command;
	int err = standard_fds_open();

	/* a file that may not grow is an error of write(2), not a reason to die */
	(void)signal(SIGXFSZ, SIG_IGN);
	if (server && server[0])
		options.server = server;
	if (!err)
		err = options_parse(NULL, argc, argv);
	if (!err && optind == argc)
		err = options_usage("no command given");
	if (err)
		return finish(NULL, err);
	command = command_find(argv[optind]);
	if (!command)
		return finish(NULL, -EINVAL);
	argc -= optind;
	argv += optind;
	return finish(command, command_run(command, argc, argv));
}
