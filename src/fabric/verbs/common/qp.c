/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/common/qp.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fabric/verbs/common/status.h"

unsigned verbs_mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

enum ibv_mtu verbs_mtu_of(unsigned bytes)
{
	enum ibv_mtu mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && verbs_mtu_bytes(mtu) > bytes)
		mtu--;
	return mtu;
}

static int step_failed(const struct rdma_cm_id *id, int err, const char *step)
{
	return err_errno(err, "RDMA device %s: the queue pair to %s",
			 ibv_get_device_name(id->verbs->device), step);
}

static int step_begin(struct rdma_cm_id *id, enum ibv_qp_state state, const char *step,
		      struct ibv_qp_attr *attr, int *ret_mask)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	return rdma_init_qp_attr(id, attr, ret_mask)
		       ? step_failed(id, verbs_errno(), step)
		       : 0;
}

static int step_end(struct rdma_cm_id *id, struct ibv_qp *qp, struct ibv_qp_attr *attr,
		    int mask, const char *step)
{
	int err = ibv_modify_qp(qp, attr, mask);

	return err ? step_failed(id, -abs(err), step) : 0;
}

/* Once more: what INIT takes from rdma_cm is known only since there is a peer. */
static int cm_init(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	int mask, err = step_begin(id, IBV_QPS_INIT, "INIT", &attr, &mask);

	return err ? err : step_end(id, qp, &attr, mask, "INIT");
}

static int cm_rtr(struct rdma_cm_id *id, struct ibv_qp *qp,
		  const struct fabric_rdma_options *rdma_options,
		  const struct verbs_rd_atomic *depths, struct verbs_qp_limits *limits)
{
	struct ibv_qp_attr attr;
	enum ibv_mtu most = verbs_mtu_of(limits->mtu);
	int mask, err = step_begin(id, IBV_QPS_RTR, "RTR", &attr, &mask);

	if (err)
		return err;
	if (attr.path_mtu > most)
		attr.path_mtu = most;
	limits->mtu = (uint16_t)verbs_mtu_bytes(attr.path_mtu);
	if (rdma_options->traffic_class != FABRIC_OPTION_AUTO)
		attr.ah_attr.grh.traffic_class = (uint8_t)rdma_options->traffic_class;
	if (rdma_options->service_level != FABRIC_OPTION_AUTO)
		attr.ah_attr.sl = (uint8_t)rdma_options->service_level;
	if (depths->responder >= 0)
		attr.max_dest_rd_atomic = (uint8_t)depths->responder;
	return step_end(id, qp, &attr, mask, "RTR");
}

static int cm_rts(struct rdma_cm_id *id, struct ibv_qp *qp,
		  const struct fabric_rdma_options *rdma_options,
		  const struct verbs_rd_atomic *depths,
		  const struct verbs_qp_limits *limits)
{
	struct ibv_qp_attr attr;
	int mask, err = step_begin(id, IBV_QPS_RTS, "RTS", &attr, &mask);

	if (err)
		return err;
	attr.retry_cnt = limits->retry_count;
	attr.rnr_retry = limits->rnr_retry_count;
	if (rdma_options->ack_timeout != FABRIC_OPTION_AUTO)
		attr.timeout = (uint8_t)rdma_options->ack_timeout;
	if (depths->initiator >= 0)
		attr.max_rd_atomic = (uint8_t)depths->initiator;
	return step_end(id, qp, &attr, mask, "RTS");
}

int verbs_qp_connect_cm(struct rdma_cm_id *id, struct ibv_qp *qp,
			const struct fabric_rdma_options *rdma_options,
			const struct verbs_rd_atomic *depths,
			struct verbs_qp_limits *limits)
{
	const struct verbs_qp_limits ours = verbs_qp_limits_of(rdma_options);
	struct verbs_qp_limits settled = verbs_qp_limits_min(&ours, limits);
	int err = cm_init(id, qp);

	if (!err)
		err = cm_rtr(id, qp, rdma_options, depths, &settled);
	if (!err)
		err = cm_rts(id, qp, rdma_options, depths, &settled);
	if (!err)
		*limits = settled;
	return err;
}
