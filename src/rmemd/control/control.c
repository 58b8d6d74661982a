/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/control.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/descriptors.h"
#include "rmemd/control/session.h"
#include "rmemd/loop/events.h"
#include "rmemd/provision/resize.h"

/* Freed memory is handed to the scrubbers after this time: the reply is sent first, and many small
 * leases wake a scrubber once. */
#define FREED_MS 1
/* A deadline years away may not fit a timeval. */
#define TICK_MS_MAX 86400000

/* ---- time ---- */

static void tick_arm(struct control *control)
{
	uint64_t next_ms = leases_next_ms(control->leases), now_ms = clock_now_ms();
	struct timeval tv;

	if (control->sessions_next_ms < next_ms)
		next_ms = control->sessions_next_ms;
	if (resizes_next_ms(control->resizes) < next_ms)
		next_ms = resizes_next_ms(control->resizes);
	if (next_ms == UINT64_MAX) {
		(void)event_del(control->tick);
		return;
	}
	if (next_ms < now_ms)
		next_ms = now_ms;
	if (next_ms - now_ms > TICK_MS_MAX)
		next_ms = now_ms + TICK_MS_MAX;
	tv = timeval_of_ms(next_ms - now_ms);
	if (event_add(control->tick, &tv))
		log_event(LOG_ERR, "timer-failed", NULL, "no memory for the timer");
}

static void on_session_due(struct control *control, uint64_t ms)
{
	if (ms >= control->sessions_next_ms)
		return;
	control->sessions_next_ms = ms;
	tick_arm(control);
}

static void sessions_check(struct control *control)
{
	control->sessions_next_ms = sessions_next_ms(control->sessions);
	tick_arm(control);
}

static void count_memory(struct control *control)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < pools_count(control->pools); i++) {
		struct pool_status status = pools_status(control->pools, i);

		sum += status.bytes < status.bytes_to ? status.bytes : status.bytes_to;
	}
	control->memory_bytes = sum;
}

/* The pools have changed.  free: bytes have become free. */
static void pools_changed(struct control *control, bool free)
{
	if (resizes_work(control->resizes) || free)
		leases_retry(control->leases);
	count_memory(control);
	tick_arm(control);
}

static void on_tick(evutil_socket_t, short, void *arg)
{
	const struct timeval at_once = { 0 };
	struct control *control = arg;

	/* When the process itself was stopped for a while, renewals of leases may wait in the
	 * sockets: one turn of the loop reads them before any lease expires. */
	control->tick_polled = !control->tick_polled;
	if (control->tick_polled && !event_add(control->tick, &at_once))
		return;
	control->tick_polled = false;
	sessions_tick(control->sessions);
	leases_tick(control->leases);
	pools_changed(control, false);
	sessions_check(control);
}

/* ---- work in slices ---- */

static void on_slices(evutil_socket_t, short, void *arg)
{
	struct control *control = arg;

	slices_run(&control->slices);
}

static void on_wake(void *ctx)
{
	const struct timeval at_once = { 0 };
	struct control *control = ctx;

	/* without memory for the timer, in this turn, while others wait */
	if (event_add(control->slices_event, &at_once))
		event_active(control->slices_event, EV_TIMEOUT, 0);
}

/* ---- events of leases, sessions and pools ---- */

/* Programs grant and free at any rate: only for debugging. */
static void on_granted(void *ctx, const struct lease_status *status)
{
	struct control *control = ctx;

	log_event(LOG_DEBUG, "lease-granted",
		  &(struct log_ctx){ .session = status->owner,
				     .lease = status->id,
				     .tenant = status->tenant },
		  "\"%s\", %" PRIu64 " bytes in %u segments", status->name,
		  status->bytes, status->segments);
	drain_granted(&control->drain);
}

static void on_ended(void *, const struct lease_status *status, enum wire_reason reason)
{
	const char *event = reason == WIRE_REASON_EXPIRED   ? "lease-expired"
			    : reason == WIRE_REASON_REVOKED ? "lease-revoked"
							    : "lease-freed";
	bool of_itself = reason == WIRE_REASON_EXPIRED || reason == WIRE_REASON_REVOKED;

	log_event(of_itself ? LOG_NOTICE : LOG_DEBUG, event,
		  &(struct log_ctx){ .session = status->owner,
				     .lease = status->id,
				     .tenant = status->tenant },
		  "\"%s\", %" PRIu64 " bytes, attached by %u sessions", status->name,
		  status->bytes, status->sessions);
}

static void on_timer_moved(void *ctx)
{
	tick_arm(ctx);
}

static void on_none_left(void *ctx)
{
	struct control *control = ctx;

	drain_none_left(&control->drain);
}

static const struct leases_events leases_events = {
	.client_event = session_client_event,
	.client_notified = session_client_notified,
	.granted = on_granted,
	.ended = on_ended,
	.timer_moved = on_timer_moved,
	.none_left = on_none_left,
};

static void on_reclaim(void *ctx)
{
	struct control *control = ctx;

	leases_reclaim(control->leases);
}

static bool on_find_leases(void *ctx, struct pool_holders *holders, char *buf,
			   size_t buf_bytes)
{
	const struct control *control = ctx;

	if (!leases_find_holders(control->leases, holders))
		return false;
	leases_describe_holders(control->leases, holders, buf, buf_bytes);
	return true;
}

/* Warn of a device that has no endpoint, as the name may be misspelt. */
static void warn_missing(const struct control *control, const struct pool_params *pool)
{
	const char *name = endpoints_missing(&control->endpoints, pool);

	if (name)
		log_event(
			LOG_WARNING, "device-not-served",
			&(struct log_ctx){ .pool = pool->name, .device = name },
			"[pool %s] devices: no RDMA device %s is served, or waited "
			"for by its name: name it in [rdma] devices, and restart rmemd",
			pool->name, name);
}

static void on_pool_added(void *ctx, unsigned i)
{
	struct control *control = ctx;

	warn_missing(control, pools_params(control->pools, i));
	endpoints_follow(control);
}

static void on_pool_removed(void *ctx)
{
	endpoints_follow(ctx);
}

static const struct resizes_events resizes_events = {
	.reclaim = on_reclaim,
	.find_leases = on_find_leases,
	.added = on_pool_added,
	.removed = on_pool_removed,
};

/* Clean memory may be lent, or is cut off with the end of its pool: then no request has to wait
 * for it. */
static void on_scrubbed(evutil_socket_t, short, void *arg)
{
	struct control *control = arg;

	(void)pools_process(control->pools);
	pools_changed(control, true);
}

static void on_freed(void *ctx)
{
	const struct timeval soon = timeval_of_ms(FREED_MS);
	struct control *control = ctx;

	if (event_add(control->freed_timer, &soon))
		pools_scrub(control->pools);
}

static void on_freed_timer(evutil_socket_t, short, void *arg)
{
	struct control *control = arg;

	pools_scrub(control->pools);
}

/* ---- sessions and leases of the last process ---- */

/* A tenant without a section is leaving: it is freed with its last session and lease. */
static struct tenant *restored_tenant(void *ctx, const char *name)
{
	static struct config defaults;
	struct control *control = ctx;
	struct tenant_params params;

	config_default(&defaults);
	params = defaults.tenants[0];
	(void)snprintf(params.name, sizeof(params.name), "%s", name);
	return tenants_ensure(control->tenants, &params);
}

static void on_lost(void *, uint64_t id, const char *name, const char *tenant,
		    const char *why)
{
	log_event(LOG_ERR, "lease-lost",
		  &(struct log_ctx){ .lease = id, .tenant = tenant }, "\"%s\": %s",
		  name, why);
}

static void on_detached(void *ctx, uint64_t session, uint64_t lease)
{
	const struct lease_client *client = sessions_lease_client(ctx, session);

	if (!client)
		return;
	log_event(LOG_ERR, "attachment-lost",
		  &(struct log_ctx){ .session = session,
				     .lease = lease,
				     .tenant = client->tenant->name },
		  "the ledger's record of it is malformed: the session does not have "
		  "the lease any more");
}

static int restore_tables(struct control *control)
{
	const struct leases_restore with = { .tenant = restored_tenant,
					     .client = sessions_lease_client,
					     .lost = on_lost,
					     .detached = on_detached,
					     .ctx = control };
	int err = sessions_restore(control->sessions, &with);
	unsigned n;

	if (!err)
		err = leases_restore(control->leases, &with);
	if (!err)
		err = pools_zero_unlent(control->pools);
	n = leases_count(control->leases);
	if (!err && sessions_count(control->sessions) + n > 0)
		log_event(LOG_NOTICE, "restored", NULL,
			  "%u sessions and %u leases of the last process",
			  sessions_count(control->sessions), n);
	return err;
}

/* ---- opening and closing ---- */

/* Limits of the configuration beyond the descriptors of the process do not hold. */
static void set_descriptors(struct control *control)
{
	uint64_t limit = descriptors_limit();
	const struct descriptors_plan plan = descriptors_divide(
		limit, control->config, endpoints_n_tcp(&control->endpoints));
	const struct descriptors wanted = plan.wanted, fits = plan.fits;
	bool sessions_fit = fits.sessions == wanted.sessions;

	control->sessions_fit = (uint32_t)fits.sessions;
	control->newcomers_max = plan.newcomers;
	endpoints_set_channels(&control->endpoints, fits.channels);
	if (sessions_fit && fits.channels == wanted.channels)
		return;
	log_event(sessions_fit ? LOG_NOTICE : LOG_WARNING, "descriptors-limited", NULL,
		  "%" PRIu64 " descriptors may be open, which is enough for %" PRIu64
		  " sessions and %" PRIu64 " channels over TCP, but [limits] allow "
		  "%" PRIu64 " and %" PRIu64
		  ": raise LimitNOFILE (RLIMIT_NOFILE) to %" PRIu64
		  ", or lower [limits]",
		  limit, fits.sessions, fits.channels, wanted.sessions, wanted.channels,
		  plan.needed);
}

int control_open(struct control *control)
{
	control->sessions_next_ms = UINT64_MAX;
	if (gethostname(control->server, sizeof(control->server) - 1))
		control->server[0] = '\0';
	control->tick = event_make(control->base, -1, 0, on_tick, control);
	control->freed_timer =
		event_make(control->base, -1, 0, on_freed_timer, control);
	control->slices_event = event_make(control->base, -1, 0, on_slices, control);
	control->turn.base = control->base;
	slices_init(&control->slices, &control->turn, on_wake, control);
	if (!control->tick || !control->freed_timer || !control->slices_event)
		return err_set(-ENOMEM, "no memory for the timers");
	if (drain_open(&control->drain, control))
		return -ENOMEM;
	return connections_open(control, &control->connections);
}

static int open_tables(struct control *control)
{
	int err = leases_open(control->pools, control->ledger, &control->slices,
			      &leases_events, control, control->first_id,
			      &control->leases);

	if (!err)
		err = sessions_open(control, on_session_due, &control->sessions);
	if (!err)
		err = restore_tables(control);
	if (!err)
		err = resizes_open(control->pools, control->ledger, control->fdstore,
				   &resizes_events, control, &control->resizes);
	return err;
}

int control_start(struct control *control, struct pools *pools)
{
	int err;

	control->pools = pools;
	pools_set_scrub_rate(pools, control->config->scrub_rate);
	for (unsigned i = 0; i < pools_count(pools); i++)
		warn_missing(control, pools_params(pools, i));
	endpoints_follow(control);
	err = open_tables(control);
	if (err)
		return err;
	control->pools_event = event_make(control->base, pools_fd(pools),
					  EV_READ | EV_PERSIST, on_scrubbed, control);
	if (!control->pools_event || event_add(control->pools_event, NULL))
		return err_set(-ENOMEM, "no memory for the event of the pools");
	pools_on_freed(pools, on_freed, control);
	/* restored sessions and leases have deadlines, and a pool may have another size */
	control_reload(control);
	return 0;
}

void control_reload(struct control *control)
{
	pools_set_scrub_rate(control->pools, control->config->scrub_rate);
	set_descriptors(control);
	sessions_check(control);
	connections_recheck(control->connections);
	resizes_configure(control->resizes, control->config);
	pools_changed(control, false);
}

void control_stop(struct control *control, bool back)
{
	sessions_stop(control->sessions, back);
	connections_drain(control->connections);
}

void control_close(struct control *control)
{
	drain_close(&control->drain);
	connections_close(control->connections);
	/* no key is alive and no event comes after this */
	endpoints_close(&control->endpoints);
	leases_close(control->leases);
	sessions_close(control->sessions);
	if (control->pools)
		pools_on_freed(control->pools, NULL, NULL);
	event_drop(&control->pools_event);
	event_drop(&control->freed_timer);
	event_drop(&control->slices_event);
	event_drop(&control->tick);
	resizes_close(control->resizes);
}
