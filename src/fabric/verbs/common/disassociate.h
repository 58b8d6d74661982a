/* SPDX-License-Identifier: BSD-3-Clause */
/* Releases a device that is being removed.  rdma_cm keeps the device's descriptors for the
 * life of the process, and a kernel driver that cannot cut them off waits for them in the
 * removal.  Threads: [any]. */
#ifndef FABRIC_VERBS_COMMON_DISASSOCIATE_H
#define FABRIC_VERBS_COMMON_DISASSOCIATE_H

#include <infiniband/verbs.h>

/* Replace a descriptor by /dev/null: its number stays in use, and the kernel releases what the
 * descriptor referred to. */
void verbs_disassociate_fd(int fd);
/* The same for those of the device itself. */
void verbs_disassociate(struct ibv_context *verbs);
/* Close a device that was opened for us, not by rdma_cm. */
void verbs_device_close(struct ibv_context *verbs);

#endif
