/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fabric/address.h"
#include "fabric/verbs/common/context.h"

#define REPORT_BYTES 256

/* Before its first device it has no name. */
static const char *space_before(const char *name)
{
	return *name ? " " : "";
}

void verbs_endpoint_report(struct verbs_endpoint *endpoint, const char *fmt, ...)
{
	struct fabric_server *server = endpoint->server;
	const char *name = endpoint->public.device;
	char text[REPORT_BYTES];
	va_list ap;
	/* a device's name is short */
	int used = snprintf(text, sizeof(text), "RDMA device%s%s", space_before(name),
			    name);

	va_start(ap, fmt);
	(void)vsnprintf(text + used, sizeof(text) - (size_t)used, fmt, ap);
	va_end(ap);
	server->events->endpoint_event(server->ctx, endpoint->number, text);
}

void verbs_endpoint_unlisten(struct verbs_endpoint *endpoint)
{
	if (endpoint->listener)
		(void)rdma_destroy_id(endpoint->listener);
	endpoint->listener = NULL;
	endpoint->public.awaited = true;
}

int verbs_endpoint_check(const struct verbs_endpoint *endpoint)
{
	const char *name = endpoint->public.device;

	if (!endpoint->device->removed)
		return 0;
	return err_set(-ENODEV, "RDMA device%s%s is not there", space_before(name),
		       name);
}

/* Set `public`, which is sent to clients. */
static void endpoint_describe(struct verbs_endpoint *endpoint,
			      const struct fabric_address *address)
{
	const struct verbs_device *device = endpoint->device;

	endpoint->public = (struct fabric_endpoint){
		.kind = FABRIC_VERBS,
		.address = *address,
		.node = device->node,
		.channels_max = device->ids.n,
		.flags = (device->attr.iwarp ? FABRIC_ENDPOINT_CONFIRM : 0) |
			 (device->attr.public.atomics ? FABRIC_ENDPOINT_ATOMICS : 0) |
			 (endpoint->direct ? FABRIC_ENDPOINT_DIRECT : 0) |
			 FABRIC_ENDPOINT_INBAND,
	};
	if (endpoint->direct)
		endpoint->public.address.port = 0;
	memcpy(endpoint->public.device, device->attr.name, sizeof(device->attr.name));
}

int verbs_endpoint_listen(struct verbs_endpoint *endpoint,
			  const struct fabric_address *address)
{
	const struct verbs_device *device = endpoint->device;
	struct fabric_server *server = endpoint->server;
	char text[FABRIC_ADDRESS_TEXT];
	int err;

	endpoint->direct = device->rdma_options.connect == FABRIC_CONNECT_DIRECT;
	endpoint_describe(endpoint, address);
	if (device->own)
		return 0;
	(void)fabric_address_text(&endpoint->public.address, text);
	err = verbs_cm_bind(server->cm, &endpoint->public.address, &endpoint->target,
			    &endpoint->listener);
	if (!err && endpoint->direct)
		return 0;
	/* RoCE uses the queue pair's traffic class, iWARP the listener's */
	if (!err)
		err = verbs_cm_set_traffic_class(endpoint->listener,
						 device->rdma_options.traffic_class);
	if (!err && rdma_listen(endpoint->listener, (int)server->params.backlog))
		err = err_errno(verbs_errno(), "rdma_listen");
	if (err == -EADDRINUSE)
		return err_set(err,
			       "RDMA device %s: %s is taken: another program listens "
			       "there, choose another port",
			       endpoint->public.device, text);
	if (err)
		return err_prefix(err, "RDMA device %s, %s", endpoint->public.device,
				  text);
	/* port 0: the kernel has chosen one */
	endpoint->public.address.port = ntohs(rdma_get_src_port(endpoint->listener));
	return 0;
}

void verbs_endpoint_free(struct verbs_endpoint *endpoint)
{
	verbs_endpoint_unlisten(endpoint);
	map_destroy(&endpoint->remote_qps);
	free(endpoint);
}
