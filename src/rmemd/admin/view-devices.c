/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <string.h>

#include "rmemd/admin/view.h"
#include "rmemd/daemon.h"

static const char *address_text(const struct fabric_address *address,
				char buf[INET6_ADDRSTRLEN])
{
	int family = address->family == 4 ? AF_INET : AF_INET6;

	if (address->family == 0 ||
	    !inet_ntop(family, address->bytes, buf, INET6_ADDRSTRLEN))
		return "*";
	return buf;
}

static json_t *device_view(const struct fabric_endpoint *endpoint,
			   const struct fabric_endpoint_stats *stats)
{
	json_t *object = json_object();
	char address[INET6_ADDRSTRLEN];

	view_text(&object, "device", endpoint->device[0] ? endpoint->device : NULL);
	view_text(&object, "fabric", endpoint->kind == FABRIC_VERBS ? "rdma" : "tcp");
	view_text(&object, "address", address_text(&endpoint->address, address));
	view_number(&object, "port", endpoint->address.port);
	view_node(&object, "node", endpoint->node);
	view_number(&object, "channels", stats->channels);
	view_number(&object, "channels_ever", stats->channels_ever);
	view_number(&object, "refused", stats->refused);
	view_number(&object, "errors", stats->errors);
	view_number(&object, "exposures", stats->exposures);
	view_number(&object, "exposed_bytes", stats->exposed_bytes);
	return object;
}

json_t *view_devices(struct daemon *daemon)
{
	json_t *object = json_object(), *array = json_array();

	for (unsigned i = 0; i < daemon_n_endpoints(daemon); i++) {
		struct fabric_endpoint_stats stats = { 0 };

		daemon_endpoint_stats(daemon, i, &stats);
		view_append(&array, device_view(daemon_endpoint(daemon, i), &stats));
	}
	view_add(&object, "devices", array);
	return object;
}
