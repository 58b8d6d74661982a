/* SPDX-License-Identifier: BSD-3-Clause */
/* The attributes of an RDMA device that both sides need.  Threads: [any]. */
#ifndef FABRIC_VERBS_COMMON_DEVICE_ATTR_H
#define FABRIC_VERBS_COMMON_DEVICE_ATTR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "fabric/device.h"
#include "fabric/fabric.h"

struct verbs_device_attr {
	char name[FABRIC_DEVICE_MAX];
	/* iWARP: a refused write completes as done, and the peer's messages write the
	 * destination of a read, which needs the right of remote writes */
	bool iwarp;
	unsigned max_sge_rd; /* max_sge of a read */
	uint32_t vendor;
	/* without those that no query returns; `transport` is known for iWARP only */
	struct fabric_device_attr public;
};

/* -errno with text. */
int verbs_device_attr_query(struct ibv_context *verbs,
			    struct verbs_device_attr *ret_attr);

/* Whether the device registers as much at once.  -EINVAL with text: what is so long, and what to do
 * instead, in the words of the caller. */
int verbs_device_registers(const struct verbs_device_attr *attr, uint64_t bytes,
			   const char *what, const char *instead);

/* The NUMA node of a device in sysfs (mounted at `sysfs`): the device's own, else that of its
 * network interface, else that of the interface's bus; -1: unknown. */
int verbs_device_node(const char *sysfs, const char *device);

/* "rxe0, siw0": this host's RDMA devices into buf; "none".  Returns buf. */
const char *verbs_device_list_text(char *buf, size_t bytes);

#endif
