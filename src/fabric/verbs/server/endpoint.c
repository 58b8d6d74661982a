/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fabric/verbs/common/address.h"
#include "fabric/verbs/server/channel.h"
#include "fabric/verbs/common/disassociate.h"
#include "fabric/verbs/server/device.h"
#include "fabric/verbs/common/status.h"
#include "fabric/verbs/common/port.h"
#include "fabric/verbs/server/session.h"
#include "fabric/verbs/server/report.h"

#define LIST_TEXT 256

void verbs_endpoint_unlisten(struct verbs_endpoint *endpoint)
{
	if (endpoint->listener)
		(void)rdma_destroy_id(endpoint->listener);
	endpoint->listener = NULL;
}

/* ---- events of the devices ---- */

/* News of all endpoints of the device, or those on one port of it. */
static void device_report(struct verbs_device *device, unsigned port, const char *text)
{
	struct fabric_server *server = device->server;

	for (unsigned i = 0; i < server->n_endpoints; i++) {
		struct verbs_endpoint *endpoint = server->endpoints[i];

		if (endpoint->device == device && (!port || endpoint->port == port))
			verbs_endpoint_report(endpoint, "RDMA device %s: port %u: %s",
					      device->attr.name, endpoint->port, text);
	}
}

/* The device is being removed: end the sessions' channels with events, and start to release
 * what they hold of the device. */
static void endpoint_abandon(struct verbs_endpoint *endpoint, const char *why)
{
	/* the events may close sessions, but those are freed later */
	list_for_each_safe(node, &endpoint->sessions)
		verbs_session_abandon(container_of(node, struct fabric_session, link),
				      why);
	if (endpoint->server->events->device_removed)
		endpoint->server->events->device_removed(endpoint->server->ctx,
							 endpoint->number);
}

static void device_removed(struct verbs_device *device)
{
	struct fabric_server *server = device->server;

	for (unsigned i = 0; i < server->n_endpoints; i++)
		if (server->endpoints[i]->device == device)
			endpoint_abandon(server->endpoints[i],
					 "the RDMA device is being removed");
	/* the kernel waits for these ids, too */
	verbs_disconnects_finish(&server->disconnects, device->verbs);
	verbs_hotplug_schedule(&server->hotplug);
}

static void device_released(struct verbs_device *device)
{
	struct fabric_server *server = device->server;

	for (unsigned i = 0; i < server->n_endpoints; i++)
		if (server->endpoints[i]->device == device)
			verbs_endpoint_unlisten(server->endpoints[i]);
}

static const struct verbs_device_events device_events = {
	.channel_flushed = verbs_channel_flushed,
	.channel_event = verbs_channel_event,
	.report = device_report,
	.removed = device_removed,
	.released = device_released,
};

/* ---- listening ---- */

static void listener_event(struct verbs_cm_target *target,
			   const struct verbs_cm_event *event)
{
	struct verbs_endpoint *endpoint =
		container_of(target, struct verbs_endpoint, target);

	if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST)
		verbs_channel_request(endpoint, event);
	else if (event->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		verbs_device_remove(endpoint->device);
	else
		verbs_endpoint_report(endpoint, "RDMA device %s, listener: %s",
				      endpoint->public.device,
				      rdma_event_str(event->type));
}

/* An id bound to the address; port 0: only to see the device behind it. */
static int id_bind(struct fabric_server *server, const struct fabric_address *address,
		   void *context, struct rdma_cm_id **ret_id)
{
	struct sockaddr_storage sockaddr;
	struct rdma_cm_id *id;
	int err;

	verbs_address_to_sockaddr(address, &sockaddr);
	if (rdma_create_id(server->cm, &id, context, RDMA_PS_TCP))
		return err_errno(verbs_errno(), "rdma_create_id");
	if (rdma_bind_addr(id, (struct sockaddr *)&sockaddr)) {
		err = err_errno(verbs_errno(), "rdma_bind_addr");
		(void)rdma_destroy_id(id);
		return err;
	}
	*ret_id = id;
	return 0;
}

/* The device and port an address lies on; the id keeps the device.  -ENODEV. */
static int device_probe(struct fabric_server *server,
			const struct fabric_address *address,
			struct rdma_cm_id **ret_id)
{
	struct fabric_address probed = *address;
	struct rdma_cm_id *id;
	int err;

	probed.port = 0;
	err = id_bind(server, &probed, NULL, &id);
	if (err)
		return err;
	if (!id->verbs) {
		(void)rdma_destroy_id(id);
		return err_set(-ENODEV, "no RDMA device has this address");
	}
	*ret_id = id;
	return 0;
}

/* What was said of a device by its name, else of all; NULL: nothing. */
static const struct fabric_device_params *
device_params_find(const struct fabric_server_params *params, const char *name)
{
	const struct fabric_device_params *all = NULL;

	for (unsigned i = 0; i < params->n_device_params; i++) {
		const struct fabric_device_params *device = &params->device_params[i];

		if (!strcmp(device->name, name))
			return device;
		if (!device->name[0])
			all = device;
	}
	return all;
}

static int endpoint_listen(struct verbs_endpoint *endpoint)
{
	struct fabric_server *server = endpoint->server;
	char text[VERBS_ADDRESS_TEXT];
	int err;

	(void)verbs_address_text(&endpoint->public.address, text);
	err = id_bind(server, &endpoint->public.address, &endpoint->target,
		      &endpoint->listener);
	if (!err && endpoint->direct)
		return 0;
	/* RoCE takes it from the queue pair, iWARP from the listener */
	if (!err)
		err = verbs_cm_set_traffic_class(
			endpoint->listener,
			endpoint->device->rdma_options.traffic_class);
	if (!err && rdma_listen(endpoint->listener, (int)server->backlog))
		err = err_errno(verbs_errno(), "rdma_listen");
	if (err == -EADDRINUSE)
		return err_set(err,
			       "RDMA device %s: %s is taken: another program listens "
			       "there, choose another port",
			       endpoint->public.device, text);
	if (err)
		return err_prefix(err, "RDMA device %s, %s", endpoint->public.device,
				  text);
	/* port 0: the one it got */
	endpoint->public.address.port = ntohs(rdma_get_src_port(endpoint->listener));
	return 0;
}

/* What clients are told of it. */
static void endpoint_describe(struct verbs_endpoint *endpoint,
			      const struct fabric_address *address)
{
	const struct verbs_device *device = endpoint->device;

	endpoint->public = (struct fabric_endpoint){
		.kind = FABRIC_VERBS,
		.address = *address,
		.node = device->node,
		.flags = (device->attr.iwarp ? FABRIC_ENDPOINT_CONFIRM : 0) |
			 (device->attr.atomics ? FABRIC_ENDPOINT_ATOMICS : 0) |
			 (endpoint->direct ? FABRIC_ENDPOINT_DIRECT : 0) |
			 FABRIC_ENDPOINT_INBAND,
	};
	if (endpoint->direct)
		endpoint->public.address.port = 0;
	memcpy(endpoint->public.device, device->attr.name, sizeof(device->attr.name));
}

/* What a device must have that is served without rdma_cm, and what only then has a meaning:
 * rdma_cm takes both from the address's interface. */
static int direct_check(struct ibv_context *verbs, uint8_t port,
			const struct fabric_address *address,
			const struct fabric_rdma_options *rdma_options)
{
	struct verbs_port local;

	if (rdma_options->connect == FABRIC_CONNECT_DIRECT)
		return verbs_port_query(verbs, port, address, rdma_options, &local);
	if (rdma_options->gid_index == FABRIC_OPTION_AUTO &&
	    rdma_options->pkey == FABRIC_OPTION_AUTO)
		return 0;
	return err_set(-EINVAL,
		       "RDMA device %s: gid_index and pkey are for connect = direct; "
		       "with rdma_cm they are those of the address's interface",
		       ibv_get_device_name(verbs->device));
}

/* `verbs` is rdma_cm's, or else becomes the device's own: then the port has no IP address, and
 * *address is its GID. */
static int endpoint_open(struct fabric_server *server, struct ibv_context *verbs,
			 uint8_t port, bool own, const struct fabric_address *address,
			 const struct fabric_rdma_options *rdma_options)
{
	struct verbs_endpoint *endpoint;
	struct verbs_device *device;
	int err;

	if (server->n_endpoints == VERBS_ENDPOINTS_MAX)
		return err_set(-E2BIG,
			       "more than %d RDMA ports: name the devices to serve",
			       VERBS_ENDPOINTS_MAX);
	err = direct_check(verbs, port, address, rdma_options);
	if (!err)
		err = verbs_device_add(server, verbs, port, rdma_options,
				       &device_events, &device);
	if (err)
		return err;
	device->own = own;
	endpoint = calloc(1, sizeof(*endpoint));
	if (!endpoint)
		return err_errno(-ENOMEM, "an RDMA endpoint");
	endpoint->target.event = listener_event;
	endpoint->server = server;
	endpoint->number = server->n_endpoints;
	endpoint->device = device;
	endpoint->port = port;
	endpoint->direct = device->rdma_options.connect == FABRIC_CONNECT_DIRECT;
	list_init(&endpoint->sessions);
	map_init(&endpoint->remote_qps);
	endpoint->own = own;
	endpoint_describe(endpoint, address);
	if (!own)
		err = endpoint_listen(endpoint);
	if (err) {
		verbs_endpoint_free(endpoint);
		return err;
	}
	server->endpoints[server->n_endpoints++] = endpoint;
	return 0;
}

static bool device_wanted(const struct fabric_server_params *params, const char *name)
{
	for (size_t i = 0; params->devices && params->devices[i]; i++)
		if (!strcmp(params->devices[i], name))
			return true;
	return !params->devices;
}

static const struct verbs_endpoint *endpoint_find(const struct fabric_server *server,
						  const char *device)
{
	for (unsigned i = 0; i < server->n_endpoints; i++)
		if (!strcmp(server->endpoints[i]->public.device, device))
			return server->endpoints[i];
	return NULL;
}

static bool endpoint_known(const struct fabric_server *server,
			   const struct rdma_cm_id *id)
{
	for (unsigned i = 0; i < server->n_endpoints; i++)
		if (server->endpoints[i]->device->verbs == id->verbs &&
		    server->endpoints[i]->port == id->port_num)
			return true;
	return false;
}

/* Whether what was said of the device leaves this port and address. */
static bool port_wanted(const struct fabric_device_params *device,
			const struct rdma_cm_id *probe,
			const struct fabric_address *address)
{
	if (!device)
		return true;
	if (device->port != FABRIC_OPTION_AUTO && device->port != probe->port_num)
		return false;
	return !device->address.family ||
	       (device->address.family == address->family &&
		!memcmp(device->address.bytes, address->bytes, sizeof(address->bytes)));
}

/* Listen at the address if it lies on a device that is wanted, active and not served
 * yet. */
static int address_try(struct fabric_server *server,
		       const struct fabric_server_params *params,
		       const struct fabric_address *address)
{
	const struct fabric_rdma_options standard = FABRIC_RDMA_OPTIONS_INIT;
	const struct fabric_device_params *device;
	struct rdma_cm_id *probe = NULL;
	const char *name;
	int err = device_probe(server, address, &probe);

	/* most addresses of a host are not on an RDMA device */
	if (err == -ENODEV || err == -EADDRNOTAVAIL)
		return 0;
	if (err)
		return err;
	name = ibv_get_device_name(probe->verbs->device);
	device = device_params_find(params, name);
	if (device_wanted(params, name) && port_wanted(device, probe, address) &&
	    !endpoint_known(server, probe) &&
	    verbs_port_is_active(probe->verbs, probe->port_num))
		err = endpoint_open(server, probe->verbs, probe->port_num, false,
				    address,
				    device ? &device->rdma_options : &standard);
	(void)rdma_destroy_id(probe);
	return err;
}

/* A port that can be served without an IP address; the context goes over to its device.
 *   -ENODEV  there is none, the text says why */
static int port_open(struct fabric_server *server,
		     const struct fabric_device_params *params,
		     struct ibv_context *verbs, bool *ret_taken)
{
	/* not an address of any */
	struct fabric_address address = { .family = 6 };
	struct ibv_device_attr attr;
	struct verbs_port local;
	unsigned ports, before = server->n_devices;
	int err, none = 0;

	ports = ibv_query_device(verbs, &attr) ? 0 : attr.phys_port_cnt;
	for (unsigned port = 1; port <= ports; port++) {
		if (params->port != FABRIC_OPTION_AUTO &&
		    (unsigned)params->port != port)
			continue;
		if (params->address.family)
			address = params->address;
		none = verbs_port_query(verbs, (uint8_t)port, &address,
					&params->rdma_options, &local);
		if (none)
			continue;
		verbs_gid_to_address(local.gid, &address);
		err = endpoint_open(server, verbs, (uint8_t)port, true, &address,
				    &params->rdma_options);
		*ret_taken = server->n_devices > before;
		return err;
	}
	return none ? err_prefix(-ENODEV, "connect = direct") : 0;
}

/* Devices that are to be served without rdma_cm need no address, so those that have none are
 * found by their names. */
static int device_try(struct fabric_server *server,
		      const struct fabric_server_params *params,
		      struct ibv_device *device)
{
	const char *name = ibv_get_device_name(device);
	const struct fabric_device_params *said = device_params_find(params, name);
	struct ibv_context *verbs;
	bool taken = false;
	int err;

	if (!said || said->rdma_options.connect != FABRIC_CONNECT_DIRECT ||
	    !device_wanted(params, name) || endpoint_find(server, name))
		return 0;
	verbs = ibv_open_device(device);
	if (!verbs)
		return 0;
	err = port_open(server, said, verbs, &taken);
	if (!taken)
		verbs_device_close(verbs);
	/* of all that there are some may be for others */
	return err == -ENODEV && !params->devices ? 0 : err;
}

static int devices_try(struct fabric_server *server,
		       const struct fabric_server_params *params)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int err = 0;

	for (int i = 0; !err && list && list[i]; i++)
		err = device_try(server, params, list[i]);
	if (list)
		ibv_free_device_list(list);
	return err;
}

static bool device_present(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	bool present = false;

	for (int i = 0; list && list[i]; i++)
		present |= !strcmp(ibv_get_device_name(list[i]), name);
	if (list)
		ibv_free_device_list(list);
	return present;
}

/* What was asked for by name must be served, and something must be. */
static int endpoints_check(const struct fabric_server *server,
			   const struct fabric_server_params *params)
{
	char text[LIST_TEXT];

	for (size_t i = 0; params->devices && params->devices[i]; i++) {
		const char *name = params->devices[i];

		if (endpoint_find(server, name))
			continue;
		(void)verbs_device_list_text(text, sizeof(text));
		if (!device_present(name))
			return err_set(-ENODEV, "no RDMA device %s here (there is: %s)",
				       name, text);
		return err_set(-ENODEV,
			       "RDMA device %s has no active port with an IP address "
			       "to listen on (devices: %s)",
			       name, text);
	}
	if (server->n_endpoints)
		return 0;
	return err_set(-ENODEV,
		       "no RDMA device with an active port and an IP address to "
		       "listen on (devices: %s)",
		       verbs_device_list_text(text, sizeof(text)));
}

int verbs_endpoint_open_all(struct fabric_server *server,
			    const struct fabric_server_params *params)
{
	struct fabric_address *addresses;
	size_t n;
	int err = verbs_address_list(params, &addresses, &n);

	if (err)
		return err;
	for (size_t i = 0; i < n && !err; i++)
		err = address_try(server, params, &addresses[i]);
	free(addresses);
	if (!err)
		err = devices_try(server, params);
	return err ? err : endpoints_check(server, params);
}

/* ---- following ---- */

/* Whether its address is still that of its port. */
static bool endpoint_stays(struct fabric_server *server,
			   const struct verbs_endpoint *endpoint)
{
	struct rdma_cm_id *probe;
	int err = device_probe(server, &endpoint->public.address, &probe);
	bool stays;

	if (err)
		return err != -ENODEV && err != -EADDRNOTAVAIL;
	stays = probe->verbs == endpoint->device->verbs &&
		probe->port_num == endpoint->port;
	(void)rdma_destroy_id(probe);
	return stays;
}

/* Whether it may listen at an address that lies there. */
static bool endpoint_fits(const struct verbs_endpoint *endpoint,
			  const struct rdma_cm_id *probe,
			  const struct fabric_device_params *device,
			  const struct fabric_address *address)
{
	return !strcmp(ibv_get_device_name(probe->verbs->device),
		       endpoint->public.device) &&
	       probe->port_num == endpoint->port &&
	       port_wanted(device, probe, address) &&
	       verbs_port_is_active(probe->verbs, probe->port_num);
}

/* Listen there again, with the device of now. */
static int endpoint_return(struct verbs_endpoint *endpoint,
			   const struct rdma_cm_id *probe,
			   const struct fabric_device_params *params,
			   const struct fabric_address *address)
{
	const struct fabric_rdma_options standard = FABRIC_RDMA_OPTIONS_INIT;
	struct verbs_device *device;
	char text[VERBS_ADDRESS_TEXT];
	int err = verbs_device_add(endpoint->server, probe->verbs, probe->port_num,
				   params ? &params->rdma_options : &standard,
				   &device_events, &device);

	if (err)
		return err;
	endpoint->device = device;
	endpoint_describe(endpoint, address);
	err = endpoint_listen(endpoint);
	if (err) {
		verbs_endpoint_unlisten(endpoint);
		return err;
	}
	verbs_endpoint_report(endpoint, "RDMA device %s serves again, at %s",
			      endpoint->public.device,
			      verbs_address_text(&endpoint->public.address, text));
	return 0;
}

/* Listen at the address, if the endpoint fits there. */
static int endpoint_try(struct verbs_endpoint *endpoint,
			const struct fabric_address *address)
{
	const struct fabric_server_params *params = endpoint->server->params;
	const struct fabric_device_params *device =
		device_params_find(params, endpoint->public.device);
	struct rdma_cm_id *probe;
	int err = device_probe(endpoint->server, address, &probe);

	if (err)
		return err;
	err = endpoint_fits(endpoint, probe, device, address)
		      ? endpoint_return(endpoint, probe, device, address)
		      : -ENODEV;
	(void)rdma_destroy_id(probe);
	return err;
}

/* What was removed and is not yet given back is not to be waited for here: the kernel waits. */
static bool endpoint_lost(const struct verbs_endpoint *endpoint)
{
	return !endpoint->listener &&
	       (!endpoint->device->removed || !endpoint->device->verbs);
}

static void endpoint_look(struct verbs_endpoint *endpoint)
{
	struct fabric_server *server = endpoint->server;
	struct fabric_address *addresses;
	char text[VERBS_ADDRESS_TEXT];
	int err = -ENODEV;
	size_t n;

	if (endpoint->listener && !endpoint->device->removed &&
	    !endpoint_stays(server, endpoint)) {
		verbs_endpoint_unlisten(endpoint);
		verbs_endpoint_report(
			endpoint, "RDMA device %s has lost the address %s",
			endpoint->public.device,
			verbs_address_text(&endpoint->public.address, text));
	}
	if (!endpoint_lost(endpoint) ||
	    verbs_address_list(server->params, &addresses, &n))
		return;
	for (size_t i = 0; i < n && err; i++)
		err = endpoint_try(endpoint, &addresses[i]);
	free(addresses);
}

bool verbs_endpoint_rescan(struct fabric_server *server)
{
	bool all = true;

	if (server->cm_failed)
		return true;
	for (unsigned i = 0; i < server->n_endpoints; i++) {
		verbs_port_cache_clear(&server->endpoints[i]->device->port_cache);
		if (server->endpoints[i]->own)
			continue;
		endpoint_look(server->endpoints[i]);
		all &= server->endpoints[i]->listener != NULL;
	}
	return verbs_device_retire(server) && all;
}

/* ---- ending ---- */

void verbs_endpoint_free(struct verbs_endpoint *endpoint)
{
	verbs_endpoint_unlisten(endpoint);
	map_destroy(&endpoint->remote_qps);
	free(endpoint);
}
