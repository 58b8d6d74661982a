/* SPDX-License-Identifier: BSD-3-Clause */
/* A client's devices, domains, connections, and how they end. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fabric/verbs/common/cm.h"
#include "fabric/verbs/common/iwarp.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-client-stage.h"

/* ---- devices and domains ---- */

START_TEST(available__needs_an_active_port)
{
	ck_assert_int_eq(CLIENT->available(), 0);
	fake.port_down[0] = true;
	ck_assert_int_eq(CLIENT->available(), 0);
	fake.port_down[1] = true;
	ck_assert_int_eq(CLIENT->available(), -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), "fake0, fake1"));
	fake.no_devices = true;
	ck_assert_int_eq(CLIENT->available(), -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), "no RDMA device"));
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

START_TEST(domain_open__finds_the_device_or_says_why_not)
{
	struct fabric_endpoint elsewhere = endpoint;

	elsewhere.address.bytes[1] = 2;
	ck_assert_int_eq(CLIENT->domain_open(&elsewhere, NULL, 10000, &domain), 0);
	ck_assert_str_eq(CLIENT->domain_device(domain), "fake1");
	CLIENT->domain_close(domain);
	elsewhere.address.bytes[1] = 9;
	ck_assert_int_eq(CLIENT->domain_open(&elsewhere, NULL, 10000, &domain),
			 -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), "10.9.0.1:7000"));
	fake.resolves_late = true;
	ck_assert_int_eq(CLIENT->domain_open(&endpoint, NULL, 5, &domain), -ETIMEDOUT);
	fake.never_resolves = true;
	ck_assert_int_eq(CLIENT->domain_open(&endpoint, NULL, 5, &domain), -ETIMEDOUT);
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

START_TEST(region__of_memory_for_reading_only_is_a_source)
{
	fake.reg_error = EFAULT;
	ck_assert_int_eq(CLIENT->domain_open(&endpoint, NULL, 10000, &domain), 0);
	ck_assert_int_eq(CLIENT->reg_mr(domain, memory, sizeof(memory), &region), 0);
	ck_assert_uint_eq(fake_access(), 0);
	CLIENT->dereg_mr(region);
	fake.reg_error = ENOMEM;
	ck_assert_int_eq(CLIENT->reg_mr(domain, memory, sizeof(memory), &region),
			 -ENOMEM);
	ck_assert_ptr_nonnull(strstr(err_text(), "fake0"));
	CLIENT->domain_close(domain);
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

START_TEST(region__on_iwarp_may_be_written_remotely)
{
	fake.iwarp = _i;
	setup_cq();
	ck_assert_uint_eq(fake_access(),
			  IBV_ACCESS_LOCAL_WRITE |
				  (_i ? (unsigned)IBV_ACCESS_REMOTE_WRITE : 0));
	teardown_cq();
}
END_TEST

START_TEST(siw__has_its_offset_covered_once)
{
	fake.iwarp = true;
	fake.vendor = VERBS_SIW_VENDOR;
	fake.max_cqe = 100000;
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(CLIENT->domain_open(&endpoint, NULL, 10000, &domain),
				 0);
		CLIENT->domain_close(domain);
		ck_assert_uint_eq(fake_live(), 1);
	}
	/* whose removal does not wait for that */
	setup();
	fake_event(fake_last_id(), RDMA_CM_EVENT_DEVICE_REMOVAL);
	ck_assert(!CLIENT->alive(channel));
	ck_assert(CLIENT->domain_removed(domain));
	teardown();
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

START_TEST(cq_create__keeps_to_the_device)
{
	setup_cq();
	CLIENT->cq_free(cq);
	ck_assert_int_eq(CLIENT->cq_create(domain, 1001, &cq), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err_text(), "1 to 1000"));
	ck_assert_int_eq(CLIENT->cq_create(domain, 0, &cq), -EINVAL);
	ck_assert_int_eq(CLIENT->cq_create(domain, 1000, &cq), 0);
	/* one queue pair takes less */
	ck_assert_int_eq(connect_one(129, &channel), -EINVAL);
	ck_assert_int_eq(connect_one(1001, &channel), -EINVAL);
	teardown_cq();
}
END_TEST

/* ---- connecting ---- */

START_TEST(connect__presents_the_hello_and_bounds_retries)
{
	struct rdma_conn_param param;

	fake.by_hand = false;
	setup();
	param = fake_param();
	ck_assert_uint_ge(param.private_data_len, FABRIC_HELLO_BYTES);
	ck_assert_uint_eq(param.retry_count, 6);
	ck_assert_uint_eq(param.rnr_retry_count, 6);
	ck_assert_uint_eq(param.responder_resources, 0);
	ck_assert_uint_eq(param.initiator_depth, 16);
	teardown();
}
END_TEST

static const struct {
	enum rdma_cm_event_type event;
	int status;
	uint32_t word;
	int err;
} answers[] = {
	{ RDMA_CM_EVENT_REJECTED, 28, VERBS_REFUSED, -EACCES },
	{ RDMA_CM_EVENT_REJECTED, -ECONNREFUSED, VERBS_REFUSED, -EACCES },
	{ RDMA_CM_EVENT_REJECTED, 28, 0, -EACCES },
	{ RDMA_CM_EVENT_REJECTED, 8, 0, -ECONNREFUSED },
	{ RDMA_CM_EVENT_REJECTED, -ECONNREFUSED, 0, -ECONNREFUSED },
	{ RDMA_CM_EVENT_REJECTED, 3, 0, -ECONNREFUSED },
	{ RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, 0, -ETIMEDOUT },
	{ RDMA_CM_EVENT_CONNECT_ERROR, -ECONNRESET, 0, -ECONNRESET },
	{ RDMA_CM_EVENT_CONNECT_ERROR, 11, 0, -ECONNRESET },
	{ RDMA_CM_EVENT_DEVICE_REMOVAL, 0, 0, -ENODEV },
};

START_TEST(connect__tells_why_it_failed)
{
	setup_cq();
	fake.answer = answers[_i].event;
	fake.answer_status = answers[_i].status;
	fake.answer_word = htonl(answers[_i].word);
	ck_assert_int_eq(connect_one(DEPTH, &channel), answers[_i].err);
	ck_assert_str_ne(err_text(), "");
	/* nobody else hears of it, as the way was the domain's */
	ck_assert_int_eq(CLIENT->domain_removed(domain),
			 answers[_i].event == RDMA_CM_EVENT_DEVICE_REMOVAL);
	/* and gives back its share of the queue */
	fake.answer = RDMA_CM_EVENT_ESTABLISHED;
	ck_assert_int_eq(connect_one(2 * DEPTH, &channel), 0);
	teardown();
}
END_TEST

START_TEST(connect__takes_another_port_where_one_is_taken)
{
	fake.iwarp = true;
	setup_cq();
	fake.ports_taken = 2;
	/* beginning with the domain's way */
	ck_assert_int_eq(connect_one(DEPTH, &channel), 0);
	CLIENT->channel_free(channel);
	fake.ports_taken = 1;
	ck_assert_int_eq(connect_one(DEPTH, &channel), 0);
	CLIENT->channel_free(channel);
	fake.ports_taken = 1000;
	ck_assert_int_eq(connect_one(DEPTH, &channel), -EADDRINUSE);
	ck_assert_ptr_nonnull(strstr(err_text(), "10.1.0.1:7000: each of 16 "));
	ck_assert_uint_ge(fake.ports_taken, 1000 - 100);
	fake.ports_taken = 0;
	ck_assert_int_eq(connect_one(DEPTH, &channel), 0);
	teardown();
}
END_TEST

START_TEST(connect__ends_in_time)
{
	const struct fabric_channel_params params = { .depth = 1, .timeout_ms = 20 };

	setup_cq();
	fake.by_hand = true;
	ck_assert_int_eq(wr_connect(CLIENT, cq, &params, &channel), -ETIMEDOUT);
	teardown_cq();
}
END_TEST

START_TEST(connect__shares_the_queue)
{
	struct fabric_channel *second = NULL, *third = NULL;

	fake.iwarp = _i;
	setup();
	ck_assert_int_eq(connect_one(DEPTH + 1, &second), -EINVAL);
	ck_assert_int_eq(connect_one(DEPTH, &second), 0);
	ck_assert_int_eq(connect_one(1, &third), -EINVAL);
	CLIENT->channel_free(second);
	ck_assert_int_eq(connect_one(DEPTH, &second), 0);
	CLIENT->channel_free(second);
	teardown();
}
END_TEST

/* ---- the ends of channels ---- */

START_TEST(channel_free__takes_its_completions_and_no_others)
{
	struct fabric_channel *first;

	fake.iwarp = _i;
	setup();
	/* some done, some done without an entry yet, some under way */
	ck_assert_int_eq(post(FABRIC_READ, 0, 20), 20);
	fake_complete(18);
	first = channel;
	ck_assert_int_eq(connect_one(DEPTH, &channel), 0);
	ck_assert_int_eq(post(FABRIC_READ, 100, 3), 3);
	fake_complete(3);
	CLIENT->channel_free(first);
	expect(100, 3, 0);
	expect_nothing();
	/* and the other one goes on */
	ck_assert_int_eq(post(FABRIC_READ, 200, DEPTH), DEPTH);
	fake_complete(DEPTH);
	expect(200, DEPTH, 0);
	teardown();
}
END_TEST

START_TEST(alive__flushes_once_the_peer_is_gone)
{
	static const enum rdma_cm_event_type events[] = {
		RDMA_CM_EVENT_DISCONNECTED,
		RDMA_CM_EVENT_DEVICE_REMOVAL,
		/* the server ended it before it heard that it was established */
		RDMA_CM_EVENT_REJECTED,
	};
	struct pollfd fd = { .events = POLLIN };

	setup();
	fd.fd = CLIENT->alive_fd(channel);
	ck_assert_int_eq(poll(&fd, 1, 0), 0);
	ck_assert(CLIENT->alive(channel));
	ck_assert_int_eq(post(FABRIC_READ, 0, 2), 2);
	fake_event(fake_last_id(), events[_i]);
	ck_assert_int_eq(poll(&fd, 1, 10000), 1);
	ck_assert(!CLIENT->alive(channel));
	ck_assert_uint_eq(fake_disconnects(), 1);
	expect(0, 2, -ECONNRESET);
	ck_assert_int_eq(poll(&fd, 1, 0), 0);
	ck_assert(!CLIENT->alive(channel));
	teardown();
}
END_TEST

/* The way of the first channel is the domain's own. */
START_TEST(domain_gone__is_told_of_a_removal_behind_the_channels_end)
{
	setup();
	fake_event(fake_last_id(), RDMA_CM_EVENT_DISCONNECTED);
	ck_assert(!CLIENT->alive(channel));
	ck_assert(!CLIENT->domain_removed(domain));
	fake_event(fake_last_id(), RDMA_CM_EVENT_DEVICE_REMOVAL);
	ck_assert(CLIENT->domain_removed(domain));
	teardown();
}
END_TEST

START_TEST(cq_arm__wakes_and_consumes)
{
	struct pollfd fd = { .events = POLLIN };

	setup();
	fd.fd = CLIENT->cq_fd(cq);
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), 1);
	ck_assert_int_eq(CLIENT->cq_arm(cq), 0);
	ck_assert_int_eq(poll(&fd, 1, 0), 0);
	fake_complete(1);
	ck_assert_int_eq(poll(&fd, 1, 10000), 1);
	ck_assert_int_eq(CLIENT->cq_arm(cq), 0);
	ck_assert_int_eq(poll(&fd, 1, 0), 0);
	expect(0, 1, 0);
	teardown();
}
END_TEST

/* ---- every call that can fail, in turn ---- */

static void life(void)
{
	struct wc wc;

	(void)CLIENT->available();
	if (CLIENT->domain_open(&endpoint, NULL, 10000, &domain)) {
		ck_assert_str_ne(err_text(), "");
		return;
	}
	if (CLIENT->reg_mr(domain, memory, sizeof(memory), &region))
		goto domain;
	if (CLIENT->cq_create(domain, DEPTH, &cq))
		goto region;
	if (connect_one(DEPTH, &channel))
		goto cq;
	if (!CLIENT->cq_arm(cq) && post(FABRIC_WRITE, 0, 1) == 1)
		ck_assert_int_eq(wr_poll(CLIENT, cq, &wc, 1), 0);
	CLIENT->channel_free(channel);
cq:
	CLIENT->cq_free(cq);
region:
	CLIENT->dereg_mr(region);
domain:
	CLIENT->domain_close(domain);
}

START_TEST(sweep__no_failure_leaks)
{
	unsigned n = 0;

	fake.iwarp = _i & 1;
	fake.no_errno = _i & 2;
	do {
		fake_fail_at(++n);
		life();
		ck_assert_msg(fake_live() == 0, "%u left after %s failed as call %u",
			      fake_live(), fake_failed_call(), n);
	} while (fake_failed());
	ck_assert_uint_gt(n, 15);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("verbs-client");
	TCase *tcase = tcase_create("client");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, available__needs_an_active_port);
	tcase_add_test(tcase, domain_open__finds_the_device_or_says_why_not);
	tcase_add_test(tcase, region__of_memory_for_reading_only_is_a_source);
	tcase_add_loop_test(tcase, region__on_iwarp_may_be_written_remotely, 0, 2);
	tcase_add_test(tcase, siw__has_its_offset_covered_once);
	tcase_add_test(tcase, cq_create__keeps_to_the_device);
	tcase_add_test(tcase, connect__presents_the_hello_and_bounds_retries);
	tcase_add_loop_test(tcase, connect__tells_why_it_failed, 0, COUNT(answers));
	tcase_add_test(tcase, connect__takes_another_port_where_one_is_taken);
	tcase_add_test(tcase, connect__ends_in_time);
	tcase_add_loop_test(tcase, connect__shares_the_queue, 0, 2);
	tcase_add_loop_test(tcase, channel_free__takes_its_completions_and_no_others, 0,
			    2);
	tcase_add_loop_test(tcase, alive__flushes_once_the_peer_is_gone, 0, 3);
	tcase_add_test(tcase,
		       domain_gone__is_told_of_a_removal_behind_the_channels_end);
	tcase_add_test(tcase, cq_arm__wakes_and_consumes);
	tcase_add_loop_test(tcase, sweep__no_failure_leaks, 0, 4);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
