/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests about leases. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "rmemd/control/handler.h"
#include "rmemd/control/peer.h"
#include "rmemd/control/request.h"
#include "rmemd/control/session.h"

/* The request was handed to the leases: then they have it answered. */
static int handed(struct request *request, int err)
{
	if (!err)
		return HANDLER_LATER;
	request_free(request);
	return err;
}

int handle_allocate(struct peer *peer, const struct wire_msg *msg, struct wire_msg *out)
{
	const struct lease_params params = {
		.bytes = msg->allocate.bytes,
		.align = msg->allocate.align,
		.node = msg->allocate.node,
		.ttl_ms = msg->allocate.ttl_ms,
		.name = msg->allocate.name,
	};
	struct request *request;
	int err;

	(void)out;
	err = request_create(peer, msg, &request);
	if (err)
		return err;
	return handed(request, lease_allocate(peer->control->leases,
					      session_holder(peer->session), &params,
					      &request->waiter));
}

int handle_free(struct peer *peer, const struct wire_msg *msg, struct wire_msg *out)
{
	struct request *request;
	int err;

	(void)out;
	err = request_create(peer, msg, &request);
	if (err)
		return err;
	return handed(request,
		      lease_free(peer->control->leases, session_holder(peer->session),
				 msg->free.lease, &request->waiter));
}

int handle_attach(struct peer *peer, const struct wire_msg *msg, struct wire_msg *out)
{
	struct holder *holder = session_holder(peer->session);
	const struct wire_attach *attach = &msg->attach;
	struct request *request;
	int err;

	(void)out;
	if (!attach->lease == !*attach->name)
		return err_set(-EINVAL, "attach needs either a name or a lease's id");
	err = request_create(peer, msg, &request);
	if (err)
		return err;
	if (attach->lease)
		err = lease_rekey(peer->control->leases, holder, attach->lease,
				  &request->waiter);
	else
		err = lease_attach(peer->control->leases, holder, attach->name,
				   attach->rights, &request->waiter);
	return handed(request, err);
}

int handle_detach(struct peer *peer, const struct wire_msg *msg, struct wire_msg *out)
{
	struct request *request;
	int err;

	(void)out;
	err = request_create(peer, msg, &request);
	if (err)
		return err;
	return handed(request,
		      lease_detach(peer->control->leases, session_holder(peer->session),
				   msg->detach.lease, &request->waiter));
}

int handle_renew(struct peer *peer, const struct wire_msg *msg, struct wire_msg *out)
{
	int err = lease_renew(peer->control->leases, session_holder(peer->session),
			      msg->renew.lease, msg->renew.ttl_ms);

	if (err)
		return err;
	out->type = WIRE_TYPE_ok;
	return HANDLER_ANSWER;
}

int handle_rename(struct peer *peer, const struct wire_msg *msg, struct wire_msg *out)
{
	const struct wire_rename *rename = &msg->rename;
	struct request *request;
	int err;

	(void)out;
	if (rename->flags & ~WIRE_RENAME_REPLACE)
		return err_set(-EINVAL, "rename: unknown flags %#x", rename->flags);
	err = request_create(peer, msg, &request);
	if (err)
		return err;
	return handed(request,
		      lease_rename(peer->control->leases, session_holder(peer->session),
				   rename->lease, rename->name,
				   rename->flags & WIRE_RENAME_REPLACE,
				   &request->waiter));
}

int handle_resize(struct peer *peer, const struct wire_msg *msg, struct wire_msg *out)
{
	struct request *request;
	int err;

	(void)out;
	err = request_create(peer, msg, &request);
	if (err)
		return err;
	return handed(request,
		      lease_resize(peer->control->leases, session_holder(peer->session),
				   msg->resize.lease, msg->resize.bytes,
				   &request->waiter));
}

int handle_remove(struct peer *peer, const struct wire_msg *msg, struct wire_msg *out)
{
	struct request *request;
	int err;

	(void)out;
	err = request_create(peer, msg, &request);
	if (err)
		return err;
	return handed(request, lease_remove(session_holder(peer->session)->tenant,
					    msg->remove.name, &request->waiter));
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

int handle_stat(struct peer *peer, const struct wire_msg *msg, struct wire_msg *out)
{
	struct lease_status status;
	int err;

	err = lease_stat(session_holder(peer->session)->tenant, msg->stat.name,
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

int handle_list(struct peer *peer, const struct wire_msg *msg, struct wire_msg *out)
{
	out->type = WIRE_TYPE_entries;
	out->entries.more = 0;
	out->entries.n_entries = 0;
	(void)leases_each_named(peer->control->leases,
				session_holder(peer->session)->tenant, msg->list.after,
				msg->list.prefix, list_one, &out->entries);
	return HANDLER_ANSWER;
}
