/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of all commands: the server, and how to connect.  They may come before or after the
 * command.  Threads: [main]. */
#ifndef RMEM_OPTIONS_H
#define RMEM_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>

#include <rmem/rmem.h>

struct options {
	const char *server; /* as given: a URI, or HOST[:PORT] */
	const char *fabric; /* "auto", "rdma", "tcp"; NULL: as the URI says */
	unsigned channels;  /* 0: as the URI says */
	bool verbose;
	bool bad_usage; /* the command line is wrong */
	bool reported;  /* the error was printed already */
	bool help;      /* --help was given */
	bool version;   /* --version was given */
};

/* run() returns 0, -errno with err_text(), or OPTIONS_STOP after --help or --version.  argv[0] is
 * the name of the command. */
#define OPTIONS_STOP 1

struct command {
	const char *name;
	const char *synopsis;
	const char *summary;
	const char *details; /* its own options, line by line; "" if none */
	int (*run)(struct options *options, int argc, char **argv);
};

extern const struct command put_command, get_command, ls_command, rm_command,
	copy_command, fill_command, crc_command, ping_command, bench_command,
	watch_command, notify_command;

/* For the option tables of commands; their own options without a letter start at OPTIONS_OWN. */
#define OPTIONS_SHORT "s:vhV"
enum { OPTIONS_FABRIC = 256, OPTIONS_CHANNELS, OPTIONS_OWN };
#define OPTIONS_LONG                                                       \
	{ "server", required_argument, NULL, 's' },                        \
		{ "fabric", required_argument, NULL, OPTIONS_FABRIC },     \
		{ "channels", required_argument, NULL, OPTIONS_CHANNELS }, \
		{ "verbose", no_argument, NULL, 'v' },                     \
		{ "help", no_argument, NULL, 'h' },                        \
		{ "version", no_argument, NULL, 'V' },                     \
	{                                                                  \
		NULL, 0, NULL, 0                                           \
	}

/* Handle an option that is not one of the command.
 * 0, OPTIONS_STOP, or -EINVAL with bad_usage set. */
int options_handle(struct options *options, int opt, char **argv);

/* Parse all options of a command that has none of its own. */
int options_parse(struct options *options, int argc, char **argv);

/* Set the error text and bad_usage; returns -EINVAL. */
int options_usage(struct options *options, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* A number option from min to max; -EINVAL as options_usage(). */
int options_number(struct options *options, const char *name, const char *text,
		   unsigned min, unsigned max, unsigned *ret_value);

/* The URI to open: that of the server, with fabric and channels replaced.
 * -EINVAL as options_usage(), when it does not fit. */
int options_uri(struct options *options, char *buf, size_t buf_bytes);

#endif
