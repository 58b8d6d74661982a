/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels of a session's queues: asked for, connected, watched, and replaced when they
 * die.  Everything under the session's lock, by whoever drives the session. */
#ifndef LIBRMEM_REOPEN_H
#define LIBRMEM_REOPEN_H

#include <rmem/rmem.h>

#include "librmem/channelset.h"

/* What the slot was granted cannot be had: the server need not keep it. */
void reopen_give_up(struct rmem *session, struct channel_slot *slot);
/* The same, while it is not wanted again. */
void reopen_give_back(struct rmem *session, struct channel_slot *slot);
/* A grant tells where its endpoint is now. */
void reopen_moved(const struct channel_slot *slot, const struct wire_channel *grant);
/* Ask the server for what slots want. */
void reopen_work(struct rmem *session, uint64_t now_ns);
/* Whether a channel that the server has granted can be connected. */
bool reopen_ready(struct rmem *session);
/* How long a connect may take: longer after one that failed, and where it holds up the
 * session's heartbeats not longer than they can wait. */
unsigned reopen_patience_ms(const struct rmem *session, uint64_t now_ns);
/* Connect one, if there is one.  Lets go of the lock meanwhile. */
void reopen_connect(struct rmem *session);
/* A slot wants a channel, at once or after a while that grows each time. */
void reopen_want(struct channel_slot *slot, bool at_once);
/* When reopen_work() has something to do next, UINT64_MAX: nothing. */
uint64_t reopen_due(const struct rmem *session);
/* Abort every channel: the session has lost its server. */
void reopen_abort(struct rmem *session);
/* See which channels' peers are gone. */
void reopen_alive(struct rmem *session);
/* The server says that this channel's is. */
void reopen_ended(struct rmem *session, uint32_t number);

/* Put a channel's alive_fd into the session's epoll set. */
void reopen_watch(struct rmem *session, struct channel_slot *slot,
		  struct fabric_channel *channel);
/* After the first channel through an endpoint was granted: every lease gets keys for it. */
void reopen_endpoint(struct rmem *session, unsigned endpoint);

/* The epoll tag of alive_fds. */
#define REOPEN_TAG UINT64_C(1)

#endif
