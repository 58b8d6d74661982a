/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/lease_client.h"

#include <string.h>

#include "rmemd/lease/attachment.h"

void holder_init(struct holder *holder, uint64_t id, struct tenant *tenant)
{
	*holder = (struct holder){ .id = id, .tenant = tenant };
	list_init(&holder->attachments);
	list_init(&holder->owned);
	list_init(&holder->to_tell);
	tenant_ref(tenant);
	tenant->n_sessions++;
}

void holder_destroy(struct holder *holder)
{
	holder_forget_news(holder);
	holder->tenant->n_sessions--;
	tenant_unref(holder->tenant);
}

void holder_fence(struct holder *holder)
{
	holder_forget_news(holder);
	list_for_each_safe(node, &holder->attachments) {
		struct attachment *attachment =
			container_of(node, struct attachment, in_holder);
		struct lease *lease = attachment->lease;

		attachment_fence(attachment);
		if (lease->state == LEASE_GRANTING)
			lease_end(lease, WIRE_REASON_FENCED, holder);
		lease_settle(lease);
	}
}

void holder_leave(struct holder *holder, unsigned port)
{
	list_for_each_safe(node, &holder->attachments) {
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

void holder_release(struct holder *holder)
{
	struct attachment *attachment;
	struct lease *lease;

	while ((lease = list_first(&holder->owned, struct lease, in_owner))) {
		lease_end(lease, WIRE_REASON_FREED, holder);
		lease_settle(lease);
	}
	while ((attachment = list_first(&holder->attachments, struct attachment,
					in_holder))) {
		lease = attachment->lease;
		attachment_end(attachment);
		lease_settle(lease);
	}
}

int holder_charge_key(struct holder *holder)
{
	struct tenant *tenant = holder->tenant;
	int err;

	err = tenant_check_keys(tenant, holder->n_keys);
	if (err)
		return err;
	holder->n_keys++;
	tenant->n_keys++;
	return 0;
}

void holder_uncharge_key(struct holder *holder)
{
	holder->n_keys--;
	holder->tenant->n_keys--;
}

uint64_t holder_lent_bytes(const struct holder *holder)
{
	uint64_t bytes = 0;

	list_for_each(node, &holder->attachments)
		bytes += container_of(node, struct attachment, in_holder)->lease->bytes;
	return bytes;
}

unsigned holder_endpoints(const struct holder *holder)
{
	unsigned endpoints = holder->reach;

	for (unsigned i = 0; !holder->reach && i < WIRE_ENDPOINTS_MAX; i++)
		if (holder->ports[i].session)
			endpoints |= 1u << i;
	return endpoints;
}

unsigned holder_nodes(const struct holder *holder, int ret_nodes[WIRE_ENDPOINTS_MAX])
{
	unsigned n = 0, k;

	if (holder->reach) {
		memcpy(ret_nodes, holder->nodes, sizeof(holder->nodes));
		return holder->n_nodes;
	}
	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++) {
		const struct holder_port *port = &holder->ports[i];

		if (!port->session || port->node < 0)
			continue;
		for (k = 0; k < n && ret_nodes[k] != port->node; k++)
			;
		if (k == n)
			ret_nodes[n++] = port->node;
	}
	return n;
}
