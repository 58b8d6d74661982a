/* SPDX-License-Identifier: BSD-3-Clause */
/* The requests of sessions.  Each ends with leases_run(), which may call done(). */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/fanout.h"
#include "rmemd/lease/ledger_record.h"

/* ---- lookups ---- */

static int find_granted(const struct tenant *tenant, const char *name,
			struct lease **ret_lease)
{
	struct lease *lease = leases_find_name(tenant, name);

	if (!lease || lease->state != WIRE_LEASE_READY)
		return err_set(-ENOENT, "there is no lease named %s", QUOTED(name));
	*ret_lease = lease;
	return 0;
}

/* A lease of the tenant, or one that another tenant shares with it with these rights.  -ENOENT,
 * -EACCES */
static int find_reachable(struct tenant *tenant, const struct lease_owner *owner,
			  const char *name, unsigned rights, struct lease **ret_lease)
{
	if (!*owner->name || owner->tenant == tenant)
		return find_granted(tenant, name, ret_lease);
	return share_find(tenant, owner->tenant, owner->name, name, rights, ret_lease);
}

/* The client's attachment of a lease that is granted, or NULL. */
static struct attachment *find_attachment(const struct leases *leases,
					  const struct lease_client *client,
					  uint64_t id)
{
	const struct lease *lease = leases_find_id(leases, id);

	return lease && lease->state == WIRE_LEASE_READY
		       ? attachment_find(lease, client->id)
		       : NULL;
}

/* -ESTALE.  The text does not reveal whether another tenant has such a lease, but it is counted. */
static int set_missing_error(const struct leases *leases,
			     const struct lease_client *client, uint64_t id)
{
	const struct lease *lease = leases_find_id(leases, id);

	if (lease && lease->tenant != client->tenant)
		client->tenant->denied[RIGHTS_DENY_SHARES]++;
	return err_set(-ESTALE,
		       "lease %" PRIu64 " has ended, or this session does not have it",
		       id);
}

/* The client's attachment, with these rights, which the tenant must have too.  -ESTALE, -EACCES */
static int find_attached(const struct leases *leases, const struct lease_client *client,
			 uint64_t id, unsigned rights,
			 struct attachment **ret_attachment)
{
	struct attachment *attachment = find_attachment(leases, client, id);

	if (!attachment)
		return set_missing_error(leases, client, id);
	if (rights & ~attachment->rights)
		return err_set(-EACCES,
			       "lease %" PRIu64 " is attached for reading only", id);
	if (rights & WIRE_RIGHT_WRITE && rights_check_write(client->tenant))
		return -EACCES;
	*ret_attachment = attachment;
	return 0;
}

/* The client's attachment of a lease of its tenant, with the right to write.  -ESTALE, -EACCES */
static int find_owned(const struct leases *leases, const struct lease_client *client,
		      uint64_t id, struct attachment **ret_attachment)
{
	struct attachment *attachment = NULL;
	int err = find_attached(leases, client, id, WIRE_RIGHT_WRITE, &attachment);

	if (!err)
		err = share_check_owner(client->tenant, attachment->lease);
	if (!err)
		*ret_attachment = attachment;
	return err;
}

/* ---- allocating ---- */

int lease_check_params(const struct lease_params *params)
{
	if (!lease_align_good(params->align))
		return err_set(-EINVAL,
			       "an alignment of %" PRIu64
			       ": not a power of two up to 1 GiB",
			       params->align);
	if (params->node < POOL_NODE_ANY)
		return err_set(-EINVAL, "there is no node %d", params->node);
	if (params->placement > WIRE_PLACE_INTERLEAVE)
		return err_set(-EINVAL, "there is no placement %u", params->placement);
	return 0;
}

int lease_allocate(struct leases *leases, struct lease_client *client,
		   const struct lease_params *params, struct lease_waiter *waiter)
{
	struct lease_params granted = *params;
	struct tenant *tenant = client->tenant;
	struct attachment *attachment = NULL;
	struct lease *lease = NULL;
	int err = tenant_check_open(tenant);

	if (!err)
		err = rights_check_write(tenant);
	if (!err && *params->name)
		err = rights_check_name(tenant, params->name);
	if (!err)
		err = tenant_check_length(tenant, 0, params->bytes);
	/* the time of a lease without a name begins when it gets one, but is checked now */
	if (!err && (*params->name || params->ttl_ms))
		err = tenant_limit_ttl(tenant, params->ttl_ms, &granted.ttl_ms);
	if (!err)
		err = lease_create(leases, client, &granted, &lease);
	if (err)
		return err;
	err = tenant_check_attachment(tenant);
	if (!err)
		err = attachment_add(lease, client, WIRE_RIGHT_READ | WIRE_RIGHT_WRITE,
				     &attachment);
	if (err) {
		lease_terminate(lease, WIRE_REASON_FREED, NULL);
	} else {
		waiter_add(waiter, LEASE_WAIT_GRANT, lease, attachment);
		lease_want_memory(waiter, params->bytes);
	}
	leases_run(leases);
	return err;
}

/* ---- attaching ---- */

/* A session that has announced no endpoints and has no channel may still open the right
 * channels. */
static int check_reach(const struct lease *lease, const struct lease_client *client)
{
	unsigned endpoints = lease_client_endpoints(client);

	for (unsigned i = 0; endpoints && i < lease->n_segments; i++)
		if (!(extent_pool(&lease->segments[i]->extent).endpoints & endpoints))
			return err_set(
				-ENOTSUP,
				"%s lies in pool %s, which is lent through other RDMA "
				"devices than this session uses: use them, or TCP",
				QUOTED(lease->name),
				extent_pool(&lease->segments[i]->extent).name);
	return 0;
}

int lease_check_rights(unsigned rights)
{
	if (rights == WIRE_RIGHT_READ || rights == (WIRE_RIGHT_READ | WIRE_RIGHT_WRITE))
		return 0;
	return err_set(-EINVAL, "rights %#x: reading, or reading and writing", rights);
}

int lease_attach(struct leases *leases, struct lease_client *client,
		 const struct lease_owner *owner, const char *name, unsigned rights,
		 struct lease_waiter *waiter)
{
	struct attachment *attachment = NULL;
	struct lease *lease = NULL;
	int err = find_reachable(client->tenant, owner, name, rights, &lease);

	if (!err && rights & WIRE_RIGHT_WRITE)
		err = rights_check_write(client->tenant);
	if (err)
		return err;
	/* a request that is repeated was found by its id, whether it took effect or not */
	if (find_attachment(leases, client, lease->id))
		return err_set(-EALREADY, "this session has %s attached already",
			       QUOTED(name));
	err = tenant_check_open(client->tenant);
	if (!err)
		err = check_reach(lease, client);
	if (!err)
		err = tenant_check_attachment(client->tenant);
	if (!err && !lease->visited)
		err = lease_record_reserve(lease);
	if (!err)
		err = attachment_add(lease, client, rights, &attachment);
	if (err)
		return err;
	if (!lease->visited) {
		lease->visited = true;
		(void)lease_record(lease);
	}
	waiter_add(waiter, LEASE_WAIT_ATTACH, lease, attachment);
	leases_run(leases);
	return 0;
}

int lease_reattach(struct leases *leases, struct lease_client *client, uint64_t id,
		   struct lease_waiter *waiter)
{
	struct attachment *attachment = NULL;
	int err = find_attached(leases, client, id, WIRE_RIGHT_READ, &attachment);

	if (err)
		return err;
	attachment->fenced = false;
	waiter_add(waiter, LEASE_WAIT_REKEY, attachment->lease, attachment);
	leases_run(leases);
	return 0;
}

/* ---- ending ---- */

static void end_and_wait(struct lease *lease, enum wire_reason reason,
			 const struct lease_client *except, struct lease_waiter *waiter)
{
	struct leases *leases = lease->leases;

	waiter_add(waiter, LEASE_WAIT_END, lease, NULL);
	lease_terminate(lease, reason, except);
	leases_run(leases);
}

int lease_detach(struct leases *leases, struct lease_client *client, uint64_t id,
		 bool undo, struct lease_waiter *waiter)
{
	struct attachment *attachment = NULL;
	int err = find_attached(leases, client, id, WIRE_RIGHT_READ, &attachment);

	if (err)
		return err;
	if (attachment->lease->owner || (undo && !attachment->lease->visited)) {
		end_and_wait(attachment->lease, WIRE_REASON_FREED, client, waiter);
		return 0;
	}
	waiter_add(waiter, LEASE_WAIT_END, attachment->lease, NULL);
	attachment_end(attachment);
	leases_run(leases);
	return 0;
}

int lease_free(struct leases *leases, struct lease_client *client, uint64_t id,
	       struct lease_waiter *waiter)
{
	struct attachment *attachment = NULL;
	int err = find_owned(leases, client, id, &attachment);

	if (err)
		return err;
	end_and_wait(attachment->lease, WIRE_REASON_FREED, client, waiter);
	return 0;
}

int lease_remove(struct tenant *tenant, const char *name, struct lease_waiter *waiter)
{
	struct lease *lease = NULL;
	int err = find_granted(tenant, name, &lease);

	if (!err)
		err = rights_check_write(tenant);
	if (err)
		return err;
	end_and_wait(lease, WIRE_REASON_FREED, NULL, waiter);
	return 0;
}

/* ---- changing ---- */

/* Give an ephemeral lease a name, and with it the time to live that it was allocated with, or the
 * tenant's limit. */
static int make_named(struct lease *lease, const char *name)
{
	uint64_t ttl_ms = 0;
	int err = tenant_check_open(lease->tenant);

	if (!err)
		err = tenant_limit_ttl(lease->tenant, lease->ttl_ms, &ttl_ms);
	if (!err)
		err = lease_set_name(lease, name);
	if (!err)
		lease_set_ttl(lease, ttl_ms);
	return err;
}

int lease_rename(struct leases *leases, struct lease_client *client, uint64_t id,
		 const char *name, bool replace, struct lease_waiter *waiter)
{
	struct attachment *attachment = NULL;
	struct lease *lease, *victim;
	int err = find_owned(leases, client, id, &attachment);

	if (!err)
		err = rights_check_name(client->tenant, name);
	if (err)
		return err;
	lease = attachment->lease;
	victim = leases_find_name(lease->tenant, name);
	if (victim && victim != lease &&
	    (!replace || victim->state != WIRE_LEASE_READY))
		return err_set(-EEXIST, "there is a lease named %s already",
			       QUOTED(name));
	if (victim != lease) {
		err = lease_record_reserve(lease);
		/* both leases have the name until the victim ends, below */
		if (!err)
			err = lease->owner ? make_named(lease, name)
					   : lease_set_name(lease, name);
		if (err)
			return err;
		(void)lease_record(lease);
	}
	if (victim && victim != lease)
		end_and_wait(victim, WIRE_REASON_REPLACED, NULL, waiter);
	else
		waiter->done(waiter, 0, "");
	return 0;
}

int lease_resize(struct leases *leases, struct lease_client *client, uint64_t id,
		 uint64_t bytes, struct lease_waiter *waiter)
{
	struct attachment *attachment = NULL;
	struct lease *lease;
	int err = find_owned(leases, client, id, &attachment);

	if (err)
		return err;
	lease = attachment->lease;
	if (lease->resizing)
		return err_set(-EBUSY, "lease %" PRIu64 " is being resized already",
			       id);
	if (bytes > lease->bytes)
		err = tenant_check_open(lease->tenant);
	if (!err)
		err = tenant_check_length(lease->tenant, lease->bytes, bytes);
	if (!err)
		err = lease_record_reserve(lease);
	if (err)
		return err;
	lease->resizing = true;
	if (bytes > lease->bytes) {
		waiter_add(waiter, LEASE_WAIT_GROW, lease, attachment);
		lease_want_memory(waiter, bytes);
	} else {
		if (bytes < lease->bytes)
			lease_cut(lease, bytes, client);
		waiter_add(waiter, LEASE_WAIT_TRIM, lease, attachment);
	}
	leases_run(leases);
	return 0;
}

int lease_renew(struct leases *leases, struct lease_client *client, uint64_t id,
		uint64_t ttl_ms, bool same)
{
	struct attachment *attachment = NULL;
	int err = find_owned(leases, client, id, &attachment);

	if (err)
		return err;
	if (attachment->lease->owner)
		return err_set(
			-EINVAL,
			"lease %" PRIu64 " has no name; it ends with its session", id);
	if (same)
		ttl_ms = attachment->lease->ttl_ms;
	err = tenant_limit_ttl(client->tenant, ttl_ms, &ttl_ms);
	if (!err)
		err = lease_record_reserve(attachment->lease);
	if (err)
		return err;
	lease_set_ttl(attachment->lease, ttl_ms);
	(void)lease_record(attachment->lease);
	return 0;
}

int lease_fix_atomic_device(struct leases *leases, struct lease_client *client,
			    uint64_t id, const struct fabric_endpoint *endpoint,
			    struct lease_atomic_device *ret_device)
{
	struct attachment *attachment = NULL;
	struct lease_atomic_device *device;
	int err = find_attached(leases, client, id, WIRE_RIGHT_WRITE, &attachment);

	if (err)
		return err;
	device = &attachment->lease->atomic_device;
	if (!device->kind) {
		if (!(endpoint->flags & FABRIC_ENDPOINT_ATOMICS))
			return err_set(-ENOTSUP, "%s%s has no atomics",
				       endpoint->kind == FABRIC_VERBS ? "RDMA device "
								      : "tcp",
				       endpoint->device);
		err = lease_record_reserve(attachment->lease);
		if (err)
			return err;
		device->kind = endpoint->kind;
		memcpy(device->name, endpoint->device, sizeof(device->name));
		(void)lease_record(attachment->lease);
	}
	*ret_device = *device;
	return 0;
}

int lease_stat(struct tenant *tenant, const struct lease_owner *owner, const char *name,
	       struct lease_status *ret_status)
{
	struct lease *lease = NULL;
	int err = find_reachable(tenant, owner, name, WIRE_RIGHT_READ, &lease);

	if (!err)
		*ret_status = lease_status(lease);
	return err;
}

/* ---- sharing ---- */

static bool stays_shared(const struct attachment *attachment)
{
	return share_covers(attachment->lease, attachment->client->tenant,
			    attachment->rights);
}

int lease_share(struct leases *leases, struct lease_client *client, uint64_t id,
		const char *tenant, unsigned rights, struct lease_waiter *waiter)
{
	struct attachment *attachment = NULL;
	struct lease *lease;
	int err = find_owned(leases, client, id, &attachment);

	if (err)
		return err;
	lease = attachment->lease;
	if (lease->owner)
		return err_set(-EINVAL, "lease %" PRIu64 " has no name: name it first",
			       id);
	if (strcmp(tenant, client->tenant->name) == 0)
		return err_set(-EINVAL, "lease %" PRIu64 " belongs to tenant %s itself",
			       id, tenant);
	err = lease_record_reserve(lease);
	if (!err)
		err = share_set(lease, tenant, rights);
	if (err)
		return err;
	(void)lease_record(lease);
	waiter_add(waiter, LEASE_WAIT_END, lease, NULL);
	sweep_start(lease, stays_shared, WIRE_REASON_UNSHARED, 0);
	leases_run(leases);
	return 0;
}

/* ---- watching ---- */

int lease_watch(struct leases *leases, struct lease_client *client, uint64_t id)
{
	struct attachment *attachment = NULL;
	int err = find_attached(leases, client, id, WIRE_RIGHT_READ, &attachment);

	if (err || !list_empty(&attachment->watching))
		return err;
	err = lease_record_reserve(attachment->lease);
	if (!err && client->n_watches == 0)
		err = notices_open(&client->notices, LEASE_CLIENT_NOTICES_MAX);
	if (!err)
		err = fanout_watch(attachment);
	if (err && client->n_watches == 0)
		notices_close(&client->notices);
	if (err)
		return err;
	client->n_watches++;
	(void)attachment_record(attachment);
	return 0;
}

int lease_unwatch(struct leases *leases, struct lease_client *client, uint64_t id)
{
	struct attachment *attachment = NULL;
	int err = find_attached(leases, client, id, WIRE_RIGHT_READ, &attachment);

	if (!err)
		err = lease_record_reserve(attachment->lease);
	if (err)
		return err;
	attachment_unwatch(attachment);
	(void)attachment_record(attachment);
	return 0;
}
