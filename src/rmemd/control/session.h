/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions: one client each, as one tenant, on one control connection at a time.
 *
 * Any frame is a sign of life.  Without one for fence_ms, or when the connection is lost,
 * the session is fenced: its keys die, its leases stay.  It may be resumed with its token
 * within grace_ms; after that it ends and its ephemeral leases are freed.
 *
 * Threads: [loop].  Functions return 0 or -errno with err_text(). */
#ifndef RMEMD_CONTROL_SESSION_H
#define RMEMD_CONTROL_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "wire/msg.h"

struct control;
struct lease_client;
struct leases_restore;
struct connection;
struct session;
struct sessions;

/* A session for people and programs that look on. */
struct session_status {
	uint64_t id;
	const char *tenant;
	const char *client; /* how it calls itself */
	const char *peer;   /* address:port of its connection, or of the last one */
	const char *state;  /* "active", "fenced" */
	const char *fabric; /* "rdma", "tcp", "rdma,tcp"; "" before the first channel */
	uint64_t age_ms;
	uint64_t idle_ms;    /* since its last sign of life */
	unsigned channels;   /* connected */
	unsigned leases;     /* attached */
	unsigned keys;       /* of those, until they are dead */
	unsigned watches;    /* of the leases, those it watches */
	unsigned notices;    /* of them, that wait for its connection to take them */
	uint64_t lent_bytes; /* the lengths of those */
	uint64_t resumes;
};

struct sessions_events {
	/* sessions_tick() has something to do at this time, perhaps sooner than before. */
	void (*due)(void *ctx, uint64_t ms);
};

/* Open the table; borrows all.  The first session gets the id `first_id`.  -ENOMEM */
int sessions_open(struct control *control, const struct sessions_events *events,
		  void *ctx, uint64_t first_id, struct sessions **ret_sessions);
/* Take back the sessions in the ledger, into a table that is empty yet: their clients have the
 * time of grace to come back.
 *   -EBADMSG  the ledger's sessions are no sessions
 *   -ENOMEM */
int sessions_restore(struct sessions *sessions, const struct leases_restore *with);
/* Free everything; peers, leases and fabrics are gone.  The ledger keeps it.
 * NULL: nothing. */
void sessions_close(struct sessions *sessions);

/* Fence and end what is due, and tell more to those that were told all that one turn allows. */
void sessions_tick(struct sessions *sessions);
/* When sessions_tick() is next due (clock_now_ms), UINT64_MAX: never. */
uint64_t sessions_next_ms(const struct sessions *sessions);
/* Close all connections.  back: their clients may try to come back, as another process will
 * have their sessions; else they are told that the server stops. */
void sessions_stop(struct sessions *sessions, bool back);

/* Call each() for every session in the order of their ids, until it returns non-zero, and
 * return that.  The strings are borrowed until each() returns; the table must not change
 * meanwhile. */
int sessions_each(const struct sessions *sessions,
		  int (*each)(const struct session_status *status, void *arg),
		  void *arg);
/* How many there are, fenced ones too. */
unsigned sessions_count(const struct sessions *sessions);

/* ---- requests ---- */

/* Open a session of a tenant for the connection, which has none yet.
 *   -EACCES  there is no such tenant, or it is leaving
 *   -EDQUOT, -ENOMEM */
int session_open(struct connection *connection, const char *tenant, const char *client);
/* Give a session to the connection, if it is that tenant's.  On success the welcome that answers hello_id was sent, or
 * is sent once the session's old keys are dead; connection->hello_pending is set meanwhile.
 *   -ESTALE  there is no such session with that token
 *   -EACCES  it is another tenant's */
int session_resume(struct connection *connection, const char *tenant, uint64_t id,
		   const uint8_t token[WIRE_TOKEN_BYTES], uint64_t hello_id);
/* A channel that a new session has from the beginning. */
struct session_first {
	uint32_t channel; /* 0: none */
	uint8_t endpoint;
	struct fabric_qp_info end; /* ours, where it is joined; qpn 0: it is not */
};
/* Send the connection what it needs to know of its session. */
void session_welcome(const struct session *session, uint64_t hello_id, bool resumed,
		     const struct session_first *first);
/* End the session; bye_id is answered when all its keys are dead. */
void session_bye(struct session *session, uint64_t bye_id);
/* The connection is lost or at its end: a session is fenced.  `why` is one line. */
void session_connection_lost(struct connection *connection, const char *why);
/* The connection is not busy any more: what has waited for that is sent. */
void session_connection_idle(struct connection *connection);

/* That of the session with this id, or NULL. */
struct lease_client *sessions_holder(const struct sessions *sessions, uint64_t id);

/* ---- notifications, and news of leases ---- */

/* There are some that the holder is to be told; sessions_deliver() does, when those that
 * come with them are there, too. */
void session_noticed(struct lease_client *holder);
/* Its leases have ended or changed, or are wanted back; told is nothing while it is fenced. */
void session_news(struct lease_client *holder);
/* Tell what waits, as far as connections take it at once, the rest when they take more; and no
 * more than others can wait for, the rest at sessions_tick(). */
void sessions_deliver(struct sessions *sessions);
void session_deliver(struct session *session);

/* ---- channels ---- */

/* -EINVAL, -EDQUOT, -ENOMEM, or what the fabric says */
int session_open_channel(struct session *session, unsigned endpoint,
			 uint32_t *ret_channel);
/* Open a channel through the first endpoint of a fabric.  None: there is none, or it cannot
 * be opened; the client may ask for it and hear why. */
void session_open_first(struct session *session, enum wire_fabric fabric,
			struct session_first *ret_first);
/* On return nothing that came through the channel is applied any more.
 * -EINVAL, -EIO (the device does not release it) */
int session_close_channel(struct session *session, uint32_t channel);

/* Connect a channel that was granted for an endpoint without rdma_cm.
 * -EINVAL, -ENOTSUP, or what the fabric says: then the channel is no more */
int session_join_channel(struct session *session, uint32_t channel,
			 const struct fabric_qp_info *theirs,
			 struct fabric_qp_info *ret_ours);

/* ---- news of the fabrics; the cookies are those of fabric session_open() ---- */

/* NULL: refused, and logged. */
struct fabric_session *sessions_admit(struct sessions *sessions, unsigned endpoint,
				      const struct fabric_hello *hello);
/* The endpoint's device is gone: end the sessions' business there, and tell them to attach
 * their leases anew.  It begins again with a channel. */
void sessions_leave(struct sessions *sessions, unsigned endpoint);
void session_channel_up(void *session_cookie, uint32_t channel);
void session_channel_down(void *session_cookie, uint32_t channel, const char *why);
void session_closed(void *session_cookie);

#endif
