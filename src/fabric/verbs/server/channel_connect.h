/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's channels that are set up without rdma_cm: the client's end comes over the
 * control connection, by which the session is known, and nobody listens for anybody else.
 * Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_CHANNEL_CONNECT_H
#define FABRIC_VERBS_SERVER_CHANNEL_CONNECT_H

#include "fabric/fabric.h"

/* fabric_server_ops.channel_connect. */
int verbs_channel_connect(struct fabric_session *session, uint32_t number,
			  const struct fabric_qp_info *theirs,
			  struct fabric_qp_info *ret_ours);

#endif
