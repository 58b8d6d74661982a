/* SPDX-License-Identifier: BSD-3-Clause */
/* File descriptors: each control connection needs one, and each channel over TCP.  The limits of
 * the configuration may allow more of them than the process may open; then channels have to leave
 * descriptors to control connections.  Threads: [loop]. */
#ifndef RMEMD_CONTROL_DESCRIPTORS_H
#define RMEMD_CONTROL_DESCRIPTORS_H

#include <stdint.h>

#include "rmemd/config/config.h"

/* At a time. */
struct descriptors {
	uint64_t sessions;
	uint64_t channels; /* over TCP */
};

/* Raise the soft limit of open descriptors to the hard one.  -errno */
int descriptors_raise_limit(void);
/* The number of descriptors that may be open. */
uint64_t descriptors_limit(void);

/* Control connections that may wait for a slot: the clients of a rack. */
#define DESCRIPTORS_NEWCOMERS_MAX 1024

struct descriptors_plan {
	struct descriptors wanted; /* descriptors that the configuration allows */
	uint64_t needed;           /* the limit at which all that is wanted fits */
	/* Connections that may wait for a slot: up to an eighth of what is free below the limit. */
	unsigned newcomers;
	/* What fits below the limit: sessions get at least half of the rest, if they want it. */
	struct descriptors fits;
};

/* n_tcp: the number of endpoints over TCP. */
struct descriptors_plan descriptors_divide(uint64_t limit, const struct config *config,
					   unsigned n_tcp);

#endif
