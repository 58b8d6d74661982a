/* SPDX-License-Identifier: BSD-3-Clause */
/* The host that is examined, and the checks that clients and servers share.  host_read() asks the
 * kernel once; the checks judge what it found, and read further files themselves.
 * Threads: [main].  Checks never fail: what could not be read is a finding of level note. */
#ifndef DOCTOR_HOST_H
#define DOCTOR_HOST_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "doctor/report.h"

#define HOST_PORTS_MAX 64
#define HOST_ADDRESSES_MAX 8
#define HOST_NAME_BYTES 64

/* A port of an RDMA device. */
struct host_port {
	char device[HOST_NAME_BYTES];
	unsigned number;
	bool iwarp;
	bool infiniband;     /* its link layer */
	bool software;       /* soft-RoCE or soft-iWARP */
	int node;            /* NUMA node of the device; -1: unknown */
	char node_path[128]; /* sysfs file with it */
	char state[32];      /* as the kernel writes it: "4: ACTIVE" */
	bool active;
	char netdev[IFNAMSIZ];        /* "": unknown */
	unsigned netdev_mtu;          /* 0: unknown */
	unsigned active_mtu, max_mtu; /* of RDMA; 0: unknown */
	unsigned n_gids; /* GIDs that peers can reach: RoCE v2, not link-local */
	char address[HOST_ADDRESSES_MAX][16]; /* IPv4, by which it is reached */
	unsigned n_addresses;
	/* state of the queue pair of rdma_cm: "RTS", "ERR"; "": unknown */
	char gsi_state[16];
	int pfc; /* priorities with flow control, a bit each; -1: unknown */
};

/* Whether this side uses RDMA. */
enum host_rdma { HOST_RDMA_UNUSED, HOST_RDMA_WANTED, HOST_RDMA_REQUIRED };

struct host {
	/* folder below which files are read, and nothing else is examined; "": this host */
	const char *root;
	struct report *report;
	enum host_rdma rdma;
	/* the devices that may be used; NULL: all */
	const char *const *devices;
	unsigned n_devices;
	int traffic_class; /* as configured; -1: the system's */

	struct host_port ports[HOST_PORTS_MAX]; /* of devices that may be used */
	unsigned n_ports;
	int clock; /* 1: synchronised, 0: not, -1: unknown */
};

/* Fill ports and clock; the other members are set. */
void host_read(struct host *host);

/* The level of what keeps RDMA from working: error if it is required. */
enum report_level host_level(const struct host *host);
/* Whether this host itself is examined, not a copy of its files. */
bool host_is_live(const struct host *host);

/* Each part of RDMA, as a check of its own. */
void rdma_check(const struct host *host);
void clock_check(const struct host *host);

/* The container manager that this process runs under, "docker"; NULL: none.  Below the root. */
const char *host_container(const struct host *host);

#endif
