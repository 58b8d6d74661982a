/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/slow.h"

#include <rmem/rmem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/params.h"
#include "librmem/open.h"
#include "librmem/session/session.h"
#include "librmem/session/tasks.h"

struct slow;

struct slow_kind {
	struct call_kind call; /* first */
	/* Do it; *ret_object is what it makes, if anything.  [worker] */
	int (*work)(struct slow *slow, void **ret_object);
	void (*undo)(void *object); /* [worker] */
	bool stays;                 /* it is done though nobody waits for it */
	bool holds;                 /* it works on memory of the program */
};

/* The work of a call, which may outlast it.  `call` and `done` are under the lock of tasks. */
struct slow {
	struct task task; /* first */
	const struct slow_kind *kind;
	struct slow_call *call; /* NULL: nobody waits */
	bool done;
	void *object;
	struct rmem *session; /* counts it in session->tasks; NULL: none */
	struct rmem *closes;  /* NULL: none */
	struct rmem *closed;  /* its memory; NULL: it was not closed */
	uint64_t end_ns;
	/* arguments */
	struct opening opening;
	struct rmem_options options;
	char client[WIRE_LABEL_MAX + 2]; /* one that is too long stays so */
	struct rmem_queue_params queue;
	struct rmem_buffer_params buffer;
};

struct slow_call {
	struct call call;  /* first */
	struct slow *slow; /* NULL: it was left */
};

static struct slow_call *slow_of(const struct call *call)
{
	return container_of((struct call *)(uintptr_t)call, struct slow_call, call);
}

/* ---- the task ---- */

static void slow_free(struct slow *slow)
{
	if (slow)
		free(slow->closed);
	free(slow);
}

/* Under the lock of tasks. */
static void uncount(struct rmem *session)
{
	if (session)
		session->tasks--;
	tasks_changed();
}

/* Hand the result to the call.  False: nobody waits for it. */
static bool answer(struct slow *slow, int result)
{
	struct slow_call *call;

	if (slow->session)
		(void)pthread_mutex_lock(&slow->session->lock);
	tasks_lock();
	call = slow->call;
	slow->call = NULL;
	slow->done = true;
	if (call) {
		struct rmem *session = slow->session;

		call->call.answer.object = slow->object;
		/* from here on the call may be freed, and `slow` with it */
		call_end(&call->call, result);
		tasks_unlock();
		if (session)
			(void)pthread_mutex_unlock(&session->lock);
		return true;
	}
	tasks_unlock();
	if (slow->session)
		(void)pthread_mutex_unlock(&slow->session->lock);
	return false;
}

static void slow_run(struct task *task)
{
	struct slow *slow = container_of(task, struct slow, task);
	struct rmem *session = slow->session;
	int result = slow->kind->work(slow, &slow->object);
	bool answered = answer(slow, result);

	if (!answered) {
		if (slow->object)
			slow->kind->undo(slow->object);
		slow_free(slow);
	}
	tasks_lock();
	uncount(session);
	tasks_unlock();
}

static void undo_run(struct task *task)
{
	struct slow *slow = container_of(task, struct slow, task);
	struct rmem *session = slow->session;

	slow->kind->undo(slow->object);
	slow_free(slow);
	tasks_lock();
	uncount(session);
	tasks_unlock();
}

/* Under the lock of tasks. */
static int post(struct slow *slow)
{
	int err = task_post(&slow->task);

	if (!err && slow->session)
		slow->session->tasks++;
	return err;
}

/* ---- the call ---- */

void slow_begin(struct call *call)
{
	struct rmem *session = call->session;
	struct slow *slow = slow_of(call)->slow;
	int err;

	/* the owner does not meet the task at them */
	if (slow->closes)
		calls_end(slow->closes);
	if (session) {
		(void)pthread_mutex_lock(&session->lock);
		list_append(&session->calls, &call->session_node);
	}
	tasks_lock();
	err = post(slow);
	slow->done = err != 0;
	tasks_unlock();
	if (err && slow->closes)
		atomic_store(&slow->closes->closes, false);
	if (err)
		call_end(call, err);
	if (session)
		(void)pthread_mutex_unlock(&session->lock);
}

static bool leave(struct slow_call *call, bool forced)
{
	struct slow *slow = call->slow;
	bool left;

	tasks_lock();
	left = slow && !slow->done &&
	       (forced || !slow->kind->holds || !list_empty(&slow->task.link));
	if (left) {
		call->slow = NULL;
		slow->call = NULL;
	}
	if (left && !slow->kind->stays && task_take_back(&slow->task)) {
		uncount(slow->session);
		slow_free(slow);
	}
	tasks_unlock();
	return left;
}

bool slow_leave(struct call *call)
{
	return leave(slow_of(call), false);
}

void slow_await(struct call *call)
{
	const struct slow *slow = slow_of(call)->slow;

	tasks_lock();
	while (slow && !slow->done)
		tasks_wait();
	tasks_unlock();
}

/* The session is closed, if the call has neither been left nor answered by its task. */
static int slow_end(struct call *call, int result)
{
	const struct slow_call *ending = slow_of(call);

	if (ending->slow && !ending->slow->done)
		(void)leave(slow_of(call), true);
	return result;
}

static void slow_undo(struct call *call)
{
	struct slow *slow = slow_of(call)->slow;
	int err;

	slow_of(call)->slow = NULL;
	slow->task.run = undo_run;
	tasks_lock();
	err = post(slow);
	tasks_unlock();
	/* without a thread the object lives until its session is closed */
	if (err)
		slow_free(slow);
}

static void slow_release(struct call *call)
{
	slow_free(slow_of(call)->slow);
}

#define SLOW_CALL(function)              \
	{                                \
		.name = (function),      \
		.end = slow_end,         \
		.undo = slow_undo,       \
		.release = slow_release, \
	}

static struct slow_call *slow_new(const struct slow_kind *kind, struct rmem *session)
{
	struct slow_call *call = calloc(1, sizeof(*call));
	struct slow *slow = calloc(1, sizeof(*slow));

	if (!call || !slow) {
		free(call);
		free(slow);
		(void)err_set(-ENOMEM, "%s: no memory for a call", kind->call.name);
		return NULL;
	}
	call->slow = slow;
	slow->call = call;
	slow->kind = kind;
	slow->session = session;
	slow->task.run = slow_run;
	list_init(&slow->task.link);
	return call;
}

static struct call *slow_init(struct slow_call *call, struct rmem *session,
			      const struct rmem_request *request, int err)
{
	if (err)
		err = err_prefix(err, "%s", call->slow->kind->call.name);
	call_init(&call->call, &call->slow->kind->call, session, request, err);
	call->slow->end_ns = call->call.end_ns;
	return &call->call;
}

/* ---- open ---- */

static int open_work(struct slow *slow, void **ret_object)
{
	rmem *session = NULL;
	int err = opening_run(&slow->opening, &session);

	*ret_object = session;
	return err;
}

static void open_undo(void *object)
{
	rmem_close(object);
}

static const struct slow_kind open_kind = {
	.call = SLOW_CALL("rmem_open"),
	.work = open_work,
	.undo = open_undo,
};

static int open_parse(struct slow *slow, const struct rmem_request *request)
{
	const struct rmem_options *given = request->params;
	struct rmem_options *options = &slow->options;
	int err = 0;

	*options = rmem_options_init();
	if (given)
		err = params_import(options, sizeof(*options), given, given->size,
				    PARAMS_UP_TO(struct rmem_options, psk_ctx),
				    "rmem_options");
	if (err)
		return err;
	if (options->client) {
		(void)strncpy(slow->client, options->client, sizeof(slow->client) - 1);
		options->client = slow->client;
	}
	return opening_init(&slow->opening, request->name, options);
}

int slow_open_create(const struct rmem_request *request, struct call **ret_call)
{
	struct slow_call *call = slow_new(&open_kind, NULL);
	struct rmem_request timed = *request;
	int err;

	if (!call)
		return -ENOMEM;
	err = open_parse(call->slow, request);
	if (!timed.timeout_ms)
		timed.timeout_ms = opening_timeout_ms(&call->slow->options);
	*ret_call = slow_init(call, NULL, &timed, err);
	call->slow->opening.end_ns = call->slow->end_ns;
	return 0;
}

/* ---- close ---- */

static int close_work(struct slow *slow, void **ret_object)
{
	*ret_object = NULL;
	session_shut(slow->closes);
	slow->closed = slow->closes;
	return 0;
}

static const struct slow_kind close_kind = {
	.call = SLOW_CALL("rmem_close"),
	.work = close_work,
	.stays = true, /* and makes nothing that could be undone */
};

int slow_close_create(const struct rmem_request *request, struct call **ret_call)
{
	struct slow_call *call = slow_new(&close_kind, NULL);

	if (!call)
		return -ENOMEM;
	call->slow->closes = request->session;
	*ret_call = slow_init(call, NULL, request, session_own(request->session));
	return 0;
}

/* ---- queue, buffer ---- */

/* What is left of the call's time. */
static void timeout_take(const struct slow *slow)
{
	(void)rmem_thread_timeout(session_left_ms(slow->end_ns));
}

static int queue_work(struct slow *slow, void **ret_object)
{
	rmem_queue *queue = NULL;
	int err;

	timeout_take(slow);
	err = rmem_queue_create(slow->session, &slow->queue, &queue);
	(void)rmem_thread_timeout(0);
	*ret_object = queue;
	return err;
}

static void queue_undo(void *object)
{
	rmem_queue_free(object);
}

static const struct slow_kind queue_kind = {
	.call = SLOW_CALL("rmem_queue_create"),
	.work = queue_work,
	.undo = queue_undo,
};

int slow_queue_create(const struct rmem_request *request, struct call **ret_call)
{
	struct slow_call *call = slow_new(&queue_kind, request->session);
	const struct rmem_queue_params *given = request->params;
	int err = 0;

	if (!call)
		return -ENOMEM;
	call->slow->queue = rmem_queue_params_init();
	if (given)
		err = params_import(&call->slow->queue, sizeof(*given), given,
				    given->size, sizeof(*given), "rmem_queue_params");
	*ret_call = slow_init(call, request->session, request, err);
	return 0;
}

static int buffer_work(struct slow *slow, void **ret_object)
{
	rmem_buffer *buffer = NULL;
	int err = rmem_buffer_create(slow->session, &slow->buffer, &buffer);

	*ret_object = buffer;
	return err;
}

static void buffer_undo(void *object)
{
	(void)rmem_buffer_free(object);
}

static const struct slow_kind buffer_kind = {
	.call = SLOW_CALL("rmem_buffer_create"),
	.work = buffer_work,
	.undo = buffer_undo,
	.holds = true,
};

int slow_buffer_create(const struct rmem_request *request, struct call **ret_call)
{
	struct slow_call *call = slow_new(&buffer_kind, request->session);
	const struct rmem_buffer_params *given = request->params;
	int err;

	if (!call)
		return -ENOMEM;
	call->slow->buffer = rmem_buffer_params_init();
	err = params_import(&call->slow->buffer, sizeof(*given), given, given->size,
			    sizeof(*given), "rmem_buffer_params");
	*ret_call = slow_init(call, request->session, request, err);
	return 0;
}
