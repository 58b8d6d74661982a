/* SPDX-License-Identifier: BSD-3-Clause */
/* A session's first channel made ahead of the hello, which then brings its end to the server,
 * and the welcome the server's: a round trip less.  What must be known of the server for that
 * is remembered of the one to which the last such session was opened. */
#ifndef LIBRMEM_CHANNEL_EARLY_HELLO_H
#define LIBRMEM_CHANNEL_EARLY_HELLO_H

#include "librmem/session/session.h"

/* Take the server's endpoints for what they were.  False: it is not known.  [any] */
bool early_recall(struct rmem *session);
/* The session is open, with its first channel to that endpoint: remember its server, if the
 * channel could have been made ahead.
 * Under the session's lock. */
void early_keep(const struct rmem *session, unsigned endpoint);

/* fabric_channel_params.exchange; ctx is the struct channel.  Also what came with a
 * welcome that is not as it was is the channel's, to be given back.
 *   -EAGAIN  the server is not as it was, or did not join the channel */
int early_exchange(void *ctx, const struct fabric_qp_info *ours, unsigned timeout_ms,
		   struct fabric_qp_info *ret_theirs);

#endif
