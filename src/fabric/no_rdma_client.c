/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/client.h"
#include "fabric/no_rdma.h"

static const char *missing(void)
{
	return NO_RDMA_TEXT;
}

static bool device_present(void)
{
	return false;
}

const struct fabric_client_ops fabric_verbs_client = {
	.name = "rdma",
	.kind = FABRIC_VERBS,
	.missing = missing,
	.device_present = device_present,
};
