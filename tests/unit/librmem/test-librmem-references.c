/* SPDX-License-Identifier: BSD-3-Clause */
/* A session that attaches a lease several times has one handle, which it gives back as often. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "unit/librmem/core-case.h"

static unsigned sessions_of(const char *name)
{
	struct rmem_stat stat = rmem_stat_init();

	ck_assert_int_eq(rmem_stat(stage.client, name, &stat), 0);
	return stat.sessions;
}

START_TEST(attach__returns_the_handle_once_more)
{
	rmem_lease *lease, *again = NULL;

	open_with(0);
	lease = alloc(1000, "thing");
	ck_assert_int_eq(rmem_attach(stage.client, "thing", RMEM_READ, &again), 0);
	ck_assert_ptr_eq(again, lease);
	ck_assert_uint_eq(rmem_lease_rights(again), RMEM_READ | RMEM_WRITE);
	ck_assert_int_eq(rmem_detach(lease), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_detach], 0);
	ck_assert_int_eq(rmem_write(again, 0, stage.buf, 8), 0);
	ck_assert_uint_eq(sessions_of("thing"), 1);
	ck_assert_int_eq(rmem_detach(again), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_detach], 1);
	ck_assert_uint_eq(sessions_of("thing"), 0);
}
END_TEST

START_TEST(attach__does_not_add_rights_to_a_handle)
{
	rmem_lease *lease, *again = NULL;

	open_with(0);
	ck_assert_int_eq(rmem_detach(alloc(1000, "thing")), 0);
	ck_assert_int_eq(rmem_attach(stage.client, "thing", RMEM_READ, &lease), 0);
	ck_assert_int_eq(
		rmem_attach(stage.client, "thing", RMEM_READ | RMEM_WRITE, &again),
		-EBUSY);
	ck_assert_ptr_null(again);
	ck_assert_msg(strstr(rmem_error(), "for reading only"), "%s", rmem_error());
	/* the failed call took no reference */
	ck_assert_int_eq(rmem_detach(lease), 0);
	ck_assert_uint_eq(sessions_of("thing"), 0);
}
END_TEST

/* Between the two requests of the second call the lease gets another name. */
START_TEST(attach__follows_the_name)
{
	rmem_lease *lease, *again = NULL;

	open_with(0);
	lease = alloc(1000, "thing");
	proxy_fail(WIRE_TYPE_stat, ENOENT, 0);
	ck_assert_int_eq(rmem_attach(stage.client, "thing", RMEM_READ, &again), 0);
	ck_assert_ptr_eq(again, lease);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_attach], 2);
}
END_TEST

START_TEST(destroy__leaves_the_other_references_without_the_lease)
{
	rmem_lease *lease, *again, *other;

	open_with(0);
	lease = alloc(1000, "thing");
	ck_assert_int_eq(rmem_attach(stage.client, "thing", RMEM_READ, &again), 0);
	ck_assert_int_eq(rmem_destroy(lease), 0);
	ck_assert_int_eq(rmem_lease_status(again), -ESTALE);
	ck_assert_int_eq((int)rmem_lease_reason(again), RMEM_REASON_FREED);
	ck_assert_int_eq(rmem_write(again, 0, stage.buf, 8), -ESTALE);
	/* the name is free, and another lease has another handle */
	other = alloc(500, "thing");
	ck_assert_ptr_ne(other, again);
	ck_assert_int_eq(rmem_write(other, 0, stage.buf, 8), 0);
	ck_assert_int_eq(rmem_detach(again), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_detach], 0);
	ck_assert_uint_eq(sessions_of("thing"), 1);
}
END_TEST

START_TEST(detach__that_fails_keeps_the_handle)
{
	rmem_lease *lease, *again = NULL;

	open_with(0);
	lease = alloc(1000, "thing");
	proxy_fail(WIRE_TYPE_detach, EIO, 0);
	ck_assert_int_eq(rmem_detach(lease), -EIO);
	ck_assert_int_eq(rmem_attach(stage.client, "thing", RMEM_READ, &again), 0);
	ck_assert_ptr_eq(again, lease);
	ck_assert_int_eq(rmem_detach(again), 0);
	ck_assert_int_eq(rmem_detach(lease), 0);
	ck_assert_uint_eq(sessions_of("thing"), 0);
}
END_TEST

/* Attach, use and detach one lease again and again. */
static void *run_attaching(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < 300; i++) {
		rmem_lease *lease = NULL;
		int err = rmem_attach(stage.client, "thing", RMEM_READ | RMEM_WRITE,
				      &lease);

		if (!err)
			err = rmem_write(lease, 0, stage.buf, 8);
		if (!err)
			err = rmem_detach(lease);
		ck_assert_msg(err == 0, "round %u: %d: %s", i, err, rmem_error());
	}
	return NULL;
}

START_TEST(threads__share_one_lease)
{
	pthread_t threads[3];

	open_with(0);
	ck_assert_int_eq(rmem_detach(alloc(1000, "thing")), 0);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, run_attaching, NULL),
				 0);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_uint_eq(sessions_of("thing"), 0);
}
END_TEST

int main(void)
{
	TCase *tc = core_case("references");

	tcase_add_test(tc, attach__returns_the_handle_once_more);
	tcase_add_test(tc, attach__does_not_add_rights_to_a_handle);
	tcase_add_test(tc, attach__follows_the_name);
	tcase_add_test(tc, destroy__leaves_the_other_references_without_the_lease);
	tcase_add_test(tc, detach__that_fails_keeps_the_handle);
	tcase_add_test(tc, threads__share_one_lease);
	return unit_main();
}
