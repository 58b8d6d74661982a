/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels that are set up without rdma_cm: the two ends learn of each other over the control
 * connection. */
#ifndef LIBRMEM_CHANNEL_QP_EXCHANGE_H
#define LIBRMEM_CHANNEL_QP_EXCHANGE_H

#include "librmem/channel/channel.h"

struct rmem;

struct qp_exchange {
	struct rmem *session;
	uint32_t channel; /* its number */
};

/* fabric_channel_params.exchange; ctx is a struct qp_exchange.  [any], without the lock */
int qp_exchange(void *ctx, const struct fabric_qp_info *ours, unsigned timeout_ms,
		struct fabric_qp_info *ret_theirs);

#endif
