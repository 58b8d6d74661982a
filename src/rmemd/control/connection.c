/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/connection.h"

#include <stdio.h>

#include "base/err.h"
#include "base/log.h"
#include "base/utf8.h"
#include "rmemd/control/session.h"
#include "rmemd/state/ledger.h"

void connection_init(struct connection *connection, const struct connection_ops *ops,
		     struct control *control, const struct fabric_address *address)
{
	*connection = (struct connection){
		.ops = ops, .control = control, .auth = "none", .address = *address
	};
	(void)fabric_address_text(address, connection->name);
}

void connection_send(struct connection *connection, const struct wire_msg *msg)
{
	/* the effect of a request and its reply take effect together, and no client learns of a
	 * change that the next process would not know */
	ledger_commit(connection->control->ledger);
	connection->ops->send(connection, msg);
}

void connection_send_code(struct connection *connection, uint64_t id,
			  enum wire_code code, const char *text)
{
	struct wire_msg *out =
		control_message(connection->control, WIRE_TYPE_error, id);

	out->error.code = code;
	/* a client accepts only whole characters */
	(void)snprintf(out->error.text, sizeof(out->error.text), "%.*s",
		       (int)utf8_cut(text, WIRE_NAME_MAX), text);
	connection->control->counters.requests_failed++;
	connection->control->counters.requests_refused[request_refusal_of(code)]++;
	connection_send(connection, out);
}

void connection_send_error(struct connection *connection, uint64_t id, int err,
			   const char *text)
{
	connection_send_code(connection, id, wire_code_of(err), text);
}

void connection_send_ok(struct connection *connection, uint64_t id)
{
	connection_send(connection,
			control_message(connection->control, WIRE_TYPE_ok, id));
}

void connection_close(struct connection *connection)
{
	if (connection->closed)
		return;
	connection->closed = true;
	connection->ops->close(connection);
}

bool connection_stalled(struct connection *connection)
{
	return connection->ops->stalled && connection->ops->stalled(connection);
}

void connection_refused(struct control *control, enum refusal refusal, const char *peer,
			const char *why)
{
	control->counters.connections_refused++;
	control->counters.refused[refusal]++;
	log_event(LOG_NOTICE, "connection-refused", &(struct log_ctx){ .peer = peer },
		  "%s", why);
}

void connection_refuse(struct connection *connection, uint64_t id, enum refusal refusal,
		       int err, const char *text)
{
	const struct session *session = connection->session;
	const char *tenant = session ? session->lease_client.tenant->name : NULL;

	log_event(LOG_NOTICE, "request-refused",
		  &(struct log_ctx){ .peer = connection->name, .tenant = tenant },
		  "%s; the connection ends", text);
	connection->control->counters.refused[refusal]++;
	connection_send_error(connection, id, err, text);
	connection_close(connection);
}
