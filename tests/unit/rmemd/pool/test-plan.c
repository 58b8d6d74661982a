/* SPDX-License-Identifier: BSD-3-Clause */
/* Which pools the next process has, over real files, ledger and pools. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "rmemd/pool/plan.h"
#include "rmemd/lease/ledger_record.h"
#include "rmemd/state/ledger_kinds.h"
#include "rmemd/lease/lease.h"
#include "rmemd/state/ledger.h"
#include "rmemd/state/ledger_value.h"
#include "unit/unit.h"

#define MIB (UINT64_C(1) << 20)

static struct config config;
static struct plan plan;
static struct fdstore *keep;
static struct ledger *ledger;
static struct pools *pools;
static unsigned n_stay;

static void on_stays(const struct pool_params *params, const char *why)
{
	ck_assert_str_ne(params->name, "");
	ck_assert_str_ne(why, "");
	n_stay++;
}

static int take(void)
{
	static struct systemd_fds none = { .admin = -1 };

	n_stay = 0;
	ck_assert_msg(!fdstore_open(config.state, &none, &keep), "%s", err_text());
	ck_assert_msg(!ledger_open(fdstore_ledger(keep), &ledger), "%s", err_text());
	return plan_make(&plan, &config, ledger, keep, leases_use_pool, on_stays);
}

static void begin(void)
{
	ck_assert_msg(!take(), "%s", err_text());
	ck_assert_msg(!pools_open(plan.pools, plan.n_pools, NULL, &pools), "%s",
		      err_text());
	ck_assert_int_eq(plan_record(&plan, pools, ledger, keep), 0);
}

/* The process ends, however. */
static void end(void)
{
	pools_close(pools);
	pools = NULL;
	ledger_close(ledger);
	fdstore_close(keep);
}

static void setup(void)
{
	config_default(&config);
	(void)strcpy(config.state, "/dev/shm/rmem-plan.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(config.state));
	config.n_pools = 2;
	for (unsigned i = 0; i < 2; i++)
		config.pools[i] = (struct pool_params){ .node = POOL_NODE_ANY,
							.bytes = MIB,
							.pages = POOL_PAGES_BASE };
	(void)strcpy(config.pools[0].name, "other");
	(void)strcpy(config.pools[1].name, "bound");
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

/* Number of the pool that is bound. */
static unsigned bound(void)
{
	for (unsigned i = 0; i < pools_count(pools); i++)
		if (strcmp(pools_params(pools, i)->name, "bound") == 0)
			return i;
	ck_abort_msg("there is no such pool");
}

static void expect_bound_to(const char *first, const char *second)
{
	const struct pool_params *params = pools_params(pools, bound());

	ck_assert_uint_eq(params->n_devices, second ? 2 : first ? 1 : 0);
	if (first)
		ck_assert_str_eq(params->devices[0], first);
	if (second)
		ck_assert_str_eq(params->devices[1], second);
}

/* A lease in it, as the ledger has it. */
static void lend(void)
{
	const struct ledger_key key = { LEDGER_LEASE, 1, 0 };
	const struct lease_head head = { .head_bytes = sizeof(head),
					 .n_segments = 1,
					 .bytes = 100 };
	const struct segment_row row = { .bytes = 100,
					 .dirty = 100,
					 .pool = pools_params(pools, bound())->id };
	char value[sizeof(head) + sizeof(row) + 20];
	char *at = value_add(value, &head, sizeof(head));

	at = value_add(at, &row, sizeof(row));
	at = value_add_text(at, "tenant", 6);
	at = value_add_text(at, "name", 4);
	ck_assert_int_eq(ledger_put(ledger, &key, value, (size_t)(at - value)), 0);
	ledger_commit(ledger);
}

START_TEST(devices__stay_with_a_pool_that_is_not_configured)
{
	bind_to("able0", "able1");
	begin();
	expect_bound_to("able0", "able1");
	lend();
	end();
	config.n_pools = 1;
	for (unsigned i = 0; i < 2; i++) {
		begin();
		ck_assert_uint_eq(n_stay, 1);
		ck_assert_uint_eq(pools_count(pools), 2);
		expect_bound_to("able0", "able1");
		end();
	}
}
END_TEST

/* They may change from one process to the next, and what else is known of the pool stays. */
START_TEST(devices__are_those_of_the_last_configuration)
{
	static const char *const last[] = { "best0", NULL };

	bind_to("able0", "able1");
	begin();
	lend();
	ck_assert_int_eq(plan_record_growth(pools, bound(), 2 * MIB, ledger), 0);
	end();
	bind_to(last[_i], NULL);
	begin();
	ck_assert_uint_eq(n_stay, 0);
	expect_bound_to(last[_i], NULL);
	end();
	config.n_pools = 1;
	begin();
	expect_bound_to(last[_i], NULL);
	ck_assert_uint_eq(pools_params(pools, bound())->bytes, MIB);
	ck_assert_uint_eq(pools_params(pools, bound())->bytes_kept, MIB);
	ck_assert_uint_eq(pools_params(pools, bound())->bytes_grown, 2 * MIB);
	end();
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

/* The last field of the head is how many devices there are. */
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
	{ 0, false, 0 }, /* as a build wrote it that did not know of them */
	{ 0, true, 0 },
	{ 2, true, -EBADMSG },
	{ POOL_DEVICES_MAX + 1, true, -EBADMSG },
	{ UINT64_MAX, true, -EBADMSG },
};

START_TEST(devices__of_any_record)
{
	static struct record record;

	bind_to("able0", NULL);
	begin();
	lend();
	ck_assert_int_eq(ledger_each(ledger, LEDGER_POOL, copy_bound, &record), 1);
	devices_patch(&record, patches[_i].n, patches[_i].field);
	ck_assert_int_eq(ledger_put(ledger, &record.key, record.value, record.bytes),
			 0);
	ledger_commit(ledger);
	end();
	config.n_pools = 1;
	ck_assert_int_eq(take(), patches[_i].err);
	if (patches[_i].err) {
		ck_assert_ptr_nonnull(strstr(err_text(), "malformed"));
	} else {
		ck_assert_int_eq(pools_open(plan.pools, plan.n_pools, NULL, &pools), 0);
		expect_bound_to(NULL, NULL);
	}
	end();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("plan");
	TCase *tc = tcase_create("devices");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, devices__stay_with_a_pool_that_is_not_configured);
	tcase_add_loop_test(tc, devices__are_those_of_the_last_configuration, 0, 2);
	tcase_add_loop_test(tc, devices__of_any_record, 0,
			    sizeof(patches) / sizeof(patches[0]));
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
