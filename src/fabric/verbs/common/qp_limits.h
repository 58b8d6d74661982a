/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits that both sides of a channel negotiate: each sends the most it accepts, both use
 * the lower value.  The client's follow its hello in rdma_cm's private data, the server's are
 * in the private data of the reply.  iWARP negotiates nothing.  Threads: [any]. */
#ifndef FABRIC_VERBS_COMMON_QP_LIMITS_H
#define FABRIC_VERBS_COMMON_QP_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#include "fabric/fabric.h"

struct verbs_qp_limits {
	uint16_t mtu; /* bytes; UINT16_MAX: whatever the path takes */
	uint8_t retry_count, rnr_retry_count;
};

#define VERBS_QP_LIMITS_BYTES 8

struct verbs_qp_limits
verbs_qp_limits_of(const struct fabric_rdma_options *rdma_options);
/* The lesser of both, member by member. */
struct verbs_qp_limits verbs_qp_limits_min(const struct verbs_qp_limits *a,
					   const struct verbs_qp_limits *b);

void verbs_qp_limits_encode(const struct verbs_qp_limits *limits,
			    uint8_t buf[VERBS_QP_LIMITS_BYTES]);
/* Of a peer that says nothing: no limits but those of the protocol. */
struct verbs_qp_limits verbs_qp_limits_decode(const uint8_t *buf, size_t bytes);

#endif
