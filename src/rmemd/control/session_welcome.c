/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "fabric/inband.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/control.h"
#include "rmemd/control/endpoint_address.h"
#include "rmemd/control/request.h"
#include "rmemd/control/session.h"

void session_welcome(struct session *session, uint64_t hello_id, bool resumed,
		     enum wire_fabric first)
{
	const struct control *control = session->sessions->control;
	const struct config *config = control->config;
	struct connection *connection = session->connection;
	const struct tenant_limits *limits = &session->lease_client.tenant->limits;
	uint64_t max = limits->lease_max;
	uint8_t endpoint = 0;
	uint32_t channel = session_open_first(session, first, &endpoint);
	struct wire_msg *out =
		control_message(connection->control, WIRE_TYPE_welcome, hello_id);

	memset(&out->welcome, 0, sizeof(out->welcome));
	_Static_assert((int)WIRE_FABRIC_TCP == (int)FABRIC_TCP &&
			       (int)WIRE_FABRIC_VERBS == (int)FABRIC_VERBS &&
			       WIRE_ENDPOINT_CONFIRM == FABRIC_ENDPOINT_CONFIRM &&
			       WIRE_ENDPOINT_ATOMICS == FABRIC_ENDPOINT_ATOMICS &&
			       WIRE_ENDPOINT_DIRECT == FABRIC_ENDPOINT_DIRECT &&
			       WIRE_ENDPOINT_INBAND == FABRIC_ENDPOINT_INBAND,
		       "the fabric's kinds and flags are the protocol's");
	out->welcome.version = connection->version;
	out->welcome.capabilities = connection->capabilities;
	out->welcome.session = session->lease_client.id;
	memcpy(out->welcome.token, session->token, WIRE_TOKEN_BYTES);
	memcpy(out->welcome.secret, connection->secret, WIRE_SECRET_BYTES);
	out->welcome.resumed = resumed;
	out->welcome.heartbeat_ms = (uint32_t)config->heartbeat_ms;
	/* the client counts from the sending of its heartbeats, so it always stops first */
	out->welcome.fence_ms = (uint32_t)session_silence_max_ms(config);
	out->welcome.grace_ms = (uint32_t)config->grace_ms;
	out->welcome.channels_max = config->channels_max;
	if (limits->channels_max && limits->channels_max < config->channels_max)
		out->welcome.channels_max = limits->channels_max;
	out->welcome.requests_max = REQUESTS_MAX;
	out->welcome.stream_bytes_max = FABRIC_STREAM_BYTES_MAX;
	out->welcome.inband_bytes_max = FABRIC_INBAND_BYTES_MAX;
	out->welcome.inband_requests_max = INBAND_CREDITS;
	out->welcome.lease_bytes_max =
		max && max < control->memory_bytes ? max : control->memory_bytes;
	memcpy(out->welcome.server, control->server, sizeof(control->server));
	for (unsigned i = 0; i < control->endpoints.n; i++) {
		const struct endpoint *at = &control->endpoints.at[i];
		const struct fabric_endpoint *info = at->info;
		const struct fabric_address address =
			endpoint_address(at, &connection->address);
		struct wire_endpoint *item = &out->welcome.endpoints[i];

		item->fabric = (uint8_t)info->kind;
		item->version = FABRIC_VERSION;
		item->family = address.family;
		memcpy(item->address, address.bytes, sizeof(item->address));
		item->port = address.port;
		item->node = info->node;
		item->flags = info->flags;
		if (*info->device && (control->sole & (1u << i)))
			item->flags |= WIRE_ENDPOINT_SOLE;
		(void)snprintf(item->device, sizeof(item->device), "%s", info->device);
	}
	out->welcome.n_endpoints = (uint16_t)control->endpoints.n;
	out->welcome.channel = channel;
	out->welcome.endpoint = endpoint;
	connection_send(connection, out);
}
