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

void verbs_gid_address(const uint8_t gid[16], struct fabric_address *ret_address)
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

void verbs_address_gid(const struct fabric_address *address, uint8_t ret_gid[16])
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

static const char *name_of(const struct verbs_place *place)
{
	return ibv_get_device_name(place->verbs->device);
}

/* ---- finding it ---- */

static bool gid_wanted(const struct verbs_place *place, const struct ibv_gid_entry *gid,
		       int index, const uint8_t wanted[16])
{
	if (gid->port_num != place->port ||
	    !verbs_gid_usable(gid->gid_type, place->infiniband))
		return false;
	if (index != FABRIC_OPTION_AUTO)
		return gid->gid_index == (uint32_t)index;
	return !memcmp(gid->gid.raw, wanted, 16);
}

static const struct ibv_gid_entry *gid_find(const struct verbs_place *place,
					    const struct ibv_gid_entry *gids,
					    unsigned n, int index,
					    const struct fabric_address *address)
{
	uint8_t wanted[16];

	verbs_address_gid(address, wanted);
	for (unsigned i = 0; i < n; i++)
		if (gid_wanted(place, &gids[i], index, wanted))
			return &gids[i];
	/* the fabric finds the way by LIDs; the first is the port's own for good */
	for (unsigned i = 0; place->infiniband && index == FABRIC_OPTION_AUTO && i < n;
	     i++)
		if (gid_wanted(place, &gids[i], 0, wanted))
			return &gids[i];
	return NULL;
}

static int gid_take(struct verbs_place *place, struct verbs_table *table,
		    const struct fabric_address *address, int index)
{
	static const uint8_t nowhere[16];
	const struct ibv_gid_entry *gids, *gid;
	char text[INET6_ADDRSTRLEN] = "?";
	uint8_t wanted[16];
	unsigned n = verbs_table_gids(table, &gids);

	gid = gid_find(place, gids, n, index, address);
	if (gid) {
		place->gid_index = (uint8_t)gid->gid_index;
		memcpy(place->gid, gid->gid.raw, sizeof(place->gid));
	}
	if (gid)
		return 0;
	if (index != FABRIC_OPTION_AUTO)
		return err_set(-EADDRNOTAVAIL,
			       "RDMA device %s, port %u: there is no GID %d of %s",
			       name_of(place), place->port, index,
			       place->infiniband ? "InfiniBand" : "RoCE v2");
	verbs_address_gid(address, wanted);
	if (!memcmp(wanted, nowhere, sizeof(nowhere)))
		return err_set(-EADDRNOTAVAIL,
			       "RDMA device %s, port %u has no IP address to serve at: "
			       "give its interface one, or choose a GID by gid_index",
			       name_of(place), place->port);
	(void)inet_ntop(AF_INET6, wanted, text, sizeof(text));
	return err_set(-EADDRNOTAVAIL, "RDMA device %s, port %u has no GID %s",
		       name_of(place), place->port, text);
}

static int pkey_take(struct verbs_place *place, unsigned n, int wanted)
{
	__be16 pkey;

	if (!place->infiniband &&
	    (wanted == FABRIC_OPTION_AUTO || wanted == PKEY_DEFAULT)) {
		place->pkey = PKEY_DEFAULT;
		return 0;
	}
	for (unsigned i = 0; i < n; i++) {
		if (ibv_query_pkey(place->verbs, place->port, (int)i, &pkey))
			break;
		if (wanted != FABRIC_OPTION_AUTO && ntohs(pkey) != wanted)
			continue;
		place->pkey_index = (uint16_t)i;
		place->pkey = ntohs(pkey);
		return 0;
	}
	if (wanted == FABRIC_OPTION_AUTO)
		return err_set(-EINVAL, "RDMA device %s, port %u is in no partition",
			       name_of(place), place->port);
	return err_set(-EINVAL, "RDMA device %s, port %u has no P_Key 0x%04x",
		       name_of(place), place->port, (unsigned)wanted);
}

int verbs_place_recall(struct verbs_table *table, uint8_t port,
		       const struct fabric_address *address,
		       const struct fabric_rdma_options *rdma_options,
		       struct verbs_place *ret_place)
{
	struct verbs_place place = { .verbs = table->verbs, .port = port };
	const struct ibv_port_attr *attr;
	int err;

	if (table->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		return err_set(-ENOTSUP,
			       "RDMA device %s: iWARP cannot connect without rdma_cm "
			       "(connect = direct)",
			       name_of(&place));
	err = verbs_table_port(table, port, &attr);
	if (err)
		return err_errno(err, "RDMA device %s, port %u", name_of(&place), port);
	if (attr->state != IBV_PORT_ACTIVE)
		return err_set(-ENETDOWN, "RDMA device %s, port %u is not active",
			       name_of(&place), port);
	place.infiniband = attr->link_layer == IBV_LINK_LAYER_INFINIBAND;
	place.lid = place.infiniband ? attr->lid : 0;
	place.mtu = verbs_mtu_bytes(attr->active_mtu);
	err = gid_take(&place, table, address, rdma_options->gid_index);
	if (!err)
		err = pkey_take(&place, attr->pkey_tbl_len, rdma_options->pkey);
	if (!err)
		*ret_place = place;
	return err;
}

int verbs_place_look(struct ibv_context *verbs, uint8_t port,
		     const struct fabric_address *address,
		     const struct fabric_rdma_options *rdma_options,
		     struct verbs_place *ret_place)
{
	struct verbs_table table = verbs_table_of(verbs);
	int err = verbs_place_recall(&table, port, address, rdma_options, ret_place);

	verbs_table_forget(&table);
	return err;
}

/* ---- ends ---- */

struct fabric_qp_info verbs_place_end(const struct verbs_place *place,
				      const struct ibv_qp *qp,
				      const struct fabric_rdma_options *rdma_options,
				      uint8_t rd_atomic)
{
	const struct verbs_terms terms = verbs_terms_of(rdma_options);
	struct fabric_qp_info end = {
		.qpn = qp->qp_num,
		.lid = place->lid,
		.pkey = place->pkey,
		.mtu = terms.mtu < place->mtu ? terms.mtu : (uint16_t)place->mtu,
		.rd_atomic = rd_atomic,
		.retry_count = terms.retry_count,
		.rnr_retry_count = terms.rnr_retry_count,
	};

	random_bytes(&end.psn, sizeof(end.psn));
	end.psn &= BITS_24;
	memcpy(end.gid, place->gid, sizeof(end.gid));
	return end;
}

/* That a port can have, on this place's network. */
static bool gid_sound(const struct verbs_place *place, const uint8_t gid[16])
{
	static const uint8_t nothing[15];
	struct fabric_address address;
	bool is4 = !memcmp(gid, mapped, sizeof(mapped));

	verbs_gid_address(gid, &address);
	/* multicast; none at all, and loopback */
	if (gid[0] == 0xff || (!memcmp(gid, nothing, sizeof(nothing)) && gid[15] <= 1))
		return false;
	if (place->infiniband)
		return true;
	/* RoCE v2 is UDP of one of the families */
	if (is4 != !memcmp(place->gid, mapped, sizeof(mapped)))
		return false;
	return !is4 || (address.bytes[0] != 0 && address.bytes[0] != 127 &&
			address.bytes[0] < 224);
}

static int end_refused(const char *what, unsigned value)
{
	return err_set(-EINVAL, "the peer's end of the channel has %s %#x", what,
		       value);
}

static int fabric_check(const struct verbs_place *place,
			const struct fabric_qp_info *theirs)
{
	char text[INET6_ADDRSTRLEN] = "?";

	if (!gid_sound(place, theirs->gid)) {
		(void)inet_ntop(AF_INET6, theirs->gid, text, sizeof(text));
		return err_set(-EINVAL,
			       "the peer's end of the channel has GID %s, which RDMA "
			       "device %s cannot reach",
			       text, name_of(place));
	}
	if (place->infiniband ? theirs->lid == 0 || theirs->lid >= LID_MULTICAST
			      : theirs->lid != 0)
		return end_refused("LID", theirs->lid);
	if (!(theirs->pkey & ~PKEY_MEMBER))
		return end_refused("P_Key", theirs->pkey);
	/* two limited members may not talk to each other */
	if (((theirs->pkey ^ place->pkey) & ~PKEY_MEMBER) ||
	    !((theirs->pkey | place->pkey) & PKEY_MEMBER))
		return err_set(-EACCES,
			       "the partitions differ: P_Key 0x%04x of RDMA device %s, "
			       "0x%04x of the peer",
			       place->pkey, name_of(place), theirs->pkey);
	return 0;
}

int verbs_end_check(const struct verbs_place *place,
		    const struct fabric_qp_info *theirs)
{
	if (theirs->qpn < QPN_MIN || theirs->qpn > BITS_24)
		return end_refused("queue pair number", theirs->qpn);
	if (theirs->psn > BITS_24)
		return end_refused("PSN", theirs->psn);
	if (theirs->mtu < 256 || theirs->mtu > 4096 ||
	    (theirs->mtu & (theirs->mtu - 1)))
		return end_refused("MTU", theirs->mtu);
	return fabric_check(place, theirs);
}

/* ---- driving ---- */

static int step(const struct verbs_place *place, struct ibv_qp *qp,
		struct ibv_qp_attr *attr, int mask, const char *name)
{
	int err = ibv_modify_qp(qp, attr, mask);

	return err ? err_errno(-abs(err), "RDMA device %s: the queue pair to %s",
			       name_of(place), name)
		   : 0;
}

int verbs_place_init(const struct verbs_place *place, struct ibv_qp *qp,
		     unsigned access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = place->pkey_index,
		.port_num = place->port,
		.qp_access_flags = access,
	};

	return step(place, qp, &attr,
		    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    IBV_QP_ACCESS_FLAGS,
		    "INIT");
}

/* The way to the other end: by LID on InfiniBand, within a subnet; else by GID. */
static struct ibv_ah_attr way_to(const struct verbs_place *place,
				 const struct fabric_rdma_options *rdma_options,
				 const struct fabric_qp_info *theirs)
{
	struct ibv_ah_attr way = {
		.dlid = theirs->lid,
		.port_num = place->port,
		.grh = { .sgid_index = place->gid_index, .hop_limit = HOPS },
	};

	if (rdma_options->service_level != FABRIC_OPTION_AUTO)
		way.sl = (uint8_t)rdma_options->service_level;
	if (rdma_options->traffic_class != FABRIC_OPTION_AUTO)
		way.grh.traffic_class = (uint8_t)rdma_options->traffic_class;
	memcpy(way.grh.dgid.raw, theirs->gid, sizeof(theirs->gid));
	way.is_global = !place->infiniband ||
			memcmp(theirs->gid, place->gid, PREFIX_BYTES) != 0;
	return way;
}

static int join_rtr(const struct verbs_place *place, struct ibv_qp *qp,
		    const struct fabric_rdma_options *rdma_options,
		    const struct verbs_depths *depths,
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
		.ah_attr = way_to(place, rdma_options, theirs),
	};

	char text[INET6_ADDRSTRLEN] = "?";
	int err = step(place, qp, &attr,
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
		       name_of(place), text);
}

static int join_rts(const struct verbs_place *place, struct ibv_qp *qp,
		    const struct fabric_rdma_options *rdma_options,
		    const struct verbs_depths *depths,
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

	return step(place, qp, &attr,
		    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
		    "RTS");
}

int verbs_place_join(const struct verbs_place *place, struct ibv_qp *qp,
		     const struct fabric_rdma_options *rdma_options,
		     const struct verbs_depths *depths,
		     const struct fabric_qp_info *theirs, struct fabric_qp_info *ours)
{
	const struct verbs_terms a = { ours->mtu, ours->retry_count,
				       ours->rnr_retry_count };
	const struct verbs_terms b = { theirs->mtu, theirs->retry_count,
				       theirs->rnr_retry_count };
	struct verbs_terms settled = verbs_terms_settle(&a, &b);
	struct fabric_qp_info end = *ours;
	int err;

	end.mtu = settled.mtu;
	end.retry_count = settled.retry_count;
	end.rnr_retry_count = settled.rnr_retry_count;
	err = join_rtr(place, qp, rdma_options, depths, theirs, &end);
	if (!err)
		err = join_rts(place, qp, rdma_options, depths, &end);
	if (!err)
		*ours = end;
	return err;
}
