/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions with RMEM_NO_RESUME, which end when they lose their server. */
#include <errno.h>
#include <string.h>

#include "unit/librmem/core-case.h"

static void fence(void)
{
	proxy_event(WIRE_TYPE_fenced, 0, 0);
}

static void mute(void)
{
	proxy.mute = true;
}

static const struct {
	void (*lose)(void);
	unsigned flags;
	enum rmem_fabric fabric;
} cases[] = {
	{ proxy_cut, 0, RMEM_FABRIC_TCP },
	{ fence, 0, RMEM_FABRIC_RDMA },
	{ mute, 0, RMEM_FABRIC_TCP },
	{ proxy_cut, RMEM_NO_THREAD, RMEM_FABRIC_RDMA },
	{ fence, RMEM_NO_THREAD, RMEM_FABRIC_TCP },
	{ mute, RMEM_NO_THREAD, RMEM_FABRIC_RDMA },
};

static rmem_lease *open_case(int number)
{
	rmem_lease *lease;

	set_heartbeat(200, 1000);
	if (cases[number].fabric == RMEM_FABRIC_RDMA)
		serve_rdma();
	open_over(RMEM_NO_RESUME | cases[number].flags, cases[number].fabric);
	lease = alloc(1000, NULL);
	queue_open(1);
	return lease;
}

/* A write that was posted may be applied until the server has fenced the session. */
START_TEST(session__ends_when_it_loses_its_server)
{
	rmem_lease *lease = open_case(_i);
	uint64_t start_ms;
	unsigned posts;

	fake.automatic = false;
	submit_write(lease);
	submit_write(lease);
	posts = fake.posts;
	start_ms = clock_now_ms();
	cases[_i].lose();
	ck_assert_int_eq(wait_status(), -ESTALE);
	ck_assert_uint_ge(clock_now_ms() - start_ms, info().fence_ms);
	ck_assert_int_eq(wait_status(), -ESTALE);
	ck_assert_int_eq(rmem_lease_status(lease), -ESTALE);
	ck_assert_int_eq(queue_write(lease), -ESTALE);
	ck_assert_int_eq(rmem_ping(stage.client, NULL), -ESTALE);
	ck_assert_msg(strstr(rmem_error(), "the session is lost: "), "%s",
		      rmem_error());
	ck_assert_uint_eq(fake.posts, posts);
	client_close();
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_hello], 1);
}
END_TEST

/* The server was asked to close its end of the write's channel, and is lost. */
START_TEST(cancelled_write__is_reported_when_the_server_has_fenced)
{
	rmem_lease *lease = open_case(_i);
	uint64_t start_ms;

	fake.automatic = false;
	submit_write(lease);
	proxy.hold = WIRE_TYPE_close_channel;
	ck_assert_int_eq(rmem_cancel(stage.queue, NULL), 1);
	AWAIT(rmem_poll(stage.queue, &(struct rmem_completion){ 0 }, 1) == 0 &&
	      proxy.seen[WIRE_TYPE_close_channel] == 1);
	start_ms = clock_now_ms();
	cases[_i].lose();
	ck_assert_int_eq(wait_status(), -ECANCELED);
	ck_assert_uint_ge(clock_now_ms() - start_ms, info().fence_ms);
}
END_TEST

/* What the server said is final needs no wait. */
START_TEST(write__is_reported_when_the_server_ends_the_session)
{
	rmem_lease *lease;

	/* longer than the case may take */
	set_heartbeat(100000, 300000);
	open_with(RMEM_NO_RESUME);
	lease = alloc(1000, NULL);
	queue_open(1);
	fake.automatic = false;
	submit_write(lease);
	proxy_event(WIRE_TYPE_closing, 0, WIRE_REASON_REVOKED);
	ck_assert_int_eq(wait_status(), -ESTALE);
}
END_TEST

START_TEST(channel__is_replaced)
{
	rmem_lease *lease = open_case(0);

	fake_peer_gone(fake_latest());
	ck_assert_int_eq(queue_write(lease), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_hello], 1);
}
END_TEST

int main(void)
{
	TCase *tc = core_case("no resume");
	int n = (int)(sizeof(cases) / sizeof(cases[0]));

	tcase_add_loop_test(tc, session__ends_when_it_loses_its_server, 0, n);
	/* while the answers to its requests come */
	tcase_add_loop_test(tc, cancelled_write__is_reported_when_the_server_has_fenced,
			    0, 2);
	tcase_add_test(tc, write__is_reported_when_the_server_ends_the_session);
	tcase_add_test(tc, channel__is_replaced);
	return unit_main();
}
