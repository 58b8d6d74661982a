/* SPDX-License-Identifier: BSD-3-Clause */
/* Is there an RDMA device? */
#include <stdio.h>
#include <string.h>

#include "doctor/files.h"
#include "doctor/host_port.h"

/* Adapters that can do RDMA, by the vendor and the driver of the kernel that does it. */
static const struct {
	uint64_t vendor;
	const char *network_driver, *rdma_driver;
} adapters[] = {
	{ 0x15b3, "mlx5_core", "mlx5_ib" },   { 0x15b3, "mlx4_core", "mlx4_ib" },
	{ 0x8086, "ice", "irdma" },           { 0x8086, "i40e", "irdma" },
	{ 0x14e4, "bnxt_en", "bnxt_re" },     { 0x1077, "qede", "qedr" },
	{ 0x1425, "cxgb4", "iw_cxgb4" },      { 0x1d0f, "ena", "efa" },
	{ 0x19e5, "hns3", "hns_roce_hw_v2" }, { 0x1dd8, "ionic", "ionic_rdma" },
};

/* The name of the driver of a PCI device: where its link leads to.  A copy of /sys may lack it. */
static const char *rdma_driver(const struct host *host, const char *slot,
			       uint64_t vendor)
{
	for (size_t i = 0; i < sizeof(adapters) / sizeof(adapters[0]); i++)
		if (adapters[i].vendor == vendor &&
		    files_exist(host->root,
				FILES_PATH("/sys/bus/pci/drivers/%s/%s",
					   adapters[i].network_driver, slot)))
			return adapters[i].rdma_driver;
	return NULL;
}

/* An adapter whose driver for RDMA is not loaded; false: none is found. */
static bool adapter_find(const struct host *host)
{
	struct dirent **slots;
	unsigned n = files_list(host->root, "/sys/bus/pci/devices", &slots);
	bool found = false;

	for (unsigned i = 0; i < n && !found; i++) {
		const char *slot = slots[i]->d_name, *driver;
		const char *path = FILES_PATH("/sys/bus/pci/devices/%s/vendor", slot);
		uint64_t vendor;

		if (files_number(host->root, path, &vendor))
			continue;
		driver = rdma_driver(host, slot, vendor);
		if (!driver ||
		    files_exist(host->root, FILES_PATH("/sys/module/%s", driver)))
			continue;
		report_seen(host->report, path,
			    "0x%04x, whose driver for RDMA, %s, is "
			    "not loaded",
			    (unsigned)vendor, driver);
		report_fix(host->report, "modprobe %s", driver);
		found = true;
	}
	files_list_free(slots, n);
	return found;
}

static void none_report(const struct host *host)
{
	bool any = files_exist(host->root, "/sys/class/infiniband");

	report_find(host->report, host_level(host), "this host has no RDMA device");
	report_seen(host->report, "/sys/class/infiniband",
		    any ? "is empty" : "does not exist: no RDMA driver is loaded");
	if (adapter_find(host))
		return;
	report_fix(host->report, "# without an adapter there is soft-RoCE:");
	report_fix(host->report,
		   "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0");
}

static bool device_present(const struct host *host, const char *name)
{
	return files_exist(host->root, FILES_PATH("/sys/class/infiniband/%s", name));
}

static void present_report(const struct host *host)
{
	for (unsigned i = 0; i < host->n_ports; i++) {
		const struct host_port *port = &host->ports[i];

		/* once for each device */
		if (i > 0 && strcmp(port->device, port[-1].device) == 0)
			continue;
		report_find(host->report, REPORT_OK, "%s: %s%s", port->device,
			    port->software ? "software, " : "",
			    port->iwarp        ? "iWARP"
			    : port->infiniband ? "InfiniBand"
					       : "RoCE");
	}
}

void devices_check(const struct host *host)
{
	struct dirent **names;
	unsigned n = files_list(host->root, "/sys/class/infiniband", &names);

	files_list_free(names, n);
	if (n == 0) {
		none_report(host);
		return;
	}
	for (unsigned i = 0; i < host->n_devices; i++) {
		if (device_present(host, host->devices[i]))
			continue;
		report_find(host->report, REPORT_ERROR,
			    "the RDMA device %s, which the configuration names, is "
			    "missing",
			    host->devices[i]);
		report_seen(host->report,
			    FILES_PATH("/sys/class/infiniband/%s", host->devices[i]),
			    "does not exist");
		report_fix(host->report, "rdma link   # shows the devices' names");
	}
	present_report(host);
}
