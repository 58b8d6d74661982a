/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/thread.h"
#include "fabric/tcp/conn.h"

#define EVENTS_MAX 64   /* received by one system call */
#define COMMANDS_MAX 64 /* carried out before streams are served again */
/* Streams are served for so long before events are received again: another one's turn may come
 * first. */
#define TURN_NS 50000
/* Most that a slice counts for: what it takes longer, the thread was stopped. */
#define SLICE_NS_MAX 1000000

/* The stream has ended: forget it and send the event. */
static void thread_remove(struct tcp_thread *thread, struct tcp_conn *conn)
{
	list_remove(&conn->in_streams);
	tcp_group_remove(&conn->part->ready, &conn->in_ready);
	(void)epoll_ctl(thread->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
	/* tell the peer now; the loop closes the socket later */
	(void)shutdown(conn->fd, SHUT_RDWR);
	mailbox_post(thread->loop, &conn->event.link);
}

/* Before the event of the stream's end, after which it is freed. */
static void thread_report_refused(struct tcp_thread *thread, struct tcp_conn *conn)
{
	unsigned n = conn->refused_now;

	conn->refused_now = 0;
	if (n > 0 && atomic_fetch_add(&conn->refused, n) == 0)
		mailbox_post(thread->loop, &conn->refused_event.link);
}

/* The handshake of TLS is done: give the stream to its data thread.  The event of its end comes
 * from there, after the other one. */
static void thread_hand_over(struct tcp_thread *thread, struct tcp_conn *conn)
{
	list_remove(&conn->in_streams);
	(void)epoll_ctl(thread->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
	conn->part = conn->home;
	mailbox_post(thread->loop, &conn->up_event.link);
	mailbox_post(conn->home_commands, &conn->command.link);
}

/* Do a slice of work, which began at *now_ns. */
static void thread_serve(struct tcp_thread *thread, struct tcp_conn *conn,
			 uint64_t *now_ns)
{
	uint64_t begin_ns = *now_ns, used_ns;
	enum tcp_run result = tcp_conn_run(conn, &thread->spare);

	*now_ns = clock_now_ns();
	used_ns = *now_ns - begin_ns;
	tcp_group_charge(&conn->part->ready,
			 used_ns < SLICE_NS_MAX ? used_ns : SLICE_NS_MAX);
	thread_report_refused(thread, conn);
	if (result == TCP_RUN_OVER)
		thread_remove(thread, conn);
	else if (result == TCP_RUN_READY)
		tcp_group_add(&conn->part->ready, &conn->in_ready);
	else if (result == TCP_RUN_UP)
		thread_hand_over(thread, conn);
}

static void thread_serve_ready(struct tcp_thread *thread)
{
	uint64_t now_ns = clock_now_ns(), end_ns = now_ns + TURN_NS;
	struct list *next;

	while (now_ns < end_ns && (next = tcp_group_take(&thread->ready)))
		thread_serve(thread, container_of(next, struct tcp_conn, in_ready),
			     &now_ns);
}

static void thread_add(struct tcp_thread *thread, struct tcp_conn *conn)
{
	/* Edges: a stream stays ready until its socket has refused to go on.  The first one comes
	 * at once, as the socket can send, and ends a stream whose session was closed
	 * meanwhile. */
	struct epoll_event event = {
		.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | (uint32_t)EPOLLET,
		.data.ptr = conn,
	};

	list_append(&conn->part->streams, &conn->in_streams);
	if (epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, conn->fd, &event) != 0) {
		(void)snprintf(conn->why, sizeof(conn->why), "epoll_ctl: %s",
			       strerrordesc_np(errno));
		thread_remove(thread, conn);
	}
}

static void thread_dereg_mr(struct tcp_thread *thread, struct tcp_key_entry *entry)
{
	list_for_each_entry_safe(struct tcp_conn, conn, entry->streams, in_streams) {
		if (!tcp_conn_release_mr(conn, entry->mr))
			thread_remove(thread, conn);
	}
	tcp_key_entry_done(entry, thread->loop);
}

/* The session was closed: each stream gets a slice, which finds that out. */
static void thread_close(struct tcp_thread *thread, struct tcp_part *part)
{
	list_for_each_entry(struct tcp_conn, conn, &part->streams, in_streams) {
		if (list_empty(&conn->in_ready))
			tcp_group_add(&part->ready, &conn->in_ready);
	}
	mailbox_post(thread->loop, &part->closed.link);
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
		case TCP_COMMAND_CLOSE:
			thread_close(thread,
				     container_of(command, struct tcp_part, command));
			break;
		}
	}
	return true;
}

/* Look for events, and sleep until there are some unless a stream is ready. */
static int thread_events(struct tcp_thread *thread,
			 struct epoll_event events[EVENTS_MAX])
{
	bool ready = !list_empty(&thread->ready.members);
	int n = 0;

	if (!ready && spin_begin(&thread->spin)) {
		do {
			n = epoll_wait(thread->epoll_fd, events, EVENTS_MAX, 0);
		} while (n == 0 && spin_more(&thread->spin));
		spin_end(&thread->spin, n != 0);
	}
	return n ? n : epoll_wait(thread->epoll_fd, events, EVENTS_MAX, ready ? 0 : -1);
}

/* Wait until a stream is ready or a command has come.  True: there are commands. */
static bool thread_wait(struct tcp_thread *thread)
{
	struct epoll_event events[EVENTS_MAX];
	int n = thread_events(thread, events);
	bool commands = false;

	for (int i = 0; i < n; i++) {
		struct tcp_conn *conn = events[i].data.ptr;

		if (!conn) {
			commands = true;
			continue;
		}
		if (events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
			conn->ending = true;
		if (list_empty(&conn->in_ready))
			tcp_group_add(&conn->part->ready, &conn->in_ready);
	}
	return commands;
}

static void *thread_main(void *arg)
{
	struct tcp_thread *thread = arg;

	while (!thread_wait(thread) || thread_run_commands(thread))
		thread_serve_ready(thread);
	return NULL;
}

int tcp_thread_start(struct tcp_thread *thread, const char *name, struct mailbox *loop)
{
	struct epoll_event event = { .events = EPOLLIN };
	int err;

	*thread = (struct tcp_thread){ .loop = loop, .stop.kind = TCP_COMMAND_STOP };
	tcp_table_init(&thread->table);
	tcp_group_init(&thread->ready, NULL, false);
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
	free(thread->spare);
}
