/* SPDX-License-Identifier: BSD-3-Clause */
/* One range of memory made reachable for one session.  The loop makes it and tells every
 * data thread by an order; each thread keeps its own table of what it may touch, and the
 * last one to carry the order out sends the news back.
 * Threads: what each function says; the members under "both" are constant while any
 * thread knows the exposure. */
#ifndef FABRIC_TCP_EXPOSURE_H
#define FABRIC_TCP_EXPOSURE_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/map.h"
#include "base/mailbox.h"
#include "fabric/fabric.h"
#include "fabric/notes.h"

enum tcp_order_kind {
	TCP_ORDER_STOP,
	TCP_ORDER_CONN,     /* serve a new connection */
	TCP_ORDER_EXPOSE,   /* put an exposure into the table */
	TCP_ORDER_WITHDRAW, /* take it out, and stop every access to it */
};

/* What the loop tells a data thread. */
struct tcp_order {
	struct list link;
	enum tcp_order_kind kind;
};

enum tcp_news_kind {
	TCP_NEWS_CONN,     /* a connection is over; its thread has forgotten it */
	TCP_NEWS_EXPOSURE, /* every thread has carried out the order */
	TCP_NEWS_NOTES,    /* an exposure has notifications */
	TCP_NEWS_SESSION,  /* from the loop to itself: nothing is left of a session */
};

/* What the loop is told. */
struct tcp_news {
	struct list link;
	enum tcp_news_kind kind;
};

/* An exposure's place in one thread's table.  [that thread] */
struct tcp_seat {
	struct tcp_order order;
	struct map_node node;
	struct fabric_exposure *exposure;
	struct list *streams; /* its session's in that thread: who may be at it */
	bool seated;
};

enum tcp_exposure_state {
	TCP_EXPOSING,
	TCP_EXPOSED,
	TCP_WITHDRAWING,
};

struct fabric_exposure {
	/* loop */
	struct list link; /* session->exposures */
	void *cookie;
	enum tcp_exposure_state state;
	bool withdraw_wanted; /* withdraw() was called, or its session ends */
	/* both */
	struct fabric_session *session;
	struct fabric_key key;
	char *base;
	size_t bytes;
	unsigned rights;
	struct mailbox *box; /* the loop's, for notifications */
	struct fabric_notes notes;
	struct tcp_news notes_news; /* under way while notes.told */
	/* handed over with the news */
	struct tcp_news news;
	atomic_uint pending; /* threads that have not carried out the order */
	atomic_int err;      /* -ENOMEM from a thread */
	unsigned n_seats;
	struct tcp_seat seats[]; /* one per thread */
};

/* Make one with a random key and address; no thread knows it yet.  -ENOMEM.  [loop] */
int tcp_exposure_new(struct fabric_session *session, void *addr, size_t bytes,
		     unsigned rights, void *cookie, unsigned n_threads,
		     struct fabric_exposure **ret_exposure);
void tcp_exposure_free(struct fabric_exposure *exposure);

/* Carry out an order with one thread's table, and send the news if it was the last to do
 * so.  [data thread] */
void tcp_seat_take(struct tcp_seat *seat, struct map *table, struct mailbox *news);
void tcp_seat_leave(struct tcp_seat *seat, struct map *table, struct mailbox *news);

/* The memory of [addr, addr + bytes) of a key, or NULL when the session has no such key,
 * the range is not inside, or one of the rights (FABRIC_RIGHT_*) was not given.
 * [data thread] */
char *tcp_exposure_resolve(const struct map *table,
			   const struct fabric_session *session, uint64_t rkey,
			   uint64_t addr, uint32_t bytes, unsigned rights,
			   const struct fabric_exposure **ret_exposure);
/* A client notifies of a place that it may write to; false: it may not.  [data thread] */
bool tcp_exposure_notify(const struct map *table, const struct fabric_session *session,
			 uint64_t rkey, uint64_t addr, uint32_t value);

#endif
