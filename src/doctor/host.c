/* SPDX-License-Identifier: BSD-3-Clause */
#include "doctor/host.h"

#include <string.h>
#include <sys/timex.h>

#include "doctor/files.h"
#include "doctor/host_port.h"

bool host_is_live(const struct host *host)
{
	return *host->root == '\0';
}

enum report_level host_level(const struct host *host)
{
	return host->rdma == HOST_RDMA_REQUIRED ? REPORT_ERROR : REPORT_WARNING;
}

static int clock_read(void)
{
	struct timex timex = { .modes = 0 };
	int state = adjtimex(&timex);

	if (state < 0)
		return -1;
	return state != TIME_ERROR && !(timex.status & STA_UNSYNC);
}

void host_read(struct host *host)
{
	host->n_ports = 0;
	host->clock = -1;
	ports_read(host);
	if (!host_is_live(host))
		return;
	host->clock = clock_read();
	/* asking a kernel without RDMA would load its module */
	if (host->n_ports > 0)
		rdma_netlink_read(host);
	for (unsigned i = 0; i < host->n_ports; i++) {
		netdev_read(host->root, &host->ports[i]);
		mtu_read(&host->ports[i]);
		pfc_read(&host->ports[i]);
	}
}

const char *host_container(const struct host *host)
{
	static const struct {
		const char *path, *name;
	} marks[] = {
		{ "/run/.containerenv", "podman" },
		{ "/.dockerenv", "docker" },
		{ "/var/run/secrets/kubernetes.io", "kubernetes" },
		{ "/run/host/container-manager", "a container manager" },
		{ "/run/systemd/container", "a container manager" },
	};

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (files_exist(host->root, marks[i].path))
			return marks[i].name;
	return NULL;
}
