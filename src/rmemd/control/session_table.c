/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/session_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmemd/control/session.h"
#include "rmemd/control/session_channels.h"
#include "rmemd/control/session_requests.h"
#include "rmemd/state/ledger.h"
#include "rmemd/state/ledger_kinds.h"
#include "rmemd/state/ledger_value.h"

/* Of errors that are told again after a restart. */
#define TEXT_MAX 120
/* Each process begins to number the channels of a session anew, so far apart. */
#define CHANNELS_SHIFT 20

/* The names of tenant and client, and the address, follow, each ended by a zero. */
struct session_head {
	uint32_t head_bytes;
	uint32_t restarts;
	uint64_t opened_ms;
	uint64_t resumes;
	uint8_t token[WIRE_TOKEN_BYTES];
};

/* The error's text follows, ended by a zero. */
struct reply_head {
	uint32_t head_bytes;
	uint32_t type;
	int32_t err;
	uint32_t unused;
	uint64_t lease;
	uint64_t dropped_id; /* struct reply_cache', when it was given */
};

/* ---- in memory ---- */

struct session *session_new(struct sessions *sessions)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->sessions = sessions;
	reply_cache_init(&session->replies);
	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++)
		session->ports[i].session = session;
	list_init(&session->channels);
	list_init(&session->requests);
	list_init(&session->noticed);
	list_init(&session->behind);
	list_init(&session->all);
	return session;
}

int session_insert(struct session *session)
{
	struct sessions *sessions = session->sessions;

	if (map_insert(&sessions->by_id, &session->by_id,
		       map_hash_u64(session->holder.id)))
		return err_set(-ENOMEM, "no memory for a session");
	list_append(&sessions->all, &session->all);
	return 0;
}

void session_free(struct session *session)
{
	session_forget_channels(session);
	reply_cache_clear(&session->replies);
	list_remove(&session->all);
	list_remove(&session->noticed);
	list_remove(&session->behind);
	lease_client_destroy(&session->holder);
	free(session);
}

struct session *sessions_find(const struct sessions *sessions, uint64_t id)
{
	struct map_node *node = map_find(&sessions->by_id, map_hash_u64(id));

	for (; node; node = map_find_next(node)) {
		struct session *session = container_of(node, struct session, by_id);

		if (session->holder.id == id)
			return session;
	}
	return NULL;
}

/* ---- in the ledger ---- */

static struct ledger *ledger_of(const struct session *session)
{
	return session->sessions->control->ledger;
}

static struct ledger_key session_key(const struct session *session)
{
	return (struct ledger_key){ LEDGER_SESSION, session->holder.id, 0 };
}

static struct ledger_key reply_key(const struct session *session, uint64_t id)
{
	return (struct ledger_key){ LEDGER_ANSWER, session->holder.id, id };
}

int session_record(const struct session *session)
{
	struct ledger_key key = session_key(session);
	struct session_head head = {
		.head_bytes = sizeof(head),
		.restarts = session->restarts,
		.opened_ms = session->opened_ms,
		.resumes = session->resumes,
	};
	char value[sizeof(head) + WIRE_LABEL_MAX + sizeof(session->client) +
		   sizeof(session->address) + 3];
	char *end = value;

	memcpy(head.token, session->token, sizeof(head.token));
	end = value_add(end, &head, sizeof(head));
	end = value_add_text(end, session->holder.tenant->name, WIRE_LABEL_MAX);
	end = value_add_text(end, session->client, sizeof(session->client));
	end = value_add_text(end, session->address, sizeof(session->address));
	return ledger_put(ledger_of(session), &key, value, (size_t)(end - value));
}

void session_unrecord(const struct session *session)
{
	struct ledger_key key = session_key(session);

	ledger_remove(ledger_of(session), &key);
	for (unsigned i = 0; i < session->replies.n; i++)
		reply_unrecord(session, session->replies.ring[i].id);
	/* those that are told before they are given */
	list_for_each(node, &session->requests)
		reply_unrecord(session, container_of(node, struct request, link)->id);
}

void reply_record(const struct session *session, const struct reply *answer,
		  const char *text)
{
	struct ledger_key key = reply_key(session, answer->id);
	const struct reply_head head = {
		.head_bytes = sizeof(head),
		.type = answer->type,
		.err = answer->err,
		.lease = answer->lease,
		.dropped_id = session->replies.dropped_id,
	};
	char value[sizeof(head) + TEXT_MAX + 1];
	char *end = value_add(value, &head, sizeof(head));

	end = value_add_text(end, text ? text : "", TEXT_MAX);
	(void)ledger_put(ledger_of(session), &key, value, (size_t)(end - value));
}

int reply_record_reserve(const struct session *session)
{
	return ledger_reserve(ledger_of(session),
			      sizeof(struct reply_head) + TEXT_MAX + 1);
}

void reply_unrecord(const struct session *session, uint64_t id)
{
	struct ledger_key key = reply_key(session, id);

	ledger_remove(ledger_of(session), &key);
}

/* ---- reading ---- */

static int malformed(const char *what, const struct ledger_key *key)
{
	return err_set(-EBADMSG, "the ledger's %s %" PRIu64 " is malformed", what,
		       key->a);
}

/* The sessions of a ledger on their way back. */
struct restore {
	struct sessions *sessions;
	const struct leases_restore *with;
	struct session **found; /* in no order at first */
	size_t n;
};

static int session_fill(struct session *session, const struct leases_restore *with,
			const struct ledger_key *key, const void *data, size_t bytes)
{
	struct tenant *held;
	struct value value = { data, bytes };
	const char *tenant = NULL, *client = NULL, *address = NULL;
	struct session_head head;

	if (value_take_head(&value, &head, sizeof(head)))
		tenant = value_take_text(&value, WIRE_LABEL_MAX);
	if (tenant)
		client = value_take_text(&value, sizeof(session->client) - 1);
	if (client)
		address = value_take_text(&value, sizeof(session->address) - 1);
	if (!address)
		return malformed("session", key);
	held = with->tenant(with->ctx, tenant);
	if (!held)
		return -ENOMEM;
	lease_client_init(&session->holder, key->a, held);
	/* the holder has one of its own */
	tenant_unref(held);
	memcpy(session->token, head.token, sizeof(session->token));
	memcpy(session->client, client, strlen(client) + 1);
	memcpy(session->address, address, strlen(address) + 1);
	session->opened_ms = head.opened_ms;
	session->resumes = head.resumes;
	/* what the client asks of the channels of another process must not hit one of ours */
	session->restarts = head.restarts + 1;
	session->next_channel = session->restarts << CHANNELS_SHIFT;
	return 0;
}

static int on_session(const struct ledger_key *key, const void *data, size_t bytes,
		      void *arg)
{
	struct restore *restore = arg;
	struct session *session = session_new(restore->sessions);
	int err;

	if (!session)
		return err_set(-ENOMEM, "no memory for a session that was there");
	restore->found[restore->n++] = session;
	err = session_fill(session, restore->with, key, data, bytes);
	return err;
}

static int session_order(const void *a, const void *b)
{
	const struct session *x = *(struct session *const *)a;
	const struct session *y = *(struct session *const *)b;

	return x->holder.id < y->holder.id ? -1 : x->holder.id > y->holder.id;
}

/* Its client has the whole time of grace to come back. */
static int session_enter(struct session *session)
{
	struct sessions *sessions = session->sessions;
	int err = session_record(session);

	if (!err)
		err = session_insert(session);
	if (err)
		return err;
	session->state = SESSION_FENCED;
	session->heard_ms = session->fenced_ms = clock_now_ms();
	if (sessions->next_id <= session->holder.id)
		sessions->next_id = session->holder.id + 1;
	return 0;
}

/* One that is in no table. */
static void session_discard(struct session *session)
{
	if (session->holder.tenant)
		lease_client_destroy(&session->holder);
	free(session);
}

static int sessions_take(struct restore *restore)
{
	struct ledger *ledger = restore->sessions->control->ledger;
	int err = ledger_each(ledger, LEDGER_SESSION, on_session, restore);

	if (restore->n)
		qsort(restore->found, restore->n, sizeof(struct session *),
		      session_order);
	for (size_t i = 0; i < restore->n; i++) {
		if (!err)
			err = session_enter(restore->found[i]);
		if (err)
			session_discard(restore->found[i]);
	}
	return err;
}

/* An answer of the ledger, with the text in it. */
struct row {
	uint64_t session;
	struct reply answer;
	uint64_t dropped_id;
};

struct rows {
	struct row *at;
	size_t n;
};

static int on_answer(const struct ledger_key *key, const void *data, size_t bytes,
		     void *arg)
{
	struct rows *rows = arg;
	struct row *row = &rows->at[rows->n];
	struct value value = { data, bytes };
	struct reply_head head;
	const char *text = NULL;

	if (value_take_head(&value, &head, sizeof(head)))
		text = value_take_text(&value, TEXT_MAX);
	if (!text || head.err > 0)
		return malformed("answer in session", key);
	*row = (struct row){ key->a,
			     { .id = key->b,
			       .lease = head.lease,
			       .type = (enum wire_type)head.type,
			       .err = head.err,
			       .text = (char *)(uintptr_t)text },
			     head.dropped_id };
	rows->n++;
	return 0;
}

static int row_order(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->session != y->session)
		return x->session < y->session ? -1 : 1;
	return x->answer.id < y->answer.id ? -1 : x->answer.id > y->answer.id;
}

static void answers_take(struct sessions *sessions, const struct rows *rows)
{
	for (size_t i = 0; i < rows->n; i++) {
		const struct row *row = &rows->at[i];
		struct session *session = sessions_find(sessions, row->session);
		struct reply answer = row->answer;

		/* it ended while these were being taken out */
		if (!session) {
			ledger_remove(sessions->control->ledger,
				      &(struct ledger_key){ LEDGER_ANSWER, row->session,
							    answer.id });
			continue;
		}
		answer.text = NULL;
		(void)reply_cache_add(&session->replies, &answer,
				      answer.err ? row->answer.text : NULL);
		session->last_id = answer.id;
		if (session->replies.dropped_id < row->dropped_id)
			session->replies.dropped_id = row->dropped_id;
	}
}

int sessions_restore(struct sessions *sessions, const struct leases_restore *with)
{
	struct ledger *ledger = sessions->control->ledger;
	size_t room = ledger_count(ledger) + 1;
	struct restore restore = { .sessions = sessions, .with = with };
	struct rows rows = { .n = 0 };
	int err;

	restore.found = calloc(room, sizeof(struct session *));
	rows.at = calloc(room, sizeof(*rows.at));
	if (restore.found && rows.at)
		err = sessions_take(&restore);
	else
		err = err_set(-ENOMEM, "no memory for the sessions that were there");
	if (!err)
		err = ledger_each(ledger, LEDGER_ANSWER, on_answer, &rows);
	if (!err) {
		qsort(rows.at, rows.n, sizeof(*rows.at), row_order);
		answers_take(sessions, &rows);
		ledger_commit(ledger);
	}
	free(restore.found);
	free(rows.at);
	return err;
}
