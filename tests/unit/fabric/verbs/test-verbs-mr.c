/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions of a server's sessions: registered, deregistered, and freed with the
 * session. */
#include <errno.h>
#include <string.h>

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
	/* atomics need support of the device, and both rights */
	{ RIGHTS_RW, false, IBV_ATOMIC_NONE, ACCESS_RW },
	{ RIGHTS_RW, false, IBV_ATOMIC_HCA, ACCESS_RW | IBV_ACCESS_REMOTE_ATOMIC },
	{ RIGHTS_RW, false, IBV_ATOMIC_GLOB, ACCESS_RW | IBV_ACCESS_REMOTE_ATOMIC },
	{ FABRIC_RIGHT_READ, false, IBV_ATOMIC_HCA,
	  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ },
	{ RIGHTS_RW, true, IBV_ATOMIC_HCA, ACCESS_RW },
};

START_TEST(reg_mr__grants_exactly_the_rights)
{
	struct fabric_mr *mr;

	verbs_fake.iwarp = accesses[_i].iwarp;
	verbs_fake.atomics = accesses[_i].atomic_cap;
	server_open();
	ck_assert_uint_eq(SERVER->endpoint(server, 0)->flags,
			  FABRIC_ENDPOINT_INBAND |
				  (verbs_fake.iwarp ? FABRIC_ENDPOINT_CONFIRM : 0) |
				  (verbs_fake.atomics && !verbs_fake.iwarp
					   ? FABRIC_ENDPOINT_ATOMICS
					   : 0));
	mr = mr_request(session_new(0), 100, accesses[_i].rights);
	await(&seen.registered, 1);
	ck_assert_uint_eq(fake_access(), accesses[_i].access);
	ck_assert_uint_eq(seen.key.addr, (uintptr_t)memory);
	ck_assert_uint_ne(seen.key.rkey, 0);
	ck_assert_uint_eq(stats().exposures, 1);
	ck_assert_uint_eq(stats().exposed_bytes, 100);
	SERVER->dereg_mr(mr);
	await(&seen.deregistered, 1);
	ck_assert_uint_eq(fake_live_mrs(), 0);
	ck_assert_uint_eq(stats().exposures, 0);
	ck_assert_uint_eq(stats().exposed_bytes, 0);
}
END_TEST

/* A small range takes less time to register than a change of threads; a large one would
 * delay the loop. */
START_TEST(reg_mr__registers_small_ranges_on_the_loop)
{
	struct fabric_session *session = server_open_session();

	for (unsigned i = 0; i < 2; i++) {
		(void)mr_request(session, ((size_t)64 << 10) + i, FABRIC_RIGHT_READ);
		ck_assert_uint_eq(seen.registered, i);
		await(&seen.registered, i + 1);
		ck_assert_int_eq(fake_registered_here(), i == 0);
	}
}
END_TEST

static _Atomic uint64_t passed_ns;

static uint64_t fake_clock(void)
{
	return 1000 * NS_PER_MS + passed_ns;
}

static void reg_mr_takes_5ms(void)
{
	passed_ns += 5 * NS_PER_MS;
}

static bool registers_on_loop(struct fabric_session *session)
{
	unsigned n = seen.registered;

	(void)mr_request(session, 4096, FABRIC_RIGHT_READ);
	await(&seen.registered, n + 1);
	return fake_registered_here();
}

START_TEST(reg_mr__uses_a_thread_for_a_slow_device)
{
	struct fabric_session *session;

	clock_set_source(fake_clock);
	session = server_open_session();
	verbs_fake.before_reg_mr = reg_mr_takes_5ms;
	ck_assert(registers_on_loop(session));
	ck_assert(!registers_on_loop(session));
	verbs_fake.before_reg_mr = NULL;
	/* the thread is used for a while, also when the device is fast again */
	passed_ns = 999 * NS_PER_MS;
	ck_assert(!registers_on_loop(session));
	passed_ns += NS_PER_MS;
	ck_assert(registers_on_loop(session));
}
END_TEST

START_TEST(reg_mr__deregistered_at_once_is_not_reported)
{
	SERVER->dereg_mr(
		mr_request(server_open_session(), sizeof(memory), FABRIC_RIGHT_READ));
	await(&seen.deregistered, 1);
	ck_assert_uint_eq(seen.registered, 0);
	ck_assert_uint_eq(fake_live_mrs(), 0);
}
END_TEST

START_TEST(reg_mr__is_tried_where_the_device_names_no_limit)
{
	verbs_fake.max_mr_bytes = 0;
	(void)mr_request(server_open_session(), (size_t)2 << 30, FABRIC_RIGHT_READ);
	await(&seen.registered, 1);
	ck_assert_int_eq(seen.err, 0);
}
END_TEST

START_TEST(reg_mr__that_fails_names_the_cause)
{
	static const struct {
		size_t bytes;
		const char *text;
	} refused[] = {
		{ 0, "no bytes to register" },
		{ ((size_t)1 << 30) + 1, "RDMA device fake0 registers at most 1 GiB" },
		{ (size_t)3 << 30,
		  "RDMA device fake0 registers at most 1 GiB at once, and a piece of "
		  "the lease has 3 GiB: allocate the lease again" },
	};
	struct fabric_session *session = server_open_session();
	struct fabric_mr *mr = NULL;

	for (unsigned i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		ck_assert_int_eq(SERVER->reg_mr(session, memory, refused[i].bytes,
						FABRIC_RIGHT_READ, NULL, &mr, NULL),
				 i == 0 ? -EINVAL : -EIO);
		ck_assert_ptr_nonnull(strstr(err_text(), refused[i].text));
	}
	verbs_fake.reg_error = ENOMEM;
	(void)mr_request(session, sizeof(memory), FABRIC_RIGHT_READ);
	await(&seen.registered, 1);
	ck_assert_int_eq(seen.err, -ENOMEM);
	ck_assert_ptr_nonnull(strstr(seen.text, "fake0"));
	ck_assert_uint_eq(seen.deregistered, 0);
	session_end(session);
}
END_TEST

/* ---- the quarantine of keys ---- */

#define ATTEMPTS 16

static void open_quarantine(uint64_t ms)
{
	const struct fabric_server_params params = { .key_quarantine_ms = ms };

	verbs_fake.repeats_keys = true;
	ck_assert_int_eq(server_try_open(params), 0);
}

/* Register and deregister n regions; returns the key of the last one. */
static uint64_t churn(struct fabric_session *session, unsigned n)
{
	struct fabric_mr *mrs[2 * ATTEMPTS];
	uint64_t key = 0;

	for (unsigned i = 0; i < n; i++) {
		mrs[i] = mr_new(session);
		key = seen.key.rkey;
	}
	for (unsigned i = 0; i < n; i++) {
		unsigned before = seen.deregistered;

		SERVER->dereg_mr(mrs[i]);
		await(&seen.deregistered, before + 1);
	}
	return key;
}

START_TEST(key__is_handed_out_again_as_the_device_does)
{
	struct fabric_session *session;
	uint64_t key;

	open_quarantine(0);
	session = session_new(0);
	key = churn(session, 1);
	ck_assert_uint_eq(churn(session, 1), key);
}
END_TEST

/* Also to another session, and with several keys in quarantine. */
START_TEST(key__in_quarantine_is_not_handed_out)
{
	struct fabric_session *session;
	unsigned n_mrs;
	uint64_t key;

	open_quarantine(3600000);
	session = session_new(0);
	n_mrs = fake_live_mrs();
	key = churn(session, ATTEMPTS - 1);
	(void)mr_new(session_new(0));
	ck_assert_uint_gt(seen.key.rkey, key);
	/* those that were registered with other keys have gone */
	ck_assert_uint_eq(fake_live_mrs(), n_mrs + 1);
}
END_TEST

START_TEST(key__leaves_quarantine_after_its_time)
{
	struct fabric_session *session;
	uint64_t key;

	clock_set_source(fake_clock);
	open_quarantine(1000);
	session = session_new(0);
	key = churn(session, 1);
	passed_ns = 1000 * NS_PER_MS;
	ck_assert_uint_eq(churn(session, 1), key);
}
END_TEST

START_TEST(key__in_quarantine_too_often_fails_the_registration)
{
	struct fabric_session *session;
	unsigned n_mrs;

	open_quarantine(3600000);
	session = session_new(0);
	(void)churn(session, ATTEMPTS);
	n_mrs = fake_live_mrs();
	seen.registered = 0;
	(void)mr_request(session, sizeof(memory), FABRIC_RIGHT_READ);
	await(&seen.registered, 1);
	ck_assert_int_eq(seen.err, -EIO);
	ck_assert_ptr_nonnull(strstr(seen.text,
				     "fake0 hands out 16 rkeys again that died "
				     "less than 3600000ms ago: try again, or "
				     "lower [rdma] key_quarantine"));
	ck_assert_uint_eq(fake_live_mrs(), n_mrs);
	session_end(session);
}
END_TEST

/* The region ends with the key that could not be ended at first. */
START_TEST(key__in_quarantine_that_does_not_die_fails_the_registration)
{
	struct fabric_session *session;
	unsigned n_mrs;

	open_quarantine(3600000);
	session = session_new(0);
	(void)churn(session, 1);
	n_mrs = fake_live_mrs();
	verbs_fake.dereg_refusals = 1;
	seen.registered = 0;
	(void)mr_request(session, sizeof(memory), FABRIC_RIGHT_READ);
	await(&seen.registered, 1);
	ck_assert_int_eq(seen.err, -EIO);
	ck_assert_str_eq(seen.text, "RDMA device fake0: ibv_dereg_mr failed");
	session_end(session);
	ck_assert_uint_eq(fake_live_mrs(), n_mrs);
}
END_TEST

/* ---- sessions ---- */

START_TEST(session_close__ends_channels_before_it_returns)
{
	struct fabric_session *unaffected = server_open_session(), *session;
	struct fabric_mr *mrs[2];

	(void)channel_new(unaffected, 1);
	session = session_new(0);
	(void)channel_new(session, 1);
	(void)channel_new(session, 2);
	mrs[0] = mr_new(session);
	mrs[1] = mr_new(session);
	SERVER->session_close(session);
	ck_assert_uint_eq(fake_serving_qps(), 1);
	ck_assert_uint_eq(live_qps(), 1);
	ck_assert_uint_eq(seen.downs, 0);
	/* it was admitted: the daemon learns that it is no channel */
	ck_assert_int_eq(fake_request_state(request(1, 3)), FAKE_REJECTED);
	ck_assert_uint_eq(seen.downs, 1);
	/* the session exists until its caller has deregistered all */
	SERVER->dereg_mr(mrs[0]);
	await(&seen.deregistered, 1);
	ck_assert_uint_eq(seen.closed, 0);
	SERVER->dereg_mr(mrs[1]);
	await(&seen.closed, 1);
	ck_assert_uint_eq(seen.deregistered, 2);
	ck_assert_uint_eq(seen.downs, 1);
	/* of the receives of the other session's channel */
	ck_assert_uint_eq(fake_live_mrs(), 1);
}
END_TEST

START_TEST(dereg_mr__refused_cuts_the_session_off)
{
	struct fabric_session *session = server_open_session();
	struct fabric_mr *mr;

	(void)channel_new(session, 1);
	mr = mr_new(session);
	verbs_fake.dereg_error = EBUSY;
	SERVER->dereg_mr(mr);
	await(&seen.deregistered, 1);
	ck_assert_uint_eq(fake_serving_qps(), 0);
	ck_assert_uint_eq(live_qps(), 0);
	ck_assert_uint_eq(seen.downs, 1);
	ck_assert_uint_eq(seen.events, 1);
	/* and stays so */
	ck_assert_int_eq(fake_request_state(request(1, 2)), FAKE_REJECTED);
	ck_assert_uint_eq(seen.downs, 2);
	session_end(session);
}
END_TEST

START_TEST(close__frees_all_objects)
{
	struct fabric_session *session = server_open_session();

	(void)channel_new(session, 1);
	(void)mr_new(session);
	(void)request(1, 2);
	(void)mr_request(session, 10, 0);
	(void)session_new(1);
	session = session_new(0);
	(void)mr_request(session, 10, 0);
	SERVER->session_close(session);
	server_close();
	ck_assert_uint_eq(seen.closed + seen.downs + seen.deregistered, 0);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("mr", NULL, server_close);

	tcase_add_loop_test(tcase, reg_mr__grants_exactly_the_rights, 0,
			    COUNT(accesses));
	tcase_add_test(tcase, reg_mr__registers_small_ranges_on_the_loop);
	tcase_add_test(tcase, reg_mr__uses_a_thread_for_a_slow_device);
	tcase_add_test(tcase, reg_mr__deregistered_at_once_is_not_reported);
	tcase_add_test(tcase, reg_mr__is_tried_where_the_device_names_no_limit);
	tcase_add_test(tcase, reg_mr__that_fails_names_the_cause);
	tcase_add_test(tcase, key__is_handed_out_again_as_the_device_does);
	tcase_add_test(tcase, key__in_quarantine_is_not_handed_out);
	tcase_add_test(tcase, key__leaves_quarantine_after_its_time);
	tcase_add_test(tcase, key__in_quarantine_too_often_fails_the_registration);
	tcase_add_test(tcase,
		       key__in_quarantine_that_does_not_die_fails_the_registration);
	tcase_add_test(tcase, session_close__ends_channels_before_it_returns);
	tcase_add_test(tcase, dereg_mr__refused_cuts_the_session_off);
	tcase_add_test(tcase, close__frees_all_objects);
	return unit_main();
}
