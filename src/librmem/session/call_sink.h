/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the answers of calls go, and the descriptor that tells of them.  Threads: [any]. */
#ifndef LIBRMEM_SESSION_CALL_SINK_H
#define LIBRMEM_SESSION_CALL_SINK_H

#include <pthread.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/wakeup.h"

struct call;
struct rmem;

struct call_sink {
	pthread_mutex_t lock;     /* acquired after a session's */
	struct list begun, ended; /* call.node */
	struct wakeup wake;       /* set while `ended` has calls */
	int timer_fd;             /* in the wake-up's set; -1: none */
	bool inherited;           /* of the parent process */
	struct list node;         /* of all sinks */
};

/* Between process_hold() and process_release(), as is the next.  -EMFILE, -ENOMEM, with text */
int call_sink_open(struct call_sink *sink);
void call_sink_close(struct call_sink *sink);
/* The answer is to come here. */
void call_sink_add(struct call_sink *sink, struct call *call);
/* The call has ended. */
void call_sink_put(struct call *call);
/* The next call that has ended, in no list of the sink any more; or NULL. */
struct call *call_sink_take(struct call_sink *sink);
/* The session of a call, which may be closed meanwhile; or NULL. */
struct rmem *call_sink_session(struct call_sink *sink, const struct call *call);

/* Around a fork(), after process_hold(): lock and unlock all; in the child close their
 * descriptors. */
void call_sinks_lock(void);
void call_sinks_unlock(void);
void call_sinks_inherit(void);

#endif
