/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue pair by which rdma_cm talks to other hosts.  Once it is in ERR, no connection through
 * the device succeeds. */
#include <string.h>

#include "doctor/host_port.h"

static void error_report(const struct host *host, const struct host_port *port)
{
	report_find(host->report, host_level(host),
		    "%s, port %u can make no connections: its GSI queue pair is in ERR",
		    port->device, port->number);
	report_seen(host->report, "rdma resource show qp", "%s/%u type GSI state ERR",
		    port->device, port->number);
	if (port->software)
		report_fix(host->report,
			   "rdma link delete %s; rdma link add %s type %s netdev %s",
			   port->device, port->device, port->iwarp ? "siw" : "rxe",
			   port->netdev[0] ? port->netdev : "INTERFACE");
	else
		report_fix(host->report,
			   "# load the driver of %s again, or restart the host",
			   port->device);
}

void gsi_check(const struct host *host)
{
	for (unsigned i = 0; i < host->n_ports; i++) {
		const struct host_port *port = &host->ports[i];

		/* drivers that handle these packets themselves do not show it */
		if (!port->gsi_state[0])
			continue;
		if (strcmp(port->gsi_state, "ERR") == 0)
			error_report(host, port);
		else
			report_find(host->report, REPORT_OK,
				    "%s, port %u: the GSI queue pair is in %s",
				    port->device, port->number, port->gsi_state);
	}
}
