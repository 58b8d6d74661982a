/* SPDX-License-Identifier: BSD-3-Clause */
/* A session made by hand over the fake fabric, without a server: what a queue needs, with
 * the test in the place of the session's driver and of the clock. */
#ifndef TESTS_UNIT_LIBRMEM_STAGE_H
#define TESTS_UNIT_LIBRMEM_STAGE_H

#include "unit/librmem/fake-fabric.h"
#include "librmem/lease/lease.h"
#include "librmem/queue/queue.h"
#include "librmem/session/session.h"

#define STAGE_ENDPOINTS 2 /* for most */
#define STAGE_TIMEOUT_MS 1000

struct stage {
	struct rmem session;
	uint64_t now_ns; /* the clock */
	/* what the segments of leases made from now on are lent through, a bit each */
	unsigned through[2];
};
extern struct stage stage;

/* With a server of so many endpoints, all of which the session uses. */
void stage_open(const struct fabric_client_ops *ops, unsigned endpoints);
/* Checks that nothing of the fabric is left. */
void stage_close(void);

/* A lease over fragments of this process's memory; keys[i] is segment i's key everywhere. */
struct rmem_lease *stage_lease(uint64_t id, unsigned rights, unsigned n,
			       unsigned char *const *segments, const uint64_t *bytes,
			       const uint64_t *keys);
/* Publish another table for it, as the driver does when the server has answered. */
void stage_rekey(struct rmem_lease *lease, unsigned n, unsigned char *const *segments,
		 const uint64_t *bytes, const uint64_t *keys);

/* A queue whose channels are connected. */
struct rmem_queue *stage_queue(unsigned depth, unsigned channels);
/* The server has said what became of its end of the channel that a channel had last. */
void stage_bury(struct rmem_queue *queue, unsigned channel, enum peer_end end);
/* Connect the channels that want a channel, after burying their last ones; returns how many. */
unsigned stage_reconnect(struct rmem_queue *queue);

/* The channel in a channel. */
struct fabric_channel *stage_channel(const struct rmem_queue *queue, unsigned channel);
void stage_advance_ms(uint64_t ms);
/* The session is in order (0), or its connection is lost or over, and the lease clock with
 * it. */
void stage_status(int status);

#endif
