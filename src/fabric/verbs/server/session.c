/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/session.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "fabric/verbs/common/context.h"
#include "fabric/verbs/server/channel.h"
#include "fabric/verbs/server/device.h"
#include "fabric/verbs/server/mr.h"

static struct fabric_server *server_of(const struct fabric_session *session)
{
	return session->endpoint->server;
}

/* The session's tenant, with a reference, or NULL: no memory.  Without the event, each session is a
 * tenant of its own. */
static struct verbs_tenant *tenant_get(const struct fabric_session *session)
{
	const struct fabric_server *server = server_of(session);
	struct list *tenants = &session->endpoint->device->tenants;
	const void *name = session;
	struct verbs_tenant *added;

	if (server->events->tenant)
		name = server->events->tenant(server->ctx, session->cookie);
	list_for_each_entry(struct verbs_tenant, tenant, tenants, link) {
		if (tenant->name != name)
			continue;
		tenant->refs++;
		return tenant;
	}
	added = calloc(1, sizeof(*added));
	if (!added)
		return NULL;
	added->name = name;
	added->refs = 1;
	for (unsigned i = 0; i < VERBS_N_WORKERS; i++)
		workers_queue_init(&added->queues[i]);
	list_append(tenants, &added->link);
	return added;
}

/* The session has no job under way. */
static void tenant_put(struct verbs_tenant *tenant)
{
	if (--tenant->refs > 0)
		return;
	list_remove(&tenant->link);
	free(tenant);
}

static void pd_free(struct fabric_session *session)
{
	struct verbs_device *device = session->endpoint->device;
	int err = ibv_dealloc_pd(session->pd);

	session->pd = NULL;
	device->n_pds--;
	if (err)
		verbs_endpoint_report(
			session->endpoint,
			": ibv_dealloc_pd gives %d: a protection domain is lost", err);
}

static void session_free(struct fabric_session *session)
{
	list_remove(&session->link);
	tenant_put(session->tenant);
	map_destroy(&session->mrs_by_rkey);
	fair_lock_destroy(&session->lock);
	free(session);
}

static void session_deliver_closed(struct verbs_message *message)
{
	struct fabric_session *session =
		container_of(message, struct fabric_session, closed);
	struct fabric_server *server = server_of(session);
	void *cookie = session->cookie;

	session_free(session);
	server->events->session_closed(server->ctx, cookie);
}

/* Release the protection domain once nothing is in it; end a closing session once it has no
 * memory region. */
static void session_finish(struct fabric_session *session)
{
	struct verbs_device *device = session->endpoint->device;

	if (session->pd && !session->n_mrs && list_empty(&session->channels) &&
	    list_empty(&session->ending) && (session->closing || device->removed)) {
		pd_free(session);
		verbs_device_put(device);
	}
	if (!session->closing || session->ended || !list_empty(&session->mrs) ||
	    !list_empty(&session->ending))
		return;
	session->ended = true;
	mailbox_post(&server_of(session)->mailbox, &session->closed.link);
}

static void session_deliver_refused(struct verbs_message *message)
{
	struct fabric_session *session =
		container_of(message, struct fabric_session, refused_message);
	const struct fabric_server *server = server_of(session);
	unsigned n = atomic_exchange(&session->refused, 0);

	if (server->events->access_refused)
		server->events->access_refused(server->ctx, session->cookie, n);
}

int verbs_session_open(struct fabric_server *server, unsigned number, void *cookie,
		       struct fabric_session **ret_session)
{
	struct verbs_endpoint *endpoint = server->endpoints[number];
	struct verbs_device *device = endpoint->device;
	struct fabric_session *session;
	int err = verbs_endpoint_check(endpoint);

	if (err)
		return err;
	session = calloc(1, sizeof(*session));
	if (!session)
		return err_errno(-ENOMEM, "an RDMA session");
	session->endpoint = endpoint;
	session->cookie = cookie;
	session->tenant = tenant_get(session);
	if (!session->tenant) {
		err = err_errno(-ENOMEM, "an RDMA session");
		goto err_free;
	}
	session->pd = ibv_alloc_pd(device->verbs);
	if (!session->pd) {
		err = verbs_failure(err_errno(verbs_errno(),
					      "RDMA device %s: ibv_alloc_pd",
					      device->attr.name));
		goto err_tenant;
	}
	device->n_pds++;
	session->released = session_finish;
	session->closed.deliver = session_deliver_closed;
	session->refused_message.deliver = session_deliver_refused;
	list_init(&session->channels);
	list_init(&session->ending);
	list_init(&session->mrs);
	fair_lock_init(&session->lock);
	map_init(&session->mrs_by_rkey);
	session->memory = verbs_mr_memory(session);
	list_append(&endpoint->sessions, &session->link);
	*ret_session = session;
	return 0;

err_tenant:
	tenant_put(session->tenant);
err_free:
	free(session);
	return err;
}

void verbs_session_close(struct fabric_session *session)
{
	session->closing = true;
	verbs_channel_end_all(session, NULL);
	session_finish(session);
}

void verbs_session_abandon(struct fabric_session *session, const char *why)
{
	if (!session->closing)
		verbs_channel_end_all(session, why);
	list_for_each_entry(struct fabric_mr, mr, &session->mrs, link)
		verbs_mr_abandon(mr);
	session_finish(session);
}

void verbs_session_end_all(struct verbs_endpoint *endpoint)
{
	list_for_each_entry(struct fabric_session, session, &endpoint->sessions, link) {
		verbs_channel_end_all(session, NULL);
		list_for_each_entry(struct fabric_mr, mr, &session->mrs, link)
			verbs_mr_abandon(mr);
	}
}

void verbs_session_free_channels(struct verbs_endpoint *endpoint)
{
	list_for_each_entry(struct fabric_session, session, &endpoint->sessions, link) {
		list_for_each_entry_safe(struct verbs_channel, channel,
					 &session->ending, link)
			verbs_channel_ended_free(channel);
	}
}

void verbs_session_free_all(struct verbs_endpoint *endpoint)
{
	list_for_each_entry_safe(struct fabric_session, session, &endpoint->sessions,
				 link) {
		list_for_each_entry_safe(struct fabric_mr, mr, &session->mrs, link)
			verbs_mr_free(mr);
		if (session->pd)
			(void)ibv_dealloc_pd(session->pd);
		session_free(session);
	}
}
