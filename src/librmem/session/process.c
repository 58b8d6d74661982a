/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/session/process.h"

#include <pthread.h>

#include "base/err.h"
#include "librmem/session/call_sink.h"
#include "librmem/session/resolve.h"
#include "librmem/session/service.h"
#include "librmem/session/tasks.h"

static struct {
	pthread_mutex_t lock;
	struct list sessions;
	struct list inherited;
	int err; /* of pthread_atfork() */
} process = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.sessions = LIST_INIT(process.sessions),
	.inherited = LIST_INIT(process.inherited),
};

/* Locks are held during the fork, so that the child finds lists that are whole. */
static void before_fork(void)
{
	lookups_before_fork();
	(void)pthread_mutex_lock(&process.lock);
	service_lock();
	list_for_each_entry(struct rmem, session, &process.sessions, process_node)
		(void)pthread_mutex_lock(&session->lock);
	tasks_lock();
	call_sinks_lock();
}

static void sessions_unlock(void)
{
	list_for_each_entry(struct rmem, session, &process.sessions, process_node)
		(void)pthread_mutex_unlock(&session->lock);
}

static void after_fork_in_parent(void)
{
	call_sinks_unlock();
	tasks_unlock();
	sessions_unlock();
	service_unlock();
	(void)pthread_mutex_unlock(&process.lock);
	lookups_after_fork();
}

static void session_inherit(struct rmem *session)
{
	session->inherited = true;
	atomic_store(&session->status, -ESTALE);
	atomic_store(&session->until_ns, 0);
	SESSION_NOTIFY(session, inherited, session);
	dial_free(session->dial);
	session->dial = NULL;
	/* its thread is the parent's, and may have its lock */
	session->lookup = NULL;
	connection_leave(session->connection);
	session_fds_close(session);
}

static void after_fork_in_child(void)
{
	call_sinks_inherit();
	tasks_reset();
	list_for_each_entry(struct rmem, session, &process.sessions, process_node)
		session_inherit(session);
	sessions_unlock();
	list_splice(&process.inherited, &process.sessions);
	service_reset();
	(void)pthread_mutex_unlock(&process.lock);
	lookups_reset();
}

static void handlers_register(void)
{
	process.err =
		-pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void process_hold(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, handlers_register);
	(void)pthread_mutex_lock(&process.lock);
}

void process_release(void)
{
	(void)pthread_mutex_unlock(&process.lock);
}

int process_check(void)
{
	return process.err ? err_errno(process.err, "pthread_atfork") : 0;
}

int process_add(struct rmem *session)
{
	int err = process_check();

	if (err)
		return err;
	list_append(&process.sessions, &session->process_node);
	return 0;
}

void process_remove(struct rmem *session)
{
	list_remove(&session->process_node);
}
