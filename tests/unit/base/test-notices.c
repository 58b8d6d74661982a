/* SPDX-License-Identifier: BSD-3-Clause */
/* The bounded queue of notices. */
#include <errno.h>
#include <stdlib.h>

#include "base/notices.h"
#include "unit/unit.h"

#define ROOM 4

static struct notices notices;
static struct notice_source a, b, c;
static struct notice got[64];

static void setup(void)
{
	ck_assert_int_eq(notices_open(&notices, ROOM), 0);
	notice_source_init(&a);
	notice_source_init(&b);
	notice_source_init(&c);
}

static void teardown(void)
{
	notices_close(&notices);
	notices_close(&notices);
}

static void put(struct notice_source *source, uint32_t value)
{
	notices_put(&notices, &(struct notice){ .source = source, .value = value });
}

/* The oldest is this one. */
static void expect(struct notice_source *source, uint32_t value, uint32_t lost)
{
	struct notice one;

	ck_assert_uint_eq(notices_take(&notices, &one, 1), 1);
	ck_assert_ptr_eq(one.source, source);
	ck_assert_uint_eq(one.value, value);
	ck_assert_uint_eq(one.lost, lost);
}

static void expect_none(void)
{
	ck_assert(notices_empty(&notices));
	ck_assert_uint_eq(notices_take(&notices, got, 1), 0);
}

START_TEST(notices__come_in_their_order)
{
	for (uint32_t i = 0; i < 3 * ROOM; i++) {
		put(&a, i);
		put(&b, i);
		ck_assert_uint_eq(notices_take(&notices, got, 64), 2);
		ck_assert_ptr_eq(got[0].source, &a);
		ck_assert_ptr_eq(got[1].source, &b);
		ck_assert_uint_eq(got[1].value, i);
	}
	expect_none();
}
END_TEST

START_TEST(notices__without_room_the_latest_of_each_source_is_kept)
{
	for (uint32_t i = 0; i < ROOM; i++)
		put(&a, i);
	ck_assert(notices_full(&notices));
	for (uint32_t i = 10; i < 20; i++)
		put(&b, i);
	put(&c, 30);
	put(&a, 40);
	put(&a, 41);
	for (uint32_t i = 0; i < ROOM; i++)
		expect(&a, i, 0);
	expect(&b, 19, 9);
	expect(&c, 30, 0);
	expect(&a, 41, 1);
	expect_none();
}
END_TEST

/* Who was late takes the first room there is: order holds for each source. */
START_TEST(notices__keep_their_order_while_some_are_taken)
{
	for (uint32_t i = 0; i < ROOM + 1; i++)
		put(&a, i);
	expect(&a, 0, 0);
	/* the late one took the room */
	ck_assert(notices_full(&notices));
	put(&a, 5);
	put(&a, 6);
	for (uint32_t i = 1; i < 5; i++)
		expect(&a, i, 0);
	put(&a, 7);
	expect(&a, 6, 1);
	expect(&a, 7, 0);
	expect_none();
}
END_TEST

START_TEST(notices__drop_one_source)
{
	put(&a, 1);
	put(&b, 2);
	put(&a, 3);
	put(&b, 4);
	put(&a, 5);
	put(&c, 6);
	put(&b, 7);
	notices_drop(&notices, &a);
	expect(&b, 2, 0);
	put(&a, 8);
	expect(&b, 4, 0);
	expect(&c, 6, 0);
	expect(&b, 7, 0);
	expect(&a, 8, 0);
	expect_none();
}
END_TEST

START_TEST(notices__count_no_further_than_they_can)
{
	for (uint32_t i = 0; i < ROOM; i++)
		put(&b, i);
	/* one without a value is a loss, too, when another takes its place */
	notices_put(&notices, &(struct notice){ .source = &a, .status = -ECONNRESET });
	put(&a, 1);
	put(&a, 2);
	ck_assert_uint_eq(a.last.lost, 2);
	notices_put(&notices, &(struct notice){ .source = &a,
						.status = -ECONNRESET,
						.lost = NOTICES_LOST_MAX });
	put(&a, 3);
	put(&a, 4);
	for (uint32_t i = 0; i < ROOM; i++)
		expect(&b, i, 0);
	expect(&a, 4, NOTICES_LOST_MAX);
}
END_TEST

/* Against a model: what is lost and what is taken adds up, in order, for each source. */
START_TEST(notices__lose_nothing_uncounted)
{
	struct notice_source *sources[3] = { &a, &b, &c };
	uint32_t sent[3] = { 0 }, seen[3] = { 0 };
	unsigned seed = 20261121;

	for (unsigned round = 0; round < 20000; round++) {
		unsigned n, which = (unsigned)rand_r(&seed) % 3;

		if (rand_r(&seed) % 3) {
			put(sources[which], sent[which]++);
			continue;
		}
		n = notices_take(&notices, got, 1 + (unsigned)rand_r(&seed) % 3);
		for (unsigned i = 0; i < n; i++) {
			which = got[i].source == &a ? 0 : got[i].source == &b ? 1 : 2;
			seen[which] += got[i].lost;
			ck_assert_uint_eq(got[i].value, seen[which]++);
		}
	}
	while (notices_take(&notices, got, 1)) {
		unsigned which = got->source == &a ? 0 : got->source == &b ? 1 : 2;

		seen[which] += got->lost + 1;
	}
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(seen[i], sent[i]);
}
END_TEST

START_TEST(put__without_room_keeps_the_last_of_each_source)
{
	notices_close(&notices);
	for (uint32_t i = 1; i <= 3; i++)
		put(&a, i);
	put(&b, 7);
	expect(&a, 3, 2);
	put(&a, 4);
	expect(&b, 7, 0);
	expect(&a, 4, 0);
	expect_none();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("notices");
	TCase *tc = tcase_create("notices");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, notices__come_in_their_order);
	tcase_add_test(tc, notices__without_room_the_latest_of_each_source_is_kept);
	tcase_add_test(tc, notices__keep_their_order_while_some_are_taken);
	tcase_add_test(tc, notices__drop_one_source);
	tcase_add_test(tc, notices__count_no_further_than_they_can);
	tcase_add_test(tc, notices__lose_nothing_uncounted);
	tcase_add_test(tc, put__without_room_keeps_the_last_of_each_source);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
