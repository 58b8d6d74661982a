/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/thread.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/thread.h"
#include "fabric/tcp/conn.h"

#define EVENTS_MAX 16   /* streams served before commands are checked */
#define COMMANDS_MAX 64 /* carried out before streams are served again */

/* The stream has ended: forget it and send the event. */
static void thread_remove(struct tcp_thread *thread, struct tcp_conn *conn)
{
	list_remove(&conn->in_streams);
	(void)epoll_ctl(thread->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
	/* tell the peer now; the loop closes the socket later */
	(void)shutdown(conn->fd, SHUT_RDWR);
	mailbox_post(thread->loop, &conn->event.link);
}

static void thread_remove_errno(struct tcp_thread *thread, struct tcp_conn *conn)
{
	(void)snprintf(conn->why, sizeof(conn->why), "epoll_ctl: %s",
		       strerrordesc_np(errno));
	thread_remove(thread, conn);
}

/* Before the event of the stream's end, after which it is freed. */
static void thread_report_refused(struct tcp_thread *thread, struct tcp_conn *conn)
{
	unsigned n = conn->refused_now;

	conn->refused_now = 0;
	if (n > 0 && atomic_fetch_add(&conn->refused, n) == 0)
		mailbox_post(thread->loop, &conn->refused_event.link);
}

static void thread_serve(struct tcp_thread *thread, struct tcp_conn *conn)
{
	struct epoll_event event = { .data.ptr = conn };
	bool alive = tcp_conn_run(conn, &thread->table);

	thread_report_refused(thread, conn);
	if (!alive) {
		thread_remove(thread, conn);
		return;
	}
	event.events = tcp_conn_interest(conn);
	if (event.events == conn->interest)
		return;
	conn->interest = event.events;
	if (epoll_ctl(thread->epoll_fd, EPOLL_CTL_MOD, conn->fd, &event) != 0)
		thread_remove_errno(thread, conn);
}

static void thread_add(struct tcp_thread *thread, struct tcp_conn *conn)
{
	struct epoll_event event = { .events = tcp_conn_interest(conn),
				     .data.ptr = conn };

	conn->interest = event.events;
	list_append(conn->streams, &conn->in_streams);
	if (epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, conn->fd, &event) != 0)
		thread_remove_errno(thread, conn);
}

static void thread_dereg_mr(struct tcp_thread *thread, struct tcp_key_entry *entry)
{
	list_for_each_entry_safe(struct tcp_conn, conn, entry->streams, in_streams) {
		if (!tcp_conn_release_mr(conn, entry->mr))
			thread_remove(thread, conn);
	}
	tcp_key_entry_done(entry, thread->loop);
}

/* Carry out some commands; those left wake the thread again.  False: stop. */
static bool thread_run_commands(struct tcp_thread *thread)
{
	struct list commands;

	list_init(&commands);
	mailbox_receive_some(&thread->commands, &commands, COMMANDS_MAX);
	list_for_each_entry_safe(struct tcp_command, command, &commands, link) {
		switch (command->kind) {
		case TCP_COMMAND_STOP:
			return false;
		case TCP_COMMAND_CONN:
			thread_add(thread,
				   container_of(command, struct tcp_conn, command));
			break;
		case TCP_COMMAND_DEREG_MR:
			thread_dereg_mr(
				thread,
				container_of(command, struct tcp_key_entry, command));
			break;
		}
	}
	return true;
}

static void *thread_main(void *arg)
{
	struct tcp_thread *thread = arg;
	struct epoll_event events[EVENTS_MAX];
	bool running = true;

	while (running) {
		int n = epoll_wait(thread->epoll_fd, events, EVENTS_MAX, -1);
		bool commands = false;

		/* commands come last: they may end streams that are still in events */
		for (int i = 0; i < n; i++) {
			if (events[i].data.ptr)
				thread_serve(thread, events[i].data.ptr);
			else
				commands = true;
		}
		if (commands)
			running = thread_run_commands(thread);
	}
	return NULL;
}

int tcp_thread_start(struct tcp_thread *thread, unsigned number, struct mailbox *loop)
{
	struct epoll_event event = { .events = EPOLLIN };
	char name[16];
	int err;

	*thread = (struct tcp_thread){ .loop = loop, .stop.kind = TCP_COMMAND_STOP };
	tcp_table_init(&thread->table);
	err = mailbox_init(&thread->commands);
	if (err)
		goto err_table;
	thread->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (thread->epoll_fd < 0) {
		err = err_errno(-errno, "epoll_create1");
		goto err_mailbox;
	}
	if (epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, mailbox_fd(&thread->commands),
		      &event) != 0) {
		err = err_errno(-errno, "epoll_ctl");
		goto err_epoll;
	}
	(void)snprintf(name, sizeof(name), "tcp-%u", number);
	err = thread_start(name, thread_main, thread, &thread->thread);
	if (err)
		goto err_epoll;
	return 0;

err_epoll:
	(void)close(thread->epoll_fd);
err_mailbox:
	mailbox_destroy(&thread->commands);
err_table:
	tcp_table_destroy(&thread->table);
	return err;
}

void tcp_thread_stop(struct tcp_thread *thread)
{
	mailbox_post(&thread->commands, &thread->stop.link);
	(void)pthread_join(thread->thread, NULL);
	(void)close(thread->epoll_fd);
	mailbox_destroy(&thread->commands);
	tcp_table_destroy(&thread->table);
}
