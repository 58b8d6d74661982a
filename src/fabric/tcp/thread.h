/* SPDX-License-Identifier: BSD-3-Clause */
/* A data thread: an epoll loop over its streams and its commands, and its table of keys.
 * Threads: [loop]. */
#ifndef FABRIC_TCP_THREAD_H
#define FABRIC_TCP_THREAD_H

#include "base/mailbox.h"
#include "fabric/tcp/mr.h"

struct tcp_thread;

/* Start a thread.  It sends events of its streams and memory regions to `loop`, borrowed.
 * -EMFILE, -ENOMEM, -EAGAIN with text. */
int tcp_thread_start(unsigned number, struct mailbox *loop,
		     struct tcp_thread **ret_thread);
/* Wait for its end and free it.  The caller owns its streams and the commands left. */
void tcp_thread_stop(struct tcp_thread *thread);

/* Commands are carried out in order.  The thread owns a command until it sends the event:
 * TCP_EVENT_CONN when a stream has ended, or TCP_EVENT_MR. */
void tcp_thread_command(struct tcp_thread *thread, struct tcp_command *command);

struct tcp_table *tcp_thread_table(struct tcp_thread *thread);

#endif
