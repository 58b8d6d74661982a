/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's conversation with rdma_cm up to a connection, within a time.
 * Threads: [any], one at a time per cm_id. */
#ifndef FABRIC_VERBS_CLIENT_CM_ID_H
#define FABRIC_VERBS_CLIENT_CM_ID_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fabric/fabric.h"
#include "fabric/verbs/common/cm.h"

struct verbs_cm_id {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	uint64_t deadline_ms;
	char peer[64];
};

/* Make an id and find the way to the address, from `source` (NULL: any of this host), with
 * packets of this traffic class.
 *   -ENODEV        no RDMA device leads there
 *   -EHOSTUNREACH, -ENETUNREACH, -ETIMEDOUT ... */
int verbs_cm_id_resolve(struct verbs_cm_id *cm_id, const struct fabric_address *address,
			struct sockaddr *source, int traffic_class,
			unsigned timeout_ms);

/* The local address of a resolved cm_id, without port. */
void verbs_cm_id_source(const struct verbs_cm_id *cm_id,
			struct sockaddr_storage *ret_source);

/* Connect the queue pair that the id has by now, under these rdma_options; iWARP leaves most of it
 * to the kernel.
 *   -EACCES        the server refused the channel
 *   -ECONNREFUSED  nobody listens there
 *   -ETIMEDOUT ... */
int verbs_cm_id_connect(struct verbs_cm_id *cm_id, const struct fabric_hello *hello,
			const struct fabric_rdma_options *rdma_options,
			uint8_t initiator_depth, bool iwarp);

/* Give back id and event channel, after the queue pair. */
void verbs_cm_id_destroy(struct verbs_cm_id *cm_id);

#endif
