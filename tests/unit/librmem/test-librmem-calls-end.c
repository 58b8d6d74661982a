/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that end others: of a session that is being closed, and many that are cancelled at once. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "unit/librmem/calls-case.h"

/* ---- closing ---- */

static void check_closing(const struct rmem_answer *answer)
{
	ck_assert_msg(answer->status == -ESTALE, "cookie %u: %d",
		      (unsigned)answer->cookie, answer->status);
	ck_assert_ptr_nonnull(strstr(rmem_answer_error(calls, answer), "being closed"));
}

START_TEST(close__is_done_once)
{
	struct rmem_request requests[2];

	open_with(0);
	requests[0] = on_session(RMEM_CALL_CLOSE, NULL, 1);
	requests[1] = on_session(RMEM_CALL_CLOSE, NULL, 2);
	stage.client = NULL;
	begin(requests, 2);
	take(2);
	for (unsigned i = 0; i < 2; i++)
		if (answers[i].cookie == 2)
			check_closing(&answers[i]);
		else
			ck_assert_int_eq(answers[i].status, 0);
}
END_TEST

/* What is begun with the close, behind it. */
START_TEST(close__refuses_what_follows)
{
	static const enum rmem_call follow[] = { RMEM_CALL_QUEUE, RMEM_CALL_PING,
						 RMEM_CALL_RENEW };
	struct rmem_request requests[4];

	open_with(0);
	requests[0] = on_session(RMEM_CALL_CLOSE, NULL, 0);
	for (unsigned i = 0; i < 3; i++)
		requests[1 + i] = on_session(follow[i], NULL, 1 + i);
	requests[3].lease = alloc(1000, NULL);
	stage.client = NULL;
	begin(requests, 4);
	take(4);
	for (unsigned i = 0; i < 4; i++)
		if (answers[i].cookie)
			check_closing(&answers[i]);
}
END_TEST

/* The session is closed, but its answer was not taken. */
START_TEST(close__refuses_what_comes_late)
{
	static const enum rmem_call follow[] = { RMEM_CALL_CLOSE, RMEM_CALL_QUEUE,
						 RMEM_CALL_STAT };
	struct rmem_request requests[3];

	open_with(0);
	for (unsigned i = 0; i < 3; i++)
		requests[i] = on_session(follow[i], "thing", 1 + i);
	begin_one(on_session(RMEM_CALL_CLOSE, NULL, 0));
	stage.client = NULL;
	ck_assert(is_readable(10000));
	begin(requests, 3);
	take(4);
	for (unsigned i = 0; i < 4; i++)
		if (answers[i].cookie)
			check_closing(&answers[i]);
	ck_assert_uint_eq(rmem_calls_outstanding(calls), 0);
	AWAIT(fake.live == 0);
}
END_TEST

/* Its answer is not taken: the object ends, or the close is cancelled. */
START_TEST(close__whose_answer_nobody_takes)
{
	open_with(0);
	begin_one(on_session(RMEM_CALL_CLOSE, NULL, 1));
	stage.client = NULL;
	if (_i == 0)
		ck_assert(is_readable(10000));
	if (_i == 2)
		(void)rmem_calls_cancel(calls, 1);
	rmem_calls_free(calls);
	calls = NULL;
	AWAIT(fake.live == 0);
}
END_TEST

/* ---- cancelling ---- */

#define KINDS 6u
#define MIXED (KINDS * 40u)

static const void *params_of(unsigned i)
{
	static struct rmem_alloc_params leases;
	static struct rmem_buffer_params memory;

	leases = rmem_alloc_params_init();
	leases.bytes = 64;
	memory = rmem_buffer_params_init();
	memory.bytes = 4096;
	return i == 0 ? (const void *)&leases : i == 1 ? (const void *)&memory : NULL;
}

static void begin_mixed(void)
{
	static const enum rmem_call of[KINDS] = { RMEM_CALL_ALLOC,  RMEM_CALL_BUFFER,
						  RMEM_CALL_QUEUE,  RMEM_CALL_OPEN,
						  RMEM_CALL_ATTACH, RMEM_CALL_PING };
	struct rmem_request requests[MIXED];

	for (unsigned i = 0; i < MIXED; i++) {
		requests[i] = on_session(of[i % KINDS], "thing", i);
		requests[i].params = params_of(i % KINDS);
		if (of[i % KINDS] == RMEM_CALL_OPEN)
			requests[i].name = stage.uri;
	}
	begin(requests, MIXED);
}

static void give_back(const struct rmem_answer *answer)
{
	switch (answer->call) {
	case RMEM_CALL_ALLOC:
	case RMEM_CALL_ATTACH:
		ck_assert_int_eq(rmem_detach(answer->object), 0);
		break;
	case RMEM_CALL_BUFFER:
		ck_assert_int_eq(rmem_buffer_free(answer->object), 0);
		break;
	case RMEM_CALL_QUEUE:
		rmem_queue_free(answer->object);
		break;
	case RMEM_CALL_OPEN:
		rmem_close(answer->object);
		break;
	default:
		ck_assert_ptr_null(answer->object);
	}
}

/* All calls are cancelled, from the first or from the last on, while their answers come: each has
 * one answer, its own or ECANCELED, and what was granted to the cancelled ones is given back. */
START_TEST(cancel__of_many)
{
	bool came[MIXED] = { false };
	int ended = 0;
	int live;

	open_with(0);
	ck_assert_int_eq(rmem_detach(alloc(1000, "thing")), 0);
	live = fake.live;
	if (_i & 2)
		proxy.hold = WIRE_TYPE_attach;
	begin_mixed();
	for (unsigned i = 0; i < MIXED; i++)
		ended += rmem_calls_cancel(calls, _i & 1 ? MIXED - 1 - i : i);
	ck_assert_int_gt(ended, 0);
	if (_i & 2)
		proxy_release();
	for (unsigned got = 0; got < MIXED; got++) {
		take(1);
		ck_assert(!came[answers[0].cookie]);
		came[answers[0].cookie] = true;
		ended -= answers[0].status == -ECANCELED;
		ck_assert(answers[0].status == 0 || answers[0].status == -ECANCELED);
		ck_assert(answers[0].status == 0 || !answers[0].object);
		if (answers[0].status == 0)
			give_back(&answers[0]);
	}
	ck_assert_int_eq(ended, 0);
	ck_assert_uint_eq(rmem_calls_outstanding(calls), 0);
	AWAIT(sessions_of("thing") == 0);
	AWAIT(core_leases() == 1);
	AWAIT(fake.live == live);
	ck_assert_int_eq(rmem_write(alloc(8, NULL), 0, stage.buf, 8), 0);
}
END_TEST

int main(void)
{
	TCase *tc = calls_case("calls_end");

	tcase_add_test(tc, close__is_done_once);
	tcase_add_test(tc, close__refuses_what_follows);
	tcase_add_test(tc, close__refuses_what_comes_late);
	tcase_add_loop_test(tc, close__whose_answer_nobody_takes, 0, 3);
	tcase_add_loop_test(tc, cancel__of_many, 0, 4);
	return unit_main();
}
