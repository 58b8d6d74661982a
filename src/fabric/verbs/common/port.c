/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/common/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/random.h"
#include "fabric/verbs/common/status.h"

#define BITS_24 0xffffffu
/* 0 and 1 are for management */
#define QPN_MIN 2
#define LID_MULTICAST 0xc000
#define PKEY_MEMBER 0x8000u
#define PREFIX_BYTES 8
/* what the one partition of Ethernet has */
#define PKEY_DEFAULT 0xffff
#define HOPS 64
/* 0.5 s: what rdma_cm settles on over RoCE */
#define ACK_TIMEOUT 17
/* 0.64 ms, should there ever be no receive */
#define RNR_TIMER 12

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

void verbs_gid_to_address(const uint8_t gid[16], struct fabric_address *ret_address)
{
	memset(ret_address, 0, sizeof(*ret_address));
	if (!memcmp(gid, mapped, sizeof(mapped))) {
		ret_address->family = 4;
		memcpy(ret_address->bytes, gid + sizeof(mapped), 4);
	} else {
		ret_address->family = 6;
		memcpy(ret_address->bytes, gid, 16);
	}
}

void verbs_address_to_gid(const struct fabric_address *address, uint8_t ret_gid[16])
{
	if (address->family == 4) {
		memcpy(ret_gid, mapped, sizeof(mapped));
		memcpy(ret_gid + sizeof(mapped), address->bytes, 4);
	} else {
		memcpy(ret_gid, address->bytes, 16);
	}
}

bool verbs_gid_usable(uint32_t type, bool infiniband)
{
	return type == (infiniband ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2);
}

static const char *name_of(const struct verbs_port *local)
{
	return ibv_get_device_name(local->verbs->device);
}

/* ---- finding it ---- */

static bool gid_wanted(const struct verbs_port *local, const struct ibv_gid_entry *gid,
		       int index, const uint8_t wanted[16])
{
	if (gid->port_num != local->port ||
	    !verbs_gid_usable(gid->gid_type, local->infiniband))
		return false;
	if (index != FABRIC_OPTION_AUTO)
		return gid->gid_index == (uint32_t)index;
	return !memcmp(gid->gid.raw, wanted, 16);
}

static const struct ibv_gid_entry *gid_find(const struct verbs_port *local,
					    const struct ibv_gid_entry *gids,
					    unsigned n, int index,
					    const struct fabric_address *address)
{
	uint8_t wanted[16];

	verbs_address_to_gid(address, wanted);
	for (unsigned i = 0; i < n; i++)
		if (gid_wanted(local, &gids[i], index, wanted))
			return &gids[i];
	/* the fabric finds the way by LIDs; the first is the port's own for good */
	for (unsigned i = 0; local->infiniband && index == FABRIC_OPTION_AUTO && i < n;
	     i++)
		if (gid_wanted(local, &gids[i], 0, wanted))
			return &gids[i];
	return NULL;
}

static int gid_select(struct verbs_port *local, struct verbs_port_cache *port_cache,
		      const struct fabric_address *address, int index)
{
	static const uint8_t nowhere[16];
	const struct ibv_gid_entry *gids, *gid;
	char text[INET6_ADDRSTRLEN] = "?";
	uint8_t wanted[16];
	unsigned n = verbs_port_cache_gids(port_cache, &gids);

	gid = gid_find(local, gids, n, index, address);
	if (gid) {
		local->gid_index = (uint8_t)gid->gid_index;
		memcpy(local->gid, gid->gid.raw, sizeof(local->gid));
	}
	if (gid)
		return 0;
	if (index != FABRIC_OPTION_AUTO)
		return err_set(-EADDRNOTAVAIL,
			       "RDMA device %s, port %u: there is no GID %d of %s",
			       name_of(local), local->port, index,
			       local->infiniband ? "InfiniBand" : "RoCE v2");
	verbs_address_to_gid(address, wanted);
	if (!memcmp(wanted, nowhere, sizeof(nowhere)))
		return err_set(-EADDRNOTAVAIL,
			       "RDMA device %s, port %u has no IP address to serve at: "
			       "give its interface one, or choose a GID by gid_index",
			       name_of(local), local->port);
	(void)inet_ntop(AF_INET6, wanted, text, sizeof(text));
	return err_set(-EADDRNOTAVAIL, "RDMA device %s, port %u has no GID %s",
		       name_of(local), local->port, text);
}

static int pkey_select(struct verbs_port *local, unsigned n, int wanted)
{
	__be16 pkey;

	if (!local->infiniband &&
	    (wanted == FABRIC_OPTION_AUTO || wanted == PKEY_DEFAULT)) {
		local->pkey = PKEY_DEFAULT;
		return 0;
	}
	for (unsigned i = 0; i < n; i++) {
		if (ibv_query_pkey(local->verbs, local->port, (int)i, &pkey))
			break;
		if (wanted != FABRIC_OPTION_AUTO && ntohs(pkey) != wanted)
			continue;
		local->pkey_index = (uint16_t)i;
		local->pkey = ntohs(pkey);
		return 0;
	}
	if (wanted == FABRIC_OPTION_AUTO)
		return err_set(-EINVAL, "RDMA device %s, port %u is in no partition",
			       name_of(local), local->port);
	return err_set(-EINVAL, "RDMA device %s, port %u has no P_Key 0x%04x",
		       name_of(local), local->port, (unsigned)wanted);
}

int verbs_port_lookup(struct verbs_port_cache *port_cache, uint8_t port,
		      const struct fabric_address *address,
		      const struct fabric_rdma_options *rdma_options,
		      struct verbs_port *ret_local)
{
	struct verbs_port local = { .verbs = port_cache->verbs, .port = port };
	const struct ibv_port_attr *attr;
	int err;

	if (port_cache->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		return err_set(-ENOTSUP,
			       "RDMA device %s: iWARP cannot connect without rdma_cm "
			       "(connect = direct)",
			       name_of(&local));
	err = verbs_port_cache_attr(port_cache, port, &attr);
	if (err)
		return err_errno(err, "RDMA device %s, port %u", name_of(&local), port);
	if (attr->state != IBV_PORT_ACTIVE)
		return err_set(-ENETDOWN, "RDMA device %s, port %u is not active",
			       name_of(&local), port);
	local.infiniband = attr->link_layer == IBV_LINK_LAYER_INFINIBAND;
	local.lid = local.infiniband ? attr->lid : 0;
	local.mtu = verbs_mtu_bytes(attr->active_mtu);
	err = gid_select(&local, port_cache, address, rdma_options->gid_index);
	if (!err)
		err = pkey_select(&local, attr->pkey_tbl_len, rdma_options->pkey);
	if (!err)
		*ret_local = local;
	return err;
}

int verbs_port_query(struct ibv_context *verbs, uint8_t port,
		     const struct fabric_address *address,
		     const struct fabric_rdma_options *rdma_options,
		     struct verbs_port *ret_local)
{
	struct verbs_port_cache port_cache = verbs_port_cache_of(verbs);
	int err =
		verbs_port_lookup(&port_cache, port, address, rdma_options, ret_local);

	verbs_port_cache_clear(&port_cache);
	return err;
}

/* ---- ends ---- */

struct fabric_qp_info verbs_qp_info_make(const struct verbs_port *local,
					 const struct ibv_qp *qp,
					 const struct fabric_rdma_options *rdma_options,
					 uint8_t rd_atomic)
{
	const struct verbs_qp_limits limits = verbs_qp_limits_of(rdma_options);
	struct fabric_qp_info end = {
		.qpn = qp->qp_num,
		.lid = local->lid,
		.pkey = local->pkey,
		.mtu = limits.mtu < local->mtu ? limits.mtu : (uint16_t)local->mtu,
		.rd_atomic = rd_atomic,
		.retry_count = limits.retry_count,
		.rnr_retry_count = limits.rnr_retry_count,
	};

	random_bytes(&end.psn, sizeof(end.psn));
	end.psn &= BITS_24;
	memcpy(end.gid, local->gid, sizeof(end.gid));
	return end;
}

/* That a port can have, on this place's network. */
static bool gid_sound(const struct verbs_port *local, const uint8_t gid[16])
{
	static const uint8_t nothing[15];
	struct fabric_address address;
	bool is4 = !memcmp(gid, mapped, sizeof(mapped));

	verbs_gid_to_address(gid, &address);
	/* multicast; none at all, and loopback */
	if (gid[0] == 0xff || (!memcmp(gid, nothing, sizeof(nothing)) && gid[15] <= 1))
		return false;
	if (local->infiniband)
		return true;
	/* RoCE v2 is UDP of one of the families */
	if (is4 != !memcmp(local->gid, mapped, sizeof(mapped)))
		return false;
	return !is4 || (address.bytes[0] != 0 && address.bytes[0] != 127 &&
			address.bytes[0] < 224);
}

static int end_refused(const char *what, unsigned value)
{
	return err_set(-EINVAL, "the peer's end of the channel has %s %#x", what,
		       value);
}

static int fabric_check(const struct verbs_port *local,
			const struct fabric_qp_info *theirs)
{
	char text[INET6_ADDRSTRLEN] = "?";

	if (!gid_sound(local, theirs->gid)) {
		(void)inet_ntop(AF_INET6, theirs->gid, text, sizeof(text));
		return err_set(-EINVAL,
			       "the peer's end of the channel has GID %s, which RDMA "
			       "device %s cannot reach",
			       text, name_of(local));
	}
	if (local->infiniband ? theirs->lid == 0 || theirs->lid >= LID_MULTICAST
			      : theirs->lid != 0)
		return end_refused("LID", theirs->lid);
	if (!(theirs->pkey & ~PKEY_MEMBER))
		return end_refused("P_Key", theirs->pkey);
	/* two limited members may not talk to each other */
	if (((theirs->pkey ^ local->pkey) & ~PKEY_MEMBER) ||
	    !((theirs->pkey | local->pkey) & PKEY_MEMBER))
		return err_set(-EACCES,
			       "the partitions differ: P_Key 0x%04x of RDMA device %s, "
			       "0x%04x of the peer",
			       local->pkey, name_of(local), theirs->pkey);
	return 0;
}

int verbs_qp_info_check(const struct verbs_port *local,
			const struct fabric_qp_info *theirs)
{
	if (theirs->qpn < QPN_MIN || theirs->qpn > BITS_24)
		return end_refused("queue pair number", theirs->qpn);
	if (theirs->psn > BITS_24)
		return end_refused("PSN", theirs->psn);
	if (theirs->mtu < 256 || theirs->mtu > 4096 ||
	    (theirs->mtu & (theirs->mtu - 1)))
		return end_refused("MTU", theirs->mtu);
	return fabric_check(local, theirs);
}

/* ---- driving ---- */

static int step(const struct verbs_port *local, struct ibv_qp *qp,
		struct ibv_qp_attr *attr, int mask, const char *name)
{
	int err = ibv_modify_qp(qp, attr, mask);

	return err ? err_errno(-abs(err), "RDMA device %s: the queue pair to %s",
			       name_of(local), name)
		   : 0;
}

int verbs_qp_init(const struct verbs_port *local, struct ibv_qp *qp, unsigned access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = local->pkey_index,
		.port_num = local->port,
		.qp_access_flags = access,
	};

	return step(local, qp, &attr,
		    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    IBV_QP_ACCESS_FLAGS,
		    "INIT");
}

/* The way to the other end: by LID on InfiniBand, within a subnet; else by GID. */
static struct ibv_ah_attr ah_attr_of(const struct verbs_port *local,
				     const struct fabric_rdma_options *rdma_options,
				     const struct fabric_qp_info *theirs)
{
	struct ibv_ah_attr way = {
		.dlid = theirs->lid,
		.port_num = local->port,
		.grh = { .sgid_index = local->gid_index, .hop_limit = HOPS },
	};

	if (rdma_options->service_level != FABRIC_OPTION_AUTO)
		way.sl = (uint8_t)rdma_options->service_level;
	if (rdma_options->traffic_class != FABRIC_OPTION_AUTO)
		way.grh.traffic_class = (uint8_t)rdma_options->traffic_class;
	memcpy(way.grh.dgid.raw, theirs->gid, sizeof(theirs->gid));
	way.is_global = !local->infiniband ||
			memcmp(theirs->gid, local->gid, PREFIX_BYTES) != 0;
	return way;
}

static int connect_rtr(const struct verbs_port *local, struct ibv_qp *qp,
		       const struct fabric_rdma_options *rdma_options,
		       const struct verbs_rd_atomic *depths,
		       const struct fabric_qp_info *theirs,
		       const struct fabric_qp_info *ours)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = verbs_mtu_of(ours->mtu),
		.dest_qp_num = theirs->qpn,
		.rq_psn = theirs->psn,
		.max_dest_rd_atomic = (uint8_t)depths->responder,
		.min_rnr_timer = RNR_TIMER,
		.ah_attr = ah_attr_of(local, rdma_options, theirs),
	};

	char text[INET6_ADDRSTRLEN] = "?";
	int err = step(local, qp, &attr,
		       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			       IBV_QP_MIN_RNR_TIMER,
		       "RTR");

	if (err != -ETIMEDOUT)
		return err;
	(void)inet_ntop(AF_INET6, theirs->gid, text, sizeof(text));
	return err_set(err,
		       "RDMA device %s: nobody answers for the peer's GID %s; is the "
		       "peer's RDMA port on this network?",
		       name_of(local), text);
}

static int connect_rts(const struct verbs_port *local, struct ibv_qp *qp,
		       const struct fabric_rdma_options *rdma_options,
		       const struct verbs_rd_atomic *depths,
		       const struct fabric_qp_info *ours)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = ours->psn,
		.timeout = rdma_options->ack_timeout == FABRIC_OPTION_AUTO
				   ? ACK_TIMEOUT
				   : (uint8_t)rdma_options->ack_timeout,
		.retry_cnt = ours->retry_count,
		.rnr_retry = ours->rnr_retry_count,
		.max_rd_atomic = (uint8_t)depths->initiator,
	};

	return step(local, qp, &attr,
		    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
		    "RTS");
}

int verbs_qp_connect(const struct verbs_port *local, struct ibv_qp *qp,
		     const struct fabric_rdma_options *rdma_options,
		     const struct verbs_rd_atomic *depths,
		     const struct fabric_qp_info *theirs, struct fabric_qp_info *ours)
{
	const struct verbs_qp_limits a = { ours->mtu, ours->retry_count,
					   ours->rnr_retry_count };
	const struct verbs_qp_limits b = { theirs->mtu, theirs->retry_count,
					   theirs->rnr_retry_count };
	struct verbs_qp_limits settled = verbs_qp_limits_min(&a, &b);
	struct fabric_qp_info end = *ours;
	int err;

	end.mtu = settled.mtu;
	end.retry_count = settled.retry_count;
	end.rnr_retry_count = settled.rnr_retry_count;
	err = connect_rtr(local, qp, rdma_options, depths, theirs, &end);
	if (!err)
		err = connect_rts(local, qp, rdma_options, depths, &end);
	if (!err)
		*ours = end;
	return err;
}
