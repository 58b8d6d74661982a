/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/librmem/calls-case.h"

#include <poll.h>
#include <string.h>

rmem_calls *calls;
struct rmem_answer answers[CALLS_CASE_MAX];

static void setup(void)
{
	ck_assert_int_eq(rmem_calls_create(NULL, &calls), 0);
}

static void teardown(void)
{
	rmem_calls_free(calls);
	calls = NULL;
}

TCase *calls_case(const char *name)
{
	TCase *tc = core_case(name);

	tcase_add_checked_fixture(tc, setup, teardown);
	return tc;
}

struct rmem_request on_session(enum rmem_call call, const char *name, uint64_t cookie)
{
	struct rmem_request request = rmem_request_init(call);

	request.session = stage.client;
	request.name = name;
	request.cookie = cookie;
	if (call == RMEM_CALL_ATTACH)
		request.value = RMEM_READ | RMEM_WRITE;
	return request;
}

struct rmem_request on_lease(enum rmem_call call, rmem_lease *lease, uint64_t value)
{
	struct rmem_request request = rmem_request_init(call);

	request.lease = lease;
	request.value = value;
	request.cookie = call;
	return request;
}

struct rmem_request opening(uint64_t cookie)
{
	struct rmem_request request = rmem_request_init(RMEM_CALL_OPEN);

	request.name = stage.uri;
	request.cookie = cookie;
	return request;
}

void begin(const struct rmem_request *requests, unsigned n)
{
	ck_assert_int_eq(rmem_calls_begin(calls, requests, n), (int)n);
}

void begin_one(struct rmem_request request)
{
	begin(&request, 1);
}

void begin_alloc(const char *name, unsigned flags)
{
	struct rmem_request request = on_session(RMEM_CALL_ALLOC, NULL, 1);
	struct rmem_alloc_params params = rmem_alloc_params_init();
	char copied[RMEM_NAME_MAX + 1] = "";

	if (name)
		(void)strcpy(copied, name);
	params.bytes = 1000;
	params.name = name ? copied : NULL;
	params.flags = flags;
	request.params = &params;
	begin_one(request);
	/* begin has copied all that it needs */
	memset(&params, 0xff, sizeof(params));
	memset(copied, 'x', sizeof(copied) - 1);
}

void take(unsigned n)
{
	ck_assert_int_eq(rmem_calls_wait(calls, answers, n, n, 10000), (int)n);
}

const struct rmem_answer *take_one(int status)
{
	take(1);
	ck_assert_msg(answers[0].status == status, "%d: %s", answers[0].status,
		      rmem_answer_error(calls, &answers[0]));
	return &answers[0];
}

bool is_readable(int timeout_ms)
{
	struct pollfd pollfd = { .fd = rmem_calls_fd(calls), .events = POLLIN };

	return poll(&pollfd, 1, timeout_ms) == 1;
}

unsigned sessions_of(const char *name)
{
	struct rmem_stat stat = rmem_stat_init();

	ck_assert_int_eq(rmem_stat(stage.client, name, &stat), 0);
	return stat.sessions;
}
