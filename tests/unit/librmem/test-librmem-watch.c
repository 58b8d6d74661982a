/* SPDX-License-Identifier: BSD-3-Clause */
/* Notifications as programs get them, with a scripted server. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "unit/librmem/librmem-client.h"

static struct rmem_notice got[4096];

static rmem_lease *watched(const char *name)
{
	rmem_lease *lease = alloc(1000, name);

	ck_assert_msg(rmem_watch(lease) == 0, "%s", rmem_error());
	return lease;
}

static bool readable(int fd, int timeout_ms)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	return poll(&pollfd, 1, timeout_ms) == 1;
}

/* The next notice is this one. */
static void expect(const rmem_lease *lease, int status, uint32_t value, uint32_t lost)
{
	struct rmem_notice notice;

	ck_assert_int_eq(rmem_notified(client, &notice, 1, 10000), 1);
	ck_assert_ptr_eq(notice.lease, lease);
	ck_assert_int_eq(notice.status, status);
	ck_assert_uint_eq(notice.value, value);
	ck_assert_uint_eq(notice.lost, lost);
}

/* All that the server has sent was taken in, and there is nothing. */
static void expect_none(void)
{
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	ck_assert_int_eq(rmem_notified(client, got, 1, 0), 0);
}

START_TEST(notified__in_their_order)
{
	rmem_lease *a, *b;
	int fd;

	open_with(_i ? RMEM_NO_THREAD : 0);
	fd = rmem_notified_fd(client);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(rmem_notified_fd(client), fd);
	a = watched(NULL);
	b = watched("b");
	ck_assert_uint_eq(server.seen[WIRE_TYPE_watch], 2);
	ck_assert(!readable(fd, 0));
	server_notify(rmem_lease_id(a), 5, 2, 0);
	server_notify(rmem_lease_id(b), 0, 1, 3);
	expect(a, 0, 5, 0);
	expect(a, 0, 6, 0);
	expect(b, 0, 0, 3);
	expect_none();
	ck_assert(!readable(fd, 0));
	server_notify(rmem_lease_id(b), UINT32_MAX, 1, UINT32_MAX);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	ck_assert(readable(fd, 10000));
	expect(b, 0, UINT32_MAX, RMEM_LOST_UNKNOWN);
	ck_assert(!readable(fd, 0));
	rmem_close(client);
}
END_TEST

START_TEST(notified_fd__made_late_tells_of_what_waits)
{
	rmem_lease *lease;

	open_with(0);
	lease = watched(NULL);
	server_notify(rmem_lease_id(lease), 1, 1, 0);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	ck_assert(readable(rmem_notified_fd(client), 0));
	expect(lease, 0, 1, 0);
	ck_assert(!readable(rmem_notified_fd(client), 0));
	rmem_close(client);
}
END_TEST

/* A program that drives its session waits for both descriptors. */
START_TEST(notified__driven_by_the_program)
{
	rmem_lease *lease;
	unsigned n = 0;

	open_with(RMEM_NO_THREAD);
	lease = watched(NULL);
	server_notify(rmem_lease_id(lease), 1, 1, 0);
	while (!readable(rmem_notified_fd(client), 0)) {
		ck_assert(readable(rmem_fd(client), 10000));
		ck_assert_int_eq(rmem_process(client), 0);
	}
	expect(lease, 0, 1, 0);
	/* or takes what is there, again and again */
	server_notify(rmem_lease_id(lease), 2, 1, 0);
	AWAIT((n = (unsigned)rmem_notified(client, got, 1, 0)) > 0);
	ck_assert_uint_eq(got[0].value, 2);
	rmem_close(client);
}
END_TEST

START_TEST(notified__takes_many_and_knows_its_limits)
{
	rmem_lease *lease;
	unsigned n = 0;
	uint64_t start;

	open_with(0);
	ck_assert_int_eq(rmem_notified(client, got, 0, 0), -EINVAL);
	ck_assert_int_eq(rmem_notified(NULL, got, 1, 0), -EINVAL);
	ck_assert_int_eq(rmem_watch(NULL), -EINVAL);
	ck_assert_int_eq(rmem_unwatch(NULL), -EINVAL);
	ck_assert_int_eq(rmem_notified_fd(NULL), -EINVAL);
	/* nothing is watched: nothing comes */
	start = clock_now_ms();
	ck_assert_int_eq(rmem_notified(client, got, 1, 30), 0);
	ck_assert_uint_ge(clock_now_ms() - start, 30);
	lease = watched(NULL);
	server_notify(rmem_lease_id(lease), 0, 500, 0);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	while (n < 500) {
		int k = rmem_notified(client, got + n, 4096 - n, 10000);

		ck_assert_int_gt(k, 0);
		n += (unsigned)k;
	}
	for (unsigned i = 0; i < 500; i++)
		ck_assert_uint_eq(got[i].value, i);
	expect_none();
	rmem_close(client);
}
END_TEST

/* A program that takes nothing: what is kept for it is bounded. */
START_TEST(notified__counts_what_had_no_room)
{
	const uint32_t sent = 100000;
	rmem_lease *a, *b;
	uint32_t lost = 0;
	unsigned n = 0;
	int k;

	open_with(0);
	a = watched(NULL);
	b = watched(NULL);
	server_notify(rmem_lease_id(a), 0, sent, 0);
	server_notify(rmem_lease_id(b), 7, 1, 5);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	while ((k = rmem_notified(client, got + n, 4096 - n, 0)) > 0)
		n += (unsigned)k;
	ck_assert_uint_lt(n, 2000);
	for (unsigned i = 0; i < n; i++)
		lost += got[i].lost;
	ck_assert_uint_eq(lost + n, sent + 1 + 5);
	/* the latest of each */
	ck_assert_ptr_eq(got[n - 2].lease, a);
	ck_assert_uint_eq(got[n - 2].value, sent - 1);
	ck_assert_ptr_eq(got[n - 1].lease, b);
	ck_assert_uint_eq(got[n - 1].lost, 5);
	rmem_close(client);
}
END_TEST

START_TEST(unwatch__ends_it)
{
	rmem_lease *a, *b;

	open_with(0);
	a = watched(NULL);
	b = watched(NULL);
	server_notify(rmem_lease_id(a), 1, 1, 0);
	server_notify(rmem_lease_id(b), 2, 1, 0);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	ck_assert_int_eq(rmem_unwatch(a), 0);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_unwatch], 1);
	/* what is on its way is dropped, too, and what the server makes up */
	server_notify(rmem_lease_id(a), 3, 1, 0);
	server_notify(12345, 4, 1, 0);
	expect(b, 0, 2, 0);
	expect_none();
	/* the end of what is not watched is no notice */
	server_event(WIRE_TYPE_revoked, rmem_lease_id(a), WIRE_REASON_REVOKED);
	expect_none();
	ck_assert_int_eq(rmem_unwatch(a), 0);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_unwatch], 1);
	rmem_close(client);
}
END_TEST

START_TEST(watch__is_refused)
{
	rmem_lease *lease;

	open_with(0);
	lease = alloc(1000, NULL);
	server_lock();
	server.fail_on = WIRE_TYPE_watch;
	server.fail_errno = ESTALE;
	server_unlock();
	ck_assert_int_eq(rmem_watch(lease), -ESTALE);
	server_notify(rmem_lease_id(lease), 1, 1, 0);
	expect_none();
	server_lock();
	server.fail_on = WIRE_TYPE_unwatch;
	server.fail_skip = 0;
	server.fail_errno = ENOMEM;
	server_unlock();
	ck_assert_int_eq(rmem_watch(lease), 0);
	ck_assert_int_eq(rmem_unwatch(lease), -ENOMEM);
	server_notify(rmem_lease_id(lease), 2, 1, 0);
	expect(lease, 0, 2, 0);
	rmem_close(client);
}
END_TEST

/* The handle goes: nothing names it any more. */
START_TEST(free__forgets_what_waits)
{
	rmem_lease *a, *b;
	int fd;

	open_with(0);
	fd = rmem_notified_fd(client);
	a = watched(NULL);
	b = watched("b");
	server_notify(rmem_lease_id(a), 1, 1, 0);
	server_notify(rmem_lease_id(b), 2, 1, 0);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	ck_assert(readable(fd, 10000));
	ck_assert_int_eq(rmem_free(a), 0);
	ck_assert_int_eq(rmem_detach(b), 0);
	ck_assert(!readable(fd, 0));
	expect_none();
	rmem_close(client);
}
END_TEST

static void *wait_for_one(void *arg)
{
	struct rmem_notice *notice = arg;

	ck_assert_int_eq(rmem_notified(client, notice, 1, -1), 1);
	return NULL;
}

/* Who waits learns of the end. */
START_TEST(lease__that_ends_is_told)
{
	struct rmem_notice notice;
	rmem_lease *lease;
	pthread_t thread;

	open_with(0);
	lease = watched("a");
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_one, &notice), 0);
	server_event(WIRE_TYPE_revoked, rmem_lease_id(lease), WIRE_REASON_EXPIRED);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_ptr_eq(notice.lease, lease);
	ck_assert_int_eq(notice.status, -ESTALE);
	ck_assert_int_eq(rmem_lease_status(lease), -ESTALE);
	/* once */
	server_event(WIRE_TYPE_revoked, rmem_lease_id(lease), WIRE_REASON_EXPIRED);
	server_notify(rmem_lease_id(lease), 1, 1, 0);
	expect_none();
	ck_assert_int_eq(rmem_unwatch(lease), 0);
	rmem_close(client);
}
END_TEST

START_TEST(session__resumed_tells_that_some_may_be_lost)
{
	rmem_lease *a, *b;

	open_with(_i ? RMEM_NO_THREAD : 0);
	a = watched(NULL);
	b = alloc(1000, NULL);
	server_hang_up();
	expect(a, -ECONNRESET, 0, RMEM_LOST_UNKNOWN);
	/* the server remembers what is watched, and so does the library */
	server_notify(rmem_lease_id(b), 8, 1, 0);
	server_notify(rmem_lease_id(a), 9, 1, 0);
	expect(a, 0, 9, 0);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	ck_assert_uint_eq(info().resumes, 1);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_watch], 1);
	expect_none();
	rmem_close(client);
}
END_TEST

/* A lease that ended while the session was away. */
START_TEST(session__resumed_without_the_lease)
{
	rmem_lease *lease;

	open_with(0);
	lease = watched(NULL);
	server_lock();
	server.leases[0].id = 0;
	server_unlock();
	server_hang_up();
	expect(lease, -ECONNRESET, 0, RMEM_LOST_UNKNOWN);
	expect(lease, -ESTALE, 0, 0);
	expect_none();
	rmem_close(client);
}
END_TEST

START_TEST(session__lost_for_good_ends_all)
{
	rmem_lease *a, *b;
	struct rmem_notice notice;

	open_with(_i ? RMEM_NO_THREAD : 0);
	a = watched(NULL);
	b = watched(NULL);
	server_notify(rmem_lease_id(a), 1, 1, 0);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	server_lock();
	server.forget = true;
	server_unlock();
	server_hang_up();
	expect(a, 0, 1, 0);
	expect(a, -ESTALE, 0, 0);
	expect(b, -ESTALE, 0, 0);
	ck_assert_int_eq(rmem_notified(client, &notice, 1, -1), -ESTALE);
	rmem_close(client);
}
END_TEST

/* The answer to watch is lost with the connection: it is asked again. */
START_TEST(watch__survives_the_loss_of_its_answer)
{
	rmem_lease *lease;

	open_with(0);
	lease = alloc(1000, NULL);
	server_lock();
	server.drop_on = WIRE_TYPE_watch;
	server_unlock();
	ck_assert_int_eq(rmem_watch(lease), 0);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_watch], 2);
	server_notify(rmem_lease_id(lease), 1, 1, 0);
	expect(lease, 0, 1, 0);
	rmem_close(client);
}
END_TEST

/* ---- what the server wants back ---- */

static struct rmem_wanted wanted(rmem_lease *lease)
{
	struct rmem_wanted wanted = RMEM_WANTED_INIT;

	ck_assert_msg(rmem_lease_wanted(lease, &wanted) == 0, "%s", rmem_error());
	return wanted;
}

/* Of any lease, whether it is watched or not, and whatever was watched before. */
START_TEST(wanted__is_told_of_any_lease)
{
	rmem_lease *a, *b;
	int fd;

	open_with(_i ? RMEM_NO_THREAD : 0);
	a = alloc(1000, NULL);
	b = alloc(1000, "b");
	fd = rmem_notified_fd(client);
	ck_assert_uint_eq(wanted(a).bytes, 0);
	ck_assert_uint_eq(wanted(a).wait_ms, 0);
	server_want(rmem_lease_id(a), 600, 3600000, true);
	/* a hostile, or a very patient, one */
	server_want(rmem_lease_id(b), 1000, UINT64_MAX, false);
	server_want(4711, 1, 1, false);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	ck_assert(readable(fd, 10000));
	expect(a, -ENOSPC, 0, 0);
	expect(b, -ENOSPC, 0, 0);
	expect_none();
	ck_assert_uint_eq(wanted(a).bytes, 600);
	ck_assert_int_eq(wanted(a).revoke, 1);
	ck_assert_uint_gt(wanted(a).wait_ms, 3500000);
	ck_assert_uint_le(wanted(a).wait_ms, 3600000);
	ck_assert_uint_eq(wanted(b).bytes, 1000);
	ck_assert_int_eq(wanted(b).revoke, 0);
	ck_assert_uint_gt(wanted(b).wait_ms, 3600000);
	/* not any more */
	server_want(rmem_lease_id(a), 0, 0, true);
	expect(a, -ENOSPC, 0, 0);
	ck_assert_uint_eq(wanted(a).bytes, 0);
	ck_assert_int_eq(wanted(a).revoke, 0);
	/* what is told does not make it watched, and goes with the handle */
	server_notify(rmem_lease_id(a), 1, 1, 0);
	expect_none();
	server_want(rmem_lease_id(b), 1, 1, false);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	ck_assert_int_eq(rmem_free(b), 0);
	expect_none();
	ck_assert(!readable(fd, 0));
	rmem_close(client);
}
END_TEST

START_TEST(wanted__of_what_has_ended)
{
	struct rmem_wanted of = RMEM_WANTED_INIT;
	rmem_lease *lease;

	open_with(0);
	lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_lease_wanted(NULL, &of), -EINVAL);
	ck_assert_int_eq(rmem_lease_wanted(lease, NULL), -EINVAL);
	of.size = 1;
	ck_assert_int_eq(rmem_lease_wanted(lease, &of), -EINVAL);
	ck_assert_msg(strstr(rmem_error(), "size is 1"), "%s", rmem_error());
	of.size = sizeof(of);
	server_want(rmem_lease_id(lease), 1000, 1, true);
	expect(lease, -ENOSPC, 0, 0);
	server_event(WIRE_TYPE_revoked, rmem_lease_id(lease), WIRE_REASON_REVOKED);
	server_want(rmem_lease_id(lease), 1000, 1, true);
	expect_none();
	ck_assert_int_eq(rmem_lease_wanted(lease, &of), -ESTALE);
	ck_assert_int_eq(rmem_lease_status(lease), -ESTALE);
	rmem_close(client);
}
END_TEST

/* The server says it again to who comes back, where it is still so. */
START_TEST(wanted__is_forgotten_with_the_connection)
{
	rmem_lease *lease;

	open_with(0);
	lease = alloc(1000, NULL);
	server_want(rmem_lease_id(lease), 1000, 60000, true);
	expect(lease, -ENOSPC, 0, 0);
	server_hang_up();
	server_await(WIRE_TYPE_hello, 2);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	AWAIT(info().resumes == 1);
	expect(lease, -ENOSPC, 0, 0);
	expect_none();
	ck_assert_uint_eq(wanted(lease).bytes, 0);
	server_want(rmem_lease_id(lease), 500, 60000, true);
	expect(lease, -ENOSPC, 0, 0);
	ck_assert_uint_eq(wanted(lease).bytes, 500);
	rmem_close(client);
}
END_TEST

/* There is no room: a notification that takes its place counts it. */
START_TEST(wanted__is_not_lost_in_silence)
{
	rmem_lease *a, *b;
	unsigned n = 0;
	int k;

	open_with(0);
	a = watched(NULL);
	b = watched(NULL);
	server_notify(rmem_lease_id(a), 0, 2000, 0);
	server_want(rmem_lease_id(b), 600, 60000, true);
	server_notify(rmem_lease_id(b), 7, 1, 0);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	while ((k = rmem_notified(client, got + n, 4096 - n, 0)) > 0)
		n += (unsigned)k;
	ck_assert_ptr_eq(got[n - 1].lease, b);
	ck_assert_int_eq(got[n - 1].status, 0);
	ck_assert_uint_eq(got[n - 1].value, 7);
	ck_assert_uint_eq(got[n - 1].lost, 1);
	rmem_close(client);
}
END_TEST

START_TEST(wanted__outlives_the_watching)
{
	rmem_lease *lease;
	int fd;

	open_with(0);
	fd = rmem_notified_fd(client);
	lease = watched(NULL);
	server_notify(rmem_lease_id(lease), 1, 1, 0);
	server_want(rmem_lease_id(lease), 600, 60000, true);
	server_notify(rmem_lease_id(lease), 2, 1, 0);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	ck_assert_int_eq(rmem_unwatch(lease), 0);
	ck_assert(readable(fd, 10000));
	expect(lease, -ENOSPC, 0, 0);
	expect_none();
	/* once, and not of what has ended */
	ck_assert_int_eq(rmem_unwatch(lease), 0);
	expect_none();
	server_want(rmem_lease_id(lease), 0, 0, false);
	server_event(WIRE_TYPE_revoked, rmem_lease_id(lease), WIRE_REASON_REVOKED);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	ck_assert_int_eq(rmem_unwatch(lease), 0);
	expect_none();
	ck_assert(!readable(fd, 0));
	rmem_close(client);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-watch");
	TCase *tc = tcase_create("watch");

	tcase_add_checked_fixture(tc, client_setup, client_teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, notified__in_their_order, 0, 2);
	tcase_add_test(tc, notified_fd__made_late_tells_of_what_waits);
	tcase_add_test(tc, notified__driven_by_the_program);
	tcase_add_test(tc, notified__takes_many_and_knows_its_limits);
	tcase_add_test(tc, notified__counts_what_had_no_room);
	tcase_add_test(tc, unwatch__ends_it);
	tcase_add_test(tc, watch__is_refused);
	tcase_add_test(tc, free__forgets_what_waits);
	tcase_add_test(tc, lease__that_ends_is_told);
	tcase_add_loop_test(tc, session__resumed_tells_that_some_may_be_lost, 0, 2);
	tcase_add_test(tc, session__resumed_without_the_lease);
	tcase_add_loop_test(tc, session__lost_for_good_ends_all, 0, 2);
	tcase_add_test(tc, watch__survives_the_loss_of_its_answer);
	tcase_add_loop_test(tc, wanted__is_told_of_any_lease, 0, 2);
	tcase_add_test(tc, wanted__of_what_has_ended);
	tcase_add_test(tc, wanted__is_forgotten_with_the_connection);
	tcase_add_test(tc, wanted__is_not_lost_in_silence);
	tcase_add_test(tc, wanted__outlives_the_watching);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
