/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests about leases. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "rmemd/control/handlers.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/session_requests.h"
#include "rmemd/control/session.h"

/* Hand a request over to the leases, which have it answered. */
typedef int starter(struct leases *leases, struct holder *holder,
		    const struct wire_msg *msg, struct lease_waiter *waiter);

static int handed_over(struct request *request, int err)
{
	if (!err)
		return HANDLER_LATER;
	request_free(request);
	return err;
}

static int hand_over(struct connection *connection, const struct wire_msg *msg,
		     starter *start)
{
	struct request *request;
	int err;

	err = request_create(connection, msg, &request);
	if (err)
		return err;
	err = start(connection->control->leases, session_holder(connection->session),
		    msg, &request->waiter);
	return handed_over(request, err);
}

/* Where the session says that it has channels, or is going to. */
static void take_reach(const struct connection *connection, unsigned reach)
{
	const struct endpoints *endpoints = connection->control->endpoints;
	struct holder *holder = session_holder(connection->session);

	holder->reach = reach & endpoints_all(endpoints);
	holder->n_nodes = 0;
	for (unsigned i = 0; i < endpoints->n; i++) {
		int node = endpoints->at[i].facts->node;
		unsigned k = 0;

		if (node < 0 || !(reach & (1u << i)))
			continue;
		while (k < holder->n_nodes && holder->nodes[k] != node)
			k++;
		if (k == holder->n_nodes)
			holder->nodes[holder->n_nodes++] = node;
	}
}

/* The node that is asked for, which may be that of a device. */
static int node_asked(const struct endpoints *endpoints,
		      const struct wire_allocate *allocate, int *ret_node)
{
	bool by_device = allocate->placement == WIRE_PLACE_DEVICE;

	if (by_device == !*allocate->device)
		return err_set(-EINVAL,
			       "a device goes with placement %d, and with no other",
			       WIRE_PLACE_DEVICE);
	if (allocate->placement != WIRE_PLACE_NODE && allocate->node != POOL_NODE_ANY)
		return err_set(-EINVAL, "a node goes with placement %d alone",
			       WIRE_PLACE_NODE);
	if (by_device)
		return endpoints_node(endpoints, allocate->device, ret_node);
	*ret_node = allocate->node;
	return 0;
}

int handle_allocate(struct connection *connection, const struct wire_msg *msg,
		    struct wire_msg *out)
{
	struct lease_params params = {
		.bytes = msg->allocate.bytes,
		.align = msg->allocate.align,
		.placement = (enum wire_placement)msg->allocate.placement,
		.ttl_ms = msg->allocate.ttl_ms,
		.name = msg->allocate.name,
	};
	struct request *request;
	int err;

	(void)out;
	take_reach(connection, msg->allocate.reach);
	err = node_asked(connection->control->endpoints, &msg->allocate, &params.node);
	if (!err)
		err = request_create(connection, msg, &request);
	if (err)
		return err;
	err = lease_allocate(connection->control->leases,
			     session_holder(connection->session), &params,
			     &request->waiter);
	return handed_over(request, err);
}

static int start_free(struct leases *leases, struct holder *holder,
		      const struct wire_msg *msg, struct lease_waiter *waiter)
{
	return lease_free(leases, holder, msg->free.lease, waiter);
}

int handle_free(struct connection *connection, const struct wire_msg *msg,
		struct wire_msg *out)
{
	(void)out;
	return hand_over(connection, msg, start_free);
}

static int start_attach(struct leases *leases, struct holder *holder,
			const struct wire_msg *msg, struct lease_waiter *waiter)
{
	const struct wire_attach *attach = &msg->attach;

	if (attach->lease)
		return lease_rekey(leases, holder, attach->lease, waiter);
	return lease_attach(leases, holder, attach->name, attach->rights, waiter);
}

int handle_attach(struct connection *connection, const struct wire_msg *msg,
		  struct wire_msg *out)
{
	(void)out;
	if (!msg->attach.lease == !*msg->attach.name)
		return err_set(-EINVAL, "attach needs either a name or a lease's id");
	take_reach(connection, msg->attach.reach);
	return hand_over(connection, msg, start_attach);
}

static int start_detach(struct leases *leases, struct holder *holder,
			const struct wire_msg *msg, struct lease_waiter *waiter)
{
	return lease_detach(leases, holder, msg->detach.lease, waiter);
}

int handle_detach(struct connection *connection, const struct wire_msg *msg,
		  struct wire_msg *out)
{
	(void)out;
	return hand_over(connection, msg, start_detach);
}

int handle_renew(struct connection *connection, const struct wire_msg *msg,
		 struct wire_msg *out)
{
	int err = lease_renew(connection->control->leases,
			      session_holder(connection->session), msg->renew.lease,
			      msg->renew.ttl_ms);

	if (err)
		return err;
	out->type = WIRE_TYPE_ok;
	return HANDLER_ANSWER;
}

static int start_rename(struct leases *leases, struct holder *holder,
			const struct wire_msg *msg, struct lease_waiter *waiter)
{
	const struct wire_rename *rename = &msg->rename;

	return lease_rename(leases, holder, rename->lease, rename->name,
			    rename->flags & WIRE_RENAME_REPLACE, waiter);
}

int handle_rename(struct connection *connection, const struct wire_msg *msg,
		  struct wire_msg *out)
{
	(void)out;
	if (msg->rename.flags & ~WIRE_RENAME_REPLACE)
		return err_set(-EINVAL, "rename: unknown flags %#x", msg->rename.flags);
	return hand_over(connection, msg, start_rename);
}

static int start_resize(struct leases *leases, struct holder *holder,
			const struct wire_msg *msg, struct lease_waiter *waiter)
{
	return lease_resize(leases, holder, msg->resize.lease, msg->resize.bytes,
			    waiter);
}

int handle_resize(struct connection *connection, const struct wire_msg *msg,
		  struct wire_msg *out)
{
	(void)out;
	take_reach(connection, msg->resize.reach);
	return hand_over(connection, msg, start_resize);
}

static int start_remove(struct leases *leases, struct holder *holder,
			const struct wire_msg *msg, struct lease_waiter *waiter)
{
	(void)leases;
	return lease_remove(holder->tenant, msg->remove.name, waiter);
}

int handle_remove(struct connection *connection, const struct wire_msg *msg,
		  struct wire_msg *out)
{
	(void)out;
	return hand_over(connection, msg, start_remove);
}

int handle_fix_home(struct connection *connection, const struct wire_msg *msg,
		    struct wire_msg *out)
{
	const struct endpoints *endpoints = connection->control->endpoints;
	unsigned endpoint = msg->fix_home.endpoint;
	struct lease_home home;
	int err;

	if (endpoint >= endpoints->n)
		return err_set(-EINVAL, "there is no endpoint %u", endpoint);
	err = lease_fix_home(connection->control->leases,
			     session_holder(connection->session), msg->fix_home.lease,
			     endpoints->at[endpoint].facts, &home);
	if (err)
		return err;
	out->type = WIRE_TYPE_home;
	out->home.fabric =
		home.kind == FABRIC_VERBS ? WIRE_FABRIC_VERBS : WIRE_FABRIC_TCP;
	(void)snprintf(out->home.device, sizeof(out->home.device), "%s", home.device);
	return HANDLER_ANSWER;
}

int handle_watch(struct connection *connection, const struct wire_msg *msg,
		 struct wire_msg *out)
{
	int err = lease_watch(connection->control->leases,
			      session_holder(connection->session), msg->watch.lease);

	if (err)
		return err;
	out->type = WIRE_TYPE_ok;
	return HANDLER_ANSWER;
}

int handle_unwatch(struct connection *connection, const struct wire_msg *msg,
		   struct wire_msg *out)
{
	int err =
		lease_unwatch(connection->control->leases,
			      session_holder(connection->session), msg->unwatch.lease);

	if (err)
		return err;
	out->type = WIRE_TYPE_ok;
	return HANDLER_ANSWER;
}

static void fill_entry(const struct lease_status *status, struct wire_entry *entry)
{
	*entry = (struct wire_entry){
		.lease = status->id,
		.bytes = status->bytes,
		.age_ms = status->age_ms,
		.ttl_ms = status->ttl_ms,
		.sessions = status->sessions,
		.segments = status->segments,
	};
	(void)snprintf(entry->name, sizeof(entry->name), "%s", status->name);
}

int handle_stat(struct connection *connection, const struct wire_msg *msg,
		struct wire_msg *out)
{
	struct lease_status status;
	int err;

	err = lease_stat(session_holder(connection->session)->tenant, msg->stat.name,
			 &status);
	if (err)
		return err;
	out->type = WIRE_TYPE_entries;
	out->entries.more = 0;
	out->entries.n_entries = 1;
	fill_entry(&status, &out->entries.entries[0]);
	return HANDLER_ANSWER;
}

static int list_one(const struct lease_status *status, void *arg)
{
	struct wire_entries *entries = arg;

	if (entries->n_entries == WIRE_ENTRIES_MAX) {
		entries->more = 1;
		return 1;
	}
	fill_entry(status, &entries->entries[entries->n_entries++]);
	return 0;
}

int handle_list(struct connection *connection, const struct wire_msg *msg,
		struct wire_msg *out)
{
	out->type = WIRE_TYPE_entries;
	out->entries.more = 0;
	out->entries.n_entries = 0;
	(void)leases_each_named(connection->control->leases,
				session_holder(connection->session)->tenant,
				msg->list.after, msg->list.prefix, list_one,
				&out->entries);
	return HANDLER_ANSWER;
}
