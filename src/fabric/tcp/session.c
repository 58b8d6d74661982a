/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/session.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "fabric/tcp/session_mrs.h"
#include "fabric/tcp/session_streams.h"

/* ---- tenants ---- */

struct tcp_tenant {
	struct list link;         /* server->tenants */
	const void *name;         /* from fabric_server_events.tenant; compared only */
	unsigned refs;            /* of its sessions */
	struct tcp_group ready[]; /* its sessions, in each thread */
};

/* NULL: no memory */
static struct tcp_tenant *tenant_get(struct fabric_server *server, const void *name)
{
	struct tcp_tenant *added;

	list_for_each_entry(struct tcp_tenant, tenant, &server->tenants, link) {
		if (tenant->name != name)
			continue;
		tenant->refs++;
		return tenant;
	}
	added = calloc(1, sizeof(*added) + server->n_parts * sizeof(added->ready[0]));
	if (!added)
		return NULL;
	added->name = name;
	added->refs = 1;
	for (unsigned i = 0; i < server->n_parts; i++)
		tcp_group_init(&added->ready[i], &server->threads[i].ready, false);
	list_append(&server->tenants, &added->link);
	return added;
}

static void tenant_put(struct tcp_tenant *tenant)
{
	if (--tenant->refs > 0)
		return;
	list_remove(&tenant->link);
	free(tenant);
}

/* ---- sessions ---- */

void tcp_session_free(struct fabric_session *session)
{
	list_for_each_entry_safe(struct tcp_conn, conn, &session->conns, in_session)
		tcp_conn_remove(conn);
	list_for_each_entry_safe(struct fabric_mr, mr, &session->mrs, link)
		tcp_mr_remove(mr);
	tenant_put(session->tenant);
	list_remove(&session->link);
	free(session);
}

static void part_closed(struct tcp_event *event)
{
	struct fabric_session *session =
		container_of(event, struct tcp_part, closed)->session;

	session->n_closing--;
	tcp_session_check_closed(session);
}

static void session_closed(struct tcp_event *event)
{
	struct fabric_session *session =
		container_of(event, struct fabric_session, closed);
	struct fabric_server *server = session->server;
	void *cookie = session->cookie;

	tcp_session_free(session);
	server->events->session_closed(server->ctx, cookie);
}

static void part_init(struct fabric_session *session, unsigned thread)
{
	struct tcp_part *part = &session->parts[thread];

	part->session = session;
	part->command.kind = TCP_COMMAND_CLOSE;
	part->closed.handle = part_closed;
	list_init(&part->streams);
	tcp_group_init(&part->ready, &session->tenant->ready[thread], true);
}

int tcp_session_open(struct fabric_server *server, unsigned endpoint, void *cookie,
		     struct fabric_session **ret_session)
{
	struct fabric_session *session = calloc(
		1, sizeof(*session) + server->n_parts * sizeof(session->parts[0]));
	/* without the event, each session is a tenant of its own */
	const void *tenant = session;

	(void)endpoint;
	if (!session)
		return err_errno(-ENOMEM, "a session");
	session->server = server;
	session->cookie = cookie;
	if (server->events->tenant)
		tenant = server->events->tenant(server->ctx, cookie);
	session->tenant = tenant_get(server, tenant);
	if (!session->tenant) {
		free(session);
		return err_errno(-ENOMEM, "a session");
	}
	session->closed.handle = session_closed;
	session->until_ns = UINT64_MAX;
	list_init(&session->conns);
	list_init(&session->waiting);
	list_init(&session->mrs);
	for (unsigned i = 0; i < server->n_parts; i++)
		part_init(session, i);
	list_append(&server->sessions, &session->link);
	*ret_session = session;
	return 0;
}

/* A thread that looks at a stream later would find the new limit, so overdue streams end before. */
void tcp_session_extend(struct fabric_session *session, uint64_t until_ns)
{
	if (clock_now_ns() >= session->until_ns)
		list_for_each_entry(struct tcp_conn, conn, &session->conns, in_session)
			tcp_conn_stop(conn);
	session->until_ns = until_ns;
}

/* Its streams may be thousands, and to shut one down is a system call: their threads do that, as
 * work of the session. */
void tcp_session_close(struct fabric_session *session)
{
	struct fabric_server *server = session->server;

	if (session->closing)
		return;
	session->closing = true;
	/* from here on no thread begins a request */
	session->until_ns = 0;
	list_for_each_entry_safe(struct tcp_conn, conn, &session->waiting, command.link)
		tcp_conn_drop_waiting(conn);
	if (!list_empty(&session->conns))
		session->n_closing = server->n_parts;
	for (unsigned i = 0; i < session->n_closing; i++)
		mailbox_post(&server->threads[i].commands,
			     &session->parts[i].command.link);
	tcp_session_check_closed(session);
}
