/* SPDX-License-Identifier: BSD-3-Clause */
/* What all commands take: the server and how to reach it.  The shared options may stand
 * before the command or behind it.  Threads: none but main. */
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
	bool bad_usage; /* the failure lies in how the command was called */
	bool reported;  /* what failed is told already */
	bool help;      /* --help was given */
	bool version;   /* --version was given */
};

/* A command's run() returns 0, -errno with err_text(), or OPTIONS_STOP when --help or
 * --version ends it.  argv[0] is the command's name. */
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

/* For the option tables of commands; own long options without a letter count from
 * OPTIONS_OWN. */
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

/* Take what getopt_long() gave and the command does not know.
 * 0, OPTIONS_STOP, or -EINVAL with bad_usage set. */
int options_take(struct options *options, int opt, char **argv);

/* For commands that take no options of their own: take all there are. */
int options_parse(struct options *options, int argc, char **argv);

/* Set the error text and bad_usage; returns -EINVAL. */
int options_usage(struct options *options, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* A number option from min to max; -EINVAL as options_usage(). */
int options_number(struct options *options, const char *name, const char *text,
		   unsigned min, unsigned max, unsigned *ret_value);

/* The URI to open: the server with fabric and channels put in place of its own.
 * -EINVAL as options_usage(), when it does not fit. */
int options_uri(struct options *options, char *buf, size_t buf_bytes);

#endif
