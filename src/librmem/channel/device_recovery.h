/* SPDX-License-Identifier: BSD-3-Clause */
/* Domains whose device was removed, or that do not reach the server any more.  Each queue's owner
 * releases its resources in the domain (queue/queue.h); the domain is closed, and opened again when
 * that works.  A removed device does not wait for an owner that makes no calls: the domain is
 * disassociated from its device.
 *
 * Everything under the session's lock, by the thread that drives the session. */
#ifndef LIBRMEM_CHANNEL_DEVICE_RECOVERY_H
#define LIBRMEM_CHANNEL_DEVICE_RECOVERY_H

#include <stdbool.h>
#include <stdint.h>

#include <rmem/rmem.h>

#include "librmem/channel/channel.h"

/* The grant has the endpoint's present address at the server; a domain that leads to another
 * address is left. */
void recovery_moved(struct rmem *session, unsigned endpoint,
		    const struct wire_channel *grant);
/* The server's list of endpoints, after a restart: domains follow theirs, or wait for it. */
void recovery_follow(struct rmem *session);
/* A channel could not be connected because of `err`; the domain may have lost its route. */
void recovery_connect_failed(struct rmem *session, unsigned domain, int err);
/* A channel in the domain cannot be connected now, or the server grants none; `in_time`: the
 * attempt had all of its time, or the server refused for good. */
void recovery_missed(struct rmem *session, unsigned domain, bool in_time);
/* The session has resumed, perhaps with another server process: forget recovery_missed(). */
void recovery_resumed(struct rmem *session);
/* Whether a session can do without channels in the domain: none was connected there, and some
 * elsewhere were.  Perhaps this host does not reach the endpoint. */
bool recovery_spares(const struct rmem *session, unsigned domain);
/* A channel in the domain is connected. */
void recovery_found(struct rmem *session, unsigned domain);
/* Bit mask of the reachable endpoints, for requests to the server.  An endpoint to which no channel
 * can be connected is left out, unless no endpoint is reachable: memory behind it would be of no
 * use. */
uint32_t recovery_reach(const struct rmem *session);

/* Leave domains whose device was removed, and close leaving domains that have no users. */
void recovery_work(struct rmem *session, uint64_t now_ns);
/* When recovery_work() or recovery_next() is next due; UINT64_MAX: not without an event. */
uint64_t recovery_due(const struct rmem *session);
/* Whether recovery_next() has something to do. */
bool recovery_ready(const struct rmem *session);
/* Open one domain again.  Releases the lock meanwhile.  Returns the number of a domain that could
 * not be opened, or -1. */
int recovery_next(struct rmem *session);

/* Whether the server may be asked for a channel.  The answer has the endpoint's address, which is
 * needed also while the domain is away. */
bool recovery_askable(const struct rmem *session, const struct channel *channel);
/* Whether the channel can be connected now. */
bool recovery_usable(const struct rmem *session, const struct channel *channel);

/* No domain is opened or closed while the program registers or deregisters local memory. */
void recovery_hold(struct rmem *session);
void recovery_release(struct rmem *session);

#endif
