/* SPDX-License-Identifier: BSD-3-Clause */
/* Options that several commands have: of the leases that they allocate, of the names that they give
 * to leases, and of the part of a lease that they work on.  Threads: [main]. */
#ifndef RMEM_LEASE_OPTIONS_H
#define RMEM_LEASE_OPTIONS_H

#include <stdint.h>

#include <rmem/rmem.h>

#include "rmem/options.h"

/* What --place and --ttl ask for. */
extern struct rmem_alloc_params new_lease;
/* The first byte of the part, by --offset. */
extern uint64_t range_offset;

extern const struct option_row place_options[]; /* --place alone */
/* All options of a command that has --if-absent; that and --place, --ttl; --offset, --length. */
extern const struct option_row naming_options[], new_lease_options[], range_options[];

/* With --verbose, print the layout of the lease to stderr. */
void place_show(rmem_lease *lease);

/* Refuse a taken name before work is done for it, if --if-absent is given.  -EEXIST, or another
 * -errno, with err_text(). */
int naming_prepare(rmem *session, const char *name);
/* Give the lease its name in one step: it replaces what had the name, unless --if-absent is given.
 * -errno with err_text(). */
int naming_give(rmem_lease *lease, const char *name);

/* The number of bytes of the lease from range_offset on that are meant.  -EINVAL with text: they
 * are not all in the lease. */
int range_resolve(const rmem_lease *lease, uint64_t *ret_bytes);

#endif
