/* SPDX-License-Identifier: BSD-3-Clause */
/* A session with one server: what all parts of the library share about it.
 *
 * One lock guards the session, its control connection and the lists of what belongs to
 * it; nothing blocks under it.  Queues do their operations without it: they read `status`
 * and `until_ns`, and are told by a flag of their own when there is news under the lock.
 *
 * The service thread drives the session.  Before it has the session, while that is being
 * opened, and with RMEM_NO_THREAD the threads that wait for something drive it, or the program
 * by rmem_process().  Another thread may connect its channels, see service.h.
 *
 * Nothing here survives a fork: the child shares the sockets but has no service threads.
 *
 * Lock order: service, session.setup, sync, session.lock. */
#ifndef LIBRMEM_SESSION_SESSION_H
#define LIBRMEM_SESSION_SESSION_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

#include <rmem/rmem.h>

#include "base/backoff.h"
#include "base/list.h"
#include "base/map.h"
#include "base/notices.h"
#include "base/rare.h"
#include "librmem/session/connection.h"
#include "librmem/channel/domain.h"
#include "librmem/session/uri.h"
#include "wire/msg.h"

#define SESSION_TEXT_BYTES 256
/* The longest wait before the next attempt to reach the server again. */
#define SESSION_BACKOFF_MAX_MS 1000u

struct rmem_queue;

enum session_state {
	SESSION_HELLO, /* connecting, or waiting for the welcome */
	SESSION_REKEY, /* resumed; the leases get their keys anew */
	SESSION_UP,
	SESSION_WAIT, /* lost; the next attempt is due at retry_ns */
	SESSION_LOST, /* for good */
};

/* A layer above the session: channels, leases, queues.  Each hook may be NULL; all are called
 * under the lock. */
struct session_observer {
	/* session->state has changed. */
	void (*state)(struct rmem *session);
	/* Do what is due, without blocking; when that is next, UINT64_MAX: by what happens. */
	void (*work)(struct rmem *session, uint64_t now_ns);
	uint64_t (*due)(const struct rmem *session);
	/* Whether there is work that blocks; do a piece of it, without the lock meanwhile. */
	bool (*ready)(struct rmem *session);
	void (*run)(struct rmem *session);
	/* What queues look at without the lock has changed. */
	void (*wake)(struct rmem *session);
	/* The server has granted a channel through the endpoint. */
	void (*endpoint_opened)(struct rmem *session, unsigned endpoint);
	/* Local memory is to be registered in a domain that is open again, -errno: it cannot be,
	 * or is to go from one that is closed. */
	int (*domain_opened)(struct rmem *session, unsigned number);
	void (*domain_closing)(struct rmem *session, unsigned number);
};

/* Call a hook of each layer, from the lowest one up. */
#define SESSION_NOTIFY(session, hook, ...)                                       \
	do {                                                                     \
		const struct session_observer *const *at = (session)->observers; \
                                                                                 \
		for (; *at; at++)                                                \
			if ((*at)->hook)                                         \
				(*at)->hook(__VA_ARGS__);                        \
	} while (0)

struct rmem {
	/* constant once open */
	/* the layers, from the lowest one up; NULL: the end */
	const struct session_observer *const *observers;
	struct uri uri;
	bool no_thread;
	unsigned timeout_ms;
	char client[WIRE_LABEL_MAX + 1];
	char server[96]; /* address:port */
	struct sockaddr_storage peer;
	socklen_t peer_bytes;
	char downgrade[SESSION_TEXT_BYTES]; /* "": none */
	struct domain_set domains;
	int epfd;                        /* readable when session_work() has work */
	int timer_fd;                    /* in it: when something is due */
	int wake_fd;                     /* in it: a queue wants something */
	struct rmem_queue *sync_queue;   /* used under sync_lock */
	struct rmem_buffer *sync_buffer; /* of unregistered memory; NULL: not yet */
	pthread_mutex_t sync_lock;

	/* what queues read without the lock */
	/* 0, -ECONNRESET: lost, may resume, -ESTALE: gone; then `until_ns` is 0, too */
	_Atomic int status;
	_Atomic uint64_t until_ns; /* nothing is posted from then on; 0: at all */

	pthread_mutex_t lock;
	pthread_cond_t changed; /* an answer came, a state changed */
	bool served;            /* by the service thread */
	bool stirred;           /* a descriptor of a channel is readable */
	bool driving;           /* not served: a thread that waits drives it */
	unsigned connecting;    /* threads that connect a channel */
	bool closing;           /* the server ended it */
	struct connection *connection;
	enum session_state state;
	bool welcomed; /* the first welcome came */
	bool greeted;  /* the hello is sent, on this connection */
	bool dropped;  /* opening: a server ended the connection, and said nothing */
	uint64_t greet_ns; /* opening: the welcome is waited for until then */
	struct wire_welcome welcome;
	uint64_t timer_ns; /* what timer_fd is set to; UINT64_MAX: it is not */
	uint64_t alive_ns; /* sending of the last request that was answered */
	uint64_t ping_ns;  /* the next heartbeat */
	uint64_t retry_ns; /* the next attempt, or the end of this one */
	struct backoff backoff;
	unsigned pings;           /* not answered yet */
	unsigned rekeys;          /* leases that are to be attached anew */
	unsigned rekeys_sent;     /* of them, those the server has been asked for */
	struct list rekeys_ahead; /* the others; rmem_lease.rekey_node */
	unsigned holds;  /* calls that register local memory, or give it back */
	bool sync_tidy;  /* see that sync_queue takes part in what domains do */
	unsigned opened; /* endpoints with a channel in this incarnation, a bit each */
	uint64_t resumes;
	bool draining;
	char device[WIRE_ENDPOINTS_MAX * (FABRIC_DEVICE_MAX + 1)];
	struct list channels, leases, queues, buffers;
	struct list inflights; /* of all queues, those that are being connected, too */
	struct map leases_by_id;
	atomic_bool leases_due; /* leases_work() has something to do; [any] */
	struct notices notices; /* open once a lease was watched */
	int notice_fd;          /* readable while there are any; -1: not asked for */

	/* the service's */
	struct list service_node;
	struct list connect_node; /* waits for its turn to connect */
};

/* Something has failed that was begun when the session had resumed `resumes` times.  True: the
 * server was lost meanwhile, perhaps that is why, and it is back by that time: what it has
 * forgotten may be asked for anew.  [any], without the lock. */
bool session_returned(struct rmem *session, unsigned resumes, uint64_t deadline_ns);

/* Make a request and wait for its answer, at most the session's time-out; `take` (may be
 * NULL) is called with the reply under the lock and its result returned.  [any], without
 * the lock.
 *   -ETIMEDOUT (it may take effect), -ESTALE, -ENOMEM, or the server's error; a bye
 *   alone: -ECONNRESET */
int session_call(struct rmem *session, const struct wire_msg *request,
		 connection_done *take, void *ctx);

/* The same; `undo`, with the session as its ctx, gives back what a reply brings that comes too
 * late, or that `take` refuses. */
int session_call_undo(struct rmem *session, const struct wire_msg *request,
		      connection_done *take, connection_done *undo, void *ctx);

/* As session_call(), until end_ns, and only while the session is not lost.
 *   -ECONNRESET  it is */
int session_call_while_up(struct rmem *session, const struct wire_msg *request,
			  connection_done *take, void *ctx, uint64_t end_ns);

/* Wait until something has changed, at most until then: the service thread drives the session
 * meanwhile, or, where it does not have the session, one of the threads that wait.  Under the
 * lock, which is released meanwhile. */
void session_step(struct rmem *session, uint64_t deadline_ns);

/* Forget a call that may still be answered; `undo` (NULL: nothing) is called with the answer
 * then, with the session as its ctx.  Under the lock. */
void session_abandon(struct rmem *session, struct connection_call *call,
		     connection_done *undo);

/* Send a request without waiting for its answer.  Under the lock. */
void session_tell(struct rmem *session, const struct wire_msg *request);

/* As session_usable(), where that is not 0.  [any] */
RARE int session_refusal(const struct rmem *session);
/* 0, or why nothing may be posted now: -ECONNRESET, -ESTALE.  [any] */
static inline int session_usable(const struct rmem *session, uint64_t now_ns)
{
	return now_ns < atomic_load_explicit(&session->until_ns, memory_order_acquire)
		       ? 0
		       : session_refusal(session);
}

/* Do all due work without waiting for the network.  True: there is work that blocks, for
 * session_run().  Under the lock. */
bool session_tend(struct rmem *session);
/* Do a piece of the work that blocks, such as connecting a channel.  Under the lock, which is
 * released meanwhile. */
void session_run(struct rmem *session);
/* Both; without the service thread the piece takes no longer than the next heartbeat may wait. */
void session_work(struct rmem *session);

/* Without the service thread: do what is overdue, as calls that do not wait might be all
 * that the program ever does.  [any], without the lock. */
void session_nudge(struct rmem *session);

/* The epoll tag of wake_fd. */
#define SESSION_WAKE_TAG UINT64_C(2)
/* That of the descriptors that tell whether the peers of channels are there. */
#define SESSION_ALIVE_TAG UINT64_C(1)
/* Make the thread that drives the session do its work soon.  [any] */
void session_wake(struct rmem *session);

#endif
