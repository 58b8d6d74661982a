/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of rdma_cm, taken without blocking and acknowledged at once: rdma_destroy_id()
 * waits for ever for an event of its id that is not.  Threads: [any], a channel belongs
 * to one. */
#ifndef FABRIC_VERBS_COMMON_CM_H
#define FABRIC_VERBS_COMMON_CM_H

#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fabric.h"

/* RoCE carries at most this with a connect; what iWARP has more is not for us. */
#define VERBS_PRIVATE_BYTES 56

/* Private data of a rejection that the server meant, as an iWARP peer sees the same
 * event when nobody listens; network order. */
#define VERBS_REFUSED UINT32_C(0x726d6e6f)

/* RNR and transport retries: 7 stands for "for ever". */
#define VERBS_RETRIES 6

struct verbs_cm_event {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id;
	struct rdma_cm_id *listener;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t private_data[VERBS_PRIVATE_BYTES];
	size_t private_bytes;
};

/* A channel that does not block.  -errno with text. */
int verbs_cm_create_channel(struct rdma_event_channel **ret_channel);

/* Destroy the id's queue pair, if it has one.  -errno: the device keeps it; neither id nor
 * events know it any more. */
int verbs_cm_destroy_qp(struct rdma_cm_id *id);

/* Packets of the id's connection are to have this traffic class; FABRIC_OPTION_AUTO: as the
 * system has it.  Before the id has a route, or listens.  -errno with text. */
int verbs_cm_set_traffic_class(struct rdma_cm_id *id, int traffic_class);

/* The next event; -EAGAIN when there is none, else -errno with text. */
int verbs_cm_get_event(struct rdma_event_channel *channel,
		       struct verbs_cm_event *ret_event);

#endif
