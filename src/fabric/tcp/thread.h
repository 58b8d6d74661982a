/* SPDX-License-Identifier: BSD-3-Clause */
/* A data thread: an epoll loop over its streams and its commands, and its own table of the
 * memory that may be touched.
 * Threads: [loop]. */
#ifndef FABRIC_TCP_THREAD_H
#define FABRIC_TCP_THREAD_H

#include "base/mailbox.h"
#include "fabric/tcp/mr.h"

struct tcp_thread;

/* Start one; news of its connections and mrs go to `news`, borrowed.
 * -EMFILE, -ENOMEM, -EAGAIN with text. */
int tcp_thread_start(unsigned number, struct mailbox *loop,
		     struct tcp_thread **ret_thread);
/* Wait for its end and free it.  Orders not carried out and connections it had are the
 * caller's. */
void tcp_thread_stop(struct tcp_thread *thread);

/* Orders are carried out one after the other.  The order stays the thread's until its
 * news: TCP_EVENT_CONN when a connection is over, or TCP_EVENT_MR. */
void tcp_thread_command(struct tcp_thread *thread, struct tcp_command *command);

/* What the thread may touch. */
struct tcp_table *tcp_thread_table(struct tcp_thread *thread);

#endif
