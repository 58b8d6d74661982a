/* SPDX-License-Identifier: BSD-3-Clause */
/* What the client does when the device or the kernel fails it midway, or does not give back
 * what it should. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/err.h"
#include "fabric/fabric.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-fake.h"
#include "unit/fabric/wr.h"

#define CLIENT (&fabric_verbs_client)
#define DEPTH 8
#define WAIT_MS 10000

static struct fabric_domain *domain;
static struct fabric_local_mr *region;
static struct fabric_cq *cq;
static struct fabric_channel *channel;
static char memory[4096];

static int connect_one(void)
{
	const struct fabric_channel_params params = {
		.depth = DEPTH,
		.timeout_ms = WAIT_MS,
	};

	return wr_connect(CLIENT, cq, &params, &channel);
}

/* All but a channel. */
static void setup(void)
{
	static const struct fabric_endpoint endpoint = {
		.kind = FABRIC_VERBS,
		.address = { .family = 4, .bytes = { 10, 1, 0, 1 }, .port = 7000 },
	};

	ck_assert_int_eq(CLIENT->domain_open(&endpoint, NULL, WAIT_MS, &domain), 0);
	ck_assert_int_eq(CLIENT->reg_mr(domain, memory, sizeof(memory), &region), 0);
	ck_assert_int_eq(CLIENT->cq_create(domain, DEPTH, &cq), 0);
}

static void teardown(void)
{
	CLIENT->channel_free(channel);
	CLIENT->cq_free(cq);
	CLIENT->dereg_mr(region);
	CLIENT->domain_close(domain);
	ck_assert_uint_eq(fake_live(), 0);
}

static int post_one(uint64_t cookie)
{
	const struct wr wr = {
		.opcode = FABRIC_READ,
		.bytes = 100,
		.addr = memory,
		.region = region,
		.remote_addr = 0x1000,
		.cookie = cookie,
	};

	return wr_post(CLIENT, channel, &wr, 1);
}

static void expect_flushed(uint64_t cookie)
{
	struct wc wc;

	ck_assert_int_eq(wr_poll(CLIENT, cq, &wc, 1), 1);
	ck_assert_uint_eq(wc.cookie, cookie);
	ck_assert_int_eq(wc.status, -ECONNRESET);
	ck_assert_int_eq(wr_poll(CLIENT, cq, &wc, 1), 0);
}

START_TEST(connect__without_a_queue_pair_gives_back_its_share)
{
	setup();
	fake.qp_error = ENOMEM;
	ck_assert_int_eq(connect_one(), -ENOMEM);
	ck_assert_ptr_nonnull(strstr(err_text(), "fake0: rdma_create_qp"));
	fake.qp_error = 0;
	ck_assert_int_eq(connect_one(), 0);
	teardown();
}
END_TEST

START_TEST(connect__that_is_told_nothing_gives_back_its_share)
{
	setup();
	fake.cm_error = EIO;
	ck_assert_int_eq(connect_one(), -EIO);
	ck_assert_ptr_nonnull(strstr(err_text(), "rdma_get_cm_event"));
	fake.cm_error = 0;
	ck_assert_int_eq(connect_one(), 0);
	teardown();
}
END_TEST

START_TEST(alive__without_events_takes_the_peer_for_gone)
{
	fake.iwarp = _i;
	setup();
	ck_assert_int_eq(connect_one(), 0);
	ck_assert_int_eq(post_one(1), 1);
	fake.cm_error = EIO;
	ck_assert(!CLIENT->alive(channel));
	fake.cm_error = 0;
	expect_flushed(1);
	ck_assert_int_eq(post_one(2), -ECONNRESET);
	teardown();
}
END_TEST

/* iWARP's empty writes are nobody's, so that one that is refused is no error. */
START_TEST(poke__that_is_refused_is_tried_again)
{
	struct pollfd fd = { .events = POLLIN };
	struct fake_send sends[FAKE_SENDS];

	fake.iwarp = true;
	setup();
	ck_assert_int_eq(connect_one(), 0);
	fd.fd = CLIENT->alive_fd(channel);
	fake_post_limit(0);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(poll(&fd, 1, WAIT_MS), 1);
		ck_assert(CLIENT->alive(channel));
		ck_assert_uint_eq(fake_sends(sends), i);
	}
	teardown();
}
END_TEST

/* On iWARP what was posted is given up at once; else the owner does so after a while. */
START_TEST(abort__that_the_device_refuses_ends_the_channel)
{
	struct wc wc;

	fake.iwarp = _i;
	setup();
	ck_assert_int_eq(connect_one(), 0);
	ck_assert_int_eq(post_one(1), 1);
	fake.modify_error = EIO;
	CLIENT->abort(channel);
	ck_assert_int_eq(post_one(2), -ECONNRESET);
	if (_i)
		expect_flushed(1);
	else
		ck_assert_int_eq(wr_poll(CLIENT, cq, &wc, 1), 0);
	teardown();
}
END_TEST

/* Each teardown goes on with the rest. */
START_TEST(teardown__is_complete_whatever_stays)
{
	setup();
	ck_assert_int_eq(connect_one(), 0);
	ck_assert_int_eq(post_one(1), 1);
	fake.modify_error = _i == 0 ? EIO : 0;
	fake.destroy_qp_error = _i == 1 ? EIO : 0;
	fake.destroy_id_error = _i == 2 ? EIO : 0;
	fake.dereg_error = _i == 3 ? EIO : 0;
	fake.dealloc_error = _i == 4 ? EIO : 0;
	teardown();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("verbs-client-failures");
	TCase *tcase = tcase_create("client");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, connect__without_a_queue_pair_gives_back_its_share);
	tcase_add_test(tcase, connect__that_is_told_nothing_gives_back_its_share);
	tcase_add_loop_test(tcase, alive__without_events_takes_the_peer_for_gone, 0, 2);
	tcase_add_test(tcase, poke__that_is_refused_is_tried_again);
	tcase_add_loop_test(tcase, abort__that_the_device_refuses_ends_the_channel, 0,
			    2);
	tcase_add_loop_test(tcase, teardown__is_complete_whatever_stays, 0, 5);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
