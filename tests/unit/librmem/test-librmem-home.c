/* SPDX-License-Identifier: BSD-3-Clause */
/* Synchronous atomics against a scripted server, which says where they are done. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit/librmem/librmem-client.h"

static void atomic_device_is(unsigned fabric, const char *device)
{
	server_lock();
	server.atomic_device.fabric = (uint8_t)fabric;
	(void)snprintf(server.atomic_device.device, sizeof(server.atomic_device.device),
		       "%s", device);
	server_unlock();
}

START_TEST(atomic_device__is_asked_for_once_per_lease)
{
	rmem_lease *lease, *other;
	uint64_t old = 99;

	atomic_device_is(WIRE_FABRIC_TCP, "");
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
	ck_assert_uint_eq(server.seen[WIRE_TYPE_fix_home], 1);
	ck_assert_int_eq(rmem_fetch_add(other, 8, 1, &old), 0);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_fix_home], 2);
	ck_assert_int_eq(rmem_fetch_add(NULL, 8, 1, &old), -EINVAL);
	ck_assert_int_eq(rmem_compare_swap(NULL, 8, 1, 2, &old), -EINVAL);
	ck_assert_int_eq(rmem_free(lease), 0);
	rmem_close(client);
}
END_TEST

START_TEST(atomic_device__elsewhere_is_named)
{
	rmem_lease *lease;
	uint64_t old = 99;

	atomic_device_is(WIRE_FABRIC_VERBS, "mlx5_9");
	open_with(0);
	lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_fetch_add(lease, 8, 5, &old), -ENOTSUP);
	ck_assert_msg(strstr(rmem_error(), "RDMA device mlx5_9"), "%s", rmem_error());
	ck_assert_uint_eq(old, 99);
	/* all else works */
	ck_assert_int_eq(rmem_write(lease, 0, buf, 100), 0);
	rmem_close(client);
}
END_TEST

/* The synchronous channel goes to the first device. */
START_TEST(atomic_device__on_one_of_two_devices)
{
	rmem_lease *lease;

	serve_rdma();
	atomic_device_is(WIRE_FABRIC_VERBS, _i ? "fake1" : "fake0");
	(void)strcat(uri, "?fabric=rdma");
	open_with(0);
	lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_fetch_add(lease, 8, 5, NULL), _i ? -ENOTSUP : 0);
	if (_i)
		ck_assert_msg(strstr(rmem_error(), "fake1"), "%s", rmem_error());
	ck_assert_uint_eq(server.atomic_device_endpoint, 1);
	rmem_close(client);
}
END_TEST

/* Only a device that has atomics is proposed. */
START_TEST(atomic_device__is_asked_for_an_able_device)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	const struct rmem_atomic one = { .operand = 1 };
	struct rmem_op op = { .opcode = RMEM_OP_FETCH_ADD, .bytes = 8, .atomic = &one };
	struct rmem_completion completion;
	rmem_queue *queue;
	uint64_t old;

	serve_rdma();
	(void)strcpy(fake.no_atomics, "fake0");
	atomic_device_is(WIRE_FABRIC_VERBS, "fake1");
	(void)strcat(uri, "?fabric=rdma&channels=2");
	open_with(0);
	params.channels = 2;
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), 0);
	op.lease = alloc(1000, NULL);
	op.addr = &old;
	ck_assert_int_eq(rmem_submit(queue, &op, 1), 1);
	ck_assert_int_eq(rmem_wait(queue, &completion, 1, 1, 10000), 1);
	ck_assert_msg(completion.status == 0, "%s", rmem_completion_error(queue));
	ck_assert_uint_eq(server.atomic_device_endpoint, 2);
	/* where there is none, nobody is asked */
	ck_assert_int_eq(rmem_fetch_add(op.lease, 0, 1, &old), -ENOTSUP);
	ck_assert_msg(strstr(rmem_error(), "fake0 has no atomics"), "%s", rmem_error());
	rmem_close(client);
}
END_TEST

START_TEST(atomic_device__refused_by_the_server)
{
	rmem_lease *lease;

	open_with(0);
	lease = alloc(1000, NULL);
	server_lock();
	server.fail_on = WIRE_TYPE_fix_home;
	server.fail_errno = ENOTSUP;
	server_unlock();
	ck_assert_int_eq(rmem_fetch_add(lease, 8, 5, NULL), -ENOTSUP);
	ck_assert_msg(strstr(rmem_error(), "it failed"), "%s", rmem_error());
	rmem_close(client);
}
END_TEST

/* The question goes out again when the session has resumed. */
START_TEST(atomic_device__whose_answer_was_lost)
{
	rmem_lease *lease;

	atomic_device_is(WIRE_FABRIC_TCP, "");
	open_with(0);
	lease = alloc(1000, NULL);
	server_lock();
	server.drop_on = WIRE_TYPE_fix_home;
	server_unlock();
	/* what waits for the answer waits for the session, too: it was not begun */
	ck_assert_int_eq(rmem_fetch_add(lease, 8, 5, NULL), 0);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_fix_home], 2);
	rmem_close(client);
}
END_TEST

/* A lease, and a session, may end while the server is asked. */
START_TEST(atomic_device__asked_for_in_vain)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	const struct rmem_atomic one = { .operand = 1 };
	struct rmem_op op = { .opcode = RMEM_OP_FETCH_ADD, .bytes = 8, .atomic = &one };
	struct rmem_completion completion;
	rmem_queue *queue;
	uint64_t old;

	atomic_device_is(WIRE_FABRIC_TCP, "");
	open_with(0);
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), 0);
	op.lease = alloc(1000, NULL);
	op.addr = &old;
	server_lock();
	server.hold_on = WIRE_TYPE_fix_home;
	server_unlock();
	ck_assert_int_eq(rmem_submit(queue, &op, 1), 1);
	server_await(WIRE_TYPE_fix_home, 1);
	if (_i == 0) {
		ck_assert_int_eq(rmem_cancel(queue, op.lease), 1);
		ck_assert_int_eq(rmem_wait(queue, &completion, 1, 1, 10000), 1);
		ck_assert_int_eq(completion.status, -ECANCELED);
		ck_assert_int_eq(rmem_free(op.lease), 0);
		server_release();
		ck_assert_int_eq(rmem_ping(client, NULL), 0);
	}
	rmem_close(client);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-home");
	TCase *tc = tcase_create("home");

	tcase_add_checked_fixture(tc, client_setup, client_teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, atomic_device__is_asked_for_once_per_lease, 0, 2);
	tcase_add_test(tc, atomic_device__elsewhere_is_named);
	tcase_add_loop_test(tc, atomic_device__on_one_of_two_devices, 0, 2);
	tcase_add_test(tc, atomic_device__is_asked_for_an_able_device);
	tcase_add_test(tc, atomic_device__refused_by_the_server);
	tcase_add_test(tc, atomic_device__whose_answer_was_lost);
	tcase_add_loop_test(tc, atomic_device__asked_for_in_vain, 0, 2);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
