/* SPDX-License-Identifier: BSD-3-Clause */
/* Take the queue pair of a connection from INIT to RTS.  librdmacm would do it by itself,
 * but with nothing to be said about MTU, service level, time-out or retries.  It leaves a
 * connection alone whose id has no queue pair, so that is kept apart meanwhile.  Not for
 * iWARP, where the kernel does it.  Threads: [any]. */
#ifndef FABRIC_VERBS_COMMON_QP_H
#define FABRIC_VERBS_COMMON_QP_H

#include <rdma/rdma_cma.h>

#include "fabric/verbs/common/qp_limits.h"

/* Reads and atomics under way on a channel; -1: as rdma_cm knows by now. */
struct verbs_rd_atomic {
	int responder, initiator;
};

/* MTUs as the devices count them.  `bytes` too small for any: the least. */
enum ibv_mtu verbs_mtu_of(unsigned bytes);
unsigned verbs_mtu_bytes(enum ibv_mtu mtu); /* 0: no such MTU */

/* rdma_cm knows the peer by now.  *terms is what the peer takes, and becomes what is in
 * effect.  -errno with text that names the device and the step. */
int verbs_qp_connect_cm(struct rdma_cm_id *id, struct ibv_qp *qp,
			const struct fabric_rdma_options *rdma_options,
			const struct verbs_rd_atomic *depths,
			struct verbs_qp_limits *limits);

#endif
