/* SPDX-License-Identifier: BSD-3-Clause */
/* An identity that memory is lent to, with its limits and what it uses of them.
 * Threads: [loop]. */
#ifndef RMEMD_LEASE_TENANT_H
#define RMEMD_LEASE_TENANT_H

#include <stdint.h>

#include "base/map.h"
#include "wire/msg.h"

/* Sessions of one tenant may attach its leases over and over; this bounds the table. */
#define TENANT_ATTACHMENTS_PER_LEASE 4

struct tenant_limits {
	uint32_t leases_max;
	uint64_t lease_bytes_max; /* of one lease; 0: no limit */
	uint64_t bytes_max;       /* of the pools, all leases together; 0: no limit */
	uint32_t session_keys_max;
	uint32_t keys_max; /* of all its sessions together */
};

struct tenant {
	char name[WIRE_LABEL_MAX + 1];
	struct tenant_limits limits;
	uint32_t n_leases;
	uint64_t n_attachments;
	uint64_t bytes;   /* of the pools, until their keys are dead */
	uint32_t n_keys;  /* until they are dead */
	struct map names; /* struct lease by its name */
};

void tenant_init(struct tenant *tenant, const char *name,
		 const struct tenant_limits *limits);
/* Its leases are gone already. */
void tenant_destroy(struct tenant *tenant);

/* -EDQUOT with text when one more would exceed a limit. */
int tenant_check_lease(const struct tenant *tenant);
int tenant_check_attachment(const struct tenant *tenant);
/* A lease's length.  -EDQUOT */
int tenant_check_length(const struct tenant *tenant, uint64_t bytes);
/* Count bytes of the pools for the tenant.  -EDQUOT; then nothing is counted. */
int tenant_charge(struct tenant *tenant, uint64_t bytes);
void tenant_uncharge(struct tenant *tenant, uint64_t bytes);

#endif
