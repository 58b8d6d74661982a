/* SPDX-License-Identifier: BSD-3-Clause */
/* Notifications as a program receives them. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "rmemd/control/session.h"
#include "unit/librmem/core-case.h"

static struct rmem_notice got[4096];

struct notify_args {
	uint64_t rkey;
	uint32_t value, n, lost;
};

static void notify(void *arg)
{
	const struct notify_args *args = arg;

	for (uint32_t i = 0; i < args->n; i++) {
		fake_server_notify(args->rkey, args->value + i, i ? 0 : args->lost);
		if ((i + 1) % FABRIC_NOTIFICATIONS_MAX == 0)
			slices_run(&core.slices);
	}
	slices_run(&core.slices);
}

/* Notify n times, with values from `value` on; the fabric has lost `lost` before the first. */
static void server_notify(rmem_lease *lease, uint32_t value, uint32_t n, uint32_t lost)
{
	struct notify_args args = { proxy_rkey(rmem_lease_id(lease)), value, n, lost };

	core_call(notify, &args);
}

static struct wire_msg *message(enum wire_type type)
{
	static struct wire_msg msg;

	memset(&msg, 0, sizeof(msg));
	msg.type = type;
	return &msg;
}

/* Send that the server wants `bytes` of a lease back within `wait_ms`. */
static void server_want(uint64_t lease, uint64_t bytes, uint64_t wait_ms, bool revoke)
{
	struct wire_msg *msg = message(WIRE_TYPE_shrinking);

	msg->shrinking = (struct wire_shrinking){ lease, bytes, wait_ms, revoke };
	proxy_send(msg);
}

/* Afterwards the client has received everything that the server sent before. */
static void sync_events(void)
{
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
}

static rmem_lease *alloc_watched(const char *name)
{
	rmem_lease *lease = alloc(1000, name);

	ck_assert_msg(rmem_watch(lease) == 0, "%s", rmem_error());
	return lease;
}

static rmem_lease *open_watched(unsigned flags, const char *name)
{
	open_with(flags);
	return alloc_watched(name);
}

static bool readable(int fd, int timeout_ms)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	return poll(&pollfd, 1, timeout_ms) == 1;
}

/* The next notice has these values. */
static void expect(const rmem_lease *lease, enum rmem_notice_type type, uint32_t value,
		   uint32_t lost)
{
	struct rmem_notice notice;

	ck_assert_int_eq(rmem_notified(stage.client, &notice, 1, 10000), 1);
	ck_assert_ptr_eq(notice.lease, lease);
	ck_assert_uint_eq(notice.type, type);
	ck_assert_uint_eq(notice.reserved, 0);
	ck_assert_uint_eq(notice.value, value);
	ck_assert_uint_eq(notice.lost, lost);
}

/* No notice waits, and the server has sent none. */
static void expect_none(void)
{
	sync_events();
	ck_assert_int_eq(rmem_notified(stage.client, got, 1, 0), 0);
}

/* Receive notices behind the n that were received, for up to timeout_ms. */
static unsigned receive(unsigned n, int timeout_ms)
{
	int received = rmem_notified(stage.client, got + n, 4096 - n, timeout_ms);

	ck_assert_int_ge(received, timeout_ms ? 1 : 0);
	return (unsigned)received;
}

START_TEST(notified__in_their_order)
{
	rmem_lease *a, *b;
	int fd;

	open_with(_i ? RMEM_NO_THREAD : 0);
	fd = rmem_notified_fd(stage.client);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(rmem_notified_fd(stage.client), fd);
	a = alloc_watched(NULL);
	b = alloc_watched("b");
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_watch], 2);
	ck_assert(!readable(fd, 0));
	server_notify(a, 5, 2, 0);
	server_notify(b, 0, 1, 3);
	expect(a, RMEM_NOTICE_VALUE, 5, 0);
	expect(a, RMEM_NOTICE_VALUE, 6, 0);
	expect(b, RMEM_NOTICE_VALUE, 0, 3);
	expect_none();
	ck_assert(!readable(fd, 0));
	server_notify(b, UINT32_MAX, 1, UINT32_MAX);
	sync_events();
	ck_assert(readable(fd, 10000));
	expect(b, RMEM_NOTICE_VALUE, UINT32_MAX, RMEM_LOST_UNKNOWN);
	ck_assert(!readable(fd, 0));
}
END_TEST

START_TEST(notified_fd__is_readable_for_earlier_notices)
{
	rmem_lease *lease = open_watched(0, NULL);

	server_notify(lease, 1, 1, 0);
	sync_events();
	ck_assert(readable(rmem_notified_fd(stage.client), 0));
	expect(lease, RMEM_NOTICE_VALUE, 1, 0);
	ck_assert(!readable(rmem_notified_fd(stage.client), 0));
}
END_TEST

/* A program that drives its session waits for both descriptors. */
START_TEST(notified__driven_by_the_program)
{
	rmem_lease *lease = open_watched(RMEM_NO_THREAD, NULL);
	unsigned n = 0;

	server_notify(lease, 1, 1, 0);
	while (!readable(rmem_notified_fd(stage.client), 0)) {
		ck_assert(readable(rmem_fd(stage.client), 10000));
		ck_assert_int_eq(rmem_process(stage.client), 0);
	}
	expect(lease, RMEM_NOTICE_VALUE, 1, 0);
	/* or calls rmem_notified() without waiting, again and again */
	server_notify(lease, 2, 1, 0);
	AWAIT((n = (unsigned)rmem_notified(stage.client, got, 1, 0)) > 0);
	ck_assert_uint_eq(got[0].value, 2);
}
END_TEST

START_TEST(notified__receives_many_and_checks_its_arguments)
{
	rmem_lease *lease;
	unsigned n = 0;
	uint64_t start;

	open_with(0);
	ck_assert_int_eq(rmem_notified(stage.client, got, 0, 0), -EINVAL);
	ck_assert_int_eq(rmem_notified(NULL, got, 1, 0), -EINVAL);
	ck_assert_int_eq(rmem_watch(NULL), -EINVAL);
	ck_assert_int_eq(rmem_unwatch(NULL), -EINVAL);
	ck_assert_int_eq(rmem_notified_fd(NULL), -EINVAL);
	/* no lease is watched: no notice comes */
	start = clock_now_ms();
	ck_assert_int_eq(rmem_notified(stage.client, got, 1, 30), 0);
	ck_assert_uint_ge(clock_now_ms() - start, 30);
	lease = alloc_watched(NULL);
	server_notify(lease, 0, 500, 0);
	sync_events();
	while (n < 500)
		n += receive(n, 10000);
	for (unsigned i = 0; i < 500; i++)
		ck_assert_uint_eq(got[i].value, i);
	expect_none();
}
END_TEST

/* The queue of a program that receives nothing is bounded. */
START_TEST(notified__counts_lost_notifications)
{
	const uint32_t sent = 100000;
	rmem_lease *a = open_watched(0, NULL), *b = alloc_watched(NULL);
	uint32_t lost = 0;
	unsigned n = 0, k;

	server_notify(a, 0, sent, 0);
	server_notify(b, 7, 1, 5);
	sync_events();
	while (lost + n < sent + 1 + 5) {
		for (k = receive(n, 10000); k > 0; k--)
			lost += got[n++].lost;
	}
	ck_assert_uint_lt(n, 2000);
	ck_assert_uint_eq(lost + n, sent + 1 + 5);
	expect_none();
	/* the last notice of each lease */
	ck_assert_ptr_eq(got[n - 2].lease, a);
	ck_assert_uint_eq(got[n - 2].value, sent - 1);
	ck_assert_ptr_eq(got[n - 1].lease, b);
	ck_assert_uint_eq(got[n - 1].lost, 5);
}
END_TEST

START_TEST(unwatch__drops_notices)
{
	struct wire_msg *msg = message(WIRE_TYPE_notified);
	rmem_lease *a = open_watched(0, NULL), *b = alloc_watched(NULL);

	server_notify(a, 1, 1, 0);
	server_notify(b, 2, 1, 0);
	sync_events();
	ck_assert_int_eq(rmem_unwatch(a), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_unwatch], 1);
	/* a later notification is dropped, too, and one of an unknown lease */
	server_notify(a, 3, 1, 0);
	msg->notified.n_notices = 1;
	msg->notified.notices[0] = (struct wire_notice){ .lease = 12345, .value = 4 };
	proxy_send(msg);
	expect(b, RMEM_NOTICE_VALUE, 2, 0);
	expect_none();
	/* the end of a lease that is not watched makes no notice */
	proxy_event(WIRE_TYPE_revoked, rmem_lease_id(a), WIRE_REASON_REVOKED);
	expect_none();
	ck_assert_int_eq(rmem_unwatch(a), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_unwatch], 1);
}
END_TEST

START_TEST(watch__fails_with_the_error_of_the_server)
{
	rmem_lease *lease = open_with_lease(0);

	proxy_fail(WIRE_TYPE_watch, ESTALE, 0);
	ck_assert_int_eq(rmem_watch(lease), -ESTALE);
	server_notify(lease, 1, 1, 0);
	expect_none();
	proxy_fail(WIRE_TYPE_unwatch, ENOMEM, 0);
	ck_assert_int_eq(rmem_watch(lease), 0);
	ck_assert_int_eq(rmem_unwatch(lease), -ENOMEM);
	server_notify(lease, 2, 1, 0);
	expect(lease, RMEM_NOTICE_VALUE, 2, 0);
}
END_TEST

START_TEST(free__drops_notices)
{
	rmem_lease *a = open_watched(0, NULL), *b = alloc_watched("b");
	int fd = rmem_notified_fd(stage.client);

	server_notify(a, 1, 1, 0);
	server_notify(b, 2, 1, 0);
	sync_events();
	ck_assert(readable(fd, 10000));
	ck_assert_int_eq(rmem_destroy(a), 0);
	ck_assert_int_eq(rmem_detach(b), 0);
	ck_assert(!readable(fd, 0));
	expect_none();
}
END_TEST

static void *run_notified(void *arg)
{
	struct rmem_notice *notice = arg;

	ck_assert_int_eq(rmem_notified(stage.client, notice, 1, -1), 1);
	return NULL;
}

START_TEST(end_of_a_lease__makes_a_notice)
{
	rmem_lease *lease = open_watched(0, "a");
	struct rmem_notice notice;
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, run_notified, &notice), 0);
	ck_assert_int_eq(rmem_renew(lease, 20), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_ptr_eq(notice.lease, lease);
	ck_assert_uint_eq(notice.type, RMEM_NOTICE_ENDED);
	ck_assert_int_eq(rmem_lease_status(lease), -ESTALE);
	/* a second event makes no notice */
	proxy_event(WIRE_TYPE_revoked, rmem_lease_id(lease), WIRE_REASON_EXPIRED);
	expect_none();
	ck_assert_int_eq(rmem_unwatch(lease), 0);
}
END_TEST

START_TEST(resume__makes_a_notice_of_possible_loss)
{
	rmem_lease *a = open_watched(_i ? RMEM_NO_THREAD : 0, NULL);
	rmem_lease *b = alloc(1000, NULL);

	proxy_cut();
	expect(a, RMEM_NOTICE_RESUMED, 0, RMEM_LOST_UNKNOWN);
	AWAIT(rmem_ping(stage.client, NULL) == 0 && info().resumes == 1);
	/* server and library keep the list of watched leases */
	server_notify(b, 8, 1, 0);
	server_notify(a, 9, 1, 0);
	expect(a, RMEM_NOTICE_VALUE, 9, 0);
	sync_events();
	ck_assert_uint_eq(info().resumes, 1);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_watch], 1);
	expect_none();
}
END_TEST

/* The lease ends while the connection is lost. */
START_TEST(resume__without_the_lease_makes_a_notice)
{
	rmem *another = open_another("");
	rmem_lease *lease = open_watched(0, "gone");

	proxy_fail(WIRE_TYPE_hello, EBUSY, 0);
	proxy_cut();
	ck_assert_int_eq(rmem_remove(another, "gone"), 0);
	proxy_fail(WIRE_TYPE_hello, 0, 0);
	expect(lease, RMEM_NOTICE_RESUMED, 0, RMEM_LOST_UNKNOWN);
	expect(lease, RMEM_NOTICE_ENDED, 0, 0);
	ck_assert_int_eq((int)rmem_lease_reason(lease), RMEM_REASON_UNKNOWN);
	expect_none();
	rmem_close(another);
}
END_TEST

START_TEST(lost_session__makes_a_notice_for_each_lease)
{
	rmem_lease *a = open_watched(_i ? RMEM_NO_THREAD : 0, NULL);
	rmem_lease *b = alloc_watched(NULL);
	struct rmem_notice notice;

	server_notify(a, 1, 1, 0);
	sync_events();
	server_restart_empty();
	expect(a, RMEM_NOTICE_VALUE, 1, 0);
	expect(a, RMEM_NOTICE_ENDED, 0, 0);
	expect(b, RMEM_NOTICE_ENDED, 0, 0);
	ck_assert_int_eq(rmem_notified(stage.client, &notice, 1, -1), -ESTALE);
}
END_TEST

START_TEST(watch__is_sent_again_when_its_reply_was_lost)
{
	rmem_lease *lease = open_with_lease(0);

	proxy.drop = WIRE_TYPE_watch;
	ck_assert_int_eq(rmem_watch(lease), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_watch], 2);
	AWAIT(info().resumes == 1);
	server_notify(lease, 1, 1, 0);
	expect(lease, RMEM_NOTICE_VALUE, 1, 0);
}
END_TEST

/* ---- bytes that the server wants back ---- */

static struct rmem_wanted wanted(rmem_lease *lease)
{
	struct rmem_wanted wanted = rmem_wanted_init();

	ck_assert_msg(rmem_lease_wanted(lease, &wanted) == 0, "%s", rmem_error());
	return wanted;
}

/* The leases are not watched. */
START_TEST(wanted__makes_a_notice_of_any_lease)
{
	rmem_lease *a = open_with_lease(_i ? RMEM_NO_THREAD : 0);
	rmem_lease *b = alloc(1000, "b");
	int fd = rmem_notified_fd(stage.client);

	ck_assert_uint_eq(wanted(a).bytes, 0);
	ck_assert_uint_eq(wanted(a).wait_ms, 0);
	server_want(rmem_lease_id(a), 600, 3600000, true);
	/* the longest time that the protocol has */
	server_want(rmem_lease_id(b), 1000, UINT64_MAX, false);
	server_want(4711, 1, 1, false);
	sync_events();
	ck_assert(readable(fd, 10000));
	expect(a, RMEM_NOTICE_WANTED, 0, 0);
	expect(b, RMEM_NOTICE_WANTED, 0, 0);
	expect_none();
	ck_assert_uint_eq(wanted(a).bytes, 600);
	ck_assert_int_eq(wanted(a).revoke, 1);
	ck_assert_uint_gt(wanted(a).wait_ms, 3500000);
	ck_assert_uint_le(wanted(a).wait_ms, 3600000);
	ck_assert_uint_eq(wanted(b).bytes, 1000);
	ck_assert_int_eq(wanted(b).revoke, 0);
	ck_assert_uint_gt(wanted(b).wait_ms, 3600000);
	/* the server does not want it any more */
	server_want(rmem_lease_id(a), 0, 0, true);
	expect(a, RMEM_NOTICE_WANTED, 0, 0);
	ck_assert_uint_eq(wanted(a).bytes, 0);
	ck_assert_int_eq(wanted(a).revoke, 0);
	/* the notice does not make the lease watched, and is dropped with the handle */
	server_notify(a, 1, 1, 0);
	expect_none();
	server_want(rmem_lease_id(b), 1, 1, false);
	sync_events();
	ck_assert_int_eq(rmem_destroy(b), 0);
	expect_none();
	ck_assert(!readable(fd, 0));
}
END_TEST

START_TEST(wanted__of_an_ended_lease_fails)
{
	struct rmem_wanted of = rmem_wanted_init();
	rmem_lease *lease = open_with_lease(0);

	ck_assert_int_eq(rmem_lease_wanted(NULL, &of), -EINVAL);
	ck_assert_int_eq(rmem_lease_wanted(lease, NULL), -EINVAL);
	of.size = 1;
	ck_assert_int_eq(rmem_lease_wanted(lease, &of), -EINVAL);
	ck_assert_msg(strstr(rmem_error(), "its size is not set"), "%s", rmem_error());
	of.size = sizeof(of);
	server_want(rmem_lease_id(lease), 1000, 1, true);
	expect(lease, RMEM_NOTICE_WANTED, 0, 0);
	proxy_event(WIRE_TYPE_revoked, rmem_lease_id(lease), WIRE_REASON_REVOKED);
	server_want(rmem_lease_id(lease), 1000, 1, true);
	expect_none();
	ck_assert_int_eq(rmem_lease_wanted(lease, &of), -ESTALE);
	ck_assert_int_eq(rmem_lease_status(lease), -ESTALE);
}
END_TEST

/* The server sends it again to a session that has resumed, if it is still true. */
START_TEST(wanted__is_cleared_when_the_session_resumes)
{
	rmem_lease *lease = open_with_lease(0);

	server_want(rmem_lease_id(lease), 1000, 60000, true);
	expect(lease, RMEM_NOTICE_WANTED, 0, 0);
	proxy_cut();
	proxy_await(WIRE_TYPE_hello, 2);
	sync_events();
	AWAIT(info().resumes == 1);
	expect(lease, RMEM_NOTICE_WANTED, 0, 0);
	expect_none();
	ck_assert_uint_eq(wanted(lease).bytes, 0);
	server_want(rmem_lease_id(lease), 500, 60000, true);
	expect(lease, RMEM_NOTICE_WANTED, 0, 0);
	ck_assert_uint_eq(wanted(lease).bytes, 500);
}
END_TEST

static uint32_t latest_value(void)
{
	static struct wire_msg last;
	const struct wire_notified *sent = &last.notified;

	proxy_last(WIRE_TYPE_notified, &last);
	return sent->n_notices ? sent->notices[sent->n_notices - 1].value : 0;
}

/* The queue is full: the notification that replaces the notice counts it. */
START_TEST(wanted__that_is_lost_is_counted)
{
	rmem_lease *a = open_watched(0, NULL), *b = alloc_watched(NULL);
	unsigned n = 0, k;

	server_notify(a, 0, 2000, 0);
	AWAIT(latest_value() == 1999);
	server_want(rmem_lease_id(b), 600, 60000, true);
	server_notify(b, 7, 1, 0);
	sync_events();
	while ((k = receive(n, 0)) > 0)
		n += k;
	ck_assert_ptr_eq(got[n - 1].lease, b);
	ck_assert_uint_eq(got[n - 1].type, RMEM_NOTICE_VALUE);
	ck_assert_uint_eq(got[n - 1].value, 7);
	ck_assert_uint_eq(got[n - 1].lost, 1);
}
END_TEST

START_TEST(wanted__is_kept_by_unwatch)
{
	rmem_lease *lease = open_watched(0, NULL);
	int fd = rmem_notified_fd(stage.client);

	server_notify(lease, 1, 1, 0);
	server_want(rmem_lease_id(lease), 600, 60000, true);
	server_notify(lease, 2, 1, 0);
	sync_events();
	ck_assert_int_eq(rmem_unwatch(lease), 0);
	ck_assert(readable(fd, 10000));
	expect(lease, RMEM_NOTICE_WANTED, 0, 0);
	expect_none();
	/* once, and not of a lease that has ended */
	ck_assert_int_eq(rmem_unwatch(lease), 0);
	expect_none();
	server_want(rmem_lease_id(lease), 0, 0, false);
	proxy_event(WIRE_TYPE_revoked, rmem_lease_id(lease), WIRE_REASON_REVOKED);
	sync_events();
	ck_assert_int_eq(rmem_unwatch(lease), 0);
	expect_none();
	ck_assert(!readable(fd, 0));
}
END_TEST

int main(void)
{
	TCase *tc = core_case("watch");

	tcase_add_loop_test(tc, notified__in_their_order, 0, 2);
	tcase_add_test(tc, notified_fd__is_readable_for_earlier_notices);
	tcase_add_test(tc, notified__driven_by_the_program);
	tcase_add_test(tc, notified__receives_many_and_checks_its_arguments);
	tcase_add_test(tc, notified__counts_lost_notifications);
	tcase_add_test(tc, unwatch__drops_notices);
	tcase_add_test(tc, watch__fails_with_the_error_of_the_server);
	tcase_add_test(tc, free__drops_notices);
	tcase_add_test(tc, end_of_a_lease__makes_a_notice);
	tcase_add_loop_test(tc, resume__makes_a_notice_of_possible_loss, 0, 2);
	tcase_add_test(tc, resume__without_the_lease_makes_a_notice);
	tcase_add_loop_test(tc, lost_session__makes_a_notice_for_each_lease, 0, 2);
	tcase_add_test(tc, watch__is_sent_again_when_its_reply_was_lost);
	tcase_add_loop_test(tc, wanted__makes_a_notice_of_any_lease, 0, 2);
	tcase_add_test(tc, wanted__of_an_ended_lease_fails);
	tcase_add_test(tc, wanted__is_cleared_when_the_session_resumes);
	tcase_add_test(tc, wanted__that_is_lost_is_counted);
	tcase_add_test(tc, wanted__is_kept_by_unwatch);
	return unit_main();
}
