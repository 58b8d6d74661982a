/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "base/err.h"
#include "fabric/fabric.h"
#include "fabric/verbs/client/cq.h"
#include "fabric/verbs/common/credits.h"
#include "fabric/verbs/client/domain.h"
#include "fabric/verbs/common/device_attr.h"
#include "fabric/verbs/client/connection.h"

/* The least that known devices carry in one message (soft-RoCE). */
#define MESSAGE_BYTES_MAX (UINT32_C(8) << 20)

static bool device_active(struct ibv_device *device)
{
	struct ibv_context *verbs = ibv_open_device(device);
	struct ibv_device_attr attr;
	bool active = false;

	if (!verbs)
		return false;
	if (!ibv_query_device(verbs, &attr))
		for (unsigned port = 1; port <= attr.phys_port_cnt && !active; port++)
			active = verbs_port_is_active(verbs, (uint8_t)port);
	(void)ibv_close_device(verbs);
	return active;
}

static bool device_present;

static void device_look(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	device_present = list && list[0];
	if (list)
		ibv_free_device_list(list);
}

/* Once a process, as looking takes long: who gets a device later is merely a little slower. */
static bool client_likely(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, device_look);
	return device_present;
}

static int client_available(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	bool any = list && list[0], active = false;
	char text[256];

	for (int i = 0; list && list[i] && !active; i++)
		active = device_active(list[i]);
	if (list)
		ibv_free_device_list(list);
	if (active)
		return 0;
	if (!any)
		return err_set(-ENODEV, "this host has no RDMA device");
	return err_set(-ENODEV,
		       "no RDMA device of this host has an active port that may be "
		       "used (devices: %s)",
		       verbs_device_list_text(text, sizeof(text)));
}

const struct fabric_client_ops fabric_verbs_client = {
	.name = "rdma",
	.kind = FABRIC_VERBS,
	.needs_local_mr = true,
	.max_bytes = MESSAGE_BYTES_MAX,
	.device_present = client_likely,
	.available = client_available,
	.domain_open = verbs_domain_open,
	.domain_close = verbs_domain_close,
	.domain_removed = verbs_domain_removed,
	.domain_disassociate = verbs_domain_disassociate,
	.domain_holds_device = verbs_domain_holds_device,
	.domain_device = verbs_domain_device,
	.domain_supports = verbs_domain_supports,
	.sge_max = verbs_domain_sge_max,
	.reg_mr = verbs_local_mr_reg,
	.dereg_mr = verbs_local_mr_dereg,
	.cq_create = verbs_cq_create,
	.cq_free = verbs_cq_free,
	.cq_fd = verbs_cq_fd,
	.cq_arm = verbs_cq_arm,
	.connect = verbs_connection_open,
	.prepare = verbs_connection_prepare,
	.prepare_sges = verbs_connection_prepare_sges,
	.prepare_atomic = verbs_connection_prepare_atomic,
	.inband_max = VERBS_CREDITS,
	.prepare_inband = verbs_connection_prepare_inband,
	.post = verbs_connection_post,
	.post_one = verbs_connection_post_one,
	.poll = verbs_cq_poll,
	.abort = verbs_connection_abort,
	.alive_fd = verbs_connection_alive_fd,
	.alive = verbs_connection_alive,
	.channel_free = verbs_connection_free,
};
