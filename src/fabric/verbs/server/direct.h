/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels without rdma_cm: the control connection brings the client's queue pair.  In the step to
 * RTR the kernel resolves the peer's GID on the network, for a second if no host answers, so a
 * worker takes it.  The queue pair is the job's until its message is delivered, and serves no access
 * until then.  Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_DIRECT_H
#define FABRIC_VERBS_SERVER_DIRECT_H

#include "base/err.h"
#include "fabric/verbs/common/qp.h"
#include "fabric/verbs/server/channel.h"

struct verbs_connect {
	struct verbs_job job;
	struct verbs_channel *channel;
	/* the job's while it is under way */
	struct verbs_port local;
	struct verbs_rd_atomic depths;
	struct fabric_qp_info ours;
	uint64_t took_ms;
	struct err_saved result;
};

/* fabric_server_ops.channel_connect. */
int verbs_direct_connect(struct fabric_session *session, uint32_t number,
			 const struct fabric_qp_info *theirs);

#endif
