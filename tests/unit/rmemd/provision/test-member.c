/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools are added and removed: with real memory, files and ledger.  The process may end at each
 * step. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "rmemd/lease/lease.h"
#include "rmemd/provision/addition.h"
#include "rmemd/pool/host.h"
#include "rmemd/provision/plan.h"
#include "rmemd/provision/resize.h"
#include "rmemd/state/ledger.h"
#include "unit/rmemd/pool/pools-case.h"

static struct config config;
static struct fdstore *fdstore;
static struct ledger *ledger;
static struct resizes *resizes;
static unsigned n_added, n_removed;
static bool has_lease; /* leases_use_pool() of the next process */

/* ---- a process ---- */

static void on_stays(const struct pool_params *params)
{
	ck_abort_msg("pool %s stays", params->name);
}

static bool uses_pool(const struct ledger *from, uint32_t id)
{
	(void)from;
	(void)id;
	return has_lease;
}

static void on_reclaim(void *ctx)
{
	(void)ctx;
}

static bool on_find_leases(void *ctx, struct pool_holders *holders, char *buf,
			   size_t buf_bytes)
{
	(void)ctx;
	(void)holders;
	buf[0] = '\0';
	(void)buf_bytes;
	return true;
}

static void on_added(void *ctx, unsigned i)
{
	(void)ctx;
	ck_assert_uint_eq(i, pools_count(pools) - 1);
	n_added++;
}

static void on_removed(void *ctx)
{
	(void)ctx;
	n_removed++;
}

static const struct resizes_events events = { .reclaim = on_reclaim,
					      .find_leases = on_find_leases,
					      .added = on_added,
					      .removed = on_removed };

static void start(void)
{
	static struct systemd_fds none = { .admin = -1 };
	static struct plan plan;

	n_added = n_removed = 0;
	ck_assert_msg(!fdstore_open(config.state, &none, &fdstore), "%s", err_text());
	ck_assert_msg(!ledger_open(fdstore_ledger(fdstore), &ledger), "%s", err_text());
	ck_assert_msg(!plan_make(&plan, &config, ledger, fdstore, uses_pool, on_stays),
		      "%s", err_text());
	open_pools(plan.pools, plan.n_pools);
	ck_assert_int_eq(plan_record(&plan, pools, ledger, fdstore), 0);
	ck_assert_int_eq(pools_zero_unlent(pools), 0);
	ck_assert_int_eq(resizes_open(pools, ledger, fdstore, &events, NULL, &resizes),
			 0);
	resizes_configure(resizes, &config);
}

static void stop(void)
{
	resizes_close(resizes);
	close_pools();
	ledger_close(ledger);
	fdstore_close(fdstore);
}

/* ---- the configuration ---- */

static void want(const char *name, uint64_t bytes)
{
	struct pool_params *params = &config.pools[config.n_pools++];

	*params = (struct pool_params)POOL("", POOL_NODE_ANY, bytes, POOL_PAGES_BASE);
	(void)strcpy(params->name, name);
}

static void configure(void)
{
	resizes_configure(resizes, &config);
	(void)resizes_work(resizes);
}

/* ---- what there is ---- */

static unsigned files(void)
{
	DIR *dir = opendir(config.state);
	const struct dirent *entry;
	unsigned n = 0;

	while ((entry = readdir(dir)))
		n += strncmp(entry->d_name, "pool-", 5) == 0;
	(void)closedir(dir);
	return n;
}

static int find(const char *name)
{
	for (unsigned i = 0; i < pools_count(pools); i++)
		if (strcmp(pools_params(pools, i)->name, name) == 0)
			return (int)i;
	return -1;
}

static const struct addition *addition(void)
{
	return list_first(&resizes_additions(resizes)->all, struct addition, link);
}

static void turn(void)
{
	(void)await_event();
	(void)resizes_work(resizes);
}

/* Until a pool of this name is there, or failed. */
static void await_added(const char *name)
{
	while (find(name) < 0 && addition()->state != ADDITION_FAILED)
		turn();
}

static void await_files(unsigned n)
{
	while (files() != n)
		turn();
}

static void setup(void)
{
	log_set_level(LOG_ERR);
	config_default(&config);
	(void)strcpy(config.state, "/dev/shm/rmem-member.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(config.state));
	has_lease = false;
	config.n_pools = 0;
	want("a", MIB);
	start();
}

static void teardown(void)
{
	DIR *dir = opendir(config.state);
	const struct dirent *entry;

	stop();
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			ck_assert_int_eq(unlinkat(dirfd(dir), entry->d_name, 0), 0);
	(void)closedir(dir);
	ck_assert_int_eq(rmdir(config.state), 0);
	host_set_root(NULL);
}

START_TEST(add__lends_and_lasts)
{
	struct extent extent;

	want("b", 4 * MIB);
	configure();
	/* nothing is granted of it yet */
	ck_assert_int_eq(alloc(2 * MIB, 8), -ENOSPC);
	ck_assert_uint_eq(pools_count(pools), 1);
	await_added("b");
	ck_assert_uint_eq(n_added, 1);
	ck_assert_uint_eq(files(), 2);
	extent = alloc_one(4 * MIB);
	ck_assert(extent_is(&extent, 0));
	ck_assert_str_eq(extent_pool(&extent).name, "b");
	extent_fill(&extent, 'x');
	pools_free(pools, extent);
	while (pools_status(pools, 1).scrubbing)
		turn();
	extent = alloc_one(4 * MIB);
	ck_assert(extent_is(&extent, 0));
	/* the next process has it, with its id */
	has_lease = true;
	stop();
	start();
	ck_assert_int_ge(find("b"), 0);
	ck_assert_uint_ne(pools_params(pools, 0)->id, pools_params(pools, 1)->id);
	ck_assert_uint_eq(files(), 2);
	/* ids are not used again */
	want("c", MIB);
	configure();
	await_added("c");
	ck_assert_uint_eq(pools_params(pools, 2)->id, 3);
}
END_TEST

START_TEST(add__without_memory_leaves_nothing)
{
	want("b", 512 * PIB / KIB);
	configure();
	await_added("b");
	ck_assert_int_eq(find("b"), -1);
	ck_assert_ptr_nonnull(strstr(addition()->failed.text, "make the pool smaller"));
	await_files(1);
	ck_assert_uint_eq(n_added, 0);
	/* a fixed configuration */
	config.pools[1].bytes = MIB;
	configure();
	await_added("b");
	ck_assert_int_eq(find("b"), 1);
	ck_assert_ptr_null(addition());
}
END_TEST

/* It fails after the memory is mapped.  Check runs each case in a process of its own, which loses
 * its rights here. */
START_TEST(add__over_the_limit_of_locked_memory_leaves_nothing)
{
	const struct rlimit limit = { .rlim_cur = 3 * MIB, .rlim_max = 3 * MIB };

	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	if (geteuid() == 0)
		ck_assert_int_eq(chown(config.state, 65534, (gid_t)-1) | seteuid(65534),
				 0);
	want("b", 8 * MIB);
	configure();
	await_added("b");
	ck_assert_ptr_nonnull(strstr(addition()->failed.text,
				     "of it used, too little to pin 8 MiB more: "
				     "LimitMEMLOCK=infinity"));
	await_files(1);
	if (getuid() == 0)
		ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

START_TEST(add__on_other_pages_than_the_files_leaves_nothing)
{
	want("b", 2 * MIB);
	config.pools[1].pages = POOL_PAGES_2M;
	/* no file on tmpfs has them */
	configure();
	await_added("b");
	ck_assert_int_eq(find("b"), -1);
	ck_assert_str_eq(addition()->failed.text,
			 "the pool's file is in pages of 4 KiB, not of 2 MiB (2M)");
	await_files(1);
}
END_TEST

/* _i: events after which the section is taken out again */
START_TEST(add__is_taken_back)
{
	want("b", 64 * MIB);
	configure();
	for (int i = 0; i < _i; i++)
		turn();
	config.n_pools = 1;
	configure();
	while (addition() || find("b") >= 0)
		turn();
	await_files(1);
	ck_assert_uint_eq(n_added, n_removed);
}
END_TEST

START_TEST(add__with_another_size_meanwhile)
{
	want("b", 64 * MIB);
	configure();
	config.pools[1].bytes = 2 * MIB;
	configure();
	await_added("b");
	while (addition())
		turn();
	ck_assert_uint_eq(pools_status(pools, 1).bytes, 2 * MIB);
	await_files(2);
	ck_assert_uint_eq(n_added, 1);
}
END_TEST

static void fake_host(uint64_t kib)
{
	static char root[] = "/tmp/rmem-host-XXXXXX";
	char path[128];
	FILE *file;

	ck_assert_ptr_nonnull(mkdtemp(root));
	(void)snprintf(path, sizeof(path), "%s/proc", root);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_gt(
		fprintf(file, "MemAvailable: %llu kB\n", (unsigned long long)kib), 0);
	(void)fclose(file);
	host_set_root(root);
}

/* Pools that are added together divide what is free equally, after those of a fixed size. */
START_TEST(add__divides_free_memory)
{
	fake_host(64 * 1024);
	want("auto1", POOL_BYTES_AUTO);
	want("auto2", POOL_BYTES_AUTO);
	want("fixed", 2 * MIB);
	configure();
	await_added("fixed");
	ck_assert_int_eq(find("auto1"), -1);
	await_added("auto2");
	ck_assert_int_eq(find("fixed"), 1);
	for (unsigned i = 2; i < 4; i++)
		ck_assert_uint_eq(pools_status(pools, i).bytes, 16 * MIB);
	host_set_root(NULL);
}
END_TEST

START_TEST(remove__of_an_empty_pool)
{
	struct extent extent;

	want("b", 4 * MIB);
	want("c", 2 * MIB);
	configure();
	await_added("c");
	/* c takes the place of b in the table, and stays as it is */
	ck_assert_int_eq(find("b"), 1);
	extent = alloc_one(4 * MIB);
	pools_free(pools, extent);
	while (pools_status(pools, 1).scrubbing)
		turn();
	config.pools[1] = config.pools[2];
	config.n_pools = 2;
	configure();
	ck_assert_int_eq(find("b"), -1);
	ck_assert_int_eq(find("c"), 1);
	ck_assert_uint_eq(n_removed, 1);
	ck_assert_int_eq(alloc(4 * MIB, 1), -ENOSPC);
	await_files(2);
	(void)alloc_one(2 * MIB);
	config.pools[1].bytes = 3 * MIB;
	configure();
	while (pools_status(pools, 1).bytes < 3 * MIB)
		turn();
}
END_TEST

START_TEST(remove__of_a_pool_in_use)
{
	struct extent extent, more;

	want("b", 4 * MIB);
	configure();
	await_added("b");
	extent = alloc_one(2 * MIB);
	extent_fill(&extent, 'x');
	config.n_pools = 1;
	configure();
	/* from now on, and not only when all of it is closed */
	(void)resizes_work(resizes);
	ck_assert(pools_status(pools, 1).leaving);
	ck_assert(extent_pool(&extent).leaving);
	more = alloc_one(4096);
	ck_assert_str_eq(extent_pool(&more).name, "a");
	ck_assert_int_eq(alloc(2 * MIB, 8), -ENOSPC);
	/* clients are asked for it, and it is never revoked */
	ck_assert_uint_eq(extent_reclaim(&extent).bytes, 2 * MIB);
	ck_assert_uint_eq(extent_reclaim(&extent).until_ms, UINT64_MAX);
	ck_assert_int_eq(extent_reclaim(&extent).then, POOL_SHRINK_REFUSE);
	ck_assert(extent_is(&extent, 'x'));
	/* it comes back */
	config.n_pools = 2;
	configure();
	ck_assert(!pools_status(pools, 1).leaving);
	ck_assert_uint_eq(extent_reclaim(&extent).bytes, 0);
	more = alloc_one(2 * MIB);
	ck_assert(extent_is(&more, 0));
	pools_free(pools, more);
	/* the part that is being zeroed is waited for, too */
	config.n_pools = 1;
	configure();
	pools_free(pools, extent);
	while (find("b") >= 0)
		turn();
	await_files(1);
}
END_TEST

START_TEST(remove__is_explained_to_requests)
{
	want("b", MIB);
	configure();
	await_added("b");
	config.pools[0] = config.pools[1];
	config.n_pools = 1;
	(void)alloc_one(4096);
	(void)alloc_one(4096);
	configure();
	ck_assert(pools_status(pools, 0).leaving);
	ck_assert_int_eq(
		alloc_as(
			&(struct pool_request){
				.bytes = 4096,
				.align = 1,
				.only = &(struct pool_names){ .at = { "a" }, .n = 1 } },
			8),
		-ENOSPC);
	ck_assert_str_eq(err_text(), "no room for 4 KiB: the pools that have room are "
				     "being removed from the server");
}
END_TEST

/* The process ends after _i events of an addition or, from 8 on, of a removal; the next one has
 * what is configured, and no more. */
START_TEST(crash__at_any_step)
{
	want("b", 8 * MIB);
	configure();
	for (int i = 0; i < _i && addition(); i++)
		turn();
	if (_i >= 8) {
		await_added("b");
		config.n_pools = 1;
		configure();
		for (int i = 8; i < _i && files() == 2; i++)
			(void)(i % 2 ? await_event() : resizes_work(resizes));
	}
	stop();
	start();
	ck_assert_uint_eq(pools_count(pools), config.n_pools);
	ck_assert_uint_eq(files(), config.n_pools);
	while (_i < 8 && pools_status(pools, 1).scrubbing)
		turn();
	if (_i < 8)
		(void)alloc_one(8 * MIB);
}
END_TEST

/* A pool that was leaving still leaves in the next process, if there are leases in it. */
START_TEST(crash__of_a_leaving_pool)
{
	struct extent extent;

	want("b", 4 * MIB);
	configure();
	await_added("b");
	(void)alloc_one(2 * MIB);
	config.n_pools = 1;
	configure();
	has_lease = true;
	stop();
	start();
	/* no lease was restored here, so all of it is free once it is zeroed */
	ck_assert_int_ge(find("b"), 0);
	(void)resizes_work(resizes);
	ck_assert(pools_status(pools, (unsigned)find("b")).leaving);
	ck_assert_int_eq(alloc(2 * MIB, 8), -ENOSPC);
	while (find("b") >= 0)
		turn();
	await_files(1);
	while (pools_status(pools, 0).scrubbing)
		turn();
	extent = alloc_one(MIB);
	ck_assert(extent_is(&extent, 0));
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("member", setup, teardown);

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, add__lends_and_lasts);
	tcase_add_test(tc, add__without_memory_leaves_nothing);
	tcase_add_test(tc, add__over_the_limit_of_locked_memory_leaves_nothing);
	tcase_add_test(tc, add__on_other_pages_than_the_files_leaves_nothing);
	tcase_add_loop_test(tc, add__is_taken_back, 0, 2);
	tcase_add_test(tc, add__with_another_size_meanwhile);
	tcase_add_test(tc, add__divides_free_memory);
	tcase_add_test(tc, remove__of_an_empty_pool);
	tcase_add_test(tc, remove__of_a_pool_in_use);
	tcase_add_test(tc, remove__is_explained_to_requests);
	tcase_add_loop_test(tc, crash__at_any_step, 0, 16);
	tcase_add_test(tc, crash__of_a_leaving_pool);
	return unit_main();
}
