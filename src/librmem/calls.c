/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that do not wait: an object that begins them, of any sessions, and has their answers. */
#include <rmem/rmem.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/params.h"
#include "librmem/lease/lease.h"
#include "librmem/session/call.h"
#include "librmem/session/call_sink.h"
#include "librmem/session/cancel.h"
#include "librmem/session/process.h"
#include "librmem/session/session.h"
#include "librmem/slow.h"

#define DEPTH_DEFAULT 4096u
/* Limit of answers taken at a time. */
#define TAKE_MAX 256u

_Static_assert(RMEM_CALLS_MAX == CONNECTION_CALLS_MAX, "limits of requests");

/* A session of RMEM_NO_THREAD with requests outstanding, which this object drives. */
struct driven {
	struct list node;
	struct rmem *session; /* under the sink's lock; NULL: it was closed */
	unsigned n;           /* requests */
};

/* What an answer refers to until the next are taken. */
struct taken {
	char *text;
	struct rmem_stat *stats;
};

struct rmem_calls {
	struct call_sink sink; /* first */
	unsigned depth;
	unsigned n; /* requests begun, less answers taken */
	struct list driven;
	struct list slow;  /* call.owner_node of those with a task */
	uint64_t timer_ns; /* when the first of them times out; UINT64_MAX: none does */
	unsigned round;    /* of looking at all requests */
	unsigned n_taken;
	struct taken taken[TAKE_MAX];
};

/* ---- making and freeing ---- */

int rmem_calls_create(const struct rmem_calls_params *params, rmem_calls **ret_calls)
{
	struct rmem_calls_params all = rmem_calls_params_init();
	struct rmem_calls *calls;
	int err = 0;

	if (!ret_calls)
		return err_set(-EINVAL, "rmem_calls_create: ret_calls is NULL");
	if (params)
		err = params_import(&all, sizeof(all), params, params->size,
				    sizeof(all), "rmem_calls_params");
	if (!err && all.depth > RMEM_CALLS_MAX)
		err = err_set(-EINVAL, "depth is %u, more than %d", all.depth,
			      RMEM_CALLS_MAX);
	if (err)
		return err_prefix(err, "rmem_calls_create");
	calls = calloc(1, sizeof(*calls));
	if (!calls)
		return err_set(-ENOMEM, "rmem_calls_create: no memory");
	calls->depth = all.depth ? all.depth : DEPTH_DEFAULT;
	list_init(&calls->driven);
	list_init(&calls->slow);
	calls->timer_ns = UINT64_MAX;
	process_hold();
	err = process_check();
	if (!err)
		err = call_sink_open(&calls->sink);
	process_release();
	if (err) {
		free(calls);
		return err_prefix(err, "rmem_calls_create");
	}
	*ret_calls = calls;
	return err_end(0);
}

static void taken_free(struct rmem_calls *calls)
{
	for (unsigned i = 0; i < calls->n_taken; i++) {
		free(calls->taken[i].text);
		free(calls->taken[i].stats);
	}
	calls->n_taken = 0;
}

/* ---- sessions that are driven here ---- */

static struct driven *driven_find(struct rmem_calls *calls, const struct rmem *session)
{
	list_for_each_entry(struct driven, driven, &calls->driven, node)
		if (driven->session == session)
			return driven;
	return NULL;
}

static int driven_add(struct rmem_calls *calls, struct call *call)
{
	struct rmem *session = call->session;
	struct epoll_event event = { .events = EPOLLIN };
	struct driven *driven;

	if (!session->no_thread)
		return 0;
	driven = driven_find(calls, session);
	if (!driven) {
		driven = calloc(1, sizeof(*driven));
		if (!driven)
			return err_set(-ENOMEM, "no memory for a call");
		if (epoll_ctl(calls->sink.wake.epfd, EPOLL_CTL_ADD, session->wake.epfd,
			      &event)) {
			free(driven);
			return err_errno(-errno, "watching a session");
		}
		driven->session = session;
		list_append(&calls->driven, &driven->node);
	}
	driven->n++;
	call->driver = &driven->session;
	return 0;
}

/* A request was answered. */
static void driven_drop(struct rmem_calls *calls, struct call *call)
{
	struct driven *driven;

	if (!call->driver)
		return;
	driven = container_of(call->driver, struct driven, session);
	call->driver = NULL;
	if (--driven->n > 0)
		return;
	if (driven->session)
		(void)epoll_ctl(calls->sink.wake.epfd, EPOLL_CTL_DEL,
				driven->session->wake.epfd, NULL);
	list_remove(&driven->node);
	free(driven);
}

static void drive(struct rmem_calls *calls)
{
	list_for_each_entry(struct driven, driven, &calls->driven, node) {
		struct rmem *session = driven->session;

		if (!session)
			continue;
		(void)pthread_mutex_lock(&session->lock);
		session_work(session);
		(void)pthread_mutex_unlock(&session->lock);
	}
}

/* ---- beginning ---- */

/* What a request needs; those of NEEDS_TASK are of slow.h. */
enum needs {
	NEEDS_SESSION = 1,
	NEEDS_LEASE = 2,
	NEEDS_NAME = 4,
	NEEDS_TENANT = 8,
	NEEDS_PARAMS = 16,
	NEEDS_TASK = 32,
};

static const struct {
	call_create *create;
	unsigned needs;
} kinds[] = {
	[RMEM_CALL_OPEN] = { slow_open_create, NEEDS_TASK },
	[RMEM_CALL_CLOSE] = { slow_close_create, NEEDS_TASK | NEEDS_SESSION },
	[RMEM_CALL_QUEUE] = { slow_queue_create, NEEDS_TASK | NEEDS_SESSION },
	[RMEM_CALL_BUFFER] = { slow_buffer_create,
			       NEEDS_TASK | NEEDS_SESSION | NEEDS_PARAMS },
	[RMEM_CALL_ALLOC] = { lease_alloc_create, NEEDS_SESSION | NEEDS_PARAMS },
	[RMEM_CALL_ATTACH] = { lease_attach_create, NEEDS_SESSION | NEEDS_NAME },
	[RMEM_CALL_ATTACH_SHARED] = { lease_attach_shared_create,
				      NEEDS_SESSION | NEEDS_NAME | NEEDS_TENANT },
	[RMEM_CALL_DETACH] = { lease_detach_create, NEEDS_LEASE },
	[RMEM_CALL_DESTROY] = { lease_destroy_create, NEEDS_LEASE },
	[RMEM_CALL_RENAME] = { lease_rename_create, NEEDS_LEASE | NEEDS_NAME },
	[RMEM_CALL_SHARE] = { lease_share_create, NEEDS_LEASE | NEEDS_TENANT },
	[RMEM_CALL_UNSHARE] = { lease_unshare_create, NEEDS_LEASE | NEEDS_TENANT },
	[RMEM_CALL_GROW] = { lease_grow_create, NEEDS_LEASE },
	[RMEM_CALL_SHRINK] = { lease_shrink_create, NEEDS_LEASE },
	[RMEM_CALL_RENEW] = { lease_renew_create, NEEDS_LEASE },
	[RMEM_CALL_KEEP] = { lease_keep_create, NEEDS_LEASE },
	[RMEM_CALL_REMOVE] = { lease_remove_create, NEEDS_SESSION | NEEDS_NAME },
	[RMEM_CALL_STAT] = { lease_stat_create, NEEDS_SESSION | NEEDS_NAME },
	[RMEM_CALL_LIST] = { lease_list_create, NEEDS_SESSION },
	[RMEM_CALL_WATCH] = { lease_watch_create, NEEDS_LEASE },
	[RMEM_CALL_UNWATCH] = { lease_unwatch_create, NEEDS_LEASE },
	[RMEM_CALL_PING] = { session_ping_create, NEEDS_SESSION },
};

static int request_check(const struct rmem_request *request)
{
	const struct {
		unsigned need;
		const void *given;
		const char *what;
	} members[] = {
		{ NEEDS_SESSION, request->session, "session" },
		{ NEEDS_LEASE, request->lease, "lease" },
		{ NEEDS_NAME, request->name, "name" },
		{ NEEDS_TENANT, request->tenant, "tenant" },
		{ NEEDS_PARAMS, request->params, "params" },
	};
	unsigned call = request->call;

	if (call >= sizeof(kinds) / sizeof(kinds[0]) || !kinds[call].create)
		return err_set(-EINVAL, "call %u is unknown", call);
	if (request->flags || request->reserved[0] || request->reserved[1])
		return err_set(-EINVAL, "flags or a reserved member is not 0");
	for (unsigned i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		if (kinds[call].needs & members[i].need && !members[i].given)
			return err_set(-EINVAL, "%s is NULL", members[i].what);
	return 0;
}

static const struct rmem *session_of(const struct rmem_request *request)
{
	unsigned needs = kinds[request->call].needs;

	return needs & NEEDS_SESSION ? request->session
	       : needs & NEEDS_LEASE ? request->lease->session
				     : NULL;
}

/* A call of a session that is being closed, of which nothing else may be touched. */
static int refused_create(const struct rmem_request *request, struct call **ret_call)
{
	static const struct call_kind kind = { .name = NULL };
	struct call *call = calloc(1, sizeof(*call));

	if (!call)
		return err_set(-ENOMEM, "no memory for a call");
	call_init(call, &kind, NULL, request,
		  err_set(-ESTALE, "the session is being closed"));
	*ret_call = call;
	return 0;
}

static bool has_task(const struct call *call)
{
	return kinds[call->answer.call].needs & NEEDS_TASK;
}

static void timer_set(struct rmem_calls *calls, uint64_t due_ns)
{
	struct itimerspec when = { .it_value = { 0, 0 } };

	calls->timer_ns = due_ns;
	if (due_ns != UINT64_MAX)
		when.it_value = clock_timespec(due_ns);
	/* fails only for arguments out of range; the program may have closed the timer */
	if (wakeup_is_own(&calls->sink.wake))
		(void)timerfd_settime(calls->sink.timer_fd, TFD_TIMER_ABSTIME, &when,
				      NULL);
}

/* It ends in time. */
static int slow_watch(struct rmem_calls *calls, struct call *call)
{
	process_hold();
	if (calls->sink.timer_fd < 0)
		calls->sink.timer_fd = wakeup_timer(&calls->sink.wake);
	process_release();
	if (calls->sink.timer_fd < 0)
		return err_errno(calls->sink.timer_fd, "a timer");
	list_append(&calls->slow, &call->owner_node);
	if (call->end_ns < calls->timer_ns)
		timer_set(calls, call->end_ns);
	return 0;
}

/* End a request before its answer.  False: the answer comes, or has come. */
static bool request_end(struct call *call, struct rmem *session, int err)
{
	bool ended;

	if (session)
		(void)pthread_mutex_lock(&session->lock);
	ended = has_task(call) ? slow_leave(call) : !call->done;
	if (ended)
		call_end(call, err);
	if (session)
		(void)pthread_mutex_unlock(&session->lock);
	return ended;
}

/* End those whose time is over. */
static void slow_work(struct rmem_calls *calls)
{
	uint64_t now_ns = clock_now_ns(), next_ns = UINT64_MAX;

	if (now_ns < calls->timer_ns)
		return;
	list_for_each_entry_safe(struct call, call, &calls->slow, owner_node) {
		if (call->end_ns > now_ns) {
			if (call->end_ns < next_ns)
				next_ns = call->end_ns;
			continue;
		}
		(void)request_end(call, call_sink_session(&calls->sink, call),
				  err_set(-ETIMEDOUT,
					  "%s: not done within %" PRIu64 " ms",
					  call->kind->name,
					  (now_ns - call->begin_ns) / NS_PER_MS));
	}
	timer_set(calls, next_ns);
}

static int create(struct rmem_calls *calls, const struct rmem_request *request,
		  struct call **ret_call)
{
	call_create *of_kind = refused_create;
	const struct rmem *session;
	struct call *call;
	int err = request_check(request);

	if (!err && calls->n >= calls->depth)
		err = err_set(-EOVERFLOW, "%u requests are outstanding", calls->n);
	if (err)
		return err;
	session = session_of(request);
	if (!session || !atomic_load(&session->closes))
		of_kind = kinds[request->call].create;
	err = of_kind(request, &call);
	if (err)
		return err;
	if (!call->refused.err)
		err = has_task(call) ? slow_watch(calls, call)
				     : driven_add(calls, call);
	if (err)
		call_free(call);
	else
		*ret_call = call;
	return err;
}

/* The sessions with requests to send. */
struct gathering {
	struct list sessions; /* rmem.gather_node */
	struct list closing;  /* call.session_node of calls that are to begin at last */
};

static void gather(struct gathering *gathering, struct call *call)
{
	struct rmem *session = call->session;

	(void)pthread_mutex_lock(&session->lock);
	if (list_empty(&session->gather_node)) {
		connection_gather(session->connection);
		list_append(&gathering->sessions, &session->gather_node);
	}
	call_begin(call);
	(void)pthread_mutex_unlock(&session->lock);
}

/* What is begun from here on is refused. */
static void close_gather(struct gathering *gathering, struct call *call,
			 struct rmem *session)
{
	atomic_store(&session->closes, true);
	list_append(&gathering->closing, &call->session_node);
}

static int begin_one(struct rmem_calls *calls, const struct rmem_request *request,
		     struct gathering *gathering)
{
	struct call *call = NULL;
	int err = create(calls, request, &call);

	if (err)
		return err;
	calls->n++;
	call_sink_add(&calls->sink, call);
	if (call->refused.err)
		call_refuse(call);
	else if (request->call == RMEM_CALL_CLOSE)
		close_gather(gathering, call, request->session);
	else if (has_task(call))
		slow_begin(call);
	else
		gather(gathering, call);
	return 0;
}

/* Send what was begun; the driver learns of an earlier time-out. */
static void flush(struct rmem *session)
{
	(void)pthread_mutex_lock(&session->lock);
	list_remove(&session->gather_node);
	connection_flush(session->connection);
	if (calls_due(session) < session->timer_ns)
		session_wake(session);
	(void)pthread_mutex_unlock(&session->lock);
}

static void gathering_end(struct gathering *gathering)
{
	struct rmem *session;
	struct call *call;

	while ((session = list_first(&gathering->sessions, struct rmem, gather_node)))
		flush(session);
	while ((call = list_first(&gathering->closing, struct call, session_node))) {
		list_remove(&call->session_node);
		slow_begin(call);
	}
}

static int inherited_error(void)
{
	return err_set(-ESTALE, "the object is of the parent process: make another one "
				"in this process");
}

int rmem_calls_begin(rmem_calls *calls, const struct rmem_request *requests, unsigned n)
{
	struct gathering gathering;
	int err = 0, before;
	unsigned i = 0;

	if (!calls || (!requests && n > 0))
		return err_set(-EINVAL, "rmem_calls_begin: an argument is NULL");
	if (calls->sink.inherited)
		return err_prefix(inherited_error(), "rmem_calls_begin");
	before = cancel_disable();
	list_init(&gathering.sessions);
	list_init(&gathering.closing);
	while (i < n && !(err = begin_one(calls, &requests[i], &gathering)))
		i++;
	gathering_end(&gathering);
	cancel_restore(before);
	if (err && i == 0)
		return err_prefix(err, "rmem_calls_begin");
	return err_end((int)i);
}

/* ---- answers ---- */

/* The text and the list are the object's until the next answers are taken. */
static void answer_fill(struct rmem_calls *calls, struct call *call,
			struct rmem_answer *answer)
{
	struct taken *taken = &calls->taken[calls->n_taken++];

	*taken = (struct taken){ .text = call->failed.text, .stats = call->stats };
	*answer = call->answer;
	if (call->failed.text)
		answer->error = calls->n_taken;
	call->failed.text = NULL;
	call->stats = NULL;
	call->answer.stats = NULL;
	call->answer.n_stats = 0;
}

/* The answer is a page: ask for the next one. */
static void call_go_on(struct rmem_calls *calls, struct call *call)
{
	struct rmem *session = call->session;

	call->done = false;
	call_sink_add(&calls->sink, call);
	(void)pthread_mutex_lock(&session->lock);
	call_begin(call);
	(void)pthread_mutex_unlock(&session->lock);
}

static void call_take(struct rmem_calls *calls, struct call *call,
		      struct rmem_answer *answer)
{
	struct rmem *session = call->session;

	answer_fill(calls, call, answer);
	if (session && call->left_ns) {
		call_go_on(calls, call);
		return;
	}
	if (session) {
		(void)pthread_mutex_lock(&session->lock);
		list_remove(&call->session_node);
		(void)pthread_mutex_unlock(&session->lock);
	}
	driven_drop(calls, call);
	list_remove(&call->owner_node);
	calls->n--;
	call_free(call);
}

static unsigned take(struct rmem_calls *calls, struct rmem_answer *answers, unsigned n)
{
	struct call *call;
	unsigned got = 0;

	while (got < n && calls->n_taken < TAKE_MAX &&
	       (call = call_sink_take(&calls->sink)))
		call_take(calls, call, &answers[got++]);
	return got;
}

/* Wait until there may be answers; 0: the time is over, -EINTR with text: the wait is to end. */
static int sleep_until(const struct rmem_calls *calls, uint64_t until_ns)
{
	struct pollfd pollfd = { .fd = calls->sink.wake.epfd, .events = POLLIN };
	uint64_t now_ns = clock_now_ns();
	unsigned ms;
	int n, err;

	/* the program may have closed it */
	if (now_ns >= until_ns || !wakeup_is_own(&calls->sink.wake))
		return 0;
	until_ns = session_sleep_ns(until_ns, now_ns);
	ms = until_ns == UINT64_MAX ? INT32_MAX : session_left_ms(until_ns);
	n = poll(&pollfd, 1, ms < INT32_MAX ? (int)ms : INT32_MAX);
	err = session_interrupted(n < 0);
	return err ? err : 1;
}

static int answers_wait(rmem_calls *calls, struct rmem_answer *answers, unsigned n,
			unsigned min, uint64_t until_ns)
{
	unsigned got = 0;
	int before = cancel_disable(), more = 0;

	taken_free(calls);
	if (n > TAKE_MAX)
		n = TAKE_MAX;
	if (min > n)
		min = n;
	do {
		slow_work(calls);
		drive(calls);
		got += take(calls, answers + got, n - got);
	} while (got < min && calls->n > 0 &&
		 (more = sleep_until(calls, until_ns)) > 0);
	cancel_restore(before);
	if (more < 0 && got == 0)
		return err_prefix(more, "rmem_calls_wait");
	return err_end((int)got);
}

int rmem_calls_take(rmem_calls *calls, struct rmem_answer *answers, unsigned n)
{
	if (!calls || (!answers && n > 0))
		return err_set(-EINVAL, "rmem_calls_take: an argument is NULL");
	if (calls->sink.inherited)
		return err_prefix(inherited_error(), "rmem_calls_take");
	return answers_wait(calls, answers, n, 0, 0);
}

int rmem_calls_wait(rmem_calls *calls, struct rmem_answer *answers, unsigned n,
		    unsigned min, int timeout_ms)
{
	uint64_t until_ns = timeout_ms < 0
				    ? UINT64_MAX
				    : clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;

	if (!calls || (!answers && n > 0))
		return err_set(-EINVAL, "rmem_calls_wait: an argument is NULL");
	if (calls->sink.inherited)
		return err_prefix(inherited_error(), "rmem_calls_wait");
	return answers_wait(calls, answers, n, min, until_ns);
}

unsigned rmem_calls_outstanding(const rmem_calls *calls)
{
	return calls->n;
}

int rmem_calls_fd(const rmem_calls *calls)
{
	if (calls->sink.inherited)
		return err_prefix(inherited_error(), "rmem_calls_fd");
	return calls->sink.wake.epfd;
}

const char *rmem_answer_error(const rmem_calls *calls, const struct rmem_answer *answer)
{
	if (answer->status >= 0)
		return "";
	if (answer->error > 0 && answer->error <= calls->n_taken)
		return calls->taken[answer->error - 1].text;
	return strerrordesc_np(-answer->status);
}

/* ---- ending requests ---- */

/* The next request without an answer of this round that has the cookie; NULL: any. */
static struct call *begun_find(struct rmem_calls *calls, const uint64_t *cookie,
			       struct rmem **ret_session)
{
	struct call *found = NULL;

	(void)pthread_mutex_lock(&calls->sink.lock);
	list_for_each_entry(struct call, call, &calls->sink.begun, node) {
		if ((cookie && call->answer.cookie != *cookie) ||
		    call->seen == calls->round)
			continue;
		call->seen = calls->round;
		found = call;
		*ret_session = call->session;
		break;
	}
	(void)pthread_mutex_unlock(&calls->sink.lock);
	return found;
}

int rmem_calls_cancel(rmem_calls *calls, uint64_t cookie)
{
	struct rmem *session;
	struct call *call;
	int n = 0, before;

	if (!calls)
		return err_set(-EINVAL, "rmem_calls_cancel: calls is NULL");
	if (calls->sink.inherited)
		return err_prefix(inherited_error(), "rmem_calls_cancel");
	before = cancel_disable();
	calls->round++;
	while ((call = begun_find(calls, &cookie, &session)))
		n += request_end(call, session,
				 err_set(-ECANCELED, "rmem_calls_cancel() ended it"));
	cancel_restore(before);
	return err_end(n);
}

/* Nobody takes the answer of the request. */
static void call_disown(struct rmem_calls *calls, struct call *call,
			struct rmem *session)
{
	driven_drop(calls, call);
	list_remove(&call->owner_node);
	if (session)
		(void)pthread_mutex_lock(&session->lock);
	call_drop(call);
	if (session)
		(void)pthread_mutex_unlock(&session->lock);
}

void rmem_calls_free(rmem_calls *calls)
{
	struct rmem *session;
	struct call *call;
	int before;

	if (!calls || calls->sink.inherited)
		return;
	before = cancel_disable();
	calls->round++;
	while ((call = begun_find(calls, NULL, &session)))
		if (!request_end(call, session,
				 err_set(-ECANCELED, "rmem_calls_free() ended it")) &&
		    has_task(call))
			slow_await(call);
	while ((call = call_sink_take(&calls->sink)))
		call_disown(calls, call, call->session);
	process_hold();
	call_sink_close(&calls->sink);
	process_release();
	taken_free(calls);
	free(calls);
	cancel_restore(before);
}
