/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA of this host: what is read of it, and the checks, in the order of the output. */
#include "doctor/host_port.h"
#include "fabric/verbs/common/load.h"

static void libraries_check(const struct host *host)
{
	const char *missing = verbs_missing();

	if (missing)
		report_find(host->report, host_level(host), "%s", missing);
}

static const struct check {
	const char *name;
	void (*run)(const struct host *host);
} checks[] = {
	{ "rdma-device", devices_check }, { "rdma-libraries", libraries_check },
	{ "rdma-port", ports_check },     { "rdma-address", addresses_check },
	{ "rdma-mtu", mtu_check },        { "rdma-files", cm_check },
	{ "rdma-gsi", gsi_check },        { "congestion", congestion_check },
};

void rdma_read(struct host *host)
{
	ports_read(host);
	if (!host_is_live(host))
		return;
	/* asking a kernel without RDMA would load its module */
	if (host->n_ports > 0)
		rdma_netlink_read(host);
	for (unsigned i = 0; i < host->n_ports; i++) {
		netdev_read(host->root, &host->ports[i]);
		mtu_read(&host->ports[i]);
		pfc_read(&host->ports[i]);
	}
}

void rdma_check(const struct host *host)
{
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		report_check(host->report, checks[i].name);
		checks[i].run(host);
	}
}
