/* SPDX-License-Identifier: BSD-3-Clause */
/* The threads that register and deregister memory: tenants take turns, the end of a region waits
 * for no registration, and nothing is registered for a session that is closed. */
#include <semaphore.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-server-stage.h"

#define LARGE ((size_t)1 << 20) /* registered by the thread */
#define MANY 10

/* The thread's first registration waits for the case. */
static sem_t held, go;
static atomic_uint registrations;
static atomic_bool hold;

static _Atomic uint64_t now_ns, job_ns;

static uint64_t now(void)
{
	return atomic_load(&now_ns);
}

static void before_reg_mr(void)
{
	(void)atomic_fetch_add(&registrations, 1);
	(void)atomic_fetch_add(&now_ns, atomic_load(&job_ns));
	if (!atomic_exchange(&hold, false))
		return;
	ck_assert_int_eq(sem_post(&held), 0);
	ck_assert_int_eq(sem_wait(&go), 0);
}

/* In the order of mr_registered(). */
static void *cookies[2 * MANY + 2];
static unsigned n_cookies;

static void on_mr_registered(void *ctx, void *cookie, int err, const char *text,
			     const struct fabric_key *key)
{
	(void)ctx;
	(void)key;
	ck_assert_msg(!err, "%s", text);
	cookies[n_cookies++] = cookie;
}

static const char tenants[3];
static unsigned tenant;

static const void *on_tenant(void *ctx, void *session_cookie)
{
	(void)ctx;
	(void)session_cookie;
	return &tenants[tenant];
}

static void setup(void)
{
	ck_assert_int_eq(sem_init(&held, 0, 0) | sem_init(&go, 0, 0), 0);
	/* all jobs take the same time */
	atomic_store(&now_ns, 1000000000);
	atomic_store(&job_ns, 0);
	clock_set_source(now);
	server_events.tenant = on_tenant;
	server_events.mr_registered = on_mr_registered;
	server_open();
	verbs_fake.before_reg_mr = before_reg_mr;
}

static struct fabric_session *session_of(unsigned number)
{
	tenant = number;
	return session_new(0);
}

static struct fabric_mr *reg(struct fabric_session *session, uintptr_t cookie)
{
	struct fabric_mr *mr = NULL;

	ck_assert_int_eq(SERVER->reg_mr(session, memory, LARGE, FABRIC_RIGHT_READ,
					(void *)cookie, &mr, NULL),
			 0);
	return mr;
}

/* The thread is in a registration of the session. */
static struct fabric_mr *reg_held(struct fabric_session *session, uintptr_t cookie)
{
	struct fabric_mr *mr;

	atomic_store(&hold, true);
	mr = reg(session, cookie);
	ck_assert_int_eq(sem_wait(&held), 0);
	return mr;
}

START_TEST(registrations__of_tenants_take_turns)
{
	struct fabric_session *one = session_of(0), *two = session_of(1);
	unsigned at = 0;

	reg_held(one, 1);
	for (unsigned i = 0; i < MANY; i++)
		reg(_i ? session_of(0) : one, 1);
	reg(two, 2);
	ck_assert_int_eq(sem_post(&go), 0);
	await(&n_cookies, MANY + 2);
	while (cookies[at] != (void *)2)
		at++;
	/* after the one in progress */
	ck_assert_uint_eq(at, 1);
}
END_TEST

/* A tenant that asks for many long segments delays another by the one in progress, also if the
 * other has registered as many bytes just before, when nobody waited. */
START_TEST(registrations__wait_for_one_segment_of_others)
{
	struct fabric_session *one = session_of(0), *two = session_of(1);
	unsigned at = 0;

	atomic_store(&job_ns, 4000000000);
	for (unsigned i = 0; i < MANY; i++) {
		reg(two, 2);
		await(&n_cookies, i + 1);
	}
	n_cookies = 0;
	reg_held(one, 1);
	for (unsigned i = 0; i < MANY; i++)
		reg(one, 1);
	reg(two, 2);
	ck_assert_int_eq(sem_post(&go), 0);
	await(&n_cookies, MANY + 2);
	while (cookies[at] != (void *)2)
		at++;
	ck_assert_uint_eq(at, 1);
}
END_TEST

/* A tenant that had nothing to do before has no advantage of it. */
START_TEST(registrations__of_a_new_tenant_do_not_starve_others)
{
	struct fabric_session *one = session_of(0), *two = session_of(1);
	unsigned ones = 0;

	for (unsigned i = 0; i < MANY; i++)
		reg(one, 1);
	await(&n_cookies, MANY);
	n_cookies = 0;
	reg_held(session_of(2), 3);
	for (unsigned i = 0; i < MANY; i++)
		reg(two, 2);
	for (unsigned i = 0; i < MANY; i++)
		reg(one, 1);
	ck_assert_int_eq(sem_post(&go), 0);
	await(&n_cookies, 2 * MANY + 1);
	for (unsigned i = 0; i < MANY; i++)
		ones += cookies[i] == (void *)1;
	ck_assert_uint_ge(ones, MANY / 2 - 1);
}
END_TEST

START_TEST(dereg_mr__waits_for_no_registration)
{
	struct fabric_session *one = session_of(0);
	struct fabric_mr *mr = mr_request(one, 100, FABRIC_RIGHT_READ);

	await(&n_cookies, 1);
	reg_held(_i ? one : session_of(1), 1);
	SERVER->dereg_mr(mr);
	await(&seen.deregistered, 1);
	ck_assert_int_eq(sem_post(&go), 0);
	await(&n_cookies, 2);
}
END_TEST

START_TEST(session_close__drops_registrations_that_wait)
{
	struct fabric_session *session = session_of(0);
	struct fabric_mr *mrs[MANY + 1];

	mrs[MANY] = reg_held(session, 1);
	for (unsigned i = 0; i < MANY; i++)
		mrs[i] = reg(session, 1);
	SERVER->session_close(session);
	for (unsigned i = 0; i <= MANY; i++)
		SERVER->dereg_mr(mrs[i]);
	await(&seen.deregistered, MANY);
	ck_assert_uint_eq(seen.closed, 0);
	ck_assert_int_eq(sem_post(&go), 0);
	await(&seen.closed, 1);
	ck_assert_uint_eq(seen.deregistered, MANY + 1);
	ck_assert_uint_eq(n_cookies, 0);
	ck_assert_uint_eq(atomic_load(&registrations), 1);
	ck_assert_uint_eq(stats().exposures, 0);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("worker", setup, server_close);

	tcase_add_loop_test(tcase, registrations__of_tenants_take_turns, 0, 2);
	tcase_add_test(tcase, registrations__wait_for_one_segment_of_others);
	tcase_add_test(tcase, registrations__of_a_new_tenant_do_not_starve_others);
	tcase_add_loop_test(tcase, dereg_mr__waits_for_no_registration, 0, 2);
	tcase_add_test(tcase, session_close__drops_registrations_that_wait);
	return unit_main();
}
