/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/utf8.h"
#include "rmemd/control/control.h"
#include "rmemd/control/request.h"
#include "rmemd/state/ledger.h"
#include "rmemd/state/ledger_value.h"

/* The names of tenant and client, and the address, follow, each ended by a zero. */
struct session_head {
	uint32_t head_bytes;
	uint32_t channels_end; /* as in struct session */
	uint64_t opened_ms;
	uint64_t resumes;
	uint8_t token[WIRE_TOKEN_BYTES];
};

/* Without an error's text: nobody may ask for it again, and it would take more of the ledger than
 * all else of a reply. */
struct reply_head {
	uint32_t head_bytes;
	uint32_t type;
	uint32_t code; /* enum wire_code */
	uint32_t unused;
	uint64_t lease;
	uint64_t dropped_id; /* of struct reply_cache, at that time */
};

/* With names of common lengths, and some replies. */
#define SESSION_ROOM 256
/* Their room, eight times that in the file, is there whether they are or not. */
#define SESSIONS_HELD_MAX 4096

static struct ledger *ledger_of(const struct session *session)
{
	return session->sessions->control->ledger;
}

static struct ledger_key session_key(const struct session *session)
{
	return (struct ledger_key){ LEDGER_SESSION, session->lease_client.id, 0 };
}

static struct ledger_key reply_key(const struct session *session, uint64_t id)
{
	return (struct ledger_key){ LEDGER_REPLY, session->lease_client.id, id };
}

int sessions_hold_room(uint32_t max, struct ledger *ledger)
{
	return ledger_hold(ledger,
			   SESSION_ROOM * (uint64_t)(max < SESSIONS_HELD_MAX
							     ? max
							     : SESSIONS_HELD_MAX));
}

int session_record(const struct session *session)
{
	struct ledger_key key = session_key(session);
	struct session_head head = {
		.head_bytes = sizeof(head),
		.channels_end = session->channels_end,
		.opened_ms = session->opened_ms,
		.resumes = session->resumes,
	};
	char value[sizeof(head) + WIRE_LABEL_MAX + sizeof(session->client) +
		   sizeof(session->address) + 3];
	char *end = value;

	memcpy(head.token, session->token, sizeof(head.token));
	end = value_add(end, &head, sizeof(head));
	end = value_add_text(end, session->lease_client.tenant->name, WIRE_LABEL_MAX);
	end = value_add_text(end, session->client, sizeof(session->client));
	end = value_add_text(end, session->address, sizeof(session->address));
	return ledger_put(ledger_of(session), &key, value, (size_t)(end - value));
}

int session_reserve_channels(struct session *session)
{
	uint32_t end = session->channels_end;
	int err;

	if (end == UINT32_MAX)
		return err_set(-EDQUOT, "the session has used up its channel numbers");
	session->channels_end = UINT32_MAX - end < SESSION_CHANNELS_RESERVED
					? UINT32_MAX
					: end + SESSION_CHANNELS_RESERVED;
	err = session_record(session);
	if (err)
		session->channels_end = end;
	return err;
}

void session_unrecord(const struct session *session)
{
	struct ledger_key key = session_key(session);

	ledger_remove(ledger_of(session), &key);
	list_for_each_entry(const struct reply, reply, &session->replies.replies, link)
		reply_unrecord(session, reply->id);
	/* replies that request_begin() recorded or reserved */
	list_for_each_entry(struct request, request, &session->requests, link)
		reply_unrecord(session, request->id);
}

void reply_record(const struct session *session, const struct reply *reply)
{
	struct ledger_key key = reply_key(session, reply->id);
	const struct reply_head head = {
		.head_bytes = sizeof(head),
		.type = reply->type,
		.code = reply->code,
		.lease = reply->lease,
		.dropped_id = session->replies.dropped_id,
	};

	(void)ledger_put(ledger_of(session), &key, &head, sizeof(head));
}

int reply_record_reserve(const struct session *session, uint64_t id)
{
	struct ledger_key key = reply_key(session, id);

	return ledger_reserve(ledger_of(session), &key, sizeof(struct reply_head));
}

void reply_unrecord(const struct session *session, uint64_t id)
{
	struct ledger_key key = reply_key(session, id);

	ledger_remove(ledger_of(session), &key);
}

/* ---- reading ---- */

/* The state of sessions_restore(). */
struct restore {
	struct sessions *sessions;
	const struct leases_restore *with;
};

/* What cannot be read ends, and not the start.  session NULL: there is none. */
static void value_lose(const struct restore *restore, const struct ledger_key *key,
		       const struct session *session, const char *event,
		       const char *then)
{
	struct log_ctx ctx = { 0 };

	if (session) {
		ctx.session = session->lease_client.id;
		ctx.tenant = session->lease_client.tenant->name;
	}
	log_event(LOG_ERR, event, &ctx, "%s: %s", err_text(), then);
	ledger_remove(restore->sessions->control->ledger, key);
}

/* A text of the ledger that is shown in logs and to the administrator. */
static const char *text_shown(const char *text)
{
	return utf8_clean(text, strlen(text)) ? text : "?";
}

static int session_fill(struct session *session, const struct leases_restore *with,
			const struct ledger_key *key, struct value value)
{
	struct tenant *held;
	const char *tenant = NULL, *client = NULL, *address = NULL;
	struct session_head head;

	if (value_parse_head(&value, &head, sizeof(head)))
		tenant = value_parse_text(&value, WIRE_LABEL_MAX);
	if (tenant)
		client = value_parse_text(&value, sizeof(session->client) - 1);
	if (client)
		address = value_parse_text(&value, sizeof(session->address) - 1);
	if (!address || !key->a || key->a > LEDGER_ID_MAX || key->b ||
	    !utf8_clean(tenant, strlen(tenant)))
		return value_malformed("session", key);
	client = text_shown(client);
	address = text_shown(address);
	held = with->tenant(with->ctx, tenant);
	if (!held)
		return -ENOMEM;
	session_set_tenant(session, key->a, held);
	/* the lease_client has a reference of its own */
	tenant_unref(held);
	memcpy(session->token, head.token, sizeof(session->token));
	memcpy(session->client, client, strlen(client) + 1);
	memcpy(session->address, address, strlen(address) + 1);
	lease_client_set_origin(&session->lease_client, client, address);
	session->opened_ms = clock_past_ms(head.opened_ms);
	session->resumes = head.resumes;
	/* channel numbers of earlier processes are not used again */
	session->next_channel = session->channels_end = head.channels_end;
	return 0;
}

static int restore_session(const struct ledger_key *key, const void *data, size_t bytes,
			   void *arg)
{
	const struct restore *restore = arg;
	struct sessions *sessions = restore->sessions;
	struct session *session = session_new(sessions);
	int err;

	if (!session)
		return err_set(-ENOMEM, "no memory for a session that was there");
	err = session_fill(session, restore->with, key, (struct value){ data, bytes });
	if (err) {
		free(session);
		if (err != -EBADMSG)
			return err;
		value_lose(restore, key, NULL, "session-lost", "it has ended");
		return 0;
	}
	wire_session_move(&session->state, WIRE_STEP_RESTART);
	/* its grace time begins now */
	session->heard_ms = session->fenced_ms = clock_now_ms();
	if (sessions->next_id <= key->a)
		sessions->next_id = key->a + 1;
	err = session_insert(session);
	if (err) {
		session_free(session);
		return err;
	}
	session_set_time(session);
	return 0;
}

static int restore_reply(const struct ledger_key *key, const void *data, size_t bytes,
			 void *arg)
{
	const struct restore *restore = arg;
	struct session *session = sessions_find(restore->sessions, key->a);
	struct value value = { data, bytes };
	struct reply_head head;
	struct reply reply;
	uint64_t dropped;

	/* the last process ended while it removed the session */
	if (!session) {
		ledger_remove(restore->sessions->control->ledger, key);
		return 0;
	}
	if (!value_parse_head(&value, &head, sizeof(head))) {
		(void)value_malformed("answer in session", key);
		value_lose(
			restore, key, session, "answer-lost",
			"if the request comes again, what became of it is not known");
		session->last_id = session->replies.dropped_id = key->b;
		return 0;
	}
	reply = (struct reply){ .id = key->b,
				.lease = head.lease,
				.type = (enum wire_type)head.type,
				.code = head.code };
	/* of sessions that came one after the other */
	dropped = reply_cache_add(&session->replies, &reply, NULL);
	if (dropped)
		reply_unrecord(session, dropped);
	session->last_id = reply.id;
	if (session->replies.dropped_id < head.dropped_id)
		session->replies.dropped_id = head.dropped_id;
	return 0;
}

int sessions_restore(struct sessions *sessions, const struct leases_restore *with)
{
	struct restore restore = { .sessions = sessions, .with = with };
	struct ledger *ledger = sessions->control->ledger;
	int err = ledger_walk(ledger, LEDGER_SESSION, restore_session, &restore);

	if (!err)
		err = ledger_walk(ledger, LEDGER_REPLY, restore_reply, &restore);
	if (!err)
		ledger_commit(ledger);
	return err;
}
