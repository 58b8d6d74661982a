/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz/cm-data.h"

#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

int __real_rdma_get_cm_event(struct rdma_event_channel *channel,
			     struct rdma_cm_event **ret_event);
int __wrap_rdma_get_cm_event(struct rdma_event_channel *channel,
			     struct rdma_cm_event **ret_event);

static uint8_t *exact;
static uint8_t exact_bytes;

void cm_data_set(const uint8_t *data, size_t bytes)
{
	free(exact);
	exact = NULL;
	if (!data)
		return;
	exact_bytes = bytes < UINT8_MAX ? (uint8_t)bytes : UINT8_MAX;
	exact = malloc(exact_bytes ? exact_bytes : 1);
	if (!exact)
		abort();
	memcpy(exact, data, exact_bytes);
}

int __wrap_rdma_get_cm_event(struct rdma_event_channel *channel,
			     struct rdma_cm_event **ret_event)
{
	int err = __real_rdma_get_cm_event(channel, ret_event);

	if (err || !exact)
		return err;
	(*ret_event)->param.conn.private_data = exact;
	(*ret_event)->param.conn.private_data_len = exact_bytes;
	return 0;
}
