/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel says of RDMA ports, and the checks of rdma_check().  Threads: [main]. */
#ifndef DOCTOR_HOST_PORT_H
#define DOCTOR_HOST_PORT_H

#include "doctor/host.h"

/* All that follows: the host's ports, what is known of them. */
void rdma_read(struct host *host);
/* The ports of all devices that may be used, from /sys. */
void ports_read(struct host *host);
/* MTU and, if its device does not tell it, NUMA node of a port whose interface is known. */
void netdev_read(const char *root, struct host_port *port);
/* Of this host: the MTU of a port, from its device. */
void mtu_read(struct host_port *port);
/* Of this host, over netlink: names of network interfaces, and states of queue pairs. */
void rdma_netlink_read(struct host *host);
/* Of this host, over netlink: priority flow control. */
void pfc_read(struct host_port *port);

void devices_check(const struct host *host);
void ports_check(const struct host *host);
void addresses_check(const struct host *host);
void mtu_check(const struct host *host);
void cm_check(const struct host *host);
void gsi_check(const struct host *host);
void congestion_check(const struct host *host);

/* The MTU that RDMA can use on an interface of this MTU; 0: none. */
unsigned mtu_for_netdev(unsigned netdev_mtu);

#endif
