/* SPDX-License-Identifier: BSD-3-Clause */
/* Who gets the next slot, and who gives way. */
#include "fabric/slots.h"
#include "unit/unit.h"

static struct slots slots;

static void setup(void)
{
	slots_init(&slots);
}

static void teardown(void)
{
	ck_assert(list_empty(&slots.origins));
	ck_assert(list_empty(&slots.taken));
	ck_assert_uint_eq(slots.n_waiting + slots.n_taken, 0);
}

static void come(struct slot *slot, uint8_t host)
{
	const struct fabric_address address = { .family = 4,
						.bytes = { 10, 0, 0, host } };

	ck_assert_int_eq(slot_wait(&slots, slot, &address), 0);
}

static void come_and_take(struct slot *slot, uint8_t host)
{
	come(slot, host);
	slot_take(&slots, slot);
}

static void leave(struct slot *of, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		slot_leave(&slots, &of[i]);
}

START_TEST(slots__go_to_the_address_that_has_fewest)
{
	static const unsigned order[] = { 0, 2, 1, 3 };
	struct slot of[4];

	come(&of[0], 1);
	come(&of[1], 1);
	come(&of[2], 2);
	come(&of[3], 2);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_ptr_eq(slots_first(&slots), &of[order[i]]);
		slot_take(&slots, &of[order[i]]);
		ck_assert_uint_eq(slots.n_taken, i + 1);
	}
	ck_assert_ptr_null(slots_first(&slots));
	leave(of, 4);
}
END_TEST

/* Those with slots count too. */
START_TEST(newest__of_the_address_with_most_waits_in_vain)
{
	struct slot of[5];

	come_and_take(&of[0], 1);
	come(&of[1], 1);
	come(&of[2], 2);
	ck_assert_ptr_eq(slots_last(&slots), &of[1]);
	come(&of[3], 2);
	ck_assert_ptr_eq(slots_last(&slots), &of[3]);
	come(&of[4], 1);
	ck_assert_ptr_eq(slots_last(&slots), &of[4]);
	slot_leave(&slots, &of[4]);
	slot_leave(&slots, &of[4]);
	ck_assert_ptr_eq(slots_last(&slots), &of[3]);
	leave(of, 4);
	ck_assert_ptr_null(slots_last(&slots));
}
END_TEST

static const struct slot *kept;

static bool is_kept(const struct slot *slot)
{
	return slot == kept;
}

static bool all_are_kept(const struct slot *)
{
	return true;
}

START_TEST(oldest__of_the_address_with_most_gives_way)
{
	struct slot of[3], own, other;

	come_and_take(&of[0], 1);
	come_and_take(&of[1], 2);
	come_and_take(&of[2], 2);
	come(&other, 3);
	ck_assert_ptr_eq(slots_victim(&slots, &other, NULL), &of[1]);
	kept = &of[1];
	ck_assert_ptr_eq(slots_victim(&slots, &other, is_kept), &of[2]);
	kept = &of[2];
	ck_assert_ptr_eq(slots_victim(&slots, &other, is_kept), &of[1]);
	/* it may have one then, and the other address has two */
	ck_assert_ptr_eq(slots_victim(&slots, &other, all_are_kept), &of[1]);
	come(&own, 1);
	ck_assert_ptr_eq(slots_victim(&slots, &own, NULL), &of[0]);
	ck_assert_ptr_null(slots_victim(&slots, &own, all_are_kept));
	leave(of, 3);
	leave(&own, 1);
	leave(&other, 1);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("slots", setup, teardown);

	tcase_add_test(tc, slots__go_to_the_address_that_has_fewest);
	tcase_add_test(tc, newest__of_the_address_with_most_waits_in_vain);
	tcase_add_test(tc, oldest__of_the_address_with_most_gives_way);
	return unit_main();
}
