/* SPDX-License-Identifier: BSD-3-Clause */
/* What is to be known about an RDMA device.  Threads: [any]. */
#ifndef FABRIC_VERBS_COMMON_DEVICE_ATTR_H
#define FABRIC_VERBS_COMMON_DEVICE_ATTR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"

struct verbs_device_attr {
	char name[FABRIC_DEVICE_MAX];
	/* iWARP: a refused write completes as done, and the sink of a read is written
	 * to by the peer's messages, so that it needs the right to be written remotely
	 */
	bool iwarp;
	bool atomics; /* it does them, for its peers too */
	unsigned max_cqe;
	unsigned max_qp_wr;
	unsigned max_sge, max_sge_rd; /* of a request; of one that reads */
	uint8_t responder_resources;  /* reads of the peer under way at most */
	uint8_t initiator_depth;      /* reads of ours under way at most */
	uint64_t max_mr_bytes;
	uint32_t vendor;
};

/* -errno with text. */
int verbs_device_attr_query(struct ibv_context *verbs,
			    struct verbs_device_attr *ret_attr);

bool verbs_port_is_active(struct ibv_context *verbs, uint8_t port);

/* The NUMA node of a device as sysfs (mounted at `sysfs`) tells: the device's own, else
 * its network interface's, else that of the bus behind it; -1: unknown. */
int verbs_device_node(const char *sysfs, const char *device);

/* "rxe0, siw0": this host's RDMA devices into buf; "none".  Returns buf. */
const char *verbs_device_list_text(char *buf, size_t bytes);

#endif
