/* SPDX-License-Identifier: BSD-3-Clause */
/* What a session holds: the library and the daemon agree about it, whatever comes late. */
#include <errno.h>
#include <string.h>

#include "librmem/lease/lease.h"
#include "unit/librmem/core-case.h"

#define SHORT_MS 1000
#define RW (RMEM_READ | RMEM_WRITE)

/* ---- a lease is attached again ---- */

static rmem_lease *attached(const char *name)
{
	rmem_lease *lease = NULL;
	int err = rmem_attach(stage.client, name, RW, &lease);

	ck_assert_msg(err == 0, "%s", rmem_error());
	return lease;
}

/* It is the handle that events and keys reach, on the first connection. */
static void check_works(rmem_lease *lease)
{
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 100), 0);
	ck_assert_ptr_eq(attached("name"), lease);
	ck_assert_int_eq(rmem_detach(lease), 0);
	ck_assert_uint_eq(proxy.connections, 1);
	ck_assert_int_eq(rmem_detach(lease), 0);
}

static void *run_detach(void *arg)
{
	ck_assert_int_eq(rmem_detach(arg), 0);
	return NULL;
}

/* The daemon answers an attach before the detach that came earlier, which waits for keys to die. */
START_TEST(attach__is_answered_before_the_detach)
{
	rmem_lease *old, *lease;
	pthread_t thread;

	set_heartbeat(5000, 20000);
	open_with(0);
	old = alloc(1000, "name");
	proxy.delay = WIRE_TYPE_detach;
	ck_assert_int_eq(pthread_create(&thread, NULL, run_detach, old), 0);
	proxy_await_count(&proxy.delayed, 1);
	lease = attached("name");
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	check_works(lease);
}
END_TEST

static rmem_lease *detached_late(void)
{
	rmem_lease *lease;

	set_heartbeat(5000, 20000);
	ck_assert_int_eq(open_within(0, SHORT_MS), 0);
	lease = alloc(1000, "name");
	proxy.hold = WIRE_TYPE_detach;
	ck_assert_int_eq(rmem_detach(lease), -ETIMEDOUT);
	ck_assert_int_eq(rmem_lease_status(lease), 0);
	return lease;
}

START_TEST(detach__that_is_answered_too_late_ends_the_handle)
{
	rmem_lease *old = detached_late();

	proxy_release();
	AWAIT(rmem_lease_status(old) == -ESTALE);
	ck_assert_int_eq(rmem_lease_reason(old), RMEM_REASON_FREED);
	ck_assert_int_eq(rmem_detach(old), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_detach], 1);
	check_works(attached("name"));
}
END_TEST

/* A second request could end what another thread has attached since the first. */
START_TEST(detach__waits_for_the_answer_to_an_earlier_one)
{
	rmem_lease *lease = detached_late();

	ck_assert_int_eq(rmem_detach(lease), -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "earlier request"));
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_detach], 1);
	proxy_release();
	ck_assert_int_eq(rmem_detach(lease), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_detach], 1);
}
END_TEST

/* The handle is given back a second time, or not, before that answer. */
START_TEST(attach__after_a_detach_without_an_answer)
{
	rmem_lease *old = detached_late(), *lease = attached("name");

	ck_assert_int_eq(rmem_lease_status(old), -ESTALE);
	if (_i)
		ck_assert_int_eq(rmem_detach(old), 0);
	proxy_release();
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
	ck_assert_int_eq(rmem_lease_status(lease), 0);
	if (!_i)
		ck_assert_int_eq(rmem_detach(old), 0);
	check_works(lease);
}
END_TEST

/* Its answer may come at any time: the handle is not given to others any more. */
START_TEST(attach__does_not_take_a_handle_that_is_being_detached)
{
	rmem_lease *old = detached_late(), *lease;

	/* as if the daemon had not done it yet */
	proxy_fail(WIRE_TYPE_attach, EALREADY, 0);
	lease = attached("name");
	ck_assert_ptr_ne(lease, old);
	ck_assert_int_eq(rmem_detach(old), 0);
	proxy_release();
	check_works(lease);
}
END_TEST

static void *run_destroy(void *arg)
{
	ck_assert_int_eq(rmem_destroy(arg), -ETIMEDOUT);
	return NULL;
}

/* Two threads end one handle: the second request would get the first one's place. */
START_TEST(destroy__of_two_threads_is_one_request)
{
	rmem_lease *lease;
	pthread_t thread;

	set_heartbeat(5000, 20000);
	ck_assert_int_eq(open_within(0, SHORT_MS), 0);
	lease = alloc(1000, "name");
	ck_assert_ptr_eq(attached("name"), lease);
	proxy.hold = WIRE_TYPE_free;
	ck_assert_int_eq(pthread_create(&thread, NULL, run_destroy, lease), 0);
	proxy_await(WIRE_TYPE_free, 1);
	ck_assert_int_eq(rmem_destroy(lease), -ETIMEDOUT);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_free], 1);
	proxy_release();
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	ck_assert_int_eq(rmem_destroy(lease), 0);
	ck_assert_int_eq(rmem_destroy(lease), 0);
}
END_TEST

START_TEST(attach__after_a_share_was_ended_and_given_again)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem_lease *theirs = NULL, *old = NULL, *lease = NULL;
	rmem *owner;

	server_stop();
	core_config.tenants[1] = core_config.tenants[0];
	(void)strcpy(core_config.tenants[1].name, "other");
	core_config.n_tenants = 2;
	server_start();
	open_with(0);
	owner = open_another("?tenant=other");
	params.bytes = 1000;
	params.name = "lent";
	ck_assert_int_eq(rmem_alloc(owner, &params, &theirs), 0);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(rmem_share(theirs, "default", RW), 0);
		ck_assert_msg(rmem_attach_shared(stage.client, "other", "lent", RW,
						 &lease) == 0,
			      "%s", rmem_error());
		ck_assert_ptr_ne(lease, old);
		ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 100), 0);
		/* a program may keep the handle for a time */
		if (old)
			ck_assert_int_eq(rmem_detach(old), 0);
		ck_assert_int_eq(rmem_unshare(theirs, "default"), 0);
		AWAIT(rmem_lease_status(lease) == -ESTALE);
		ck_assert_int_eq(rmem_lease_reason(lease), RMEM_REASON_UNSHARED);
		old = lease;
	}
	ck_assert_uint_eq(proxy.connections, 1);
	rmem_close(owner);
}
END_TEST

static void *run_attach_read(void *arg)
{
	rmem_lease **ret_lease = arg;

	ck_assert_int_eq(rmem_attach(stage.client, "name", RMEM_READ, ret_lease), 0);
	return NULL;
}

/* The request is sent before the library's own, for new keys. */
START_TEST(attach__while_the_server_is_away_finds_the_handle)
{
	rmem_lease *lease, *again = NULL;
	pthread_t thread;

	open_with(0);
	lease = alloc(1000, "name");
	proxy_fail(WIRE_TYPE_hello, EBUSY, 0);
	proxy_cut();
	proxy_await_count(&proxy.seen[WIRE_TYPE_hello], 3);
	ck_assert_int_eq(pthread_create(&thread, NULL, run_attach_read, &again), 0);
	proxy_await_count(&proxy.seen[WIRE_TYPE_hello], 4);
	proxy_fail(WIRE_TYPE_hello, 0, 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_ptr_eq(again, lease);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 100), 0);
}
END_TEST

/* ---- grants that come too late ---- */

/* The answer to the allocation of "name" is held. */
static void alloc_late(void)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem_lease *lease = NULL;

	set_heartbeat(5000, 20000);
	ck_assert_int_eq(open_within(0, SHORT_MS), 0);
	params.bytes = 1000;
	params.name = "name";
	proxy.hold = WIRE_TYPE_allocate;
	ck_assert_int_eq(rmem_alloc(stage.client, &params, &lease), -ETIMEDOUT);
	ck_assert_uint_eq(core_leases(), 1);
}

/* The session has given back all that it was granted too late. */
static bool nothing_unwanted(void)
{
	bool empty;

	(void)pthread_mutex_lock(&stage.client->lock);
	empty = list_empty(&stage.client->leases->unwanted);
	ck_assert_uint_eq(stage.client->leases->n_unwanted == 0, empty);
	(void)pthread_mutex_unlock(&stage.client->lock);
	return empty;
}

/* _i: the first request to give it back is refused. */
START_TEST(late_lease__ends_if_nobody_has_seen_it)
{
	alloc_late();
	if (_i)
		proxy_fail(WIRE_TYPE_detach, ENOMEM, 0);
	proxy_release();
	proxy_await(WIRE_TYPE_detach, _i ? 2 : 1);
	AWAIT(nothing_unwanted());
	ck_assert_uint_eq(core_leases(), 0);
}
END_TEST

/* _i: who has used it has gone; 2: and the daemon has been restarted since. */
START_TEST(late_lease__stays_if_another_session_has_used_it)
{
	rmem *another;
	rmem_lease *theirs = NULL;

	alloc_late();
	another = open_another("");
	ck_assert_int_eq(rmem_attach(another, "name", RW, &theirs), 0);
	ck_assert_int_eq(rmem_write(theirs, 0, "stored", 6), 0);
	if (_i)
		ck_assert_int_eq(rmem_detach(theirs), 0);
	if (_i == 2) {
		server_restart();
		proxy_await(WIRE_TYPE_allocate, 2);
	}
	proxy_release();
	proxy_await(WIRE_TYPE_detach, 1);
	AWAIT(nothing_unwanted());
	if (_i)
		ck_assert_int_eq(rmem_attach(another, "name", RW, &theirs), 0);
	ck_assert_int_eq(rmem_read(theirs, 0, stage.buf, 6), 0);
	ck_assert_mem_eq(stage.buf, "stored", 6);
	rmem_close(another);
}
END_TEST

/* A grant that the session does not know what to do with is given back, too. */
START_TEST(late_attach__is_given_back)
{
	rmem *another;
	rmem_lease *lease = NULL, *theirs;

	set_heartbeat(5000, 20000);
	ck_assert_int_eq(open_within(0, SHORT_MS), 0);
	ck_assert_int_eq(rmem_detach(alloc(1000, "name")), 0);
	proxy.hold = WIRE_TYPE_attach;
	ck_assert_int_eq(rmem_attach(stage.client, "name", RW, &lease), -ETIMEDOUT);
	proxy_release();
	proxy_await(WIRE_TYPE_detach, 2);
	AWAIT(nothing_unwanted());
	another = open_another("");
	ck_assert_int_eq(rmem_attach(another, "name", RW, &theirs), 0);
	check_works(attached("name"));
	rmem_close(another);
}
END_TEST

/* A server that takes nothing back is not asked for more. */
START_TEST(late_leases__have_a_limit)
{
	rmem_lease *lease = NULL;

	open_with(0);
	ck_assert_int_eq(rmem_detach(alloc(1000, "name")), 0);
	stage.client->leases->n_unwanted = UNWANTED_MAX;
	ck_assert_int_eq(rmem_attach(stage.client, "name", RW, &lease), -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "has not taken back 1024 leases"));
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_attach], 0);
	stage.client->leases->n_unwanted = 0;
	check_works(attached("name"));
}
END_TEST

START_TEST(late_lease__goes_with_the_session)
{
	alloc_late();
	proxy_fail(WIRE_TYPE_detach, ENOMEM, 0);
	proxy_release();
	proxy_await(WIRE_TYPE_detach, 1);
	client_close();
}
END_TEST

int main(void)
{
	TCase *tc = core_case("held");

	tcase_add_test(tc, attach__is_answered_before_the_detach);
	tcase_add_test(tc, detach__that_is_answered_too_late_ends_the_handle);
	tcase_add_test(tc, detach__waits_for_the_answer_to_an_earlier_one);
	tcase_add_loop_test(tc, attach__after_a_detach_without_an_answer, 0, 2);
	tcase_add_test(tc, attach__does_not_take_a_handle_that_is_being_detached);
	tcase_add_test(tc, destroy__of_two_threads_is_one_request);
	tcase_add_test(tc, attach__after_a_share_was_ended_and_given_again);
	tcase_add_test(tc, attach__while_the_server_is_away_finds_the_handle);
	tcase_add_loop_test(tc, late_lease__ends_if_nobody_has_seen_it, 0, 2);
	tcase_add_loop_test(tc, late_lease__stays_if_another_session_has_used_it, 0, 3);
	tcase_add_test(tc, late_attach__is_given_back);
	tcase_add_test(tc, late_leases__have_a_limit);
	tcase_add_test(tc, late_lease__goes_with_the_session);
	return unit_main();
}
