/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver looks at the leases that queues have enlisted, and at no others. */
#include "unit/librmem/librmem-case.h"

/* Two leases that can be attached again beside the case's. */
static struct rmem_lease *one, *two;
static struct inflights reader;

static void setup(void)
{
	one = case_lease(6, RMEM_READ, 1);
	two = case_lease(7, RMEM_READ, 1);
	inflights_init(&reader);
	inflights_add(&stage.session, &reader);
}

/* The driver's turn. */
static void work(void)
{
	(void)pthread_mutex_lock(&stage.session.lock);
	lease_observer.work(&stage.session, stage.now_ns);
	(void)pthread_mutex_unlock(&stage.session.lock);
}

static void expect_asked(bool first, bool second)
{
	work();
	ck_assert_int_eq(one->rekey != NULL, first);
	ck_assert_int_eq(two->rekey != NULL, second);
	ck_assert_uint_eq(stage.leases.rekeys_sent, first + second);
}

/* New rkeys for the lease. */
static void change(struct rmem_lease *of, uint64_t key)
{
	stage_rekey(of, 1, segments, seg_bytes, &key);
}

static void drop(struct rmem_lease *of)
{
	(void)pthread_mutex_lock(&stage.session.lock);
	lease_drop(of);
	(void)pthread_mutex_unlock(&stage.session.lock);
}

START_TEST(work__is_done_for_enlisted_leases_alone)
{
	/* one that all leases would have to be gone over for */
	(void)atomic_fetch_add(&two->asked, 1);
	(void)lease_verify(one);
	expect_asked(true, false);
	lease_want(two);
	expect_asked(true, true);
	ck_assert(list_empty(&stage.leases.work));
}
END_TEST

START_TEST(want__is_enlisted_once_until_it_is_taken)
{
	for (unsigned i = 0; i < 3; i++) {
		(void)lease_verify(one);
		(void)lease_verify(two);
	}
	ck_assert_ptr_eq(atomic_load(&stage.leases.wants), two);
	ck_assert_ptr_eq(two->next_want, one);
	ck_assert_ptr_null(one->next_want);
	expect_asked(true, true);
	ck_assert_ptr_null(atomic_load(&stage.leases.wants));
	/* and again afterwards */
	(void)lease_verify(one);
	ck_assert_ptr_eq(atomic_load(&stage.leases.wants), one);
}
END_TEST

/* The handle is freed before the driver has looked at it. */
START_TEST(want__ends_with_the_handle)
{
	(void)lease_verify(one);
	(void)lease_verify(two);
	drop(_i ? one : two);
	ck_assert_ptr_null(atomic_load(&stage.leases.wants));
	work();
	ck_assert_uint_eq(stage.leases.rekeys_sent, 1);
	ck_assert_ptr_nonnull((_i ? two : one)->rekey);
}
END_TEST

/* A ping's lease is none of the server's. */
START_TEST(want__is_ignored_of_a_lease_that_the_server_does_not_have)
{
	struct rmem_lease nowhere = { .session = &stage.session };

	(void)lease_verify(&nowhere);
	ck_assert_ptr_null(atomic_load(&stage.leases.wants));
	expect_asked(false, false);
}
END_TEST

START_TEST(older_attachments__are_freed_in_their_order)
{
	attachments_enter(&reader);
	change(one, 21);
	change(two, 22);
	change(one, 23);
	ck_assert_ptr_nonnull(lease_attachment(one)->older->older);
	attachments_leave(&reader);
	/* a call that may read one of the last, but not the one before */
	atomic_store(&reader.reading, lease_attachment(two)->generation);
	stage_advance_ms(1);
	work();
	ck_assert_ptr_null(lease_attachment(two)->older);
	ck_assert_ptr_nonnull(lease_attachment(one)->older);
	ck_assert_uint_eq(stage.leases.free_ns, stage.now_ns + NS_PER_MS);
	attachments_leave(&reader);
	stage_advance_ms(1);
	work();
	ck_assert_ptr_null(lease_attachment(one)->older);
	ck_assert_uint_eq(stage.leases.free_ns, UINT64_MAX);
}
END_TEST

/* A server that changes keys without end would fill the memory. */
START_TEST(lease__waits_for_its_older_attachment)
{
	attachments_enter(&reader);
	change(one, 21);
	(void)lease_verify(one);
	(void)lease_verify(two);
	expect_asked(false, true);
	/* nor is it gone over with each answer */
	ck_assert(list_empty(&stage.leases.rekeys_outstanding));
	if (_i) {
		drop(one);
		ck_assert(list_empty(&stage.leases.rekeys_held));
		ck_assert(list_empty(&stage.leases.superseded));
		return;
	}
	attachments_leave(&reader);
	stage_advance_ms(1);
	expect_asked(true, true);
}
END_TEST

int main(void)
{
	TCase *tc = tcp_case(setup);

	tcase_add_test(tc, work__is_done_for_enlisted_leases_alone);
	tcase_add_test(tc, want__is_enlisted_once_until_it_is_taken);
	tcase_add_loop_test(tc, want__ends_with_the_handle, 0, 2);
	tcase_add_test(tc, want__is_ignored_of_a_lease_that_the_server_does_not_have);
	tcase_add_test(tc, older_attachments__are_freed_in_their_order);
	tcase_add_loop_test(tc, lease__waits_for_its_older_attachment, 0, 2);
	return unit_main();
}
