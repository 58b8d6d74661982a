/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue pair of a channel, as the device's worker of channels makes, connects and destroys it.
 * Each of these steps can wait for the device or the kernel, and the one to RTR for a host that
 * does not answer.  Threads: [worker], unless the loop has to destroy a queue pair that it could
 * not stop. */
#ifndef FABRIC_VERBS_SERVER_CHANNEL_QP_H
#define FABRIC_VERBS_SERVER_CHANNEL_QP_H

#include "fabric/verbs/server/channel.h"

/* Job of a channel: make and connect its queue pair, let the client in, and accept its
 * request.  It serves no access before channel_ids_open(), so that the loop can end the channel at
 * any time.  After a failure, which `result` has, it is still to be destroyed. */
void verbs_channel_qp_open(struct workers_job *job);
/* Job of a channel that was stopped: destroy the queue pair and disconnect. */
void verbs_channel_qp_close(struct workers_job *job);

#endif
