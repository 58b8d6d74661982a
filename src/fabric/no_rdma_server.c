/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include "base/err.h"
#include "fabric/no_rdma.h"
#include "fabric/server.h"

static int server_open(const struct fabric_server_params *,
		       const struct fabric_server_events *, void *,
		       struct fabric_server **)
{
	return err_set(-ENOTSUP, NO_RDMA_TEXT);
}

const struct fabric_server_ops fabric_verbs_server = {
	.name = "rdma",
	.kind = FABRIC_VERBS,
	.open = server_open,
};
