/* SPDX-License-Identifier: BSD-3-Clause */
/* A data thread: an epoll loop over its streams and its commands, and its table of keys.  Streams
 * that are ready get a slice each in turn (see ready.h).  One more thread of that kind has the
 * streams that are in the handshake of TLS, so that its computations keep no data waiting.
 * Commands are carried out in order.  The thread owns a command until it sends the event:
 * conn->event when a stream has ended, mr->event, or part->closed.  Threads: [loop]. */
#ifndef FABRIC_TCP_THREAD_H
#define FABRIC_TCP_THREAD_H

#include "base/mailbox.h"
#include "base/spin.h"
#include "fabric/tcp/mr.h"
#include "fabric/tcp/ready.h"
#include "fabric/tcp/traffic.h"

struct tcp_thread {
	struct mailbox commands; /* tcp_command */
	struct tcp_table table;
	struct tcp_traffic traffic;
	struct tcp_group ready; /* its tenants */
	struct spin spin;
	struct tcp_buffers *spare; /* for the stream that is served; NULL: none yet */
	struct mailbox *loop;      /* for events, borrowed */
	int epoll_fd;
	unsigned n_streams; /* until the loop has removed them; the loop's */
	pthread_t thread;
	struct tcp_command stop;
};

/* -EMFILE, -ENOMEM, -EAGAIN with text. */
int tcp_thread_start(struct tcp_thread *thread, const char *name, struct mailbox *loop);
/* Stop and join the thread.  The caller then owns the remaining streams and commands. */
void tcp_thread_stop(struct tcp_thread *thread);

#endif
