/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels that are set up without rdma_cm: the two ends learn of each other over the control
 * connection. */
#ifndef LIBRMEM_JOIN_H
#define LIBRMEM_JOIN_H

#include "librmem/channelset.h"

struct rmem;

struct join {
	struct rmem *session;
	uint32_t channel; /* its number */
	bool alone;       /* who connects has so much time, and may be the driver */
};

/* fabric_channel_params.exchange; ctx is a struct join.  [any], without the lock */
int join_exchange(void *ctx, const struct fabric_qp_info *ours, unsigned timeout_ms,
		  struct fabric_qp_info *ret_theirs);

#endif
