/* SPDX-License-Identifier: BSD-3-Clause */
/* The options --place and --ttl of commands that allocate memory.  Threads: [main]. */
#ifndef RMEM_PLACE_H
#define RMEM_PLACE_H

#include <rmem/rmem.h>

#include "rmem/options.h"

/* A row of a command's options that sets node, placement and device of *params; device points
 * into argv. */
#define PLACE_OPTION(params)                                                     \
	{                                                                        \
		"place", 0, OPTION_OTHER, (params),                              \
			.parse = place_parse, .argument = "PLACE",               \
			.help = "node:N, device:NAME for the node of a device, " \
				"or" OPTION_INDENT                               \
				"interleave for stripes over all (default any)"  \
	}

/* A row of a command's options that sets the time to live in *params. */
#define TTL_OPTION(params)                                                      \
	{                                                                       \
		"ttl", 0, OPTION_MS, &(params)->ttl_ms, 1, OPTIONS_TTL_MAX_MS,  \
			.argument = "T",                                        \
			.help = "time to live, as 90s or 7d (default: no "      \
				"limit, or" OPTION_INDENT "that of the tenant)" \
	}

int place_parse(const char *text, void *params);

/* With --verbose, print the layout of the lease to stderr. */
void place_show(rmem_lease *lease);

#endif
