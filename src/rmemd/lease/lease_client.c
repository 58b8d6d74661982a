/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/lease_client.h"

#include <string.h>

#include "rmemd/lease/attachment.h"

void lease_client_init(struct lease_client *client, uint64_t id, struct tenant *tenant)
{
	*client = (struct lease_client){ .id = id, .tenant = tenant };
	list_init(&client->attachments);
	list_init(&client->owned);
	list_init(&client->in_events);
	tenant_ref(tenant);
	tenant->n_sessions++;
}

void lease_client_destroy(struct lease_client *client)
{
	lease_client_drop_events(client);
	client->tenant->n_sessions--;
	tenant_unref(client->tenant);
}

void lease_client_fence(struct lease_client *client)
{
	lease_client_drop_events(client);
	list_for_each_safe(node, &client->attachments) {
		struct attachment *attachment =
			container_of(node, struct attachment, in_holder);
		struct lease *lease = attachment->lease;

		attachment_fence(attachment);
		if (lease->state == LEASE_GRANTING)
			lease_end(lease, WIRE_REASON_FENCED, client);
		lease_settle(lease);
	}
}

void lease_client_leave(struct lease_client *client, unsigned port)
{
	list_for_each_safe(node, &client->attachments) {
		struct attachment *attachment =
			container_of(node, struct attachment, in_holder);
		struct lease *lease = attachment->lease;

		if (!attachment_leave(attachment, port))
			continue;
		if (lease->state == LEASE_READY)
			attachment_tell_changed(attachment, 0);
		lease_settle(lease);
	}
}

void lease_client_release(struct lease_client *client)
{
	struct attachment *attachment;
	struct lease *lease;

	while ((lease = list_first(&client->owned, struct lease, in_owner))) {
		lease_end(lease, WIRE_REASON_FREED, client);
		lease_settle(lease);
	}
	while ((attachment = list_first(&client->attachments, struct attachment,
					in_holder))) {
		lease = attachment->lease;
		attachment_end(attachment);
		lease_settle(lease);
	}
}

int lease_client_charge_key(struct lease_client *client)
{
	struct tenant *tenant = client->tenant;
	int err;

	err = tenant_check_keys(tenant, client->n_keys);
	if (err)
		return err;
	client->n_keys++;
	tenant->n_keys++;
	return 0;
}

void lease_client_uncharge_key(struct lease_client *client)
{
	client->n_keys--;
	client->tenant->n_keys--;
}

uint64_t lease_client_lent_bytes(const struct lease_client *client)
{
	uint64_t bytes = 0;

	list_for_each(node, &client->attachments)
		bytes += container_of(node, struct attachment, in_holder)->lease->bytes;
	return bytes;
}

unsigned lease_client_endpoints(const struct lease_client *client)
{
	unsigned endpoints = client->reach;

	for (unsigned i = 0; !client->reach && i < WIRE_ENDPOINTS_MAX; i++)
		if (client->ports[i].session)
			endpoints |= 1u << i;
	return endpoints;
}

unsigned lease_client_nodes(const struct lease_client *client,
			    int ret_nodes[WIRE_ENDPOINTS_MAX])
{
	unsigned n = 0, k;

	if (client->reach) {
		memcpy(ret_nodes, client->nodes, sizeof(client->nodes));
		return client->n_nodes;
	}
	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++) {
		const struct lease_client_port *port = &client->ports[i];

		if (!port->session || port->node < 0)
			continue;
		for (k = 0; k < n && ret_nodes[k] != port->node; k++)
			;
		if (k == n)
			ret_nodes[n++] = port->node;
	}
	return n;
}
