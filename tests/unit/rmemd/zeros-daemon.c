/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon without its sockets, over real files in a directory.  The linker replaces some of its
 * functions by those below (-Wl,--wrap), so that the process can die before and after each. */
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
#include "rmemd/system/fdstore.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/lease_table.h"
#include "rmemd/state/ledger.h"
#include "unit/rmemd/bare-daemon.h"
#include "unit/librmem/fake-server.h"
#include "unit/rmemd/zeros.h"

#define PAGE UINT64_C(4096)
#define EXTENT_MAX (24 * PAGE)

struct world *world;
struct control zeros_control;

static struct config config;

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

/* A pool that has leases stays, so no lease is ever lost. */
static void on_line(int, const char *event, const struct log_ctx *, const char *text)
{
	if (strcmp(event, "lease-lost") == 0 || strcmp(event, "attachment-lost") == 0)
		zeros_fail("%s: %s", event, text);
	world->expired += strcmp(event, "lease-expired") == 0;
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
static void count_unconfigured(void)
{
	for (unsigned i = 0; i < pools_count(zeros_control.pools); i++) {
		const struct pool_params *params = pools_params(zeros_control.pools, i);
		unsigned k = 0;

		while (k < config.n_pools &&
		       strcmp(config.pools[k].name, params->name) != 0)
			k++;
		world->reconfigured += k == config.n_pools;
	}
}

void zeros_start(void)
{
	static const struct fabric_server_ops *const fabrics[] = { &fake_verbs_server,
								   &fake_tcp_server,
								   NULL };
	static struct systemd_fds none = { .admin = -1 };

	zeros_fabrics_init();
	clock_set_source(world_clock);
	log_set_sink(on_line);
	configure();
	check(fdstore_open(config.state, &none, &zeros_control.fdstore),
	      "the directory");
	zeros_control.base = event_base_new();
	zeros_control.config = &config;
	/* higher than all ids of earlier processes */
	zeros_control.first_id = atomic_load(&world->now_ms) << 10;
	check(bare_daemon_open(&zeros_control, fdstore_ledger(zeros_control.fdstore),
			       fabrics),
	      "starting");
	count_unconfigured();
	pools_set_extent_max(zeros_control.pools, EXTENT_MAX);
}

void zeros_stop(void)
{
	bare_daemon_close(&zeros_control);
	fdstore_close(zeros_control.fdstore);
	event_base_free(zeros_control.base);
}

/* ---- events ---- */

void zeros_tick(void)
{
	slices_run(&zeros_control.slices);
	sessions_tick(zeros_control.sessions);
	leases_tick(zeros_control.leases);
}

void zeros_scrub(unsigned timeout_ms)
{
	struct pools *pools = zeros_control.pools;
	struct pollfd pollfd = { .fd = pools_fd(pools), .events = POLLIN };

	pools_scrub(pools);
	(void)poll(&pollfd, 1, (int)timeout_ms);
	if (event_base_loop(zeros_control.base, EVLOOP_NONBLOCK) < 0)
		zeros_fail("no event loop");
	/* a pool may have gone, with the limit */
	pools_set_extent_max(pools, EXTENT_MAX);
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
