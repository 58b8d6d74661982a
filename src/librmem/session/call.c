/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/session/call.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

#include "librmem/session/cancel.h"
#include "librmem/session/session.h"
#include "wire/codec.h"

void call_init(struct call *call, const struct call_kind *kind, struct rmem *session,
	       const struct rmem_request *request, int err)
{
	unsigned timeout_ms = request->timeout_ms ? request->timeout_ms
			      : session           ? session_timeout_ms(session)
						  : UINT_MAX;

	call->kind = kind;
	call->session = session;
	call->answer.call = request->call;
	call->answer.cookie = request->cookie;
	list_init(&call->node);
	list_init(&call->owner_node);
	list_init(&call->session_node);
	list_init(&call->line_node);
	call->begin_ns = clock_now_ns();
	call->end_ns = call->begin_ns + timeout_ms * NS_PER_MS;
	if (!err && session)
		err = session_own(session);
	if (err && kind->describe)
		err = kind->describe(call, err);
	err_keep(&call->refused, err);
}

void call_clear(struct call *call)
{
	if (call->kind->release)
		call->kind->release(call);
	err_kept_free(&call->pause);
	err_kept_free(&call->refused);
	err_kept_free(&call->failed);
	free(call->stats);
}

void call_free(struct call *call)
{
	call_clear(call);
	free(call);
}

/* ---- the end ---- */

static void due_clear(struct call *call)
{
	if (call->due)
		tree_remove(&call->session->calls_due, &call->due_node);
	call->due = false;
}

static void due_set(struct call *call, uint64_t due_ns)
{
	due_clear(call);
	tree_insert(&call->session->calls_due, &call->due_node, due_ns,
		    (uintptr_t)call);
	call->due = true;
}

void call_refuse(struct call *call)
{
	call->failed = call->refused;
	call->refused = (struct err_kept){ .err = 0 };
	call->answer.status = call->failed.err;
	call->done = true;
	call_sink_put(call);
}

void call_drop(struct call *call)
{
	if (call->answer.object && call->kind->undo)
		call->kind->undo(call);
	list_remove(&call->session_node);
	call_free(call);
}

/* The call ends in time; a thread that waits for it sees to that itself. */
static void end_set(struct call *call)
{
	if (call->waited)
		due_clear(call);
	else
		due_set(call, call->end_ns);
}

/* Hand the answer to whoever waits for it. */
static void deliver(struct call *call)
{
	call->done = true;
	if (call->waited) {
		(void)pthread_cond_broadcast(&call->session->changed);
		return;
	}
	if (!call->answer.object && !call->left_ns)
		list_remove(&call->session_node);
	call_sink_put(call);
}

/* Nobody waits for the reply any more. */
static void leave(struct call *call)
{
	if (call->kind->leave)
		call->kind->leave(call);
	else
		(void)connection_abandon(call->sent, NULL, NULL);
	call->sent = NULL;
}

/* call_end(), and let the next one of its line begin.  False: there is no line any more. */
static bool end(struct call *call, int result)
{
	struct call_line *line;

	if (call->sent)
		leave(call);
	due_clear(call);
	list_remove(&call->line_node);
	if (call->kind->end)
		result = call->kind->end(call, result);
	if (result < 0 && call->kind->describe)
		result = call->kind->describe(call, result);
	if (result < 0)
		err_keep(&call->failed, result);
	call->answer.status = result;
	line = call->line;
	deliver(call);
	if (!line)
		return false;
	call_line_go(line);
	return true;
}

void call_end(struct call *call, int result)
{
	(void)end(call, result);
}

/* ---- lines ---- */

void call_line_init(struct call_line *line)
{
	list_init(&line->calls);
}

void call_line_go(struct call_line *line)
{
	struct call *call;

	/* the caller that goes on with it takes the next one */
	if (line->going)
		return;
	line->going = true;
	while ((call = list_first(&line->calls, struct call, line_node)) &&
	       !call->sent) {
		int result;

		call->stepped = true;
		result = call->kind->step(call);
		if (result == CALL_GOES_ON)
			break;
		if (!end(call, result))
			return;
	}
	line->going = false;
}

void call_line_end(struct call_line *line)
{
	struct call *call;

	while ((call = list_first(&line->calls, struct call, line_node))) {
		call->line = NULL;
		(void)end(call, err_set(-ESTALE, "the handle was given back before"));
	}
}

/* ---- requests ---- */

static int answered(void *ctx, int err, const struct wire_msg *reply)
{
	struct call *call = ctx;
	bool valid = !err;
	int result;

	call->sent = NULL;
	result = call->kind->answered(call, err, reply);
	if (result == CALL_GOES_ON)
		return 0;
	if (valid && result == -EPROTO) {
		struct err_saved broken;

		err_save(&broken, result);
		(void)end(call, result);
		return err_restore(&broken);
	}
	(void)end(call, result);
	return 0;
}

int call_send(struct call *call, const struct wire_msg *request)
{
	int err = connection_call(call->session->connection, request, answered, call,
				  &call->sent);

	call->asked = request->type;
	return err ? err : CALL_GOES_ON;
}

int call_await(struct call *call, int err)
{
	err_kept_free(&call->pause);
	err_keep(&call->pause, err);
	return CALL_GOES_ON;
}

int call_pause(struct call *call, unsigned ms, int err)
{
	uint64_t again_ns = clock_now_ns() + ms * NS_PER_MS;

	if (again_ns < call->end_ns)
		due_set(call, again_ns);
	return call_await(call, err);
}

void call_begin(struct call *call)
{
	struct rmem *session = call->session;
	int result;

	list_move(&session->calls, &call->session_node);
	call->end_ns = call_end_ns(call);
	end_set(call);
	if (call->line) {
		list_append(&call->line->calls, &call->line_node);
		if (list_first(&call->line->calls, struct call, line_node) == call)
			call_line_go(call->line);
		return;
	}
	call->stepped = true;
	result = call->kind->step(call);
	if (result != CALL_GOES_ON)
		(void)end(call, result);
}

/* ---- due work ---- */

static int expired(const struct call *call, uint64_t now_ns)
{
	uint64_t ms = (now_ns - call->begin_ns) / NS_PER_MS;

	if (!call->stepped)
		return err_set(-ETIMEDOUT,
			       "other calls on the lease, which come first, took its "
			       "%" PRIu64 " ms",
			       ms);
	if (!call->sent && call->pause.err)
		return err_kept_restore(&call->pause);
	return err_set(-ETIMEDOUT, "no answer to %s within %" PRIu64 " ms",
		       wire_type_name(call->asked), ms);
}

static void due(struct call *call, uint64_t now_ns)
{
	int result;

	if (now_ns >= call->end_ns) {
		(void)end(call, expired(call, now_ns));
		return;
	}
	end_set(call);
	result = call->kind->step(call);
	if (result != CALL_GOES_ON)
		(void)end(call, result);
}

static struct call *due_first(const struct rmem *session)
{
	struct tree_node *node = tree_above(&session->calls_due, 0, 0);

	return node ? container_of(node, struct call, due_node) : NULL;
}

uint64_t calls_due(const struct rmem *session)
{
	const struct call *first = due_first(session);

	return first ? first->due_node.major : UINT64_MAX;
}

static void calls_work(struct rmem *session, uint64_t now_ns)
{
	struct call *call;

	while ((call = due_first(session)) && call->due_node.major <= now_ns)
		due(call, now_ns);
}

static void closed(struct call *call)
{
	int err = err_set(-ECANCELED, "the session is closed");

	if (call->driver)
		*call->driver = NULL;
	if (!call->done) {
		(void)end(call, err);
		return;
	}
	call->answer.object = NULL;
	call->session = NULL;
	if (!call->left_ns)
		return;
	/* in place of a page */
	call->left_ns = 0;
	call->answer.n_stats = 0;
	call->answer.status = err;
	err_keep(&call->failed, err);
}

const struct session_observer call_observer = {
	.work = calls_work,
	.due = calls_due,
};

void calls_end(struct rmem *session)
{
	struct call *call;

	(void)pthread_mutex_lock(&session->lock);
	while ((call = list_first(&session->calls, struct call, session_node))) {
		list_remove(&call->session_node);
		closed(call);
	}
	(void)pthread_mutex_unlock(&session->lock);
}

/* ---- waiting ---- */

/* The program wants the call to end, which may have ended meanwhile. */
static void interrupt(struct call *call, int err)
{
	if (!call->done) {
		(void)end(call, err);
		return;
	}
	if (!call->answer.object)
		return;
	call->kind->undo(call);
	call->answer.object = NULL;
	err_keep(&call->failed, err);
}

/* Wait for the end, unless the session is lost first, or *cancelled becomes true.  A call of the
 * library itself, which has no number, is not interrupted. */
static void await(struct call *call, const atomic_bool *cancelled)
{
	struct rmem *session = call->session;
	uint64_t resumes = session->resumes;
	bool lost = cancelled && atomic_load(cancelled);
	int err = 0;

	while (!call->done && !lost) {
		uint64_t now_ns = clock_now_ns();

		if (now_ns >= call->end_ns) {
			due(call, now_ns);
			return;
		}
		if (call->answer.call)
			err = session_step_asking(session, call->end_ns);
		else
			session_step(session, call->end_ns);
		if (err) {
			interrupt(call, err);
			return;
		}
		lost = cancelled &&
		       (session->state != SESSION_UP || session->resumes != resumes ||
			atomic_load(cancelled));
	}
	if (!call->done)
		(void)end(call, err_set(-ECONNRESET, "the session was lost meanwhile"));
}

int call_run(struct call *call, const atomic_bool *cancelled)
{
	struct rmem *session = call->session;
	int before, fd;

	if (call->refused.err)
		return err_kept_restore(&call->refused);
	call->waited = true;
	call->done = false;
	before = cancel_disable();
	(void)pthread_mutex_lock(&session->lock);
	/* the reply may come at once */
	fd = session->served ? connection_take_over(session->connection) : -1;
	call_begin(call);
	session_receive(session, &call->done, fd, call->end_ns);
	await(call, cancelled);
	list_remove(&call->session_node);
	(void)pthread_mutex_unlock(&session->lock);
	cancel_restore(before);
	return call->failed.err ? err_kept_restore(&call->failed) : call->answer.status;
}

int call_make(call_create *create, const struct rmem_request *request,
	      struct rmem_answer *ret_answer)
{
	struct call *call;
	int result = create(request, &call);

	if (result)
		return result;
	result = call_run(call, NULL);
	if (ret_answer)
		*ret_answer = call->answer;
	call_free(call);
	return err_end(result);
}
