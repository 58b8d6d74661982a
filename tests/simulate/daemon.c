/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "rmemd/control/auth.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/session.h"
#include "rmemd/lease/lease_table.h"
#include "rmemd/state/ledger.h"
#include "simulate/checks.h"
#include "simulate/events.h"
#include "simulate/fabric.h"
#include "simulate/fds.h"
#include "simulate/keys.h"
#include "simulate/messages.h"
#include "simulate/network.h"
#include "simulate/threads.h"
#include "tls/context.h"
#include "unit/librmem/fake-server.h"
#include "unit/rmemd/bare-daemon.h"
#include "unit/rmemd/storage.h"

#define PAGE UINT64_C(4096)

struct control daemon_control;
struct config daemon_config;
const char *const daemon_tenants[DAEMON_TENANTS] = { "red", "green" };
bool daemon_up, daemon_may_revoke, daemon_may_kick;
uint64_t daemon_paused_until_ns, daemon_awake_ns;

static bool dead, activated, stopping;
static bool may_revoke; /* the administrator does, in this history */
static int64_t fuse;
static uint64_t stop_by_ns, start_ns;

/* ---- points ---- */

void daemon_point(void)
{
	if (sim_actor != SIM_DAEMON || dead || fuse < 0 || fuse-- > 0)
		return;
	sim_note("the daemon dies");
	dead = true;
	sim_actor = SIM_NOBODY;
	storage_keep();
	sim_actor = SIM_DAEMON;
}

bool daemon_is_dead(void)
{
	return dead;
}

int __real_ledger_put(struct ledger *at, const struct ledger_key *key,
		      const void *value, size_t bytes);
int __wrap_ledger_put(struct ledger *at, const struct ledger_key *key,
		      const void *value, size_t bytes);
void __real_ledger_remove(struct ledger *at, const struct ledger_key *key);
void __wrap_ledger_remove(struct ledger *at, const struct ledger_key *key);
void __real_ledger_commit(struct ledger *at);
void __wrap_ledger_commit(struct ledger *at);
void __real_pools_free(struct pools *at, struct extent extent);
void __wrap_pools_free(struct pools *at, struct extent extent);
void __real_zero_stream(void *addr, size_t bytes);
void __wrap_zero_stream(void *addr, size_t bytes);
bool __wrap_turn_over(struct turn *turn);

int __wrap_ledger_put(struct ledger *at, const struct ledger_key *key,
		      const void *value, size_t bytes)
{
	int err;

	daemon_point();
	err = __real_ledger_put(at, key, value, bytes);
	daemon_point();
	return err;
}

void __wrap_ledger_remove(struct ledger *at, const struct ledger_key *key)
{
	__real_ledger_remove(at, key);
	daemon_point();
}

void __wrap_ledger_commit(struct ledger *at)
{
	daemon_point();
	__real_ledger_commit(at);
	daemon_point();
}

void __wrap_pools_free(struct pools *at, struct extent extent)
{
	daemon_point();
	if (!dead)
		check_freed(&extent);
	__real_pools_free(at, extent);
}

void __wrap_zero_stream(void *addr, size_t bytes)
{
	size_t half = bytes / 2 / 64 * 64;

	__real_zero_stream(addr, half);
	daemon_point();
	__real_zero_stream((char *)addr + half, bytes - half);
}

/* No time passes in a turn, so chance says when it has taken long enough. */
bool __wrap_turn_over(struct turn *turn)
{
	return turn->running && sim_chance(6);
}

/* ---- configuration ---- */

/* A client may look at the clock until time has passed. */
static uint64_t clock_source(void)
{
	if (sim_actor == SIM_CLIENT)
		sim_now_ns += 1000;
	return sim_now_ns;
}

static void drop_line(int, const char *event, const struct log_ctx *, const char *text)
{
	if (sim_verbose && daemon_up && !dead)
		sim_note("daemon: %s: %s", event, text);
}

static void add_pool(struct config *config, const char *name, uint64_t pages)
{
	struct pool_params *params = &config->pools[config->n_pools++];

	*params = (struct pool_params){ .node = POOL_NODE_ANY,
					.bytes = pages * PAGE,
					.pages = POOL_PAGES_BASE };
	(void)snprintf(params->name, sizeof(params->name), "%s", name);
}

static void configure_limits(struct config *config)
{
	config->n_tenants = DAEMON_TENANTS;
	for (unsigned i = 0; i < DAEMON_TENANTS; i++) {
		struct tenant_params *tenant = &config->tenants[i];

		*tenant = config->tenants[0];
		(void)snprintf(tenant->name, sizeof(tenant->name), "%s",
			       daemon_tenants[i]);
		/* of the last one the pools alone are the limit */
		tenant->limits.bytes_max =
			i == DAEMON_TENANTS - 1 ? 0 : (30 + sim_random(60)) * PAGE;
		tenant->limits.leases_max = (uint32_t)(6 + sim_random(20));
		tenant->limits.keys_max = (uint32_t)(40 + sim_random(60));
		tenant->limits.session_keys_max = (uint32_t)(20 + sim_random(60));
	}
}

void daemon_init(void)
{
	static const unsigned fences[] = { 600, 2000 }, graces[] = { 3000, 20000 };

	clock_set_source(clock_source);
	log_set_sink(drop_line);
	log_set_level(sim_verbose ? LOG_DEBUG : LOG_ERR);
	config_default(&daemon_config);
	daemon_config.fence_ms = fences[sim_random(2)];
	daemon_config.heartbeat_ms = daemon_config.fence_ms / 4;
	daemon_config.grace_ms = graces[sim_random(2)];
	daemon_config.sessions_max = 12;
	if (keys_used()) {
		daemon_config.auth = CONFIG_AUTH_PSK;
		(void)snprintf(daemon_config.psk, sizeof(daemon_config.psk), "%s",
			       keys_daemon_path());
	}
	daemon_config.n_pools = 0;
	add_pool(&daemon_config, "one", 24 + sim_random(40));
	if (!sim_chance(3))
		add_pool(&daemon_config, "two", 24 + sim_random(40));
	configure_limits(&daemon_config);
	activated = !sim_chance(3);
	may_revoke = sim_chance(6);
	fuse = -1;
	storage_open();
}

/* ---- starting ---- */

void daemon_start(void)
{
	static const struct fabric_server_ops *const fabrics[] = { &fake_verbs_server,
								   &fake_tcp_server,
								   NULL };
	struct control *control = &daemon_control;

	sim_note("the daemon starts");
	sim_actor = SIM_DAEMON;
	dead = stopping = false;
	sim_faults.daemon_memory_ns = 0;
	daemon_up = true;
	daemon_awake_ns = sim_now_ns;
	memset(control, 0, sizeof(*control));
	control->config = &daemon_config;
	/* higher than all ids of earlier processes */
	control->first_id = sim_now_ns / SIM_MS << 8;
	keys_loaded();
	if (bare_daemon_open(control, storage_ledger(), fabrics))
		sim_fail("the daemon does not start: %s", err_text());
	network_listen(true, activated);
	sim_actor = SIM_NOBODY;
	if (!dead)
		check_restored();
}

/* ---- ending ---- */

static void close_all(void)
{
	daemon_up = false;
	/* it is beyond its last point */
	fuse = -1;
	network_listen(false, activated);
	bare_daemon_close(&daemon_control);
	if (events_count())
		sim_fail("the daemon has closed, and events are left");
	daemon_paused_until_ns = 0;
	start_ns = sim_now_ns + (10 + sim_random(3000)) * SIM_MS;
	sim_actor = SIM_NOBODY;
}

/* After a turn. */
static void bury(void)
{
	if (!dead)
		return;
	sim_actor = SIM_DAEMON;
	close_all();
	storage_restore();
}

void daemon_kill(unsigned points)
{
	if (!daemon_up || fuse >= 0)
		return;
	fuse = points;
	if (points)
		return;
	sim_actor = SIM_DAEMON;
	daemon_point();
	bury();
}

void daemon_stop(void)
{
	if (!daemon_up || stopping)
		return;
	sim_note("the daemon is told to stop");
	sim_actor = SIM_DAEMON;
	stopping = true;
	stop_by_ns = sim_now_ns + 2000 * SIM_MS;
	control_stop(&daemon_control, true);
	network_listen(false, activated);
	sim_actor = SIM_NOBODY;
	bury();
}

static void stop_if_drained(void)
{
	if (!stopping || dead ||
	    (!connections_drained(daemon_control.connections) &&
	     sim_now_ns < stop_by_ns))
		return;
	sim_note("the daemon has stopped");
	sim_actor = SIM_DAEMON;
	close_all();
}

void daemon_end(void)
{
	if (daemon_up) {
		sim_actor = SIM_DAEMON;
		close_all();
	}
	storage_close();
}

/* ---- another configuration ---- */

/* As in src/rmemd/daemon.c. */
static void apply(const struct config *fresh, struct tls_context *tls)
{
	keys_loaded();
	tls_context_unref(daemon_control.tls);
	daemon_control.tls = tls;
	config_reload(&daemon_config, fresh);
	control_reload(&daemon_control);
}

static void load(const struct config *fresh)
{
	struct tls_context *tls = NULL;

	sim_actor = SIM_DAEMON;
	/* without memory nothing changes */
	if (!auth_load(fresh, &tls)) {
		if (!tenants_set(daemon_control.tenants, fresh->tenants,
				 fresh->n_tenants))
			apply(fresh, tls);
		else
			tls_context_unref(tls);
	}
	sim_actor = SIM_NOBODY;
	bury();
}

/* Pools come and go: another set, of which one is always there. */
static void configure_pools(struct config *config)
{
	static const char *const names[] = { "one", "two", "three" };

	memset(config->pools, 0, sizeof(config->pools));
	config->n_pools = 0;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!sim_chance(2) || (i == 2 && config->n_pools == 0))
			add_pool(config, names[i], 24 + sim_random(40));
}

void daemon_reload(void)
{
	static struct config fresh;

	if (!daemon_up || stopping)
		return;
	fresh = daemon_config;
	if (sim_chance(3))
		configure_limits(&fresh);
	if (sim_chance(3))
		configure_pools(&fresh);
	for (unsigned i = 0; i < fresh.n_pools; i++) {
		struct pool_params *pool = &fresh.pools[i];

		pool->bytes = (16 + sim_random(64)) * PAGE;
		pool->shrink_wait_ms = sim_random(4000);
		pool->shrink = sim_chance(4) ? POOL_SHRINK_REVOKE : POOL_SHRINK_REFUSE;
		daemon_may_revoke |= pool->shrink == POOL_SHRINK_REVOKE;
	}
	sim_note("the configuration is loaded again");
	load(&fresh);
}

void daemon_load_keys(void)
{
	static struct config same;

	if (!daemon_up || stopping)
		return;
	same = daemon_config;
	load(&same);
}

/* Of the leases that are there, one by chance. */
static int pick_lease(const struct lease_status *status, void *arg)
{
	uint64_t *picked = arg;

	if (!*picked || sim_chance(2))
		*picked = status->id;
	return 0;
}

static int pick_session(const struct session *session, void *arg)
{
	uint64_t *picked = arg;

	if (!*picked || sim_chance(2))
		*picked = session->lease_client.id;
	return 0;
}

static void revoke(void)
{
	uint64_t id = 0;

	(void)leases_each(daemon_control.leases, 0, pick_lease, &id);
	if (!id)
		return;
	sim_note("lease %llu is revoked", (unsigned long long)id);
	daemon_may_revoke = true;
	(void)leases_revoke(daemon_control.leases, id);
}

static void kick(void)
{
	uint64_t id = 0;

	(void)sessions_each(daemon_control.sessions, 0, pick_session, &id);
	if (!id)
		return;
	sim_note("session %llu is ended", (unsigned long long)id);
	daemon_may_kick = true;
	(void)sessions_kick(daemon_control.sessions, id);
}

void daemon_administer(void)
{
	if (!daemon_up || stopping || !may_revoke)
		return;
	sim_actor = SIM_DAEMON;
	if (sim_chance(4))
		kick();
	else
		revoke();
	sim_actor = SIM_NOBODY;
	bury();
}

void daemon_pause(uint64_t until_ns)
{
	if (daemon_up && until_ns > daemon_paused_until_ns)
		daemon_paused_until_ns = daemon_awake_ns = until_ns;
}

void daemon_heal(void)
{
	fuse = -1;
	daemon_paused_until_ns = 0;
	if (daemon_awake_ns > sim_now_ns)
		daemon_awake_ns = sim_now_ns;
	if (start_ns > sim_now_ns)
		start_ns = sim_now_ns;
}

/* ---- running ---- */

static bool running(void)
{
	return daemon_up && daemon_paused_until_ns <= sim_now_ns;
}

bool daemon_ready(void)
{
	if (!daemon_up)
		return start_ns <= sim_now_ns;
	return running() && (network_accept_waits() || events_ready() ||
			     (stopping && stop_by_ns <= sim_now_ns));
}

uint64_t daemon_due_ns(void)
{
	uint64_t due;

	if (!daemon_up)
		return start_ns;
	if (daemon_paused_until_ns > sim_now_ns)
		return daemon_paused_until_ns;
	due = events_due_ns();
	return stopping && stop_by_ns < due ? stop_by_ns : due;
}

static void accept_all(void)
{
	struct socket *socket;

	while ((socket = network_accept())) {
		const struct fabric_address address =
			messages_address(socket_client(socket));

		/* without memory it is closed */
		(void)connection_accept(daemon_control.connections,
					fds_add_socket(socket), &address);
	}
}

void daemon_turn(void)
{
	if (!daemon_up) {
		daemon_start();
		bury();
		return;
	}
	sim_actor = SIM_DAEMON;
	turn_begin(&daemon_control.turn, 0);
	accept_all();
	events_turn();
	turn_end(&daemon_control.turn, sim_now_ns, 0);
	sim_actor = SIM_NOBODY;
	stop_if_drained();
	bury();
}

bool daemon_work(void)
{
	bool done;

	if (!running())
		return false;
	sim_actor = SIM_DAEMON;
	done = threads_step();
	sim_actor = SIM_NOBODY;
	bury();
	return done;
}

uint64_t daemon_work_due_ns(void)
{
	uint64_t due = daemon_up ? threads_due_ns() : SIM_NEVER;

	return due < daemon_paused_until_ns ? daemon_paused_until_ns : due;
}

void daemon_wait(void)
{
	if (!threads_run())
		sim_fail("the daemon waits for nobody");
}
