/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/peer.h"

#include <stdio.h>

#include "base/err.h"
#include "base/log.h"
#include "rmemd/control/session.h"
#include "rmemd/state/ledger.h"

void peer_init(struct peer *peer, const struct peer_ops *ops, struct control *control,
	       const char *name)
{
	*peer = (struct peer){ .ops = ops, .control = control };
	(void)snprintf(peer->name, sizeof(peer->name), "%s", name);
}

void peer_gone(struct peer *peer, const char *why)
{
	peer->closed = true;
	sessions_peer_gone(peer->control->sessions, peer, why);
}

void peer_idle(struct peer *peer)
{
	if (peer->session)
		session_deliver(peer->session);
}

void peer_send(struct peer *peer, const struct wire_msg *msg)
{
	/* nobody is told what another process would not know */
	ledger_commit(peer->control->ledger);
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
	log_event(LOG_NOTICE, "request-refused",
		  &(struct log_ctx){ .peer = peer->name }, "%s; the connection ends",
		  text);
	peer_send_error(peer, id, err, text);
	peer_close(peer);
}
