/* SPDX-License-Identifier: BSD-3-Clause */
/* The options that all commands have: server, fabric, channels.  They may come before or after the
 * command.  Threads: [main]. */
#ifndef RMEM_OPTIONS_H
#define RMEM_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rmem/rmem.h>

#include "base/option.h"

#define OPTIONS_SERVER "rmem://localhost" /* without --server and $RMEM_SERVER */

/* of --ttl: 100 years */
#define OPTIONS_TTL_MAX_MS (UINT64_C(36525) * 86400000)

struct options {
	const char *server;  /* as given: a URI, or HOST[:PORT] */
	const char *fabric;  /* "auto", "rdma", "tcp"; NULL: as the URI says */
	unsigned channels;   /* 0: as the URI says */
	uint64_t timeout_ms; /* 0: the library's */
	bool verbose;
	bool quiet;     /* no progress, no lines that only say how it goes */
	bool bad_usage; /* the command line is wrong */
	bool reported;  /* the error was printed already */
	bool help;      /* --help was given */
	bool version;   /* --version was given */
};
extern struct options options;
extern const struct option_row options_table[];

/* Set the error text and bad_usage; returns -EINVAL. */
int options_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The fabric that the command line or else the URI asks for: "auto", "rdma", "tcp". */
const char *options_fabric(void);
/* Whether the URI or the environment asks for authentication, which is under TLS. */
bool options_tls(void);

/* The URI to open: that of the server, with fabric and channels replaced.
 * -EINVAL as options_usage(), when it does not fit. */
int options_uri(char *buf, size_t buf_bytes);

#endif
