/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/service.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/list.h"
#include "base/thread.h"
#include "librmem/session.h"

#define EVENTS 16

static struct service {
	pthread_mutex_t admin; /* one adds or removes at a time; taken first */
	pthread_mutex_t lock;  /* held by the thread while it works */
	struct list sessions;
	unsigned n;
	bool stop;
	pthread_t thread;
	int epfd;
	int wake_fd;
} service = {
	.admin = PTHREAD_MUTEX_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.sessions = LIST_INIT(service.sessions),
};

/* An event may be older than the session's removal. */
static bool known(const struct rmem *session)
{
	list_for_each(node, &service.sessions)
		if (container_of(node, struct rmem, service_node) == session)
			return true;
	return false;
}

static void session_serve(struct rmem *session)
{
	if (!known(session))
		return;
	(void)pthread_mutex_lock(&session->lock);
	session_work(session);
	(void)pthread_mutex_unlock(&session->lock);
}

static void *service_run(void *arg)
{
	struct epoll_event events[EVENTS];
	bool stop = false;

	(void)arg;
	while (!stop) {
		int n = epoll_wait(service.epfd, events, EVENTS, -1);

		(void)pthread_mutex_lock(&service.lock);
		stop = service.stop;
		for (int i = 0; i < n && !stop; i++)
			session_serve(events[i].data.ptr);
		(void)pthread_mutex_unlock(&service.lock);
	}
	return NULL;
}

static int service_start(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	int err;

	service.stop = false;
	service.epfd = epoll_create1(EPOLL_CLOEXEC);
	if (service.epfd < 0)
		return err_errno(-errno, "the service thread's epoll set");
	service.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (service.wake_fd < 0) {
		err = err_errno(-errno, "the service thread's eventfd");
		goto err_epoll;
	}
	if (epoll_ctl(service.epfd, EPOLL_CTL_ADD, service.wake_fd, &event) < 0) {
		err = err_errno(-errno, "the service thread's eventfd");
		goto err_wake;
	}
	/* signals are the program's */
	err = thread_start("rmem-service", service_run, NULL, &service.thread);
	if (err)
		goto err_wake;
	return 0;

err_wake:
	(void)close(service.wake_fd);
err_epoll:
	(void)close(service.epfd);
	return err;
}

static void service_stop(void)
{
	(void)pthread_mutex_lock(&service.lock);
	service.stop = true;
	(void)eventfd_write(service.wake_fd, 1);
	(void)pthread_mutex_unlock(&service.lock);
	(void)pthread_join(service.thread, NULL);
	(void)close(service.wake_fd);
	(void)close(service.epfd);
}

static int session_add(struct rmem *session)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = session };
	int err = 0;

	(void)pthread_mutex_lock(&service.lock);
	if (epoll_ctl(service.epfd, EPOLL_CTL_ADD, session->epfd, &event) < 0) {
		err = err_errno(-errno, "the service thread's epoll set");
	} else {
		list_append(&service.sessions, &session->service_node);
		service.n++;
	}
	(void)pthread_mutex_unlock(&service.lock);
	return err;
}

int service_add(struct rmem *session)
{
	int err = 0;

	(void)pthread_mutex_lock(&service.admin);
	if (service.n == 0)
		err = service_start();
	if (!err) {
		err = session_add(session);
		if (err && service.n == 0)
			service_stop();
	}
	(void)pthread_mutex_unlock(&service.admin);
	return err;
}

void service_remove(struct rmem *session)
{
	(void)pthread_mutex_lock(&service.admin);
	(void)pthread_mutex_lock(&service.lock);
	(void)epoll_ctl(service.epfd, EPOLL_CTL_DEL, session->epfd, NULL);
	list_remove(&session->service_node);
	service.n--;
	(void)pthread_mutex_unlock(&service.lock);
	if (service.n == 0)
		service_stop();
	(void)pthread_mutex_unlock(&service.admin);
}
