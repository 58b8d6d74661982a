/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools are added and removed, as the configuration says. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rmemd/provision/addition.h"
#include "unit/rmemd/provision/resize-case.h"
#include "unit/unit.h"

/* ---- removing ---- */

/* The pool has no section any more. */
static void unconfigure(void)
{
	config.n_pools = 0;
	resizes_configure(resizes, &config);
	(void)resizes_work(resizes);
}

START_TEST(remove__waits_for_the_last_lease)
{
	fake.leased = true;
	fake.n_searches = 1;
	unconfigure();
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	ck_assert(fake.status.leaving);
	/* the leases are searched for in turns, and named once */
	ck_assert_uint_le(resizes_next_ms(resizes), now_ms);
	advance(0);
	assert_logged("pool-leaving: it has no section any more, and is removed when "
		      "these are free: 1 lease");
	ck_assert_uint_eq(resizes_next_ms(resizes), UINT64_MAX);
	logged[0][0] = '\0';
	advance(100 * WAIT_MS);
	ck_assert_str_eq(logged[0], "");
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	/* another reload changes nothing */
	unconfigure();
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	ck_assert_uint_eq(coming.n_forgotten, 0);
	free_closed_end();
	ck_assert_uint_eq(n_pools, 0);
	ck_assert_uint_eq(coming.n_removed, 1);
	(void)resizes_work(resizes);
	assert_logged("pool-removed: the system has its 64 MiB back");
	ck_assert_uint_eq(resizes_next_ms(resizes), UINT64_MAX);
}
END_TEST

/* It also interrupts growing; _i 1: an end that is closed. */
START_TEST(remove__of_a_pool_that_is_being_resized)
{
	reload(_i ? 32 * MIB : 128 * MIB);
	unconfigure();
	if (_i == 0) {
		ck_assert(fake.stopped);
		finish(-ECANCELED, 64 * MIB);
	} else {
		ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	}
	ck_assert(fake.status.leaving);
	free_closed_end();
	ck_assert_uint_eq(coming.n_removed, 1);
}
END_TEST

/* Its section is back before it is removed.  _i 1: with another node */
START_TEST(remove__is_taken_back)
{
	fake.leased = true;
	unconfigure();
	ck_assert(fake.status.leaving);
	config.n_pools = 1;
	config.pools[0].node = _i ? 1 : POOL_NODE_ANY;
	reload(64 * MIB);
	ck_assert(!fake.status.leaving);
	ck_assert_str_eq(logged[0], "pool-returns: it has a section again, and stays");
	assert_rests(64 * MIB);
	ck_assert_uint_eq(coming.n_adds, 0);
	ck_assert_uint_eq(coming.n_forgotten, 0);
}
END_TEST

START_TEST(remove__that_cannot_start_is_not_repeated)
{
	fake.reclaim_err = -EMFILE;
	unconfigure();
	assert_logged("pool-not-removed: it stays at 64 MiB: no thread");
	assert_rests(64 * MIB);
	fake.reclaim_err = 0;
	unconfigure();
	ck_assert(fake.status.leaving);
}
END_TEST

/* ---- adding ---- */

static const struct addition *only_addition(void)
{
	const struct list *all = &resizes_additions(resizes)->all;

	return list_first(all, struct addition, link);
}

/* The last pool is gone, and the configuration has another one, of this name. */
static void configure_new(const char *name)
{
	n_pools = 0;
	config.n_pools = 1;
	(void)strcpy(config.pools[0].name, name);
	resizes_configure(resizes, &config);
	(void)resizes_work(resizes);
}

static void added(int err)
{
	coming.added = (struct pools_added){
		.pool = COMING,
		.err = err,
		.text = err ? "because" : "a note",
		.status = { .name = "b",
			    .pages_got = POOL_PAGES_BASE,
			    .page_bytes = 4096,
			    .file = (int)coming.params->id,
			    .bytes = coming.params->bytes,
			    .bytes_to = coming.params->bytes },
	};
	coming.done = true;
	(void)resizes_work(resizes);
	(void)resizes_work(resizes);
}

START_TEST(add__records_and_lends)
{
	uint64_t done, bytes;

	configure_new("b");
	ck_assert_ptr_nonnull(coming.params);
	ck_assert_int_eq(only_addition()->state, ADDITION_OPENS);
	ck_assert(resizes_growing(resizes, &done, &bytes));
	ck_assert_uint_eq(done, 16 * MIB);
	ck_assert_uint_eq(bytes, 64 * MIB);
	/* the same configuration again changes nothing */
	configure_new("b");
	ck_assert_uint_eq(coming.n_adds, 1);
	ck_assert(!coming.stopped);
	coming.added.pool = NULL;
	added(0);
	assert_logged("pool-added: 64 MiB on pages of 4 KiB (base), node 0; a note");
	ck_assert_uint_eq(coming.n_entered, 1);
	ck_assert_uint_eq(coming.n_files, 1);
	ck_assert_ptr_null(only_addition());
	ck_assert(!resizes_growing(resizes, &done, &bytes));
	/* it is resized like others */
	reload(128 * MIB);
	ck_assert_int_eq(fake.status.resizing, POOL_GROWS);
}
END_TEST

/* _i says what fails */
START_TEST(add__that_fails_leaves_nothing)
{
	static const char *const why[] = { "no file", "no thread", "because",
					   "the ledger is full" };
	char text[200];

	coming.file_err = _i == 0 ? -ENOSPC : 0;
	coming.add_err = _i == 1 ? -EAGAIN : 0;
	record.err = _i == 3 ? -ENOSPC : 0;
	configure_new("b");
	if (_i >= 2)
		added(_i == 2 ? -ENOMEM : 0);
	(void)snprintf(text, sizeof(text),
		       "pool-not-added: %s; fix that and reload: rmemd would not "
		       "start with this configuration",
		       why[_i]);
	assert_logged(text);
	ck_assert_int_eq(only_addition()->state, ADDITION_FAILED);
	ck_assert_str_eq(only_addition()->failed.text, why[_i]);
	ck_assert_uint_eq(coming.n_files, 0);
	ck_assert_uint_eq(coming.n_entered, 0);
	/* it is tried again by a reload only */
	coming.n_adds = 0;
	advance(WAIT_MS);
	ck_assert_uint_eq(coming.n_adds, 0);
	coming.file_err = coming.add_err = record.err = 0;
	configure_new("b");
	ck_assert_int_eq(only_addition()->state, ADDITION_OPENS);
	added(0);
	ck_assert_uint_eq(coming.n_entered, 1);
	ck_assert_ptr_null(only_addition());
}
END_TEST

/* _i 1: it was complete before it was told to stop */
START_TEST(add__is_taken_back)
{
	configure_new("b");
	unconfigure();
	ck_assert(coming.stopped);
	ck_assert_int_eq(only_addition()->state, ADDITION_STOPS);
	logged[0][0] = '\0';
	added(_i ? 0 : -ECANCELED);
	ck_assert_str_eq(logged[0], "");
	ck_assert_ptr_null(only_addition());
	ck_assert_uint_eq(coming.n_recorded, 0);
	ck_assert_uint_eq(coming.n_files, 0);
}
END_TEST

/* The pool is removed, and one of its name is added, as it was configured again too late. */
START_TEST(add__waits_for_the_end_of_its_namesake)
{
	unconfigure();
	fake.n_steps = 1;
	free_closed_end();
	ck_assert_int_eq(fake.status.resizing, POOL_CUTS);
	fake.n_steps = 1;
	config.n_pools = 1;
	reload(64 * MIB);
	ck_assert_int_eq(fake.status.resizing, POOL_CUTS);
	ck_assert_uint_eq(coming.n_adds, 0);
	advance(0);
	ck_assert_uint_eq(coming.n_removed, 1);
	ck_assert_uint_eq(coming.n_adds, 1);
	ck_assert_uint_eq(coming.params->id, 4);
}
END_TEST
int main(void)
{
	TCase *tc = unit_case("additions", setup, teardown);

	tcase_add_test(tc, remove__waits_for_the_last_lease);
	tcase_add_loop_test(tc, remove__of_a_pool_that_is_being_resized, 0, 2);
	tcase_add_loop_test(tc, remove__is_taken_back, 0, 2);
	tcase_add_test(tc, remove__that_cannot_start_is_not_repeated);
	tcase_add_test(tc, add__records_and_lends);
	tcase_add_loop_test(tc, add__that_fails_leaves_nothing, 0, 4);
	tcase_add_loop_test(tc, add__is_taken_back, 0, 2);
	tcase_add_test(tc, add__waits_for_the_end_of_its_namesake);
	return unit_main();
}
