/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/daemon.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/random.h"
#include "base/units.h"
#include "fabric/address.h"
#include "fabric/listen.h"
#include "rmemd/admin/admin.h"
#include "rmemd/admin/metrics_address.h"
#include "rmemd/config/changes.h"
#include "rmemd/control/auth.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/control.h"
#include "rmemd/control/descriptors.h"
#include "rmemd/control/listener.h"
#include "rmemd/control/session.h"
#include "rmemd/fabrics.h"
#include "rmemd/loop/events.h"
#include "rmemd/metrics/sample.h"
#include "rmemd/provision/plan.h"
#include "rmemd/provision/resize.h"
#include "rmemd/state/ledger.h"
#include "rmemd/state/restarts.h"
#include "rmemd/system/log_output.h"
#include "rmemd/system/log_ratelimit.h"
#include "rmemd/system/progress.h"
#include "rmemd/system/signals.h"
#include "rmemd/system/systemd.h"
#include "tls/context.h"
#include "tls/prepare.h"

/* Period of the line for the service manager and of the log's summary of dropped lines. */
#define STATUS_S 5
/* Of the ledger. */
#define FILLING_PERCENT 80
/* Larger than what malloc() has at hand without a search. */
#define HEAP_TIDY_BYTES 4096

static const int signal_numbers[] = { SIGTERM, SIGINT, SIGHUP };
#define N_SIGNALS (sizeof(signal_numbers) / sizeof(signal_numbers[0]))

struct daemon {
	struct config config;
	const char *config_path; /* NULL: there is none */
	struct event_base *base;
	struct fdstore *fdstore;
	struct ledger *ledger;
	bool state_filling; /* and the log says so */
	struct pools *pools;
	struct tenants tenants;
	struct control control;
	struct listener *listeners[CONFIG_LIST_MAX];
	unsigned n_listeners;
	char verbs_missing[256]; /* why RDMA is not served; "": it is */
	struct admin_sources sources;
	struct admin *admin;
	struct sample_sources metrics;
	struct metrics_address *metrics_address;
	struct event *signals[N_SIGNALS];
	struct event *status;
	struct config_reloaded reloaded; /* by the last reload */
	bool stopping;
	char status_text[192];
};

/* ---- status ---- */

/* How far pools that grow are, for the log, too; nothing when none does. */
static void describe_growth(struct daemon *daemon, char *buf, size_t buf_bytes)
{
	uint64_t done, bytes;

	if (!resizes_growing(daemon->control.resizes, &done, &bytes)) {
		buf[0] = '\0';
		return;
	}
	resizes_log_growth(daemon->control.resizes, done, bytes);
	(void)snprintf(buf, buf_bytes, "; populating pools: %s of %s",
		       UNITS_BYTES(done), UNITS_BYTES(bytes));
}

/* Make daemon->status_text anew; whether it has changed. */
static bool describe(struct daemon *daemon)
{
	char text[sizeof(daemon->status_text)];
	uint64_t lent = 0, bytes = 0;
	size_t used;

	for (unsigned i = 0; i < pools_count(daemon->pools); i++) {
		struct pool_status status = pools_status(daemon->pools, i);

		lent += status.lent;
		bytes += status.bytes;
	}
	used = (size_t)snprintf(text, sizeof(text),
				"%s of %s lent to %u sessions in %u leases",
				UNITS_BYTES(lent), UNITS_BYTES(bytes),
				sessions_count(daemon->control.sessions),
				leases_count(daemon->control.leases));
	if (daemon->control.drain.on)
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "; being drained");
	describe_growth(daemon, text + used, sizeof(text) - used);
	if (strcmp(text, daemon->status_text) == 0)
		return false;
	memcpy(daemon->status_text, text, sizeof(text));
	return true;
}

/* Before it is full.  Once, until less is in it. */
static void check_state(struct daemon *daemon)
{
	const struct ledger_usage usage = ledger_usage(daemon->ledger);
	uint64_t percent = usage.bytes * 100 / usage.max;

	daemon->metrics.state_bytes = usage.bytes;
	daemon->metrics.state_max = usage.max;
	if (percent >= FILLING_PERCENT && !daemon->state_filling)
		log_event(
			LOG_WARNING, "state-filling", NULL,
			"%s: the ledger of sessions and leases is %" PRIu64
			" %% full, %s of %s, and at 100 %% nothing more is lent: free "
			"leases, or make its file system larger",
			fdstore_place(daemon->fdstore), percent,
			UNITS_BYTES(usage.bytes), UNITS_BYTES(usage.max));
	if (percent >= FILLING_PERCENT || percent < FILLING_PERCENT - 10)
		daemon->state_filling = percent >= FILLING_PERCENT;
}

static void on_status(evutil_socket_t, short, void *arg)
{
	struct daemon *daemon = arg;

	log_ratelimit_flush();
	log_output_flush();
	check_state(daemon);
	if (!daemon->stopping && describe(daemon))
		systemd_status(daemon->status_text);
}

/* ---- signals ---- */

/* back: clients may resume with the next process. */
static void stop(struct daemon *daemon, const char *why, bool back)
{
	daemon->stopping = true;
	log_event(LOG_NOTICE, "stopping", NULL, "%s with %u sessions", why,
		  sessions_count(daemon->control.sessions));
	systemd_stopping();
	daemon->sources.n_listeners = 0;
	while (daemon->n_listeners > 0)
		listener_close(daemon->listeners[--daemon->n_listeners]);
	control_stop(&daemon->control, back);
}

static void on_stop(evutil_socket_t number, short, void *arg)
{
	struct daemon *daemon = arg;

	/* asked twice: wait for nothing */
	if (daemon->stopping)
		_exit(128 + number);
	stop(daemon, "asked to stop", fdstore_lasts(daemon->fdstore));
}

/* control->drained: nobody is to start the daemon again, so no session has a next process. */
static void on_drained(void *user)
{
	struct daemon *daemon = user;

	if (daemon->stopping)
		return;
	if (systemd_stay_stopped())
		log_event(LOG_ERR, "stays-not-stopped", NULL, "%s", err_text());
	stop(daemon, "drained", false);
}

static void log_leaving(const struct tenants *tenants)
{
	list_for_each_entry(const struct tenant, tenant, &tenants->all, link)
		if (tenant->leaving)
			log_event(
				LOG_NOTICE, "tenant-leaving",
				&(struct log_ctx){ .tenant = tenant->name },
				"it has no section any more, and is removed when these "
				"have ended: %" PRIu32 " sessions, %" PRIu32 " leases",
				tenant->n_sessions, tenant->n_leases);
}

/* Load the configuration anew, with its keys and certificates; nothing is changed on failure. */
static int reload_files(struct daemon *daemon, struct config *fresh,
			struct tls_context **ret_tls)
{
	enum config_auth auth;
	int err = 0;

	config_default(fresh);
	if (daemon->config_path)
		err = config_load(daemon->config_path, fresh);
	if (err)
		return err;
	/* another kind needs a restart */
	auth = fresh->auth;
	fresh->auth = daemon->config.auth;
	if (auth == fresh->auth)
		err = auth_load(fresh, ret_tls);
	else
		*ret_tls = daemon->control.tls ? tls_context_ref(daemon->control.tls)
					       : NULL;
	fresh->auth = auth;
	if (!err)
		err = tenants_set(&daemon->tenants, fresh->tenants, fresh->n_tenants);
	if (err)
		tls_context_unref(*ret_tls);
	return err;
}

/* What is in force: the configuration, but for the pools, which may differ from it. */
static void in_force(const struct daemon *daemon, struct config *ret_config)
{
	*ret_config = daemon->config;
	for (unsigned k = 0; k < ret_config->n_pools; k++)
		for (unsigned i = 0; i < pools_count(daemon->pools); i++) {
			const struct pool_params *is = pools_params(daemon->pools, i);

			if (strcmp(is->name, ret_config->pools[k].name) != 0)
				continue;
			ret_config->pools[k] = *is;
			ret_config->pools[k].bytes =
				resizes_bytes(daemon->control.resizes, i);
		}
}

static int hold_room(const struct daemon *daemon)
{
	int err = sessions_hold_room(daemon->config.sessions_max, daemon->ledger);

	if (err)
		log_event(LOG_WARNING, "state-full", NULL, "%s", err_text());
	return err;
}

/* Put a configuration that has been loaded in force, as far as that is possible now. */
static void apply(struct daemon *daemon, const struct config *fresh,
		  struct tls_context *tls)
{
	static struct config before, now;
	struct tls_context *old_tls;

	in_force(daemon, &before);
	before.log_level = log_level();
	config_reload(&daemon->config, fresh);
	old_tls = daemon->control.tls;
	daemon->control.tls = tls;
	control_reload(&daemon->control);
	(void)hold_room(daemon);
	in_force(daemon, &now);
	config_compare(&before, &now, &daemon->reloaded.changed);
	auth_compare(old_tls, tls, &daemon->reloaded.changed);
	tls_context_unref(old_tls);
	config_compare(&now, fresh, &daemon->reloaded.needs_restart);
}

static void log_reloaded(const struct daemon *daemon)
{
	const struct config_changes *left = &daemon->reloaded.needs_restart;
	int level = log_level(), new_level = daemon->config.log_level;
	char names[256];

	/* a change of the level hides this line in neither direction */
	log_set_level(level > new_level ? level : new_level);
	log_event(left->n ? LOG_WARNING : LOG_NOTICE, "reloaded", NULL, "%s%s%s",
		  daemon->config_path ? daemon->config_path : "the defaults",
		  left->n ? "; needs a restart: " : "",
		  config_changes_names(left, names, sizeof(names)));
	log_leaving(&daemon->tenants);
	log_set_level(new_level);
}

static void warn_unused(const struct config *config)
{
	static struct config_changes unused;
	char names[256];

	config_unused(config, &unused);
	if (unused.n)
		log_event(LOG_WARNING, "keys-unused", NULL,
			  "without effect, as their fabric has enabled = no: %s",
			  config_changes_names(&unused, names, sizeof(names)));
}

static int configure(struct daemon *daemon)
{
	static struct config fresh;
	struct tls_context *tls = NULL;

	if (reload_files(daemon, &fresh, &tls)) {
		log_event(LOG_ERR, "reload-failed", NULL, "%s; nothing was changed",
			  err_text());
		return -EINVAL;
	}
	apply(daemon, &fresh, tls);
	log_reloaded(daemon);
	warn_unused(&fresh);
	return 0;
}

/* As admin_sources.reload(). */
static int reload(void *ctx, const struct config_reloaded **ret_reloaded)
{
	struct daemon *daemon = ctx;
	struct err_saved result;

	if (daemon->stopping)
		return err_set(-EAGAIN, "the daemon stops");
	systemd_reloading();
	err_save(&result, configure(daemon));
	(void)describe(daemon);
	systemd_ready(daemon->status_text);
	*ret_reloaded = &daemon->reloaded;
	return err_restore(&result);
}

static void on_reload(evutil_socket_t, short, void *arg)
{
	const struct config_reloaded *reloaded;

	(void)reload(arg, &reloaded);
}

/* Whether a restart loses what is lent. */
static void on_verified(void *, int err)
{
	if (err == -ENOSPC)
		log_event(LOG_ERR, "not-kept", NULL, "%s", err_text());
	else if (err)
		log_event(LOG_WARNING, "kept-unknown", NULL,
			  "%s, so it is not known whether a restart loses what is lent",
			  err_text());
}

static int open_events(struct daemon *daemon)
{
	static const event_callback_fn callbacks[N_SIGNALS] = { on_stop, on_stop,
								on_reload };
	const struct timeval status_period = { .tv_sec = STATUS_S };

	for (unsigned i = 0; i < N_SIGNALS; i++) {
		daemon->signals[i] =
			event_make(daemon->base, signal_numbers[i],
				   EV_SIGNAL | EV_PERSIST, callbacks[i], daemon);
		if (!daemon->signals[i] || event_add(daemon->signals[i], NULL))
			return err_set(-ENOMEM, "no memory for the signals");
	}
	signals_release();
	daemon->status = event_make(daemon->base, -1, EV_PERSIST, on_status, daemon);
	if (!daemon->status || event_add(daemon->status, &status_period))
		return err_set(-ENOMEM, "no memory for the event of the status");
	return systemd_watchdog_start(daemon->base);
}

/* ---- opening ---- */

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

static int listen_on(struct daemon *daemon, struct fabric_address address)
{
	int err;

	address.port = daemon->config.port;
	err = listener_open(&daemon->control, &address,
			    &daemon->listeners[daemon->n_listeners]);
	if (err && listener_skips(&address, err))
		return 0;
	if (!err)
		daemon->n_listeners++;
	return err;
}

/* The configuration knows nothing of the sockets that were passed. */
static int check_passed(const struct daemon *daemon, const struct listener *listener)
{
	if (daemon->config.auth != CONFIG_AUTH_NONE || daemon->config.insecure ||
	    listener->loopback)
		return 0;
	return err_set(
		-EINVAL,
		"the socket that was passed listens on %s, which is not loopback, and "
		"auth = none accepts any client: say auth = psk or certificate, or add "
		"insecure = yes if every host that reaches it is trusted",
		listener->name);
}

static int open_listeners(struct daemon *daemon, const struct systemd_fds *fds)
{
	int err = 0;

	for (unsigned i = 0; !err && i < fds->n_control; i++) {
		err = listener_open_fd(&daemon->control, fds->control[i],
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

static void on_pool(void *, const struct pool_status *status, const char *note)
{
	log_event(LOG_INFO, "pool-ready", &(struct log_ctx){ .pool = status->name },
		  "%s on pages of %s (%s), node %d%s%s", UNITS_BYTES(status->bytes),
		  UNITS_BYTES(status->page_bytes), pool_pages_name(status->pages_got),
		  status->node_got, note && *note ? "; " : "", note ? note : "");
}

static int on_populating(void *ctx, uint64_t done, uint64_t bytes)
{
	progress_report(ctx, done, bytes);
	return signals_check();
}

static void on_stays(const struct pool_params *params)
{
	log_event(LOG_WARNING, "pool-stays", &(struct log_ctx){ .pool = params->name },
		  "configured otherwise now, and there are leases in it: it stays as "
		  "it was");
}

static int set_damage_error(const struct daemon *daemon, int err)
{
	return err_set(err, "%s: %s; %s", fdstore_place(daemon->fdstore), err_text(),
		       fdstore_remedy(daemon->fdstore));
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

	err = plan_make(&plan, &daemon->config, daemon->ledger, daemon->fdstore,
			leases_use_pool, on_stays);
	if (!err)
		err = pools_open(plan.pools, plan.n_pools, &events, &daemon->pools);
	if (err == -EBADMSG)
		return set_damage_error(daemon, err);
	if (!err)
		err = plan_record(&plan, daemon->pools, daemon->ledger,
				  daemon->fdstore);
	return err;
}

static int open_state(struct daemon *daemon, const struct systemd_fds *fds)
{
	int err = fdstore_open(daemon->config.state, fds, &daemon->fdstore);

	if (err)
		return err;
	err = ledger_open(fdstore_ledger(daemon->fdstore), &daemon->ledger);
	if (err == -EPROTONOSUPPORT || err == -EBADMSG)
		return set_damage_error(daemon, err);
	if (err == -ENOSPC)
		return err_set(err, "%s: %s", fdstore_place(daemon->fdstore),
			       err_text());
	if (err)
		return err;
	ledger_set_place(daemon->ledger, fdstore_place(daemon->fdstore));
	err = hold_room(daemon);
	/* without room nothing is begun, but what was lent is served */
	return ledger_count(daemon->ledger) > 0 ? 0 : err;
}

static int open_control(struct daemon *daemon)
{
	struct control *control = &daemon->control;
	int err;

	daemon->base = event_base_new();
	if (!daemon->base)
		return err_set(-ENOMEM, "no event loop");
	control->base = daemon->base;
	control->config = &daemon->config;
	control->tenants = &daemon->tenants;
	control->ledger = daemon->ledger;
	control->fdstore = daemon->fdstore;
	control->first_id = first_id();
	control->drained = on_drained;
	control->user = daemon;
	/* channels are admitted by OpenSSL with auth = none too */
	err = tls_prepare();
	if (!err)
		err = auth_load(control->config, &control->tls);
	return err ? err : control_open(control);
}

/* A number of the metrics alone: without room in the ledger the restart is not counted. */
static void count_restart(struct daemon *daemon)
{
	const struct control *control = &daemon->control;

	if (sessions_count(control->sessions) + leases_count(control->leases) > 0 &&
	    restarts_add(daemon->ledger))
		log_event(LOG_WARNING, "restart-not-counted", NULL, "%s", err_text());
	daemon->metrics.restarts = restarts_get(daemon->ledger);
}

/* The ports of RDMA devices that are served, each once. */
static unsigned find_ports(const struct endpoints *endpoints, struct port_id *ports)
{
	unsigned n = 0;

	for (unsigned i = 0; i < endpoints->n; i++) {
		const struct endpoint *endpoint = &endpoints->at[i];
		const struct fabric_device_attr *attr;
		struct fabric_port_attr port;
		unsigned k = 0;

		if (!endpoint->ops->device ||
		    endpoint->ops->device(endpoint->server, endpoint->local, &attr,
					  &port))
			continue;
		while (k < n && (ports[k].number != port.number ||
				 strcmp(ports[k].device, endpoint->info->device) != 0))
			k++;
		if (k < n)
			continue;
		ports[n].number = port.number;
		memcpy(ports[n].device, endpoint->info->device,
		       sizeof(ports[n].device));
		n++;
	}
	return n;
}

static int open_ports(struct daemon *daemon)
{
	struct port_id ports[WIRE_ENDPOINTS_MAX];
	unsigned n = find_ports(&daemon->control.endpoints, ports);

	return n ? port_counters_open(PORT_COUNTERS_SYSFS, ports, n,
				      &daemon->metrics.ports)
		 : 0;
}

static void fill_sources(struct daemon *daemon)
{
	struct admin_sources *sources = &daemon->sources;

	sources->n_listeners = daemon->n_listeners;
	if (*daemon->verbs_missing)
		sources->verbs_missing = daemon->verbs_missing;
	for (unsigned i = 0; i < daemon->n_listeners; i++)
		sources->listeners[i] = daemon->listeners[i]->name;
}

/* Sessions have random tokens, and keys over TCP are random; without them nobody could be
 * served. */
static int check_random(void)
{
	unsigned char byte;

	return random_bytes(&byte, sizeof(byte));
}

static void warn_missing_address(const char *key, const struct fabric_address *address)
{
	char host[FABRIC_ADDRESS_TEXT];

	if (!fabric_address_is_loopback(address) && !fabric_address_is_here(address))
		log_event(LOG_WARNING, "address-missing", NULL,
			  "%s: this host does not have the address %s; connections "
			  "there are accepted once it has",
			  key, fabric_address_host(address, host));
}

static void warn_missing_addresses(const struct config *config)
{
	for (unsigned i = 0; i < config->n_listen; i++)
		warn_missing_address("[server] listen", &config->listen[i]);
	if (config->metrics_listen.family)
		warn_missing_address("[metrics] listen", &config->metrics_listen);
}

static int open_all(struct daemon *daemon)
{
	static struct systemd_fds fds;
	int err = tenants_set(&daemon->tenants, daemon->config.tenants,
			      daemon->config.n_tenants);

	if (!err)
		err = check_random();
	if (!err)
		err = systemd_stay_started();
	if (!err)
		err = descriptors_raise_limit();
	if (!err)
		err = systemd_listen_fds(&fds);
	if (!err)
		err = open_state(daemon, &fds);
	if (!err)
		err = open_control(daemon);
	/* sockets first: without them there is no point in touching all the memory; no
	 * client is answered before the loop runs */
	if (!err)
		err = open_listeners(daemon, &fds);
	if (!err)
		err = admin_open(daemon->base, &daemon->sources,
				 daemon->config.admin_socket, fds.admin,
				 &daemon->admin);
	if (!err && daemon->config.metrics_listen.family)
		err = metrics_address_open(daemon->base, &daemon->sources,
					   &daemon->config.metrics_listen,
					   &daemon->metrics_address);
	if (!err)
		err = fabrics_open(&daemon->control, daemon->verbs_missing,
				   sizeof(daemon->verbs_missing));
	if (!err)
		err = open_pools(daemon);
	if (!err)
		err = control_start(&daemon->control, daemon->pools);
	if (err)
		return err;
	warn_missing_addresses(&daemon->config);
	warn_unused(&daemon->config);
	fill_sources(daemon);
	count_restart(daemon);
	check_state(daemon);
	err = open_ports(daemon);
	return err ? err : open_events(daemon);
}

int daemon_open(const struct config *config, const char *config_path,
		struct daemon **ret_daemon)
{
	struct daemon *daemon = calloc(1, sizeof(*daemon));
	int err;

	if (!daemon)
		return err_set(-ENOMEM, "no memory for the daemon");
	daemon->config = *config;
	daemon->config_path = config_path;
	daemon->sources.control = &daemon->control;
	daemon->sources.started_ms = clock_now_ms();
	daemon->sources.reload = reload;
	daemon->metrics = (struct sample_sources){
		.control = &daemon->control,
		.slices = &daemon->control.slices,
		.started_s = (uint64_t)time(NULL),
	};
	daemon->sources.metrics = &daemon->metrics;
	daemon->sources.ctx = daemon;
	tenants_init(&daemon->tenants);
	err = open_all(daemon);
	if (err) {
		daemon_close(daemon);
		return err;
	}
	*ret_daemon = daemon;
	return 0;
}

/* "tcp port 7462 (clients are told 192.0.2.1:17462)", "verbs port 7461 on rxe0" */
static const char *endpoint_text(const struct endpoint *endpoint, char *buf,
				 size_t buf_bytes)
{
	const struct fabric_endpoint *info = endpoint->info;
	const struct fabric_address *told = &endpoint->advertised;
	char port[24] = " directly", address[FABRIC_ADDRESS_TEXT];

	if (info->awaited)
		(void)snprintf(port, sizeof(port), " later");
	else if (!(info->flags & FABRIC_ENDPOINT_DIRECT))
		(void)snprintf(port, sizeof(port), " port %u", info->address.port);
	(void)snprintf(buf, buf_bytes, "%s%s%s%s%s%s%s", endpoint->ops->name, port,
		       *info->device ? " on " : "", info->device,
		       told->port ? " (clients are told " : "",
		       told->port ? fabric_address_text(told, address) : "",
		       told->port ? ")" : "");
	return buf;
}

static void log_ready(const struct daemon *daemon)
{
	const struct endpoints *endpoints = &daemon->control.endpoints;
	char text[1024] = "";
	size_t len = 0;

	for (unsigned i = 0; i < daemon->n_listeners && len < sizeof(text); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s",
					i ? ", " : "", daemon->listeners[i]->name);
	for (unsigned i = 0; i < endpoints->n && len < sizeof(text); i++) {
		char endpoint[192];

		len += (size_t)snprintf(
			text + len, sizeof(text) - len, "%s%s", i ? ", " : "; data by ",
			endpoint_text(&endpoints->at[i], endpoint, sizeof(endpoint)));
	}
	log_event(LOG_NOTICE, "ready", NULL, "listening on %s", text);
	if (daemon->metrics_address)
		log_event(LOG_NOTICE, "metrics-served", NULL,
			  "for every host that reaches it: http://%s/metrics",
			  fabric_address_text(&daemon->config.metrics_listen,
					      (char[FABRIC_ADDRESS_TEXT]){ 0 }));
}

/* malloc() sorts the chunks freed before when it looks for a large one: with many of them, as after
 * the end of a session with many leases, that takes long.  So each turn sorts its own. */
static void heap_tidy(void)
{
	void *volatile large = malloc(HEAP_TIDY_BYTES);

	free(large);
}

/* Poll for events once, and handle them. */
static int run_turn(struct daemon *daemon)
{
	struct turn *turn = &daemon->control.turn;
	int result;

	turn_begin(turn, clock_thread_ns());
	result = event_base_loop(daemon->base, EVLOOP_ONCE);
	heap_tidy();
	turn_end(turn, clock_now_ns(), clock_thread_ns());
	return result;
}

int daemon_run(struct daemon *daemon)
{
	int result;

	(void)describe(daemon);
	log_ready(daemon);
	systemd_ready(daemon->status_text);
	fdstore_verify(daemon->fdstore, daemon->base, on_verified, NULL);
	do {
		result = run_turn(daemon);
	} while (result == 0 && !(daemon->stopping &&
				  connections_drained(daemon->control.connections)));
	return result < 0 ? err_set(-EIO, "the event loop failed") : 0;
}

void daemon_close(struct daemon *daemon)
{
	if (!daemon)
		return;
	admin_close(daemon->admin);
	metrics_address_close(daemon->metrics_address);
	port_counters_close(daemon->metrics.ports);
	while (daemon->n_listeners > 0)
		listener_close(daemon->listeners[--daemon->n_listeners]);
	control_close(&daemon->control);
	tls_context_unref(daemon->control.tls);
	tenants_destroy(&daemon->tenants);
	log_ratelimit_flush();
	systemd_watchdog_stop();
	event_drop(&daemon->status);
	for (unsigned i = 0; i < N_SIGNALS; i++)
		event_drop(&daemon->signals[i]);
	pools_close(daemon->pools);
	ledger_close(daemon->ledger);
	fdstore_close(daemon->fdstore);
	if (daemon->base)
		event_base_free(daemon->base);
	free(daemon);
}
