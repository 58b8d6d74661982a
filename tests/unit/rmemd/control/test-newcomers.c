/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is next, and who gives way, of those that wait for a place. */
#include "rmemd/control/newcomers.h"
#include "unit/unit.h"

static struct newcomers newcomers;

static void setup(void)
{
	newcomers_init(&newcomers);
}

static void teardown(void)
{
	ck_assert(list_empty(&newcomers.origins));
	ck_assert_uint_eq(newcomers.n_waiting, 0);
}

static void join(struct newcomer *newcomer, uint8_t host)
{
	const struct fabric_address address = { .family = 4,
						.bytes = { 10, 0, 0, host } };

	ck_assert_int_eq(newcomers_join(&newcomers, newcomer, &address), 0);
}

static void come(struct newcomer *newcomer, uint8_t host)
{
	join(newcomer, host);
	newcomers_wait(&newcomers, newcomer);
}

static void leave(struct newcomer *of, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		newcomers_leave(&newcomers, &of[i]);
}

START_TEST(places__go_to_the_address_that_has_fewest)
{
	static const unsigned order[] = { 0, 2, 1, 3 };
	struct newcomer of[4];

	come(&of[0], 1);
	come(&of[1], 1);
	come(&of[2], 2);
	come(&of[3], 2);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_ptr_eq(newcomers_first(&newcomers), &of[order[i]]);
		newcomers_admit(&newcomers, &of[order[i]]);
		ck_assert_uint_eq(newcomers_places(&of[order[i]]), i / 2 + 1);
	}
	ck_assert_ptr_null(newcomers_first(&newcomers));
	leave(of, 4);
}
END_TEST

START_TEST(newcomer__that_finds_no_place_stays_first)
{
	struct newcomer of[2];

	come(&of[0], 1);
	come(&of[1], 1);
	newcomers_admit(&newcomers, &of[0]);
	newcomers_return(&newcomers, &of[0]);
	ck_assert_uint_eq(newcomers_places(&of[0]), 0);
	ck_assert_ptr_eq(newcomers_first(&newcomers), &of[0]);
	ck_assert_ptr_eq(newcomers_last(&newcomers), &of[1]);
	leave(of, 2);
}
END_TEST

/* Those with places count too. */
START_TEST(newest__of_the_address_with_most_gives_way)
{
	struct newcomer of[5];

	join(&of[0], 1);
	come(&of[1], 1);
	come(&of[2], 2);
	ck_assert_ptr_eq(newcomers_last(&newcomers), &of[1]);
	come(&of[3], 2);
	ck_assert_ptr_eq(newcomers_last(&newcomers), &of[3]);
	come(&of[4], 1);
	ck_assert_ptr_eq(newcomers_last(&newcomers), &of[4]);
	newcomers_leave(&newcomers, &of[4]);
	newcomers_leave(&newcomers, &of[4]);
	ck_assert_ptr_eq(newcomers_last(&newcomers), &of[3]);
	leave(of, 4);
	ck_assert_ptr_null(newcomers_last(&newcomers));
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("newcomers", setup, teardown);

	tcase_add_test(tc, places__go_to_the_address_that_has_fewest);
	tcase_add_test(tc, newcomer__that_finds_no_place_stays_first);
	tcase_add_test(tc, newest__of_the_address_with_most_gives_way);
	return unit_main();
}
