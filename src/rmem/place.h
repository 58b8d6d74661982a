/* SPDX-License-Identifier: BSD-3-Clause */
/* Where memory is to lie at the server, for the commands that borrow some: --place.
 * Threads: none but main. */
#ifndef RMEM_PLACE_H
#define RMEM_PLACE_H

#include <rmem/rmem.h>

#include "rmem/options.h"

/* Set node, placement and device, which points into the text.  -EINVAL as options_usage(). */
int place_parse(struct options *options, const char *text,
		struct rmem_alloc_params *params);
/* For commands that take no other option of their own: take all there are. */
int place_options(struct options *options, int argc, char **argv,
		  struct rmem_alloc_params *params);
/* Say on standard error where the lease lies, if that is wanted. */
void place_tell(const struct options *options, rmem_lease *lease);

#define PLACE_DETAILS                                                   \
	"  --place PLACE       on node:N, on that of device:NAME, or\n" \
	"                      interleave: in stripes over all (default any)\n"

#endif
