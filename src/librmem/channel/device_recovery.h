/* SPDX-License-Identifier: BSD-3-Clause */
/* Domains whose device was removed, or that do not reach the server any more.  Each owner of a
 * queue releases what it has in the domain (queue/device.h), the domain is closed, and opened
 * again when that works.  A device that is being removed does not wait for an owner that makes
 * no calls: it is cut off.
 *
 * Everything under the session's lock, by the thread that drives the session. */
#ifndef LIBRMEM_CHANNEL_DEVICE_RECOVERY_H
#define LIBRMEM_CHANNEL_DEVICE_RECOVERY_H

#include <stdbool.h>
#include <stdint.h>

#include <rmem/rmem.h>

#include "fabric/fabric.h"
#include "librmem/channel/channel.h"

/* The server tells where the endpoint is now; what leads elsewhere is left. */
void recovery_moved(struct rmem *session, unsigned endpoint,
		    const struct fabric_address *address);
/* A channel could not be connected, for this reason: perhaps the way is no more. */
void recovery_doubt(struct rmem *session, unsigned domain, int err);
/* A channel in the domain cannot be had now, be it that the server grants none; `in_time`: it
 * was tried for as long as one is waited for, or refused for good. */
void recovery_missed(struct rmem *session, unsigned domain, bool in_time);
/* Another process may serve now: nothing is known of what it grants. */
void recovery_resumed(struct rmem *session);
/* A channel is connected. */
void recovery_found(struct rmem *session, unsigned domain);
/* What the server is to be told: the endpoints that are reached, a bit each, without those to
 * which no channel can be had, as far as there are others.  Memory behind these would be of
 * no use. */
uint8_t recovery_reach(const struct rmem *session);

/* Look for domains that are to be left, and close those without users. */
void recovery_work(struct rmem *session, uint64_t now_ns);
/* When recovery_work() or recovery_next() is next due; UINT64_MAX: by what happens. */
uint64_t recovery_due(const struct rmem *session);
/* Whether recovery_next() has something to do. */
bool recovery_ready(const struct rmem *session, uint64_t now_ns);
/* Open one domain anew.  Releases the lock meanwhile.  The number of one that could not be
 * opened, or -1. */
int recovery_next(struct rmem *session);

/* Whether the server may be asked for a channel; its answer tells where the endpoint is, also
 * while the domain is away. */
bool recovery_askable(const struct rmem *session, const struct channel *channel);
/* Whether a channel of the channel can be connected now. */
bool recovery_usable(const struct rmem *session, const struct channel *channel);

/* While local memory is registered or given back by the program no domain comes or goes. */
void recovery_hold(struct rmem *session);
void recovery_release(struct rmem *session);

#endif
