/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of the control plane share: the parts below, the tables, the counters.
 * Threads: [loop]. */
#ifndef RMEMD_CONTROL_CONTROL_H
#define RMEMD_CONTROL_CONTROL_H

#include <stdint.h>

#include "rmemd/config/config.h"
#include "rmemd/fabrics/endpoints.h"
#include "rmemd/lease/lease.h"
#include "rmemd/lease/tenant.h"
#include "wire/msg.h"

struct ledger;
struct sessions;

struct control_counters {
	uint64_t connections;
	uint64_t connections_refused;
	uint64_t requests;
	uint64_t requests_failed;
	uint64_t sessions_opened;
	uint64_t sessions_fenced;
	uint64_t sessions_resumed;
	uint64_t channels_refused;
};

/* Owned by the daemon; the pointers are borrowed. */
struct control {
	const struct config *config; /* may change at a reload */
	const struct endpoints *endpoints;
	const struct tenants *tenants;
	struct ledger *ledger; /* what outlasts the process */
	struct leases *leases;
	struct sessions *sessions;
	uint64_t memory_bytes; /* of all pools */
	/* Endpoints that some pool is lent through, and not through all, a bit each. */
	unsigned sole;
	char server[WIRE_LABEL_MAX + 1]; /* how the welcome names this host */
	struct control_counters counters;
	/* Too large for the stack; in use while one frame is handled, or one answer sent. */
	struct wire_msg in, out;
};

#endif
