/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's use of rdma_cm up to a connection, within a time limit.
 * Threads: [any], one at a time per cm_id. */
#ifndef FABRIC_VERBS_CLIENT_CM_ID_H
#define FABRIC_VERBS_CLIENT_CM_ID_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fabric/client.h"
#include "fabric/verbs/common/cm.h"

struct verbs_cm_id {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	uint64_t deadline_ms;
	const atomic_bool *cancelled; /* ends waits before the deadline; NULL: never */
	char peer[64];
};

/* Create an id and resolve the route to the address, from `source` (family 0: any address of this
 * host; its port is ignored), with packets of this traffic class.
 *   -ENODEV        no RDMA device leads there
 *   -ECANCELED     `cancelled` became true; the cm_id keeps the pointer
 *   -EHOSTUNREACH, -ENETUNREACH, -ETIMEDOUT ... */
int verbs_cm_id_resolve(struct verbs_cm_id *cm_id, const struct fabric_address *address,
			const struct fabric_address *source, int traffic_class,
			unsigned timeout_ms, const atomic_bool *cancelled);

/* The local address of a resolved cm_id, without port; family 0: it is link-local, and would need
 * a scope. */
struct fabric_address verbs_cm_id_source(const struct verbs_cm_id *cm_id);

/* Connect the id's queue pair for this channel, with these rdma_options, which the kernel ignores
 * over iWARP.
 *   -EACCES        the server refused the channel
 *   -ECONNREFUSED  no server listens there
 *   -ETIMEDOUT, -ECANCELED ... */
int verbs_cm_id_connect(struct verbs_cm_id *cm_id,
			const struct fabric_channel_params *channel,
			const struct fabric_rdma_options *rdma_options,
			uint8_t initiator_depth, bool iwarp);

/* Destroy the id and its event channel, after the queue pair. */
void verbs_cm_id_destroy(struct verbs_cm_id *cm_id);

#endif
