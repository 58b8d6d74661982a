/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs client: its devices, domains and connections, and how they end. */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
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
	verbs_fake.port_down[0] = true;
	ck_assert_int_eq(CLIENT->available(), 0);
	verbs_fake.port_down[1] = true;
	ck_assert_int_eq(CLIENT->available(), -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), "fake0, fake1"));
	verbs_fake.no_devices = true;
	ck_assert_int_eq(CLIENT->available(), -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), "no RDMA device"));
}
END_TEST

START_TEST(domain_open__finds_the_device_or_says_why)
{
	struct fabric_endpoint other_endpoint = endpoint;

	other_endpoint.address.bytes[1] = 2;
	ck_assert_int_eq(CLIENT->domain_open(&other_endpoint, NULL, WAIT_MS, &domain),
			 0);
	ck_assert_str_eq(CLIENT->domain_device(domain), "fake1");
	close_all();
	other_endpoint.address.bytes[1] = 9;
	ck_assert_int_eq(CLIENT->domain_open(&other_endpoint, NULL, WAIT_MS, &domain),
			 -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), "10.9.0.1:7000"));
	verbs_fake.resolves_late = true;
	ck_assert_int_eq(CLIENT->domain_open(&endpoint, NULL, 5, &domain), -ETIMEDOUT);
	verbs_fake.never_resolves = true;
	ck_assert_int_eq(CLIENT->domain_open(&endpoint, NULL, 5, &domain), -ETIMEDOUT);
}
END_TEST

START_TEST(reg_mr__of_read_only_memory_succeeds)
{
	verbs_fake.reg_error = EFAULT;
	ck_assert_int_eq(open_domain(), 0);
	ck_assert_int_eq(CLIENT->reg_mr(domain, memory, sizeof(memory), &region), 0);
	ck_assert_uint_eq(fake_access(), 0);
	CLIENT->dereg_mr(region);
	region = NULL;
	verbs_fake.reg_error = ENOMEM;
	ck_assert_int_eq(CLIENT->reg_mr(domain, memory, sizeof(memory), &region),
			 -ENOMEM);
	ck_assert_ptr_nonnull(strstr(err_text(), "fake0"));
}
END_TEST

/* The fake does not look at the memory. */
START_TEST(reg_mr__is_limited_by_the_device)
{
	static const char text[] =
		"RDMA device fake0 registers at most 1 GiB at once, and the buffer has "
		"2 GiB: make several buffers";

	ck_assert_int_eq(open_domain(), 0);
	ck_assert_int_eq(CLIENT->reg_mr(domain, memory, (size_t)2 << 30, &region),
			 -EINVAL);
	ck_assert_str_eq(err_text(), text);
	ck_assert_int_eq(
		CLIENT->reg_dmabuf_mr(domain, 77, 0, memory, (size_t)2 << 30, &region),
		-EINVAL);
	ck_assert_str_eq(err_text(), text);
	ck_assert_int_eq(CLIENT->reg_mr(domain, memory, (size_t)1 << 30, &region), 0);
	CLIENT->dereg_mr(region);
	region = NULL;
}
END_TEST

START_TEST(reg_mr__is_tried_where_the_device_names_no_limit)
{
	verbs_fake.max_mr_bytes = 0;
	ck_assert_int_eq(open_domain(), 0);
	ck_assert_msg(CLIENT->reg_mr(domain, memory, (size_t)2 << 30, &region) == 0,
		      "%s", err_text());
}
END_TEST

START_TEST(reg_mr__allows_remote_writes_on_iwarp)
{
	verbs_fake.iwarp = _i;
	setup_cq();
	ck_assert_uint_eq(fake_access(),
			  IBV_ACCESS_LOCAL_WRITE |
				  (_i ? (unsigned)IBV_ACCESS_REMOTE_WRITE : 0));
}
END_TEST

/* The fake does not look at the descriptor. */
static int dmabuf_reg(void)
{
	return CLIENT->reg_dmabuf_mr(domain, 77, 8192, memory, sizeof(memory), &region);
}

START_TEST(reg_dmabuf_mr__passes_offset_and_addresses)
{
	struct fake_dmabuf dmabuf;

	verbs_fake.iwarp = _i;
	ck_assert_int_eq(open_domain(), 0);
	ck_assert_int_eq(dmabuf_reg(), 0);
	dmabuf = fake_dmabuf();
	ck_assert_int_eq(dmabuf.fd, 77);
	ck_assert_uint_eq(dmabuf.offset, 8192);
	ck_assert_uint_eq(dmabuf.iova, (uintptr_t)memory);
	ck_assert_uint_eq(dmabuf.bytes, sizeof(memory));
	ck_assert_uint_eq(fake_access(),
			  IBV_ACCESS_LOCAL_WRITE |
				  (_i ? (unsigned)IBV_ACCESS_REMOTE_WRITE : 0));
}
END_TEST

START_TEST(reg_dmabuf_mr__that_fails_names_the_device)
{
	ck_assert_int_eq(open_domain(), 0);
	verbs_fake.dmabuf_error = EOPNOTSUPP;
	ck_assert_int_eq(dmabuf_reg(), -ENOTSUP);
	ck_assert_ptr_nonnull(
		strstr(err_text(), "RDMA device fake0 cannot register dma-bufs"));
	verbs_fake.dmabuf_error = ENOMEM;
	ck_assert_int_eq(dmabuf_reg(), -ENOMEM);
	ck_assert_ptr_nonnull(
		strstr(err_text(), "RDMA device fake0: ibv_reg_dmabuf_mr of 4 KiB"));
	ck_assert_ptr_null(region);
}
END_TEST

START_TEST(siw__offset_is_covered_once)
{
	verbs_fake.iwarp = true;
	verbs_fake.vendor = VERBS_SIW_VENDOR;
	verbs_fake.max_cqe = 100000;
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(open_domain(), 0);
		close_all();
		ck_assert_uint_eq(fake_live(), 1);
	}
	/* that domain does not delay the removal of the device */
	setup();
	fake_event(fake_last_id(), RDMA_CM_EVENT_DEVICE_REMOVAL);
	ck_assert(!CLIENT->alive(channel));
	ck_assert(CLIENT->domain_removed(domain));
}
END_TEST

START_TEST(cq_create__keeps_to_the_limits_of_the_device)
{
	setup_cq();
	CLIENT->cq_free(cq);
	ck_assert_int_eq(CLIENT->cq_create(domain, 1001, &cq), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err_text(), "1 to 1000"));
	ck_assert_int_eq(CLIENT->cq_create(domain, 0, &cq), -EINVAL);
	ck_assert_int_eq(CLIENT->cq_create(domain, 1000, &cq), 0);
	/* the limit of one queue pair is lower */
	ck_assert_int_eq(connect_one(129, &channel), -EINVAL);
	ck_assert_int_eq(connect_one(1001, &channel), -EINVAL);
}
END_TEST

/* ---- connecting ---- */

START_TEST(connect__sends_the_hello_and_limits_retries)
{
	struct rdma_conn_param param;

	verbs_fake.no_answer = false;
	setup();
	param = fake_param();
	ck_assert_uint_ge(param.private_data_len, FABRIC_HELLO_BYTES);
	ck_assert_uint_eq(param.retry_count, 6);
	ck_assert_uint_eq(param.rnr_retry_count, 6);
	ck_assert_uint_eq(param.responder_resources, 0);
	ck_assert_uint_eq(param.initiator_depth, 16);
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

START_TEST(connect__maps_the_failure_to_an_errno)
{
	setup_cq();
	verbs_fake.answer = answers[_i].event;
	verbs_fake.answer_status = answers[_i].status;
	verbs_fake.answer_word = htonl(answers[_i].word);
	ck_assert_int_eq(connect_one(DEPTH, &channel), answers[_i].err);
	ck_assert_str_ne(err_text(), "");
	/* the id is the domain's, so a removal is reported for the domain */
	ck_assert_int_eq(CLIENT->domain_removed(domain),
			 answers[_i].event == RDMA_CM_EVENT_DEVICE_REMOVAL);
	/* the depth is available again */
	verbs_fake.answer = RDMA_CM_EVENT_ESTABLISHED;
	ck_assert_int_eq(connect_one(2 * DEPTH, &channel), 0);
}
END_TEST

START_TEST(connect__tries_other_ports_when_one_is_in_use)
{
	verbs_fake.iwarp = true;
	setup_cq();
	verbs_fake.ports_in_use = 2;
	/* the first id is the domain's */
	ck_assert_int_eq(connect_one(DEPTH, &channel), 0);
	channel_close();
	verbs_fake.ports_in_use = 1;
	ck_assert_int_eq(connect_one(DEPTH, &channel), 0);
	channel_close();
	verbs_fake.ports_in_use = 1000;
	ck_assert_int_eq(connect_one(DEPTH, &channel), -EADDRINUSE);
	ck_assert_ptr_nonnull(strstr(err_text(), "10.1.0.1:7000: each of 16 "));
	ck_assert_uint_ge(verbs_fake.ports_in_use, 1000 - 100);
	verbs_fake.ports_in_use = 0;
	ck_assert_int_eq(connect_one(DEPTH, &channel), 0);
}
END_TEST

START_TEST(connect__times_out)
{
	const struct fabric_channel_params brief = { .depth = 1, .timeout_ms = 20 };

	setup_cq();
	verbs_fake.no_answer = true;
	ck_assert_int_eq(wr_connect(CLIENT, cq, &brief, &channel), -ETIMEDOUT);
}
END_TEST

static atomic_bool cancelled;

static void *run_cancel(void *arg)
{
	(void)arg;
	(void)poll(NULL, 0, 20);
	cancelled = true;
	return NULL;
}

/* Another thread cancels the wait, which nothing else ends. */
START_TEST(connect__is_cancelled)
{
	const struct fabric_channel_params patient = { .depth = 1,
						       .timeout_ms = INT_MAX,
						       .cancelled = &cancelled };
	pthread_t thread;

	setup_cq();
	verbs_fake.no_answer = true;
	ck_assert_int_eq(pthread_create(&thread, NULL, run_cancel, NULL), 0);
	ck_assert_int_eq(wr_connect(CLIENT, cq, &patient, &channel), -ECANCELED);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

START_TEST(domain_open__is_cancelled)
{
	cancelled = true;
	params.cancelled = &cancelled;
	ck_assert_int_eq(open_domain(), -ECANCELED);
	params.cancelled = NULL;
}
END_TEST

START_TEST(connect__keeps_to_the_depth_of_the_cq)
{
	struct fabric_channel *second = NULL, *third = NULL;

	verbs_fake.iwarp = _i;
	setup();
	ck_assert_int_eq(connect_one(DEPTH + 1, &second), -EINVAL);
	ck_assert_int_eq(connect_one(DEPTH, &second), 0);
	ck_assert_int_eq(connect_one(1, &third), -EINVAL);
	CLIENT->channel_free(second);
	ck_assert_int_eq(connect_one(DEPTH, &second), 0);
	CLIENT->channel_free(second);
}
END_TEST

/* ---- how channels end ---- */

START_TEST(channel_free__drops_only_its_own_completions)
{
	struct fabric_channel *first;

	verbs_fake.iwarp = _i;
	setup();
	/* some completed, some done without a completion, some outstanding */
	ck_assert_int_eq(post(FABRIC_READ, 0, 20), 20);
	fake_complete_sends(18);
	first = channel;
	ck_assert_int_eq(connect_one(DEPTH, &channel), 0);
	ck_assert_int_eq(post(FABRIC_READ, 100, 3), 3);
	fake_complete_sends(3);
	CLIENT->channel_free(first);
	expect_only(100, 3, 0);
	/* the other channel still works */
	ck_assert_int_eq(post(FABRIC_READ, 200, DEPTH), DEPTH);
	fake_complete_sends(DEPTH);
	expect(200, DEPTH, 0);
}
END_TEST

START_TEST(alive__flushes_when_the_peer_ends)
{
	static const enum rdma_cm_event_type events[] = {
		RDMA_CM_EVENT_DISCONNECTED,
		RDMA_CM_EVENT_DEVICE_REMOVAL,
		/* the server ended it before it received the client's confirmation */
		RDMA_CM_EVENT_REJECTED,
	};

	setup();
	ck_assert(!readable(CLIENT->alive_fd(channel), 0));
	ck_assert(CLIENT->alive(channel));
	ck_assert_int_eq(post(FABRIC_READ, 0, 2), 2);
	fake_event(fake_last_id(), events[_i]);
	ck_assert(readable(CLIENT->alive_fd(channel), WAIT_MS));
	ck_assert(!CLIENT->alive(channel));
	ck_assert_uint_eq(fake_disconnects(), 1);
	expect(0, 2, -ECONNRESET);
	ck_assert(!readable(CLIENT->alive_fd(channel), 0));
	ck_assert(!CLIENT->alive(channel));
}
END_TEST

/* The first channel has the domain's id. */
START_TEST(domain_removed__is_seen_after_the_channel_ended)
{
	setup();
	fake_event(fake_last_id(), RDMA_CM_EVENT_DISCONNECTED);
	ck_assert(!CLIENT->alive(channel));
	ck_assert(!CLIENT->domain_removed(domain));
	fake_event(fake_last_id(), RDMA_CM_EVENT_DEVICE_REMOVAL);
	ck_assert(CLIENT->domain_removed(domain));
}
END_TEST

START_TEST(cq_arm__signals_and_resets_the_descriptor)
{
	setup();
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), 1);
	ck_assert_int_eq(CLIENT->cq_arm(cq), 0);
	ck_assert(!readable(CLIENT->cq_fd(cq), 0));
	fake_complete_sends(1);
	ck_assert(readable(CLIENT->cq_fd(cq), WAIT_MS));
	ck_assert_int_eq(CLIENT->cq_arm(cq), 0);
	ck_assert(!readable(CLIENT->cq_fd(cq), 0));
	expect(0, 1, 0);
}
END_TEST

/* ---- each call that can fail ---- */

/* Open all objects, post an operation, close. */
static void run_client(void)
{
	struct wc wc;

	(void)CLIENT->available();
	if (open_domain())
		ck_assert_str_ne(err_text(), "");
	else if (!CLIENT->reg_mr(domain, memory, sizeof(memory), &region) &&
		 !CLIENT->cq_create(domain, DEPTH, &cq) &&
		 !connect_one(DEPTH, &channel) && !CLIENT->cq_arm(cq) &&
		 post(FABRIC_WRITE, 0, 1) == 1)
		ck_assert_int_eq(wr_poll(CLIENT, cq, &wc, 1), 0);
	close_all();
}

START_TEST(sweep__no_failure_leaks)
{
	verbs_fake.iwarp = _i & 1;
	verbs_fake.fail_errno = _i & 2 ? 0 : ENOMEM;
	ck_assert_uint_gt(fake_fail_each(run_client), 15);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("client", NULL, teardown);

	tcase_add_test(tcase, available__needs_an_active_port);
	tcase_add_test(tcase, domain_open__finds_the_device_or_says_why);
	tcase_add_test(tcase, reg_mr__of_read_only_memory_succeeds);
	tcase_add_test(tcase, reg_mr__is_limited_by_the_device);
	tcase_add_test(tcase, reg_mr__is_tried_where_the_device_names_no_limit);
	tcase_add_loop_test(tcase, reg_mr__allows_remote_writes_on_iwarp, 0, 2);
	tcase_add_loop_test(tcase, reg_dmabuf_mr__passes_offset_and_addresses, 0, 2);
	tcase_add_test(tcase, reg_dmabuf_mr__that_fails_names_the_device);
	tcase_add_test(tcase, siw__offset_is_covered_once);
	tcase_add_test(tcase, cq_create__keeps_to_the_limits_of_the_device);
	tcase_add_test(tcase, connect__sends_the_hello_and_limits_retries);
	tcase_add_loop_test(tcase, connect__maps_the_failure_to_an_errno, 0,
			    COUNT(answers));
	tcase_add_test(tcase, connect__tries_other_ports_when_one_is_in_use);
	tcase_add_test(tcase, connect__times_out);
	tcase_add_test(tcase, connect__is_cancelled);
	tcase_add_test(tcase, domain_open__is_cancelled);
	tcase_add_loop_test(tcase, connect__keeps_to_the_depth_of_the_cq, 0, 2);
	tcase_add_loop_test(tcase, channel_free__drops_only_its_own_completions, 0, 2);
	tcase_add_loop_test(tcase, alive__flushes_when_the_peer_ends, 0, 3);
	tcase_add_test(tcase, domain_removed__is_seen_after_the_channel_ended);
	tcase_add_test(tcase, cq_arm__signals_and_resets_the_descriptor);
	tcase_add_loop_test(tcase, sweep__no_failure_leaks, 0, 4);
	return unit_main();
}
