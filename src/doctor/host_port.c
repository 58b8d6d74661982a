/* SPDX-License-Identifier: BSD-3-Clause */
#include "doctor/host_port.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/files.h"

#define GIDS_MAX 256
/* What Ethernet frames carry besides the data of RoCE: GRH, UDP, BTH, the longest extended headers
 * and the ICRC, as the kernel counts them. */
#define ROCE_OVERHEAD 96

unsigned mtu_for_netdev(unsigned netdev_mtu)
{
	unsigned mtu = 4096;

	while (mtu >= 256 && mtu + ROCE_OVERHEAD > netdev_mtu)
		mtu /= 2;
	return mtu >= 256 ? mtu : 0;
}

static bool device_wanted(const struct host *host, const char *name)
{
	for (unsigned i = 0; i < host->n_devices; i++)
		if (strcmp(host->devices[i], name) == 0)
			return true;
	return !host->devices;
}

/* ---- addresses ---- */

/* A GID that peers on other hosts can reach: RoCE v2, and not link-local. */
static void gid_add(struct host_port *port, const struct in6_addr *gid)
{
	if (IN6_IS_ADDR_UNSPECIFIED(gid) || IN6_IS_ADDR_LINKLOCAL(gid))
		return;
	port->n_gids++;
	if (!IN6_IS_ADDR_V4MAPPED(gid) || port->n_addresses == HOST_ADDRESSES_MAX)
		return;
	(void)inet_ntop(AF_INET, &gid->s6_addr[12], port->address[port->n_addresses],
			sizeof(port->address[0]));
	port->n_addresses++;
}

/* The first interface that a GID has is that of the port. */
static void gids_read(const char *root, const char *folder, struct host_port *port)
{
	char line[64];
	struct in6_addr gid;

	for (unsigned i = 0; i < GIDS_MAX; i++) {
		if (files_line(root, FILES_PATH("%s/gids/%u", folder, i), line,
			       sizeof(line)))
			break;
		if (inet_pton(AF_INET6, line, &gid) != 1)
			continue;
		if (!port->netdev[0] &&
		    files_line(root, FILES_PATH("%s/gid_attrs/ndevs/%u", folder, i),
			       line, sizeof(line)) == 0)
			(void)snprintf(port->netdev, sizeof(port->netdev), "%.15s",
				       line);
		/* an entry that is not in use has no type */
		if (files_line(root, FILES_PATH("%s/gid_attrs/types/%u", folder, i),
			       line, sizeof(line)) == 0 &&
		    strcmp(line, "RoCE v2") == 0)
			gid_add(port, &gid);
	}
}

/* ---- ports ---- */

/* The NUMA node that a file tells; false: the firmware does not tell it (-1), or there is none. */
static bool node_read(const char *root, const char *path, struct host_port *port)
{
	uint64_t node;

	if (files_number(root, path, &node))
		return false;
	port->node = (int)node;
	(void)snprintf(port->node_path, sizeof(port->node_path), "%s", path);
	return true;
}

void netdev_read(const char *root, struct host_port *port)
{
	const char *folder = FILES_PATH("/sys/class/net/%s", port->netdev);
	uint64_t mtu;

	if (!port->netdev[0])
		return;
	if (files_number(root, FILES_PATH("%s/mtu", folder), &mtu) == 0)
		port->netdev_mtu = (unsigned)mtu;
	/* a device in software is where its interface is; that of virtio is one of PCI's */
	if (port->node < 0 &&
	    !node_read(root, FILES_PATH("%s/device/numa_node", folder), port))
		(void)node_read(root, FILES_PATH("%s/device/../numa_node", folder),
				port);
}

static void port_read(const struct host *host, const char *device, const char *number,
		      struct host_port *port)
{
	const char *root = host->root;
	char folder[FILES_PATH_BYTES], line[64];

	*port = (struct host_port){ .node = -1, .pfc = -1 };
	(void)snprintf(port->device, sizeof(port->device), "%.63s", device);
	port->number = (unsigned)strtoul(number, NULL, 10);
	files_path(folder, sizeof(folder), "/sys/class/infiniband/%s", device);
	port->software = !files_exist(root, FILES_PATH("%s/device", folder));
	if (files_line(root, FILES_PATH("%s/node_type", folder), line, sizeof(line)) ==
	    0)
		port->iwarp = strstr(line, "RNIC") != NULL;
	(void)node_read(root, FILES_PATH("%s/device/numa_node", folder), port);
	/* soft-RoCE tells its interface so */
	(void)files_line(root, FILES_PATH("%s/parent", folder), port->netdev,
			 sizeof(port->netdev));
	files_path(folder, sizeof(folder), "/sys/class/infiniband/%s/ports/%u", device,
		   port->number);
	(void)files_line(root, FILES_PATH("%s/state", folder), port->state,
			 sizeof(port->state));
	port->active = strstr(port->state, "ACTIVE") && *port->state == '4';
	if (files_line(root, FILES_PATH("%s/link_layer", folder), line, sizeof(line)) ==
	    0)
		port->infiniband = strcmp(line, "InfiniBand") == 0 && !port->iwarp;
	gids_read(root, folder, port);
	netdev_read(root, port);
}

static void device_read(struct host *host, const char *device)
{
	struct dirent **names;
	unsigned n = files_list(host->root,
				FILES_PATH("/sys/class/infiniband/%s/ports", device),
				&names);

	for (unsigned i = 0; i < n && host->n_ports < HOST_PORTS_MAX; i++)
		port_read(host, device, names[i]->d_name,
			  &host->ports[host->n_ports++]);
	files_list_free(names, n);
}

void ports_read(struct host *host)
{
	struct dirent **names;
	unsigned n = files_list(host->root, "/sys/class/infiniband", &names);

	for (unsigned i = 0; i < n; i++)
		if (device_wanted(host, names[i]->d_name))
			device_read(host, names[i]->d_name);
	files_list_free(names, n);
}
