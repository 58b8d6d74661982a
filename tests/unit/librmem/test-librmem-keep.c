/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases that a session renews by itself. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "librmem/lease/lease.h"
#include "unit/librmem/core-case.h"

#define TTL_MS 1500u
#define LONG_MS 60000u
/* More than may be renewed at a time. */
#define MANY 100u

static rmem_lease *lease;

/* The requests that the proxy has seen, the one of rmem_keep() included. */
static unsigned renewals(void)
{
	return proxy.seen[WIRE_TYPE_renew];
}

static void open_kept(unsigned flags, uint64_t ttl_ms)
{
	open_with(flags);
	lease = alloc(1000, "kept");
	ck_assert_msg(rmem_keep(lease, ttl_ms) == 0, "%s", rmem_error());
}

/* The session renews a lease by itself. */
static bool keeps(void)
{
	bool some;

	pthread_mutex_lock(&stage.client->lock);
	some = stage.client->leases->kept.root;
	pthread_mutex_unlock(&stage.client->lock);
	return some;
}

static int stat_of(rmem *session)
{
	struct rmem_stat stat = rmem_stat_init();

	return rmem_stat(session, "kept", &stat);
}

START_TEST(keep__renews_each_third)
{
	uint64_t begin_ms = clock_now_ms();

	open_kept(0, TTL_MS);
	proxy_await(WIRE_TYPE_renew, 7);
	ck_assert_uint_ge(clock_now_ms() - begin_ms, 2 * TTL_MS - 100);
	ck_assert_int_eq(rmem_lease_status(lease), 0);
	ck_assert_int_eq(stat_of(stage.client), 0);
}
END_TEST

/* The program drives the session: the renewals are due before the heartbeats. */
START_TEST(keep__renews_without_the_service_thread)
{
	set_heartbeat(100000, 300000);
	open_kept(RMEM_NO_THREAD, TTL_MS);
	while (renewals() < 4) {
		struct pollfd pollfd = { .fd = rmem_fd(stage.client),
					 .events = POLLIN };

		ck_assert_int_eq(poll(&pollfd, 1, 10000), 1);
		ck_assert_int_eq(rmem_process(stage.client), 0);
	}
	ck_assert_int_eq(rmem_lease_status(lease), 0);
}
END_TEST

START_TEST(keep__ends_with_the_last_detach)
{
	rmem *another;
	rmem_lease *again = NULL;

	open_kept(0, 300);
	another = open_another("");
	ck_assert_int_eq(rmem_attach(stage.client, "kept", RMEM_READ, &again), 0);
	ck_assert_int_eq(rmem_detach(again), 0);
	ck_assert(keeps());
	ck_assert_int_eq(rmem_detach(lease), 0);
	ck_assert(!keeps());
	AWAIT(stat_of(another) == -ENOENT);
	rmem_close(another);
}
END_TEST

START_TEST(keep__ends_with_a_renewal)
{
	open_kept(0, LONG_MS);
	proxy_fail(WIRE_TYPE_renew, EDQUOT, 0);
	ck_assert_int_eq(rmem_renew(lease, 2 * LONG_MS), -EDQUOT);
	ck_assert(keeps());
	ck_assert_int_eq(rmem_renew(lease, 2 * LONG_MS), 0);
	ck_assert(!keeps());
	ck_assert_int_eq(rmem_keep(lease, LONG_MS), 0);
	ck_assert(keeps());
}
END_TEST

/* The next renewal were due after LONG_MS / 3. */
START_TEST(keep__renews_after_a_resumption)
{
	open_kept(0, LONG_MS);
	proxy_cut();
	AWAIT(info().resumes == 1);
	proxy_await(WIRE_TYPE_renew, 2);
	ck_assert_int_eq(rmem_lease_status(lease), 0);
	ck_assert(keeps());
}
END_TEST

START_TEST(keep__renews_many_leases_in_parts)
{
	open_kept(0, LONG_MS);
	for (unsigned i = 1; i < MANY; i++) {
		char name[20];

		(void)snprintf(name, sizeof(name), "kept %u", i);
		ck_assert_int_eq(rmem_keep(alloc(1000, name), LONG_MS), 0);
	}
	proxy_cut();
	proxy_await(WIRE_TYPE_renew, 2 * MANY);
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
}
END_TEST

/* The session looks for the one that is due next, not for one that is kept no more. */
START_TEST(keep__is_due_in_order)
{
	rmem_lease *second, *third;
	uint64_t begin_ns;

	open_kept(0, LONG_MS);
	second = alloc(1000, "second");
	third = alloc(1000, "third");
	begin_ns = clock_now_ns();
	ck_assert_int_eq(rmem_keep(second, 3 * LONG_MS), 0);
	ck_assert_int_eq(rmem_keep(third, 2 * LONG_MS), 0);
	pthread_mutex_lock(&stage.client->lock);
	ck_assert_uint_lt(keeps_due(stage.client), begin_ns + LONG_MS / 3 * NS_PER_MS);
	ck_assert(keep_stop(lease));
	ck_assert(!keep_stop(lease));
	ck_assert_uint_eq(keeps_due(stage.client), third->keep.node.major);
	ck_assert_uint_ge(keeps_due(stage.client),
			  begin_ns + 2 * LONG_MS / 3 * NS_PER_MS);
	ck_assert(keep_stop(third));
	ck_assert_uint_eq(keeps_due(stage.client), second->keep.node.major);
	ck_assert(keep_stop(second));
	ck_assert_uint_eq(keeps_due(stage.client), UINT64_MAX);
	pthread_mutex_unlock(&stage.client->lock);
}
END_TEST

START_TEST(keep__under_way_is_not_due)
{
	open_kept(0, 300);
	proxy.hold = WIRE_TYPE_renew;
	proxy_await(WIRE_TYPE_renew, 2);
	pthread_mutex_lock(&stage.client->lock);
	ck_assert_ptr_nonnull(lease->keep.call);
	ck_assert_uint_eq(keeps_due(stage.client), UINT64_MAX);
	pthread_mutex_unlock(&stage.client->lock);
	proxy_release();
	proxy_await(WIRE_TYPE_renew, 3);
}
END_TEST

START_TEST(keep__tries_again_after_an_error)
{
	unsigned before;

	open_kept(0, TTL_MS);
	before = renewals();
	proxy_fail(WIRE_TYPE_renew, EDQUOT, 0);
	proxy_await(WIRE_TYPE_renew, before + 4);
	ck_assert_int_eq(rmem_lease_status(lease), 0);
	ck_assert_int_eq(stat_of(stage.client), 0);
}
END_TEST

START_TEST(keep__ends_with_the_lease)
{
	open_kept(0, _i ? LONG_MS : TTL_MS);
	if (_i)
		proxy_event(WIRE_TYPE_revoked, rmem_lease_id(lease), 0);
	else
		proxy_fail(WIRE_TYPE_renew, ESTALE, 0);
	AWAIT(!keeps());
	ck_assert_int_eq(rmem_lease_status(lease), _i ? -ESTALE : 0);
}
END_TEST

/* The lease may have ended before it is renewed. */
START_TEST(keep__renews_every_100_ms_at_most)
{
	uint64_t begin_ns = clock_now_ns();

	open_kept(0, 1);
	pthread_mutex_lock(&stage.client->lock);
	ck_assert_uint_ge(lease->keep.node.major, begin_ns + 100 * NS_PER_MS);
	pthread_mutex_unlock(&stage.client->lock);
}
END_TEST

START_TEST(keep__refuses)
{
	rmem_lease *unnamed, *to_read = NULL;
	rmem *another;

	open_kept(0, LONG_MS);
	ck_assert_int_eq(rmem_keep(NULL, 1000), -EINVAL);
	ck_assert_int_eq(rmem_keep(lease, 0), -EINVAL);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "ttl_ms is 0"));
	ck_assert_int_eq(rmem_keep(lease, RMEM_TTL_SAME), -EINVAL);
	unnamed = alloc(1000, NULL);
	ck_assert_int_eq(rmem_keep(unnamed, 1000), -EINVAL);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "has no name"));
	another = open_another("");
	ck_assert_int_eq(rmem_attach(another, "kept", RMEM_READ, &to_read), 0);
	ck_assert_int_eq(rmem_keep(to_read, 1000), -EACCES);
	rmem_close(another);
	ck_assert_int_eq(rmem_destroy(lease), 0);
	ck_assert(!keeps());
}
END_TEST

int main(void)
{
	TCase *tc = core_case("keep");

	tcase_add_test(tc, keep__renews_each_third);
	tcase_add_test(tc, keep__renews_without_the_service_thread);
	tcase_add_test(tc, keep__ends_with_the_last_detach);
	tcase_add_test(tc, keep__ends_with_a_renewal);
	tcase_add_test(tc, keep__renews_after_a_resumption);
	tcase_add_test(tc, keep__renews_many_leases_in_parts);
	tcase_add_test(tc, keep__is_due_in_order);
	tcase_add_test(tc, keep__under_way_is_not_due);
	tcase_add_test(tc, keep__tries_again_after_an_error);
	tcase_add_loop_test(tc, keep__ends_with_the_lease, 0, 2);
	tcase_add_test(tc, keep__renews_every_100_ms_at_most);
	tcase_add_test(tc, keep__refuses);
	return unit_main();
}
