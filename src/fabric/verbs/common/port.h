/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a channel begins that is set up without rdma_cm: a port of a device, its address and
 * its partition; and how the queue pair there is taken from RESET to RTS by hand, with what
 * the peer says of its own end.  Not for iWARP, which has no such way.  Threads: [any]. */
#ifndef FABRIC_VERBS_COMMON_PORT_H
#define FABRIC_VERBS_COMMON_PORT_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "fabric/verbs/common/qp.h"
#include "fabric/verbs/common/port_cache.h"
#include "fabric/verbs/common/qp_limits.h"

struct verbs_port {
	struct ibv_context *verbs;
	uint8_t port;
	bool infiniband;
	uint8_t gid_index;
	uint16_t pkey_index;
	/* what a peer is told of it */
	uint8_t gid[16];
	uint16_t lid;
	uint16_t pkey;
	unsigned mtu; /* bytes */
};

/* The port as it stands now, with the GID at the index that the rdma_options say, or else the one
 * that is the address; on InfiniBand any does when there is none.
 *   -ENOTSUP        iWARP
 *   -ENETDOWN       the port is not active
 *   -EADDRNOTAVAIL  it has no such GID
 *   -EINVAL         no such P_Key */
int verbs_port_query(struct ibv_context *verbs, uint8_t port,
		     const struct fabric_address *address,
		     const struct fabric_rdma_options *rdma_options,
		     struct verbs_port *ret_local);
/* The same, from the cache. */
int verbs_port_lookup(struct verbs_port_cache *port_cache, uint8_t port,
		      const struct fabric_address *address,
		      const struct fabric_rdma_options *rdma_options,
		      struct verbs_port *ret_local);

/* A GID as an address, and back; an IPv4 one is mapped into IPv6. */
void verbs_gid_to_address(const uint8_t gid[16], struct fabric_address *ret_address);
void verbs_address_to_gid(const struct fabric_address *address, uint8_t ret_gid[16]);

/* Whether a GID of the type is one of RoCE that this place and rdma_cm use, or of
 * InfiniBand. */
bool verbs_gid_usable(uint32_t type, bool infiniband);

/* The attributes of this side's queue pair: port, a fresh PSN, and the limits of rdma_options. */
struct fabric_qp_info verbs_qp_info_make(const struct verbs_port *local,
					 const struct ibv_qp *qp,
					 const struct fabric_rdma_options *rdma_options,
					 uint8_t rd_atomic);

/* Whether what a peer says of its end can be: -EINVAL with the value that cannot, -EACCES
 * another partition. */
int verbs_qp_info_check(const struct verbs_port *local,
			const struct fabric_qp_info *theirs);

/* From RESET to INIT, with these rights for the peer. */
int verbs_qp_init(const struct verbs_port *local, struct ibv_qp *qp, unsigned access);
/* From INIT to RTS.  `theirs` was checked; *ours becomes what is in effect.  -errno with text
 * that names the device and the step. */
int verbs_qp_connect(const struct verbs_port *local, struct ibv_qp *qp,
		     const struct fabric_rdma_options *rdma_options,
		     const struct verbs_rd_atomic *depths,
		     const struct fabric_qp_info *theirs, struct fabric_qp_info *ours);

#endif
