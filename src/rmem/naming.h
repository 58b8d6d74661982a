/* SPDX-License-Identifier: BSD-3-Clause */
/* Names that commands give to leases, with the option --if-absent.  Threads: [main]. */
#ifndef RMEM_NAMING_H
#define RMEM_NAMING_H

#include <stdbool.h>

#include <rmem/rmem.h>

#include "rmem/options.h"

extern bool naming_if_absent;

/* A row of a command's options. */
#define NAMING_OPTION                                                        \
	{                                                                    \
		"if-absent", 0, OPTION_FLAG, &naming_if_absent,              \
			.help = "fail if the name is taken, replace nothing" \
	}

/* Refuse a taken name before work is done for it, if --if-absent is given.  -EEXIST, or another
 * -errno, with err_text(). */
int naming_prepare(rmem *session, const char *name);

/* Give the lease its name in one step: it replaces what had the name, unless --if-absent is given.
 * -errno with err_text(). */
int naming_give(rmem_lease *lease, const char *name);

#endif
