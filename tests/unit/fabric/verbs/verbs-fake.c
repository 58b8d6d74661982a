/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings, injected failures and counts of the fake. */
#include "unit/fabric/verbs/verbs-fake-state.h"

#include <check.h>
#include <errno.h>
#include <sched.h>

struct fake_settings verbs_fake = {
	.max_cqe = 1000,
	.max_mr_bytes = UINT64_C(1) << 30,
	.max_qp_wr = 128,
	.max_inline = 64,
	.pkeys = { 0xffff, 0x8002, 0x0003 },
	.answer = RDMA_CM_EVENT_ESTABLISHED,
	.fail_errno = ENOMEM,
};

struct fake_state fake_state;

pthread_mutex_t fake_mutex = PTHREAD_MUTEX_INITIALIZER;

bool fake_fails(const char *call)
{
	bool hit;

	LOCKED(hit = ++fake_state.calls == fake_state.fail_at;
	       if (hit) fake_state.failed = call);
	if (hit)
		errno = verbs_fake.fail_errno;
	return hit;
}

int fake_error(void)
{
	return verbs_fake.fail_errno ? verbs_fake.fail_errno : ENOMEM;
}

void fake_live_add(int n)
{
	LOCKED(fake_state.live = (unsigned)((int)fake_state.live + n));
}

void fake_fail_at(unsigned n)
{
	LOCKED(fake_state.calls = 0; fake_state.fail_at = n; fake_state.failed = NULL);
}

bool fake_failed(void)
{
	return fake_state.failed != NULL;
}

const char *fake_failed_call(void)
{
	return fake_state.failed;
}

unsigned fake_fail_each(void (*run)(void))
{
	unsigned n = 0;

	do {
		fake_fail_at(++n);
		run();
		ck_assert_msg(fake_live() == 0,
			      "%u objects left after %s failed, call %u", fake_live(),
			      fake_failed_call(), n);
	} while (fake_failed());
	return n;
}

unsigned fake_live(void)
{
	unsigned n;

	LOCKED(n = fake_state.live);
	return n;
}

void fake_await_polled(void)
{
	unsigned n;

	do {
		(void)sched_yield();
		LOCKED(n = fake_state.entries);
	} while (n > 0);
}

unsigned fake_live_qps(void)
{
	unsigned n;

	LOCKED(n = fake_state.qps);
	return n;
}

unsigned fake_serving_qps(void)
{
	unsigned n;

	LOCKED(n = fake_state.serving);
	return n;
}

unsigned fake_live_mrs(void)
{
	unsigned n;

	LOCKED(n = fake_state.mrs);
	return n;
}
