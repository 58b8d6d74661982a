/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/device_query.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fabric/verbs/common/qp.h"

/* More in a request than any device is known to take. */
#define INLINE_BYTES_MAX 4096
/* Those in use, of all ports; an answer of 64 KiB would be refused by the kernel. */
#define GIDS_ASKED 1024

static unsigned count(int value)
{
	return value > 0 ? (unsigned)value : 0;
}

static enum fabric_transport transport_of(struct ibv_context *verbs, uint8_t port)
{
	struct ibv_port_attr attr;

	if (verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		return FABRIC_IWARP;
	memset(&attr, 0, sizeof(attr));
	if (!ibv_query_port(verbs, port, &attr) &&
	    attr.link_layer == IBV_LINK_LAYER_INFINIBAND)
		return FABRIC_INFINIBAND;
	return FABRIC_ROCE;
}

static enum fabric_atomics atomics_of(const struct ibv_device_attr *attr)
{
	if (attr->atomic_cap == IBV_ATOMIC_GLOB)
		return FABRIC_ATOMICS_GLOBAL;
	return attr->atomic_cap == IBV_ATOMIC_HCA ? FABRIC_ATOMICS_DEVICE
						  : FABRIC_ATOMICS_NONE;
}

static bool inline_try(struct ibv_pd *pd, struct ibv_cq *cq, uint32_t bytes)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 1,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = bytes },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	if (!qp)
		return false;
	(void)ibv_destroy_qp(qp);
	return true;
}

/* No device tells, but it refuses queue pairs that ask for more. */
static uint32_t inline_bytes_of(struct ibv_context *verbs, struct ibv_pd *pd)
{
	struct ibv_cq *cq = ibv_create_cq(verbs, 2, NULL, NULL, 0);
	uint32_t taken = 0, refused = INLINE_BYTES_MAX + 1;

	if (!cq)
		return 0;
	while (refused - taken > 1) {
		uint32_t tried = taken + (refused - taken) / 2;

		if (inline_try(pd, cq, tried))
			taken = tried;
		else
			refused = tried;
	}
	(void)ibv_destroy_cq(cq);
	return taken;
}

static bool relaxed_ordering_try(struct ibv_pd *pd)
{
	/* not constant: else a library that does not know the flag would not be asked */
	unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
	uint64_t word = 0;
	struct ibv_mr *mr = ibv_reg_mr(pd, &word, sizeof(word), access);

	if (!mr)
		return false;
	(void)ibv_dereg_mr(mr);
	return true;
}

static void features_try(struct ibv_context *verbs,
			 struct fabric_device_attr *fabric_attr)
{
	struct ibv_pd *pd = ibv_alloc_pd(verbs);

	if (!pd)
		return;
	fabric_attr->inline_bytes = inline_bytes_of(verbs, pd);
	fabric_attr->relaxed_ordering = relaxed_ordering_try(pd);
	(void)ibv_dealloc_pd(pd);
}

int verbs_device_query(struct ibv_context *verbs, uint8_t port,
		       struct fabric_device_attr *ret_attr)
{
	struct ibv_device_attr_ex extended = { .comp_mask = 0 };
	const struct ibv_device_attr *attr = &extended.orig_attr;
	enum fabric_transport transport = transport_of(verbs, port);
	int err = ibv_query_device_ex(verbs, NULL, &extended);

	if (err)
		return err_errno(-abs(err), "RDMA device %s: ibv_query_device_ex",
				 ibv_get_device_name(verbs->device));
	*ret_attr = (struct fabric_device_attr){
		.transport = transport,
		/* as the protocol has neither */
		.atomics = transport == FABRIC_IWARP ? FABRIC_ATOMICS_NONE
						     : atomics_of(attr),
		.write_immediate = transport != FABRIC_IWARP,
		.on_demand_paging = extended.odp_caps.general_caps & IBV_ODP_SUPPORT,
		.max_qp = count(attr->max_qp),
		.max_qp_wr = count(attr->max_qp_wr),
		.max_sge = count(attr->max_sge),
		.max_cq = count(attr->max_cq),
		.max_cqe = count(attr->max_cqe),
		.max_mr = count(attr->max_mr),
		.max_mr_bytes = attr->max_mr_size,
		.responder_resources = count(attr->max_qp_rd_atom),
		.initiator_depth = count(attr->max_qp_init_rd_atom),
	};
	features_try(verbs, ret_attr);
	return 0;
}

static const char *state_name(enum ibv_port_state state)
{
	switch (state) {
	case IBV_PORT_DOWN:
		return "down";
	case IBV_PORT_INIT:
		return "initializing";
	case IBV_PORT_ARMED:
		return "armed";
	case IBV_PORT_ACTIVE:
		return "active";
	case IBV_PORT_ACTIVE_DEFER:
		return "deferred";
	case IBV_PORT_NOP:
		break;
	}
	return NULL;
}

static const char *gid_type_name(const struct ibv_gid_entry *gid)
{
	switch (gid->gid_type) {
	case IBV_GID_TYPE_IB:
		return "InfiniBand";
	case IBV_GID_TYPE_ROCE_V1:
		return "RoCE v1";
	case IBV_GID_TYPE_ROCE_V2:
		return "RoCE v2";
	}
	return "unknown";
}

/* A RoCE GID is an IP address, an IPv4 one mapped into IPv6.  rdma_cm listens and answers
 * with version 2 unless the administrator has changed the kernel's default. */
static bool gid_served(const struct ibv_gid_entry *gid,
		       const struct fabric_address *address)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (gid->gid_type != IBV_GID_TYPE_ROCE_V2)
		return false;
	if (address->family == 6)
		return !memcmp(gid->gid.raw, address->bytes, 16);
	return address->family == 4 && !memcmp(gid->gid.raw, mapped, 12) &&
	       !memcmp(gid->gid.raw + 12, address->bytes, 4);
}

static void gids_look(struct ibv_context *verbs, const struct fabric_address *address,
		      struct fabric_port_attr *port)
{
	struct ibv_gid_entry *gids = calloc(GIDS_ASKED, sizeof(*gids));
	ssize_t n = gids ? ibv_query_gid_table(verbs, gids, GIDS_ASKED, 0) : 0;

	for (ssize_t i = 0; i < n; i++) {
		struct fabric_gid *gid = &port->gids[port->n_gids];

		if (gids[i].port_num != port->number)
			continue;
		if (port->n_gids == FABRIC_GIDS_MAX) {
			port->gids_more++;
			continue;
		}
		*gid = (struct fabric_gid){
			.index = gids[i].gid_index,
			.type = verbs->device->transport_type == IBV_TRANSPORT_IWARP
					? "iWARP"
					: gid_type_name(&gids[i]),
			.served = gid_served(&gids[i], address),
		};
		memcpy(gid->bytes, gids[i].gid.raw, sizeof(gid->bytes));
		port->n_gids++;
	}
	free(gids);
}

void verbs_device_query_port(struct ibv_context *verbs, uint8_t number,
			     const struct fabric_address *address,
			     struct fabric_port_attr *ret_port)
{
	struct ibv_port_attr attr;

	memset(&attr, 0, sizeof(attr));
	memset(ret_port, 0, sizeof(*ret_port));
	ret_port->number = number;
	if (!ibv_query_port(verbs, number, &attr)) {
		ret_port->state = state_name(attr.state);
		ret_port->active_mtu = verbs_mtu_bytes(attr.active_mtu);
		ret_port->max_mtu = verbs_mtu_bytes(attr.max_mtu);
	}
	gids_look(verbs, address, ret_port);
}
