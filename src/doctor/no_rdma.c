/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA of this host, for a build without it. */
#include "doctor/host_port.h"
#include "fabric/no_rdma.h"

void rdma_read(struct host *)
{
}

void rdma_check(const struct host *host)
{
	report_check(host->report, "rdma-device");
	report_find(host->report, host_level(host), NO_RDMA_TEXT);
}
