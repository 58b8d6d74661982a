/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/session_requests.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/err.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/session_record.h"
#include "rmemd/control/session_table.h"
#include "rmemd/state/ledger.h"

/* What it does outlives its connection, and done twice would be done once too often.
 * Channels and keys end with the connection: those are asked for anew. */
static bool lasting(const struct wire_msg *msg)
{
	switch (msg->type) {
	case WIRE_TYPE_allocate:
	case WIRE_TYPE_free:
	case WIRE_TYPE_detach:
	case WIRE_TYPE_renew:
	case WIRE_TYPE_rename:
	case WIRE_TYPE_resize:
	case WIRE_TYPE_remove:
		return true;
	case WIRE_TYPE_attach:
		return msg->attach.lease == 0;
	default:
		return false;
	}
}

static bool ending(const struct wire_msg *msg)
{
	return msg->type == WIRE_TYPE_free || msg->type == WIRE_TYPE_detach ||
	       msg->type == WIRE_TYPE_remove;
}

/* ---- requests that wait ---- */

static void keep(struct session *session, uint64_t id, enum wire_type type,
		 uint64_t lease, int err, const char *text)
{
	const struct reply answer = {
		.id = id,
		.lease = lease,
		.type = type,
		.err = err,
	};

	uint64_t dropped =
		reply_cache_add(&session->replies, &answer, err ? text : NULL);

	if (dropped)
		reply_unrecord(session, dropped);
	if (dropped != id)
		reply_record(session, &answer, err ? text : NULL);
	/* what was done, and that it was, take effect together */
	ledger_commit(session->sessions->control->ledger);
}

static void request_done(struct lease_waiter *waiter, int err, const char *text)
{
	struct request *request = container_of(waiter, struct request, waiter);
	struct wire_msg *out = &request->session->sessions->control->out;
	struct connection *connection = request->connection;
	uint64_t lease = 0;

	out->type = WIRE_TYPE_ok;
	if (!err && waiter->attachment) {
		out->type = WIRE_TYPE_lease;
		lease_describe(waiter->attachment, &out->lease);
		lease = out->lease.lease;
	}
	out->id = request->id;
	if (request->keep)
		keep(request->session, request->id, request->type, lease, err, text);
	request_free(request);
	if (!connection)
		return;
	if (err)
		connection_send_error(connection, out->id, err, text);
	else
		connection_send(connection, out);
}

int request_create(struct connection *connection, const struct wire_msg *msg,
		   struct request **ret_request)
{
	struct session *session = connection->session;
	struct request *request;

	if (session->n_requests == REQUESTS_MAX)
		return err_set(-EDQUOT, "%d requests of this session wait already",
			       REQUESTS_MAX);
	request = calloc(1, sizeof(*request));
	if (!request)
		return err_set(-ENOMEM, "no memory for a request");
	request->waiter.done = request_done;
	request->session = session;
	request->connection = connection;
	request->id = msg->id;
	request->lease = msg->type == WIRE_TYPE_resize ? msg->resize.lease : 0;
	request->type = msg->type;
	request->keep = lasting(msg);
	list_append(&session->requests, &request->link);
	session->n_requests++;
	*ret_request = request;
	return 0;
}

void request_free(struct request *request)
{
	list_remove(&request->link);
	request->session->n_requests--;
	free(request);
}

/* ---- repeated ones ---- */

static struct request *find_waiting(const struct session *session, uint64_t id)
{
	list_for_each(node, &session->requests) {
		struct request *request = container_of(node, struct request, link);

		if (request->id == id)
			return request;
	}
	return NULL;
}

/* Give the same answer without doing anything, but with keys that work now. */
static int answer_again(struct connection *connection, const struct wire_msg *msg,
			const struct reply *answer, struct wire_msg *out)
{
	struct request *request;
	int err;

	if (answer->err)
		return err_set(answer->err, "%s",
			       answer->text ? answer->text
					    : "it failed, as told before");
	if (!answer->lease) {
		out->type = WIRE_TYPE_ok;
		return HANDLER_ANSWER;
	}
	err = request_create(connection, msg, &request);
	if (err)
		return err;
	request->keep = false;
	err = lease_rekey(connection->control->leases,
			  session_holder(connection->session), answer->lease,
			  &request->waiter);
	if (err) {
		request_free(request);
		return err;
	}
	return HANDLER_LATER;
}

#define NOT_SEEN 2

/* The answer to a request with an id that does not rise, or NOT_SEEN: it is to be handled.
 *
 * On one connection ids come in order, so it is from a client that has resumed and repeats
 * what it has no answer to, in order and before new requests.  What is neither under way
 * nor kept never arrived, or was undone as its connection was lost, or is so old that its
 * answer was dropped; only in that last case must it not be handled. */
static int look_up(struct connection *connection, const struct wire_msg *msg,
		   struct wire_msg *out)
{
	struct session *session = connection->session;
	struct request *waiting = find_waiting(session, msg->id);
	const struct reply *answer = reply_cache_find(&session->replies, msg->id);

	if ((waiting && waiting->type != msg->type) ||
	    (answer && answer->type != msg->type)) {
		(void)err_set(-EPROTO, "%s has the id %" PRIu64 " of another request",
			      wire_type_name(msg->type), msg->id);
		connection_refuse(connection, msg->id, -EPROTO, err_text());
		return HANDLER_LATER;
	}
	if (waiting) {
		waiting->connection = connection;
		return HANDLER_LATER;
	}
	if (answer)
		return answer_again(connection, msg, answer, out);
	if (lasting(msg) && msg->id <= session->replies.dropped_id)
		return err_set(-EPROTO,
			       "request %" PRIu64 " is older than the last %d, whose "
			       "answers are kept: what became of it is not known",
			       msg->id, REPLY_CACHE_MAX);
	return NOT_SEEN;
}

int request_handle(struct connection *connection, const struct wire_msg *msg,
		   struct wire_msg *out, handler *handle)
{
	struct session *session = connection->session;
	int result = NOT_SEEN;

	if (msg->id <= session->last_id)
		result = look_up(connection, msg, out);
	else
		session->last_id = msg->id;
	if (result != NOT_SEEN)
		return result;
	if (lasting(msg)) {
		/* what cannot be told again is not begun */
		result = reply_record_reserve(session);
		if (result)
			return result;
	}
	/* what ends takes effect at once, and its keys die, also with the process: whoever
	 * asks for it again is told that it is done */
	if (ending(msg))
		reply_record(session,
			     &(struct reply){ .id = msg->id, .type = msg->type }, NULL);
	result = handle(connection, msg, out);
	if (result != HANDLER_LATER && lasting(msg))
		keep(session, msg->id, msg->type, 0, result, err_text());
	return result;
}

/* ---- losing who asked ---- */

/* It cannot be undone, and needs nobody to go on. */
static bool unstoppable(const struct request *request)
{
	return request->type == WIRE_TYPE_free || request->type == WIRE_TYPE_detach ||
	       request->type == WIRE_TYPE_rename || request->type == WIRE_TYPE_remove;
}

static struct request *find_stoppable(const struct session *session)
{
	list_for_each(node, &session->requests) {
		struct request *request = container_of(node, struct request, link);

		if (!unstoppable(request))
			return request;
	}
	return NULL;
}

void requests_orphan(struct session *session)
{
	struct request *request;

	list_for_each(node, &session->requests)
		container_of(node, struct request, link)->connection = NULL;
	/* the end of one may be the end of others */
	while ((request = find_stoppable(session))) {
		if (!lease_waiter_cancel(&request->waiter))
			keep(session, request->id, request->type, request->lease, 0,
			     NULL);
		request_free(request);
	}
}

void requests_cancel(struct session *session)
{
	struct request *request;

	while ((request = list_first(&session->requests, struct request, link))) {
		(void)lease_waiter_cancel(&request->waiter);
		request_free(request);
	}
}
