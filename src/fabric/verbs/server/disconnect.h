/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of the server that are being disconnected: the queue pair is gone, but the id
 * stays until the peer has answered, or might have.  soft-RoCE looks up where a message goes
 * when it sends it, and destroying the id takes that away: the peer would never hear of the
 * end, and the kernel's own queue pair would go to ERROR over it.  Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_DISCONNECT_H
#define FABRIC_VERBS_SERVER_DISCONNECT_H

#include <infiniband/verbs.h>

#include <stdbool.h>

#include "base/list.h"

/* So many ids may wait; what comes then is destroyed at once. */
#define VERBS_DISCONNECTS_MAX 1024

struct fabric_server;
struct rdma_cm_id;
struct verbs_endpoint;

struct verbs_disconnects {
	struct list all; /* the first is due first */
	unsigned n;
	int fd;     /* timerfd: polls readable when one is due */
	bool armed; /* it is set */
};

/* -EMFILE, -ENFILE, -ENOMEM with text. */
int verbs_disconnects_init(struct verbs_disconnects *disconnects);
void verbs_disconnects_destroy(struct verbs_disconnects *disconnects);

/* Disconnect the id, which has no queue pair any more, and see to its end. */
void verbs_disconnect(struct verbs_endpoint *endpoint, struct rdma_cm_id *id);
/* Destroy it at once; a failure is reported for the endpoint. */
void verbs_disconnect_destroy_id(struct verbs_endpoint *endpoint,
				 struct rdma_cm_id *id);

/* Destroy those that are due. */
void verbs_disconnects_process(struct verbs_disconnects *disconnects);
/* Destroy those on the device; NULL: all. */
void verbs_disconnects_finish(struct verbs_disconnects *disconnects,
			      const struct ibv_context *verbs);

#endif
