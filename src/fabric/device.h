/* SPDX-License-Identifier: BSD-3-Clause */
/* What is known of an RDMA device and of its ports. */
#ifndef FABRIC_DEVICE_H
#define FABRIC_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/rdma_options.h"

enum fabric_transport { FABRIC_ROCE = 1, FABRIC_IWARP, FABRIC_INFINIBAND };

/* What an atomic operation is atomic with: atomics are not supported; operations of the same
 * device; all accesses, also those of the CPU. */
enum fabric_atomics {
	FABRIC_ATOMICS_NONE,
	FABRIC_ATOMICS_DEVICE,
	FABRIC_ATOMICS_GLOBAL
};

/* Attributes of an RDMA device; 0 or false where unknown. */
struct fabric_device_attr {
	enum fabric_transport transport;
	enum fabric_atomics atomics;
	bool write_immediate;
	bool relaxed_ordering; /* registrations may ask for it */
	bool on_demand_paging;
	uint32_t inline_bytes; /* limit of inline data of a work request */
	unsigned max_qp, max_qp_wr, max_sge;
	unsigned max_cq, max_cqe;
	unsigned max_mr;
	uint64_t max_mr_bytes;
	/* limits of outstanding reads and atomics of a queue pair: the peer's, its own */
	unsigned responder_resources, initiator_depth;
};

#define FABRIC_GIDS_MAX 32

struct fabric_gid {
	unsigned index;
	uint8_t bytes[16];
	const char *type; /* static: "RoCE v2" */
	bool served;      /* clients use it */
};

/* The current state of a port of an RDMA device. */
struct fabric_port_attr {
	unsigned number;
	const char *state;            /* static: "active"; NULL: unknown */
	unsigned active_mtu, max_mtu; /* bytes; 0: unknown */
	struct fabric_gid gids[FABRIC_GIDS_MAX];
	unsigned n_gids;    /* in gids[] */
	unsigned gids_more; /* number that did not fit into gids[] */
	/* in effect: a known MTU is never `auto` */
	struct fabric_rdma_options rdma_options;
};

#endif
