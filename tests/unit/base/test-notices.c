/* SPDX-License-Identifier: BSD-3-Clause */
/* The bounded queue of notices. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/notices.h"
#include "unit/unit.h"

#define CAPACITY 4

static struct notices notices;
static struct notice_source a, b, c;
static struct notice got[64];

static void setup(void)
{
	ck_assert_int_eq(notices_open(&notices, CAPACITY), 0);
	notice_source_init(&a);
	notice_source_init(&b);
	notice_source_init(&c);
}

static void teardown(void)
{
	notices_close(&notices);
	notices_close(&notices);
}

START_TEST(init__makes_a_queue_without_notices)
{
	struct notice one;

	notices_close(&notices);
	memset(&notices, 0xff, sizeof(notices));
	notices_init(&notices);
	ck_assert(notices_empty(&notices));
	ck_assert_uint_eq(notices_read(&notices, &one, 1), 0);
	notices_drop(&notices, &a);
}
END_TEST

static void put(struct notice_source *source, uint32_t value)
{
	notices_put(&notices, &(struct notice){ .source = source, .value = value });
}

/* The oldest notice has these values. */
static void expect(struct notice_source *source, uint32_t value, uint32_t lost)
{
	struct notice one;

	ck_assert_uint_eq(notices_read(&notices, &one, 1), 1);
	ck_assert_ptr_eq(one.source, source);
	ck_assert_uint_eq(one.value, value);
	ck_assert_uint_eq(one.lost, lost);
}

static void expect_none(void)
{
	ck_assert(notices_empty(&notices));
	ck_assert_uint_eq(notices_read(&notices, got, 1), 0);
}

START_TEST(notices__are_taken_in_order)
{
	for (uint32_t i = 0; i < 3 * CAPACITY; i++) {
		put(&a, i);
		put(&b, i);
		ck_assert_uint_eq(notices_read(&notices, got, 64), 2);
		ck_assert_ptr_eq(got[0].source, &a);
		ck_assert_ptr_eq(got[1].source, &b);
		ck_assert_uint_eq(got[1].value, i);
	}
	expect_none();
}
END_TEST

START_TEST(full_queue__keeps_the_last_notice_of_each_source)
{
	for (uint32_t i = 0; i < CAPACITY; i++)
		put(&a, i);
	ck_assert(notices_full(&notices));
	for (uint32_t i = 10; i < 20; i++)
		put(&b, i);
	put(&c, 30);
	put(&a, 40);
	put(&a, 41);
	for (uint32_t i = 0; i < CAPACITY; i++)
		expect(&a, i, 0);
	expect(&b, 19, 9);
	expect(&c, 30, 0);
	expect(&a, 41, 1);
	expect_none();
}
END_TEST

/* A notice outside the ring moves into it first: each source keeps its order. */
START_TEST(full_queue__keeps_the_order_of_a_source)
{
	for (uint32_t i = 0; i < CAPACITY + 1; i++)
		put(&a, i);
	expect(&a, 0, 0);
	/* the notice outside the ring has moved into it */
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

START_TEST(drop__removes_the_notices_of_one_source)
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

START_TEST(lost__has_a_largest_value)
{
	for (uint32_t i = 0; i < CAPACITY; i++)
		put(&b, i);
	/* a replaced notice without a value counts as lost, too */
	notices_put(&notices, &(struct notice){ .source = &a, .type = 1 });
	put(&a, 1);
	put(&a, 2);
	ck_assert_uint_eq(a.last.lost, 2);
	notices_put(
		&notices,
		&(struct notice){ .source = &a, .type = 1, .lost = NOTICES_LOST_MAX });
	put(&a, 3);
	put(&a, 4);
	for (uint32_t i = 0; i < CAPACITY; i++)
		expect(&b, i, 0);
	expect(&a, 4, NOTICES_LOST_MAX);
}
END_TEST

static unsigned number_of(const struct notice *notice)
{
	return notice->source == &a ? 0 : notice->source == &b ? 1 : 2;
}

/* For each source, the lost and taken notices are those that were put, in order. */
START_TEST(notices__that_are_lost_are_counted)
{
	struct notice_source *sources[3] = { &a, &b, &c };
	uint32_t sent[3] = { 0 }, seen[3] = { 0 };
	unsigned seed = 20261121;

	for (unsigned round = 0; round < 20000; round++) {
		unsigned n, source = (unsigned)rand_r(&seed) % 3;

		if (rand_r(&seed) % 3) {
			put(sources[source], sent[source]++);
			continue;
		}
		n = notices_read(&notices, got, 1 + (unsigned)rand_r(&seed) % 3);
		for (unsigned i = 0; i < n; i++) {
			source = number_of(&got[i]);
			seen[source] += got[i].lost;
			ck_assert_uint_eq(got[i].value, seen[source]++);
		}
	}
	while (notices_read(&notices, got, 1))
		seen[number_of(got)] += got->lost + 1;
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(seen[i], sent[i]);
}
END_TEST

START_TEST(closed_queue__keeps_the_last_notice_of_each_source)
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
	TCase *tc = unit_case("notices", setup, teardown);

	tcase_add_test(tc, init__makes_a_queue_without_notices);
	tcase_add_test(tc, notices__are_taken_in_order);
	tcase_add_test(tc, full_queue__keeps_the_last_notice_of_each_source);
	tcase_add_test(tc, full_queue__keeps_the_order_of_a_source);
	tcase_add_test(tc, drop__removes_the_notices_of_one_source);
	tcase_add_test(tc, lost__has_a_largest_value);
	tcase_add_test(tc, notices__that_are_lost_are_counted);
	tcase_add_test(tc, closed_queue__keeps_the_last_notice_of_each_source);
	return unit_main();
}
