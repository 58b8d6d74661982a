/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases become longer and shorter, and a random history of everything leaves nothing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/rmemd/lease-stage.h"
#include "rmemd/lease/attachment.h"
#include "unit/unit.h"

static struct asked one, two, three;

static char *lease_addr(const struct asked *asked, unsigned key)
{
	return (char *)(uintptr_t)asked->lease.keys[key].addr;
}

static bool zero(const char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (at[i])
			return false;
	return true;
}

START_TEST(grow__uses_the_slack_first)
{
	ck_assert_int_eq(granted(&one, &stage_a, 100, ""), 0);
	memset(lease_addr(&one, 0), 7, 100);
	ck_assert_int_eq(resized(&two, &stage_a, one.lease.lease, FAKE_PAGE), 0);
	ck_assert_uint_eq(two.lease.bytes, FAKE_PAGE);
	ck_assert_uint_eq(two.lease.n_segments, 1);
	ck_assert_uint_eq(two.lease.n_keys, 1);
	ck_assert_uint_gt(two.lease.generation, one.lease.generation);
	ck_assert_uint_ne(two.lease.keys[0].rkey, one.lease.keys[0].rkey);
	ck_assert_uint_eq(two.lease.keys[0].addr, one.lease.keys[0].addr);
	/* operations under way still use the old key */
	ck_assert(fake_fabric_key_works(one.lease.keys[0].rkey, 100));
	ck_assert(fake_fabric_key_works(two.lease.keys[0].rkey, FAKE_PAGE));
	ck_assert_int_eq(lease_addr(&two, 0)[99], 7);
	ck_assert(zero(lease_addr(&two, 0) + 100, FAKE_PAGE - 100));
	ck_assert_uint_eq(fake_pools_lent(), 1);
	ck_assert_int_eq(resized(&two, &stage_a, one.lease.lease, FAKE_PAGE + 1), 0);
	ck_assert_uint_eq(two.lease.n_segments, 2);
	ck_assert_uint_eq(two.lease.segments[1].bytes, 1);
	ck_assert_uint_eq(two.lease.n_keys, 2);
}
END_TEST

START_TEST(grow__does_not_pile_up_old_keys)
{
	ck_assert_int_eq(granted(&one, &stage_a, 1, ""), 0);
	for (uint64_t bytes = 2; bytes < 200; bytes++)
		ck_assert_int_eq(resized(&two, &stage_a, one.lease.lease, bytes), 0);
	ck_assert_uint_le(fake_fabric_alive(), 20);
	ck_assert(fake_fabric_key_works(two.lease.keys[0].rkey, 199));
}
END_TEST

START_TEST(grow__tells_the_others)
{
	ck_assert_int_eq(granted(&one, &stage_a, 100, "n"), 0);
	ck_assert_int_eq(attached(&two, &stage_b, "n", WIRE_RIGHT_READ), 0);
	ck_assert_int_eq(resized(&one, &stage_a, one.lease.lease, 9000), 0);
	ck_assert_uint_eq(stage_changed.n, 1);
	ck_assert_ptr_eq(stage_changed.client, &stage_b);
	ck_assert_uint_eq(stage_changed.reason, 0);
	ck_assert(fake_fabric_key_works(two.lease.keys[0].rkey, 100));
	ck_assert_int_eq(rekeyed(&two, &stage_b, one.lease.lease), 0);
	ck_assert_uint_eq(two.lease.bytes, 9000);
	ck_assert_uint_eq(two.lease.n_keys, 2);
	ck_assert_uint_eq(two.lease.generation, one.lease.generation);
	ck_assert_int_eq(freed(&stage_a, one.lease.lease), 0);
}
END_TEST

START_TEST(grow__from_nothing_and_trim_to_nothing)
{
	ck_assert_int_eq(granted(&one, &stage_a, 0, ""), 0);
	ck_assert_int_eq(resized(&two, &stage_a, one.lease.lease, 5000), 0);
	ck_assert_uint_eq(two.lease.n_keys, 1);
	ck_assert_int_eq(resized(&two, &stage_a, one.lease.lease, 0), 0);
	ck_assert_uint_eq(two.lease.bytes + two.lease.n_segments + two.lease.n_keys, 0);
	ck_assert_uint_eq(fake_fabric_alive(), 0);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	fake_pools_scrub();
	ck_assert_int_eq(resized(&two, &stage_a, one.lease.lease, 1), 0);
	ck_assert_uint_eq(two.lease.n_keys, 1);
}
END_TEST

/* `_i` mrs succeed, then one fails: at once, or later. */
START_TEST(grow__is_undone_when_a_key_cannot_be_made)
{
	uint64_t id;

	ck_assert_int_eq(granted(&one, &stage_a, 100, "n"), 0);
	ck_assert_int_eq(attached(&two, &stage_b, "n", STAGE_RW), 0);
	id = one.lease.lease;
	if (_i < 2)
		fake_fabric_fail_call((unsigned)_i, -ENOMEM);
	else
		fake_fabric_fail_news((unsigned)_i - 2, -ENOMEM);
	ck_assert_int_eq(resized(&three, &stage_a, id, 2 * FAKE_PAGE), -ENOMEM);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	ck_assert(fake_fabric_key_works(one.lease.keys[0].rkey, 100));
	ck_assert(fake_fabric_key_works(two.lease.keys[0].rkey, 100));
	ck_assert_uint_eq(fake_fabric_alive(), 2);
	ck_assert_int_eq(rekeyed(&three, &stage_a, id), 0);
	ck_assert_uint_eq(three.lease.bytes, 100);
	ck_assert_int_eq(resized(&three, &stage_a, id, 2 * FAKE_PAGE), 0);
	ck_assert_int_eq(freed(&stage_a, id), 0);
}
END_TEST

START_TEST(grow__has_limits)
{
	uint64_t id;

	stage_tenant.limits.lease_max = 10 * FAKE_PAGE;
	stage_tenant.limits.bytes_max = 5 * FAKE_PAGE;
	ck_assert_int_eq(granted(&one, &stage_a, 100, ""), 0);
	id = one.lease.lease;
	ck_assert_int_eq(resized(&two, &stage_a, id, 10 * FAKE_PAGE + 1), -EDQUOT);
	ck_assert_int_eq(resized(&two, &stage_a, id, 10 * FAKE_PAGE), -EDQUOT);
	stage_tenant.limits.lease_max = stage_tenant.limits.bytes_max = 0;
	ck_assert_int_eq(resized(&two, &stage_a, id, UINT64_MAX), -ENOSPC);
	ck_assert_int_eq(rekeyed(&two, &stage_a, id), 0);
	ck_assert_uint_eq(two.lease.bytes, 100);
	ck_assert_uint_eq(fake_fabric_alive(), 1);
	ck_assert_int_eq(resized(&two, &stage_a, id, 200), 0);
}
END_TEST

START_TEST(grow__ends_at_the_last_segment)
{
	uint64_t bytes = FAKE_PAGE, id;

	fake_pools_reset(2);
	ck_assert_int_eq(granted(&one, &stage_a, bytes, ""), 0);
	id = one.lease.lease;
	for (int i = 1; i < WIRE_SEGMENTS_MAX; i++)
		ck_assert_int_eq(resized(&two, &stage_a, id, bytes += FAKE_PAGE), 0);
	ck_assert_uint_eq(two.lease.n_segments, WIRE_SEGMENTS_MAX);
	ck_assert_uint_eq(two.lease.n_keys, WIRE_SEGMENTS_MAX);
	ck_assert_int_eq(resized(&two, &stage_a, id, bytes + 1), -ENOSPC);
}
END_TEST

START_TEST(grow__waits_for_memory)
{
	uint64_t all = FAKE_PAGES * FAKE_PAGE, id;

	ck_assert_int_eq(granted(&one, &stage_a, 1, "n"), 0);
	id = one.lease.lease;
	ck_assert_int_eq(granted(&two, &stage_a, FAKE_PAGE, ""), 0);
	ck_assert_int_eq(freed(&stage_a, two.lease.lease), 0);
	ck_assert_int_eq(lease_resize(stage_leases, &stage_a, id, all, ask(&two)), 0);
	ck_assert_uint_eq(two.answers, 0);
	ck_assert_int_eq(resized(&three, &stage_a, id, 5), -EBUSY);
	if (_i == 0) {
		fake_pools_scrub();
		leases_retry(stage_leases);
		fake_fabric_settle();
		ck_assert_int_eq(two.err, 0);
		ck_assert_uint_eq(two.lease.bytes, all);
	} else if (_i == 1) {
		stage_now_ms += 10000;
		leases_tick(stage_leases);
		ck_assert_int_eq(two.err, -ENOSPC);
		ck_assert_int_eq(resized(&three, &stage_a, id, 5), 0);
	} else if (_i == 2) {
		ck_assert_int_eq(freed(&stage_a, id), 0);
		ck_assert_int_eq(two.err, -ESTALE);
	} else {
		(void)lease_waiter_cancel(&two.waiter);
		ck_assert_uint_eq(two.answers, 0);
		ck_assert_int_eq(resized(&three, &stage_a, id, 5), 0);
	}
	if (_i < 3)
		ck_assert_uint_eq(two.answers, 1);
	if (_i != 2)
		ck_assert_int_eq(freed(&stage_a, id), 0);
}
END_TEST

START_TEST(grow__stays_when_nobody_waits_for_it)
{
	uint64_t id;

	ck_assert_int_eq(granted(&one, &stage_a, 100, "n"), 0);
	id = one.lease.lease;
	ck_assert_int_eq(lease_resize(stage_leases, &stage_a, id, 9000, ask(&two)), 0);
	(void)lease_waiter_cancel(&two.waiter);
	fake_fabric_settle();
	ck_assert_int_eq(rekeyed(&three, &stage_a, id), 0);
	ck_assert_uint_eq(three.lease.bytes, 9000);
	ck_assert_int_eq(resized(&three, &stage_a, id, 50), 0);
	ck_assert_int_eq(freed(&stage_a, id), 0);
}
END_TEST

START_TEST(trim__kills_what_reaches_behind_the_end)
{
	uint64_t id, old_a, old_b;

	fake_pools_reset(3);
	ck_assert_int_eq(granted(&one, &stage_a, 4 * FAKE_PAGE, "n"), 0);
	id = one.lease.lease;
	ck_assert_int_eq(attached(&two, &stage_b, "n", STAGE_RW), 0);
	ck_assert_uint_eq(one.lease.n_segments, 2);
	old_a = one.lease.keys[0].rkey;
	old_b = two.lease.keys[0].rkey;
	ck_assert_int_eq(lease_resize(stage_leases, &stage_a, id, 100, ask(&three)), 0);
	ck_assert(!fake_fabric_key_works(old_a, 1));
	ck_assert(!fake_fabric_key_works(old_b, 1));
	/* the answer comes when the last old key is dead */
	ck_assert_uint_eq(fake_fabric_alive(), 5);
	for (int i = 0; i < 4; i++) {
		ck_assert_uint_eq(three.answers, 0);
		ck_assert(fake_fabric_step(_i ? 0 : 4));
	}
	fake_fabric_settle();
	ck_assert_uint_eq(three.answers, 1);
	ck_assert_uint_eq(three.lease.n_keys, 1);
	ck_assert(fake_fabric_key_works(three.lease.keys[0].rkey, 100));
	ck_assert_uint_eq(fake_pools_lent(), 1);
	ck_assert_uint_eq(stage_changed.n, 1);
	ck_assert_uint_eq(stage_changed.reason, WIRE_REASON_TRIMMED);
	ck_assert_int_eq(rekeyed(&two, &stage_b, id), 0);
	ck_assert_uint_eq(two.lease.bytes, 100);
	ck_assert_uint_eq(two.lease.n_keys, 1);
	ck_assert_int_eq(resized(&three, &stage_a, id, 100), 0);
	ck_assert_int_eq(freed(&stage_b, id), 0);
}
END_TEST

START_TEST(trim__then_grow_reads_as_zero)
{
	uint64_t id;

	ck_assert_int_eq(granted(&one, &stage_a, 3 * FAKE_PAGE, ""), 0);
	id = one.lease.lease;
	memset(lease_addr(&one, 0), 7, 3 * FAKE_PAGE);
	ck_assert_int_eq(resized(&two, &stage_a, id, FAKE_PAGE + 100), 0);
	/* the page behind the end is given back, the rest of the last one kept */
	ck_assert_uint_eq(fake_pools_lent(), 2);
	ck_assert_uint_eq(fake_pools_dirty(), 1);
	ck_assert_int_eq(resized(&two, &stage_a, id, 2 * FAKE_PAGE), 0);
	ck_assert_uint_eq(two.lease.n_segments, 1);
	ck_assert_int_eq(lease_addr(&two, 0)[FAKE_PAGE + 99], 7);
	ck_assert(zero(lease_addr(&two, 0) + FAKE_PAGE + 100, FAKE_PAGE - 100));
	ck_assert_int_eq(resized(&two, &stage_a, id, 3 * FAKE_PAGE), 0);
	ck_assert_uint_eq(two.lease.n_segments, 2);
	ck_assert_uint_eq(two.lease.segments[1].bytes, FAKE_PAGE);
	ck_assert(zero(lease_addr(&two, 1), FAKE_PAGE));
	ck_assert_uint_eq(fake_pools_lent(), 3);
}
END_TEST

/* When the pool could not take it back, it is used again, zeroed. */
START_TEST(trim__then_grow_zeroes_what_it_kept)
{
	uint64_t id;

	fake_pools_cut(false);
	ck_assert_int_eq(granted(&one, &stage_a, 3 * FAKE_PAGE, ""), 0);
	id = one.lease.lease;
	memset(lease_addr(&one, 0), 7, 3 * FAKE_PAGE);
	ck_assert_int_eq(resized(&two, &stage_a, id, 100), 0);
	ck_assert_uint_eq(fake_pools_lent(), 3);
	ck_assert_int_eq(resized(&two, &stage_a, id, 2 * FAKE_PAGE), 0);
	ck_assert_int_eq(resized(&two, &stage_a, id, 3 * FAKE_PAGE), 0);
	ck_assert_uint_eq(two.lease.n_segments, 1);
	ck_assert_int_eq(lease_addr(&two, 0)[99], 7);
	ck_assert(zero(lease_addr(&two, 0) + 100, 3 * FAKE_PAGE - 100));
}
END_TEST

/* While a key to what was cut off may still write, nobody gets that memory. */
START_TEST(trim__nobody_waits_for_keeps_the_rest_apart)
{
	uint64_t id;

	ck_assert_int_eq(granted(&one, &stage_a, FAKE_PAGE, ""), 0);
	id = one.lease.lease;
	ck_assert_int_eq(lease_resize(stage_leases, &stage_a, id, 100, ask(&two)), 0);
	(void)lease_waiter_cancel(&two.waiter);
	ck_assert_int_eq(lease_resize(stage_leases, &stage_a, id, 200, ask(&two)), 0);
	fake_fabric_settle();
	ck_assert_int_eq(two.err, 0);
	ck_assert_uint_eq(two.lease.n_segments, 2);
	ck_assert_uint_eq(two.lease.segments[0].bytes, 100);
	ck_assert_uint_eq(two.lease.segments[1].bytes, 100);
}
END_TEST

START_TEST(attach__during_a_trim_gets_the_shorter_lease)
{
	uint64_t id;

	ck_assert_int_eq(granted(&one, &stage_a, 3 * FAKE_PAGE, "n"), 0);
	id = one.lease.lease;
	ck_assert_int_eq(lease_attach(stage_leases, &stage_b, "n", STAGE_RW, ask(&two)),
			 0);
	ck_assert_int_eq(lease_resize(stage_leases, &stage_a, id, 100, ask(&three)), 0);
	for (unsigned pick = (unsigned)_i; fake_fabric_step(pick); pick += 3)
		;
	ck_assert_uint_eq(two.answers, 1);
	ck_assert_int_eq(two.err, 0);
	ck_assert_uint_eq(two.lease.bytes, 100);
	ck_assert_uint_eq(two.lease.n_keys, 1);
	ck_assert(fake_fabric_key_works(two.lease.keys[0].rkey, 100));
	ck_assert_uint_eq(three.answers, 1);
	ck_assert_int_eq(freed(&stage_b, id), 0);
}
END_TEST

/* ---- a random history ---- */

#define N_ASKED 16

static struct asked asked[N_ASKED];
static unsigned n_asked;

/* A slot whose request is answered, or never was one. */
static struct asked *slot(void)
{
	for (unsigned i = 0; i < N_ASKED; i++)
		if (!asked[i].waiter.done || asked[i].answers)
			return &asked[i];
	return NULL;
}

static uint64_t some_lease(void)
{
	return 7 + (uint64_t)(rand() % 40);
}

static void random_request(struct asked *at)
{
	static const char *const names[] = { "", "a", "b", "c" };
	struct lease_client *client = rand() % 2 ? &stage_a : &stage_b;
	const char *name = names[rand() % 4];
	struct lease_params params = { .bytes = (uint64_t)(rand() % (30 * FAKE_PAGE)),
				       .node = -1,
				       .name = name };
	struct lease_waiter *waiter = ask(at);
	int err = 0;

	switch (rand() % 9) {
	case 0:
	case 1:
		err = lease_allocate(stage_leases, client, &params, waiter);
		break;
	case 2:
		err = lease_attach(stage_leases, client, name,
				   rand() % 2 ? STAGE_RW : WIRE_RIGHT_READ, waiter);
		break;
	case 3:
		err = lease_rekey(stage_leases, client, some_lease(), waiter);
		break;
	case 4:
		err = lease_detach(stage_leases, client, some_lease(), waiter);
		break;
	case 5:
		err = lease_free(stage_leases, client, some_lease(), waiter);
		break;
	case 6:
		err = lease_rename(stage_leases, client, some_lease(), name, rand() % 2,
				   waiter);
		break;
	default:
		err = lease_resize(stage_leases, client, some_lease(), params.bytes,
				   waiter);
		break;
	}
	n_asked++;
	if (err) {
		ck_assert_uint_eq(at->answers, 0);
		at->answers = 1;
	}
	ck_assert_uint_le(at->answers, 1);
}

static void random_trouble(void)
{
	struct lease_client *client = rand() % 2 ? &stage_a : &stage_b;
	unsigned i = (unsigned)rand() % N_ASKED;

	switch (rand() % 8) {
	case 0:
		fake_fabric_fail_call((unsigned)rand() % 4, -ENOMEM);
		break;
	case 1:
		fake_fabric_fail_news((unsigned)rand() % 4, -EIO);
		break;
	case 2:
		if (asked[i].waiter.done && !asked[i].answers) {
			(void)lease_waiter_cancel(&asked[i].waiter);
			asked[i].answers = 1;
		}
		break;
	case 3:
		if (rand() % 4 == 0) {
			stage_fence(client);
			stage_connect(client, (unsigned)rand() % 3);
		}
		break;
	case 4:
		stage_now_ms += (uint64_t)(rand() % 4000);
		leases_tick(stage_leases);
		break;
	default:
		fake_pools_scrub();
		leases_retry(stage_leases);
		break;
	}
}

START_TEST(history__leaves_nothing)
{
	srand((unsigned)_i);
	memset(asked, 0, sizeof(asked));
	fake_pools_reset(_i % 2 ? 5 : 0);
	/* counts where the fabric needs no news */
	fake_fabric_use((unsigned)_i % 3);
	for (unsigned i = 0; i < 600; i++) {
		struct asked *at = slot();

		if (at)
			random_request(at);
		if (rand() % 3 == 0)
			random_trouble();
		for (int k = rand() % 4; k > 0; k--)
			(void)fake_fabric_step((unsigned)rand());
	}
	fake_fabric_settle();
	stage_now_ms += 20000;
	leases_tick(stage_leases);
	fake_fabric_settle();
	ck_assert_uint_gt(n_asked, 100);
	for (unsigned i = 0; i < N_ASKED; i++)
		ck_assert(!asked[i].waiter.done || asked[i].answers == 1);
	for (const char *name = "abc"; *name; name++) {
		const char text[] = { *name, '\0' };

		if (lease_remove(&stage_tenant, text, ask(&one)) == 0)
			fake_fabric_settle();
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resize");
	TCase *tc = tcase_create("resize"), *now = tcase_create("now");

	tcase_add_checked_fixture(tc, stage_setup, stage_teardown);
	tcase_add_test(tc, grow__uses_the_slack_first);
	tcase_add_test(tc, grow__does_not_pile_up_old_keys);
	tcase_add_test(tc, grow__tells_the_others);
	tcase_add_test(tc, grow__from_nothing_and_trim_to_nothing);
	tcase_add_loop_test(tc, grow__is_undone_when_a_key_cannot_be_made, 0, 4);
	tcase_add_test(tc, grow__has_limits);
	tcase_add_test(tc, grow__ends_at_the_last_segment);
	tcase_add_loop_test(tc, grow__waits_for_memory, 0, 4);
	tcase_add_test(tc, grow__stays_when_nobody_waits_for_it);
	tcase_add_loop_test(tc, trim__kills_what_reaches_behind_the_end, 0, 2);
	tcase_add_test(tc, trim__then_grow_reads_as_zero);
	tcase_add_test(tc, trim__then_grow_zeroes_what_it_kept);
	tcase_add_test(tc, trim__nobody_waits_for_keeps_the_rest_apart);
	tcase_add_loop_test(tc, attach__during_a_trim_gets_the_shorter_lease, 0, 6);
	tcase_add_loop_test(tc, history__leaves_nothing, 0, 60);
	suite_add_tcase(suite, tc);
	tcase_add_checked_fixture(now, stage_setup_now, stage_teardown);
	tcase_add_test(now, grow__uses_the_slack_first);
	tcase_add_test(now, grow__does_not_pile_up_old_keys);
	tcase_add_test(now, grow__tells_the_others);
	tcase_add_test(now, grow__from_nothing_and_trim_to_nothing);
	tcase_add_loop_test(now, grow__is_undone_when_a_key_cannot_be_made, 0, 4);
	tcase_add_test(now, trim__then_grow_reads_as_zero);
	tcase_add_loop_test(now, history__leaves_nothing, 0, 60);
	suite_add_tcase(suite, now);
	return unit_main(suite);
}
