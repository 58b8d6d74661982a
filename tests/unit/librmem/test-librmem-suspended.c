/* SPDX-License-Identifier: BSD-3-Clause */
/* A session on a host that has been suspended: all its times are on one clock. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "librmem/session/session.h"
#include "unit/librmem/core-case.h"
#include "unit/suspended.h"

/* The timer of the session. */
START_TEST(session__sends_heartbeats)
{
	open_with(0);
	proxy_await(WIRE_TYPE_ping, 30);
}
END_TEST

/* The wait of a thread for an answer. */
START_TEST(call__times_out)
{
	/* no heartbeat wakes the thread */
	set_heartbeat(100000, 300000);
	open_with(0);
	proxy.mute = true;
	(void)rmem_thread_timeout(300);
	ck_assert_int_eq(rmem_ping(stage.client, NULL), -ETIMEDOUT);
}
END_TEST

/* The timer of a queue. */
START_TEST(operation__times_out)
{
	rmem_lease *lease = open_with_lease(0);
	struct rmem_completion completion;
	struct pollfd fd = { .events = POLLIN };
	struct rmem_op op = {
		.opcode = RMEM_OP_WRITE,
		.lease = lease,
		.addr = stage.buf,
		.bytes = 1,
		.timeout_ms = 100,
	};
	int n = 0;

	queue_open(1);
	fake.automatic = false;
	ck_assert_int_eq(rmem_submit(stage.queue, &op, 1), 1);
	fd.fd = rmem_queue_fd(stage.queue);
	while (n == 0) {
		if (rmem_queue_arm(stage.queue) == 0)
			ck_assert_int_eq(poll(&fd, 1, 10000), 1);
		n = rmem_poll(stage.queue, &completion, 1);
	}
	ck_assert_int_eq(completion.status, -ETIMEDOUT);
}
END_TEST

/* Nothing is posted after the fence, and the session resumes. */
START_TEST(session__is_fenced_and_resumes)
{
	set_heartbeat(20, 1000);
	open_with(0);
	proxy.mute = true;
	AWAIT(session_usable(stage.client, clock_now_ns()) != 0);
	proxy.mute = false;
	proxy_cut();
	AWAIT(info().resumes > 0);
}
END_TEST

int main(void)
{
	/* before the core has threads */
	TCase *tc = core_case(unit_suspended() ? "suspended" : "not suspended");

	tcase_add_test(tc, session__sends_heartbeats);
	tcase_add_test(tc, call__times_out);
	tcase_add_test(tc, operation__times_out);
	tcase_add_test(tc, session__is_fenced_and_resumes);
	return unit_main();
}
