/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "fabric/inband.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/control.h"
#include "rmemd/control/endpoint_address.h"
#include "rmemd/control/request.h"
#include "rmemd/control/session.h"

_Static_assert((int)WIRE_FABRIC_TCP == (int)FABRIC_TCP &&
		       (int)WIRE_FABRIC_VERBS == (int)FABRIC_VERBS &&
		       WIRE_ENDPOINT_CONFIRM == FABRIC_ENDPOINT_CONFIRM &&
		       WIRE_ENDPOINT_ATOMICS == FABRIC_ENDPOINT_ATOMICS &&
		       WIRE_ENDPOINT_DIRECT == FABRIC_ENDPOINT_DIRECT &&
		       WIRE_ENDPOINT_INBAND == FABRIC_ENDPOINT_INBAND,
	       "the fabric's kinds and flags are the protocol's");

static void endpoints_tell(const struct control *control,
			   const struct fabric_address *client,
			   struct wire_welcome *welcome)
{
	for (unsigned i = 0; i < control->endpoints.n; i++) {
		const struct endpoint *at = &control->endpoints.at[i];
		const struct fabric_endpoint *info = at->info;
		const struct fabric_address address = endpoint_address(at, client);
		struct wire_endpoint *item = &welcome->endpoints[i];

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
	welcome->n_endpoints = (uint16_t)control->endpoints.n;
}

static void limits_tell(const struct session *session, struct wire_welcome *welcome)
{
	const struct control *control = session->sessions->control;
	const struct config *config = control->config;
	const struct tenant_limits *limits = &session->lease_client.tenant->limits;
	uint64_t max = limits->lease_max;

	welcome->heartbeat_ms = (uint32_t)config->heartbeat_ms;
	/* the client counts from the sending of its heartbeats, so it always stops first */
	welcome->fence_ms = (uint32_t)session_silence_max_ms(config);
	welcome->grace_ms = (uint32_t)config->grace_ms;
	welcome->channels_max = config->channels_max;
	if (limits->channels_max && limits->channels_max < config->channels_max)
		welcome->channels_max = limits->channels_max;
	welcome->requests_max = REQUESTS_MAX;
	welcome->stream_bytes_max = FABRIC_STREAM_BYTES_MAX;
	welcome->inband_bytes_max = FABRIC_INBAND_BYTES_MAX;
	welcome->inband_requests_max = INBAND_CREDITS;
	welcome->lease_bytes_max =
		max && max < control->memory_bytes ? max : control->memory_bytes;
}

void session_welcome(struct session *session, uint64_t hello_id, bool resumed,
		     enum wire_fabric first)
{
	const struct control *control = session->sessions->control;
	struct connection *connection = session->connection;
	uint8_t endpoint = 0;
	uint32_t channel = session_open_first(session, first, &endpoint);
	struct wire_msg *out =
		control_message(connection->control, WIRE_TYPE_welcome, hello_id);
	struct wire_welcome *welcome = &out->welcome;

	memset(welcome, 0, sizeof(*welcome));
	welcome->version = connection->version;
	welcome->capabilities = connection->capabilities;
	welcome->session = session->lease_client.id;
	memcpy(welcome->token, session->token, WIRE_TOKEN_BYTES);
	memcpy(welcome->secret, connection->secret, WIRE_SECRET_BYTES);
	welcome->resumed = resumed;
	memcpy(welcome->server, control->server, sizeof(control->server));
	limits_tell(session, welcome);
	endpoints_tell(control, &connection->address, welcome);
	welcome->channel = channel;
	welcome->endpoint = endpoint;
	connection_send(connection, out);
}
