/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes sessions. */
#include <rmem/rmem.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/utf8.h"
#include "librmem/lease/buffer.h"
#include "librmem/lease/lease.h"
#include "base/params.h"
#include "librmem/queue/queue.h"
#include "librmem/channel/channel.h"
#include "librmem/open.h"
#include "librmem/session/call.h"
#include "librmem/session/cancel.h"
#include "librmem/session/process.h"
#include "librmem/session/service.h"
#include "librmem/session/session.h"
#include "librmem/session/tasks.h"
#include "librmem/sync.h"
#include "wire/codec.h"

#define TIMEOUT_DEFAULT_MS 10000u
/* Limit of the time that closing a session takes. */
#define CLOSE_MS 1000u
/* Limit of bytes of the program's name in a session's own. */
#define PROGRAM_MAX 40u
/* The longest wait between two tries to open a session. */
#define BACKOFF_MAX_MS 500u

/* ---- making the handle ---- */

const struct session_observer *const session_layers[] = {
	&call_observer,
	&channel_observer,
	&lease_observer,
	&buffer_observer,
	&queue_observer,
	&sync_observer,
	NULL,
};

static int client_copy(char dst[WIRE_LABEL_MAX + 1], const char *src)
{
	size_t len = strnlen(src, WIRE_LABEL_MAX + 1);

	if (len == 0 || len > WIRE_LABEL_MAX)
		return err_set(-EINVAL, "client has %s bytes",
			       len ? "more than 64" : "no");
	if (!utf8_clean(src, len))
		return err_set(-EINVAL, "client " UTF8_UNCLEAN);
	memcpy(dst, src, len + 1);
	return 0;
}

/* How rmemctl shows a session that has no name of its own: program and process id. */
static void client_default(char dst[WIRE_LABEL_MAX + 1])
{
	const char *program = program_invocation_short_name;
	size_t len = utf8_cut(program, PROGRAM_MAX);

	if (!utf8_clean(program, len))
		len = 0;
	(void)snprintf(dst, WIRE_LABEL_MAX + 1, "%.*s[%ld]", (int)len, program,
		       (long)getpid());
}

static int options_apply(struct rmem *session, const struct rmem_options *options)
{
	struct rmem_options all = rmem_options_init();
	int err = 0;

	if (options)
		err = params_import(&all, sizeof(all), options, options->size,
				    PARAMS_UP_TO(struct rmem_options, psk_ctx),
				    "rmem_options");
	if (err)
		return err;
	err = credentials_open(&session->credentials, &session->uri, &all);
	if (err)
		return err;
	if (all.flags & ~(RMEM_NO_THREAD | RMEM_NO_RESUME))
		return err_set(-EINVAL, "flags 0x%x are unknown", all.flags);
	session->no_thread = (all.flags & RMEM_NO_THREAD) != 0;
	session->no_resume = (all.flags & RMEM_NO_RESUME) != 0;
	session->stepped = all.stepped;
	session->stepped_ctx = all.stepped_ctx;
	session->timeout_ms = opening_timeout_ms(&all);
	if (all.client)
		return client_copy(session->client, all.client);
	client_default(session->client);
	return 0;
}

/* A session with its layers' parts. */
struct whole {
	struct rmem session; /* first */
	struct domain_set domains;
	struct channel_table channels;
	struct lease_table leases;
	struct buffer_table buffers;
	struct sync sync;
};

static int session_new(const struct uri *uri, const struct rmem_options *options,
		       struct rmem **ret_session)
{
	struct whole *whole = calloc(1, sizeof(*whole));
	struct rmem *session;
	int err;

	if (!whole)
		return err_set(-ENOMEM, "no memory for a session");
	session = &whole->session;
	session->observers = session_layers;
	session->domains = &whole->domains;
	session->channels = &whole->channels;
	session->leases = &whole->leases;
	session->buffers = &whole->buffers;
	session->sync = &whole->sync;
	session->uri = *uri;
	session->server = "";
	session->wake = (struct wakeup)WAKEUP_CLOSED;
	session->timer_fd = -1;
	session->timer_ns = UINT64_MAX;
	session->backoff.max_ms = SESSION_BACKOFF_MAX_MS;
	list_init(&whole->channels.all);
	lease_table_init(&whole->leases);
	turns_init(&whole->sync.turns);
	list_init(&session->queues);
	list_init(&session->calls);
	list_init(&session->gather_node);
	list_init(&session->service_node);
	list_init(&session->connect_node);
	list_init(&session->process_node);
	/* these cannot fail with default attributes */
	(void)pthread_mutex_init(&session->lock, NULL);
	(void)pthread_cond_init(&session->changed, NULL);
	err = options_apply(session, options);
	process_hold();
	if (!err)
		err = session_fds_open(session);
	if (!err)
		err = connection_create(session->wake.epfd, &session_connection_events,
					session, &session->connection);
	if (!err)
		err = process_add(session);
	if (err) {
		connection_free(session->connection);
		credentials_close(&session->credentials);
		session_fds_close(session);
	}
	process_release();
	if (err) {
		free(whole);
		return err;
	}
	*ret_session = session;
	return 0;
}

/* ---- choosing the fabric ---- */

/* Open domains, and connect a channel in the first, which the synchronous calls use later. */
static int endpoints_try(struct rmem *session, const struct fabric_client_ops *ops,
			 struct domain_candidates *candidates, uint64_t end_ns)
{
	struct domain_set set;
	int err = domain_set_open(session, ops, candidates, end_ns, &set);

	if (err)
		return err;
	/* the service thread may drive the session by now */
	(void)pthread_mutex_lock(&session->lock);
	*session->domains = set;
	(void)pthread_mutex_unlock(&session->lock);
	session->timeout_ms =
		session_left_ms(domain_part_end_ns(end_ns, candidates->n - 1));
	err = sync_open(session);
	if (!err)
		return 0;
	(void)pthread_mutex_lock(&session->lock);
	set = *session->domains;
	*session->domains = (struct domain_set){ .ops = NULL };
	(void)pthread_mutex_unlock(&session->lock);
	domain_set_close(&set);
	domain_candidates_drop(candidates, 0);
	return err;
}

/* Whether another way may work: the loss of the server does not show that this one fails. */
static bool session_holds(const struct rmem *session)
{
	return atomic_load(&session->status) == 0;
}

/* Try the endpoints one after the other. */
static int candidates_try(struct rmem *session, const struct fabric_client_ops *ops,
			  struct domain_candidates *candidates, uint64_t end_ns)
{
	struct err_saved failed = { .err = 0 };

	do {
		int err = endpoints_try(session, ops, candidates, end_ns);

		if (!err)
			return 0;
		err_join(&failed, err);
	} while (candidates->n > 0 && session_holds(session));
	return err_restore(&failed);
}

/* Try a fabric, at most until end_ns; again if the server was lost meanwhile, and is back. */
static int fabric_try(struct rmem *session, const struct fabric_client_ops *ops,
		      uint64_t end_ns)
{
	struct domain_candidates candidates;
	struct err_saved failed;
	unsigned resumes;
	bool again;
	int err;

	do {
		(void)pthread_mutex_lock(&session->lock);
		resumes = (unsigned)session->resumes;
		(void)pthread_mutex_unlock(&session->lock);
		err = domain_candidates_find(session, ops, &candidates);
		if (err)
			return err;
		err = candidates_try(session, ops, &candidates, end_ns);
		err_save(&failed, err);
		again = err && session_returned(session, resumes, end_ns);
	} while (again);
	return err_restore(&failed);
}

/* Leave some of the time if the session may use TCP instead. */
static int rdma_try(struct rmem *session, uint64_t end_ns)
{
	const struct fabric_client_ops *ops = &fabric_verbs_client;
	const char *missing = ops->missing ? ops->missing() : NULL;

	if (missing)
		return err_set(-ENODEV, "%s", missing);
	return fabric_try(
		session, ops,
		domain_part_end_ns(end_ns, session->uri.fabric == RMEM_FABRIC_AUTO));
}

/* Choose a fabric, at most until end_ns. */
static int fabric_choose(struct rmem *session, uint64_t end_ns)
{
	int err;

	if (session->uri.fabric == RMEM_FABRIC_TCP)
		return fabric_try(session, &fabric_tcp_client, end_ns);
	err = rdma_try(session, end_ns);
	if (!err)
		return 0;
	if (session->uri.fabric == RMEM_FABRIC_RDMA)
		return err_prefix(err, "RDMA cannot be used");
	if (!session_holds(session))
		return err;
	(void)snprintf(session->downgrade, sizeof(session->downgrade), "%.*s",
		       SESSION_TEXT_BYTES - 1, err_text());
	return fabric_try(session, &fabric_tcp_client, end_ns);
}

/* ---- opening and closing ---- */

/* The device of a domain; "": none, or it is removed already. */
static const char *device_of(const struct domain_set *domains, unsigned number)
{
	const struct fabric_domain *fabric = domains->domains[number].fabric;

	return fabric ? domains->ops->domain_device(fabric) : "";
}

/* List each device once.  Under the lock. */
static void devices_list(struct rmem *session)
{
	const struct domain_set *domains = session->domains;
	size_t n = 0;

	for (unsigned i = 0; i < domains->n; i++) {
		const char *name = device_of(domains, i);
		unsigned k = 0;

		while (k < i && strcmp(device_of(domains, k), name) != 0)
			k++;
		/* there is room for the names of all domains */
		if (k == i && name[0])
			n += (size_t)snprintf(session->device + n,
					      sizeof(session->device) - n, "%s%.*s",
					      n > 0 ? "," : "", FABRIC_DEVICE_MAX - 1,
					      name);
	}
}

void session_shut(struct rmem *session)
{
	unsigned ms = session->timeout_ms < CLOSE_MS ? session->timeout_ms : CLOSE_MS;
	uint64_t end_ns = clock_now_ns() + ms * NS_PER_MS;
	struct rmem_queue *queue;

	calls_end(session);
	session_cancel(session);
	tasks_lock();
	while (session->tasks > 0)
		tasks_wait();
	tasks_unlock();
	if (session->served) {
		service_remove(session);
		session->served = false;
	}
	/* a domain may still be closed during the bye, and must not find the queue */
	session->sync->queue = NULL;
	/* queue_drop() removes the queue from the list */
	while ((queue = list_first(&session->queues, struct rmem_queue, node)))
		queue_drop(queue);
	if (session->welcomed)
		session_call_bye(session, end_ns);
	process_hold();
	leases_destroy(session);
	buffers_destroy(session);
	domain_set_close(session->domains);
	connection_free(session->connection);
	session_addresses_free(session);
	credentials_close(&session->credentials);
	session_fds_close(session);
	process_remove(session);
	process_release();
	(void)pthread_mutex_destroy(&session->lock);
	(void)pthread_cond_destroy(&session->changed);
}

void rmem_close(rmem *session)
{
	int before;

	/* an inherited session has no descriptors, and its memory may be in any state */
	if (!session || session->inherited)
		return;
	before = cancel_disable();
	session_shut(session);
	free(session);
	cancel_restore(before);
}

/* Create a session with the remaining time as its time-out; *ret_timeout_ms: its later time-out. */
static int opening_begin(struct opening *opening, unsigned *ret_timeout_ms,
			 struct rmem **ret_session)
{
	struct rmem *session = NULL;
	int err = session_new(&opening->uri, opening->options, &session);

	if (err)
		return err;
	*ret_timeout_ms = session->timeout_ms;
	if (opening->end_ns == 0)
		opening->end_ns = session_end_ns(session);
	else
		session->timeout_ms = session_left_ms(opening->end_ns);
	*ret_session = session;
	return 0;
}

/* The time-out of later calls: until here it was the time left for opening. */
static void timeout_restore(struct rmem *session, unsigned timeout_ms)
{
	session->timeout_ms = timeout_ms;
	if (session->sync->queue)
		session->sync->queue->timeout_ns = timeout_ms * NS_PER_MS;
}

static int opening_try(struct opening *opening, struct rmem **ret_session)
{
	struct err_saved failed;
	struct rmem *session = NULL;
	unsigned timeout_ms;
	int err = opening_begin(opening, &timeout_ms, &session);

	if (err)
		return err;
	err = session_connect(session);
	if (err)
		goto err_close;
	/* from here on heartbeats are due: this thread sends them */
	err = fabric_choose(session, opening->end_ns);
	timeout_restore(session, timeout_ms);
	if (!err)
		session_stepped(session, RMEM_STEP_CHANNEL);
	session->stepped = NULL;
	if (!err)
		err = service_hand_over(session);
	if (err) {
		(void)err_prefix(err, "%s", session->server);
		goto err_close;
	}
	(void)pthread_mutex_lock(&session->lock);
	devices_list(session);
	(void)pthread_mutex_unlock(&session->lock);
	*ret_session = session;
	return 0;

err_close:
	/* rmem_close() makes calls, which set the error text */
	err_save(&failed, err);
	/* a server was reached but does not know the session (any more): another may follow soon */
	opening->lost = session->welcomed ? atomic_load(&session->status) == -ESTALE
					  : session->dropped;
	rmem_close(session);
	return err_restore(&failed);
}

/* Whether to try again after a wait, as the last try has lost its server.  A server that was never
 * reached is not waited for. */
static bool opening_waits(struct opening *opening, int err)
{
	unsigned left = session_left_ms(opening->end_ns), wait_ms;
	bool again;

	if (!opening->lost && (opening->backoff.ms == 0 || err != -ECONNREFUSED))
		return false;
	wait_ms = backoff_next(&opening->backoff);
	/* the last try begins while there is time for it: a shorter try would find no server */
	again = left > BACKOFF_FIRST_MS;
	if (again)
		left -= BACKOFF_FIRST_MS;
	(void)poll(NULL, 0, (int)(left < wait_ms ? left : wait_ms));
	return again;
}

int opening_init(struct opening *opening, const char *uri,
		 const struct rmem_options *options)
{
	*opening = (struct opening){ .options = options,
				     .backoff = BACKOFF_INIT(BACKOFF_MAX_MS) };
	return uri_parse(uri, &opening->uri);
}

unsigned opening_timeout_ms(const struct rmem_options *options)
{
	return options->timeout_ms ? options->timeout_ms : TIMEOUT_DEFAULT_MS;
}

int opening_run(struct opening *opening, rmem **ret_session)
{
	/* the time-out of the options counts */
	unsigned timeout_ms = rmem_thread_timeout(0);
	int err, before = cancel_disable();

	do {
		opening->lost = false;
		err = opening_try(opening, ret_session);
	} while (err && opening_waits(opening, err));
	(void)rmem_thread_timeout(timeout_ms);
	cancel_restore(before);
	return err_end(err ? err_prefix(err, "rmem_open") : 0);
}

int rmem_open(const char *uri, const struct rmem_options *options, rmem **ret_session)
{
	struct opening opening;
	int err;

	if (!ret_session)
		return err_set(-EINVAL, "rmem_open: ret_session is NULL");
	err = opening_init(&opening, uri, options);
	return err ? err_prefix(err, "rmem_open") : opening_run(&opening, ret_session);
}

/* ---- looking at a session ---- */

int rmem_info(rmem *session, struct rmem_info *info)
{
	struct rmem_info now;

	if (!session || !info)
		return err_set(-EINVAL, "rmem_info: an argument is NULL");
	if (session_own(session))
		return err_prefix(-ESTALE, "rmem_info");
	(void)pthread_mutex_lock(&session->lock);
	now = (struct rmem_info){
		.fabric = session->domains->ops->kind == FABRIC_VERBS ? RMEM_FABRIC_RDMA
								      : RMEM_FABRIC_TCP,
		.downgrade = session->downgrade[0] ? session->downgrade : NULL,
		.server = session->server,
		.device = session->device,
		.session_id = session->welcome.session,
		.channels = session->uri.channels,
		.heartbeat_ms = session->welcome.heartbeat_ms,
		.fence_ms = session->welcome.fence_ms,
		.grace_ms = session->welcome.grace_ms,
		.resumes = session->resumes,
		.draining = session->draining,
		.auth = !session->credentials.tls  ? RMEM_AUTH_NONE
			: session->credentials.psk ? RMEM_AUTH_PSK
						   : RMEM_AUTH_CERTIFICATE,
		.copied_bytes = atomic_load(&session->copied_bytes),
	};
	(void)pthread_mutex_unlock(&session->lock);
	return err_end(params_export(info, &now, sizeof(now),
				     PARAMS_UP_TO(struct rmem_info, draining),
				     "rmem_info: rmem_info"));
}

const char *rmem_error(void)
{
	return err_text();
}

const char *rmem_version(void)
{
	return PACKAGE_VERSION;
}
