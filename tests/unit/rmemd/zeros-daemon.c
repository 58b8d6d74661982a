/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon without its sockets: the real files in a directory, ledger, pools,
 * scrubbers, leases and sessions.  The linker replaces some of their functions by those
 * below (-Wl,--wrap), so that the process can die before and after each. */
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/random.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/session.h"
#include "rmemd/provision/plan.h"
#include "rmemd/system/fdstore.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/lease_table.h"
#include "rmemd/state/ledger.h"
#include "unit/rmemd/stage-fabric.h"
#include "unit/rmemd/zeros.h"

#define PAGE UINT64_C(4096)

struct world *world;
struct control zeros_control;

static struct config config;
static struct tenants tenants;
static struct fabric_endpoint info[ZEROS_ENDPOINTS];
static struct fdstore *fdstore;
static struct ledger *ledger;
static struct pools *pools;
static bool freed;

_Noreturn void zeros_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	(void)fprintf(stderr, " (step %llu, %llu crashes)\n",
		      (unsigned long long)world->steps,
		      (unsigned long long)world->crashes);
	_exit(2);
}

uint64_t zeros_random(uint64_t below)
{
	return random_next(&world->random) % below;
}

MODULAR unsigned char zeros_pattern(uint64_t lease, uint64_t offset)
{
	uint32_t value = (uint32_t)offset * UINT32_C(2654435761) ^
			 (uint32_t)lease * UINT32_C(2246822519);

	return (unsigned char)((value ^ value >> 13) >> 7 | 1);
}

/* ---- points where the process may die ---- */

void zeros_point(void)
{
	if (atomic_fetch_sub(&world->fuse, 1) == 0)
		(void)raise(SIGKILL);
}

int __real_ledger_put(struct ledger *at, const struct ledger_key *key,
		      const void *value, size_t bytes);
int __wrap_ledger_put(struct ledger *at, const struct ledger_key *key,
		      const void *value, size_t bytes);
void __real_ledger_remove(struct ledger *at, const struct ledger_key *key);
void __wrap_ledger_remove(struct ledger *at, const struct ledger_key *key);
void __real_ledger_commit(struct ledger *at);
void __wrap_ledger_commit(struct ledger *at);
uint32_t __real_crc32c(uint32_t crc, const void *data, size_t bytes);
uint32_t __wrap_crc32c(uint32_t crc, const void *data, size_t bytes);
int __real_fallocate(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes);
int __real_ftruncate(int fd, off_t bytes);
int __wrap_ftruncate(int fd, off_t bytes);
void __real_pools_free(struct pools *at, struct extent extent);
void __wrap_pools_free(struct pools *at, struct extent extent);
void __real_zero_stream(void *addr, size_t bytes);
void __wrap_zero_stream(void *addr, size_t bytes);
int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left);

int __wrap_ledger_put(struct ledger *at, const struct ledger_key *key,
		      const void *value, size_t bytes)
{
	int err;

	zeros_point();
	err = __real_ledger_put(at, key, value, bytes);
	zeros_point();
	return err;
}

void __wrap_ledger_remove(struct ledger *at, const struct ledger_key *key)
{
	__real_ledger_remove(at, key);
	zeros_point();
}

void __wrap_ledger_commit(struct ledger *at)
{
	zeros_point();
	__real_ledger_commit(at);
	zeros_point();
}

/* While a record of the ledger is written. */
uint32_t __wrap_crc32c(uint32_t crc, const void *data, size_t bytes)
{
	zeros_point();
	return __real_crc32c(crc, data, bytes);
}

/* While the ledger moves, and while pools are made. */
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	int err;

	zeros_point();
	err = __real_fallocate(fd, mode, offset, bytes);
	zeros_point();
	return err;
}

int __wrap_ftruncate(int fd, off_t bytes)
{
	int err;

	zeros_point();
	err = __real_ftruncate(fd, bytes);
	zeros_point();
	return err;
}

void __wrap_pools_free(struct pools *at, struct extent extent)
{
	zeros_point();
	__real_pools_free(at, extent);
	zeros_point();
}

/* In the middle of a range that is zeroed. */
void __wrap_zero_stream(void *addr, size_t bytes)
{
	size_t half = bytes / 2 / 64 * 64;

	__real_zero_stream(addr, half);
	zeros_point();
	__real_zero_stream((char *)addr + half, bytes - half);
	zeros_point();
}

/* A scrubber limits its rate by the clock of this test, where an hour is short. */
int __wrap_nanosleep(const struct timespec *, struct timespec *)
{
	(void)usleep(20);
	return 0;
}

/* ---- callbacks ---- */

static uint64_t world_clock(void)
{
	return atomic_load(&world->now_ms) * 1000000;
}

static void drop_line(int, const char *, const struct log_ctx *, const char *)
{
}

static void on_granted(void *, const struct lease_status *)
{
}

static void on_ended(void *, const struct lease_status *, enum wire_reason reason)
{
	world->expired += reason == WIRE_REASON_EXPIRED;
}

static void on_timer_moved(void *)
{
}

static void on_session_due(struct control *, uint64_t)
{
}

static void on_freed(void *ctx)
{
	*(bool *)ctx = true;
}

static void on_pool_stays(const struct pool_params *)
{
	world->reconfigured++;
}

static struct tenant *find_tenant(void *, const char *name)
{
	struct tenant_params params = config.tenants[0];

	(void)snprintf(params.name, sizeof(params.name), "%s", name);
	return tenants_ensure(&tenants, &params);
}

/* A pool that has leases stays, so no lease is ever lost. */
static void on_lost(void *, uint64_t id, const char *name, const char *,
		    const char *why)
{
	zeros_fail("lease %llu \"%s\" is lost: %s", (unsigned long long)id, name, why);
}

/* ---- starting ---- */

static void add_pool(const char *name, uint64_t pages)
{
	struct pool_params *params = &config.pools[config.n_pools++];

	*params = (struct pool_params){ .node = POOL_NODE_ANY,
					.bytes = pages * PAGE,
					.pages = POOL_PAGES_BASE };
	(void)snprintf(params->name, sizeof(params->name), "%s", name);
}

static void configure(void)
{
	static const uint64_t rates[] = { 0, UINT64_C(64) << 10, UINT64_C(1) << 20 };
	static const char *const names[ZEROS_TENANTS] = { "red", "green", "blue" };

	config_default(&config);
	(void)snprintf(config.state, sizeof(config.state), "%s", world->state);
	config.fence_ms = ZEROS_FENCE_MS;
	config.grace_ms = ZEROS_GRACE_MS;
	config.scrub_rate = rates[zeros_random(3)];
	config.n_pools = 0;
	add_pool("one", world->pools % 3 == 2 ? 128 : 96);
	if (world->pools % 2 == 0)
		add_pool("two", 64);
	if (world->pools % 4 == 3)
		add_pool("three", 80);
	config.n_tenants = ZEROS_TENANTS;
	for (unsigned i = 0; i < ZEROS_TENANTS; i++) {
		config.tenants[i] = config.tenants[0];
		(void)snprintf(config.tenants[i].name, sizeof(config.tenants[i].name),
			       "%s", names[i]);
		config.tenants[i].limits.bytes_max = 120 * PAGE;
	}
}

static void check(int err, const char *what)
{
	if (err)
		zeros_fail("%s: %s", what, err_text());
}

/* Pools with leases that are not configured any more. */
static void count_unconfigured(const struct plan *plan)
{
	for (unsigned i = 0; i < plan->n_pools; i++) {
		unsigned k = 0;

		while (k < config.n_pools &&
		       strcmp(config.pools[k].name, plan->pools[i].name) != 0)
			k++;
		world->reconfigured += k == config.n_pools;
	}
}

static void start_pools(void)
{
	static struct plan plan;

	check(plan_make(&plan, &config, ledger, fdstore, leases_use_pool,
			on_pool_stays),
	      "planning pools");
	count_unconfigured(&plan);
	check(pools_open(plan.pools, plan.n_pools, NULL, &pools), "pools");
	check(plan_record(&plan, pools, ledger, fdstore), "recording pools");
	pools_set_scrub_rate(pools, config.scrub_rate);
	pools_set_extent_max(pools, 24 * PAGE);
	for (unsigned i = 0; i < pools_count(pools); i++) {
		struct pool_status status = pools_status(pools, i);

		zeros_control.memory_bytes += status.bytes;
	}
}

/* zeros_tick() runs the slices. */
static void on_wake(void *)
{
}

static void start_tables(void)
{
	static const struct leases_events lease_events = {
		.client_event = session_client_event,
		.client_notified = session_client_notified,
		.granted = on_granted,
		.ended = on_ended,
		.timer_moved = on_timer_moved,
	};
	const struct leases_restore with = { .tenant = find_tenant,
					     .client = sessions_lease_client,
					     .lost = on_lost,
					     .ctx = &zeros_control };
	/* higher than all ids of earlier processes */
	uint64_t id = atomic_load(&world->now_ms) << 10;

	slices_init(&zeros_control.slices, &zeros_control.turn, on_wake, NULL);
	check(leases_open(pools, ledger, &zeros_control.slices, &lease_events,
			  &zeros_control, id, &zeros_control.leases),
	      "leases");
	zeros_control.first_id = id;
	check(sessions_open(&zeros_control, on_session_due, &zeros_control.sessions),
	      "sessions");
	check(sessions_restore(zeros_control.sessions, &with), "restoring sessions");
	check(leases_restore(zeros_control.leases, &with), "restoring leases");
	check(pools_zero_unlent(pools), "settling");
	pools_on_freed(pools, on_freed, &freed);
}

void zeros_start(void)
{
	static struct systemd_fds none = { .admin = -1 };

	zeros_fabrics_init();
	clock_set_source(world_clock);
	log_set_sink(drop_line);
	configure();
	tenants_init(&tenants);
	check(tenants_set(&tenants, config.tenants, config.n_tenants), "tenants");
	zeros_control.endpoints.n = ZEROS_ENDPOINTS;
	for (unsigned i = 0; i < ZEROS_ENDPOINTS; i++) {
		const struct fabric_server_ops *ops =
			i ? &fake_tcp_server : &fake_verbs_server;
		struct endpoint *at = &zeros_control.endpoints.at[i];

		info[i] = (struct fabric_endpoint){ .kind = ops->kind,
						    .address = { .family = 4 },
						    .node = -1 };
		*at = (struct endpoint){ .ops = ops, .info = &info[i] };
		check(ops->open(NULL, &fake_fabric_events, NULL, &at->server),
		      "a fabric");
	}
	zeros_control.config = &config;
	zeros_control.tenants = &tenants;
	check(fdstore_open(config.state, &none, &fdstore), "the directory");
	check(ledger_open(fdstore_ledger(fdstore), &ledger), "the ledger");
	zeros_control.ledger = ledger;
	start_pools();
	start_tables();
}

void zeros_stop(void)
{
	/* the fabrics are closed, so no key is live */
	leases_close(zeros_control.leases);
	sessions_close(zeros_control.sessions);
	tenants_destroy(&tenants);
	pools_close(pools);
	ledger_close(ledger);
	fdstore_close(fdstore);
}

/* ---- events ---- */

void zeros_tick(void)
{
	slices_run(&zeros_control.slices);
	sessions_tick(zeros_control.sessions);
	leases_tick(zeros_control.leases);
}

void zeros_scrubbed(unsigned timeout_ms)
{
	struct pollfd pollfd = { .fd = pools_fd(pools), .events = POLLIN };

	if (poll(&pollfd, 1, (int)timeout_ms) > 0 && pools_process(pools))
		leases_retry(zeros_control.leases);
}

void zeros_scrub_freed(void)
{
	if (freed)
		pools_scrub(pools);
	freed = false;
}

/* ---- checks ---- */

/* What its tenant knows of it, or NULL. */
static const struct zeros_lease *known(uint64_t id)
{
	for (unsigned i = 0; i < ZEROS_LEASES; i++)
		if (world->leases[i].id == id)
			return &world->leases[i];
	return NULL;
}

static void check_segment(const struct lease *lease, const struct segment *segment,
			  uint64_t offset, uint64_t filled)
{
	const unsigned char *at = extent_addr(&segment->extent);

	for (uint64_t i = 0; i < segment->bytes; i++) {
		unsigned char wanted = zeros_pattern(lease->id, offset + i);

		if (at[i] == wanted || (at[i] == 0 && offset + i >= filled))
			continue;
		zeros_fail("lease %llu has %#x at %llu, and not %#x%s",
			   (unsigned long long)lease->id, at[i],
			   (unsigned long long)(offset + i), wanted,
			   offset + i < filled ? "" : " or zero");
	}
	world->looked += segment->bytes;
}

void zeros_check_bytes(void)
{
	list_for_each_entry(const struct lease, lease, &zeros_control.leases->all,
			    all) {
		const struct zeros_lease *as = known(lease->id);
		uint64_t offset = 0;

		for (unsigned i = 0; i < lease->n_segments; i++) {
			check_segment(lease, lease->segments[i], offset,
				      as ? as->filled : 0);
			offset += lease->segments[i]->bytes;
		}
		if (offset != lease->bytes)
			zeros_fail("lease %llu has %llu bytes, and not %llu",
				   (unsigned long long)lease->id,
				   (unsigned long long)offset,
				   (unsigned long long)lease->bytes);
	}
}

bool zeros_lease_find(uint64_t id, uint64_t *ret_bytes)
{
	const struct lease *lease = leases_find_id(zeros_control.leases, id);

	if (!lease || lease->state != WIRE_LEASE_READY)
		return false;
	*ret_bytes = lease->bytes;
	return true;
}

bool zeros_lease_zero(uint64_t id, uint64_t from)
{
	const struct lease *lease = leases_find_id(zeros_control.leases, id);
	uint64_t offset = 0;

	for (unsigned i = 0; lease && i < lease->n_segments; i++) {
		const struct segment *segment = lease->segments[i];
		const char *at = extent_addr(&segment->extent);

		for (uint64_t k = 0; k < segment->bytes; k++)
			if (offset + k >= from && at[k])
				return false;
		offset += segment->bytes;
	}
	return lease;
}
