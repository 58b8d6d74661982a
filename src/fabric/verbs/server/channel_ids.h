/* SPDX-License-Identifier: BSD-3-Clause */
/* The channels of a device under the numbers their receives carry, so that the poller,
 * which sees only those, never touches a channel: it marks the slot and wakes the loop.
 * What of a channel is the poller's, its desk, it finds here, too.
 * A number holds the slot and how often it was used, as completions of a queue pair may
 * be found after its end.  Threads: [loop] unless said otherwise. */
#ifndef FABRIC_VERBS_SERVER_CHANNEL_IDS_H
#define FABRIC_VERBS_SERVER_CHANNEL_IDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mailbox.h"
#include "fabric/verbs/server/inband.h"
#include "fabric/verbs/server/message.h"

struct verbs_channel_id {
	struct verbs_message message;
	struct verbs_channel_ids *ids;
	atomic_bool posted;  /* the message is under way */
	atomic_uint flushed; /* the use whose receive came back last */
	unsigned use;
	void *channel; /* NULL: free */
	bool told;     /* its channel knows that its queue pair is in ERROR */
	struct verbs_inband_server *inband; /* under desks_lock, with `use` */
	struct verbs_channel_id *next_free;
};

struct verbs_channel_ids {
	struct verbs_channel_id *slot;
	pthread_mutex_t inband_lock; /* before any gate */
	unsigned n, used;
	struct verbs_channel_id *free;
	struct mailbox *mailbox;
	/* [loop] The receive of a channel came back: its queue pair is in ERROR. */
	void (*flushed)(void *channel);
};

/* Borrows the mailbox.  -ENOMEM with text. */
int verbs_channel_ids_init(struct verbs_channel_ids *ids, unsigned n,
			   struct mailbox *mailbox, void (*flushed)(void *channel));
/* No message of a slot may be under way. */
void verbs_channel_ids_destroy(struct verbs_channel_ids *ids);
/* No message of theirs is in the mailbox; the poller has ended. */
bool verbs_channel_ids_idle(struct verbs_channel_ids *ids);

/* A number for a channel; -ENOSPC with text. */
int verbs_channel_ids_alloc(struct verbs_channel_ids *ids, void *channel,
			    uint64_t *ret_number);
void verbs_channel_ids_free(struct verbs_channel_ids *ids, uint64_t number);

/* Let the poller find the channel's desk (NULL: none).  When there was one before, the
 * poller is not at it any more on return.  It waits for the request that the poller may be
 * in the middle of. */
void verbs_channel_ids_set_inband(struct verbs_channel_ids *ids, uint64_t number,
				  struct verbs_inband_server *inband);
/* The desk, with its gate entered, or NULL.  [poller] */
struct verbs_inband_server *verbs_channel_ids_lock_inband(struct verbs_channel_ids *ids,
							  uint64_t number);

/* Its place among the others, below their number.  [any] */
static inline unsigned verbs_channel_ids_index(uint64_t number)
{
	return (unsigned)(number & UINT32_MAX);
}

/* A receive with this number came back.  [poller] */
void verbs_channel_ids_flushed(struct verbs_channel_ids *ids, uint64_t number);

#endif
