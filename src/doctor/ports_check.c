/* SPDX-License-Identifier: BSD-3-Clause */
/* Are the ports up, do they have addresses, and which MTU? */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>

#include "doctor/files.h"
#include "doctor/host_port.h"

#define STATE_PATH(port)                                                      \
	FILES_PATH("/sys/class/infiniband/%s/ports/%u/state", (port)->device, \
		   (port)->number)

/* ---- state ---- */

/* Why the port of an interface is down, with the command; false: the interface is up. */
static bool netdev_report(const struct host *host, const struct host_port *port)
{
	const char *flags_path = FILES_PATH("/sys/class/net/%s/flags", port->netdev),
		   *carrier_path =
			   FILES_PATH("/sys/class/net/%s/carrier", port->netdev);
	uint64_t flags, carrier;

	if (files_number(host->root, flags_path, &flags))
		return false;
	if (!(flags & IFF_UP)) {
		report_seen(host->report, flags_path, "0x%x: %s is not up",
			    (unsigned)flags, port->netdev);
		report_fix(host->report, "ip link set dev %s up", port->netdev);
		return true;
	}
	if (files_number(host->root, carrier_path, &carrier) || carrier)
		return false;
	report_seen(host->report, carrier_path, "0: %s has no carrier", port->netdev);
	report_fix(host->report,
		   "ethtool %s   # check cable, module and the switch's port",
		   port->netdev);
	return true;
}

static void down_report(const struct host *host, const struct host_port *port)
{
	report_find(host->report, host_level(host), "%s, port %u is not active",
		    port->device, port->number);
	report_seen(host->report, STATE_PATH(port), "%s",
		    *port->state ? port->state : "unknown");
	if (port->netdev[0] && netdev_report(host, port))
		return;
	if (port->infiniband)
		report_fix(host->report, "systemctl start opensm   # or the subnet "
					 "manager of the switch; see ibstat");
	else
		report_fix(host->report, "rdma link show %s/%u; dmesg | grep -i %s",
			   port->device, port->number, port->device);
}

void ports_check(const struct host *host)
{
	for (unsigned i = 0; i < host->n_ports; i++) {
		const struct host_port *port = &host->ports[i];

		if (port->active)
			report_find(host->report, REPORT_OK,
				    "%s, port %u is active%s%s", port->device,
				    port->number, port->netdev[0] ? ", on " : "",
				    port->netdev);
		else
			down_report(host, port);
	}
}

/* ---- addresses ---- */

/* iWARP uses the addresses of its interface, and no GIDs. */
static bool netdev_has_ipv4(const char *netdev)
{
	struct ifaddrs *list;
	bool found = false;

	if (getifaddrs(&list))
		return false;
	for (const struct ifaddrs *at = list; at; at = at->ifa_next)
		found |= at->ifa_addr && at->ifa_addr->sa_family == AF_INET &&
			 strcmp(at->ifa_name, netdev) == 0;
	freeifaddrs(list);
	return found;
}

static void missing_report(const struct host *host, const struct host_port *port)
{
	const char *netdev = port->netdev[0] ? port->netdev : "INTERFACE";

	report_find(host->report, host_level(host),
		    "%s, port %u has no IPv4 address: rdma_cm cannot reach it",
		    port->device, port->number);
	if (port->iwarp)
		report_seen(host->report, "getifaddrs", "%s has no IPv4 address",
			    netdev);
	else
		report_seen(host->report,
			    FILES_PATH("/sys/class/infiniband/%s/ports/%u/gids",
				       port->device, port->number),
			    "no GID of RoCE v2 that other hosts can reach");
	report_fix(host->report, "ip address add ADDRESS/24 dev %s", netdev);
}

static void address_check(const struct host *host, const struct host_port *port)
{
	char list[HOST_ADDRESSES_MAX * 18] = "";
	size_t used = 0;

	if (port->infiniband) {
		report_find(host->report, REPORT_NOTE,
			    "%s, port %u is InfiniBand: rdma_cm needs an address of "
			    "IPoIB, connect = direct needs none",
			    port->device, port->number);
		return;
	}
	if (port->iwarp && !host_is_live(host))
		return;
	if (port->iwarp && netdev_has_ipv4(port->netdev)) {
		report_find(host->report, REPORT_OK, "%s, port %u: %s has an address",
			    port->device, port->number, port->netdev);
		return;
	}
	if (port->n_addresses == 0 && port->n_gids > 0) {
		report_find(host->report, REPORT_NOTE,
			    "%s, port %u is reached over IPv6 only", port->device,
			    port->number);
		return;
	}
	if (port->n_addresses == 0) {
		missing_report(host, port);
		return;
	}
	for (unsigned i = 0; i < port->n_addresses; i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
					 i ? ", " : "", port->address[i]);
	report_find(host->report, REPORT_OK, "%s, port %u is reached at %s",
		    port->device, port->number, list);
}

void addresses_check(const struct host *host)
{
	for (unsigned i = 0; i < host->n_ports; i++)
		if (host->ports[i].active)
			address_check(host, &host->ports[i]);
}

/* ---- MTU ---- */

#define MTU_BEST 4096
/* The MTU of an interface that is enough for it, rounded up. */
#define NETDEV_MTU_BEST 4200
#define MTU_SMALL 1024

static void netdev_mtu_seen(const struct host *host, const struct host_port *port)
{
	report_seen(host->report, FILES_PATH("/sys/class/net/%s/mtu", port->netdev),
		    "%u", port->netdev_mtu);
}

static void active_mtu_seen(const struct host *host, const struct host_port *port)
{
	report_seen(host->report, "ibv_query_port", "%s, port %u: active_mtu %u",
		    port->device, port->number, port->active_mtu);
}

/* The device and the interface below it do not fit together. */
static bool mismatch_report(const struct host *host, const struct host_port *port,
			    unsigned possible)
{
	if (port->active_mtu == 0)
		return false;
	if (port->active_mtu > port->netdev_mtu) {
		report_find(host->report, host_level(host),
			    "%s, port %u sends packets of %u bytes of data, which %s "
			    "drops: its MTU is %u",
			    port->device, port->number, port->active_mtu, port->netdev,
			    port->netdev_mtu);
		netdev_mtu_seen(host, port);
		active_mtu_seen(host, port);
		report_fix(host->report, "ip link set dev %s mtu %u", port->netdev,
			   NETDEV_MTU_BEST);
		return true;
	}
	if (port->active_mtu >= possible)
		return false;
	report_find(host->report, REPORT_WARNING,
		    "%s, port %u uses an MTU of %u, although %s would carry %u",
		    port->device, port->number, port->active_mtu, port->netdev,
		    possible);
	netdev_mtu_seen(host, port);
	active_mtu_seen(host, port);
	report_fix(host->report,
		   "ip link set dev %s mtu %u   # again: the device follows a change",
		   port->netdev, port->netdev_mtu);
	return true;
}

static void mtu_check_port(const struct host *host, const struct host_port *port)
{
	unsigned possible = mtu_for_netdev(port->netdev_mtu);

	if (port->max_mtu && possible > port->max_mtu)
		possible = port->max_mtu;
	if (mismatch_report(host, port, possible))
		return;
	if (possible == MTU_BEST || (port->max_mtu && possible == port->max_mtu)) {
		report_find(host->report, REPORT_OK, "%s, port %u: MTU %u, of %s %u",
			    port->device, port->number, possible, port->netdev,
			    port->netdev_mtu);
		return;
	}
	report_find(host->report, possible < MTU_SMALL ? REPORT_WARNING : REPORT_NOTE,
		    "%s, port %u: the MTU of %s, %u, limits that of RDMA to %u of %d",
		    port->device, port->number, port->netdev, port->netdev_mtu,
		    possible, MTU_BEST);
	netdev_mtu_seen(host, port);
	report_fix(host->report,
		   "ip link set dev %s mtu %d   # on all hosts and switches",
		   port->netdev, NETDEV_MTU_BEST);
}

void mtu_check(const struct host *host)
{
	for (unsigned i = 0; i < host->n_ports; i++) {
		const struct host_port *port = &host->ports[i];

		/* iWARP packets are those of TCP; InfiniBand has no interface below */
		if (port->active && port->netdev_mtu && !port->iwarp &&
		    !port->infiniband)
			mtu_check_port(host, port);
	}
}
