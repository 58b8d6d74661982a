/* SPDX-License-Identifier: BSD-3-Clause */
/* The pools of the next process, with real files, ledger and pools. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "rmemd/provision/plan.h"
#include "rmemd/lease/ledger_record.h"
#include "rmemd/lease/lease.h"
#include "rmemd/state/ledger.h"
#include "rmemd/state/ledger_value.h"
#include "unit/rmemd/pool/pools-case.h"

static struct config config;
static struct plan plan;
static struct fdstore *fdstore;
static struct ledger *ledger;
static unsigned n_staying;

static void on_stays(const struct pool_params *params)
{
	ck_assert_str_ne(params->name, "");
	n_staying++;
}

static int make_plan(void)
{
	static struct systemd_fds none = { .admin = -1 };

	n_staying = 0;
	ck_assert_msg(!fdstore_open(config.state, &none, &fdstore), "%s", err_text());
	ck_assert_msg(!ledger_open(fdstore_ledger(fdstore), &ledger), "%s", err_text());
	return plan_make(&plan, &config, ledger, fdstore, leases_use_pool, on_stays);
}

static void start(void)
{
	ck_assert_msg(!make_plan(), "%s", err_text());
	open_pools(plan.pools, plan.n_pools);
	ck_assert_int_eq(plan_record(&plan, pools, ledger, fdstore), 0);
}

/* The process ends. */
static void stop(void)
{
	close_pools();
	ledger_close(ledger);
	fdstore_close(fdstore);
}

static void setup(void)
{
	config_default(&config);
	(void)strcpy(config.state, "/dev/shm/rmem-plan.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(config.state));
	config.n_pools = 2;
	config.pools[0] =
		(struct pool_params)POOL("other", POOL_NODE_ANY, MIB, POOL_PAGES_BASE);
	config.pools[1] =
		(struct pool_params)POOL("bound", POOL_NODE_ANY, MIB, POOL_PAGES_BASE);
}

static void teardown(void)
{
	DIR *dir = opendir(config.state);
	const struct dirent *entry;

	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			ck_assert_int_eq(unlinkat(dirfd(dir), entry->d_name, 0), 0);
	(void)closedir(dir);
	ck_assert_int_eq(rmdir(config.state), 0);
}

/* Set the devices of the pool "bound"; NULL: no device. */
static void bind_to(const char *first, const char *second)
{
	struct pool_params *params = &config.pools[1];

	memset(params->devices, 0, sizeof(params->devices));
	params->n_devices = second ? 2 : first ? 1 : 0;
	if (first)
		(void)strcpy(params->devices[0], first);
	if (second)
		(void)strcpy(params->devices[1], second);
}

/* The number of the pool with devices. */
static unsigned find_bound(void)
{
	for (unsigned i = 0; i < pools_count(pools); i++)
		if (strcmp(pools_params(pools, i)->name, "bound") == 0)
			return i;
	ck_abort_msg("there is no such pool");
}

static const struct pool_params *bound_params(void)
{
	return pools_params(pools, find_bound());
}

static void expect_bound_to(const char *first, const char *second)
{
	const struct pool_params *params = bound_params();

	ck_assert_uint_eq(params->n_devices, second ? 2 : first ? 1 : 0);
	if (first)
		ck_assert_str_eq(params->devices[0], first);
	if (second)
		ck_assert_str_eq(params->devices[1], second);
}

/* Add the record of a lease in this pool to the ledger. */
static void add_lease(void)
{
	const struct ledger_key key = { LEDGER_LEASE, 1, 0 };
	const struct lease_head head = { .head_bytes = sizeof(head),
					 .n_segments = 1,
					 .bytes = 100 };
	const struct segment_row row = { .bytes = 100,
					 .dirty = 100,
					 .pool = bound_params()->id };
	char value[sizeof(head) + sizeof(row) + 20];
	char *at = value_add(value, &head, sizeof(head));

	at = value_add(at, &row, sizeof(row));
	at = value_add_text(at, "tenant", 6);
	at = value_add_text(at, "name", 4);
	ck_assert_int_eq(ledger_put(ledger, &key, value, (size_t)(at - value)), 0);
	ledger_commit(ledger);
}

START_TEST(devices__of_an_unconfigured_pool_stay)
{
	bind_to("able0", "able1");
	start();
	expect_bound_to("able0", "able1");
	add_lease();
	stop();
	config.n_pools = 1;
	for (unsigned i = 0; i < 2; i++) {
		start();
		/* the user of the pools removes it with its last lease */
		ck_assert_uint_eq(n_staying, 0);
		ck_assert_uint_eq(pools_count(pools), 2);
		expect_bound_to("able0", "able1");
		stop();
	}
}
END_TEST

/* A new configuration changes the devices of a pool, and nothing else in its record. */
START_TEST(devices__are_those_of_the_last_configuration)
{
	static const char *const last[] = { "best0", NULL };

	bind_to("able0", "able1");
	start();
	add_lease();
	ck_assert_int_eq(plan_record_size(pools, find_bound(), MIB, 2 * MIB, ledger),
			 0);
	stop();
	bind_to(last[_i], NULL);
	start();
	ck_assert_uint_eq(n_staying, 0);
	expect_bound_to(last[_i], NULL);
	stop();
	config.n_pools = 1;
	start();
	expect_bound_to(last[_i], NULL);
	ck_assert_uint_eq(bound_params()->bytes, MIB);
	ck_assert_uint_eq(bound_params()->bytes_kept, MIB);
	ck_assert_uint_eq(bound_params()->bytes_grown, 2 * MIB);
	stop();
}
END_TEST

/* ---- records of other builds ---- */

struct record {
	struct ledger_key key;
	unsigned char value[4096];
	size_t bytes;
};

static int copy_bound(const struct ledger_key *key, const void *value, size_t bytes,
		      void *arg)
{
	struct record *record = arg;

	if (!memmem(value, bytes, "bound", 6))
		return 0;
	record->key = *key;
	record->bytes = bytes;
	memcpy(record->value, value, bytes);
	return 1;
}

/* Change the number of devices, the last field of the head, or remove this field. */
static void devices_patch(struct record *record, uint64_t n, bool field)
{
	uint32_t head_bytes, less = sizeof(n);
	unsigned char *at;

	memcpy(&head_bytes, record->value, sizeof(head_bytes));
	at = record->value + head_bytes - less;
	memcpy(at, &n, sizeof(n));
	if (field)
		return;
	head_bytes -= less;
	memcpy(record->value, &head_bytes, sizeof(head_bytes));
	memmove(at, at + less, record->bytes - head_bytes - less);
	record->bytes -= less;
}

static const struct {
	uint64_t n;
	bool field;
	int err;
} patches[] = {
	{ 0, false, 0 }, /* by a build without devices of pools */
	{ 0, true, 0 },
	{ 2, true, -EBADMSG },
	{ POOL_DEVICES_MAX + 1, true, -EBADMSG },
	{ UINT64_MAX, true, -EBADMSG },
};

START_TEST(devices__in_malformed_records_are_refused)
{
	static struct record record;

	bind_to("able0", NULL);
	start();
	add_lease();
	ck_assert_int_eq(ledger_each(ledger, LEDGER_POOL, copy_bound, &record), 1);
	devices_patch(&record, patches[_i].n, patches[_i].field);
	ck_assert_int_eq(ledger_put(ledger, &record.key, record.value, record.bytes),
			 0);
	ledger_commit(ledger);
	stop();
	config.n_pools = 1;
	ck_assert_int_eq(make_plan(), patches[_i].err);
	if (patches[_i].err) {
		ck_assert_ptr_nonnull(strstr(err_text(), "malformed"));
	} else {
		ck_assert_int_eq(pools_open(plan.pools, plan.n_pools, NULL, &pools), 0);
		expect_bound_to(NULL, NULL);
	}
	stop();
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("devices", setup, teardown);

	tcase_add_test(tc, devices__of_an_unconfigured_pool_stay);
	tcase_add_loop_test(tc, devices__are_those_of_the_last_configuration, 0, 2);
	tcase_add_loop_test(tc, devices__in_malformed_records_are_refused, 0,
			    sizeof(patches) / sizeof(patches[0]));
	return unit_main();
}
