/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs client when calls to the device or the kernel fail. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-client-stage.h"

/* Connect a channel that needs the whole depth of the CQ. */
static int connect_all(void)
{
	return connect_one(2 * DEPTH, &channel);
}

START_TEST(connect__without_a_queue_pair_releases_its_depth)
{
	setup_cq();
	verbs_fake.qp_error = ENOMEM;
	ck_assert_int_eq(connect_all(), -ENOMEM);
	ck_assert_ptr_nonnull(strstr(err_text(), "fake0: rdma_create_qp"));
	verbs_fake.qp_error = 0;
	ck_assert_int_eq(connect_all(), 0);
}
END_TEST

START_TEST(connect__without_events_releases_its_depth)
{
	setup_cq();
	verbs_fake.cm_error = EIO;
	ck_assert_int_eq(connect_all(), -EIO);
	ck_assert_ptr_nonnull(strstr(err_text(), "rdma_get_cm_event"));
	verbs_fake.cm_error = 0;
	ck_assert_int_eq(connect_all(), 0);
}
END_TEST

START_TEST(alive__is_false_when_events_fail)
{
	verbs_fake.iwarp = _i;
	setup();
	ck_assert_int_eq(post(FABRIC_READ, 1, 1), 1);
	verbs_fake.cm_error = EIO;
	ck_assert(!CLIENT->alive(channel));
	verbs_fake.cm_error = 0;
	expect_only(1, 1, -ECONNRESET);
	ck_assert_int_eq(post(FABRIC_READ, 2, 1), -ECONNRESET);
}
END_TEST

/* A refused empty write fails no operation. */
START_TEST(wakeup__refused_is_sent_again)
{
	struct fake_send sends[FAKE_SENDS];

	verbs_fake.iwarp = true;
	setup();
	fake_post_limit(0);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert(readable(CLIENT->alive_fd(channel), WAIT_MS));
		ck_assert(CLIENT->alive(channel));
		ck_assert_uint_eq(fake_sends(sends), i);
	}
}
END_TEST

/* On iWARP the outstanding operations complete at once; otherwise the owner frees the
 * channel after a time-out. */
START_TEST(abort__refused_by_the_device_ends_the_channel)
{
	verbs_fake.iwarp = _i;
	setup();
	ck_assert_int_eq(post(FABRIC_READ, 1, 1), 1);
	verbs_fake.modify_error = EIO;
	CLIENT->abort(channel);
	ck_assert_int_eq(post(FABRIC_READ, 2, 1), -ECONNRESET);
	if (_i)
		expect(1, 1, -ECONNRESET);
	expect_nothing();
}
END_TEST

/* When one call fails, the later ones still free their objects; teardown() checks
 * that. */
START_TEST(teardown__continues_after_failures)
{
	setup();
	ck_assert_int_eq(post(FABRIC_READ, 1, 1), 1);
	verbs_fake.modify_error = _i == 0 ? EIO : 0;
	verbs_fake.destroy_qp_error = _i == 1 ? EIO : 0;
	verbs_fake.destroy_id_error = _i == 2 ? EIO : 0;
	verbs_fake.dereg_error = _i == 3 ? EIO : 0;
	verbs_fake.dealloc_error = _i == 4 ? EIO : 0;
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("failures", NULL, teardown);

	tcase_add_test(tcase, connect__without_a_queue_pair_releases_its_depth);
	tcase_add_test(tcase, connect__without_events_releases_its_depth);
	tcase_add_loop_test(tcase, alive__is_false_when_events_fail, 0, 2);
	tcase_add_test(tcase, wakeup__refused_is_sent_again);
	tcase_add_loop_test(tcase, abort__refused_by_the_device_ends_the_channel, 0, 2);
	tcase_add_loop_test(tcase, teardown__continues_after_failures, 0, 5);
	return unit_main();
}
