/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of rdma_cm, read without blocking and acknowledged at once: rdma_destroy_id() waits for
 * ever for an event of its id that was not acknowledged.  Threads: [any], one per channel. */
#ifndef FABRIC_VERBS_COMMON_CM_H
#define FABRIC_VERBS_COMMON_CM_H

#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fabric.h"

/* Limit of private data in RoCE's connect request; iWARP's is higher. */
#define VERBS_PRIVATE_BYTES 56

/* Private data of a rejection by the server, network order: an iWARP peer gets the same event
 * when no server listens. */
#define VERBS_REFUSED UINT32_C(0x726d6e6f)

struct verbs_cm_event {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id;
	struct rdma_cm_id *listener;
	/* The listener's context if there is a listener, else the id's.  While another thread
	 * destroys the id, this alone may be used. */
	void *context;
	/* of a connection's parameters */
	uint32_t qp_num; /* the peer's */
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t private_data[VERBS_PRIVATE_BYTES];
	size_t private_bytes;
};

/* A channel that does not block.  -errno with text. */
int verbs_cm_create_channel(struct rdma_event_channel **ret_channel);

/* Create an id bound to the address; with port 0, only to find the address's device.  -errno
 * with text. */
int verbs_cm_bind(struct rdma_event_channel *channel,
		  const struct fabric_address *address, void *context,
		  struct rdma_cm_id **ret_id);

/* Set the traffic class of the connection's packets; FABRIC_OPTION_AUTO: the system's.  Call it
 * before the id has a route, or listens.  -errno with text. */
int verbs_cm_set_traffic_class(struct rdma_cm_id *id, int traffic_class);

/* The next event; -EAGAIN when there is none, else -errno with text. */
int verbs_cm_get_event(struct rdma_event_channel *channel,
		       struct verbs_cm_event *ret_event);

#endif
