/* SPDX-License-Identifier: BSD-3-Clause */
/* RoCE over a network that drops packets is slow: flow control, traffic class, and losses that the
 * device has counted. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "doctor/files.h"
#include "doctor/host_port.h"

#define ECN_PRIORITIES 8
#define DSCP_SHIFT 2 /* of a traffic class */
#define PRIORITY_SHIFT 5
#define TOS_PATH "/sys/kernel/config/rdma_cm/%s/ports/%u/default_roce_tos"

/* Counters of packets that were lost or sent again; drivers have some of them. */
static const char *const losses[] = { "out_of_sequence",       "packet_seq_err",
				      "local_ack_timeout_err", "seq_err_nak_rx_cnt",
				      "res_oos_drops",         "retransmitted" };

/* ---- traffic class ---- */

/* The traffic class of rdma_cm's connections; -1: unknown. */
static int traffic_class(const struct host *host, const struct host_port *port,
			 char path[FILES_PATH_BYTES])
{
	uint64_t value;

	/* of the driver mlx5_ib, which overrules the others */
	files_path(path, FILES_PATH_BYTES,
		   "/sys/class/infiniband/%s/tc/%u/traffic_class", port->device,
		   port->number);
	if (files_number(host->root, path, &value) == 0)
		return (int)(value & 0xff);
	if (host->traffic_class >= 0) {
		(void)snprintf(path, FILES_PATH_BYTES, "traffic_class");
		return host->traffic_class;
	}
	files_path(path, FILES_PATH_BYTES, TOS_PATH, port->device, port->number);
	if (files_number(host->root, path, &value) == 0)
		return (int)(value & 0xff);
	return -1;
}

/* Explicit congestion notification of a priority, as the driver mlx5_core shows it; -1: unknown. */
static int ecn_enabled(const struct host *host, const struct host_port *port)
{
	int any = -1;

	for (unsigned i = 0; i < ECN_PRIORITIES; i++) {
		uint64_t value;

		if (files_number(host->root,
				 FILES_PATH("/sys/class/net/%s/ecn/roce_np/enable/%u",
					    port->netdev, i),
				 &value))
			continue;
		if (any < 1)
			any = value > 0;
	}
	return any;
}

static void priority_check(const struct host *host, const struct host_port *port)
{
	char path[FILES_PATH_BYTES];
	int class = traffic_class(host, port, path), priority;

	if (class < 0) {
		report_find(host->report, REPORT_NOTE,
			    "%s, port %u: flow control is on for some priorities, and "
			    "the traffic class of RDMA cannot be read",
			    port->device, port->number);
		report_seen(host->report, "DCB", "%s: PFC of the priorities 0x%02x",
			    port->netdev, (unsigned)port->pfc);
		report_fix(host->report, "# set [rdma] traffic_class in rmemd.conf");
		return;
	}
	/* the rule of switches that have no other table */
	priority = class >> PRIORITY_SHIFT;
	report_find(
		host->report, port->pfc & (1 << priority) ? REPORT_OK : REPORT_WARNING,
		"%s, port %u: RDMA has the traffic class %d (DSCP %d, priority %d), "
		"%s flow control",
		port->device, port->number, class, class >> DSCP_SHIFT, priority,
		port->pfc & (1 << priority) ? "with" : "which is without");
	report_seen(host->report, path, "%d", class);
	report_seen(host->report, "DCB", "%s: PFC of the priorities 0x%02x",
		    port->netdev, (unsigned)port->pfc);
	if (!(port->pfc & (1 << priority)))
		report_fix(
			host->report,
			"mkdir -p /sys/kernel/config/rdma_cm/%s && echo %d >" TOS_PATH,
			port->device, (ffs(port->pfc) - 1) << PRIORITY_SHIFT,
			port->device, port->number);
}

static void lossless_check(const struct host *host, const struct host_port *port)
{
	int ecn = ecn_enabled(host, port);

	if (port->pfc > 0) {
		priority_check(host, port);
		return;
	}
	if (port->pfc < 0 && ecn < 0) {
		report_find(host->report, REPORT_NOTE,
			    "%s, port %u: flow control (PFC, ECN) cannot be read from "
			    "the driver of %s",
			    port->device, port->number, port->netdev);
		return;
	}
	report_find(host->report, ecn > 0 ? REPORT_NOTE : REPORT_WARNING,
		    "%s, port %u: no priority of %s has flow control%s", port->device,
		    port->number, port->netdev,
		    ecn > 0 ? ", but congestion is notified (ECN)"
			    : ", and congestion is not notified (ECN)");
	if (port->pfc == 0)
		report_seen(host->report, "DCB", "%s: PFC of no priority",
			    port->netdev);
	if (ecn >= 0)
		report_seen(host->report,
			    FILES_PATH("/sys/class/net/%s/ecn/roce_np/enable",
				       port->netdev),
			    "%s", ecn ? "1" : "0");
	if (ecn <= 0)
		report_fix(host->report,
			   "dcb pfc set dev %s prio-pfc 3:on   # and on "
			   "the switches",
			   port->netdev);
}

/* ---- losses ---- */

static void losses_check(const struct host *host, const struct host_port *port)
{
	bool found = false;

	for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
		const char *path =
			FILES_PATH("/sys/class/infiniband/%s/ports/%u/hw_counters/%s",
				   port->device, port->number, losses[i]);
		uint64_t value;

		if (files_number(host->root, path, &value) || value == 0)
			continue;
		if (!found)
			report_find(host->report, REPORT_NOTE,
				    "%s, port %u has lost packets since it is up; a "
				    "number that grows means that RDMA is slow",
				    port->device, port->number);
		found = true;
		report_seen(host->report, path, "%" PRIu64, value);
	}
	if (found)
		report_fix(host->report,
			   "rdma statistic show link %s/%u   # again, "
			   "under load",
			   port->device, port->number);
}

void congestion_check(const struct host *host)
{
	for (unsigned i = 0; i < host->n_ports; i++) {
		const struct host_port *port = &host->ports[i];

		if (!port->active)
			continue;
		/* iWARP has TCP's congestion control, InfiniBand its credits, and the kernel's
		 * queues are those of soft-RoCE */
		if (!port->iwarp && !port->infiniband && !port->software)
			lossless_check(host, port);
		losses_check(host, port);
	}
}
