/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <string.h>

#include "rmemd/admin/admin.h"
#include "rmemd/admin/view.h"
#include "rmemd/fabrics/endpoints.h"

static const char *address_text(const struct fabric_address *address,
				char buf[INET6_ADDRSTRLEN])
{
	int family = address->family == 4 ? AF_INET : AF_INET6;

	if (address->family == 0 ||
	    !inet_ntop(family, address->bytes, buf, INET6_ADDRSTRLEN))
		return "*";
	return buf;
}

static const char *transport_name(enum fabric_transport transport)
{
	switch (transport) {
	case FABRIC_ROCE:
		return "RoCE";
	case FABRIC_IWARP:
		return "iWARP";
	case FABRIC_INFINIBAND:
		break;
	}
	return "InfiniBand";
}

static const char *atomics_name(enum fabric_atomics atomics)
{
	switch (atomics) {
	case FABRIC_ATOMICS_NONE:
		return "none";
	case FABRIC_ATOMICS_DEVICE:
		return "HCA";
	case FABRIC_ATOMICS_GLOBAL:
		break;
	}
	return "global";
}

static json_t *abilities_view(const struct fabric_device_attr *abilities)
{
	json_t *object = json_object();

	view_text(&object, "transport", transport_name(abilities->transport));
	view_text(&object, "atomics", atomics_name(abilities->atomics));
	view_flag(&object, "write_immediate", abilities->write_immediate);
	view_flag(&object, "relaxed_ordering", abilities->relaxed_ordering);
	view_flag(&object, "on_demand_paging", abilities->on_demand_paging);
	view_number(&object, "inline_bytes", abilities->inline_bytes);
	view_number(&object, "max_qp", abilities->max_qp);
	view_number(&object, "max_qp_wr", abilities->max_qp_wr);
	view_number(&object, "max_sge", abilities->max_sge);
	view_number(&object, "max_cq", abilities->max_cq);
	view_number(&object, "max_cqe", abilities->max_cqe);
	view_number(&object, "max_mr", abilities->max_mr);
	/* JSON's numbers end sooner than soft-RoCE's */
	view_number(&object, "max_mr_bytes",
		    abilities->max_mr_bytes < INT64_MAX ? abilities->max_mr_bytes
							: INT64_MAX);
	view_number(&object, "responder_resources", abilities->responder_resources);
	view_number(&object, "initiator_depth", abilities->initiator_depth);
	return object;
}

static json_t *gid_view(const struct fabric_gid *gid)
{
	json_t *object = json_object();
	char text[INET6_ADDRSTRLEN];

	view_number(&object, "index", gid->index);
	view_text(&object, "gid", inet_ntop(AF_INET6, gid->bytes, text, sizeof(text)));
	view_text(&object, "type", gid->type);
	view_flag(&object, "served", gid->served);
	return object;
}

/* 0: null */
static void view_known(json_t **object, const char *key, unsigned number)
{
	if (number)
		view_number(object, key, number);
	else
		view_add(object, key, json_null());
}

static json_t *port_view(const struct fabric_port_attr *port)
{
	json_t *object = json_object(), *gids = json_array();

	view_number(&object, "number", port->number);
	view_text(&object, "state", port->state);
	view_known(&object, "active_mtu", port->active_mtu);
	view_known(&object, "max_mtu", port->max_mtu);
	for (unsigned i = 0; i < port->n_gids; i++)
		view_append(&gids, gid_view(&port->gids[i]));
	view_add(&object, "gids", gids);
	view_number(&object, "gids_more", port->gids_more);
	return object;
}

static void view_knob(json_t **object, const char *key, int value)
{
	view_add(object, key,
		 value == FABRIC_OPTION_AUTO ? json_null() : json_integer(value));
}

static json_t *knobs_view(const struct fabric_rdma_options *rdma_options)
{
	json_t *object = json_object();

	view_knob(&object, "mtu", rdma_options->mtu);
	view_knob(&object, "traffic_class", rdma_options->traffic_class);
	view_knob(&object, "service_level", rdma_options->service_level);
	view_knob(&object, "ack_timeout", rdma_options->ack_timeout);
	view_knob(&object, "retry_count", rdma_options->retry_count);
	view_knob(&object, "rnr_retry_count", rdma_options->rnr_retry_count);
	view_knob(&object, "rd_atomic", rdma_options->rd_atomic);
	view_flag(&object, "relaxed_ordering", rdma_options->relaxed_ordering);
	view_text(&object, "connect",
		  rdma_options->connect == FABRIC_CONNECT_DIRECT ? "direct" : "cm");
	view_knob(&object, "gid_index", rdma_options->gid_index);
	view_knob(&object, "pkey", rdma_options->pkey);
	return object;
}

static json_t *device_view(const struct endpoint *at)
{
	const struct fabric_endpoint *endpoint = at->facts;
	const struct fabric_device_attr *abilities = NULL;
	struct fabric_endpoint_stats stats = { 0 };
	struct fabric_port_attr port;
	bool there = at->ops->device &&
		     !at->ops->device(at->server, at->local, &abilities, &port);
	json_t *object = json_object();
	char address[INET6_ADDRSTRLEN];

	at->ops->stats(at->server, at->local, &stats);
	view_text(&object, "device", endpoint->device[0] ? endpoint->device : NULL);
	view_text(&object, "fabric", endpoint->kind == FABRIC_VERBS ? "rdma" : "tcp");
	view_text(&object, "address", address_text(&endpoint->address, address));
	view_known(&object, "port", endpoint->address.port);
	view_node(&object, "node", endpoint->node);
	view_number(&object, "channels", stats.channels);
	view_number(&object, "channels_ever", stats.channels_ever);
	view_number(&object, "refused", stats.refused);
	view_number(&object, "errors", stats.errors);
	view_number(&object, "exposures", stats.exposures);
	view_number(&object, "exposed_bytes", stats.exposed_bytes);
	view_add(&object, "can", there ? abilities_view(abilities) : json_null());
	view_add(&object, "device_port", there ? port_view(&port) : json_null());
	view_add(&object, "knobs",
		 there ? knobs_view(&port.rdma_options) : json_null());
	return object;
}

json_t *view_devices(const struct admin_sources *from)
{
	json_t *object = json_object(), *array = json_array();

	for (unsigned i = 0; i < from->endpoints->n; i++)
		view_append(&array, device_view(&from->endpoints->at[i]));
	view_add(&object, "devices", array);
	return object;
}
