/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of sessions, in memory and in the ledger, so that clients may come back to another
 * process; for control/ alone.  Threads: [loop]. */
#ifndef RMEMD_CONTROL_SESSION_TABLE_H
#define RMEMD_CONTROL_SESSION_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "rmemd/control/reply_cache.h"
#include "rmemd/control/control.h"
#include "rmemd/control/session.h"
#include "rmemd/lease/lease_client.h"

struct sessions {
	struct control *control;
	const struct sessions_events *events;
	void *ctx;
	uint64_t next_id;
	struct map by_id;
	struct list all;     /* in the order of their ids */
	struct list ended;   /* their keys are still dying */
	struct list noticed; /* those with notifications to be told */
	struct list behind;  /* those that are to be told more in the next turn */
	bool stopping;       /* what is lost now is not worth a line each */
};

enum session_state { SESSION_ACTIVE, SESSION_FENCED, SESSION_ENDED };

/* The session at one endpoint; the cookie of its fabric_session. */
struct session_port {
	struct session *session;
	bool used;          /* it had a channel there */
	unsigned n_closing; /* fabric_sessions that it had there, not closed yet */
	unsigned n_dying;   /* channels of those, counted for the tenant until then */
};

struct session {
	struct sessions *sessions;
	struct lease_client holder; /* holder.id is the session's */
	enum session_state state;
	uint8_t token[WIRE_TOKEN_BYTES];
	char client[WIRE_LABEL_MAX + 1];
	char address[64];              /* of its connection, or of the last one */
	struct connection *connection; /* NULL unless active */
	struct map_node by_id;
	struct list all; /* in sessions->all or ->ended */

	struct session_port ports[WIRE_ENDPOINTS_MAX];
	unsigned n_closing;
	struct list channels;
	unsigned n_channels;
	unsigned n_connected;
	uint32_t next_channel;
	uint32_t restarts; /* of the daemon, that it outlasted */

	struct list noticed; /* in sessions->noticed */
	struct list behind;  /* in sessions->behind */

	struct list requests; /* that wait for their answer */
	unsigned n_requests;
	uint64_t last_id; /* the highest of a request so far */

	/* Who waits for the old keys to be dead: a hello while fenced, a bye when ended. */
	struct connection *waiting_connection;
	uint64_t waiting_id;

	uint64_t opened_ms;
	uint64_t heard_ms;
	uint64_t fenced_ms;
	uint64_t resumes;
	struct reply_cache replies;
};

/* A session that is in no table, all zero.  NULL: no memory. */
struct session *session_new(struct sessions *sessions);
/* Into the table, under its holder's id.  -ENOMEM */
int session_insert(struct session *session);
/* Free the session, which is in no list but sessions->all or ->ended; nothing waits for it
 * or in it. */
void session_free(struct session *session);
/* The session with this id that has not ended, or NULL. */
struct session *sessions_find(const struct sessions *sessions, uint64_t id);

/* ---- in the ledger: staged; the reply to a request commits it ---- */

/* -ENOMEM, -ENOSPC */
int session_record(const struct session *session);
/* With its replies. */
void session_unrecord(const struct session *session);
/* Without memory it is not there after a restart, as it may be dropped at any time. */
void reply_record(const struct session *session, const struct reply *reply,
		  const char *text);
/* Room for it.  -ENOMEM, -ENOSPC */
int reply_record_reserve(const struct session *session);
void reply_unrecord(const struct session *session, uint64_t id);

#endif
