/* SPDX-License-Identifier: BSD-3-Clause */
/* Tenants: identities that borrow memory, with their limits and usage; and their table, which has
 * the tenants of the configuration, and former tenants that still have sessions or leases.
 *
 * A tenant is reference-counted: the table has one reference while the configuration names it, and
 * every session and lease has one, so the tenant outlives them.
 *
 * Threads: [loop].  Functions return 0 or -errno with err_text(); a request that a limit
 * refuses is counted in the tenant. */
#ifndef RMEMD_LEASE_TENANT_H
#define RMEMD_LEASE_TENANT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "base/tree.h"
#include "rmemd/lease/rights.h"
#include "rmemd/lease/tenant_params.h"
#include "rmemd/loop/slices.h"
#include "wire/msg.h"

/* Sessions of one tenant may attach its leases repeatedly; this bounds the table. */
#define TENANT_ATTACHMENTS_PER_LEASE 4

/* What tenants share: the sessions of the server, and the channels of each endpoint, by its
 * number. */
#define TENANT_SESSIONS WIRE_ENDPOINTS_MAX

struct tenant {
	char name[TENANT_NAME_MAX + 1];
	struct tenant_limits limits;
	struct rights rights;
	struct list link; /* in the table of tenants */
	uint64_t refs;
	bool leaving; /* gets no more grants, and is freed with the last reference */
	uint32_t n_sessions; /* until all keys of the session are dead */
	uint32_t n_channels; /* from the grant until the channel is dead */
	uint32_t n_channels_at[WIRE_ENDPOINTS_MAX];
	uint32_t n_leases;
	uint64_t n_attachments;
	uint64_t bytes;   /* of extents, until the keys to them are dead */
	uint32_t n_keys;  /* until the key is dead */
	uint64_t refused; /* requests that exceeded a limit */
	uint64_t denied[RIGHTS_DENIALS]; /* requests for which it has no right */
	uint64_t accesses_refused;       /* wrong key, bounds or rights */
	struct map names;                /* struct lease by its name */
	struct tree named;               /* the same leases, by their ids */
	uint32_t n_replies; /* replies that its sessions remember; of control/ */
	/* channels not connected yet, the oldest first; of control/ */
	struct list granted;
	struct slice_queue slices; /* its work of the loop */

	/* Requests that wait for memory, struct lease_waiter, the longest first: those that the
	 * present round of `serve` has yet to try, and the others. */
	struct list untried, waiters;
	struct list wanting; /* in leases->wanting, while there are any */
	struct slice_work serve;
	bool serve_again; /* memory has changed since the round began */
	/* Its leases whose requests are being looked at, struct lease. */
	struct list answering;
	struct slice_work answer;
};

/* The caller has the first reference. */
void tenant_init(struct tenant *tenant, const struct tenant_params *params);
/* Only the caller refers to it. */
void tenant_destroy(struct tenant *tenant);
void tenant_ref(struct tenant *tenant);
/* The last reference frees the tenant: only for tenants of a table. */
void tenant_unref(struct tenant *tenant);

/* -EACCES: the tenant is leaving, and gets no grants. */
int tenant_check_open(const struct tenant *tenant);
/* -EDQUOT: one more would exceed a limit. */
int tenant_check_lease(struct tenant *tenant);
int tenant_check_attachment(struct tenant *tenant);
/* As above, for a session that has `session_keys` keys. */
int tenant_check_keys(struct tenant *tenant, uint32_t session_keys);
/* Whether the tenant has reached its own limit of sessions or channels; counts no refusal. */
bool tenant_full(const struct tenant *tenant, unsigned shared);
/* Whether a lease of `held` bytes may get a length of `bytes`.  0 is always allowed, and a lease
 * above the limit may shrink.  -EDQUOT */
int tenant_check_length(struct tenant *tenant, uint64_t held, uint64_t bytes);
/* The time to live that a named lease gets; 0 asks for the longest, which without a limit is 0,
 * for ever.  -EDQUOT */
int tenant_limit_ttl(struct tenant *tenant, uint64_t asked_ms, uint64_t *ret_ms);
/* Whether the tenant may get `bytes` more.  -EDQUOT, -EACCES */
int tenant_check_bytes(struct tenant *tenant, uint64_t bytes);

/* ---- the table ---- */

/* Embedded in the owner. */
struct tenants {
	struct list all;        /* struct tenant */
	unsigned n_automatic;   /* tenants without a reserve of their own */
	unsigned automatic_sum; /* per cent kept for them together */
};

void tenants_init(struct tenants *tenants);
/* After all sessions and leases. */
void tenants_destroy(struct tenants *tenants);

/* Replace the configured tenants, limits and rights: new tenants are added, a listed tenant is not
 * leaving any more, and all others are.  -ENOMEM: nothing has changed. */
int tenants_set(struct tenants *tenants, const struct tenant_params *params,
		unsigned n);
/* The tenant of that name, if it is not leaving, or NULL. */
struct tenant *tenants_find(const struct tenants *tenants, const char *name);
/* The tenant of that name, with a reference for the caller.  If there is none, a leaving tenant
 * with these limits and rights is added.  NULL: -ENOMEM */
struct tenant *tenants_ensure(struct tenants *tenants,
			      const struct tenant_params *params);
/* Whether the tenant may have one more session, or channel of an endpoint: within its own limit,
 * and of `max` (0: no limit) in all, of which what is kept for other tenants stays free.
 * -EDQUOT */
int tenants_check_room(const struct tenants *tenants, struct tenant *tenant,
		       unsigned shared, uint32_t max);
/* Whether it may not; counts no refusal. */
bool tenants_full(const struct tenants *tenants, const struct tenant *tenant,
		  unsigned shared, uint32_t max);
/* Whether the tenant has more than what is kept for it of `max`. */
bool tenants_over_reserve(const struct tenants *tenants, const struct tenant *tenant,
			  unsigned shared, uint32_t max);
/* The tenant after this one (NULL: the first), or NULL.  A tenant is in the table as long as
 * somebody has a reference. */
struct tenant *tenants_next(const struct tenants *tenants, const struct tenant *after);

#endif
