/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels of a session's queues: asked for, connected, watched, and replaced when they
 * die.  Everything under the session's lock, by whoever drives the session. */
#ifndef LIBRMEM_CHANNEL_CONNECT_H
#define LIBRMEM_CHANNEL_CONNECT_H

#include <rmem/rmem.h>

#include "librmem/channel/channel.h"

/* What the channel was granted cannot be had: the server need not keep it. */
void channel_give_up(struct rmem *session, struct channel *channel);
/* The same, while it is not wanted again. */
void channel_give_back(struct rmem *session, struct channel *channel);
/* A grant tells where its endpoint is now. */
void endpoint_moved(const struct channel *channel, const struct wire_channel *grant);
/* Ask the server for what channels want. */
void channels_work(struct rmem *session, uint64_t now_ns);
/* Whether a channel that the server has granted can be connected. */
bool channels_ready(struct rmem *session);
/* How long a connect may take: longer after one that failed, and where it holds up the
 * session's heartbeats not longer than they can wait. */
unsigned connect_patience_ms(const struct rmem *session, uint64_t now_ns);
/* Connect one, if there is one.  Lets go of the lock meanwhile. */
void channels_connect_one(struct rmem *session);
/* A channel wants a channel, at once or after a while that grows each time. */
void channel_want(struct channel *channel, bool at_once);
/* When channels_work() has something to do next, UINT64_MAX: nothing. */
uint64_t channels_due(const struct rmem *session);
/* Abort every channel: the session has lost its server. */
void channels_abort(struct rmem *session);
/* See which channels' peers are gone. */
void channels_alive(struct rmem *session);
/* The server says that this channel's is. */
void channels_ended(struct rmem *session, uint32_t number);

/* Put a channel's alive_fd into the session's epoll set. */
void channel_watch(struct rmem *session, struct channel *channel,
		   struct fabric_channel *fabric);
/* After the first channel through an endpoint was granted: every lease gets keys for it. */
void endpoint_opened(struct rmem *session, unsigned endpoint);

/* The epoll tag of alive_fds. */
#define CHANNEL_TAG UINT64_C(1)

#endif
