/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue pair of a channel: its attributes, which both sides negotiate, and its transitions from
 * RESET to RTS.  Not for iWARP, where the kernel changes the states and nothing is negotiated.
 *
 * With rdma_cm, the client's limits follow its hello in the private data of the request, and the
 * server's are in the private data of the reply.  Without rdma_cm, a fabric_qp_info has the
 * limits and the values that rdma_cm would have exchanged.
 * Threads: [any]. */
#ifndef FABRIC_VERBS_COMMON_QP_H
#define FABRIC_VERBS_COMMON_QP_H

#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "fabric/rdma_options.h"
#include "fabric/verbs/common/port.h"

/* RNR and transport retries; 7 would mean "for ever". */
#define VERBS_RETRIES 6

/* Each side sends its upper limits; both use the lower ones. */
struct verbs_qp_limits {
	uint16_t mtu; /* bytes; UINT16_MAX: no limit but the path's */
	uint8_t retry_count, rnr_retry_count;
};

#define VERBS_QP_LIMITS_BYTES 8

struct verbs_qp_limits
verbs_qp_limits_of(const struct fabric_rdma_options *rdma_options);
void verbs_qp_limits_encode(const struct verbs_qp_limits *limits,
			    uint8_t buf[VERBS_QP_LIMITS_BYTES]);
/* If the buffer has no limits: the limits of the protocol. */
struct verbs_qp_limits verbs_qp_limits_decode(const uint8_t *buf, size_t bytes);

/* Outstanding reads and atomics of a channel; -1: the numbers that rdma_cm has exchanged. */
struct verbs_rd_atomic {
	int responder, initiator;
};

/* From INIT to RTS, once rdma_cm knows the peer.  *limits: in, the peer's limits; out, the limits
 * in effect.  librdmacm would change the states of an id's queue pair, but has no parameters for
 * MTU, service level, time-out or retries; so the caller first removes the queue pair from the id.
 * -errno with text that names the device and the step. */
int verbs_qp_connect_cm(struct rdma_cm_id *id, struct ibv_qp *qp,
			const struct fabric_rdma_options *rdma_options,
			const struct verbs_rd_atomic *depths,
			struct verbs_qp_limits *limits);

/* The attributes of this side's queue pair: port, a random PSN, and the limits of
 * rdma_options. */
struct fabric_qp_info verbs_qp_info_make(const struct verbs_port *local,
					 const struct ibv_qp *qp,
					 const struct fabric_rdma_options *rdma_options,
					 uint8_t rd_atomic);
/* Whether a peer's queue pair can have this number.  -EINVAL with text. */
int verbs_qpn_check(uint32_t qpn);
/* Check the attributes of a peer's queue pair.
 *   -EINVAL  impossible; the text names the value
 *   -EACCES  another partition */
int verbs_qp_info_check(const struct verbs_port *local,
			const struct fabric_qp_info *theirs);

/* From RESET to INIT; `access`: the peer's rights. */
int verbs_qp_init(const struct verbs_port *local, struct ibv_qp *qp, unsigned access);
/* From INIT to RTS without rdma_cm.  `theirs` was checked; *ours gets the values in effect.
 * -errno with text that names the device and the step. */
int verbs_qp_connect(const struct verbs_port *local, struct ibv_qp *qp,
		     const struct fabric_rdma_options *rdma_options,
		     const struct verbs_rd_atomic *depths,
		     const struct fabric_qp_info *theirs, struct fabric_qp_info *ours);

/* Post a receive into one range.  -errno. */
int verbs_qp_post_recv(struct ibv_qp *qp, uint64_t wr_id, void *addr, uint32_t bytes,
		       uint32_t lkey);

/* To ERROR: the queue pair serves the peer no more, and all posted requests are flushed.  iwarp:
 * discards a SIGPIPE that this may raise.  -errno. */
int verbs_qp_fail(struct ibv_qp *qp, bool iwarp);

#endif
