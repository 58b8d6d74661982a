/* SPDX-License-Identifier: BSD-3-Clause */
/* The ids by which the poller knows the channels of a device.  Completions carry an id.  The
 * poller never touches a channel: it marks the id's slot and wakes the loop.  For in-band
 * requests it finds the channel's verbs_inband_server here.
 * An id holds the slot and a generation, because completions of a queue pair may be polled
 * after its end.  Threads: [loop] unless said otherwise. */
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
	pthread_mutex_t inband_lock; /* before any session's lock */
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

/* Let the poller find the channel's in-band structure (NULL: none).  After the return the
 * poller does not use the previous one any more; this waits for a request in progress. */
void verbs_channel_ids_set_inband(struct verbs_channel_ids *ids, uint64_t number,
				  struct verbs_inband_server *inband);
/* The structure, with its lock acquired, or NULL.  [poller] */
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
