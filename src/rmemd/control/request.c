/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/err.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/session.h"
#include "rmemd/state/ledger.h"

/* ---- replies that are remembered ---- */

/* A refused allocate has changed nothing, so a client that repeats it may get it done afresh, and
 * requests of clients that are refused write nothing.
 *
 * Not so if a later request has come meanwhile.  Then the reply of that one may be dropped before
 * this request is repeated, which would count as too old.  Otherwise those that are dropped are of
 * earlier requests: a client has fewer than REPLY_CACHE_MAX others without a reply, and one of a
 * tenant that has its share of replies should have fewer than REPLY_CACHE_MIN. */
static bool may_forget(const struct session *session, const struct reply *reply)
{
	return reply->code && reply->type == WIRE_TYPE_allocate &&
	       reply->id == session->last_id;
}

void request_remember(struct session *session, const struct reply *reply,
		      const char *text)
{
	uint64_t dropped = may_forget(session, reply)
				   ? reply->id
				   : reply_cache_add(&session->replies, reply, text);

	if (dropped)
		reply_unrecord(session, dropped);
	if (dropped != reply->id)
		reply_record(session, reply);
}

/* ---- requests that wait ---- */

void request_free(struct request *request)
{
	list_remove(&request->link);
	request->session->n_requests--;
	free(request);
}

static void request_done(struct lease_waiter *waiter, int err, const char *text)
{
	struct request *request = container_of(waiter, struct request, waiter);
	struct control *control = request->session->sessions->control;
	struct connection *connection = request->connection;
	struct wire_msg *out = &control->out;
	struct reply reply = { .id = request->id,
			       .type = request->type,
			       .code = wire_code_of(err) };

	out->type = WIRE_TYPE_ok;
	if (!err && waiter->attachment) {
		out->type = WIRE_TYPE_lease;
		lease_describe(waiter->attachment, &out->lease);
		reply.lease = out->lease.lease;
	}
	out->id = request->id;
	if (request->flags & REQUEST_REMEMBERED)
		request_remember(request->session, &reply, err ? text : NULL);
	request_free(request);
	if (!connection)
		ledger_commit(control->ledger);
	else if (err)
		connection_send_code(connection, out->id, reply.code, text);
	else
		connection_send(connection, out);
}

int request_create(struct session *session, const struct wire_msg *msg, unsigned flags,
		   struct request **ret_request)
{
	struct request *request;

	if (session->n_requests == REQUESTS_MAX)
		return err_set(-EDQUOT, "%d requests of this session wait already",
			       REQUESTS_MAX);
	request = calloc(1, sizeof(*request));
	if (!request)
		return err_set(-ENOMEM, "no memory for a request");
	request->waiter.done = request_done;
	request->session = session;
	request->connection = session->connection;
	request->id = msg->id;
	request->lease = msg->type == WIRE_TYPE_resize ? msg->resize.lease : 0;
	request->type = msg->type;
	request->flags = flags;
	list_append(&session->requests, &request->link);
	session->n_requests++;
	*ret_request = request;
	return 0;
}

/* ---- repeated ones ---- */

static struct request *find_waiting(const struct session *session, uint64_t id)
{
	list_for_each_entry(struct request, request, &session->requests, link) {
		if (request->id == id)
			return request;
	}
	return NULL;
}

/* Repeat a remembered reply without handling the request; a lease gets new keys. */
static int reply_again(struct session *session, const struct wire_msg *msg,
		       const struct reply *reply)
{
	struct request *request;
	int err;

	if (reply->code) {
		connection_send_code(session->connection, msg->id, reply->code,
				     reply->text
					     ? reply->text
					     : "it failed; the text of the error is "
					       "no longer known");
		return HANDLER_LATER;
	}
	if (!reply->lease)
		return HANDLER_OK;
	/* an error would tell the client that it does not have the lease: let it ask again */
	if (request_create(session, msg, 0, &request)) {
		connection_close(session->connection);
		return HANDLER_LATER;
	}
	/* as the error of the first request would, this one means that the client has no lease */
	request->waiter.ends_lease = msg->type == WIRE_TYPE_allocate;
	request->waiter.ends_attachment = msg->type == WIRE_TYPE_attach;
	err = lease_reattach(session->sessions->control->leases, &session->lease_client,
			     reply->lease, &request->waiter);
	if (!err)
		return HANDLER_LATER;
	request_free(request);
	return err;
}

/* A request whose id does not rise.
 *
 * On one connection ids rise, so the client has resumed and repeats its unanswered requests, in
 * order and before new requests.  A request that is neither under way nor remembered never
 * arrived, or was undone when its connection was lost, or was a refused allocate, or is so old
 * that its reply was dropped; only in that last case it must not be handled. */
static int handle_repeated(struct session *session, const struct wire_msg *msg,
			   unsigned flags)
{
	struct request *waiting = find_waiting(session, msg->id);
	const struct reply *reply = reply_cache_find(&session->replies, msg->id);

	if ((waiting && waiting->type != msg->type) ||
	    (reply && reply->type != msg->type)) {
		(void)err_set(-EPROTO, "%s has the id %" PRIu64 " of another request",
			      wire_type_name(msg->type), msg->id);
		connection_refuse(session->connection, msg->id, REFUSAL_PROTOCOL,
				  -EPROTO, err_text());
		return HANDLER_LATER;
	}
	if (waiting) {
		waiting->connection = session->connection;
		return HANDLER_LATER;
	}
	if (reply)
		return reply_again(session, msg, reply);
	if ((flags & REQUEST_REMEMBERED) && msg->id <= session->replies.dropped_id)
		return err_set(-ENODATA,
			       "request %" PRIu64
			       " is older than those whose replies are "
			       "remembered: what became of it is not known",
			       msg->id);
	return REQUEST_NEW;
}

int request_begin(struct session *session, const struct wire_msg *msg, unsigned flags)
{
	int result = REQUEST_NEW;

	if (msg->id <= session->last_id)
		result = handle_repeated(session, msg, flags);
	else
		session->last_id = msg->id;
	if (result != REQUEST_NEW)
		return result;
	if (flags & REQUEST_REMEMBERED) {
		/* a reply that is not remembered would be a request that takes effect twice */
		int err =
			reply_cache_reserve(&session->replies, session->n_requests + 1);

		if (!err)
			err = reply_record_reserve(session, msg->id);
		if (err)
			return err;
	}
	/* a client that repeats the request, even after a restart, gets this reply */
	if (flags & REQUEST_ENDS)
		reply_record(session,
			     &(struct reply){ .id = msg->id, .type = msg->type });
	return REQUEST_NEW;
}

/* ---- the connection or the session ends ---- */

static struct request *find_undoable(const struct session *session)
{
	list_for_each_entry(struct request, request, &session->requests, link) {
		if (!(request->flags & REQUEST_GOES_ON))
			return request;
	}
	return NULL;
}

void requests_orphan(struct session *session)
{
	struct request *request;

	list_for_each_entry(struct request, orphan, &session->requests, link)
		orphan->connection = NULL;
	/* cancelling one request may end others */
	while ((request = find_undoable(session))) {
		const struct reply done = { .id = request->id,
					    .type = request->type,
					    .lease = request->lease };

		if (!lease_waiter_cancel(&request->waiter))
			request_remember(session, &done, NULL);
		else if (request->flags & REQUEST_REMEMBERED)
			reply_unrecord(session, request->id);
		request_free(request);
	}
	ledger_commit(session->sessions->control->ledger);
}

void requests_cancel(struct session *session)
{
	struct request *request;

	while ((request = list_first(&session->requests, struct request, link))) {
		(void)lease_waiter_cancel(&request->waiter);
		request_free(request);
	}
}

void requests_free(struct session *session)
{
	struct request *request;

	while ((request = list_first(&session->requests, struct request, link)))
		request_free(request);
}
