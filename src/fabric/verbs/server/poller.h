/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that drains a device's completion queues: in-band requests, which it serves, and
 * flushed receives of queue pairs in ERROR, which it reports to the loop.  After a request it
 * spins for a moment, because the next one usually follows soon; otherwise it sleeps on the
 * completion channel.  Of the loop's state it uses only the channel ids and, with the
 * session's lock held, the in-band structures. */
#ifndef FABRIC_VERBS_SERVER_POLLER_H
#define FABRIC_VERBS_SERVER_POLLER_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mailbox.h"
#include "fabric/verbs/server/inband.h"
#include "fabric/verbs/server/server.h"

/* The ids by which the poller knows the channels of a device; completions carry an id.  An id has
 * the index of a slot and a generation, because completions may be polled after the end of their
 * queue pair.  The poller never touches a channel: it marks the slot and sends the loop a message.
 * For in-band requests it finds the channel's verbs_inband_server here.  [loop] unless said
 * otherwise */
struct verbs_channel_id {
	struct verbs_message message;
	struct verbs_channel_ids *ids;
	atomic_bool posted;  /* the message is under way */
	atomic_uint flushed; /* the generation whose receive was flushed last */
	/* the last completion with another error: its generation, and below it its status */
	atomic_uint_least64_t failed;
	unsigned use;        /* generation */
	void *channel;       /* NULL: free */
	bool flush_reported; /* flushed() was called for the channel */
	/* as `use` and `closed` under inband_lock */
	struct verbs_inband_server *inband;
	bool closed;
	struct verbs_channel_id *next_free;
};

struct verbs_channel_ids {
	struct verbs_channel_id *slot;
	pthread_mutex_t inband_lock; /* before any session's lock */
	unsigned n;
	struct verbs_channel_id *free;
	struct mailbox *mailbox;
	/* [loop] A receive of the channel was flushed: its queue pair is in ERROR.  status: of
	 * its request that failed; IBV_WC_WR_FLUSH_ERR: none did. */
	void (*flushed)(void *channel, enum ibv_wc_status status);
};

/* Borrows the mailbox.  -ENOMEM with text. */
int verbs_channel_ids_init(struct verbs_channel_ids *ids, unsigned n,
			   struct mailbox *mailbox,
			   void (*flushed)(void *channel, enum ibv_wc_status status));
/* No message of a slot may be under way. */
void verbs_channel_ids_destroy(struct verbs_channel_ids *ids);
/* Whether no message of a slot is in the mailbox; the poller has ended. */
bool verbs_channel_ids_idle(struct verbs_channel_ids *ids);

/* A number for a channel; -ENOSPC with text. */
int verbs_channel_ids_alloc(struct verbs_channel_ids *ids, void *channel,
			    uint64_t *ret_number);
void verbs_channel_ids_free(struct verbs_channel_ids *ids, uint64_t number);

/* Let the poller find the channel's in-band structure: the channel is about to serve its client.
 * False: it was closed before that, and must not.  [worker] */
bool verbs_channel_ids_open(struct verbs_channel_ids *ids, uint64_t number,
			    struct verbs_inband_server *inband);
/* After the return the poller does not use the in-band structure any more; this waits for a
 * request in progress.  Returns whether the channel was open. */
bool verbs_channel_ids_close(struct verbs_channel_ids *ids, uint64_t number);
/* The index of the slot of a number.  [any] */
static inline unsigned verbs_channel_ids_index(uint64_t number)
{
	return (unsigned)(number & UINT32_MAX);
}

/* A request with this number completed with an error.  [poller] */
void verbs_channel_ids_flushed(struct verbs_channel_ids *ids, uint64_t number,
			       enum ibv_wc_status status);

#define VERBS_POLLER_CQS 64

/* Limit of channels per queue: far more than most servers have, and within the limits of
 * devices. */
#define VERBS_POLLER_CHANNELS 512u

struct verbs_poller {
	struct verbs_channel_ids *ids;
	int node;
	struct ibv_context *verbs;
	struct ibv_comp_channel *comp;
	unsigned per_cq; /* channels, by consecutive slots of the channel ids */
	/* a worker creates a queue for its first channel */
	struct ibv_cq *cqs[VERBS_POLLER_CQS];
	atomic_uint n_cqs;
	int stop_fd; /* eventfd: readable once the thread is to end */
	pthread_t thread;
};

/* Number of channels per completion queue, if the device allows max_cqe entries. */
unsigned verbs_poller_per_cq(unsigned max_cqe);
/* Start the thread on a NUMA node (-1: any).  Borrows the channel ids.  -errno with text.
 * [loop] */
int verbs_poller_start(struct verbs_poller *poller, struct ibv_context *verbs,
		       unsigned max_cqe, int node, struct verbs_channel_ids *ids);
/* The completion queue of the channel with this index.  -errno with text.
 * [worker of channels] */
int verbs_poller_cq(struct verbs_poller *poller, unsigned index,
		    struct ibv_cq **ret_cq);
/* Join the thread and destroy the queues, after the queue pairs that use them.  [loop] */
void verbs_poller_stop(struct verbs_poller *poller);

#endif
