/* SPDX-License-Identifier: BSD-3-Clause */
/* The miniature caches find out which share of the memory new keys are worth. */
#include "base/random.h"
#include "cache/format.h"
#include "cache/trial.h"
#include "unit/unit.h"

#define KEYS 40000
#define BYTES 4096
#define CAPACITY (UINT64_C(4000) * BYTES)

static struct trial *trial;
static uint64_t state;

static void setup(void)
{
	state = 1;
	trial = trial_create();
	ck_assert_ptr_nonnull(trial);
}

static void teardown(void)
{
	trial_free(trial);
}

static uint64_t hash_of(uint64_t key)
{
	return format_hash(&key, sizeof(key), 0);
}

static unsigned get(uint64_t key)
{
	return trial_get(trial, hash_of(key), BYTES, CAPACITY);
}

/* Few keys are asked for often, and the rest seldom: those that are new have to show it. */
START_TEST(popular_keys__leave_little_to_new_ones)
{
	unsigned share = 0;

	for (unsigned i = 0; i < 2000000; i++) {
		uint64_t key = random_next(&state) % KEYS;

		share = get(random_next(&state) % 2 ? key : key % 3000);
	}
	ck_assert_uint_le(share, 30);
}
END_TEST

/* Each key twice, the second time after half of what the cache holds: whatever is new is needed. */
START_TEST(keys_asked_for_twice__are_all_new)
{
	unsigned share = 0;

	for (uint64_t i = 0; i < 2000000; i++) {
		share = get(i);
		if (i >= 1500)
			share = get(i - 1500);
	}
	ck_assert_uint_ge(share, 60);
}
END_TEST

/* A cache of more keys than are remembered, each asked for twice as above: it is seen that new ones
 * are needed, by looking at fewer. */
START_TEST(many_keys__fit)
{
	unsigned share = 0;

	for (uint64_t i = 0; i < 4000000; i++) {
		share = trial_get(trial, hash_of(i), BYTES, 100 * CAPACITY);
		if (i >= 150000)
			share = trial_get(trial, hash_of(i - 150000), BYTES,
					  100 * CAPACITY);
	}
	ck_assert_uint_ge(share, 60);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("trial", setup, teardown);

	tcase_add_test(tc, popular_keys__leave_little_to_new_ones);
	tcase_add_test(tc, keys_asked_for_twice__are_all_new);
	tcase_add_test(tc, many_keys__fit);
	return unit_main();
}
