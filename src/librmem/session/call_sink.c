/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/session/call_sink.h"

#include "base/err.h"
#include "base/own_fd.h"
#include "librmem/session/call.h"

/* Under the lock of process.c. */
static struct list sinks = LIST_INIT(sinks);

int call_sink_open(struct call_sink *sink)
{
	int err = wakeup_open(&sink->wake, 0);

	if (err)
		return err_errno(err, "its descriptors");
	sink->timer_fd = -1;
	(void)pthread_mutex_init(&sink->lock, NULL);
	list_init(&sink->begun);
	list_init(&sink->ended);
	list_append(&sinks, &sink->node);
	return 0;
}

static void fds_close(struct call_sink *sink)
{
	list_remove(&sink->node);
	if (wakeup_is_own(&sink->wake) && sink->timer_fd >= 0)
		fd_watched_close(sink->wake.epfd, sink->timer_fd);
	wakeup_close(&sink->wake);
}

void call_sink_close(struct call_sink *sink)
{
	fds_close(sink);
	(void)pthread_mutex_destroy(&sink->lock);
}

void call_sink_add(struct call_sink *sink, struct call *call)
{
	(void)pthread_mutex_lock(&sink->lock);
	call->sink = sink;
	list_move(&sink->begun, &call->node);
	(void)pthread_mutex_unlock(&sink->lock);
}

void call_sink_put(struct call *call)
{
	struct call_sink *sink = call->sink;

	(void)pthread_mutex_lock(&sink->lock);
	if (!call->answer.object && !call->left_ns)
		call->session = NULL;
	if (list_empty(&sink->ended))
		(void)wakeup_set(&sink->wake);
	list_move(&sink->ended, &call->node);
	(void)pthread_mutex_unlock(&sink->lock);
}

struct call *call_sink_take(struct call_sink *sink)
{
	struct call *call;

	(void)pthread_mutex_lock(&sink->lock);
	call = list_first(&sink->ended, struct call, node);
	if (call)
		list_remove(&call->node);
	if (call && list_empty(&sink->ended))
		(void)wakeup_clear(&sink->wake);
	(void)pthread_mutex_unlock(&sink->lock);
	return call;
}

struct rmem *call_sink_session(struct call_sink *sink, const struct call *call)
{
	struct rmem *session;

	(void)pthread_mutex_lock(&sink->lock);
	session = call->session;
	(void)pthread_mutex_unlock(&sink->lock);
	return session;
}

/* ---- fork ---- */

void call_sinks_lock(void)
{
	list_for_each_entry(struct call_sink, sink, &sinks, node)
		(void)pthread_mutex_lock(&sink->lock);
}

void call_sinks_unlock(void)
{
	list_for_each_entry(struct call_sink, sink, &sinks, node)
		(void)pthread_mutex_unlock(&sink->lock);
}

void call_sinks_inherit(void)
{
	struct call_sink *sink;

	call_sinks_unlock();
	while ((sink = list_first(&sinks, struct call_sink, node))) {
		fds_close(sink);
		sink->inherited = true;
	}
}
