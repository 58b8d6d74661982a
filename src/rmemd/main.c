/* SPDX-License-Identifier: BSD-3-Clause */
/* rmemd: options, configuration, and the daemon. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/log.h"
#include "base/option.h"
#include "rmemd/config/config.h"
#include "rmemd/daemon.h"
#include "rmemd/system/systemd.h"
#include "rmemd/system/log_ratelimit.h"

#define DEFAULT_PATH SYSCONFDIR "/rmem/rmemd.conf"
#define LETTERS ":c:h"
#define EXIT_USAGE 2
#define EXIT_CONFIG 78 /* EX_CONFIG of sysexits.h; rmemd.service does not try again */

struct options {
	const char *path; /* NULL: the default one, if it exists */
	bool check;
};

static void usage(void)
{
	(void)printf("usage: rmemd [-c FILE] [--check-config]\n"
		     "Lend the memory of this host.\n"
		     "\n"
		     "  -c, --config FILE   read FILE instead of " DEFAULT_PATH "\n"
		     "      --check-config  say whether the configuration is good, "
		     "and exit\n"
		     "      --version       print the version, and exit\n"
		     "  -h, --help          print this, and exit\n");
}

static int usage_error(void)
{
	(void)fprintf(stderr, "rmemd: %s; see rmemd --help\n", err_text());
	return EXIT_USAGE;
}

/* Returns -1 to go on, or the exit status. */
static int parse(int argc, char **argv, struct options *options)
{
	enum { OPTION_CHECK = 256, OPTION_VERSION };
	static const struct option known[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "check-config", no_argument, NULL, OPTION_CHECK },
		{ "version", no_argument, NULL, OPTION_VERSION },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, LETTERS, known, NULL)) != -1) {
		switch (option) {
		case 'c':
			options->path = optarg;
			break;
		case OPTION_CHECK:
			options->check = true;
			break;
		case OPTION_VERSION:
			(void)puts("rmemd " PACKAGE_VERSION);
			return EXIT_SUCCESS;
		case 'h':
			usage();
			return EXIT_SUCCESS;
		default:
			(void)option_error(option, LETTERS, argv);
			return usage_error();
		}
	}
	if (optind == argc)
		return -1;
	(void)err_set(-EINVAL, "unexpected argument %s", argv[optind]);
	return usage_error();
}

/* *path becomes NULL when the defaults serve because the default file does not exist. */
static int load(const char **path, struct config *config)
{
	bool named = *path;
	int err;

	config_default(config);
	if (!named)
		*path = DEFAULT_PATH;
	err = config_load(*path, config);
	if (err != -ENOENT || named)
		return err;
	*path = NULL;
	return 0;
}

/* As a line of the log, which has its level and its fields in the journal. */
static int fail(int status)
{
	log_event(LOG_ERR, "start-failed", NULL, "%s", err_text());
	return status;
}

/* After EXIT_CONFIG the service manager does not try again, and gives up what it keeps: not as
 * long as somebody has something in it. */
static int config_status(bool kept)
{
	return kept ? EXIT_FAILURE : EXIT_CONFIG;
}

static int serve(const struct config *config, const char *path, bool kept)
{
	struct daemon *daemon;
	int err;

	log_ratelimit_open(systemd_log_sink(config->log_target));
	log_set_sink(log_ratelimit_sink);
	log_set_level(config->log_level);
	/* a client that is gone is an error of write(2), not a reason to die */
	(void)signal(SIGPIPE, SIG_IGN);
	log_event(LOG_NOTICE, "started", NULL, "rmemd " PACKAGE_VERSION ", %s",
		  path ? path : "no configuration file: the defaults");
	err = daemon_open(config, path, &daemon);
	/* what this host cannot ever do is asked for by the configuration */
	if (err)
		return fail(err == -EINVAL ? config_status(kept) : EXIT_FAILURE);
	err = daemon_run(daemon);
	daemon_close(daemon);
	if (err) {
		log_event(LOG_ERR, "failed", NULL, "%s", err_text());
		return EXIT_FAILURE;
	}
	log_event(LOG_NOTICE, "stopped", NULL, "until the next start");
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	static struct config config;
	struct options options = { 0 };
	bool kept = systemd_passed_ledger();
	int status, err;

	status = parse(argc, argv, &options);
	if (status >= 0)
		return status;
	err = load(&options.path, &config);
	if (err && options.check) {
		(void)fprintf(stderr, "rmemd: %s\n", err_text());
		return EXIT_CONFIG;
	}
	if (err) {
		log_set_sink(systemd_log_sink(CONFIG_LOG_AUTO));
		return fail(config_status(kept));
	}
	if (!options.check)
		return serve(&config, options.path, kept);
	(void)printf("%s: good\n", options.path ? options.path : "the defaults");
	return EXIT_SUCCESS;
}
