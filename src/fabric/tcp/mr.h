/* SPDX-License-Identifier: BSD-3-Clause */
/* A memory region registered for one session.  Each data thread has a table of keys.  To
 * register a region, the loop adds it to every table; to deregister it, the loop removes it from
 * every table, after which no request finds it.  A stream may still use a region that it found
 * before.  The loop makes idle streams forget the region.  If a data thread is working on a
 * stream, the loop sends a command to every thread, and the last thread to carry it out sends an
 * event back.
 * Threads: stated at each function; the members under "both" are constant while the region is
 * in a table or a stream may use it. */
#ifndef FABRIC_TCP_MR_H
#define FABRIC_TCP_MR_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "base/map.h"
#include "base/mailbox.h"
#include "fabric/server.h"
#include "fabric/notifications.h"
#include "fabric/status.h"

enum tcp_command_kind {
	TCP_COMMAND_STOP,
	TCP_COMMAND_CONN,     /* serve a new connection */
	TCP_COMMAND_DEREG_MR, /* end all access to a region that is in no table */
	TCP_COMMAND_CLOSE,    /* end the streams of a session */
};

/* From the loop to a data thread. */
struct tcp_command {
	struct list link;
	enum tcp_command_kind kind;
};

/* To the loop, which calls handle(). */
struct tcp_event {
	struct list link;
	void (*handle)(struct tcp_event *event);
};

/* The keys that a data thread serves: the thread reads, the loop changes. */
struct tcp_table {
	pthread_mutex_t lock;
	struct map entries;
};

/* A region's entry in the table of one thread. */
struct tcp_key_entry {
	struct tcp_command command;
	struct map_node node;
	struct fabric_mr *mr;
	/* of the session in this thread; they may use the region */
	struct list *streams;
	/* counted by this thread alone */
	_Atomic uint64_t operations, bytes;
};

struct fabric_mr {
	/* loop */
	struct list link; /* session->mrs */
	void *cookie;
	/* both */
	struct fabric_session *session;
	struct fabric_key key;
	char *base;
	size_t bytes;
	unsigned rights;
	struct mailbox *box; /* to the loop, for notifications */
	struct fabric_notifications notifications;
	/* under way while notifications.event_pending */
	struct tcp_event notifications_event;
	/* no stream uses the region; owned by the receiver of the event */
	struct tcp_event event;
	atomic_uint pending; /* threads that have not carried out the command */
	unsigned n_entries;
	struct tcp_key_entry entries[]; /* one per thread */
};

/* Create a region with a random rkey and address, in no table yet.  -ENOMEM.  [loop] */
int tcp_mr_new(struct fabric_session *session, void *addr, size_t bytes,
	       unsigned rights, void *cookie, unsigned n_threads,
	       struct fabric_mr **ret_mr);
void tcp_mr_free(struct fabric_mr *mr);

void tcp_table_init(struct tcp_table *table);
void tcp_table_destroy(struct tcp_table *table);
/* Add a region to the table of a thread (-ENOMEM), or remove it.  [loop] */
int tcp_table_add(struct tcp_table *table, struct tcp_key_entry *entry);
void tcp_table_remove(struct tcp_table *table, struct tcp_key_entry *entry);

/* The thread has carried out the command; the last thread sends the event.
 * [data thread] */
void tcp_key_entry_done(struct tcp_key_entry *entry, struct mailbox *loop);

/* Where a range of a key is. */
struct tcp_place {
	char *at;
	const struct fabric_mr *mr;
};

/* The memory of [addr, addr + bytes) of a key, which has these FABRIC_RIGHT_*.  [data thread] */
enum fabric_status tcp_mr_resolve(struct tcp_table *table,
				  const struct fabric_session *session, uint64_t rkey,
				  uint64_t addr, uint32_t bytes, unsigned rights,
				  struct tcp_place *ret_place);
/* Add what the threads have counted.  [loop] */
void tcp_mr_traffic(const struct fabric_mr *mr, struct fabric_mr_traffic *sum);
/* Queue a notification on an address, where the session may write.  [data thread] */
enum fabric_status tcp_mr_notify(struct tcp_table *table,
				 const struct fabric_session *session, uint64_t rkey,
				 uint64_t addr, uint32_t value);

#endif
