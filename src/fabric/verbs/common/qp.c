/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/common/qp.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fabric/hello.h"
#include "base/random.h"
#include "fabric/address.h"
#include "fabric/verbs/common/cm.h"
#include "fabric/verbs/common/context.h"
#include "fabric/verbs/common/iwarp.h"

#define LIMITS_MAGIC UINT32_C(0x746d6d72) /* "rmmt" on the wire */
#define BITS_24 0xffffffu
/* 0 and 1 are for management */
#define QPN_MIN 2
#define LID_MULTICAST 0xc000
#define PKEY_MEMBER 0x8000u
#define PREFIX_BYTES 8
#define HOPS 64
/* 0.5 s, the value of rdma_cm over RoCE */
#define ACK_TIMEOUT 17
/* 0.64 ms, for a send without a receive */
#define RNR_TIMER 12

/* ---- limits ---- */

struct limits_wire {
	uint32_t magic;
	uint16_t mtu;
	uint8_t retries;
	uint8_t rnr;
} __attribute__((packed));

_Static_assert(sizeof(struct limits_wire) == VERBS_QP_LIMITS_BYTES,
	       "limits on the wire");
_Static_assert(FABRIC_HELLO_BYTES + VERBS_QP_LIMITS_BYTES <= VERBS_PRIVATE_BYTES,
	       "hello and limits fit into private data");

struct verbs_qp_limits
verbs_qp_limits_of(const struct fabric_rdma_options *rdma_options)
{
	return (struct verbs_qp_limits){
		.mtu = rdma_options->mtu == FABRIC_OPTION_AUTO
			       ? UINT16_MAX
			       : (uint16_t)rdma_options->mtu,
		.retry_count = (uint8_t)rdma_options->retry_count,
		.rnr_retry_count = (uint8_t)rdma_options->rnr_retry_count,
	};
}

static uint8_t lower(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

static struct verbs_qp_limits limits_min(const struct verbs_qp_limits *a,
					 const struct verbs_qp_limits *b)
{
	return (struct verbs_qp_limits){
		.mtu = a->mtu < b->mtu ? a->mtu : b->mtu,
		.retry_count = lower(a->retry_count, b->retry_count),
		.rnr_retry_count = lower(a->rnr_retry_count, b->rnr_retry_count),
	};
}

void verbs_qp_limits_encode(const struct verbs_qp_limits *limits,
			    uint8_t buf[VERBS_QP_LIMITS_BYTES])
{
	const struct limits_wire wire = {
		.magic = htole32(LIMITS_MAGIC),
		.mtu = htole16(limits->mtu),
		.retries = limits->retry_count,
		.rnr = limits->rnr_retry_count,
	};

	memcpy(buf, &wire, sizeof(wire));
}

struct verbs_qp_limits verbs_qp_limits_decode(const uint8_t *buf, size_t bytes)
{
	const struct verbs_qp_limits none = { UINT16_MAX, VERBS_RETRIES,
					      VERBS_RETRIES };
	struct verbs_qp_limits limits;
	struct limits_wire wire;

	if (bytes < sizeof(wire))
		return none;
	memcpy(&wire, buf, sizeof(wire));
	if (le32toh(wire.magic) != LIMITS_MAGIC)
		return none;
	limits = (struct verbs_qp_limits){ le16toh(wire.mtu), wire.retries, wire.rnr };
	/* a peer may ask for fewer retries, not for endless ones */
	return limits_min(&limits, &none);
}

/* ---- steps ---- */

static int step_end(const struct ibv_qp *qp, int err, enum ibv_qp_state state)
{
	return err ? err_errno(err, "RDMA device %s: the queue pair to %s",
			       ibv_get_device_name(qp->context->device),
			       state == IBV_QPS_INIT  ? "INIT"
			       : state == IBV_QPS_RTR ? "RTR"
						      : "RTS")
		   : 0;
}

static int step_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return step_end(qp, -abs(ibv_modify_qp(qp, attr, mask)), attr->qp_state);
}

/* Set the attributes that were negotiated or configured.  A step ignores those that are not in its
 * mask. */
static void attr_settle(struct ibv_qp_attr *attr,
			const struct fabric_rdma_options *rdma_options,
			const struct verbs_rd_atomic *depths,
			const struct verbs_qp_limits *limits)
{
	attr->retry_cnt = limits->retry_count;
	attr->rnr_retry = limits->rnr_retry_count;
	if (rdma_options->traffic_class != FABRIC_OPTION_AUTO)
		attr->ah_attr.grh.traffic_class = (uint8_t)rdma_options->traffic_class;
	if (rdma_options->service_level != FABRIC_OPTION_AUTO)
		attr->ah_attr.sl = (uint8_t)rdma_options->service_level;
	if (rdma_options->ack_timeout != FABRIC_OPTION_AUTO)
		attr->timeout = (uint8_t)rdma_options->ack_timeout;
	if (depths->responder >= 0)
		attr->max_dest_rd_atomic = (uint8_t)depths->responder;
	if (depths->initiator >= 0)
		attr->max_rd_atomic = (uint8_t)depths->initiator;
}

int verbs_qp_post_recv(struct ibv_qp *qp, uint64_t wr_id, void *addr, uint32_t bytes,
		       uint32_t lkey)
{
	struct ibv_sge local = {
		.addr = (uintptr_t)addr,
		.length = bytes,
		.lkey = lkey,
	};
	struct ibv_recv_wr receive = {
		.wr_id = wr_id,
		.sg_list = &local,
		.num_sge = 1,
	};
	struct ibv_recv_wr *bad;

	return -abs(ibv_post_recv(qp, &receive, &bad));
}

int verbs_qp_fail(struct ibv_qp *qp, bool iwarp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct verbs_sigpipe sigpipe;
	int err;

	verbs_sigpipe_begin(&sigpipe, iwarp);
	err = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	verbs_sigpipe_end(&sigpipe);
	return -abs(err);
}

/* ---- with rdma_cm ---- */

static int cm_step(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state,
		   const struct fabric_rdma_options *rdma_options,
		   const struct verbs_rd_atomic *depths, struct verbs_qp_limits *limits)
{
	enum ibv_mtu most = verbs_mtu_of(limits->mtu);
	struct ibv_qp_attr attr;
	int mask;

	memset(&attr, 0, sizeof(attr));
	attr.qp_state = state;
	if (rdma_init_qp_attr(id, &attr, &mask))
		return step_end(qp, verbs_errno(), state);
	/* the queue pair serves no access before the server allows it */
	attr.qp_access_flags = 0;
	if (attr.path_mtu > most)
		attr.path_mtu = most;
	if (state == IBV_QPS_RTR)
		limits->mtu = (uint16_t)verbs_mtu_bytes(attr.path_mtu);
	attr_settle(&attr, rdma_options, depths, limits);
	return step_modify(qp, &attr, mask);
}

int verbs_qp_connect_cm(struct rdma_cm_id *id, struct ibv_qp *qp,
			const struct fabric_rdma_options *rdma_options,
			const struct verbs_rd_atomic *depths,
			struct verbs_qp_limits *limits)
{
	/* INIT again: some of its attributes are known to rdma_cm only once there is a peer */
	static const enum ibv_qp_state states[] = { IBV_QPS_INIT, IBV_QPS_RTR,
						    IBV_QPS_RTS };
	const struct verbs_qp_limits ours = verbs_qp_limits_of(rdma_options);
	struct verbs_qp_limits settled = limits_min(&ours, limits);
	int err = 0;

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]) && !err; i++)
		err = cm_step(id, qp, states[i], rdma_options, depths, &settled);
	if (!err)
		*limits = settled;
	return err;
}

/* ---- without rdma_cm ---- */

struct fabric_qp_info verbs_qp_info_make(const struct verbs_port *local,
					 const struct ibv_qp *qp,
					 const struct fabric_rdma_options *rdma_options,
					 uint8_t rd_atomic)
{
	const struct verbs_qp_limits limits = verbs_qp_limits_of(rdma_options);
	struct fabric_qp_info info = {
		.qpn = qp->qp_num,
		.lid = local->lid,
		.pkey = local->pkey,
		.mtu = limits.mtu < local->mtu ? limits.mtu : (uint16_t)local->mtu,
		.rd_atomic = rd_atomic,
		.retry_count = limits.retry_count,
		.rnr_retry_count = limits.rnr_retry_count,
		.psn = random_u64() & BITS_24,
	};

	memcpy(info.gid, local->gid, sizeof(info.gid));
	return info;
}

/* Whether a port on the local port's network can have the GID. */
static bool gid_sound(const struct verbs_port *local, const uint8_t gid[16])
{
	static const uint8_t nothing[15];
	struct fabric_address address, own;

	fabric_address_from_gid(gid, &address);
	fabric_address_from_gid(local->gid, &own);
	/* multicast; none at all, and loopback */
	if (gid[0] == 0xff || (!memcmp(gid, nothing, sizeof(nothing)) && gid[15] <= 1))
		return false;
	if (local->infiniband)
		return true;
	/* RoCE v2 is UDP over one of the families */
	if (address.family != own.family)
		return false;
	return address.family == 6 ||
	       (address.bytes[0] != 0 && address.bytes[0] != 127 &&
		address.bytes[0] < 224);
}

static int value_refused(const char *what, unsigned value)
{
	return err_set(-EINVAL, "the peer's end of the channel has %s %#x", what,
		       value);
}

static int reach_check(const struct verbs_port *local,
		       const struct fabric_qp_info *theirs)
{
	char text[INET6_ADDRSTRLEN];

	if (!gid_sound(local, theirs->gid))
		return err_set(-EINVAL,
			       "the peer's end of the channel has GID %s, which RDMA "
			       "device %s cannot reach",
			       inet_ntop(AF_INET6, theirs->gid, text, sizeof(text)),
			       ibv_get_device_name(local->verbs->device));
	if (local->infiniband ? theirs->lid == 0 || theirs->lid >= LID_MULTICAST
			      : theirs->lid != 0)
		return value_refused("LID", theirs->lid);
	if (!(theirs->pkey & ~PKEY_MEMBER))
		return value_refused("P_Key", theirs->pkey);
	/* two limited members may not talk to each other */
	if (((theirs->pkey ^ local->pkey) & ~PKEY_MEMBER) ||
	    !((theirs->pkey | local->pkey) & PKEY_MEMBER))
		return err_set(-EACCES,
			       "the partitions differ: P_Key 0x%04x of RDMA device %s, "
			       "0x%04x of the peer",
			       local->pkey, ibv_get_device_name(local->verbs->device),
			       theirs->pkey);
	return 0;
}

int verbs_qpn_check(uint32_t qpn)
{
	return qpn < QPN_MIN || qpn > BITS_24 ? value_refused("queue pair number", qpn)
					      : 0;
}

int verbs_qp_info_check(const struct verbs_port *local,
			const struct fabric_qp_info *theirs)
{
	int err = verbs_qpn_check(theirs->qpn);

	if (err)
		return err;
	if (theirs->psn > BITS_24)
		return value_refused("PSN", theirs->psn);
	if (theirs->mtu < 256 || theirs->mtu > 4096 ||
	    (theirs->mtu & (theirs->mtu - 1)))
		return value_refused("MTU", theirs->mtu);
	return reach_check(local, theirs);
}

int verbs_qp_init(const struct verbs_port *local, struct ibv_qp *qp, unsigned access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = local->pkey_index,
		.port_num = local->port,
		.qp_access_flags = access,
	};

	return step_modify(qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				   IBV_QP_ACCESS_FLAGS);
}

/* The route to the peer: by LID on InfiniBand, within a subnet; else by GID. */
static struct ibv_ah_attr ah_attr_of(const struct verbs_port *local,
				     const struct fabric_qp_info *theirs)
{
	struct ibv_ah_attr ah_attr = {
		.dlid = theirs->lid,
		.port_num = local->port,
		.grh = { .sgid_index = local->gid_index, .hop_limit = HOPS },
	};

	memcpy(ah_attr.grh.dgid.raw, theirs->gid, sizeof(theirs->gid));
	ah_attr.is_global = !local->infiniband ||
			    memcmp(theirs->gid, local->gid, PREFIX_BYTES) != 0;
	return ah_attr;
}

static int connect_rtr(struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	char text[INET6_ADDRSTRLEN];
	int err;

	attr->qp_state = IBV_QPS_RTR;
	err = step_modify(qp, attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER);
	if (err != -ETIMEDOUT)
		return err;
	return err_set(
		err,
		"RDMA device %s: nobody answers for the peer's GID %s; is the "
		"peer's RDMA port on this network?",
		ibv_get_device_name(qp->context->device),
		inet_ntop(AF_INET6, attr->ah_attr.grh.dgid.raw, text, sizeof(text)));
}

int verbs_qp_connect(const struct verbs_port *local, struct ibv_qp *qp,
		     const struct fabric_rdma_options *rdma_options,
		     const struct verbs_rd_atomic *depths,
		     const struct fabric_qp_info *theirs, struct fabric_qp_info *ours)
{
	const struct verbs_qp_limits limits = {
		.mtu = theirs->mtu < ours->mtu ? theirs->mtu : ours->mtu,
		.retry_count = lower(ours->retry_count, theirs->retry_count),
		.rnr_retry_count =
			lower(ours->rnr_retry_count, theirs->rnr_retry_count),
	};
	struct ibv_qp_attr attr = {
		.path_mtu = verbs_mtu_of(limits.mtu),
		.dest_qp_num = theirs->qpn,
		.rq_psn = theirs->psn,
		.sq_psn = ours->psn,
		.min_rnr_timer = RNR_TIMER,
		.timeout = ACK_TIMEOUT,
		.ah_attr = ah_attr_of(local, theirs),
	};
	int err;

	attr_settle(&attr, rdma_options, depths, &limits);
	err = connect_rtr(qp, &attr);
	if (err)
		return err;
	attr.qp_state = IBV_QPS_RTS;
	err = step_modify(qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				  IBV_QP_MAX_QP_RD_ATOMIC);
	if (err)
		return err;
	ours->mtu = limits.mtu;
	ours->retry_count = limits.retry_count;
	ours->rnr_retry_count = limits.rnr_retry_count;
	return 0;
}
