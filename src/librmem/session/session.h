/* SPDX-License-Identifier: BSD-3-Clause */
/* A session with one server: the state that all parts of the library share.
 *
 * One lock guards the session, its control connection and its lists of channels, leases and queues;
 * nothing blocks under the lock.  Queues do their operations without the lock: they read `status`
 * and `until_ns`; a flag in each queue tells that something under the lock has changed.
 *
 * The service thread drives the session; only bytes are received by a thread in a call, for the
 * first 20 ms of its wait.  While the session is being opened, and with RMEM_NO_THREAD, the threads
 * that wait for something drive the session, or the program by rmem_process().  Another thread may
 * connect channels, see service.h.
 *
 * In the child of a fork() a session is `inherited` (process.h).
 *
 * Lock order: service.admin, process.lock, service.lock, sync->turns, session.lock,
 * buffers->lock. */
#ifndef LIBRMEM_SESSION_SESSION_H
#define LIBRMEM_SESSION_SESSION_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

#include <rmem/rmem.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/rare.h"
#include "base/tree.h"
#include "base/wakeup.h"
#include "librmem/session/connection.h"
#include "librmem/session/credentials.h"
#include "librmem/session/dial.h"
#include "librmem/session/endpoint_map.h"
#include "librmem/session/uri.h"
#include "wire/msg.h"

#define SESSION_TEXT_BYTES 256
/* The longest wait between two attempts to reach the server. */
#define SESSION_BACKOFF_MAX_MS 1000u

struct buffer_table;
struct call;
struct fabric_qp_info;
struct addrinfo;
struct channel_table;
struct dial;
struct domain_set;
struct lease_table;
struct lookup;
struct sync;

/* clang-format off */
#define SESSION_STATES(S)                                                          \
	S(HELLO) /* connecting, or waiting for the welcome */                      \
	S(REKEY) /* the leases are being attached again, the lease clock starts */ \
	S(UP)                                                                      \
	S(WAIT)  /* lost; the next attempt to resume is due at retry_ns */         \
	S(LOST)  /* for good */
#define SESSION_STEPS(S) S(OPEN) S(WELCOME) S(KEYED) S(FAIL) S(RETRY) S(REFUSE) S(EXPIRE) S(ROB)
/* State, step, next state, and what follows: all that there are. */
#define SESSION_MOVES(M)                                                                       \
	M(HELLO, OPEN, UP)       /* the first welcome: calls are sent, the lease clock runs */ \
	M(HELLO, WELCOME, REKEY) /* calls are sent, every lease is attached again */           \
	M(REKEY, KEYED, UP)      /* operations go on, channels are asked for */                \
	M(HELLO, FAIL, WAIT)     /* the next attempt, after a back-off with jitter */          \
	M(REKEY, FAIL, WAIT)     /* likewise; calls wait */                                    \
	M(UP, FAIL, WAIT)        /* likewise; nothing is posted, channels are aborted */       \
	M(WAIT, RETRY, HELLO)    /* the server's addresses are tried in turn */                \
	M(HELLO, REFUSE, LOST)   /* operations, calls and leases end */                        \
	M(REKEY, REFUSE, LOST)   /* likewise */                                                \
	M(UP, REFUSE, LOST)      /* likewise */                                                \
	M(WAIT, EXPIRE, LOST)    /* likewise: the grace time is over */                        \
	M(HELLO, ROB, LOST)      /* likewise: the program has closed a descriptor */           \
	M(REKEY, ROB, LOST)      /* likewise */                                                \
	M(UP, ROB, LOST)         /* likewise */                                                \
	M(WAIT, ROB, LOST)       /* likewise */
/* clang-format on */

#define SESSION_STATE_ENUM(state) SESSION_##state,
enum session_state { SESSION_STATES(SESSION_STATE_ENUM) };
#define SESSION_STEP_ENUM(step) SESSION_STEP_##step,
enum session_step { SESSION_STEPS(SESSION_STEP_ENUM) };

/* A layer above the session: channels, leases, queues.  Each hook may be NULL, and is called under
 * the lock. */
struct session_observer {
	/* session->state has changed. */
	void (*state)(struct rmem *session);
	/* The server has sent an event. */
	void (*event)(struct rmem *session, const struct wire_msg *msg);
	/* Do the due work without blocking; the time of the next due work, UINT64_MAX: none without
	 * an event. */
	void (*work)(struct rmem *session, uint64_t now_ns);
	uint64_t (*due)(const struct rmem *session);
	/* Whether there is work that blocks; do a part of that work, releasing the lock
	 * meanwhile. */
	bool (*ready)(struct rmem *session);
	void (*run)(struct rmem *session);
	/* The session is about to be closed: threads that do such work give up within 100 ms. */
	void (*cancel)(struct rmem *session);
	/* State that queues read without the lock has changed. */
	void (*wake)(struct rmem *session);
	/* The server has granted a channel through the endpoint. */
	void (*endpoint_opened)(struct rmem *session, unsigned endpoint);
	/* In the child of a fork(), which has no other thread: close the layer's descriptors, and
	 * let its calls fail. */
	void (*inherited)(struct rmem *session);
	/* Whether the layer's descriptors are still its own. */
	bool (*has_fds)(const struct rmem *session);
	/* A domain is open again: register local memory in it, -errno: that failed.  A domain is
	 * about to be closed: deregister local memory in it. */
	int (*domain_opened)(struct rmem *session, unsigned number);
	void (*domain_closing)(struct rmem *session, unsigned number);
};

/* The layers of every session, from the lowest up, ended by NULL. */
extern const struct session_observer *const session_layers[];

/* Call a hook of each layer, from the lowest up. */
#define SESSION_NOTIFY(session, hook, ...)                                       \
	do {                                                                     \
		const struct session_observer *const *at = (session)->observers; \
                                                                                 \
		for (; *at; at++)                                                \
			if ((*at)->hook)                                         \
				(*at)->hook(__VA_ARGS__);                        \
	} while (0)

/* "address:port" where the server is, or was. */
struct server_text {
	struct server_text *before;
	char text[DIAL_TEXT_BYTES];
};

struct rmem {
	/* "address:port", of the last of `servers`; read without the lock */
	const char *_Atomic server;

	/* constant once open */
	/* from the lowest layer up, ended by NULL */
	const struct session_observer *const *observers;
	struct uri uri;
	struct credentials credentials;
	bool no_thread, no_resume;
	bool inherited; /* opened by the parent process */
	/* while the session is opened, else NULL */
	rmem_stepped *stepped;
	void *stepped_ctx;
	unsigned timeout_ms;
	char client[WIRE_LABEL_MAX + 1];
	char downgrade[SESSION_TEXT_BYTES]; /* "": none */
	char cause[SESSION_TEXT_BYTES]; /* why the server was lost last, or is still */
	/* the layers' parts of the session */
	struct domain_set *domains;
	struct channel_table *channels;
	struct lease_table *leases;
	struct buffer_table *buffers;
	struct sync *sync;
	/* its set is readable when session_work() has work, and is woken when a queue has some for
	 * the driver */
	struct wakeup wake;
	int timer_fd; /* in the set: expires when work is due */

	/* queues read these two without the lock */
	/* 0; -ECONNRESET: lost, may resume, -ESTALE: lost for good; then `until_ns` is 0 */
	_Atomic int status;
	_Atomic uint64_t until_ns; /* nothing is posted from this time on */

	/* bytes that passed through registered memory of the library */
	_Atomic uint64_t copied_bytes;

	/* rmem_close() was called: a thread that opens a domain again gives up; set under the
	 * lock */
	atomic_bool cancelled;
	/* RMEM_CALL_CLOSE was begun: until its answer is taken other calls find this here */
	atomic_bool closes;

	pthread_mutex_t lock;
	pthread_cond_t changed; /* signals an answer or a new state */
	bool served;            /* the service thread drives the session */
	bool alive_due;         /* a descriptor of a channel is readable */
	bool driving;           /* not served: a waiting thread drives the session */
	unsigned connecting;    /* number of threads that connect a channel */
	bool closing;           /* the server ended the session */
	struct connection *connection;
	struct addrinfo *addresses;   /* of the URI's host; NULL: not resolved yet */
	struct lookup *lookup;        /* of the host, to resume; NULL: none */
	uint64_t lookup_ns;           /* no other one begins before this time */
	struct dial *dial;            /* NULL: nothing is tried */
	struct sockaddr_storage peer; /* where the server is; zero behind the address */
	struct server_text *servers;  /* the newest first */
	enum session_state state;
	bool welcomed;   /* the first welcome was received */
	bool hello_sent; /* the hello was sent, or waits to be, on this connection */
	bool dropped;    /* opening: a server closed the connection without a reply */
	/* the last one; `endpoints` are those of the first, by number, where the server has them
	 * now or had them last */
	struct wire_welcome welcome;
	struct endpoint_map endpoint_map;
	uint64_t timer_ns; /* expiry of timer_fd; UINT64_MAX: disarmed */
	uint64_t look_ns;  /* when to look again whether the descriptors are its own */
	bool robbed;       /* they are not */
	uint64_t alive_ns; /* when the last answered request was sent */
	uint64_t welcomed_ns; /* when the last welcome came */
	uint64_t up_ns;       /* when the session has resumed last; 0: never */
	uint64_t ping_ns;     /* the next heartbeat */
	uint64_t retry_ns;    /* start of the next attempt, or end of this attempt */
	/* lost: the server applies nothing of the channels up to the loss from this time on */
	_Atomic uint64_t fenced_ns;
	struct backoff backoff;
	/* the time of an attempt to resume; 0: none has begun since the session has held */
	unsigned attempt_ms;
	unsigned pings; /* heartbeats not answered yet */
	/* number of leases not attached again yet since the session has resumed, or an endpoint was
	 * opened */
	unsigned rekeys;
	bool sync_due; /* the session's own queue has to handle events */
	uint64_t resumes;
	bool draining;
	char device[WIRE_ENDPOINTS_MAX * (FABRIC_DEVICE_MAX + 1)];
	struct list queues;
	/* calls that have not ended, or whose answer has an object of the session and was not
	 * taken; call.session_node */
	struct list calls;
	struct tree calls_due;   /* call.due_node */
	struct list gather_node; /* requests wait to be sent together */
	unsigned tasks;          /* tasks that use the session; under their lock */

	struct list process_node; /* under the lock of process.c */

	/* under the service's lock */
	struct list service_node;
	struct list connect_node; /* waits for its turn to connect a channel */
};

/* Open the descriptors of the session, and close those that are open and still the session's.
 * -errno with text */
int session_fds_open(struct rmem *session);
void session_fds_close(struct rmem *session);

/* A request has failed that was begun when the session had resumed `resumes` times.  True: the
 * session was lost and has resumed meanwhile, before deadline_ns; the loss may be the cause, so the
 * caller may repeat the request.  [any], without the lock. */
bool session_returned(struct rmem *session, unsigned resumes, uint64_t deadline_ns);

/* Takes the reply of a call, under the lock.  -EPROTO: the reply breaks the protocol. */
typedef int session_take(void *ctx, const struct wire_msg *reply);

/* ---- own_calls.c ---- */

/* Make a request of the library itself, and wait for its answer until end_ns; `take` (may be NULL)
 * gets the reply, and its result is returned.  Unless `cancelled` is NULL, the wait lasts only
 * while the session is not lost and *cancelled is false; a thread that sets it also signals
 * `changed`.  [any], without the lock.
 *   -ETIMEDOUT (the request may take effect), -ESTALE, -ENOMEM, or the server's error
 *   -ECONNRESET  the session is lost, or *cancelled is true; or it is a bye */
int session_call_until(struct rmem *session, const struct wire_msg *request,
		       session_take *take, void *ctx, uint64_t end_ns,
		       const atomic_bool *cancelled);

/* Receive a reply in this thread, which saves a switch between threads, until *done, or 20 ms are
 * over.  `fd` is of connection_take_over().  The service thread drives the session all the same.
 * Under the lock, which is released meanwhile. */
void session_receive(struct rmem *session, const bool *done, int fd, uint64_t end_ns);

/* RMEM_CALL_PING: call_create of call.h. */
int session_ping_create(const struct rmem_request *request, struct call **ret_call);

/* Before the session is closed: threads that do work that blocks give up within 100 ms. */
void session_cancel(struct rmem *session);
/* Tell the server that the session ends; wait for the reply, at most until end_ns. */
void session_call_bye(struct rmem *session, uint64_t end_ns);

/* Wait while waits(arg), at most until end_ns.  False: it does so still.  Under the lock, which is
 * released meanwhile. */
bool session_await(struct rmem *session, uint64_t end_ns,
		   bool (*waits)(const void *arg), const void *arg);

/* Wait until something has changed, at most until deadline_ns.  Meanwhile the service thread drives
 * the session, or, if the session is not served, one of the waiting threads.  Under the lock, which
 * is released meanwhile. */
void session_step(struct rmem *session, uint64_t deadline_ns);
/* session_step() of a call of the program; session_interrupted() afterwards. */
int session_step_asking(struct rmem *session, uint64_t deadline_ns);

/* Bytes were copied as the program's memory is not registered.  [any] */
static inline void session_copied(struct rmem *session, uint64_t bytes)
{
	(void)atomic_fetch_add_explicit(&session->copied_bytes, bytes,
					memory_order_relaxed);
}

/* A step of rmem_open() is done. */
static inline void session_stepped(const struct rmem *session, enum rmem_step step)
{
	if (session->stepped)
		session->stepped(session->stepped_ctx, step);
}

/* The error of a call on an inherited session.  [any] */
RARE int session_inherited_error(void);
/* 0; -ESTALE: the session is inherited.  Before a call touches anything of the session.  [any] */
static inline int session_own(const struct rmem *session)
{
	return session->inherited ? session_inherited_error() : 0;
}

/* session_usable() when its result is not 0.  [any] */
RARE int session_refusal(const struct rmem *session);
/* 0, or why nothing may be posted now: -ECONNRESET, -ESTALE.  [any] */
static inline int session_usable(const struct rmem *session, uint64_t now_ns)
{
	return now_ns < atomic_load_explicit(&session->until_ns, memory_order_acquire)
		       ? 0
		       : session_refusal(session);
}

/* Do all due work without waiting for the network.  True: there is work that blocks, for
 * session_run().  Under the lock, for session_unlock(). */
bool session_tend(struct rmem *session);
/* Unlock after session_tend(), then wake the threads that wait for a change.  A thread that is
 * woken before has to sleep once more, until the lock is free. */
void session_unlock(struct rmem *session);
/* Do a part of the work that blocks, such as connecting a channel.  Under the lock, which is
 * released meanwhile. */
void session_run(struct rmem *session);
/* session_tend() and session_run(); without the service thread the blocking part takes no longer
 * than the next heartbeat may wait. */
void session_work(struct rmem *session);

/* Without the service thread: do overdue work, as the program may only ever make calls that do not
 * wait.  [any], without the lock. */
void session_nudge_now(struct rmem *session);
static inline void session_nudge(struct rmem *session)
{
	if (session->no_thread)
		session_nudge_now(session);
}

/* The epoll tag of the channels' alive_fd. */
#define SESSION_ALIVE_TAG UINT64_C(1)
/* Make the thread that drives the session do its work soon.  [any] */
void session_wake(struct rmem *session);
/* Whether the session's descriptors are still those that it has opened: a program may close those
 * that it does not know, and open others, which are not the session's to use.  Under the lock. */
bool session_has_fds(const struct rmem *session);
/* They are not: the session is lost.  Under the lock. */
void session_robbed(struct rmem *session);

/* The milliseconds until end_ns, at least 1.  [any] */
static inline unsigned session_left_ms(uint64_t end_ns)
{
	uint64_t now = clock_now_ns();

	return now < end_ns ? (unsigned)((end_ns - now + NS_PER_MS - 1) / NS_PER_MS)
			    : 1;
}

/* The calling thread's own time-out; 0: the session's.  This model of thread-local storage costs
 * one load, and takes a few bytes of those that the C library reserves for libraries that are
 * loaded late. */
extern _Thread_local unsigned session_thread_timeout_ms
	__attribute__((tls_model("initial-exec")));

/* The hook of the calling thread. */
struct thread_interrupt {
	int (*interrupted)(void *ctx); /* NULL: none */
	void *ctx;
	uint64_t ask_ns; /* when to ask it next */
};
extern _Thread_local struct thread_interrupt session_thread_interrupt
	__attribute__((tls_model("initial-exec")));

/* A signal may come before the wait that it is to end, and does not end that for a condition: the
 * hook is asked this often. */
#define SESSION_ASK_MS UINT64_C(100)

/* Until when to sleep in a wait until until_ns; then comes session_interrupted(). */
static inline uint64_t session_sleep_ns(uint64_t until_ns, uint64_t now_ns)
{
	uint64_t ask_ns = now_ns + SESSION_ASK_MS * NS_PER_MS;

	return session_thread_interrupt.interrupted && ask_ns < until_ns ? ask_ns
									 : until_ns;
}
/* session_interrupted() with a hook. */
RARE int session_ask(bool at_once);
/* 0; -EINTR with text: the calling thread is to wait no longer.  Without any lock.
 *   at_once  a signal has come */
static inline int session_interrupted(bool at_once)
{
	return session_thread_interrupt.interrupted ? session_ask(at_once) : 0;
}

/* The time-out of calls of this thread.  [any] */
static inline unsigned session_timeout_ms(const struct rmem *session)
{
	return session_thread_timeout_ms ? session_thread_timeout_ms
					 : session->timeout_ms;
}

/* When a call that begins now times out.  [any] */
static inline uint64_t session_end_ns(const struct rmem *session)
{
	return clock_now_ns() + session_timeout_ms(session) * NS_PER_MS;
}

/* ---- session_state.c ---- */

/* For the control connection; ctx is the session. */
extern const struct connection_events session_connection_events;

/* Stop connecting, and free what was known of the server's addresses. */
void session_addresses_free(struct rmem *session);
/* Resolve, connect, send the hello and wait for the welcome.  No other thread has the session
 * yet. */
int session_connect(struct rmem *session);
/* The server answers heartbeats, but not this request, which it must answer: give the connection
 * up, as if the server were silent.  Under the lock, not from a callback of the connection. */
void session_distrust(struct rmem *session, enum wire_type unanswered);
/* Receive and send, and do the due work.  Under the lock. */
void session_state_work(struct rmem *session, uint64_t now_ns);
/* The time of the next due work of session_state_work().  Under the lock. */
uint64_t session_state_due(const struct rmem *session);

#endif
