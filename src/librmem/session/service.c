/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/session/service.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "librmem/session/session.h"

#define EVENTS 16
/* How often the thread looks whether descriptors are still its own and the sessions'. */
#define LOOK_MS 1000

struct service {
	pthread_mutex_t admin; /* held to add or remove a session; acquired first */
	pthread_mutex_t lock;  /* held by the service thread while it works */
	struct list sessions;
	/* how often a session was removed, or the set replaced; wraps */
	unsigned n_changes;
	/* sessions with a channel to connect, in order of their turns */
	struct list connects;
	/* session that connects now, without the lock; NULL: none */
	struct rmem *connecting;
	struct rmem *leaving;  /* session that gets no more turns; NULL: none */
	pthread_cond_t wanted; /* signals `connects` or `stop` */
	pthread_cond_t idle;   /* signals `connecting` == NULL */
	bool stop;
	pthread_t thread, connector;
	struct wakeup wake; /* its set has the sessions' */
	uint64_t look_ns;   /* when to look at the descriptors again, see LOOK_MS */
};

#define SERVICE_INIT                                     \
	{                                                \
		.admin = PTHREAD_MUTEX_INITIALIZER,      \
		.lock = PTHREAD_MUTEX_INITIALIZER,       \
		.sessions = LIST_INIT(service.sessions), \
		.connects = LIST_INIT(service.connects), \
		.wanted = PTHREAD_COND_INITIALIZER,      \
		.idle = PTHREAD_COND_INITIALIZER,        \
		.wake = WAKEUP_CLOSED,                   \
	}

static struct service service = SERVICE_INIT;

static bool known(const struct rmem *session)
{
	list_for_each_entry(const struct rmem, at, &service.sessions, service_node)
		if (at == session)
			return true;
	return false;
}

/* Under the service's lock. */
static void connect_later(struct rmem *session)
{
	if (!list_empty(&session->connect_node) || session == service.leaving)
		return;
	list_append(&service.connects, &session->connect_node);
	(void)pthread_cond_signal(&service.wanted);
}

/* `stale`: the event may be of a session that was removed meanwhile, or of a set of the program. */
static void session_serve(struct rmem *session, bool stale)
{
	bool ready;

	if (stale && !known(session))
		return;
	(void)pthread_mutex_lock(&session->lock);
	ready = session_tend(session);
	session_unlock(session);
	if (ready)
		connect_later(session);
}

/* Connect one channel of the next session.  Sessions may be added and removed meanwhile. */
static void connect_one(void)
{
	struct rmem *session = list_first(&service.connects, struct rmem, connect_node);
	bool ready;

	list_remove(&session->connect_node);
	service.connecting = session;
	(void)pthread_mutex_unlock(&service.lock);
	(void)pthread_mutex_lock(&session->lock);
	session_run(session);
	ready = session_tend(session);
	session_unlock(session);
	(void)pthread_mutex_lock(&service.lock);
	service.connecting = NULL;
	if (ready)
		connect_later(session);
	(void)pthread_cond_broadcast(&service.idle);
}

static void *connector_run(void *arg)
{
	(void)arg;
	(void)pthread_mutex_lock(&service.lock);
	while (!service.stop) {
		if (list_empty(&service.connects))
			(void)pthread_cond_wait(&service.wanted, &service.lock);
		else
			connect_one();
	}
	(void)pthread_mutex_unlock(&service.lock);
	return NULL;
}

static int session_watch(struct rmem *session)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = session };
	int set = service.wake.epfd;

	return epoll_ctl(set, EPOLL_CTL_ADD, session->wake.epfd, &event) ? -errno : 0;
}

/* Whether the session's descriptors are its own, and its set is watched now. */
static bool session_is_whole(struct rmem *session)
{
	int err = session_has_fds(session) ? session_watch(session) : -EBADF;

	return !err || err == -EEXIST;
}

static void sessions_look(void)
{
	list_for_each_entry(struct rmem, session, &service.sessions, service_node) {
		(void)pthread_mutex_lock(&session->lock);
		if (session->state != SESSION_LOST && !session_is_whole(session))
			session_robbed(session);
		session_unlock(session);
	}
	service.look_ns = clock_now_ns() + LOOK_MS * NS_PER_MS;
}

/* The program has closed a descriptor of the service: go on with others. */
static void service_rescue(void)
{
	service.n_changes++;
	wakeup_close(&service.wake);
	if (!wakeup_open(&service.wake, 0))
		sessions_look();
}

static void *service_run(void *arg)
{
	struct epoll_event events[EVENTS];
	int epfd = service.wake.epfd;
	bool stop = false, stale;
	unsigned n_changes = 0;

	(void)arg;
	while (!stop) {
		int n = epfd < 0 ? poll(NULL, 0, LOOK_MS)
				 : epoll_wait(epfd, events, EVENTS, LOOK_MS);

		(void)pthread_mutex_lock(&service.lock);
		stop = service.stop;
		if (!stop && !wakeup_clear(&service.wake))
			service_rescue();
		stale = service.n_changes != n_changes;
		for (int i = 0; i < n && !stop; i++)
			session_serve(events[i].data.ptr, stale);
		if (!stop && clock_now_ns() >= service.look_ns)
			sessions_look();
		n_changes = service.n_changes;
		epfd = service.wake.epfd;
		(void)pthread_mutex_unlock(&service.lock);
	}
	return NULL;
}

static void thread_end(pthread_t thread)
{
	(void)pthread_mutex_lock(&service.lock);
	service.stop = true;
	(void)wakeup_set(&service.wake);
	(void)pthread_cond_broadcast(&service.wanted);
	(void)pthread_mutex_unlock(&service.lock);
	(void)pthread_join(thread, NULL);
}

static int service_start(void)
{
	int err;

	service.stop = false;
	err = wakeup_open(&service.wake, 0);
	if (err)
		return err_errno(err, "the service thread's descriptors");
	/* thread_start() blocks signals, which are the program's */
	err = thread_start("rmem-service", service_run, NULL, &service.thread);
	if (err)
		goto err_close;
	err = thread_start("rmem-connect", connector_run, NULL, &service.connector);
	if (err)
		goto err_thread;
	return 0;

err_thread:
	thread_end(service.thread);
err_close:
	wakeup_close(&service.wake);
	return err;
}

static void service_stop(void)
{
	thread_end(service.connector);
	thread_end(service.thread);
	wakeup_close(&service.wake);
}

static int service_add(struct rmem *session)
{
	int err = 0;

	(void)pthread_mutex_lock(&service.admin);
	if (list_empty(&service.sessions))
		err = service_start();
	if (err)
		goto out;
	(void)pthread_mutex_lock(&service.lock);
	if (!wakeup_is_own(&service.wake))
		service_rescue();
	err = session_watch(session);
	if (err)
		err = err_errno(err, "the service thread's epoll set");
	else
		list_append(&service.sessions, &session->service_node);
	(void)pthread_mutex_unlock(&service.lock);
	if (list_empty(&service.sessions))
		service_stop();
out:
	(void)pthread_mutex_unlock(&service.admin);
	return err;
}

void service_remove(struct rmem *session)
{
	(void)pthread_mutex_lock(&service.admin);
	(void)pthread_mutex_lock(&service.lock);
	service.leaving = session;
	list_remove(&session->connect_node);
	/* rmem-connect gives up soon, see session_cancel(), but may wait for an answer, which
	 * rmem-service receives */
	while (service.connecting == session)
		(void)pthread_cond_wait(&service.idle, &service.lock);
	service.leaving = NULL;
	if (wakeup_is_own(&session->wake))
		(void)epoll_ctl(service.wake.epfd, EPOLL_CTL_DEL, session->wake.epfd,
				NULL);
	list_remove(&session->service_node);
	service.n_changes++;
	(void)pthread_mutex_unlock(&service.lock);
	if (list_empty(&service.sessions))
		service_stop();
	(void)pthread_mutex_unlock(&service.admin);
}

void service_lock(void)
{
	(void)pthread_mutex_lock(&service.lock);
}

void service_unlock(void)
{
	(void)pthread_mutex_unlock(&service.lock);
}

void service_reset(void)
{
	const struct service none = SERVICE_INIT;

	wakeup_close(&service.wake);
	/* threads of the parent may wait for these objects: do not destroy them */
	service = none;
}

int service_hand_over(struct rmem *session)
{
	int err;

	if (session->no_thread || session->served)
		return 0;
	(void)pthread_mutex_lock(&session->lock);
	/* session_tend() sets the timer that wakes the service thread */
	if (session_tend(session))
		session_wake(session);
	session->served = true;
	session_unlock(session);
	err = service_add(session);
	if (!err)
		return 0;
	(void)pthread_mutex_lock(&session->lock);
	session->served = false;
	(void)pthread_mutex_unlock(&session->lock);
	return err;
}
