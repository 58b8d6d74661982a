/* SPDX-License-Identifier: BSD-3-Clause */
/* A session over the fake fabric without a server, with all that a queue needs.  The test
 * acts as the session's driver and as the clock. */
#ifndef TESTS_UNIT_LIBRMEM_STAGE_H
#define TESTS_UNIT_LIBRMEM_STAGE_H

#include "unit/librmem/fake-fabric.h"
#include "librmem/lease/buffer.h"
#include "librmem/lease/lease.h"
#include "librmem/queue/queue.h"
#include "librmem/session/session.h"

#define STAGE_ENDPOINTS 2 /* of most sessions */
#define STAGE_TIMEOUT_MS 1000

struct stage {
	struct rmem session;
	struct domain_set domains;
	struct channel_table channels;
	struct lease_table leases;
	struct buffer_table buffers;
	uint64_t now_ns; /* the clock */
	/* by segment: bit mask of the endpoints that lend it, in later leases */
	unsigned through[2];
};
extern struct stage stage;

/* The session uses all endpoints of its server. */
void stage_open(const struct fabric_client_ops *ops, unsigned endpoints);
/* Checks that no object of the fabric is left. */
void stage_close(void);

/* A lease of n ranges of this process's memory; keys[i] is the rkey of segment i at every
 * endpoint, 0: none. */
struct rmem_lease *stage_lease(uint64_t id, unsigned rights, unsigned n,
			       unsigned char *const *segments, const uint64_t *bytes,
			       const uint64_t *keys);
/* Publish another attachment of the lease, as the driver does with the server's answer. */
void stage_rekey(struct rmem_lease *lease, unsigned n, unsigned char *const *segments,
		 const uint64_t *bytes, const uint64_t *keys);

/* End the lease, under the session's lock. */
void stage_lease_end(struct rmem_lease *lease);

/* A queue whose channels are connected. */
struct rmem_queue *stage_queue(unsigned depth, unsigned channels);
/* The server has reported the state of its end of the channel's last connection. */
void stage_peer_end(struct rmem_queue *queue, unsigned channel, enum peer_end end);
/* The driver aborts the channel's connection. */
void stage_abort(struct rmem_queue *queue, unsigned channel);
/* Connect the channels that want a connection; the server has closed their last ones.  Returns
 * the number of them. */
unsigned stage_reconnect(struct rmem_queue *queue);

/* The connection of a channel; NULL: none. */
struct fabric_channel *stage_channel(const struct rmem_queue *queue, unsigned channel);
/* Number of operations posted on all channels. */
unsigned stage_posted(const struct rmem_queue *queue);
void stage_advance_ms(uint64_t ms);
/* The session is up (0), or is lost or has ended, and no operation may be posted. */
void stage_status(int status);

#endif
