/* SPDX-License-Identifier: BSD-3-Clause */
#include <sys/timex.h>

#include "doctor/host_port.h"

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
	host->clock = host_is_live(host) ? clock_read() : -1;
	rdma_read(host);
}
