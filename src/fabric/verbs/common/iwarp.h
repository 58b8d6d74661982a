/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel's soft iWARP device needs.  Threads: [any]. */
#ifndef FABRIC_VERBS_COMMON_IWARP_H
#define FABRIC_VERBS_COMMON_IWARP_H

#include <infiniband/verbs.h>
#include <stdint.h>

/* Its vendor id, as ibv_query_device() says. */
#define VERBS_SIW_VENDOR 0x626d74u

/* To be called before anything is made on a device's context, as often as you like: its
 * library (rdma-core 44) takes the mapping offset 0x90000, which the kernel gives out like
 * any other, for none, so that the queue pair or completion queue that gets it cannot be
 * made, nor any after it, as the offset stays the next one free.  A completion queue that
 * lies across it, as long as the context is open, keeps it from all others. */
void verbs_siw_reserve(struct ibv_context *verbs, uint32_t vendor);

/* To be called before a context is closed or cut off, whosever it is: what is mapped keeps
 * it open for the kernel, which then waits for ever when the device is removed. */
void verbs_siw_unreserve(const struct ibv_context *verbs);

#endif
