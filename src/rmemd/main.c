/* SPDX-License-Identifier: BSD-3-Clause */
/* rmemd: options, configuration, and the daemon. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include "base/err.h"
#include "base/log.h"
#include "base/option.h"
#include "base/standard_fds.h"
#include "rmemd/config/config.h"
#include "rmemd/control/auth.h"
#include "rmemd/daemon.h"
#include "rmemd/system/log_output.h"
#include "rmemd/system/log_ratelimit.h"
#include "rmemd/system/recent.h"
#include "rmemd/system/signals.h"
#include "rmemd/system/systemd.h"
#include "tls/context.h"
#include "tls/guard.h"

#define DEFAULT_PATH SYSCONFDIR "/rmem/rmemd.conf"
#define EXIT_USAGE 2
#define EXIT_CONFIG 78 /* EX_CONFIG of sysexits.h; rmemd.service does not try again */

static const char *config_path; /* NULL: the default one, if it exists */
static const char *log_target;  /* NULL: that of the configuration */
static enum config_log_target target = CONFIG_LOG_AUTO;
static bool check, help, version;

static const struct option_row options[] = {
	{ "config", 'c', OPTION_TEXT, &config_path, .argument = "FILE",
	  .help = "read FILE instead of" OPTION_INDENT DEFAULT_PATH },
	{ "log-target", 0, OPTION_TEXT, &log_target, .argument = "TARGET",
	  .help = "log to stderr, plain, journal or auto," OPTION_INDENT
		  "whatever the configuration says" },
	{ "check-config", 0, OPTION_FLAG, &check,
	  .help = "say whether the configuration is good, and exit" },
	{ "version", 'V', OPTION_LAST, &version,
	  .help = "print the version, and exit" },
	{ "help", 'h', OPTION_LAST, &help, .help = "print this, and exit" },
	{ 0 },
};

/* The exit status of a process that has only printed something. */
static int output_end(void)
{
	if (!standard_output_close())
		return EXIT_SUCCESS;
	(void)fprintf(stderr, "rmemd: %s\n", err_text());
	return EXIT_FAILURE;
}

/* Returns -1 to go on, or the exit status. */
static int parse(int argc, char **argv)
{
	int err = option_parse(options, false, argc, argv);

	if (!err && log_target && config_log_target_parse(log_target, &target))
		err = err_prefix(-EINVAL, "--log-target");
	if (!err && optind < argc)
		err = err_set(-EINVAL, "unexpected argument %s", argv[optind]);
	if (err < 0) {
		(void)fprintf(stderr, "rmemd: %s; see rmemd --help\n", err_text());
		return EXIT_USAGE;
	}
	if (version)
		(void)puts("rmemd " PACKAGE_VERSION);
	if (help) {
		(void)printf("usage: rmemd [-c FILE] [--log-target TARGET] "
			     "[--check-config]\n"
			     "Lend the memory of this host.\n\n");
		option_help(options);
	}
	return err ? output_end() : -1;
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

/* After EXIT_CONFIG the service manager does not try again and gives up the memory that it keeps,
 * which must not happen while there are leases in it. */
static int config_status(bool kept)
{
	return kept ? EXIT_FAILURE : EXIT_CONFIG;
}

/* A core dump goes to a program that core_pattern names whatever its limit is.  Who sets a limit
 * above 0 asks for one. */
static void dumps_refuse(void)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_CORE, &limit) && limit.rlim_cur == 0)
		(void)prctl(PR_SET_DUMPABLE, 0);
}

/* The files that the configuration names, as a start reads them. */
static int files_check(const struct config *config)
{
	struct tls_context *tls;
	int err = auth_load(config, &tls);

	if (!err)
		tls_context_unref(tls);
	return err;
}

/* In microseconds of the clock, so that no two processes have the same numbers; below 2^53, which
 * JSON carries exactly. */
static uint64_t events_begin(void)
{
	struct timespec now = { 0 };

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static int serve(const struct config *config, const char *path, bool kept)
{
	struct daemon *daemon;
	int err;

	recent_open(events_begin());
	log_output_open(log_target ? target : config->log_target);
	(void)log_ratelimit_open(LOG_RATELIMIT_LOG, log_output_sink);
	log_set_sink(log_ratelimit_sink);
	log_set_level(config->log_level);
	/* a client that is gone is an error of write(2), not a reason to die */
	(void)signal(SIGPIPE, SIG_IGN);
	log_event(LOG_NOTICE, "started", NULL, "rmemd " PACKAGE_VERSION ", %s",
		  path ? path : "no configuration file: the defaults");
	err = daemon_open(config, path, &daemon);
	if (err == -ECANCELED) {
		log_event(LOG_NOTICE, "stopped", NULL, "%s while it started",
			  err_text());
		return EXIT_SUCCESS;
	}
	/* -EINVAL: the configuration asks for something that this host can never do */
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
	bool kept = systemd_passed_ledger();
	int status, err;

	/* a file that may not grow is an error of write(2), not a reason to die */
	(void)signal(SIGXFSZ, SIG_IGN);
	if (standard_fds_open())
		return fail(EXIT_FAILURE);
	status = parse(argc, argv);
	if (status >= 0)
		return status;
	dumps_refuse();
	tls_guard();
	if (!check)
		signals_hold();
	err = load(&config_path, &config);
	if (!err && check)
		err = files_check(&config);
	if (err && check) {
		(void)fprintf(stderr, "rmemd: %s\n", err_text());
		return EXIT_CONFIG;
	}
	if (err) {
		log_output_open(target);
		log_set_sink(log_output_sink);
		/* without memory or descriptors now, the next start may succeed */
		return fail(err == -ENOMEM || err == -EMFILE || err == -ENFILE
				    ? EXIT_FAILURE
				    : config_status(kept));
	}
	if (!check)
		return serve(&config, config_path, kept);
	(void)printf("%s: good\n", config_path ? config_path : "the defaults");
	return output_end();
}
