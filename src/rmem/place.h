/* SPDX-License-Identifier: BSD-3-Clause */
/* The option --place of commands that allocate memory.  Threads: [main]. */
#ifndef RMEM_PLACE_H
#define RMEM_PLACE_H

#include <rmem/rmem.h>

#include "rmem/options.h"

/* Set node, placement and device; device points into the text.  -EINVAL as options_usage(). */
int place_parse(struct options *options, const char *text,
		struct rmem_alloc_params *params);
/* Parse all options of a command whose only own option is --place. */
int place_options(struct options *options, int argc, char **argv,
		  struct rmem_alloc_params *params);
/* With --verbose, print the layout of the lease to stderr. */
void place_show(const struct options *options, rmem_lease *lease);

#define PLACE_DETAILS                                                              \
	"  --place PLACE       node:N, device:NAME for the node of a device, or\n" \
	"                      interleave for stripes over all (default any)\n"

#endif
