/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/tenant.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/err.h"

#define BYTES_TEXT 32

void tenant_init(struct tenant *tenant, const struct tenant_params *params)
{
	*tenant = (struct tenant){ .limits = params->limits,
				   .rights = params->rights,
				   .refs = 1 };
	memcpy(tenant->name, params->name, sizeof(tenant->name));
	list_init(&tenant->link);
	map_init(&tenant->names);
	list_init(&tenant->granted);
	slice_queue_init(&tenant->slices, SLICE_TENANT);
	list_init(&tenant->untried);
	list_init(&tenant->waiters);
	list_init(&tenant->wanting);
	slice_work_init(&tenant->serve, NULL);
	list_init(&tenant->answering);
	slice_work_init(&tenant->answer, NULL);
}

void tenant_destroy(struct tenant *tenant)
{
	slice_queue_end(&tenant->slices);
	map_destroy(&tenant->names);
}

void tenant_ref(struct tenant *tenant)
{
	tenant->refs++;
}

void tenant_unref(struct tenant *tenant)
{
	if (--tenant->refs)
		return;
	assert(!tenant->n_sessions && !tenant->n_channels && !tenant->n_leases);
	assert(!tenant->bytes && !tenant->n_keys && !tenant->n_attachments);
	list_remove(&tenant->link);
	tenant_destroy(tenant);
	free(tenant);
}

int tenant_check_open(const struct tenant *tenant)
{
	if (!tenant->leaving)
		return 0;
	return err_set(-EACCES,
		       "tenant %s is not in the server's configuration any more: it "
		       "keeps what it has, and gets nothing new",
		       tenant->name);
}

/* `what` is also the name of the key in the tenant's section. */
static int check_count(struct tenant *tenant, const char *what, uint64_t n,
		       uint64_t max)
{
	if (n < max)
		return 0;
	tenant->refused++;
	return err_set(-EDQUOT,
		       "tenant %s has %" PRIu64 " %s and may have %" PRIu64
		       ", 1 more was asked for: end some, or raise [tenant %s] %s",
		       tenant->name, n, what, max, tenant->name, what);
}

int tenant_check_lease(struct tenant *tenant)
{
	return check_count(tenant, "leases", tenant->n_leases,
			   tenant->limits.leases_max);
}

int tenant_check_keys(struct tenant *tenant, uint32_t session_keys)
{
	if (session_keys < tenant->limits.session_keys_max)
		return check_count(tenant, "keys", tenant->n_keys,
				   tenant->limits.keys_max);
	tenant->refused++;
	return err_set(-EDQUOT,
		       "the session has %" PRIu32 " keys and may have %" PRIu32
		       ", one per segment and endpoint of what it has attached, 1 "
		       "more was asked for: detach some, or raise [tenant %s] "
		       "session_keys",
		       session_keys, tenant->limits.session_keys_max, tenant->name);
}

int tenant_check_attachment(struct tenant *tenant)
{
	uint64_t max =
		(uint64_t)tenant->limits.leases_max * TENANT_ATTACHMENTS_PER_LEASE;

	if (tenant->n_attachments < max)
		return 0;
	tenant->refused++;
	return err_set(-EDQUOT,
		       "tenant %s has leases attached %" PRIu64
		       " times and may %" PRIu64
		       ", %d for each lease: detach some, or raise [tenant %s] leases",
		       tenant->name, tenant->n_attachments, max,
		       TENANT_ATTACHMENTS_PER_LEASE, tenant->name);
}

/* Exact to the byte, in the largest unit that allows it. */
#define EXACT(bytes) exact(bytes, (char[BYTES_TEXT]){ 0 })
static const char *exact(uint64_t bytes, char buf[BYTES_TEXT])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t i = 0;

	while (bytes && bytes % 1024 == 0 && i + 1 < sizeof(units) / sizeof(units[0])) {
		bytes /= 1024;
		i++;
	}
	(void)snprintf(buf, BYTES_TEXT, "%" PRIu64 " %s", bytes, units[i]);
	return buf;
}

int tenant_check_length(struct tenant *tenant, uint64_t held, uint64_t bytes)
{
	const struct tenant_limits *limits = &tenant->limits;
	bool longer = limits->lease_max && bytes > limits->lease_max && bytes > held;

	if (!longer && (bytes == 0 || bytes == held || bytes >= limits->lease_min))
		return 0;
	tenant->refused++;
	if (longer)
		return err_set(-EDQUOT,
			       "a lease of %s is longer than the %s that tenant %s may "
			       "have in one: use several, or raise [tenant %s] "
			       "lease_max",
			       EXACT(bytes), EXACT(limits->lease_max), tenant->name,
			       tenant->name);
	return err_set(-EDQUOT,
		       "a lease of %s is shorter than the %s that tenant %s must have "
		       "in one: ask for more, or lower [tenant %s] lease_min",
		       EXACT(bytes), EXACT(limits->lease_min), tenant->name,
		       tenant->name);
}

int tenant_limit_ttl(struct tenant *tenant, uint64_t asked_ms, uint64_t *ret_ms)
{
	uint64_t max_ms = tenant->limits.ttl_max_ms;

	if (max_ms && asked_ms > max_ms) {
		tenant->refused++;
		return err_set(-EDQUOT,
			       "a time to live of %" PRIu64
			       "ms is longer than the %" PRIu64
			       "ms that a lease of tenant %s may have: ask for less "
			       "and renew, or raise [tenant %s] ttl_max",
			       asked_ms, max_ms, tenant->name, tenant->name);
	}
	*ret_ms = asked_ms ? asked_ms : max_ms;
	return 0;
}

int tenant_check_bytes(struct tenant *tenant, uint64_t bytes)
{
	uint64_t max = tenant->limits.bytes_max;
	int err = tenant_check_open(tenant);

	if (err)
		return err;
	if (!max || range_inside(max, tenant->bytes, bytes))
		return 0;
	tenant->refused++;
	return err_set(-EDQUOT,
		       "tenant %s has %s of memory and may have %s, %s more was asked "
		       "for: free some, or raise [tenant %s] bytes",
		       tenant->name, EXACT(tenant->bytes), EXACT(max), EXACT(bytes),
		       tenant->name);
}

/* ---- the table ---- */

void tenants_init(struct tenants *tenants)
{
	list_init(&tenants->all);
}

/* All tenants lose the reference of the table. */
static void all_leave(struct tenants *tenants)
{
	list_for_each_entry_safe(struct tenant, tenant, &tenants->all, link) {
		if (tenant->leaving)
			continue;
		tenant->leaving = true;
		tenant_unref(tenant);
	}
}

void tenants_destroy(struct tenants *tenants)
{
	all_leave(tenants);
}

/* The tenant of this name, which may be leaving, or NULL. */
static struct tenant *find_tenant(const struct tenants *tenants, const char *name)
{
	list_for_each_entry(struct tenant, tenant, &tenants->all, link) {
		if (strcmp(tenant->name, name) == 0)
			return tenant;
	}
	return NULL;
}

struct tenant *tenants_ensure(struct tenants *tenants,
			      const struct tenant_params *params)
{
	struct tenant *tenant = find_tenant(tenants, params->name);

	if (tenant) {
		tenant_ref(tenant);
		return tenant;
	}
	tenant = malloc(sizeof(*tenant));
	if (!tenant) {
		(void)err_set(-ENOMEM, "no memory for a tenant");
		return NULL;
	}
	tenant_init(tenant, params);
	tenant->leaving = true;
	list_append(&tenants->all, &tenant->link);
	return tenant;
}

/* Tenants without a reserve of their own divide half of what the others leave. */
static void set_automatic(struct tenants *tenants, const struct tenant_params *params,
			  unsigned n)
{
	unsigned claimed = 0;

	tenants->n_automatic = 0;
	for (unsigned i = 0; i < n; i++) {
		claimed += params[i].limits.reserve;
		tenants->n_automatic += params[i].limits.reserve == 0;
	}
	tenants->automatic_sum = (100 - claimed) / 2;
}

int tenants_set(struct tenants *tenants, const struct tenant_params *params, unsigned n)
{
	unsigned n_found = 0;

	while (n_found < n && tenants_ensure(tenants, &params[n_found]))
		n_found++;
	if (n_found < n) {
		while (n_found > 0)
			tenant_unref(find_tenant(tenants, params[--n_found].name));
		return -ENOMEM;
	}
	/* the new reference of a configured tenant becomes that of the table */
	all_leave(tenants);
	for (unsigned i = 0; i < n; i++) {
		struct tenant *tenant = find_tenant(tenants, params[i].name);

		tenant->limits = params[i].limits;
		tenant->rights = params[i].rights;
		tenant->leaving = false;
	}
	set_automatic(tenants, params, n);
	return 0;
}

static uint32_t held(const struct tenant *tenant, unsigned shared)
{
	return shared == TENANT_SESSIONS ? tenant->n_sessions
					 : tenant->n_channels_at[shared];
}

/* The tenant's own limit; that of channels is for all endpoints together. */
static uint64_t own_limit(const struct tenant *tenant, unsigned shared)
{
	uint32_t max = shared == TENANT_SESSIONS ? tenant->limits.sessions_max
						 : tenant->limits.channels_max;

	return max ? max : UINT64_MAX;
}

static uint32_t own_count(const struct tenant *tenant, unsigned shared)
{
	return shared == TENANT_SESSIONS ? tenant->n_sessions : tenant->n_channels;
}

bool tenant_full(const struct tenant *tenant, unsigned shared)
{
	return own_count(tenant, shared) >= own_limit(tenant, shared);
}

/* What is kept of `max` for a tenant. */
static uint32_t reserve(const struct tenants *tenants, const struct tenant *tenant,
			unsigned shared, uint32_t max)
{
	uint64_t limit = own_limit(tenant, shared), kept;

	if (tenant->leaving)
		return 0;
	if (tenant->limits.reserve)
		kept = (uint64_t)max * tenant->limits.reserve / 100;
	else
		kept = (uint64_t)max * tenants->automatic_sum / 100 /
		       tenants->n_automatic;
	return (uint32_t)(kept < limit ? kept : limit);
}

bool tenants_over_reserve(const struct tenants *tenants, const struct tenant *tenant,
			  unsigned shared, uint32_t max)
{
	return held(tenant, shared) > reserve(tenants, tenant, shared, max);
}

/* What all tenants have, and what is kept for others than this one. */
static void count_shared(const struct tenants *tenants, const struct tenant *tenant,
			 unsigned shared, uint32_t max, uint64_t *ret_used,
			 uint64_t *ret_kept)
{
	uint64_t used = 0, kept = 0;

	list_for_each_entry(const struct tenant, other, &tenants->all, link) {
		uint32_t has = held(other, shared);
		uint32_t reserved = reserve(tenants, other, shared, max);

		used += has;
		if (other != tenant && reserved > has)
			kept += reserved - has;
	}
	/* a tenant that has less than its reserve is limited by `max` alone */
	if (held(tenant, shared) < reserve(tenants, tenant, shared, max))
		kept = 0;
	*ret_used = used;
	*ret_kept = kept;
}

bool tenants_full(const struct tenants *tenants, const struct tenant *tenant,
		  unsigned shared, uint32_t max)
{
	uint64_t used, kept;

	if (tenant_full(tenant, shared) || !max)
		return tenant_full(tenant, shared);
	count_shared(tenants, tenant, shared, max, &used, &kept);
	return used + kept >= max;
}

int tenants_check_room(const struct tenants *tenants, struct tenant *tenant,
		       unsigned shared, uint32_t max)
{
	const bool sessions = shared == TENANT_SESSIONS;
	uint64_t used, kept;
	int err = check_count(tenant, sessions ? "sessions" : "channels",
			      own_count(tenant, shared), own_limit(tenant, shared));

	if (err || !tenants_full(tenants, tenant, shared, max))
		return err;
	count_shared(tenants, tenant, shared, max, &used, &kept);
	tenant->refused++;
	return err_set(
		-EDQUOT,
		"of %" PRIu32 " %s tenant %s has %" PRIu32 ", others have %" PRIu64
		", and %" PRIu64 " are kept for others: end some%s",
		max, sessions ? "sessions" : "channels of the endpoint", tenant->name,
		held(tenant, shared), used - held(tenant, shared), kept,
		kept       ? ", or raise [tenant NAME] reserve"
		: sessions ? ", or raise [limits] sessions"
			   : "");
}

struct tenant *tenants_find(const struct tenants *tenants, const char *name)
{
	struct tenant *tenant = find_tenant(tenants, name);

	return tenant && !tenant->leaving ? tenant : NULL;
}

struct tenant *tenants_next(const struct tenants *tenants, const struct tenant *after)
{
	struct list *next = after ? after->link.next : tenants->all.next;

	return next == &tenants->all ? NULL : container_of(next, struct tenant, link);
}
