/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/loop.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/units.h"
#include "rmemd/system/systemd.h"
#include "rmemd/system/log_ratelimit.h"

/* How often the line for the service manager, and what the log left out, are looked at. */
#define STATUS_S 5
/* Memory given back waits so long for more of it: it is not scrubbed before the answer is on its
 * way, and many small leases wake a scrubber once. */
#define GIVEN_US 1000

static const int signal_numbers[N_SIGNALS] = { SIGTERM, SIGINT, SIGHUP };

/* ---- time ---- */

static void arm(struct daemon *daemon)
{
	uint64_t next_ms = leases_next_ms(daemon->leases), now_ms = clock_now_ms();
	uint64_t wait_ms;
	struct timeval tv;

	if (daemon->sessions_next_ms < next_ms)
		next_ms = daemon->sessions_next_ms;
	if (resizes_next_ms(daemon->resizes) < next_ms)
		next_ms = resizes_next_ms(daemon->resizes);
	if (next_ms == UINT64_MAX) {
		(void)event_del(daemon->tick);
		return;
	}
	wait_ms = next_ms > now_ms ? next_ms - now_ms : 0;
	/* a deadline years away fits no timeval everywhere; a day is as good */
	if (wait_ms > 86400000)
		wait_ms = 86400000;
	tv = (struct timeval){ .tv_sec = (time_t)(wait_ms / 1000),
			       .tv_usec = (suseconds_t)(wait_ms % 1000 * 1000) };
	if (event_add(daemon->tick, &tv))
		log_event(LOG_ERR, "timer-failed", NULL, "no memory for the timer");
}

static void on_leases_timer(void *ctx)
{
	arm(ctx);
}

/* Most often it is a new session's, which is the last: looking at all others each time would
 * take longer the more there are. */
static void on_session_due(void *ctx, uint64_t ms)
{
	struct daemon *daemon = ctx;

	if (ms >= daemon->sessions_next_ms)
		return;
	daemon->sessions_next_ms = ms;
	arm(daemon);
}

static void look_at_sessions(struct daemon *daemon)
{
	daemon->sessions_next_ms = sessions_next_ms(daemon->sessions);
	arm(daemon);
}

void loop_count_memory(struct daemon *daemon)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < pools_count(daemon->pools); i++) {
		struct pool_status status;

		pools_status(daemon->pools, i, &status);
		sum += status.bytes < status.bytes_to ? status.bytes : status.bytes_to;
	}
	daemon->control.memory_bytes = sum;
}

/* Some bytes may have become free already. */
static void look_at_pools(struct daemon *daemon, bool free)
{
	if (resizes_work(daemon->resizes) || free)
		leases_retry(daemon->leases);
	loop_count_memory(daemon);
	arm(daemon);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	const struct timeval at_once = { 0 };
	struct daemon *daemon = arg;

	(void)fd;
	(void)what;
	/* When the daemon itself was stopped for a while, signs of life may wait in the
	 * sockets: one turn of the loop reads them before anybody is called dead. */
	daemon->tick_looked = !daemon->tick_looked;
	if (daemon->tick_looked && !event_add(daemon->tick, &at_once))
		return;
	daemon->tick_looked = false;
	sessions_tick(daemon->sessions);
	leases_tick(daemon->leases);
	look_at_pools(daemon, false);
	look_at_sessions(daemon);
}

/* ---- news ---- */

static void on_news(void *ctx, struct lease_client *holder)
{
	(void)ctx;
	session_news(holder);
}

static void on_noticed(void *ctx, struct lease_client *holder)
{
	(void)ctx;
	session_noticed(holder);
}

/* Programs grant and free at any rate: not for everyday's log. */
static void on_granted(void *ctx, const struct lease_status *status)
{
	(void)ctx;
	log_event(LOG_DEBUG, "lease-granted",
		  &(struct log_ctx){ .session = status->owner,
				     .lease = status->id,
				     .tenant = status->tenant },
		  "\"%s\", %" PRIu64 " bytes in %u segments", status->name,
		  status->bytes, status->segments);
}

static void on_ended(void *ctx, const struct lease_status *status,
		     enum wire_reason reason)
{
	const char *event = reason == WIRE_REASON_EXPIRED   ? "lease-expired"
			    : reason == WIRE_REASON_REVOKED ? "lease-revoked"
							    : "lease-freed";
	bool of_itself = reason == WIRE_REASON_EXPIRED || reason == WIRE_REASON_REVOKED;

	(void)ctx;
	log_event(of_itself ? LOG_NOTICE : LOG_DEBUG, event,
		  &(struct log_ctx){ .session = status->owner,
				     .lease = status->id,
				     .tenant = status->tenant },
		  "\"%s\", %" PRIu64 " bytes, attached by %u sessions", status->name,
		  status->bytes, status->sessions);
}

const struct leases_events loop_leases_events = {
	.client_event = on_news,
	.client_notified = on_noticed,
	.granted = on_granted,
	.ended = on_ended,
	.timer_moved = on_leases_timer,
};

const struct sessions_events loop_sessions_events = {
	.due = on_session_due,
};

static void on_scrubbed(evutil_socket_t fd, short what, void *arg)
{
	struct daemon *daemon = arg;

	(void)fd;
	(void)what;
	/* what became clean may be lent, or goes with the end of its pool: then nobody
	 * need wait for it */
	(void)pools_process(daemon->pools);
	look_at_pools(daemon, true);
}

static void on_given(void *ctx)
{
	const struct timeval soon = { .tv_usec = GIVEN_US };
	struct daemon *daemon = ctx;

	if (event_add(daemon->given, &soon))
		pools_scrub(daemon->pools);
}

static void on_given_due(evutil_socket_t fd, short what, void *arg)
{
	struct daemon *daemon = arg;

	(void)fd;
	(void)what;
	pools_scrub(daemon->pools);
}

/* ---- status ---- */

/* How far pools that grow are, for the log, too; nothing when none does. */
static void describe_growth(struct daemon *daemon, char *buf, size_t buf_bytes)
{
	char done_text[32], bytes_text[32];
	uint64_t done, bytes;

	if (!resizes_growing(daemon->resizes, &done, &bytes)) {
		buf[0] = '\0';
		return;
	}
	resizes_log_growth(daemon->resizes, done, bytes);
	(void)snprintf(buf, buf_bytes, "; populating pools: %s of %s",
		       units_format_bytes(done, done_text, sizeof(done_text)),
		       units_format_bytes(bytes, bytes_text, sizeof(bytes_text)));
}

bool loop_describe(struct daemon *daemon)
{
	char lent_text[32], bytes_text[32], text[sizeof(daemon->status_text)];
	uint64_t lent = 0, bytes = 0;
	size_t used;

	for (unsigned i = 0; i < pools_count(daemon->pools); i++) {
		struct pool_status status;

		pools_status(daemon->pools, i, &status);
		lent += status.lent;
		bytes += status.bytes;
	}
	used = (size_t)snprintf(
		text, sizeof(text), "%s of %s lent to %u sessions in %u leases",
		units_format_bytes(lent, lent_text, sizeof(lent_text)),
		units_format_bytes(bytes, bytes_text, sizeof(bytes_text)),
		sessions_count(daemon->sessions), leases_count(daemon->leases));
	describe_growth(daemon, text + used, sizeof(text) - used);
	if (strcmp(text, daemon->status_text) == 0)
		return false;
	memcpy(daemon->status_text, text, sizeof(text));
	return true;
}

static void on_status(evutil_socket_t fd, short what, void *arg)
{
	struct daemon *daemon = arg;

	(void)fd;
	(void)what;
	log_ratelimit_flush();
	if (!daemon->stopping && loop_describe(daemon))
		systemd_status("%s", daemon->status_text);
}

/* ---- signals ---- */

static void on_drained(void *ctx)
{
	struct daemon *daemon = ctx;

	(void)event_base_loopbreak(daemon->base);
}

static void stop(struct daemon *daemon)
{
	daemon->stopping = true;
	log_event(LOG_NOTICE, "stopping", NULL, "asked to stop with %u sessions",
		  sessions_count(daemon->sessions));
	systemd_stopping();
	daemon->sources.n_listeners = 0;
	while (daemon->n_listeners > 0)
		listener_close(daemon->listeners[--daemon->n_listeners]);
	sessions_stop(daemon->sessions, fdstore_lasts(daemon->keep));
	connections_drain(daemon->connections, on_drained, daemon);
}

static void on_stop(evutil_socket_t number, short what, void *arg)
{
	struct daemon *daemon = arg;

	(void)what;
	/* asked twice: do not wait for anything */
	if (daemon->stopping)
		_exit(128 + number);
	stop(daemon);
}

static int log_leaving(const struct tenant *tenant, void *arg)
{
	(void)arg;
	if (tenant->leaving)
		log_event(LOG_NOTICE, "tenant-leaving",
			  &(struct log_ctx){ .tenant = tenant->name },
			  "it has no section any more, and goes when what it still has "
			  "has ended: %" PRIu32 " sessions, %" PRIu32 " leases",
			  tenant->n_sessions, tenant->n_leases);
	return 0;
}

static void reload(struct daemon *daemon)
{
	static struct config fresh;
	char restart[256];
	int level;

	config_default(&fresh);
	if ((daemon->config_path && config_load(daemon->config_path, &fresh)) ||
	    tenants_set(&daemon->tenants, fresh.tenants, fresh.n_tenants)) {
		log_event(LOG_ERR, "reload-failed", NULL, "%s; nothing was changed",
			  err_text());
		return;
	}
	level = daemon->config.log_level;
	(void)config_reload(&daemon->config, &fresh, restart, sizeof(restart));
	pools_set_scrub_rate(daemon->pools, daemon->config.scrub_rate);
	look_at_sessions(daemon);
	resizes_configure(daemon->resizes, &daemon->config);
	look_at_pools(daemon, false);
	/* who raises or lowers the level sees this line in either case */
	log_set_level(level > fresh.log_level ? level : fresh.log_level);
	log_event(*restart ? LOG_WARNING : LOG_NOTICE, "reloaded", NULL, "%s%s%s",
		  daemon->config_path ? daemon->config_path : "the defaults",
		  *restart ? "; needs a restart: " : "", restart);
	(void)tenants_each(&daemon->tenants, log_leaving, NULL);
	log_set_level(daemon->config.log_level);
}

static void on_reload(evutil_socket_t number, short what, void *arg)
{
	struct daemon *daemon = arg;

	(void)number;
	(void)what;
	if (daemon->stopping)
		return;
	systemd_reloading();
	reload(daemon);
	(void)loop_describe(daemon);
	systemd_ready("%s", daemon->status_text);
}

int loop_open(struct daemon *daemon)
{
	static const event_callback_fn callbacks[N_SIGNALS] = { on_stop, on_stop,
								on_reload };
	const struct timeval status_period = { .tv_sec = STATUS_S };

	for (unsigned i = 0; i < N_SIGNALS; i++) {
		daemon->signals[i] = evsignal_new(daemon->base, signal_numbers[i],
						  callbacks[i], daemon);
		if (!daemon->signals[i] || event_add(daemon->signals[i], NULL))
			return err_set(-ENOMEM, "no memory for the signals");
	}
	daemon->tick = evtimer_new(daemon->base, on_tick, daemon);
	daemon->given = evtimer_new(daemon->base, on_given_due, daemon);
	daemon->pools_event = event_new(daemon->base, pools_fd(daemon->pools),
					EV_READ | EV_PERSIST, on_scrubbed, daemon);
	daemon->status = event_new(daemon->base, -1, EV_PERSIST, on_status, daemon);
	if (!daemon->tick || !daemon->given || !daemon->pools_event ||
	    event_add(daemon->pools_event, NULL) || !daemon->status ||
	    event_add(daemon->status, &status_period))
		return err_set(-ENOMEM, "no memory for the loop's events");
	pools_on_freed(daemon->pools, on_given, daemon);
	/* what was there before has deadlines, and perhaps another size */
	look_at_sessions(daemon);
	resizes_configure(daemon->resizes, &daemon->config);
	look_at_pools(daemon, false);
	return systemd_watchdog_start(daemon->base);
}

static void event_drop(struct event *event)
{
	if (event)
		event_free(event);
}

void loop_close(struct daemon *daemon)
{
	log_ratelimit_flush();
	systemd_watchdog_stop();
	if (daemon->given)
		pools_on_freed(daemon->pools, NULL, NULL);
	event_drop(daemon->given);
	event_drop(daemon->pools_event);
	event_drop(daemon->status);
	event_drop(daemon->tick);
	for (unsigned i = 0; i < N_SIGNALS; i++)
		event_drop(daemon->signals[i]);
}
