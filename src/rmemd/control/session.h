/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions: each belongs to one client and one tenant, and has at most one control connection.
 *
 * A session without a frame for nearly fence_ms, or whose connection is lost, is fenced: its keys
 * die, its leases stay.  The client may resume it with its token within grace_ms; after that the
 * session ends and its ephemeral leases are freed.
 *
 * Threads: [loop].  Functions return 0 or -errno with err_text(). */
#ifndef RMEMD_CONTROL_SESSION_H
#define RMEMD_CONTROL_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "base/tree.h"
#include "fabric/server.h"
#include "rmemd/control/reply_cache.h"
#include "rmemd/lease/lease_client.h"
#include "rmemd/loop/slices.h"
#include "wire/msg.h"
#include "wire/states.h"

struct config;
struct connection;
struct control;
struct leases_restore;
struct ledger;
struct session;

struct sessions {
	struct control *control;
	void (*due)(struct control *control, uint64_t ms);
	bool (*work)(struct slice_work *work);   /* session->work.run */
	bool (*notify)(struct slice_work *work); /* session->notify.run */
	uint64_t next_id;
	struct map by_id;
	struct list all;   /* in the order of their ids */
	struct list ended; /* sessions whose keys are not dead yet */
	/* When a session is due depends on this time and on the configuration, which may change.
	 * An active session that has been heard since is moved when its old time is due. */
	struct tree heard; /* active ones, by heard_ms and their ids */
	/* sessions whose clients may come back, by fenced_ms and their ids */
	struct tree fenced;
	struct list unsent; /* with events beyond the limit of a turn */
	bool stopping;      /* log lost connections at LOG_DEBUG */
};

/* The ledger reserves this number of a session's channel numbers at a time. */
#define SESSION_CHANNELS_RESERVED 1024

/* A session at one endpoint; the cookie of its fabric_session. */
struct session_port {
	struct session *session;
	bool used;          /* it has, or had, a channel there */
	unsigned n_closing; /* fabric_sessions being closed there */
	unsigned n_dying;   /* their channels, which the tenant is still charged for */
};

struct session {
	struct sessions *sessions;
	struct lease_client lease_client; /* lease_client.id is the session's */
	enum wire_session_state state;
	uint8_t token[WIRE_TOKEN_BYTES];
	char client[WIRE_LABEL_MAX + 1];
	/* auth of its connection, or of the last one; NULL: that was another process's */
	const char *auth;
	char address[64];              /* of its connection, or of the last one */
	struct connection *connection; /* NULL unless active */
	struct map_node by_id;
	struct list all;    /* in sessions->all or ->ended */
	struct tree *times; /* sessions->heard or ->fenced, or NULL */
	struct tree_node in_times;

	struct session_port ports[WIRE_ENDPOINTS_MAX];
	unsigned n_closing; /* sum of those of the ports */
	struct list channels;
	unsigned n_channels;
	unsigned n_connected;
	uint32_t next_channel; /* the number used last */
	uint32_t channels_end; /* numbers above it are not reserved in the ledger */

	struct slice_work work;   /* ends keys and leases */
	struct slice_work notify; /* sends notifications */

	struct list unsent; /* in sessions->unsent */

	struct list requests; /* waiting */
	struct list listings; /* requests `list`, searched in slices */
	unsigned n_requests;  /* in both lists */
	uint64_t last_id;     /* the highest id of a request */

	/* The connection of a hello (FENCED) or bye (ENDED) that waits until the old keys are
	 * dead. */
	struct connection *waiting_connection;
	uint64_t waiting_id;

	uint64_t opened_ms;
	uint64_t heard_ms;
	uint64_t fenced_ms;
	uint64_t resumes;
	uint64_t told; /* the number of the drain that its client knows of */
	struct reply_cache replies;
};

/* Open the table; borrows control.  The first session gets the id control->first_id.
 * due  called when sessions_tick() is due at this time, perhaps sooner than before
 * -ENOMEM */
int sessions_open(struct control *control,
		  void (*due)(struct control *control, uint64_t ms),
		  struct sessions **ret_sessions);
/* Restore the sessions of the ledger into an empty table; their clients can resume them within the
 * grace time.
 *   -EBADMSG  a session of the ledger is malformed
 *   -ENOMEM */
int sessions_restore(struct sessions *sessions, const struct leases_restore *with);
/* Hold room in the ledger for as many, up to 4096, and some replies.  -ENOMEM, -ENOSPC */
int sessions_hold_room(uint32_t max, struct ledger *ledger);
/* Free all sessions, after connections, leases and fabrics.  The ledger keeps them.
 * NULL: no effect. */
void sessions_close(struct sessions *sessions);

/* Fence and end the sessions that are due, and send more to those in sessions->unsent. */
void sessions_tick(struct sessions *sessions);
/* When sessions_tick() is next due (clock_now_ms), UINT64_MAX: never. */
uint64_t sessions_next_ms(const struct sessions *sessions);
/* Tell all clients that the server stops, and close all connections.  back: clients may resume, as
 * the next process restores their sessions; otherwise they are told that these have ended. */
void sessions_stop(struct sessions *sessions, bool back);

/* Tell all clients of the present state of control->drain. */
void sessions_announce(struct sessions *sessions);
/* Whether there are events that the next turns of sessions_tick() send. */
bool sessions_have_unsent(const struct sessions *sessions);

/* Call each() for every session with an id above `after` in the order of ids, until it returns
 * non-zero, and return its result.  each() must not change the table. */
int sessions_each(const struct sessions *sessions, uint64_t after,
		  int (*each)(const struct session *session, void *arg), void *arg);
/* leases_restore.client, whose ctx is a struct control. */
struct lease_client *sessions_lease_client(void *control, uint64_t id);
/* The number of sessions, including fenced ones. */
unsigned sessions_count(const struct sessions *sessions);
/* The session with this id that has not ended, or NULL. */
struct session *sessions_find(const struct sessions *sessions, uint64_t id);

/* ---- requests ---- */

/* Open a session of a tenant for a connection that has none.
 *   -EACCES  there is no such tenant, or it is leaving
 *   -EDQUOT, -ENOMEM */
int session_open(struct connection *connection, const char *tenant, const char *client);
/* Send the new session's welcome, with a channel through the first endpoint of a fabric, if any,
 * and handle the frames after the hello. */
void session_opened(struct session *session, uint64_t hello_id,
		    enum wire_fabric fabric);
/* Resume a session of this tenant on the connection.  On success the welcome that answers hello_id
 * was sent, or connection->hello_pending is set until the session's old keys are dead.
 *   -ESTALE  no session has this id and token
 *   -EACCES  the session is another tenant's */
int session_resume(struct connection *connection, const char *tenant, uint64_t id,
		   const uint8_t token[WIRE_TOKEN_BYTES], uint64_t hello_id);
/* End the session; answers the request bye_id when all its keys are dead. */
void session_bye(struct session *session, uint64_t bye_id);
/* Fence a session that has a connection, and close that; the client is told, and may resume. */
void session_fence_active(struct session *session, enum wire_step step,
			  const char *why);
/* End a session at once, for the administrator: its keys die and its ephemeral leases end.  The
 * client is told, and cannot resume.  -ENOENT */
int sessions_kick(struct sessions *sessions, uint64_t id);
/* The connection is lost: fence its session, if any.  `why` is one line. */
void session_connection_lost(struct connection *connection, const char *why);

/* ---- events: what a client is told without asking ---- */

/* leases_events.client_notified.  A slice sends what has come until then. */
void session_client_notified(void *ctx, struct lease_client *lease_client);
/* leases_events.client_event.  Nothing is sent while the session is fenced. */
void session_client_event(void *ctx, struct lease_client *lease_client);

/* The connection is not busy any more: send waiting events. */
void session_connection_idle(struct connection *connection);

/* ---- channels ---- */

/* -EINVAL, -EDQUOT, -ENOMEM, or an error of the fabric */
int session_open_channel(struct session *session, unsigned endpoint,
			 uint32_t *ret_channel);
/* Open a channel through the first endpoint of a fabric; returns its number.  0: there is none; the
 * client can ask for a channel and gets the error. */
uint32_t session_open_first(struct session *session, enum wire_fabric fabric,
			    uint8_t *ret_endpoint);
/* Close a channel.  On return no operation of it is applied any more.
 * -EINVAL, -EIO (the device does not release it) */
int session_close_channel(struct session *session, uint32_t channel);

/* Connect a channel that was granted for an endpoint without rdma_cm.  The request `id` is
 * answered when that is done or has failed.
 * -EINVAL, -ENOTSUP, or an error of the fabric, after which the channel does not exist: the request
 * is not answered */
int session_join_channel(struct session *session, uint32_t channel,
			 const struct fabric_qp_info *theirs, uint64_t id);

/* ---- events of the fabrics, as in struct fabric_server_events; the cookies are those of
 * session_open() there ---- */

/* A refusal is logged. */
int sessions_admit(struct sessions *sessions, unsigned endpoint,
		   struct fabric_hello *hello, struct fabric_session **ret_session);
int session_channel_key(void *ctx, void *session_cookie, uint32_t channel,
			uint8_t ret_key[FABRIC_TLS_KEY_BYTES]);
/* The endpoint's device is gone: close the fabric_sessions there, and tell clients to attach their
 * leases again.  The next channel there opens a fabric_session again. */
void sessions_leave_endpoint(struct sessions *sessions, unsigned endpoint);
void session_channel_connected(void *ctx, void *session_cookie, uint32_t channel,
			       int err, const char *text,
			       const struct fabric_qp_info *ours);
void session_channel_up(void *ctx, void *session_cookie, uint32_t channel);
void session_channel_down(void *ctx, void *session_cookie, uint32_t channel,
			  const char *why);
void session_closed(void *ctx, void *session_cookie);

/* ---- for control/ alone: a session's life ---- */

/* A frame of the client came so long ago: a sign of life. */
void session_heard(struct session *session, uint64_t ago_ms);
/* Fence a session that has not been heard in time. */
void session_fence_silent(struct session *session);
/* The session is freed when its keys are dead and its leases have ended, perhaps on return. */
void session_end(struct session *session, enum wire_step step, const char *why);
/* sessions->work */
bool session_end_some(struct slice_work *work);
/* Send the welcome that answers hello_id.  first: the fabric of a channel that is granted with it;
 * AUTO: none */
void session_welcome(struct session *session, uint64_t hello_id, bool resumed,
		     enum wire_fabric first);

/* ---- for control/ alone: events ---- */

/* Send waiting events.  If the connection is busy, they are sent when it is idle; events beyond the
 * limit of a turn are sent at sessions_tick(), so that other sessions are served. */
void session_deliver(struct session *session);
/* sessions->notify */
bool session_notify(struct slice_work *work);
/* Sessions that have still more to send are put back on the list, for the next tick. */
void sessions_deliver_unsent(struct sessions *sessions);

/* ---- for control/ alone: the table, in memory ---- */

/* A session of zeros, in no table.  NULL: no memory. */
struct session *session_new(struct sessions *sessions);
/* Before anything else. */
void session_set_tenant(struct session *session, uint64_t id, struct tenant *tenant);
/* Add it to the table under its lease_client's id.  -ENOMEM */
int session_insert(struct session *session);
/* Put it in its place in sessions->heard or ->fenced, or in neither: its state, waiting_connection
 * or the time has changed. */
void session_set_time(struct session *session);
/* The next session of sessions->heard or ->fenced after the one with this time and id, or NULL. */
struct session *session_next(const struct tree *times, uint64_t ms, uint64_t id);
/* How long a client may be silent, as its welcome says.  Its rkeys are dead [session] fence after
 * its last sign of life, although the loop may be late when it fences: that is the difference. */
uint64_t session_silence_max_ms(const struct config *config);
/* When a session is fenced that was heard then, and when one ends that was fenced then. */
uint64_t sessions_heard_due_ms(const struct sessions *sessions, uint64_t heard_ms);
uint64_t sessions_fenced_due_ms(const struct sessions *sessions, uint64_t fenced_ms);
/* Free a session that is in no list except sessions->all or ->ended and has no channel, waiting
 * request or connection. */
void session_free(struct session *session);

/* ---- the table, in the ledger: staged; the reply to a request commits it ---- */

/* -ENOMEM, -ENOSPC */
int session_record(const struct session *session);
/* Reserve further channel numbers: no later process uses them again.  -EDQUOT: all are used;
 * -ENOMEM, -ENOSPC */
int session_reserve_channels(struct session *session);
/* Remove it, with its replies. */
void session_unrecord(const struct session *session);
/* Without its text.  Without memory it is not recorded: any reply may be dropped. */
void reply_record(const struct session *session, const struct reply *reply);
/* Reserve for the reply to this request, until it is recorded or unrecorded.  -ENOMEM, -ENOSPC */
int reply_record_reserve(const struct session *session, uint64_t id);
void reply_unrecord(const struct session *session, uint64_t id);

/* ---- for control/ alone: channels ---- */

/* What comes through the ports is applied as long as the client may be silent, also if this process
 * is stopped before it can fence the session: after that time the client reports its writes as
 * ended. */
void session_extend_ports(const struct session *session);
/* Open a fabric_session at an endpoint, unless there is one. */
int session_open_port(struct session *session, unsigned endpoint);
/* Forget all channels and close all fabric_sessions, with which all keys die. */
void session_close_ports(struct session *session);
/* A fabric_session of the port is closed: its channels are dead. */
void session_port_closed(struct session_port *port);
void session_drop_channels(struct session *session);

#endif
