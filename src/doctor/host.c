/* SPDX-License-Identifier: BSD-3-Clause */
#include "doctor/host.h"

#include "doctor/files.h"

bool host_is_live(const struct host *host)
{
	return *host->root == '\0';
}

enum report_level host_level(const struct host *host)
{
	return host->rdma == HOST_RDMA_REQUIRED ? REPORT_ERROR : REPORT_WARNING;
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
