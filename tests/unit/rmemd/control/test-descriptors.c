/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors: their limit, and its division among sessions and channels. */
#include <sys/resource.h>

#include "rmemd/control/descriptors.h"
#include "unit/unit.h"

#define CHANNELS 128

static struct config config;

static void setup(void)
{
	config_default(&config);
	config.channels_max = CHANNELS;
}

START_TEST(limit__is_raised_to_the_hard_one)
{
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 20;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_uint_eq(descriptors_limit(), 20);
	ck_assert_int_eq(descriptors_raise_limit(), 0);
	ck_assert_uint_eq(descriptors_limit(), limit.rlim_max);
	ck_assert_int_eq(descriptors_raise_limit(), 0);
}
END_TEST

static const struct {
	uint64_t limit; /* besides those that are for none of these */
	uint32_t sessions_max;
	unsigned n_tcp, newcomers;
	uint64_t sessions, channels;
} divided[] = {
	{ 1024 * (CHANNELS + 2), 1024, 1, 1024, 1024, 1024 * CHANNELS },
	{ 1024 * (CHANNELS + 2) - 1, 1024, 2, 1024, 1024, 1024 * CHANNELS - 1 },
	/* channels leave their descriptors to sessions */
	{ 1600, 1024, 1, 200, 700, 700 },
	{ 8000, 1024, 1, 1000, 1024, 5976 },
	/* no channel needs a descriptor */
	{ 1600, 1024, 0, 200, 1024, 0 },
	{ 1000, 1024, 0, 125, 875, 0 },
};

START_TEST(descriptors__are_divided)
{
	unsigned n_tcp = divided[_i].n_tcp;
	struct descriptors_plan plan;
	uint64_t others;

	config.sessions_max = divided[_i].sessions_max;
	plan = descriptors_divide(0, &config, n_tcp);
	ck_assert_uint_eq(plan.wanted.sessions, config.sessions_max);
	others = plan.needed - DESCRIPTORS_NEWCOMERS_MAX - plan.wanted.sessions -
		 plan.wanted.channels;
	ck_assert_uint_ge(others, config.connections_max * (1 + n_tcp));
	plan = descriptors_divide(others + divided[_i].limit, &config, n_tcp);
	ck_assert_uint_eq(plan.newcomers, divided[_i].newcomers);
	ck_assert_uint_eq(plan.fits.sessions, divided[_i].sessions);
	ck_assert_uint_eq(plan.fits.channels, divided[_i].channels);
}
END_TEST

START_TEST(descriptors__allow_one_session_at_least)
{
	struct descriptors fits = descriptors_divide(0, &config, 1).fits;

	ck_assert_uint_eq(fits.sessions, 1);
	ck_assert_uint_eq(fits.channels, 1);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("descriptors", setup, NULL);

	tcase_add_test(tc, limit__is_raised_to_the_hard_one);
	tcase_add_loop_test(tc, descriptors__are_divided, 0,
			    sizeof(divided) / sizeof(divided[0]));
	tcase_add_test(tc, descriptors__allow_one_session_at_least);
	return unit_main();
}
