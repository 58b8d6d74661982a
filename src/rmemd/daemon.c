/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/units.h"
#include "rmemd/pool/plan.h"
#include "rmemd/state/ledger.h"
#include "rmemd/loop.h"
#include "rmemd/system/systemd.h"
#include "rmemd/system/progress.h"

/* Ids are not used again after a restart: they go on from the clock, faster than leases
 * can be granted, and stay below 2^53, which JSON carries exactly. */
static uint64_t first_id(void)
{
	const uint64_t epoch_s = 1750000000;
	struct timespec now;

	if (clock_gettime(CLOCK_REALTIME, &now) || (uint64_t)now.tv_sec <= epoch_s)
		return 1;
	return ((uint64_t)now.tv_sec - epoch_s) << 16;
}

static int listen_on(struct daemon *daemon, const char *text)
{
	struct fabric_address address;
	int err;

	err = listener_parse(text, daemon->config.port, &address);
	if (err)
		return err;
	err = listener_open(daemon->base, &daemon->control, daemon->connections,
			    &address, &daemon->listeners[daemon->n_listeners]);
	if (err && listener_skips(&address, err))
		return 0;
	if (!err)
		daemon->n_listeners++;
	return err;
}

/* The configuration knows nothing of the sockets that were passed. */
static int check_passed(const struct daemon *daemon, const struct listener *listener)
{
	if (daemon->config.insecure || listener_is_loopback(listener))
		return 0;
	return err_set(
		-EINVAL,
		"the socket that was passed listens on %s, which is not loopback, and "
		"auth = none accepts any client: add insecure = yes if every host "
		"that reaches it is trusted",
		listener_name(listener));
}

static int open_listeners(struct daemon *daemon, const struct systemd_fds *fds)
{
	int err = 0;

	for (unsigned i = 0; !err && i < fds->n_control; i++) {
		err = listener_open_fd(daemon->base, &daemon->control,
				       daemon->connections, fds->control[i],
				       &daemon->listeners[daemon->n_listeners]);
		if (!err)
			err = check_passed(daemon,
					   daemon->listeners[daemon->n_listeners++]);
	}
	if (fds->n_control)
		return err;
	for (unsigned i = 0; !err && i < daemon->config.n_listen; i++)
		err = listen_on(daemon, daemon->config.listen[i]);
	if (!err && daemon->n_listeners == 0)
		err = err_set(-EADDRNOTAVAIL,
			      "none of the addresses of [server] listen "
			      "is one of this host");
	return err;
}

static void on_pool(void *ctx, const struct pool_status *status, const char *note)
{
	char bytes[32], page[32];

	(void)ctx;
	log_event(LOG_INFO, "pool-ready", &(struct log_ctx){ .pool = status->name },
		  "%s on pages of %s (%s), node %d%s%s",
		  units_format_bytes(status->bytes, bytes, sizeof(bytes)),
		  units_format_bytes(status->page_bytes, page, sizeof(page)),
		  pool_pages_name(status->pages_got), status->node_got,
		  note && *note ? "; " : "", note ? note : "");
}

static void on_populating(void *ctx, uint64_t done, uint64_t bytes)
{
	progress_tell(ctx, done, bytes);
}

static void on_stays(const struct pool_params *params, const char *why)
{
	log_event(LOG_WARNING, "pool-stays", &(struct log_ctx){ .pool = params->name },
		  "%s, and there are leases in it: it stays as it was", why);
}

static int open_pools(struct daemon *daemon)
{
	static struct plan plan;
	struct progress progress = { 0 };
	const struct pools_events events = {
		.ctx = &progress,
		.ready = on_pool,
		.populating = on_populating,
	};
	int err;

	err = plan_make(&plan, &daemon->config, daemon->ledger, daemon->keep,
			leases_use_pool, on_stays);
	if (!err)
		err = pools_open(plan.pools, plan.n_pools, &events, &daemon->pools);
	if (!err)
		err = plan_record(&plan, daemon->pools, daemon->ledger, daemon->keep);
	return err;
}

/* ---- what outlasted the last process ---- */

/* A tenant without a section leaves when the last of what it had has ended. */
static struct tenant *restored_tenant(void *ctx, const char *name)
{
	static struct config defaults;
	struct daemon *daemon = ctx;
	struct tenant_params params;

	config_default(&defaults);
	params = defaults.tenants[0];
	(void)snprintf(params.name, sizeof(params.name), "%s", name);
	return tenants_ensure(&daemon->tenants, &params);
}

static struct lease_client *restored_holder(void *ctx, uint64_t session)
{
	struct daemon *daemon = ctx;

	return sessions_holder(daemon->sessions, session);
}

static void on_lost(void *ctx, uint64_t id, const char *name, const char *why)
{
	(void)ctx;
	log_event(LOG_ERR, "lease-lost", &(struct log_ctx){ .lease = id }, "\"%s\": %s",
		  name, why);
}

static int restore(struct daemon *daemon)
{
	const struct leases_restore with = { .tenant = restored_tenant,
					     .client = restored_holder,
					     .lost = on_lost,
					     .ctx = daemon };
	int err = sessions_restore(daemon->sessions, &with);
	unsigned n;

	if (!err)
		err = leases_restore(daemon->leases, &with);
	if (!err)
		err = pools_settle(daemon->pools);
	if (err == -EBADMSG || err == -EINVAL)
		return err_set(err, "%s; %s", err_text(), fdstore_remedy(daemon->keep));
	n = leases_count(daemon->leases);
	if (!err && sessions_count(daemon->sessions) + n > 0)
		log_event(LOG_NOTICE, "restored", NULL,
			  "%u sessions and %u leases of the last process",
			  sessions_count(daemon->sessions), n);
	return err;
}

/* Often the name is misspelt. */
static void warn_missing(const struct daemon *daemon, const struct pool_params *pool)
{
	const char *name = endpoints_missing(daemon->control.endpoints, pool);

	if (name)
		log_event(LOG_WARNING, "device-not-served",
			  &(struct log_ctx){ .pool = pool->name, .device = name },
			  "[pool %s] devices: no RDMA device %s is served now; when it "
			  "is there, restart rmemd",
			  pool->name, name);
}

static void set_endpoints(struct daemon *daemon)
{
	const struct endpoints *endpoints = daemon->control.endpoints;

	for (unsigned i = 0; i < pools_count(daemon->pools); i++) {
		const struct pool_params *pool = pools_params(daemon->pools, i);
		unsigned through = endpoints_of_pool(endpoints, pool);

		warn_missing(daemon, pool);
		pools_set_endpoints(daemon->pools, i, through);
		if (through != endpoints_all(endpoints))
			daemon->control.sole |= through;
	}
}

static void on_reclaim(void *ctx)
{
	struct daemon *daemon = ctx;

	leases_reclaim(daemon->leases);
}

static bool on_in_the_way(void *ctx, uint32_t pool, char *buf, size_t buf_bytes)
{
	const struct daemon *daemon = ctx;

	return leases_describe_reclaimed(daemon->leases, pool, buf, buf_bytes);
}

static const struct resizes_events resizes_events = {
	.reclaim = on_reclaim,
	.in_the_way = on_in_the_way,
};

static int open_tables(struct daemon *daemon)
{
	struct control *control = &daemon->control;
	uint64_t id = first_id();
	int err;

	err = open_pools(daemon);
	if (err)
		return err;
	pools_set_scrub_rate(daemon->pools, daemon->config.scrub_rate);
	set_endpoints(daemon);
	pools_set_extent_max(daemon->pools, endpoints_segment_max(control->endpoints));
	loop_count_memory(daemon);
	err = leases_open(daemon->pools, daemon->ledger, &loop_leases_events, daemon,
			  id, &daemon->leases);
	if (err)
		return err;
	control->leases = daemon->leases;
	err = sessions_open(control, &loop_sessions_events, daemon, id,
			    &daemon->sessions);
	if (err)
		return err;
	control->sessions = daemon->sessions;
	err = restore(daemon);
	if (err)
		return err;
	return resizes_open(daemon->pools, daemon->ledger, &resizes_events, daemon,
			    &daemon->resizes);
}

static int open_kept(struct daemon *daemon, const struct systemd_fds *fds)
{
	int err = fdstore_open(daemon->config.state, fds, &daemon->keep);

	if (err)
		return err;
	err = ledger_open(fdstore_ledger(daemon->keep), &daemon->ledger);
	if (err == -EPROTONOSUPPORT || err == -EBADMSG)
		return err_set(err, "%s; %s", err_text(), fdstore_remedy(daemon->keep));
	daemon->control.ledger = daemon->ledger;
	return err;
}

static int open_control(struct daemon *daemon)
{
	struct control *control = &daemon->control;

	control->config = &daemon->config;
	control->tenants = &daemon->tenants;
	if (gethostname(control->server, sizeof(control->server) - 1))
		control->server[0] = '\0';
	return connections_open(daemon->base, control, &daemon->connections);
}

static void fill_sources(struct daemon *daemon)
{
	struct admin_sources *sources = &daemon->sources;

	*sources = (struct admin_sources){
		.config = &daemon->config,
		.counters = &daemon->control.counters,
		.endpoints = daemon->control.endpoints,
		.leases = daemon->leases,
		.pools = daemon->pools,
		.sessions = daemon->sessions,
		.tenants = &daemon->tenants,
		.n_listeners = daemon->n_listeners,
		.verbs_missing = fabrics_verbs_missing(daemon->fabrics),
		.started_ms = daemon->started_ms,
	};
	for (unsigned i = 0; i < daemon->n_listeners; i++)
		sources->listeners[i] = listener_name(daemon->listeners[i]);
}

static int open_all(struct daemon *daemon)
{
	static struct systemd_fds fds;
	int err;

	err = tenants_set(&daemon->tenants, daemon->config.tenants,
			  daemon->config.n_tenants);
	if (err)
		return err;
	err = systemd_listen_fds(&fds);
	if (err)
		return err;
	err = open_kept(daemon, &fds);
	if (err)
		return err;
	daemon->base = event_base_new();
	if (!daemon->base)
		return err_set(-ENOMEM, "no event loop");
	err = open_control(daemon);
	if (err)
		return err;
	/* sockets first: when one cannot be had there is no point in touching all the
	 * memory; nobody is answered before the loop runs */
	err = open_listeners(daemon, &fds);
	if (err)
		return err;
	err = admin_open(daemon->base, &daemon->sources, daemon->config.admin_socket,
			 fds.admin, &daemon->admin);
	if (err)
		return err;
	err = fabrics_open(daemon->base, &daemon->config, &daemon->control,
			   &daemon->fabrics);
	if (err)
		return err;
	daemon->control.endpoints = fabrics_endpoints(daemon->fabrics);
	err = open_tables(daemon);
	if (err)
		return err;
	fill_sources(daemon);
	return loop_open(daemon);
}

int daemon_open(const struct config *config, const char *config_path,
		struct daemon **ret_daemon)
{
	struct daemon *daemon = calloc(1, sizeof(*daemon));
	int err;

	if (!daemon)
		return err_set(-ENOMEM, "no memory for the daemon");
	daemon->config = *config;
	daemon->started_ms = clock_now_ms();
	daemon->sessions_next_ms = UINT64_MAX;
	tenants_init(&daemon->tenants);
	if (config_path) {
		daemon->config_path = strdup(config_path);
		if (!daemon->config_path) {
			daemon_close(daemon);
			return err_set(-ENOMEM, "no memory for the daemon");
		}
	}
	err = open_all(daemon);
	if (err) {
		daemon_close(daemon);
		return err;
	}
	*ret_daemon = daemon;
	return 0;
}

static void log_ready(const struct daemon *daemon)
{
	const struct endpoints *endpoints = daemon->control.endpoints;
	char text[512] = "";
	size_t len = 0;

	for (unsigned i = 0; i < daemon->n_listeners && len < sizeof(text); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s",
					i ? ", " : "",
					listener_name(daemon->listeners[i]));
	for (unsigned i = 0; i < endpoints->n && len < sizeof(text); i++) {
		const struct fabric_endpoint *facts = endpoints->at[i].facts;
		char port[24] = " directly";

		if (!(facts->flags & FABRIC_ENDPOINT_DIRECT))
			(void)snprintf(port, sizeof(port), " port %u",
				       facts->address.port);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s%s%s%s",
					i ? ", " : "; data by ",
					endpoints->at[i].ops->name, port,
					*facts->device ? " on " : "", facts->device);
	}
	log_event(LOG_NOTICE, "ready", NULL, "listening on %s", text);
}

int daemon_run(struct daemon *daemon)
{
	(void)loop_describe(daemon);
	log_ready(daemon);
	systemd_ready("%s", daemon->status_text);
	if (event_base_dispatch(daemon->base) < 0)
		return err_set(-EIO, "the event loop failed");
	return 0;
}

void daemon_close(struct daemon *daemon)
{
	if (!daemon)
		return;
	admin_close(daemon->admin);
	while (daemon->n_listeners > 0)
		listener_close(daemon->listeners[--daemon->n_listeners]);
	connections_close(daemon->connections);
	/* no key is alive and no event comes after this */
	fabrics_close(daemon->fabrics);
	leases_close(daemon->leases);
	sessions_close(daemon->sessions);
	tenants_destroy(&daemon->tenants);
	loop_close(daemon);
	resizes_close(daemon->resizes);
	pools_close(daemon->pools);
	ledger_close(daemon->ledger);
	fdstore_close(daemon->keep);
	if (daemon->base)
		event_base_free(daemon->base);
	free(daemon->config_path);
	free(daemon);
}
