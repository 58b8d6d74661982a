/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients that follow the events of the daemon: each gets a line of JSON for each event, as it
 * comes, and an empty line now and then, which shows that both ends are alive.  A client that reads
 * slowly is told how many events it has missed; it costs one part of the answer.  Threads:
 * [loop]. */
#ifndef RMEMD_ADMIN_FOLLOWERS_H
#define RMEMD_ADMIN_FOLLOWERS_H

#include <event2/event.h>
#include <event2/http.h>

#include "rmemd/admin/filter.h"
#include "rmemd/loop/slices.h"

#define FOLLOWERS_MAX 8
/* Shorter than the time after which a connection that does nothing is closed. */
#define FOLLOWERS_BEAT_S 3

struct followers;

/* Borrows all pointers.  -ENOMEM */
int followers_open(struct event_base *base, struct slices *slices,
		   struct slice_queue *queue, struct followers **ret_followers);
/* After the connections.  NULL: nothing. */
void followers_close(struct followers *followers);

/* Answer the request with the events behind filter->after, and those that come.
 *   -EBUSY   there are FOLLOWERS_MAX
 *   -ENOMEM; the request is the caller's */
int followers_add(struct followers *followers, struct evhttp_request *request,
		  const struct filter *filter);

#endif
