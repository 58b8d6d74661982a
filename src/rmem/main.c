/* SPDX-License-Identifier: BSD-3-Clause */
/* rmem: move bytes to and from a memory server, and measure it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "rmem/interrupt.h"
#include "rmem/options.h"
#include "rmem/session.h"

#define DEFAULT_SERVER "rmem://localhost"
#define EXIT_USAGE 2
#define HELP_COLUMN 30 /* of the summaries; a wider synopsis has a line of its own */

static const struct command *const commands[] = {
	&put_command,   &get_command,   &ls_command,     &rm_command,
	&copy_command,  &fill_command,  &crc_command,    &ping_command,
	&bench_command, &watch_command, &notify_command,
};
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const char options_text[] =
	"  -s, --server URI    the server, rmem://HOST[:PORT] or HOST[:PORT]\n"
	"                      (default $RMEM_SERVER, else " DEFAULT_SERVER ")\n"
	"  --fabric FABRIC     auto, rdma or tcp, instead of the URI's\n"
	"  --channels N        data connections, instead of the URI's\n"
	"  -v, --verbose       print on stderr which fabric is used, and why\n"
	"  -h, --help          this text, or that of the command before it\n"
	"  -V, --version       the version\n";

static void help_print(const struct command *command)
{
	if (command) {
		(void)printf("usage: rmem [OPTION...] %s\n%s\n\noptions:\n%s%s",
			     command->synopsis, command->summary, command->details,
			     options_text);
		return;
	}
	(void)printf("usage: rmem [OPTION...] COMMAND [ARGUMENT...]\n\ncommands:\n");
	for (size_t i = 0; i < N_COMMANDS; i++) {
		const char *synopsis = commands[i]->synopsis;
		bool wide = strlen(synopsis) >= HELP_COLUMN;

		(void)printf("  %-*s%s%*s%s\n", HELP_COLUMN, synopsis, wide ? "\n" : "",
			     wide ? HELP_COLUMN + 2 : 0, "", commands[i]->summary);
	}
	(void)printf(
		"\noptions:\n%s\nThe exit status is 0, 1 after an error, 2 when called "
		"wrongly.\n",
		options_text);
}

static const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

/* Parse the options before the command; optind is then that of the command. */
static int globals_parse(struct options *options, int argc, char **argv)
{
	static const struct option table[] = { OPTIONS_LONG };
	int opt, err;

	while ((opt = getopt_long(argc, argv, "+:" OPTIONS_SHORT, table, NULL)) != -1) {
		err = options_handle(options, opt, argv);
		if (err)
			return err;
	}
	if (optind == argc)
		return options_usage(options, "no command given");
	return 0;
}

/* Print an error, help or version; returns the exit status. */
static int finish(const struct options *options, const struct command *command, int err)
{
	if (err == OPTIONS_STOP) {
		if (options->help)
			help_print(command);
		else
			(void)printf("rmem %s\n", rmem_version());
		err = 0;
	}
	if (err && !options->reported) {
		(void)fprintf(stderr, "rmem: %s%s%s\n", command ? command->name : "",
			      command ? ": " : "", err_text());
		if (options->bad_usage)
			(void)fprintf(stderr, "rmem: see rmem %s%s--help\n",
				      command ? command->name : "", command ? " " : "");
	}
	/* a full disk is found only here */
	if (fclose(stdout) && !err) {
		(void)fprintf(stderr, "rmem: writing the output: %s\n",
			      strerror(errno));
		err = -EIO;
	}
	if (err == -EINTR)
		interrupt_die();
	if (err)
		return options->bad_usage ? EXIT_USAGE : EXIT_FAILURE;
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct options options = { .server = getenv("RMEM_SERVER") };
	const struct command *command = NULL;
	int err;

	if (!options.server || !options.server[0])
		options.server = DEFAULT_SERVER;
	err = globals_parse(&options, argc, argv);
	if (err)
		return finish(&options, NULL, err);
	command = command_find(argv[optind]);
	if (!command) {
		err = options_usage(&options, "unknown command '%s'", argv[optind]);
		return finish(&options, NULL, err);
	}
	argc -= optind;
	argv += optind;
	optind = 0; /* restart getopt, with the command in place of the program */
	return finish(&options, command, command->run(&options, argc, argv));
}
