/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/checks.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/modular.h"
#include "rmemd/control/session.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/lease_table.h"
#include "simulate/daemon.h"
#include "simulate/fabric.h"
#include "simulate/keys.h"
#include "simulate/network.h"
#include "simulate/shares.h"
#include "simulate/sim.h"
#include "unit/rmemd/owners.h"

#define PAGE OWNERS_PAGE

typedef unsigned long long number;

/* What the leases of a tenant add up to. */
struct sums {
	uint64_t bytes;
	uint32_t n_leases;
};
static struct sums sums[DAEMON_TENANTS];

/* At the last step. */
static struct usage {
	uint64_t bytes;
	uint32_t n_leases, n_keys;
} usages[DAEMON_TENANTS];

/* Leases that a client was told of. */
static uint64_t *told;
static size_t n_told, told_room;
static bool restored;

void checks_init(void)
{
	n_told = 0;
	memset(usages, 0, sizeof(usages));
}

void checks_end(void)
{
	free(told);
	told = NULL;
	n_told = told_room = 0;
}

/* ---- patterns ---- */

MODULAR static unsigned hash(uint64_t lease, uint64_t offset)
{
	uint32_t value = (uint32_t)offset * UINT32_C(2654435761) ^
			 (uint32_t)(lease >> 4) * UINT32_C(2246822519) ^
			 (uint32_t)lease * UINT32_C(3266489917);

	return (value ^ value >> 13) >> 7 & 15;
}

unsigned char pattern(uint64_t lease, uint64_t offset, unsigned version)
{
	return (unsigned char)(hash(lease, offset) << 4 | version);
}

int pattern_version(uint64_t lease, uint64_t offset, unsigned char byte)
{
	if (byte == 0)
		return 0;
	if (!(byte & 15) || byte >> 4 != hash(lease, offset))
		return -1;
	return byte & 15;
}

/* ---- owners ---- */

void owners_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	sim_vfail(format, args);
}

static struct sums *sums_of(const struct tenant *tenant)
{
	for (unsigned i = 0; i < DAEMON_TENANTS; i++)
		if (strcmp(daemon_tenants[i], tenant->name) == 0)
			return &sums[i];
	sim_fail("a tenant %s exists", tenant->name);
}

static void segment_sum(const struct segment *segment)
{
	sums_of(segment->lease->tenant)->bytes += segment->extent.bytes;
}

static void lease_sum(const struct lease *lease)
{
	for (unsigned i = 0; i < lease->n_segments; i++)
		segment_sum(lease->segments[i]);
}

/* What the tenants' leases have. */
static void sums_find(void)
{
	const struct leases *leases = daemon_control.leases;

	memset(sums, 0, sizeof(sums));
	list_for_each_entry(const struct lease, lease, &leases->all, all) {
		sums_of(lease->tenant)->n_leases++;
		lease_sum(lease);
	}
	list_for_each_entry(const struct lease, lease, &leases->ended, all)
		lease_sum(lease);
	list_for_each_entry(const struct segment, segment, &leases->releasing,
			    releasing)
		segment_sum(segment);
}

/* ---- after each step ---- */

static void check_grown(const char *tenant, const char *what, uint64_t before,
			uint64_t now, uint64_t max)
{
	if (!restored && now > before && max && now > max)
		sim_fail("tenant %s may have %llu %s, and gets %llu", tenant,
			 (number)max, what, (number)now);
}

static void check_tenant(const struct tenant *tenant)
{
	const struct sums *sum = sums_of(tenant);
	struct usage *usage = &usages[sum - sums];

	if (tenant->bytes != sum->bytes)
		sim_fail("tenant %s counts %llu bytes, and its leases have %llu",
			 tenant->name, (number)tenant->bytes, (number)sum->bytes);
	if (tenant->n_leases != sum->n_leases)
		sim_fail("tenant %s counts %u leases, and has %u", tenant->name,
			 tenant->n_leases, sum->n_leases);
	check_grown(tenant->name, "bytes", usage->bytes, tenant->bytes,
		    tenant->limits.bytes_max);
	check_grown(tenant->name, "leases", usage->n_leases, tenant->n_leases,
		    tenant->limits.leases_max);
	check_grown(tenant->name, "keys", usage->n_keys, tenant->n_keys,
		    tenant->limits.keys_max);
	*usage = (struct usage){ tenant->bytes, tenant->n_leases, tenant->n_keys };
}

static uint32_t n_keys;

static void check_key(const char *addr, uint64_t bytes, uint64_t lease)
{
	for (uint64_t i = 0; i < bytes; i += PAGE)
		if (owner_at(addr + i) != lease)
			sim_fail("a key of lease %llu reaches a page of lease %llu",
				 (number)lease, (number)owner_at(addr + i));
}

/* A session that was silent for fence_ms has no channels, nor has one whose key was removed.  What
 * came while the daemon itself could not act counts from when it could. */
static void check_channel(unsigned client)
{
	uint64_t heard_ns = links[client].heard_ns, silent_ns = 0;

	if (heard_ns < daemon_awake_ns)
		heard_ns = daemon_awake_ns;
	if (heard_ns < sim_now_ns)
		silent_ns = sim_now_ns - heard_ns;
	/* it looks at the sessions again in slices, also when a pause comes first */
	if (keys_removed(client) && !slices_wait(&daemon_control.slices))
		sim_fail("client %u has a channel, and its key was removed", client);
	if (silent_ns <= daemon_config.fence_ms * SIM_MS)
		return;
	sim_fail("client %u was silent for %llu ms, and has a channel", client,
		 (number)(silent_ns / SIM_MS));
}

void check_step(void)
{
	if (!daemon_up)
		return;
	owners_find(daemon_control.leases, daemon_control.pools);
	sums_find();
	n_keys = 0;
	list_for_each_entry(const struct tenant, tenant, &daemon_control.tenants->all,
			    link) {
		check_tenant(tenant);
		n_keys += tenant->n_keys;
	}
	if (n_keys != fabric_keys())
		sim_fail("the tenants count %u keys, and the devices have %u", n_keys,
			 fabric_keys());
	fabric_each_mr(check_key);
	fabric_check_growth();
	shares_check();
	if (!daemon_ready())
		fabric_each_channel(check_channel);
}

/* ---- bytes ---- */

static void check_segment(const struct segment *segment, uint64_t offset)
{
	const unsigned char *at = extent_addr(&segment->extent);
	uint64_t lease = segment->lease->id;

	for (uint64_t i = 0; i < segment->bytes; i++)
		if (pattern_version(lease, offset + i, at[i]) < 0)
			sim_fail("lease %llu has the byte %#x at %llu, of nobody's",
				 (number)lease, at[i], (number)(offset + i));
}

void check_bytes(void)
{
	if (!daemon_up)
		return;
	list_for_each_entry(const struct lease, lease, &daemon_control.leases->all,
			    all) {
		uint64_t offset = 0;

		for (unsigned i = 0; i < lease->n_segments; i++) {
			check_segment(lease->segments[i], offset);
			offset += lease->segments[i]->bytes;
		}
	}
}

void check_restored(void)
{
	/* with limits that may be lower than what is lent */
	restored = true;
	check_step();
	restored = false;
	check_bytes();
}

static bool range_is_zero(const char *at, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i++)
		if (at[i])
			return false;
	return true;
}

static void check_page_zero(const struct owners *at, uint64_t page, const char *name)
{
	if (!at->lease[page] && !range_is_zero(at->addr + page * PAGE, PAGE))
		sim_fail("page %llu of pool %s is free, and not zero", (number)page,
			 name);
}

static int check_detached(const struct lease_status *status, void *arg)
{
	(void)arg;
	if (!*status->name || status->sessions)
		sim_fail("lease %llu \"%s\" is left, attached by %u sessions",
			 (number)status->id, status->name, status->sessions);
	return 0;
}

void check_rest(void)
{
	check_step();
	check_bytes();
	if (sessions_count(daemon_control.sessions))
		sim_fail("%u sessions are left",
			 sessions_count(daemon_control.sessions));
	if (fabric_keys())
		sim_fail("%u keys are left", fabric_keys());
	(void)leases_each(daemon_control.leases, 0, check_detached, NULL);
	for (unsigned i = 0; i < n_owners; i++) {
		struct pool_status status = pools_status(daemon_control.pools, i);

		if (status.scrubbing)
			sim_fail("%llu bytes of pool %s are still scrubbed",
				 (number)status.scrubbing, status.name);
		for (uint64_t k = 0; owners[i].addr && k < status.bytes / PAGE; k++)
			check_page_zero(&owners[i], k, status.name);
	}
}

/* ---- as it happens ---- */

static bool was_told(uint64_t lease)
{
	for (size_t i = n_told; i > 0; i--)
		if (told[i - 1] == lease)
			return true;
	return false;
}

static void tell(uint64_t lease)
{
	if (n_told == told_room) {
		uint64_t *room = sim_alloc((told_room * 2 + 64) * sizeof(*room));

		if (n_told)
			memcpy(room, told, n_told * sizeof(*room));
		free(told);
		told = room;
		told_room = told_room * 2 + 64;
	}
	told[n_told++] = lease;
}

void check_message(const struct wire_msg *msg)
{
	const struct lease *lease;

	for (unsigned i = 0; msg->type == WIRE_TYPE_lease && i < msg->lease.n_keys; i++)
		fabric_key_told(msg->lease.keys[i].rkey);
	if (msg->type == WIRE_TYPE_lease)
		sim_note("  lease %llu of %llu bytes", (number)msg->lease.lease,
			 (number)msg->lease.bytes);
	if (msg->type != WIRE_TYPE_lease || was_told(msg->lease.lease))
		return;
	lease = leases_find_id(daemon_control.leases, msg->lease.lease);
	if (!lease)
		sim_fail("lease %llu is granted, and does not exist",
			 (number)msg->lease.lease);
	for (unsigned i = 0; i < lease->n_segments; i++) {
		const struct segment *segment = lease->segments[i];

		if (!range_is_zero(extent_addr(&segment->extent), segment->bytes))
			sim_fail("lease %llu is not zero when it is granted",
				 (number)lease->id);
	}
	tell(lease->id);
}

static const char *freed_at;
static uint64_t freed_bytes;

static void check_unreached(const char *addr, uint64_t bytes, uint64_t lease)
{
	if (addr < freed_at + freed_bytes && freed_at < addr + bytes)
		sim_fail("memory is freed while a key of lease %llu reaches it",
			 (number)lease);
}

void check_freed(const struct extent *extent)
{
	freed_at = extent_addr(extent);
	freed_bytes = extent->bytes;
	fabric_each_mr(check_unreached);
}

void check_access(unsigned client, const char *at, uint64_t bytes, uint64_t lease)
{
	if (!bytes)
		return;
	if (owner_at(at) != lease || owner_at(at + bytes - 1) != lease)
		sim_fail("client %u reaches a page of lease %llu through lease %llu",
			 client, (number)owner_at(at), (number)lease);
	check_channel(client);
}

void check_attached(unsigned client, uint64_t session, uint64_t lease)
{
	const struct lease *of = leases_find_id(daemon_control.leases, lease);

	if (sessions_find(daemon_control.sessions, session) &&
	    !(of && attachment_find(of, session)))
		sim_fail("client %u has lease %llu attached, and the daemon does not "
			 "know of it",
			 client, (number)lease);
}

void check_late_write(char *at, uint64_t bytes, uint64_t lease)
{
	const struct lease *of = leases_find_id(daemon_control.leases, lease);

	if (owner_at(at) != lease || owner_at(at + bytes - 1) != lease)
		sim_fail("a late write reaches a page of lease %llu through lease %llu",
			 (number)owner_at(at), (number)lease);
	for (unsigned i = 0; of && of->state != WIRE_LEASE_ENDED && i < of->n_segments;
	     i++) {
		const struct segment *segment = of->segments[i];
		const char *from = extent_addr(&segment->extent);

		/* nothing is written where the lease goes on */
		if (at < from + segment->bytes && from < at + bytes)
			return;
	}
	sim_note("  a late write through a dying key of lease %llu, %llu bytes at %p",
		 (number)lease, (number)bytes, (void *)at);
	memset(at, 0xee, bytes);
}
