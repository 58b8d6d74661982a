/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests about leases. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "rmemd/control/control.h"
#include "rmemd/control/request.h"
#include "rmemd/control/session.h"

static struct leases *leases_of(const struct session *session)
{
	return session->sessions->control->leases;
}

/* Store the endpoints through which the client has channels or will open some, and their nodes. */
static void set_reach(struct session *session, unsigned reach)
{
	const struct endpoints *endpoints = &session->sessions->control->endpoints;
	struct lease_client *lease_client = &session->lease_client;

	lease_client->reach = 0;
	lease_client->n_nodes = 0;
	for (unsigned i = 0; i < endpoints->n; i++) {
		int node = endpoints->at[i].info->node;
		unsigned k = 0;

		if (!(reach & (1u << i)))
			continue;
		lease_client->reach |= 1u << i;
		if (node < 0)
			continue;
		while (k < lease_client->n_nodes && lease_client->nodes[k] != node)
			k++;
		if (k == lease_client->n_nodes)
			lease_client->nodes[lease_client->n_nodes++] = node;
	}
}

static struct lease_params params_of(const struct wire_allocate *allocate)
{
	return (struct lease_params){
		.bytes = allocate->bytes,
		.align = allocate->align,
		.placement = (enum wire_placement)allocate->placement,
		.node = allocate->node,
		.ttl_ms = allocate->ttl_ms,
		.name = allocate->name,
	};
}

int check_allocate(const struct wire_msg *msg)
{
	const struct wire_allocate *allocate = &msg->allocate;
	const struct lease_params params = params_of(allocate);
	bool by_device = allocate->placement == WIRE_PLACE_DEVICE;

	if (by_device == !*allocate->device)
		return err_set(-EINVAL,
			       "a device goes with placement %d, and with no other",
			       WIRE_PLACE_DEVICE);
	if (allocate->placement != WIRE_PLACE_NODE && allocate->node != POOL_NODE_ANY)
		return err_set(-EINVAL, "a node goes with placement %d alone",
			       WIRE_PLACE_NODE);
	return lease_check_params(&params);
}

int check_attach(const struct wire_msg *msg)
{
	const struct wire_attach *attach = &msg->attach;

	if (!attach->lease == !*attach->name)
		return err_set(-EINVAL, "attach needs either a name or a lease's id");
	if (attach->lease && attach->rights)
		return err_set(-EINVAL, "an attach by id has the rights that it has");
	return attach->lease ? 0 : lease_check_rights(attach->rights);
}

int check_rename(const struct wire_msg *msg)
{
	const struct wire_rename *rename = &msg->rename;

	if (rename->flags & ~WIRE_RENAME_REPLACE)
		return err_set(-EINVAL, "rename: unknown flags %#x", rename->flags);
	return *rename->name ? 0 : err_set(-EINVAL, "an empty name");
}

int check_share(const struct wire_msg *msg)
{
	const struct wire_share *share = &msg->share;

	if (!*share->tenant)
		return err_set(-EINVAL, "share needs the name of a tenant");
	return share->rights ? lease_check_rights(share->rights) : 0;
}

int check_detach(const struct wire_msg *msg)
{
	const struct wire_detach *detach = &msg->detach;

	if (detach->flags & ~WIRE_DETACH_UNDO)
		return err_set(-EINVAL, "detach: unknown flags %#x", detach->flags);
	return 0;
}

int start_allocate(struct session *session, const struct wire_msg *msg,
		   struct lease_waiter *waiter)
{
	const struct endpoints *endpoints = &session->sessions->control->endpoints;
	struct lease_params params = params_of(&msg->allocate);
	int err = 0;

	set_reach(session, msg->allocate.reach);
	if (params.placement == WIRE_PLACE_DEVICE)
		err = endpoints_node(endpoints, msg->allocate.device, &params.node);
	if (err)
		return err;
	return lease_allocate(leases_of(session), &session->lease_client, &params,
			      waiter);
}

int start_free(struct session *session, const struct wire_msg *msg,
	       struct lease_waiter *waiter)
{
	return lease_free(leases_of(session), &session->lease_client, msg->free.lease,
			  waiter);
}

static struct lease_owner owner_of(const struct session *session, const char *tenant)
{
	return (struct lease_owner){
		.name = tenant,
		.tenant = tenants_find(session->sessions->control->tenants, tenant),
	};
}

int start_attach(struct session *session, const struct wire_msg *msg,
		 struct lease_waiter *waiter)
{
	const struct wire_attach *attach = &msg->attach;
	const struct lease_owner owner = owner_of(session, attach->tenant);

	set_reach(session, attach->reach);
	if (attach->lease)
		return lease_reattach(leases_of(session), &session->lease_client,
				      attach->lease, waiter);
	return lease_attach(leases_of(session), &session->lease_client, &owner,
			    attach->name, attach->rights, waiter);
}

int start_detach(struct session *session, const struct wire_msg *msg,
		 struct lease_waiter *waiter)
{
	return lease_detach(leases_of(session), &session->lease_client,
			    msg->detach.lease, msg->detach.flags & WIRE_DETACH_UNDO,
			    waiter);
}

int start_rename(struct session *session, const struct wire_msg *msg,
		 struct lease_waiter *waiter)
{
	const struct wire_rename *rename = &msg->rename;

	return lease_rename(leases_of(session), &session->lease_client, rename->lease,
			    rename->name, rename->flags & WIRE_RENAME_REPLACE, waiter);
}

int start_share(struct session *session, const struct wire_msg *msg,
		struct lease_waiter *waiter)
{
	const struct wire_share *share = &msg->share;

	/* a share with a tenant that has left can be ended */
	if (share->rights &&
	    !tenants_find(session->sessions->control->tenants, share->tenant))
		return err_set(-ENOENT, "there is no tenant \"%s\" on this server",
			       share->tenant);
	return lease_share(leases_of(session), &session->lease_client, share->lease,
			   share->tenant, share->rights, waiter);
}

int start_resize(struct session *session, const struct wire_msg *msg,
		 struct lease_waiter *waiter)
{
	set_reach(session, msg->resize.reach);
	return lease_resize(leases_of(session), &session->lease_client,
			    msg->resize.lease, msg->resize.bytes, waiter);
}

int start_remove(struct session *session, const struct wire_msg *msg,
		 struct lease_waiter *waiter)
{
	return lease_remove(session->lease_client.tenant, msg->remove.name, waiter);
}

int handle_renew(struct session *session, const struct wire_msg *msg, struct wire_msg *)
{
	const struct wire_renew *renew = &msg->renew;

	if (renew->flags & ~WIRE_RENEW_SAME)
		return err_set(-EINVAL, "renew: unknown flags %#x", renew->flags);
	return lease_renew(leases_of(session), &session->lease_client, renew->lease,
			   renew->ttl_ms, renew->flags & WIRE_RENEW_SAME);
}

int handle_watch(struct session *session, const struct wire_msg *msg, struct wire_msg *)
{
	return lease_watch(leases_of(session), &session->lease_client,
			   msg->watch.lease);
}

int handle_unwatch(struct session *session, const struct wire_msg *msg,
		   struct wire_msg *)
{
	return lease_unwatch(leases_of(session), &session->lease_client,
			     msg->unwatch.lease);
}

int handle_fix_atomic_device(struct session *session, const struct wire_msg *msg,
			     struct wire_msg *ret_reply)
{
	const struct endpoints *endpoints = &session->sessions->control->endpoints;
	unsigned endpoint = msg->fix_atomic_device.endpoint;
	struct lease_atomic_device device;
	int err;

	if (endpoint >= endpoints->n)
		return err_set(-EINVAL, "there is no endpoint %u", endpoint);
	err = lease_fix_atomic_device(leases_of(session), &session->lease_client,
				      msg->fix_atomic_device.lease,
				      endpoints->at[endpoint].info, &device);
	if (err)
		return err;
	ret_reply->type = WIRE_TYPE_atomic_device;
	ret_reply->atomic_device.fabric = (uint8_t)device.kind;
	(void)snprintf(ret_reply->atomic_device.device,
		       sizeof(ret_reply->atomic_device.device), "%s", device.name);
	return HANDLER_REPLY;
}

int handle_stat(struct session *session, const struct wire_msg *msg,
		struct wire_msg *ret_reply)
{
	const struct lease_owner owner = owner_of(session, msg->stat.tenant);
	struct lease_status status;
	int err = lease_stat(session->lease_client.tenant, &owner, msg->stat.name,
			     &status);

	if (err)
		return err;
	ret_reply->type = WIRE_TYPE_entries;
	ret_reply->entries.more = 0;
	ret_reply->entries.n_entries = 1;
	fill_entry(&status, &ret_reply->entries.entries[0]);
	return HANDLER_REPLY;
}
