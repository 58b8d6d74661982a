/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/peer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/log.h"
#include "rmemd/control/session.h"

void peer_init(struct peer *peer, const struct peer_ops *ops, struct control *control,
	       const char *name)
{
	*peer = (struct peer){ .ops = ops, .control = control };
	list_init(&peer->requests);
	(void)snprintf(peer->name, sizeof(peer->name), "%s", name);
}

void peer_gone(struct peer *peer, const char *why)
{
	peer->closed = true;
	peer_cancel_requests(peer);
	sessions_peer_gone(peer->control->sessions, peer, why);
}

void peer_send(struct peer *peer, const struct wire_msg *msg)
{
	peer->ops->send(peer, msg);
}

void peer_send_error(struct peer *peer, uint64_t id, int err, const char *text)
{
	struct wire_msg *out = &peer->control->out;

	out->type = WIRE_TYPE_error;
	out->id = id;
	out->error.code = (uint32_t)-err;
	(void)snprintf(out->error.text, sizeof(out->error.text), "%s", text);
	peer->control->counters.requests_failed++;
	peer_send(peer, out);
}

void peer_send_ok(struct peer *peer, uint64_t id)
{
	struct wire_msg *out = &peer->control->out;

	out->type = WIRE_TYPE_ok;
	out->id = id;
	peer_send(peer, out);
}

void peer_close(struct peer *peer)
{
	if (peer->closed)
		return;
	peer->closed = true;
	peer->ops->close(peer);
}

void peer_refuse(struct peer *peer, uint64_t id, int err, const char *text)
{
	uint64_t dropped;

	if (quiet_pass(&peer->control->refusals, &dropped))
		log_event(LOG_NOTICE, "request-refused",
			  &(struct log_ctx){ .peer = peer->name },
			  "%s; the connection ends (%" PRIu64 " such lines left out)",
			  text, dropped);
	peer_send_error(peer, id, err, text);
	peer_close(peer);
}

void peer_cancel_requests(struct peer *peer)
{
	struct request *request;

	while ((request = list_first(&peer->requests, struct request, link))) {
		lease_waiter_cancel(&request->waiter);
		request_free(request);
	}
}

static void request_done(struct lease_waiter *waiter, int err, const char *text)
{
	struct request *request = container_of(waiter, struct request, waiter);
	struct peer *peer = request->peer;
	struct wire_msg *out = &peer->control->out;

	if (err) {
		peer_send_error(peer, request->id, err, text);
	} else if (waiter->attachment) {
		out->type = WIRE_TYPE_lease;
		out->id = request->id;
		lease_describe(waiter->attachment, &out->lease);
		peer_send(peer, out);
	} else {
		peer_send_ok(peer, request->id);
	}
	request_free(request);
}

int request_create(struct peer *peer, const struct wire_msg *msg,
		   struct request **ret_request)
{
	struct request *request;

	if (peer->n_requests == PEER_REQUESTS_MAX)
		return err_set(-EDQUOT, "%d requests of this session wait already",
			       PEER_REQUESTS_MAX);
	request = calloc(1, sizeof(*request));
	if (!request)
		return err_set(-ENOMEM, "no memory for a request");
	request->waiter.done = request_done;
	request->peer = peer;
	request->id = msg->id;
	request->type = msg->type;
	list_append(&peer->requests, &request->link);
	peer->n_requests++;
	*ret_request = request;
	return 0;
}

void request_free(struct request *request)
{
	list_remove(&request->link);
	request->peer->n_requests--;
	free(request);
}
