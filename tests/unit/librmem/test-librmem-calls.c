/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that do not wait: their order, their answers, and what becomes of those that nobody
 * takes. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/librmem/calls-case.h"

/* ---- answers ---- */

START_TEST(call__is_that_of_the_function)
{
	rmem_lease *lease;

	open_with(0);
	begin_alloc("thing", 0);
	lease = take_one(0)->object;
	ck_assert_uint_eq(answers[0].cookie, 1);
	ck_assert_uint_eq(answers[0].call, RMEM_CALL_ALLOC);
	ck_assert_str_eq(rmem_answer_error(calls, &answers[0]), "");
	ck_assert_uint_eq(rmem_lease_bytes(lease), 1000);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 8), 0);
	begin_alloc("thing", RMEM_ALLOC_ATTACH);
	ck_assert_ptr_eq(take_one(1)->object, lease);
	begin_alloc("thing", 0);
	ck_assert_ptr_null(take_one(-EEXIST)->object);
	ck_assert_ptr_nonnull(strstr(rmem_answer_error(calls, &answers[0]),
				     "rmem_alloc of 1000 bytes at 127.0.0.1"));
	begin_one(on_session(RMEM_CALL_ATTACH, "thing", 2));
	ck_assert_ptr_eq(take_one(0)->object, lease);
	begin_one(on_session(RMEM_CALL_STAT, "thing", 3));
	ck_assert_uint_eq(take_one(0)->n_stats, 1);
	ck_assert_str_eq(answers[0].stats->name, "thing");
	begin_one(on_session(RMEM_CALL_PING, NULL, 4));
	ck_assert_uint_gt(take_one(0)->value, 0);
	begin_one(on_session(RMEM_CALL_REMOVE, "thing", 5));
	(void)take_one(0);
	begin_one(on_session(RMEM_CALL_STAT, "thing", 6));
	(void)take_one(-ENOENT);
	ck_assert_uint_eq(rmem_calls_outstanding(calls), 0);
}
END_TEST

START_TEST(calls__of_a_lease_are_done_in_their_order)
{
	rmem_lease *lease;

	open_with(0);
	lease = alloc(1000, NULL);
	{
		struct rmem_request requests[] = {
			on_lease(RMEM_CALL_GROW, lease, 3000),
			on_lease(RMEM_CALL_RENAME, lease, 0),
			on_lease(RMEM_CALL_WATCH, lease, 0),
			on_lease(RMEM_CALL_UNWATCH, lease, 0),
			on_lease(RMEM_CALL_KEEP, lease, 60000),
			on_lease(RMEM_CALL_RENEW, lease, 50000),
			on_lease(RMEM_CALL_SHRINK, lease, 2000),
			on_lease(RMEM_CALL_GROW, lease, 1999), /* too short by then */
			on_lease(RMEM_CALL_DETACH, lease, 0),
			/* finds no handle any more, and is told so first */
			on_lease(RMEM_CALL_RENEW, lease, 0),
		};
		static const int statuses[] = {
			0, 0, 0, 0, 0, 0, 0, -EINVAL, 0, -ESTALE
		};

		requests[1].name = "thing";
		begin(requests, 10);
		take(10);
		for (unsigned i = 0; i < 10; i++) {
			unsigned of = i < 8 ? i : 17 - i;

			ck_assert_uint_eq(answers[i].cookie, requests[of].call);
			ck_assert_msg(answers[i].status == statuses[of], "%u: %s", i,
				      rmem_answer_error(calls, &answers[i]));
		}
	}
	ck_assert_uint_eq(sessions_of("thing"), 0);
}
END_TEST

static void names_alloc(char (*names)[8], unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "n%u", i);
		ck_assert_int_eq(rmem_detach(alloc(64, names[i])), 0);
	}
}

START_TEST(calls__are_many_at_a_time)
{
	static char names[CALLS_CASE_MAX][8];
	static struct rmem_request requests[CALLS_CASE_MAX];
	static bool came[CALLS_CASE_MAX];
	unsigned got = 0;

	open_with(0);
	names_alloc(names, 250);
	for (unsigned i = 0; i < 250; i++)
		requests[i] = on_session(RMEM_CALL_ATTACH, names[i], i);
	begin(requests, 250);
	ck_assert_uint_eq(rmem_calls_outstanding(calls), 250);
	while (got < 250) {
		int n;

		ck_assert(is_readable(10000));
		n = rmem_calls_take(calls, answers, CALLS_CASE_MAX);
		for (int i = 0; i < n; i++) {
			char name[RMEM_NAME_MAX + 1];

			ck_assert_int_eq(answers[i].status, 0);
			ck_assert(!came[answers[i].cookie]);
			came[answers[i].cookie] = true;
			(void)rmem_lease_name(answers[i].object, name, sizeof(name));
			ck_assert_str_eq(name, names[answers[i].cookie]);
		}
		got += (unsigned)n;
	}
	ck_assert(!is_readable(0));
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_attach], 250);
}
END_TEST

START_TEST(list__is_answered_in_pages)
{
	static char names[200][8];
	unsigned n = 0, pages = 0;

	open_with(0);
	names_alloc(names, 200);
	begin_one(on_session(RMEM_CALL_LIST, "n", 7));
	do {
		take(1);
		ck_assert_int_ge(answers[0].status, 0);
		ck_assert_uint_eq(answers[0].cookie, 7);
		for (unsigned i = 0; i < answers[0].n_stats; i++)
			ck_assert_str_eq(answers[0].stats[i].name, names[n++]);
		pages++;
	} while (answers[0].status == 1);
	ck_assert_uint_eq(n, 200);
	ck_assert_uint_gt(pages, 1);
	ck_assert_uint_eq(rmem_calls_outstanding(calls), 0);
	/* a list that is cancelled, and one whose session is closed, between pages */
	begin_one(on_session(RMEM_CALL_LIST, NULL, 8));
	ck_assert(is_readable(10000));
	proxy.hold = WIRE_TYPE_list;
	take(1);
	ck_assert_int_eq(answers[0].status, 1);
	ck_assert_int_eq(rmem_calls_cancel(calls, 8), 1);
	(void)take_one(-ECANCELED);
	proxy_release();
	begin_one(on_session(RMEM_CALL_LIST, NULL, 9));
	ck_assert(is_readable(10000));
	client_close();
	ck_assert_uint_eq(take_one(-ECANCELED)->n_stats, 0);
	ck_assert_uint_eq(rmem_calls_outstanding(calls), 0);
}
END_TEST

START_TEST(session__of_two_on_one_descriptor)
{
	rmem *another;

	open_with(0);
	another = open_another("");
	{
		struct rmem_request requests[] = {
			on_session(RMEM_CALL_PING, NULL, 1),
			on_session(RMEM_CALL_PING, NULL, 2),
			on_session(RMEM_CALL_PING, NULL, 3),
		};

		requests[1].session = another;
		begin(requests, 3);
	}
	take(3);
	rmem_close(another);
}
END_TEST

/* ---- calls with a task ---- */

START_TEST(session__opens_and_closes)
{
	struct rmem_options options = rmem_options_init();
	struct rmem_queue_params queue = rmem_queue_params_init();
	struct rmem_buffer_params buffer = rmem_buffer_params_init();
	struct rmem_request request = opening(1);
	char client[8] = "a name";

	options.client = client;
	options.timeout_ms = 5000;
	request.params = &options;
	begin_one(request);
	memset(client, 0, sizeof(client));
	memset(&options, 0xff, sizeof(options));
	stage.client = take_one(0)->object;
	ck_assert_str_eq(proxy.last[WIRE_TYPE_hello].hello.client, "a name");
	request = on_session(RMEM_CALL_QUEUE, NULL, 2);
	queue.depth = 7;
	request.params = &queue;
	begin_one(request);
	stage.queue = take_one(0)->object;
	ck_assert_int_eq(queue_write(alloc(8192, NULL)), 0);
	rmem_queue_free(stage.queue);
	stage.queue = NULL;
	request = on_session(RMEM_CALL_BUFFER, NULL, 3);
	buffer.bytes = 8192;
	request.params = &buffer;
	begin_one(request);
	ck_assert_uint_eq(rmem_buffer_bytes(take_one(0)->object), 8192);
	/* its answers were not taken, or have not come */
	begin_one(on_session(RMEM_CALL_QUEUE, NULL, 4));
	ck_assert(is_readable(10000));
	begin_one(on_session(RMEM_CALL_QUEUE, NULL, 5));
	begin_one(on_session(RMEM_CALL_CLOSE, NULL, 6));
	stage.client = NULL;
	take(3);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_ptr_null(answers[i].object);
		ck_assert_int_eq(answers[i].status,
				 answers[i].cookie == 5 ? -ECANCELED : 0);
	}
	AWAIT(fake.live == 0);
}
END_TEST

START_TEST(sessions__open_many_at_a_time)
{
	struct rmem_request requests[40];

	for (unsigned i = 0; i < 40; i++)
		requests[i] = opening(i);
	begin(requests, 40);
	take(40);
	for (unsigned i = 0; i < 40; i++) {
		ck_assert_int_eq(answers[i].status, 0);
		requests[i] = rmem_request_init(RMEM_CALL_CLOSE);
		requests[i].session = answers[i].object;
	}
	begin(requests, 40);
	take(40);
}
END_TEST

START_TEST(open__tells_why_it_fails)
{
	struct rmem_request request = opening(1);

	request.name = "rmem://127.0.0.1:1";
	begin_one(request);
	(void)take_one(-ECONNREFUSED);
	ck_assert_ptr_nonnull(
		strstr(rmem_answer_error(calls, &answers[0]), "rmem_open: "));
	/* it stays the error though the time is over when it is taken */
	request.name = "rmem://host?nonsense=1";
	request.timeout_ms = 1;
	begin_one(request);
	(void)usleep(2000);
	(void)take_one(-EINVAL);
	ck_assert_ptr_nonnull(
		strstr(rmem_answer_error(calls, &answers[0]), "rmem_open: "));
}
END_TEST

/* The server is silent: the call ends when its time is over, or when it is cancelled, and its
 * task later. */
START_TEST(open__ends_in_time)
{
	struct rmem_request request = opening(1);

	proxy.mute = true;
	request.timeout_ms = _i ? 30 : 2000;
	begin_one(request);
	proxy_await(WIRE_TYPE_hello, 1);
	if (_i == 0)
		ck_assert_int_eq(rmem_calls_cancel(calls, 1), 1);
	(void)take_one(_i ? -ETIMEDOUT : -ECANCELED);
	proxy.mute = false;
}
END_TEST

/* Those that nobody takes are closed, also while they are being opened. */
START_TEST(free__closes_what_was_opened)
{
	fake.slow_ms = _i ? 200 : 0;
	begin_one(opening(1));
	if (_i)
		proxy_await(WIRE_TYPE_hello, 1);
	else
		ck_assert(is_readable(10000));
	rmem_calls_free(calls);
	calls = NULL;
	proxy_await(WIRE_TYPE_bye, 1);
	AWAIT(fake.live == 0);
}
END_TEST

START_TEST(free__of_queue_and_buffer)
{
	struct rmem_buffer_params buffer = rmem_buffer_params_init();
	struct rmem_request request;
	int live;

	open_with(0);
	live = fake.live;
	request = on_session(RMEM_CALL_BUFFER, NULL, 3);
	buffer.bytes = sizeof(stage.buf);
	buffer.addr = stage.buf;
	request.params = &buffer;
	if (_i)
		fake.slow_ms = 200;
	begin_one(on_session(RMEM_CALL_QUEUE, NULL, 2));
	begin_one(request);
	if (_i == 0)
		ck_assert(is_readable(10000));
	rmem_calls_free(calls);
	calls = NULL;
	AWAIT(fake.live == live);
}
END_TEST

/* ---- errors ---- */

START_TEST(request__that_is_malformed_is_refused)
{
	struct rmem_request requests[2];

	open_with(0);
	requests[0] = on_session(RMEM_CALL_PING, NULL, 1);
	requests[1] = on_session((enum rmem_call)999, NULL, 2);
	ck_assert_int_eq(rmem_calls_begin(calls, requests, 2), 1);
	ck_assert_int_eq(rmem_calls_begin(calls, &requests[1], 1), -EINVAL);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "call 999 is unknown"));
	(void)take_one(0);
	requests[0].reserved[1] = 1;
	ck_assert_int_eq(rmem_calls_begin(calls, requests, 1), -EINVAL);
	requests[0] = on_session(RMEM_CALL_ATTACH, NULL, 1);
	ck_assert_int_eq(rmem_calls_begin(calls, requests, 1), -EINVAL);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "name is NULL"));
	/* an argument that is wrong is the call's error */
	begin_one(on_session(RMEM_CALL_ATTACH, "a\tb", 3));
	ck_assert_uint_eq(take_one(-EINVAL)->cookie, 3);
	ck_assert_ptr_nonnull(
		strstr(rmem_answer_error(calls, &answers[0]), "the name"));
}
END_TEST

START_TEST(requests__have_a_limit)
{
	struct rmem_calls_params params = rmem_calls_params_init();
	struct rmem_request requests[3];
	rmem_calls *few;

	open_with(0);
	params.depth = RMEM_CALLS_MAX + 1;
	ck_assert_int_eq(rmem_calls_create(&params, &few), -EINVAL);
	params.depth = 2;
	ck_assert_int_eq(rmem_calls_create(&params, &few), 0);
	for (unsigned i = 0; i < 3; i++)
		requests[i] = on_session(RMEM_CALL_PING, NULL, i);
	ck_assert_int_eq(rmem_calls_begin(few, requests, 3), 2);
	ck_assert_int_eq(rmem_calls_begin(few, &requests[2], 1), -EOVERFLOW);
	ck_assert_int_eq(rmem_calls_wait(few, answers, 3, 3, -1), 2);
	ck_assert_int_eq(rmem_calls_begin(few, &requests[2], 1), 1);
	rmem_calls_free(few);
}
END_TEST

START_TEST(request__has_a_deadline)
{
	struct rmem_request request;
	rmem_lease *lease;

	open_with(0);
	lease = alloc(1000, "thing");
	proxy.hold = WIRE_TYPE_renew;
	request = on_lease(RMEM_CALL_RENEW, lease, 0);
	begin_one(request);
	request = on_lease(RMEM_CALL_RENEW, lease, 0);
	request.timeout_ms = 20;
	begin_one(request);
	(void)take_one(-ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(rmem_answer_error(calls, &answers[0]),
				     "other calls on the lease"));
	request = on_session(RMEM_CALL_STAT, "thing", 1);
	request.timeout_ms = 20;
	proxy_release();
	(void)take_one(0);
	proxy.hold = WIRE_TYPE_stat;
	begin_one(request);
	(void)take_one(-ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(rmem_answer_error(calls, &answers[0]),
				     "no answer to stat within"));
	proxy_release();
}
END_TEST

START_TEST(request__is_repeated_when_its_answer_is_lost)
{
	open_with(0);
	proxy.drop = WIRE_TYPE_allocate;
	begin_alloc("thing", 0);
	ck_assert_ptr_nonnull(take_one(0)->object);
	ck_assert_uint_eq(info().resumes, 1);
	ck_assert_uint_eq(core_leases(), 1);
}
END_TEST

START_TEST(request__ends_with_the_session)
{
	open_with(0);
	proxy.hold = WIRE_TYPE_allocate;
	begin_alloc("thing", 0);
	server_restart_empty();
	(void)take_one(-ESTALE);
}
END_TEST

/* ---- ending requests ---- */

START_TEST(cancel__answers_at_once)
{
	open_with(0);
	proxy.hold = _i ? WIRE_TYPE_attach : WIRE_TYPE_allocate;
	if (_i)
		ck_assert_int_eq(rmem_detach(alloc(1000, "thing")), 0);
	if (_i)
		begin_one(on_session(RMEM_CALL_ATTACH, "thing", 1));
	else
		begin_alloc("thing", 0);
	proxy_await(proxy.hold, 1);
	ck_assert_int_eq(rmem_calls_cancel(calls, 2), 0);
	ck_assert_int_eq(rmem_calls_cancel(calls, 1), 1);
	ck_assert_ptr_null(take_one(-ECANCELED)->object);
	ck_assert_int_eq(rmem_calls_cancel(calls, 1), 0);
	/* what is granted now is given back */
	proxy_release();
	proxy_await(WIRE_TYPE_detach, _i ? 2 : 1);
	if (_i)
		AWAIT(sessions_of("thing") == 0);
	else
		AWAIT(core_leases() == 0);
}
END_TEST

/* Its name is taken, and it waits for the next attempt. */
START_TEST(cancel__ends_a_call_that_waits)
{
	open_with(0);
	ck_assert_int_eq(rmem_detach(alloc(1000, "thing")), 0);
	proxy_fail(WIRE_TYPE_attach, ENOENT, UINT32_MAX);
	begin_alloc("thing", RMEM_ALLOC_ATTACH);
	proxy_await(WIRE_TYPE_attach, 2);
	ck_assert_int_eq(rmem_calls_cancel(calls, 1), 1);
	(void)take_one(-ECANCELED);
	proxy_fail(WIRE_TYPE_attach, 0, 0);
}
END_TEST

START_TEST(cancel__of_a_detach_keeps_the_handle)
{
	rmem_lease *lease;

	open_with(0);
	lease = alloc(1000, "thing");
	proxy.hold = WIRE_TYPE_detach;
	begin_one(on_lease(RMEM_CALL_DETACH, lease, 0));
	proxy_await(WIRE_TYPE_detach, 1);
	ck_assert_int_eq(rmem_calls_cancel(calls, RMEM_CALL_DETACH), 1);
	(void)take_one(-ECANCELED);
	/* the next one waits for the same answer */
	begin_one(on_lease(RMEM_CALL_DETACH, lease, 0));
	proxy_release();
	(void)take_one(0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_detach], 1);
}
END_TEST

START_TEST(cancel__lets_the_next_call_of_the_lease_begin)
{
	struct rmem_request requests[3];
	rmem_lease *lease;

	open_with(0);
	lease = alloc(1000, "thing");
	proxy.hold = WIRE_TYPE_resize;
	requests[0] = on_lease(RMEM_CALL_GROW, lease, 2000);
	requests[1] = on_lease(RMEM_CALL_SHRINK, lease, 1);
	requests[2] = on_lease(RMEM_CALL_RENEW, lease, 1000);
	begin(requests, 3);
	proxy_await(WIRE_TYPE_resize, 1);
	ck_assert_int_eq(rmem_calls_cancel(calls, RMEM_CALL_SHRINK), 1);
	ck_assert_int_eq(rmem_calls_cancel(calls, RMEM_CALL_GROW), 1);
	take(3);
	ck_assert_int_eq(answers[0].status, -ECANCELED);
	ck_assert_int_eq(answers[1].status, -ECANCELED);
	ck_assert_int_eq(answers[2].status, 0);
	proxy_release();
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_resize], 1);
}
END_TEST

START_TEST(free__gives_back_what_nobody_has_taken)
{
	rmem_lease *lease;

	open_with(0);
	ck_assert_int_eq(rmem_detach(alloc(1000, "other")), 0);
	lease = alloc(1000, "held");
	begin_alloc("thing", 0);
	begin_one(on_session(RMEM_CALL_ATTACH, "other", 2));
	begin_one(on_session(RMEM_CALL_ATTACH, "held", 3));
	begin_one(on_session(RMEM_CALL_STAT, "held", 4));
	proxy_await(WIRE_TYPE_attach, 2);
	AWAIT(proxy.seen[WIRE_TYPE_stat] == 2);
	if (_i)
		ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
	rmem_calls_free(calls);
	calls = NULL;
	AWAIT(core_leases() == 2);
	AWAIT(sessions_of("other") == 0);
	ck_assert_uint_eq(sessions_of("held"), 1);
	/* one reference was given back */
	ck_assert_int_eq(rmem_detach(lease), 0);
	ck_assert_uint_eq(sessions_of("held"), 0);
}
END_TEST

START_TEST(free__while_requests_have_no_answer)
{
	rmem_lease *lease;

	open_with(0);
	lease = alloc(1000, "held");
	proxy.hold = WIRE_TYPE_allocate;
	begin_alloc("thing", 0);
	begin_one(on_lease(RMEM_CALL_RENEW, lease, 0));
	begin_one(on_lease(RMEM_CALL_RENEW, lease, 0));
	proxy_await(WIRE_TYPE_allocate, 2);
	rmem_calls_free(calls);
	calls = NULL;
	proxy_release();
	AWAIT(core_leases() == 1);
	ck_assert_int_eq(rmem_destroy(lease), 0);
}
END_TEST

START_TEST(close__answers_all)
{
	open_with(0);
	begin_alloc("thing", 0);
	ck_assert(is_readable(10000));
	proxy.hold = WIRE_TYPE_stat;
	begin_one(on_session(RMEM_CALL_STAT, "thing", 2));
	client_close();
	take(2);
	ck_assert_int_eq(answers[0].status, 0);
	ck_assert_ptr_null(answers[0].object);
	ck_assert_int_eq(answers[1].status, -ECANCELED);
	ck_assert_uint_eq(rmem_calls_outstanding(calls), 0);
	proxy_release();
}
END_TEST

/* ---- without the service threads ---- */

START_TEST(driven__session_is_on_the_descriptor)
{
	rmem_lease *lease;
	int n;

	set_heartbeat(50, 500);
	open_with(RMEM_NO_THREAD);
	begin_alloc("thing", 0);
	do {
		ck_assert(is_readable(10000));
		n = rmem_calls_take(calls, answers, 1);
	} while (n == 0);
	ck_assert_int_eq(answers[0].status, 0);
	lease = answers[0].object;
	/* heartbeats are sent, and a deadline is seen */
	proxy.hold = WIRE_TYPE_renew;
	{
		struct rmem_request request = on_lease(RMEM_CALL_RENEW, lease, 0);

		request.timeout_ms = 700;
		begin_one(request);
	}
	do {
		ck_assert(is_readable(10000));
		n = rmem_calls_take(calls, answers, 1);
	} while (n == 0);
	ck_assert_int_eq(answers[0].status, -ETIMEDOUT);
	ck_assert_uint_eq(info().resumes, 0);
	proxy_release();
	begin_one(on_session(RMEM_CALL_PING, NULL, 1));
	client_close();
	(void)take_one(-ECANCELED);
}
END_TEST

/* ---- fork ---- */

START_TEST(child__cannot_use_it)
{
	struct rmem_request request;
	int status;
	pid_t child;

	open_with(0);
	proxy.hold = WIRE_TYPE_allocate;
	begin_alloc("thing", 0);
	request = on_session(RMEM_CALL_PING, NULL, 2);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		rmem_calls *own = NULL;
		bool ok = rmem_calls_begin(calls, &request, 1) == -ESTALE &&
			  rmem_calls_take(calls, answers, 1) == -ESTALE &&
			  rmem_calls_cancel(calls, 1) == -ESTALE;

		rmem_calls_free(calls);
		ok = ok && rmem_calls_create(NULL, &own) == 0 &&
		     rmem_calls_begin(own, &request, 1) == 1 &&
		     rmem_calls_take(own, answers, 1) == 1 &&
		     answers[0].status == -ESTALE;
		rmem_calls_free(own);
		_exit(ok ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	proxy_release();
	ck_assert_ptr_nonnull(take_one(0)->object);
}
END_TEST

int main(void)
{
	TCase *tc = calls_case("calls");

	tcase_add_test(tc, call__is_that_of_the_function);
	tcase_add_test(tc, calls__of_a_lease_are_done_in_their_order);
	tcase_add_test(tc, calls__are_many_at_a_time);
	tcase_add_test(tc, list__is_answered_in_pages);
	tcase_add_test(tc, session__of_two_on_one_descriptor);
	tcase_add_test(tc, session__opens_and_closes);
	tcase_add_test(tc, sessions__open_many_at_a_time);
	tcase_add_test(tc, open__tells_why_it_fails);
	tcase_add_loop_test(tc, open__ends_in_time, 0, 2);
	tcase_add_loop_test(tc, free__closes_what_was_opened, 0, 2);
	tcase_add_loop_test(tc, free__of_queue_and_buffer, 0, 2);
	tcase_add_test(tc, request__that_is_malformed_is_refused);
	tcase_add_test(tc, requests__have_a_limit);
	tcase_add_test(tc, request__has_a_deadline);
	tcase_add_test(tc, request__is_repeated_when_its_answer_is_lost);
	tcase_add_test(tc, request__ends_with_the_session);
	tcase_add_loop_test(tc, cancel__answers_at_once, 0, 2);
	tcase_add_test(tc, cancel__ends_a_call_that_waits);
	tcase_add_test(tc, cancel__of_a_detach_keeps_the_handle);
	tcase_add_test(tc, cancel__lets_the_next_call_of_the_lease_begin);
	tcase_add_loop_test(tc, free__gives_back_what_nobody_has_taken, 0, 2);
	tcase_add_test(tc, free__while_requests_have_no_answer);
	tcase_add_test(tc, close__answers_all);
	tcase_add_test(tc, driven__session_is_on_the_descriptor);
	tcase_add_test(tc, child__cannot_use_it);
	return unit_main();
}
