/* SPDX-License-Identifier: BSD-3-Clause */
/* Tenants: identities that memory is lent to, with their limits and what they use of them; and
 * the table of those that the configuration names, or named and that still have something.
 *
 * A tenant is counted: the table has one reference while the configuration names it, and every
 * session, lease and segment has one, so it outlives them all.
 *
 * Threads: [loop].  Functions return 0 or -errno with err_text(); a request that a limit
 * refuses is counted in the tenant. */
#ifndef RMEMD_LEASE_TENANT_H
#define RMEMD_LEASE_TENANT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"

#define TENANT_NAME_MAX 32

/* Sessions of one tenant may attach its leases repeatedly; this bounds the table. */
#define TENANT_ATTACHMENTS_PER_LEASE 4

struct tenant_limits {
	uint64_t bytes_max; /* of the pools, all leases together; 0: no limit */
	uint32_t leases_max;
	uint32_t sessions_max;     /* 0: no limit */
	uint32_t channels_max;     /* of all its sessions together; 0: no limit */
	uint32_t keys_max;         /* of all its sessions together */
	uint32_t session_keys_max; /* of one session */
	uint64_t lease_min;        /* bytes of one lease that has memory */
	uint64_t lease_max;        /* bytes of one lease; 0: no limit */
	uint64_t ttl_max_ms;       /* of a named lease; 0: no limit */
};

/* What the configuration says of it. */
struct tenant_params {
	char name[TENANT_NAME_MAX + 1];
	struct tenant_limits limits;
};

struct tenant {
	char name[TENANT_NAME_MAX + 1];
	struct tenant_limits limits;
	struct list link; /* in the table of tenants */
	uint64_t refs;
	bool leaving; /* nothing is granted any more; it goes with the last reference */
	uint32_t n_sessions; /* until all their keys are dead */
	uint32_t n_channels; /* granted, until they are dead */
	uint32_t n_leases;
	uint64_t n_attachments;
	uint64_t bytes;   /* of the pools, until their keys are dead */
	uint32_t n_keys;  /* until they are dead */
	uint64_t refused; /* requests, for one of the limits */
	struct map names; /* struct lease by its name */
};

/* With one reference, the caller's. */
void tenant_init(struct tenant *tenant, const struct tenant_params *params);
/* Nothing refers to it but the caller. */
void tenant_destroy(struct tenant *tenant);
void tenant_ref(struct tenant *tenant);
/* The last one frees it: only for those that are in a table. */
void tenant_unref(struct tenant *tenant);

/* Whether anything may be granted.  -EACCES */
int tenant_check_open(const struct tenant *tenant);
/* -EDQUOT when one more would exceed a limit. */
int tenant_check_session(struct tenant *tenant);
int tenant_check_channel(struct tenant *tenant);
int tenant_check_lease(struct tenant *tenant);
int tenant_check_attachment(struct tenant *tenant);
/* For a session that has this many. */
int tenant_check_keys(struct tenant *tenant, uint32_t session_keys);
/* Whether it has as many channels as it may; nothing is counted as refused. */
bool tenant_channels_full(const struct tenant *tenant);
/* Whether a lease of `held` bytes may be `bytes` long.  No memory is always allowed, and a lease
 * above its limit may become shorter.  -EDQUOT */
int tenant_check_length(struct tenant *tenant, uint64_t held, uint64_t bytes);
/* The time to live that a named lease gets; 0 asks for the longest, which without a limit is 0,
 * for ever.  -EDQUOT */
int tenant_limit_ttl(struct tenant *tenant, uint64_t asked_ms, uint64_t *ret_ms);
/* Whether it may have this much more of the pools.  -EDQUOT, -EACCES */
int tenant_check_bytes(struct tenant *tenant, uint64_t bytes);

/* ---- the table ---- */

/* Embedded in what owns it. */
struct tenants {
	struct list all; /* struct tenant */
};

void tenants_init(struct tenants *tenants);
/* Sessions and leases are gone already. */
void tenants_destroy(struct tenants *tenants);

/* Make these the tenants, with these limits: new ones appear, one that was leaving is back, and
 * the others leave.  -ENOMEM; then nothing has changed. */
int tenants_set(struct tenants *tenants, const struct tenant_params *params,
		unsigned n);
/* The tenant of that name, if it is not leaving, or NULL. */
struct tenant *tenants_find(const struct tenants *tenants, const char *name);
/* The tenant of that name, with a reference, the caller's.  One that the configuration does not
 * name is made, leaving, with these limits.  NULL: -ENOMEM */
struct tenant *tenants_ensure(struct tenants *tenants,
			      const struct tenant_params *params);
/* Call each() for every tenant until it returns non-zero, and return that. */
int tenants_each(const struct tenants *tenants,
		 int (*each)(const struct tenant *tenant, void *arg), void *arg);

#endif
