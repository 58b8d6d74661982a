/* SPDX-License-Identifier: BSD-3-Clause */
/* One range of memory made reachable for one session.  Each data thread has a table of what
 * it may touch, into which the loop puts it, and out of which it takes it again: from then on
 * nobody finds it.  A stream that has found it before may still be at it; the loop sees to
 * those that rest, and where one is being worked on it tells every thread by an order, and the
 * last one to carry it out sends the news back.
 * Threads: what each function says; the members under "both" are constant while it is in a
 * table, or a stream may be at it. */
#ifndef FABRIC_TCP_EXPOSURE_H
#define FABRIC_TCP_EXPOSURE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "base/map.h"
#include "base/mailbox.h"
#include "fabric/fabric.h"
#include "fabric/notifications.h"

enum tcp_command_kind {
	TCP_COMMAND_STOP,
	TCP_COMMAND_CONN,     /* serve a new connection */
	TCP_COMMAND_DEREG_MR, /* stop every access to an mr that is in no table */
};

/* What the loop tells a data thread. */
struct tcp_command {
	struct list link;
	enum tcp_command_kind kind;
};

enum tcp_event_kind {
	TCP_EVENT_CONN, /* a connection is over; its thread has forgotten it */
	TCP_EVENT_MR,   /* every thread has carried out the order; or from the loop to
			    * itself: there is nothing to wait for */
	TCP_EVENT_NOTIFICATIONS, /* an mr has notifications */
	TCP_EVENT_SESSION, /* from the loop to itself: nothing is left of a session */
};

/* What the loop is told. */
struct tcp_event {
	struct list link;
	enum tcp_event_kind kind;
};

/* What a data thread may touch; it looks, the loop changes it. */
struct tcp_table {
	pthread_mutex_t lock;
	struct map entries;
};

/* An mr's place in one thread's table. */
struct tcp_key_entry {
	struct tcp_command command;
	struct map_node node;
	struct fabric_mr *mr;
	struct list *streams; /* its session's in that thread: who may be at it */
};

enum tcp_mr_state {
	TCP_MR_REGISTERING, /* the news are under way */
	TCP_MR_REGISTERED,
	TCP_MR_DEREGISTERING,
};

struct fabric_mr {
	/* loop */
	struct list link; /* session->mrs */
	void *cookie;
	enum tcp_mr_state state;
	bool dereg_wanted; /* withdraw() was called, or its session ends */
	/* both */
	struct fabric_session *session;
	struct fabric_key key;
	char *base;
	size_t bytes;
	unsigned rights;
	struct mailbox *box; /* the loop's, for notifications */
	struct fabric_notifications notifications;
	struct tcp_event notifications_event; /* under way while notifications.told */
	/* handed over with the news */
	struct tcp_event event;
	atomic_uint pending; /* threads that have not carried out the order */
	unsigned n_entries;
	struct tcp_key_entry entries[]; /* one per thread */
};

/* Make one with a random key and address; it is in no table yet.  -ENOMEM.  [loop] */
int tcp_mr_new(struct fabric_session *session, void *addr, size_t bytes,
	       unsigned rights, void *cookie, unsigned n_threads,
	       struct fabric_mr **ret_mr);
void tcp_mr_free(struct fabric_mr *mr);

void tcp_table_init(struct tcp_table *table);
void tcp_table_destroy(struct tcp_table *table);
/* Put an mr into a thread's table, and take it out again.  -ENOMEM.  [loop] */
int tcp_table_add(struct tcp_table *table, struct tcp_key_entry *entry);
void tcp_table_remove(struct tcp_table *table, struct tcp_key_entry *entry);

/* An order is carried out: send the news if the thread was the last to do so.
 * [data thread] */
void tcp_key_entry_done(struct tcp_key_entry *entry, struct mailbox *loop);

/* The memory of [addr, addr + bytes) of a key, or NULL when the session has no such key,
 * the range is not inside, or one of the rights (FABRIC_RIGHT_*) was not given.
 * [data thread] */
char *tcp_mr_resolve(struct tcp_table *table, const struct fabric_session *session,
		     uint64_t rkey, uint64_t addr, uint32_t bytes, unsigned rights,
		     const struct fabric_mr **ret_mr);
/* A client notifies of a place that it may write to; false: it may not.  [data thread] */
bool tcp_mr_notify(struct tcp_table *table, const struct fabric_session *session,
		   uint64_t rkey, uint64_t addr, uint32_t value);

#endif
