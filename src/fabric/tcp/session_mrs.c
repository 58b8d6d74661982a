/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/session_mrs.h"

#include <errno.h>

#include "base/err.h"
#include "fabric/notifications.h"
#include "fabric/tcp/session_streams.h"

void tcp_mr_remove(struct fabric_mr *mr)
{
	struct fabric_server *server = mr->session->server;

	server->stats.exposures--;
	server->stats.exposed_bytes -= mr->bytes;
	list_remove(&mr->link);
	tcp_mr_free(mr);
}

static void mr_remove_keys(struct fabric_mr *mr, unsigned n)
{
	struct fabric_server *server = mr->session->server;

	while (n > 0) {
		n--;
		tcp_table_remove(&server->threads[n].table, &mr->entries[n]);
	}
}

static int mr_add_keys(struct fabric_mr *mr)
{
	struct fabric_session *session = mr->session;
	struct fabric_server *server = session->server;

	for (unsigned i = 0; i < mr->n_entries; i++) {
		int err;

		mr->entries[i].streams = &session->parts[i].streams;
		err = tcp_table_add(&server->threads[i].table, &mr->entries[i]);
		if (!err)
			continue;
		mr_remove_keys(mr, i);
		return err;
	}
	return 0;
}

/* No stream uses the region. */
static void mr_deregistered(struct tcp_event *event)
{
	struct fabric_mr *mr = container_of(event, struct fabric_mr, event);
	struct fabric_session *session = mr->session;
	struct fabric_server *server = session->server;
	void *cookie = mr->cookie;

	tcp_mr_remove(mr);
	/* the callee may close the session, so this is the last use of it */
	tcp_session_check_closed(session);
	server->events->mr_deregistered(server->ctx, cookie);
}

/* The last notifications come before the event that ends the region. */
static void mr_notifications(struct tcp_event *event)
{
	struct fabric_mr *mr =
		container_of(event, struct fabric_mr, notifications_event);
	const struct fabric_server *server = mr->session->server;

	fabric_notifications_deliver(&mr->notifications, server->events, server->ctx,
				     mr->session->cookie, mr->cookie);
}

int tcp_mr_reg(struct fabric_session *session, void *addr, size_t bytes,
	       unsigned rights, void *cookie, struct fabric_mr **ret_mr,
	       struct fabric_key *ret_key)
{
	struct fabric_server *server = session->server;
	struct fabric_mr *mr;
	int err;

	if (session->closing)
		return err_set(-ESHUTDOWN, "the session is being closed");
	if (bytes == 0 || (rights & ~(FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE)) != 0)
		return err_set(-EINVAL, "registering %zu bytes with rights %#x", bytes,
			       rights);
	err = tcp_mr_new(session, addr, bytes, rights, cookie, server->n_threads, &mr);
	if (err)
		return err;
	mr->event.handle = mr_deregistered;
	mr->notifications_event.handle = mr_notifications;
	mr->box = &server->mailbox;
	err = mr_add_keys(mr);
	if (err) {
		tcp_mr_free(mr);
		return err;
	}
	list_append(&session->mrs, &mr->link);
	server->stats.exposures++;
	server->stats.exposed_bytes += bytes;
	*ret_key = mr->key;
	*ret_mr = mr;
	return 1;
}

/* False: a stream may use the region. */
static bool mr_is_unused(struct fabric_mr *mr)
{
	bool unused = true;

	list_for_each_entry(struct tcp_conn, conn, &mr->session->conns, in_session) {
		bool ended = tcp_conn_has_ended(conn);

		/* a stream that has ended touches no memory once it is quiet */
		if (ended)
			conn->quiet = conn->quiet || tcp_conn_is_quiet(conn);
		if (ended ? !conn->quiet : !tcp_conn_try_release_mr(conn, mr))
			unused = false;
	}
	return unused;
}

/* True: no stream uses the region; false: an event will come. */
static bool mr_stop(struct fabric_mr *mr)
{
	struct fabric_server *server = mr->session->server;

	mr_remove_keys(mr, mr->n_entries);
	if (mr_is_unused(mr))
		return true;
	atomic_store(&mr->pending, mr->n_entries);
	for (unsigned i = 0; i < mr->n_entries; i++) {
		mr->entries[i].command.kind = TCP_COMMAND_DEREG_MR;
		mailbox_post(&server->threads[i].commands,
			     &mr->entries[i].command.link);
	}
	return false;
}

bool tcp_mr_dereg(struct fabric_mr *mr)
{
	struct fabric_session *session = mr->session;

	if (!mr_stop(mr))
		return false;
	/* pending notifications are delivered first */
	if (fabric_notifications_pending(&mr->notifications)) {
		mailbox_post(&session->server->mailbox, &mr->event.link);
		return false;
	}
	tcp_mr_remove(mr);
	tcp_session_check_closed(session);
	return true;
}
