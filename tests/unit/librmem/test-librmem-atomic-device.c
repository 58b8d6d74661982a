/* SPDX-License-Identifier: BSD-3-Clause */
/* The atomic device of a lease, which the daemon chooses. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit/librmem/core-case.h"

START_TEST(atomic_device__is_requested_once_per_lease)
{
	rmem_lease *lease, *other;
	uint64_t old = 99;

	open_with(_i ? RMEM_NO_THREAD : 0);
	lease = alloc(1000, NULL);
	other = alloc(1000, NULL);
	ck_assert_int_eq(rmem_fetch_add(lease, 8, 5, &old), 0);
	ck_assert_uint_eq(old, 0);
	ck_assert_int_eq(rmem_fetch_add(lease, 8, 6, NULL), 0);
	ck_assert_int_eq(rmem_compare_swap(lease, 8, 11, 3, &old), 0);
	ck_assert_uint_eq(old, 11);
	ck_assert_int_eq(rmem_compare_swap(lease, 8, 11, 4, &old), 0);
	ck_assert_uint_eq(old, 3);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_fix_atomic_device], 1);
	ck_assert_int_eq(rmem_fetch_add(other, 8, 1, &old), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_fix_atomic_device], 2);
	ck_assert_int_eq(rmem_fetch_add(NULL, 8, 1, &old), -EINVAL);
	ck_assert_int_eq(rmem_compare_swap(NULL, 8, 1, 2, &old), -EINVAL);
	ck_assert_int_eq(rmem_destroy(lease), 0);
}
END_TEST

/* Another session has asked first. */
START_TEST(atomic_device__without_a_channel_is_named)
{
	rmem_lease *lease, *theirs;
	uint64_t old = 99;
	rmem *another;

	serve_rdma();
	another = open_another("?fabric=rdma");
	(void)strcat(stage.uri, "?fabric=tcp");
	open_with(0);
	lease = alloc(1000, "shared");
	ck_assert_int_eq(
		rmem_attach(another, "shared", RMEM_READ | RMEM_WRITE, &theirs), 0);
	ck_assert_int_eq(rmem_fetch_add(theirs, 8, 5, NULL), 0);
	ck_assert_int_eq(rmem_fetch_add(lease, 8, 5, &old), -ENOTSUP);
	ck_assert_msg(strstr(rmem_error(), "RDMA device fake0"), "%s", rmem_error());
	ck_assert_uint_eq(old, 99);
	/* other operations work */
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 100), 0);
	rmem_close(another);
}
END_TEST

static void atomics_at_fake1(struct wire_msg *msg)
{
	if (msg->type == WIRE_TYPE_atomic_device)
		(void)strcpy(msg->atomic_device.device, "fake1");
}

/* The synchronous channel goes to the first device. */
START_TEST(atomic_device__is_one_of_two_devices)
{
	rmem_lease *lease;

	serve_rdma();
	proxy.edit = _i ? atomics_at_fake1 : NULL;
	(void)strcat(stage.uri, "?fabric=rdma");
	open_with(0);
	lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_fetch_add(lease, 8, 5, NULL), _i ? -ENOTSUP : 0);
	if (_i)
		ck_assert_msg(strstr(rmem_error(), "fake1"), "%s", rmem_error());
	ck_assert_uint_eq(
		proxy.last[WIRE_TYPE_fix_atomic_device].fix_atomic_device.endpoint, 1);
}
END_TEST

/* Submit a fetch-and-add on a new lease; returns the lease. */
static rmem_lease *add_submit(void)
{
	static const struct rmem_atomic one = { .operand = 1 };
	static uint64_t old;
	const struct rmem_op op = {
		.opcode = RMEM_OP_FETCH_ADD,
		.lease = alloc(1000, NULL),
		.addr = &old,
		.bytes = 8,
		.atomic = &one,
	};

	ck_assert_int_eq(rmem_submit(stage.queue, &op, 1), 1);
	return op.lease;
}

static void expect_status(int status)
{
	struct rmem_completion completion;

	ck_assert_int_eq(rmem_wait(stage.queue, &completion, 1, 1, 10000), 1);
	ck_assert_msg(completion.status == status, "%d: %s", completion.status,
		      rmem_completion_error(stage.queue, NULL));
}

/* The library asks only for a device with atomics. */
START_TEST(atomic_device__is_requested_for_a_device_with_atomics)
{
	rmem_lease *lease;
	uint64_t old;

	serve_rdma();
	(void)strcpy(fake.no_atomics, "fake0");
	(void)strcat(stage.uri, "?fabric=rdma&channels=2");
	open_with(0);
	queue_open(2);
	lease = add_submit();
	expect_status(0);
	ck_assert_uint_eq(
		proxy.last[WIRE_TYPE_fix_atomic_device].fix_atomic_device.endpoint, 2);
	/* without such a device it does not ask */
	ck_assert_int_eq(rmem_fetch_add(lease, 0, 1, &old), -ENOTSUP);
	ck_assert_msg(strstr(rmem_error(), "fake0 has no atomics"), "%s", rmem_error());
}
END_TEST

START_TEST(atomic_device__refusal_fails_the_atomic)
{
	rmem_lease *lease;

	open_with(0);
	lease = alloc(1000, NULL);
	proxy_fail(WIRE_TYPE_fix_atomic_device, ENOTSUP, 0);
	ck_assert_int_eq(rmem_fetch_add(lease, 8, 5, NULL), -ENOTSUP);
	ck_assert_msg(strstr(rmem_error(), "it failed"), "%s", rmem_error());
}
END_TEST

/* After the session has resumed. */
START_TEST(atomic_device__is_requested_again_after_a_lost_answer)
{
	rmem_lease *lease;

	open_with(0);
	lease = alloc(1000, NULL);
	proxy.drop = WIRE_TYPE_fix_atomic_device;
	/* the atomic was not posted: it waits until the session has resumed */
	ck_assert_int_eq(rmem_fetch_add(lease, 8, 5, NULL), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_fix_atomic_device], 2);
}
END_TEST

/* The lease (_i == 0) or the session ends before the answer. */
START_TEST(atomic_device__request_is_abandoned)
{
	rmem_lease *lease;

	open_with(0);
	queue_open(1);
	proxy.hold = WIRE_TYPE_fix_atomic_device;
	lease = add_submit();
	proxy_await(WIRE_TYPE_fix_atomic_device, 1);
	if (_i == 0) {
		ck_assert_int_eq(rmem_cancel(stage.queue, lease), 1);
		expect_status(-ECANCELED);
		ck_assert_int_eq(rmem_destroy(lease), 0);
		proxy_release();
		ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
	}
}
END_TEST

int main(void)
{
	TCase *tc = core_case("atomic-device");

	tcase_add_loop_test(tc, atomic_device__is_requested_once_per_lease, 0, 2);
	tcase_add_test(tc, atomic_device__without_a_channel_is_named);
	tcase_add_loop_test(tc, atomic_device__is_one_of_two_devices, 0, 2);
	tcase_add_test(tc, atomic_device__is_requested_for_a_device_with_atomics);
	tcase_add_test(tc, atomic_device__refusal_fails_the_atomic);
	tcase_add_test(tc, atomic_device__is_requested_again_after_a_lost_answer);
	tcase_add_loop_test(tc, atomic_device__request_is_abandoned, 0, 2);
	return unit_main();
}
