/* SPDX-License-Identifier: BSD-3-Clause */
/* What a session may reach: exposures are made, withdrawn, and end with it. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-server-stage.h"

#define ACCESS_RW \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)
#define RIGHTS_RW (FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE)

static const struct {
	unsigned rights;
	bool iwarp;
	enum ibv_atomic_cap atomic_cap;
	unsigned access;
} accesses[] = {
	{ 0, false, 0, IBV_ACCESS_LOCAL_WRITE },
	{ FABRIC_RIGHT_READ, false, 0,
	  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ },
	{ FABRIC_RIGHT_WRITE, false, IBV_ATOMIC_GLOB,
	  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE },
	{ FABRIC_RIGHT_READ, true, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ },
	{ FABRIC_RIGHT_WRITE, true, 0, ACCESS_RW },
	/* atomics need the device, and both rights */
	{ RIGHTS_RW, false, IBV_ATOMIC_NONE, ACCESS_RW },
	{ RIGHTS_RW, false, IBV_ATOMIC_HCA, ACCESS_RW | IBV_ACCESS_REMOTE_ATOMIC },
	{ RIGHTS_RW, false, IBV_ATOMIC_GLOB, ACCESS_RW | IBV_ACCESS_REMOTE_ATOMIC },
	{ FABRIC_RIGHT_READ, false, IBV_ATOMIC_HCA,
	  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ },
	{ RIGHTS_RW, true, IBV_ATOMIC_HCA, ACCESS_RW },
};

START_TEST(expose__grants_exactly_the_rights)
{
	struct fabric_mr *exposure = NULL;

	fake.iwarp = accesses[_i].iwarp;
	fake.atomics = accesses[_i].atomic_cap;
	ck_assert_int_eq(open_plain(), 0);
	ck_assert_uint_eq(
		SERVER->endpoint(server, 0)->flags,
		FABRIC_ENDPOINT_INBAND | (fake.iwarp ? FABRIC_ENDPOINT_CONFIRM : 0) |
			(fake.atomics && !fake.iwarp ? FABRIC_ENDPOINT_ATOMICS : 0));
	ck_assert_int_eq(SERVER->reg_mr(session_new(0), memory, 100,
					accesses[_i].rights, NULL, &exposure),
			 0);
	await(&seen.exposeds, 1);
	ck_assert_uint_eq(fake_access(), accesses[_i].access);
	ck_assert_uint_eq(seen.key.addr, (uintptr_t)memory);
	ck_assert_uint_ne(seen.key.rkey, 0);
	ck_assert_uint_eq(stats().exposures, 1);
	ck_assert_uint_eq(stats().exposed_bytes, 100);
	SERVER->dereg_mr(exposure);
	await(&seen.withdrawns, 1);
	ck_assert_uint_eq(fake_live_mrs(), 0);
	ck_assert_uint_eq(stats().exposures, 0);
	ck_assert_uint_eq(stats().exposed_bytes, 0);
	close_all();
}
END_TEST

/* Little takes less time than to change threads, and much more than the loop has. */
START_TEST(expose__registers_little_on_the_loop)
{
	struct fabric_mr *exposure = NULL;
	struct fabric_session *session;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(SERVER->reg_mr(session, memory, ((size_t)64 << 10) + i,
						FABRIC_RIGHT_READ, NULL, &exposure),
				 0);
		ck_assert_uint_eq(seen.exposeds, i);
		await(&seen.exposeds, i + 1);
		ck_assert_int_eq(fake_registered_here(), i == 0);
	}
	close_all();
}
END_TEST

static void dawdle(void)
{
	const struct timespec pause = { .tv_nsec = 5000000 };

	(void)nanosleep(&pause, NULL);
}

static bool registers_here(struct fabric_session *session)
{
	struct fabric_mr *exposure = NULL;
	unsigned n = seen.exposeds;

	ck_assert_int_eq(SERVER->reg_mr(session, memory, 4096, FABRIC_RIGHT_READ, NULL,
					&exposure),
			 0);
	await(&seen.exposeds, n + 1);
	return fake_registered_here();
}

START_TEST(expose__spares_the_loop_a_device_that_is_slow)
{
	uint64_t begin_ms = clock_now_ms();
	struct fabric_session *session;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	fake.at_reg = dawdle;
	ck_assert(registers_here(session));
	ck_assert(!registers_here(session));
	fake.at_reg = NULL;
	/* for a while, whatever it takes now */
	while (!registers_here(session)) {
		ck_assert_uint_lt(clock_now_ms() - begin_ms, 30000);
		dawdle();
	}
	ck_assert_uint_ge(clock_now_ms() - begin_ms, 1000);
	close_all();
}
END_TEST

START_TEST(expose__withdrawn_at_once_is_never_announced)
{
	struct fabric_mr *exposure = NULL;

	ck_assert_int_eq(open_plain(), 0);
	ck_assert_int_eq(SERVER->reg_mr(session_new(0), memory, sizeof(memory),
					FABRIC_RIGHT_READ, NULL, &exposure),
			 0);
	SERVER->dereg_mr(exposure);
	await(&seen.withdrawns, 1);
	ck_assert_uint_eq(seen.exposeds, 0);
	ck_assert_uint_eq(fake_live_mrs(), 0);
	close_all();
}
END_TEST

START_TEST(expose__that_fails_names_cause_and_remedy)
{
	struct fabric_mr *exposure = NULL;
	struct fabric_session *session;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	ck_assert_int_eq(
		SERVER->reg_mr(session, memory, 0, FABRIC_RIGHT_READ, NULL, &exposure),
		-EINVAL);
	ck_assert_int_eq(SERVER->reg_mr(session, memory, (size_t)2 << 30,
					FABRIC_RIGHT_READ, NULL, &exposure),
			 -EINVAL);
	fake.reg_error = ENOMEM;
	ck_assert_int_eq(SERVER->reg_mr(session, memory, sizeof(memory),
					FABRIC_RIGHT_READ, NULL, &exposure),
			 0);
	await(&seen.exposeds, 1);
	ck_assert_int_eq(seen.err, -ENOMEM);
	ck_assert_ptr_nonnull(strstr(seen.text, "fake0"));
	ck_assert_uint_eq(seen.withdrawns, 0);
	SERVER->session_close(session);
	await(&seen.closeds, 1);
	close_all();
}
END_TEST

/* ---- sessions ---- */

START_TEST(session_close__fences_before_it_returns)
{
	struct fabric_session *session, *stays;

	ck_assert_int_eq(open_plain(), 0);
	stays = session_new(0);
	(void)channel_new(stays, 1);
	session = session_new(0);
	(void)channel_new(session, 1);
	(void)channel_new(session, 2);
	(void)exposure_new(session);
	(void)exposure_new(session);
	SERVER->session_close(session);
	ck_assert_uint_eq(fake_live_qps(), 1);
	ck_assert_int_eq(fake_fate(request(1, 3)), FAKE_REJECTED);
	await(&seen.closeds, 1);
	ck_assert_uint_eq(seen.withdrawns, 2);
	ck_assert_uint_eq(seen.downs, 0);
	/* the receives of the channel that stays */
	ck_assert_uint_eq(fake_live_mrs(), 1);
	close_all();
}
END_TEST

START_TEST(withdraw__that_the_device_refuses_cuts_the_session_off)
{
	struct fabric_mr *exposure;
	struct fabric_session *session;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	(void)channel_new(session, 1);
	exposure = exposure_new(session);
	fake.dereg_error = EBUSY;
	SERVER->dereg_mr(exposure);
	await(&seen.withdrawns, 1);
	ck_assert_uint_eq(fake_live_qps(), 0);
	ck_assert_uint_eq(seen.downs, 1);
	ck_assert_uint_eq(seen.news, 1);
	/* for good */
	ck_assert_int_eq(fake_fate(request(1, 2)), FAKE_REJECTED);
	ck_assert_uint_eq(seen.downs, 2);
	SERVER->session_close(session);
	await(&seen.closeds, 1);
	close_all();
}
END_TEST

START_TEST(close__ends_whatever_there_is)
{
	struct fabric_session *session;
	struct fabric_mr *exposure = NULL;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	(void)channel_new(session, 1);
	(void)exposure_new(session);
	(void)request(1, 2);
	ck_assert_int_eq(SERVER->reg_mr(session, memory, 10, 0, NULL, &exposure), 0);
	(void)session_new(1);
	session = session_new(0);
	ck_assert_int_eq(SERVER->reg_mr(session, memory, 10, 0, NULL, &exposure), 0);
	SERVER->session_close(session);
	close_all();
	ck_assert_uint_eq(seen.closeds + seen.downs + seen.withdrawns, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("verbs-expose");
	TCase *tcase = tcase_create("expose");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, expose__grants_exactly_the_rights, 0, 5);
	tcase_add_test(tcase, expose__registers_little_on_the_loop);
	tcase_add_test(tcase, expose__spares_the_loop_a_device_that_is_slow);
	tcase_add_test(tcase, expose__withdrawn_at_once_is_never_announced);
	tcase_add_test(tcase, expose__that_fails_names_cause_and_remedy);
	tcase_add_test(tcase, session_close__fences_before_it_returns);
	tcase_add_test(tcase, withdraw__that_the_device_refuses_cuts_the_session_off);
	tcase_add_test(tcase, close__ends_whatever_there_is);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
