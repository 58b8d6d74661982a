/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids of rdma_cm that end: requests that are refused, and connections of channels that have ended.
 * Rejecting and destroying wait for the kernel, so a worker of the device does both.  The requests
 * of strangers have turns of their own there, and a limit: while it is reached, no events of
 * rdma_cm are taken, and the kernel drops the requests that exceed its backlog.  Threads:
 * [loop]. */
#ifndef FABRIC_VERBS_SERVER_ENDING_H
#define FABRIC_VERBS_SERVER_ENDING_H

#include "fabric/verbs/server/endpoint.h"

/* Limit of disconnected ids that wait for the peer; further ones do not wait. */
#define VERBS_DISCONNECTS_MAX 1024
/* Limit of requests that wait to be refused. */
#define VERBS_REFUSED_MAX 64

/* The id has no channel any more: reject its request, and destroy it. */
void verbs_id_refuse(struct verbs_endpoint *endpoint, struct rdma_cm_id *id);
/* Destroy it; a failure is reported. */
void verbs_id_destroy(struct verbs_endpoint *endpoint, struct rdma_cm_id *id);
/* Destroy an id that was disconnected, once the peer has answered, or a delay is over.  soft-RoCE
 * looks up the destination of a message when it sends it, and destroying the id removes the
 * destination: the peer would never learn of the disconnect, and the kernel's own queue pair would
 * go to ERROR. */
void verbs_id_disconnected(struct verbs_endpoint *endpoint, struct rdma_cm_id *id);

/* Destroy the disconnected ids on this device that still wait for the peer; NULL: on all
 * devices. */
void verbs_disconnects_finish(struct fabric_server *server,
			      const struct ibv_context *verbs);
/* When the server closes, after the workers are joined. */
void verbs_endings_free(struct fabric_server *server);

#endif
