/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "fabric/tcp/conn.h"

#define EVENTS_MAX 16 /* streams served between two looks at the orders */
#define ORDERS_MAX 64 /* carried out before streams are served again */

struct tcp_thread {
	/* loop */
	pthread_t thread;
	struct tcp_order stop;
	/* both */
	struct mailbox orders;
	struct mailbox *news;
	int epoll_fd;
	unsigned number;
	struct tcp_table table;
};

/* Forget a connection whose stream is over and tell the loop. */
static void thread_bury(struct tcp_thread *thread, struct tcp_conn *conn)
{
	list_remove(&conn->in_streams);
	(void)epoll_ctl(thread->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
	/* the peer need not wait until the loop closes the socket */
	(void)shutdown(conn->fd, SHUT_RDWR);
	mailbox_post(thread->news, &conn->news.link);
}

static void thread_bury_errno(struct tcp_thread *thread, struct tcp_conn *conn)
{
	(void)snprintf(conn->why, sizeof(conn->why), "epoll_ctl: %s",
		       strerrordesc_np(errno));
	thread_bury(thread, conn);
}

static void thread_serve(struct tcp_thread *thread, struct tcp_conn *conn)
{
	struct epoll_event event = { .data.ptr = conn };

	if (!tcp_conn_run(conn, &thread->table)) {
		thread_bury(thread, conn);
		return;
	}
	event.events = tcp_conn_interest(conn);
	if (event.events == conn->interest)
		return;
	conn->interest = event.events;
	if (epoll_ctl(thread->epoll_fd, EPOLL_CTL_MOD, conn->fd, &event) != 0)
		thread_bury_errno(thread, conn);
}

static void thread_adopt(struct tcp_thread *thread, struct tcp_conn *conn)
{
	struct epoll_event event = { .events = tcp_conn_interest(conn),
				     .data.ptr = conn };

	conn->interest = event.events;
	list_append(conn->streams, &conn->in_streams);
	if (epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, conn->fd, &event) != 0)
		thread_bury_errno(thread, conn);
}

static void thread_withdraw(struct tcp_thread *thread, struct tcp_seat *seat)
{
	list_for_each_safe(node, seat->streams) {
		struct tcp_conn *conn = container_of(node, struct tcp_conn, in_streams);

		if (!tcp_conn_forget(conn, seat->exposure))
			thread_bury(thread, conn);
	}
	tcp_seat_leave(seat, thread->news);
}

/* Carry out some orders; what is left wakes the thread again.  False: stop. */
static bool thread_obey(struct tcp_thread *thread)
{
	struct list orders;

	list_init(&orders);
	mailbox_take_some(&thread->orders, &orders, ORDERS_MAX);
	list_for_each_safe(node, &orders) {
		struct tcp_order *order = container_of(node, struct tcp_order, link);

		switch (order->kind) {
		case TCP_ORDER_STOP:
			return false;
		case TCP_ORDER_CONN:
			thread_adopt(thread,
				     container_of(order, struct tcp_conn, order));
			break;
		case TCP_ORDER_WITHDRAW:
			thread_withdraw(thread,
					container_of(order, struct tcp_seat, order));
			break;
		}
	}
	return true;
}

static void *thread_main(void *arg)
{
	struct tcp_thread *thread = arg;
	struct epoll_event events[EVENTS_MAX];
	char name[16];
	bool running = true;

	(void)snprintf(name, sizeof(name), "tcp-%u", thread->number);
	(void)pthread_setname_np(pthread_self(), name);
	while (running) {
		int n = epoll_wait(thread->epoll_fd, events, EVENTS_MAX, -1);
		bool orders = false;

		/* orders come last: they may end connections that are still in events */
		for (int i = 0; i < n; i++) {
			if (events[i].data.ptr)
				thread_serve(thread, events[i].data.ptr);
			else
				orders = true;
		}
		if (orders)
			running = thread_obey(thread);
	}
	return NULL;
}

/* Signals are the main thread's. */
static int thread_spawn(struct tcp_thread *thread)
{
	sigset_t all, before;
	int err;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread->thread, NULL, thread_main, thread);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err ? err_errno(-err, "starting a data thread") : 0;
}

int tcp_thread_start(unsigned number, struct mailbox *news,
		     struct tcp_thread **ret_thread)
{
	struct tcp_thread *thread = calloc(1, sizeof(*thread));
	struct epoll_event event = { .events = EPOLLIN };
	int err;

	if (!thread)
		return err_errno(-ENOMEM, "a data thread");
	thread->news = news;
	thread->number = number;
	thread->stop.kind = TCP_ORDER_STOP;
	tcp_table_init(&thread->table);
	err = mailbox_init(&thread->orders);
	if (err)
		goto err_free;
	thread->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (thread->epoll_fd < 0) {
		err = err_errno(-errno, "epoll_create1");
		goto err_mailbox;
	}
	if (epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, mailbox_fd(&thread->orders),
		      &event) != 0) {
		err = err_errno(-errno, "epoll_ctl");
		goto err_epoll;
	}
	err = thread_spawn(thread);
	if (err)
		goto err_epoll;
	*ret_thread = thread;
	return 0;

err_epoll:
	(void)close(thread->epoll_fd);
err_mailbox:
	mailbox_destroy(&thread->orders);
err_free:
	tcp_table_destroy(&thread->table);
	free(thread);
	return err;
}

void tcp_thread_stop(struct tcp_thread *thread)
{
	if (!thread)
		return;
	mailbox_post(&thread->orders, &thread->stop.link);
	(void)pthread_join(thread->thread, NULL);
	(void)close(thread->epoll_fd);
	mailbox_destroy(&thread->orders);
	tcp_table_destroy(&thread->table);
	free(thread);
}

void tcp_thread_order(struct tcp_thread *thread, struct tcp_order *order)
{
	mailbox_post(&thread->orders, &order->link);
}

struct tcp_table *tcp_thread_table(struct tcp_thread *thread)
{
	return &thread->table;
}
