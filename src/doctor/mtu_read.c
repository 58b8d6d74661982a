/* SPDX-License-Identifier: BSD-3-Clause */
/* The MTU of a port, which only its device tells. */
#include <infiniband/verbs.h>
#include <string.h>

#include "doctor/host_port.h"
#include "fabric/verbs/common/load.h"

static unsigned bytes_of(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

static struct ibv_context *device_open(const char *name)
{
	struct ibv_device **list = verbs_missing() ? NULL : ibv_get_device_list(NULL);
	struct ibv_context *verbs = NULL;

	for (int i = 0; list && list[i]; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			verbs = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return verbs;
}

void mtu_read(struct host_port *port)
{
	struct ibv_context *verbs = device_open(port->device);
	struct ibv_port_attr attr;

	if (!verbs)
		return;
	memset(&attr, 0, sizeof(attr));
	if (ibv_query_port(verbs, (uint8_t)port->number, &attr) == 0) {
		port->active_mtu = bytes_of(attr.active_mtu);
		port->max_mtu = bytes_of(attr.max_mtu);
	}
	(void)ibv_close_device(verbs);
}
