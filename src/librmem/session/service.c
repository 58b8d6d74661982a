/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/session/service.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/err.h"
#include "base/list.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "librmem/session/session.h"

#define EVENTS 16
/* How often the thread looks whether its descriptors are still its own. */
#define LOOK_MS 1000

struct service {
	pthread_mutex_t admin; /* held to add or remove a session; acquired first */
	pthread_mutex_t lock;  /* held by the service thread while it works */
	struct list sessions;
	struct tree by_address;
	unsigned n_removed; /* number of removals ever; wraps */
	/* sessions with a channel to connect, in order of their turns */
	struct list connects;
	/* session that connects now, without the lock; NULL: none */
	struct rmem *connecting;
	struct rmem *leaving;  /* session that gets no more turns; NULL: none */
	pthread_cond_t wanted; /* signals `connects` or `stop` */
	pthread_cond_t idle;   /* signals `connecting` == NULL */
	bool stop;
	pthread_t thread, connector;
	int epfd; /* -1: none */
	struct wakeup wake;
};

#define SERVICE_INIT                                                                   \
	{                                                                              \
		.admin = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER, \
		.sessions = LIST_INIT(service.sessions),                               \
		.connects = LIST_INIT(service.connects),                               \
		.wanted = PTHREAD_COND_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER,  \
		.epfd = -1, .wake = { .fd = -1 },                                      \
	}

static struct service service = SERVICE_INIT;

/* Whether the tag of an event is a session: it may be one that was removed, or a tag of the program. */
static bool known(const struct rmem *session)
{
	struct tree_node *node = tree_above(&service.by_address, (uintptr_t)session, 0);

	return node && container_of(node, struct rmem, in_service) == session;
}

/* Under the service's lock. */
static void connect_later(struct rmem *session)
{
	if (!list_empty(&session->connect_node) || session == service.leaving)
		return;
	list_append(&service.connects, &session->connect_node);
	(void)pthread_cond_signal(&service.wanted);
}

static void session_serve(struct rmem *session)
{
	bool ready;

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

/* Close them, if they are still the service's. */
static void fds_close(void)
{
	if (fd_watched_close(service.epfd, service.wake.fd))
		(void)close(service.epfd);
	service.wake.fd = service.epfd = -1;
}

static int fds_open(void)
{
	int epfd = epoll_create1(EPOLL_CLOEXEC);
	int err = epfd < 0 ? -errno : wakeup_open(&service.wake, epfd, 0);

	if (!err)
		service.epfd = epfd;
	else if (epfd >= 0)
		(void)close(epfd);
	return err;
}

/* Watch the session, if its descriptors are still its own. */
static void session_rescue(struct rmem *session)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = session };

	(void)pthread_mutex_lock(&session->lock);
	if (session->state != SESSION_LOST &&
	    (!session_has_fds(session) ||
	     epoll_ctl(service.epfd, EPOLL_CTL_ADD, session->epfd, &event) < 0))
		session_robbed(session);
	session_unlock(session);
}

/* The program has closed a descriptor of the service: go on with others. */
static void service_rescue(void)
{
	fds_close();
	if (fds_open())
		return;
	list_for_each_entry(struct rmem, session, &service.sessions, service_node)
		session_rescue(session);
}

/* False: an event is none of the service's, so the set is one of the program, which has taken the numbers
 * of the set and of its wake-up alike. */
static bool sessions_serve(const struct epoll_event *events, int n, bool stale)
{
	bool own = true;

	for (int i = 0; i < n; i++) {
		if (known(events[i].data.ptr))
			session_serve(events[i].data.ptr);
		else
			/* or it is of a session that was removed meanwhile */
			own &= stale;
	}
	return own;
}

static void *service_run(void *arg)
{
	struct epoll_event events[EVENTS];
	int epfd = service.epfd;
	bool stop = false, stale;
	unsigned n_removed = 0;

	(void)arg;
	while (!stop) {
		int n = epfd < 0 ? poll(NULL, 0, LOOK_MS)
				 : epoll_wait(epfd, events, EVENTS, LOOK_MS);

		(void)pthread_mutex_lock(&service.lock);
		stop = service.stop;
		stale = service.n_removed != n_removed;
		if (!stop && !wakeup_clear(&service.wake))
			service_rescue();
		/* the events may be of a set of the program */
		if (epfd != service.epfd)
			n = 0;
		epfd = service.epfd;
		if (!stop && !sessions_serve(events, n, stale)) {
			service.epfd = service.wake.fd = -1;
			service_rescue();
			epfd = service.epfd;
		}
		n_removed = service.n_removed;
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
	err = fds_open();
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
	fds_close();
	return err;
}

static void service_stop(void)
{
	thread_end(service.connector);
	thread_end(service.thread);
	fds_close();
}

static void service_enter(struct rmem *session)
{
	list_append(&service.sessions, &session->service_node);
	/* 1: known() looks for the node above (address, 0) */
	tree_insert(&service.by_address, &session->in_service, (uintptr_t)session, 1);
}

static int service_add(struct rmem *session)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = session };
	int err = 0;

	(void)pthread_mutex_lock(&service.admin);
	if (list_empty(&service.sessions))
		err = service_start();
	if (err)
		goto out;
	(void)pthread_mutex_lock(&service.lock);
	if (!fd_is_watched(service.epfd, service.wake.fd))
		service_rescue();
	if (epoll_ctl(service.epfd, EPOLL_CTL_ADD, session->epfd, &event) < 0)
		err = err_errno(-errno, "the service thread's epoll set");
	else
		service_enter(session);
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
	(void)epoll_ctl(service.epfd, EPOLL_CTL_DEL, session->epfd, NULL);
	list_remove(&session->service_node);
	tree_remove(&service.by_address, &session->in_service);
	service.n_removed++;
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

	fds_close();
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
