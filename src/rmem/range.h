/* SPDX-License-Identifier: BSD-3-Clause */
/* The options --offset and --length of commands that work on a part of what is stored.
 * Threads: [main]. */
#ifndef RMEM_RANGE_H
#define RMEM_RANGE_H

#include <stdint.h>

#include <rmem/rmem.h>

#include "rmem/options.h"

struct range {
	uint64_t offset, length; /* UINT64_MAX: to the end */
};
extern struct range range;

/* Rows of a command's options. */
#define RANGE_OPTIONS                                                    \
	{                                                                \
		"offset",                                                \
		0,                                                       \
		OPTION_BYTES,                                            \
		&range.offset,                                           \
		0,                                                       \
		UINT64_MAX,                                              \
		.argument = "BYTES",                                     \
		.help = "first byte (default 0)"                         \
	},                                                               \
	{                                                                \
		"length", 0, OPTION_BYTES, &range.length, 0, UINT64_MAX, \
			.argument = "BYTES",                             \
			.help = "number of bytes (default: to the end)"  \
	}

/* The number of bytes of the lease from range.offset on that are meant.  -EINVAL with text: they
 * are not all in the lease. */
int range_resolve(const rmem_lease *lease, uint64_t *ret_bytes);

#endif
