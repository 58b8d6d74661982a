/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/discovery.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "fabric/address.h"
#include "fabric/verbs/common/context.h"
#include "fabric/verbs/common/port.h"
#include "fabric/verbs/server/channel.h"
#include "fabric/verbs/server/device.h"
#include "fabric/verbs/server/ending.h"
#include "fabric/verbs/server/endpoint.h"
#include "fabric/verbs/server/session.h"

#define LIST_TEXT 256

void verbs_discovery_schedule(struct fabric_server *server)
{
	if (list_empty(&server->rescan.link))
		verbs_delays_add(&server->delays, VERBS_DELAY_RESCAN, &server->rescan);
}

/* The device of an endpoint that has had none. */
static struct verbs_device no_device = { .removed = true };

/* ---- events of devices and listeners ---- */

/* The device is being removed: end the sessions' channels with events, and start to release the
 * sessions' objects on the device. */
static void endpoint_abandon(struct verbs_endpoint *endpoint, const char *why)
{
	/* the events may close sessions, but those are freed later */
	list_for_each_entry_safe(struct fabric_session, session, &endpoint->sessions,
				 link)
		verbs_session_abandon(session, why);
	endpoint->public.awaited = true;
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
	verbs_disconnects_finish(server, device->verbs);
	verbs_discovery_schedule(server);
}

static const struct verbs_device_events device_events = {
	.channel_flushed = verbs_channel_flushed,
	.channel_event = verbs_channel_event,
	.removed = device_removed,
};

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
		verbs_endpoint_report(endpoint, ", listener: %s",
				      rdma_event_str(event->type));
}

/* ---- this host's addresses ---- */

/* The interface's address, if peers can reach the server there. */
static bool interface_address(const struct ifaddrs *ifa,
			      struct fabric_address *ret_address)
{
	struct sockaddr_in6 in6;

	if (!ifa->ifa_addr || !(ifa->ifa_flags & IFF_UP) ||
	    (ifa->ifa_flags & IFF_LOOPBACK))
		return false;
	if (ifa->ifa_addr->sa_family == AF_INET6) {
		memcpy(&in6, ifa->ifa_addr, sizeof(in6));
		/* to connect to it, the peer would need a scope of its own */
		if (IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr))
			return false;
	}
	return fabric_address_from_sockaddr(ifa->ifa_addr, ret_address);
}

static bool address_covers(const struct fabric_address *listen,
			   const struct fabric_address *address)
{
	static const uint8_t any[sizeof(listen->bytes)];
	size_t bytes = listen->family == 6 ? 16 : 4;

	if (!listen->family)
		return true;
	return listen->family == address->family &&
	       (!memcmp(listen->bytes, any, bytes) ||
		!memcmp(listen->bytes, address->bytes, bytes));
}

static bool address_wanted(const struct fabric_server_params *params,
			   const struct fabric_address *address)
{
	if (address_covers(&params->listen, address))
		return true;
	for (unsigned i = 0; i < params->n_extra_listen; i++)
		if (address_covers(&params->extra_listen[i], address))
			return true;
	return false;
}

/* ---- opening endpoints ---- */

/* Find the device and port that an address belongs to; the id holds the device.  -ENODEV. */
static int device_probe(struct fabric_server *server,
			const struct fabric_address *address,
			struct rdma_cm_id **ret_id)
{
	struct fabric_address probed = *address;
	struct rdma_cm_id *id;
	int err;

	probed.port = 0;
	err = verbs_cm_bind(server->cm, &probed, NULL, &id);
	if (err)
		return err;
	if (!id->verbs) {
		(void)rdma_destroy_id(id);
		return err_set(-ENODEV, "no RDMA device has this address");
	}
	*ret_id = id;
	return 0;
}

/* The parameters for the device of this name, or else those for all. */
static const struct fabric_device_params *
device_params_find(const struct fabric_server *server, const char *name)
{
	static const struct fabric_device_params standard = {
		.port = FABRIC_OPTION_AUTO,
		.rdma_options = FABRIC_RDMA_OPTIONS_INIT,
	};
	const struct fabric_device_params *all = &standard;

	for (unsigned i = 0; i < server->params.n_device_params; i++) {
		const struct fabric_device_params *device =
			&server->params.device_params[i];

		if (!strcmp(device->name, name))
			return device;
		if (!device->name[0])
			all = device;
	}
	return all;
}

/* Without rdma_cm the port must be usable; gid_index and pkey have a meaning only then, as
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

/* Serve the endpoint at this address of this port.
 *   own  the context was opened here, not by rdma_cm, and becomes the device's; the port has no IP
 *        address, and *address is its GID */
static int endpoint_attach(struct verbs_endpoint *endpoint, struct ibv_context *verbs,
			   uint8_t port, bool own, const struct fabric_address *address,
			   const struct fabric_rdma_options *rdma_options)
{
	const struct fabric_endpoint before = endpoint->public;
	const uint8_t port_before = endpoint->port;
	int err = direct_check(verbs, port, address, rdma_options);

	if (!err)
		err = verbs_device_add(endpoint->server, verbs, port, rdma_options,
				       &device_events, &endpoint->device);
	if (err)
		return err;
	endpoint->port = port;
	endpoint->device->own = own;
	err = verbs_endpoint_listen(endpoint, address);
	if (err) {
		verbs_endpoint_unlisten(endpoint);
		/* one that waits for any device still does */
		endpoint->public = before;
		endpoint->port = port_before;
	}
	return err;
}

/* Add an endpoint that waits for its device; "": for any. */
static int endpoint_add(struct fabric_server *server, const char *device,
			struct verbs_endpoint **ret_endpoint)
{
	struct verbs_endpoint *endpoint;

	if (server->n_endpoints == VERBS_ENDPOINTS_MAX)
		return err_set(-E2BIG,
			       "more than %d RDMA ports: name the devices to serve",
			       VERBS_ENDPOINTS_MAX);
	endpoint = calloc(1, sizeof(*endpoint));
	if (!endpoint)
		return err_errno(-ENOMEM, "an RDMA endpoint");
	endpoint->target.event = listener_event;
	endpoint->server = server;
	endpoint->number = server->n_endpoints;
	endpoint->device = &no_device;
	endpoint->public = (struct fabric_endpoint){ .kind = FABRIC_VERBS,
						     .address = { .family = 4 },
						     .node = -1,
						     .awaited = true };
	(void)snprintf(endpoint->public.device, sizeof(endpoint->public.device), "%s",
		       device);
	list_init(&endpoint->sessions);
	map_init(&endpoint->remote_qps);
	server->endpoints[server->n_endpoints++] = endpoint;
	*ret_endpoint = endpoint;
	return 0;
}

static int endpoint_open(struct fabric_server *server, struct ibv_context *verbs,
			 uint8_t port, bool own, const struct fabric_address *address,
			 const struct fabric_rdma_options *rdma_options)
{
	struct verbs_endpoint *endpoint = NULL;
	int err = endpoint_add(server, "", &endpoint);

	if (err)
		return err;
	err = endpoint_attach(endpoint, verbs, port, own, address, rdma_options);
	if (err) {
		server->n_endpoints--;
		verbs_endpoint_free(endpoint);
	}
	return err;
}

static bool device_wanted(const struct fabric_server *server, const char *name)
{
	const char *const *devices = server->params.devices;

	for (size_t i = 0; devices && devices[i]; i++)
		if (!strcmp(devices[i], name))
			return true;
	return !devices;
}

static const struct verbs_endpoint *endpoint_find(const struct fabric_server *server,
						  const char *device)
{
	for (unsigned i = 0; i < server->n_endpoints; i++)
		if (!strcmp(server->endpoints[i]->public.device, device))
			return server->endpoints[i];
	return NULL;
}

/* Whether the device's parameters allow this port and address, and it is active. */
static bool port_usable(const struct fabric_device_params *device,
			const struct rdma_cm_id *probe,
			const struct fabric_address *address)
{
	if (device->port != FABRIC_OPTION_AUTO && device->port != probe->port_num)
		return false;
	if (device->address.family &&
	    !fabric_address_host_equal(&device->address, address))
		return false;
	return verbs_port_is_active(probe->verbs, probe->port_num);
}

/* Listen at an endpoint that waits, for the first time or again, on the present device. */
static int endpoint_fill(struct verbs_endpoint *endpoint,
			 const struct rdma_cm_id *probe,
			 const struct fabric_rdma_options *rdma_options,
			 const struct fabric_address *address)
{
	char text[FABRIC_ADDRESS_TEXT];
	int err = endpoint_attach(endpoint, probe->verbs, probe->port_num, false,
				  address, rdma_options);

	if (err)
		return err;
	verbs_endpoint_report(endpoint, " serves now, at %s",
			      fabric_address_text(&endpoint->public.address, text));
	return 0;
}

/* Whether the endpoint (NULL: a new one) is, or may be, on the probed port. */
static bool endpoint_fits(const struct fabric_server *server,
			  const struct verbs_endpoint *endpoint,
			  const struct rdma_cm_id *probe, const char *name)
{
	if (endpoint)
		return (!*endpoint->public.device ||
			!strcmp(name, endpoint->public.device)) &&
		       (!endpoint->port || endpoint->port == probe->port_num);
	for (unsigned i = 0; i < server->n_endpoints; i++)
		if (server->endpoints[i]->device->verbs == probe->verbs &&
		    server->endpoints[i]->port == probe->port_num)
			return false;
	return device_wanted(server, name);
}

/* Listen at the address with the endpoint (NULL: a new one), if it is on a port that is wanted and
 * active.  1: it is not. */
static int address_try(struct fabric_server *server, struct verbs_endpoint *endpoint,
		       const struct fabric_address *address)
{
	const struct fabric_device_params *device;
	struct rdma_cm_id *probe = NULL;
	const char *name;
	int err = device_probe(server, address, &probe);

	/* most addresses of a host are not on an RDMA device */
	if (err == -ENODEV || err == -EADDRNOTAVAIL)
		return 1;
	if (err)
		return err;
	name = ibv_get_device_name(probe->verbs->device);
	device = device_params_find(server, name);
	if (!endpoint_fits(server, endpoint, probe, name) ||
	    !port_usable(device, probe, address))
		err = 1;
	else if (endpoint)
		err = endpoint_fill(endpoint, probe, &device->rdma_options, address);
	else
		err = endpoint_open(server, probe->verbs, probe->port_num, false,
				    address, &device->rdma_options);
	(void)rdma_destroy_id(probe);
	return err;
}

/* Try the addresses of this host at which it can be reached: interfaces that are up, IPv4 before
 * IPv6, no loopback, nothing link-local; limited to those that params->listen or one of
 * params->extra_listen covers, with the port of params->listen.  With an endpoint up to the first
 * address on its port, else all until an error. */
static int addresses_try(struct fabric_server *server, struct verbs_endpoint *endpoint)
{
	static const uint8_t families[] = { 4, 6 };
	struct fabric_address address;
	struct ifaddrs *head;
	int err = 1;

	if (getifaddrs(&head))
		return err_errno(-errno, "getifaddrs");
	for (size_t f = 0; f < sizeof(families); f++)
		for (struct ifaddrs *ifa = head; ifa; ifa = ifa->ifa_next) {
			if (!interface_address(ifa, &address) ||
			    address.family != families[f] ||
			    !address_wanted(&server->params, &address))
				continue;
			address.port = server->params.listen.port;
			err = address_try(server, endpoint, &address);
			if (endpoint ? err <= 0 : err < 0)
				goto out;
		}
out:
	freeifaddrs(head);
	return err;
}

/* Open the first port that can be served without an IP address.
 *   -ENODEV  there is none, the text says why */
static int port_open(struct fabric_server *server,
		     const struct fabric_device_params *params,
		     struct ibv_context *verbs)
{
	/* a GID that no port has: verbs_port_query() uses gid_index, or InfiniBand's first GID */
	struct fabric_address address = { .family = 6 };
	struct ibv_device_attr attr;
	struct verbs_port local;
	unsigned ports;
	int none = 0;

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
		fabric_address_from_gid(local.gid, &address);
		return endpoint_open(server, verbs, (uint8_t)port, true, &address,
				     &params->rdma_options);
	}
	return none ? err_prefix(-ENODEV, "connect = direct") : 0;
}

/* Devices that are served without rdma_cm need no IP address: those without one are found by
 * their names. */
static int device_try(struct fabric_server *server, struct ibv_device *device)
{
	const char *name = ibv_get_device_name(device);
	const struct fabric_device_params *params = device_params_find(server, name);
	unsigned n_devices = server->n_devices;
	struct ibv_context *verbs;
	int err;

	if (params->rdma_options.connect != FABRIC_CONNECT_DIRECT ||
	    !device_wanted(server, name) || endpoint_find(server, name))
		return 0;
	verbs = ibv_open_device(device);
	if (!verbs)
		return 0;
	err = port_open(server, params, verbs);
	/* else the context belongs to its device now */
	if (server->n_devices == n_devices)
		verbs_device_close(verbs);
	/* unless devices are named, some may be there for other programs */
	return err == -ENODEV && !server->params.devices ? 0 : err;
}

static int devices_try(struct fabric_server *server)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int err = 0;

	for (int i = 0; !err && list && list[i]; i++)
		err = device_try(server, list[i]);
	if (list)
		ibv_free_device_list(list);
	return err;
}

/* 1: no device is there.  Then rdma_cm's own module is usually not there either. */
static int cm_open(struct fabric_server *server)
{
	struct rdma_event_channel *cm;
	int err = verbs_cm_create_channel(&cm);

	if (err == -ENODEV || err == -ENOENT || err == -ENOSYS)
		return 1;
	if (err)
		return err;
	err = verbs_server_watch(server, cm->fd);
	if (err) {
		rdma_destroy_event_channel(cm);
		return err;
	}
	server->cm = cm;
	return 0;
}

static int endpoint_await(struct fabric_server *server, const char *device)
{
	struct verbs_endpoint *endpoint;

	verbs_discovery_schedule(server);
	return endpoint_add(server, device, &endpoint);
}

static bool address_possible(const struct fabric_server_params *params)
{
	bool possible = !fabric_address_is_loopback(&params->listen);

	for (unsigned i = 0; i < params->n_extra_listen; i++)
		possible |= !fabric_address_is_loopback(&params->extra_listen[i]);
	return possible;
}

/* Wait for the devices that are named and not served.  If none is served, and none named, wait for
 * one if the host has any, or must have. */
static int endpoints_await(struct fabric_server *server)
{
	const struct fabric_server_params *params = &server->params;
	char text[LIST_TEXT];
	int err = 0;

	for (size_t i = 0; !err && params->devices && params->devices[i]; i++)
		if (!endpoint_find(server, params->devices[i]))
			err = endpoint_await(server, params->devices[i]);
	if (!err && !server->n_endpoints && address_possible(params) &&
	    (params->required || server->cm))
		err = endpoint_await(server, "");
	if (err || server->n_endpoints)
		return err;
	return err_set(-ENODEV,
		       "no RDMA device with an active port and an IP address to "
		       "listen on (devices: %s%s)",
		       verbs_device_list_text(text, sizeof(text)),
		       server->cm ? "" : "; rdma_cm needs the kernel module rdma_ucm");
}

int verbs_discovery_open(struct fabric_server *server)
{
	int err = cm_open(server);

	if (!err)
		err = addresses_try(server, NULL);
	if (err >= 0)
		err = devices_try(server);
	return err ? err : endpoints_await(server);
}

/* ---- rescanning ---- */

/* Whether the endpoint's address is still on its port. */
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

static void endpoint_rescan(struct verbs_endpoint *endpoint)
{
	struct fabric_server *server = endpoint->server;
	const struct verbs_device *device = endpoint->device;
	char text[FABRIC_ADDRESS_TEXT];
	int err;

	if (endpoint->listener && !device->removed &&
	    !endpoint_stays(server, endpoint)) {
		verbs_endpoint_unlisten(endpoint);
		verbs_endpoint_report(
			endpoint, " has lost the address %s",
			fabric_address_text(&endpoint->public.address, text));
	}
	/* a device that was removed and is still held is not probed: the kernel waits for its
	 * release */
	if (endpoint->listener || (device->removed && device->verbs))
		return;
	err = addresses_try(server, endpoint);
	endpoint->failures = err < 0 ? endpoint->failures + 1 : 0;
	/* the first attempt may be too early: a GID follows its address */
	if (endpoint->failures == 2)
		verbs_endpoint_report(endpoint, " is not served: %s", err_text());
}

/* Let endpoints listen where their addresses have moved to, and on devices that are back.  True:
 * all endpoints listen. */
static bool endpoints_rescan(struct fabric_server *server)
{
	bool all = true;

	if (server->cm_failed)
		return true;
	if (!server->cm && cm_open(server))
		return false;
	for (unsigned i = 0; i < server->n_endpoints; i++) {
		verbs_port_cache_clear(&server->endpoints[i]->device->port_cache);
		if (server->endpoints[i]->device->own)
			continue;
		endpoint_rescan(server->endpoints[i]);
		all &= !server->endpoints[i]->public.awaited;
	}
	return verbs_device_retire(server) && all;
}

static void rescan_due(struct verbs_delayed *delayed)
{
	struct fabric_server *server =
		container_of(delayed, struct fabric_server, rescan);

	if (!endpoints_rescan(server))
		verbs_discovery_schedule(server);
}

static int route_open(void)
{
	const struct sockaddr_nl groups = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
			NETLINK_ROUTE);
	int err;

	if (fd < 0)
		return err_errno(-errno, "a netlink socket");
	if (bind(fd, (const struct sockaddr *)&groups, sizeof(groups))) {
		err = err_errno(-errno, "a netlink socket");
		(void)close(fd);
		return err;
	}
	return fd;
}

/* The scan finds what has changed, also when the kernel has dropped messages (ENOBUFS). */
void verbs_discovery_process(struct fabric_server *server)
{
	char message[4096];
	ssize_t got;

	while ((got = recv(server->route_fd, message, sizeof(message), 0)) > 0 ||
	       (got < 0 && errno == ENOBUFS))
		verbs_discovery_schedule(server);
}

int verbs_discovery_init(struct fabric_server *server)
{
	list_init(&server->rescan.link);
	server->rescan.due = rescan_due;
	server->route_fd = route_open();
	return server->route_fd < 0 ? server->route_fd : 0;
}
