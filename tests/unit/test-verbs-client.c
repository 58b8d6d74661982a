/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fabric/fabric.h"
#include "fabric/verbs/cm.h"
#include "unit.h"
#include "verbs-fake.h"
#include "wr.h"

#define CLIENT (&fabric_verbs_client)
#define DEPTH 40

static struct fabric_endpoint endpoint = {
	.kind = FABRIC_VERBS,
	.address = { .family = 4, .bytes = { 10, 1, 0, 1 }, .port = 7000 },
	.device = "theirs0",
};
static struct fabric_domain *domain;
static struct fabric_region *region;
static struct fabric_cq *cq;
static struct fabric_channel *channel;
static char memory[4096];

static int connect_one(unsigned depth, struct fabric_channel **ret_channel)
{
	const struct fabric_channel_params params = {
		.hello = { .session = 7, .channel = 3, .token = { 1, 2, 3 } },
		.depth = depth,
		.timeout_ms = 10000,
	};

	return wr_connect(CLIENT, cq, &params, ret_channel);
}

static void setup_cq(void)
{
	ck_assert_int_eq(CLIENT->domain_open(&endpoint, NULL, 10000, &domain), 0);
	ck_assert_int_eq(CLIENT->region_create(domain, memory, sizeof(memory), &region),
			 0);
	ck_assert_int_eq(CLIENT->cq_create(domain, 2 * DEPTH, &cq), 0);
}

static void setup(void)
{
	int err;

	setup_cq();
	err = connect_one(DEPTH, &channel);
	ck_assert_msg(!err, "connect: %s", err_text());
}

static void teardown_cq(void)
{
	CLIENT->cq_free(cq);
	CLIENT->region_free(region);
	CLIENT->domain_close(domain);
	ck_assert_uint_eq(fake_live(), 0);
}

static void teardown(void)
{
	CLIENT->channel_free(channel);
	teardown_cq();
}

static struct wr wr_make(enum fabric_opcode opcode, uint64_t cookie,
				uint32_t bytes)
{
	return (struct wr){
		.opcode = opcode,
		.bytes = bytes,
		.addr = memory,
		.region = region,
		.remote_addr = 0x1000 + cookie,
		.rkey = 9,
		.cookie = cookie,
	};
}

/* Post n operations with cookies from `first` on as one batch. */
static int post(enum fabric_opcode opcode, unsigned first, unsigned n)
{
	struct wr wrs[2 * DEPTH];

	for (unsigned i = 0; i < n; i++)
		wrs[i] = wr_make(opcode, first + i, 100);
	return wr_post(CLIENT, channel, wrs, n);
}

/* Exactly these cookies come, in order, with this status. */
static void expect(unsigned first, unsigned n, int status)
{
	struct wc wc;

	for (unsigned i = 0; i < n; i++) {
		ck_assert_int_eq(wr_poll(CLIENT, cq, &wc, 1), 1);
		ck_assert_uint_eq(wc.cookie, first + i);
		ck_assert_msg(wc.status == status, "%u: %d instead of %d", first + i,
			      wc.status, status);
		ck_assert(!wc.text == !status);
		ck_assert_ptr_eq(wc.channel, channel);
	}
}

static void expect_nothing(void)
{
	struct wc wc;

	ck_assert_int_eq(wr_poll(CLIENT, cq, &wc, 1), 0);
}

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
	ck_assert_int_eq(CLIENT->domain_open(&elsewhere, NULL, 10000, &domain), -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), "10.9.0.1:7000"));
	fake.never_resolves = true;
	ck_assert_int_eq(CLIENT->domain_open(&endpoint, NULL, 5, &domain), -ETIMEDOUT);
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

START_TEST(region__of_memory_for_reading_only_is_a_source)
{
	fake.reg_error = EFAULT;
	ck_assert_int_eq(CLIENT->domain_open(&endpoint, NULL, 10000, &domain), 0);
	ck_assert_int_eq(CLIENT->region_create(domain, memory, sizeof(memory), &region),
			 0);
	ck_assert_uint_eq(fake_access(), 0);
	CLIENT->region_free(region);
	fake.reg_error = ENOMEM;
	ck_assert_int_eq(CLIENT->region_create(domain, memory, sizeof(memory), &region),
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
	/* and gives back its share of the queue */
	fake.answer = RDMA_CM_EVENT_ESTABLISHED;
	ck_assert_int_eq(connect_one(2 * DEPTH, &channel), 0);
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

/* ---- operations ---- */

START_TEST(post__is_one_doorbell_and_few_entries)
{
	struct fake_send sends[FAKE_SENDS];

	setup();
	ck_assert_int_eq(post(FABRIC_READ, 0, 2 * DEPTH), DEPTH);
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), 0);
	ck_assert_uint_eq(fake_posts(), 1);
	ck_assert_uint_eq(fake_sends(sends), DEPTH);
	for (unsigned i = 0; i < DEPTH; i++) {
		ck_assert_int_eq(sends[i].opcode, IBV_WR_RDMA_READ);
		ck_assert_uint_eq(sends[i].remote_addr, 0x1000 + i);
		ck_assert_uint_eq(sends[i].bytes, 100);
		ck_assert_int_eq((sends[i].flags & IBV_SEND_SIGNALED) != 0,
				 i == 31 || i == DEPTH - 1);
	}
	fake_complete(31);
	expect_nothing();
	fake_complete(1);
	expect(0, 32, 0);
	expect_nothing();
	ck_assert_int_eq(post(FABRIC_READ, DEPTH, DEPTH), 32);
	fake_complete(DEPTH);
	expect(32, DEPTH, 0);
	expect_nothing();
	teardown();
}
END_TEST

START_TEST(post__carries_small_writes_inline_where_it_can)
{
	struct fake_send sends[FAKE_SENDS];
	struct wr wrs[3];

	fake.max_inline = _i ? 64 : 0;
	setup();
	wrs[0] = wr_make(FABRIC_WRITE, 0, 64);
	wrs[1] = wr_make(FABRIC_WRITE, 1, 65);
	wrs[2] = wr_make(FABRIC_READ, 2, 8);
	ck_assert_int_eq(wr_post(CLIENT, channel, wrs, 3), 3);
	ck_assert_uint_eq(fake_sends(sends), 3);
	ck_assert_int_eq((sends[0].flags & IBV_SEND_INLINE) != 0, _i);
	ck_assert_uint_eq(sends[1].flags & IBV_SEND_INLINE, 0);
	ck_assert_uint_eq(sends[2].flags & IBV_SEND_INLINE, 0);
	teardown();
}
END_TEST

/* ---- several slices ---- */

START_TEST(slices__keep_to_the_device)
{
	fake.iwarp = _i;
	setup_cq();
	ck_assert_uint_eq(CLIENT->slices_max(domain, FABRIC_WRITE), 8);
	ck_assert_uint_eq(CLIENT->slices_max(domain, FABRIC_READ), _i ? 1 : 3);
	teardown_cq();
}
END_TEST

START_TEST(slices__are_of_one_request_only)
{
	const struct fabric_slice slices[3] = { { memory, 10, NULL },
						{ memory + 50, 20, NULL },
						{ memory + 100, 30, NULL } };
	struct fabric_slice with_region[3];
	struct fake_send sends[FAKE_SENDS];
	struct wr wrs[3];

	setup();
	for (unsigned i = 0; i < 3; i++) {
		with_region[i] = slices[i];
		with_region[i].region = region;
	}
	wrs[0] = wr_make(FABRIC_WRITE, 0, 60);
	wrs[1] = wr_make(FABRIC_READ, 1, 60);
	wrs[2] = wr_make(FABRIC_WRITE, 2, 8);
	wrs[0].slices = wrs[1].slices = with_region;
	wrs[0].n_slices = 3;
	wrs[1].n_slices = 2;
	/* each place in the ring gets all kinds, in turn; some batches are refused */
	for (unsigned round = 0; round < 2 * DEPTH; round++) {
		ck_assert_int_eq(wr_post(CLIENT, channel, wrs, 3), 3);
		ck_assert_uint_eq(fake_sends(sends), 3);
		ck_assert_int_eq(sends[0].opcode, IBV_WR_RDMA_WRITE);
		ck_assert_int_eq(sends[0].slices, 3);
		ck_assert_uint_eq(sends[0].flags & IBV_SEND_INLINE, 0);
		ck_assert_int_eq(sends[1].opcode, IBV_WR_RDMA_READ);
		ck_assert_int_eq(sends[1].slices, 2);
		ck_assert_int_eq(sends[2].slices, 1);
		ck_assert_uint_eq(sends[2].bytes, 8);
		fake_complete(3);
		expect(0, 3, 0);
	}
	teardown();
}
END_TEST

/* ---- atomics ---- */

START_TEST(atomics__need_both_devices)
{
	struct fabric_endpoint able = endpoint;

	able.flags = _i == 0 ? 0 : FABRIC_ENDPOINT_ATOMICS;
	fake.atomics = _i == 1 ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA;
	fake.iwarp = _i == 2;
	ck_assert_int_eq(CLIENT->domain_open(&able, NULL, 10000, &domain), 0);
	ck_assert_int_eq(CLIENT->domain_able(domain, FABRIC_CAN_ATOMICS),
			 _i == 3 ? 0 : -ENOTSUP);
	if (_i < 3)
		ck_assert_msg(strstr(err_text(), _i == 0 ? "theirs0" : "fake0") &&
				      strstr(err_text(), "atomic_cap"),
			      "%s", err_text());
	ck_assert_int_eq(CLIENT->domain_able(domain, (enum fabric_capability)99),
			 -ENOTSUP);
	CLIENT->domain_close(domain);
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

static struct wr atomic_make(enum fabric_opcode opcode, uint64_t cookie)
{
	struct wr wr = wr_make(opcode, cookie, 8);

	wr.remote_addr = 0x1000 + 8 * cookie;
	wr.atomic = (struct fabric_atomic){ .compare = 100 + cookie,
					    .operand = 200 + cookie };
	return wr;
}

static void setup_atomics(void)
{
	endpoint.flags = FABRIC_ENDPOINT_ATOMICS;
	fake.atomics = IBV_ATOMIC_HCA;
	setup();
}

START_TEST(atomics__go_with_the_others_in_one_batch)
{
	struct fake_send sends[FAKE_SENDS];
	struct wr wrs[4];

	setup_atomics();
	wrs[0] = wr_make(FABRIC_WRITE, 0, 64);
	wrs[1] = atomic_make(FABRIC_CAS, 1);
	wrs[2] = atomic_make(FABRIC_FETCH_ADD, 2);
	wrs[3] = wr_make(FABRIC_READ, 3, 8);
	/* twice, so that each place in the ring is used for all kinds */
	for (unsigned round = 0; round < DEPTH; round++) {
		unsigned before = fake_posts();

		ck_assert_int_eq(wr_post(CLIENT, channel, wrs, 4), 4);
		ck_assert_uint_eq(fake_posts(), before + 1);
		ck_assert_uint_eq(fake_sends(sends), 4);
		ck_assert_int_eq(sends[0].opcode, IBV_WR_RDMA_WRITE);
		ck_assert_int_eq(sends[1].opcode, IBV_WR_ATOMIC_CMP_AND_SWP);
		ck_assert_int_eq(sends[2].opcode, IBV_WR_ATOMIC_FETCH_AND_ADD);
		ck_assert_int_eq(sends[3].opcode, IBV_WR_RDMA_READ);
		ck_assert_uint_eq(sends[1].compare_add, 101);
		ck_assert_uint_eq(sends[1].swap, 201);
		ck_assert_uint_eq(sends[2].compare_add, 202);
		for (unsigned i = 1; i < 3; i++) {
			ck_assert_uint_eq(sends[i].bytes, 8);
			ck_assert_uint_eq(sends[i].remote_addr, 0x1000 + 8 * i);
			ck_assert_uint_eq(sends[i].flags & IBV_SEND_INLINE, 0);
		}
		fake_complete(4);
		expect(0, 4, 0);
	}
	teardown();
}
END_TEST

START_TEST(atomics__take_credits_and_need_alignment)
{
	struct wr wrs[DEPTH + 1], odd = atomic_make(FABRIC_CAS, 0);

	setup_atomics();
	odd.remote_addr += 4;
	ck_assert_int_eq(wr_post(CLIENT, channel, &odd, 1), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err_text(), "not a multiple of 8"));
	for (unsigned i = 0; i <= DEPTH; i++)
		wrs[i] = atomic_make(FABRIC_FETCH_ADD, i);
	ck_assert_int_eq(wr_post(CLIENT, channel, wrs, DEPTH + 1), DEPTH);
	fake_complete(DEPTH);
	expect(0, DEPTH, 0);
	teardown();
}
END_TEST

START_TEST(atomics__are_refused_where_there_are_none)
{
	struct wr wr = atomic_make(FABRIC_CAS, 0);

	fake.iwarp = _i;
	setup();
	ck_assert_int_eq(wr_post(CLIENT, channel, &wr, 1), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(err_text(), "RDMA device fake0 has no atomics"));
	expect_nothing();
	teardown();
}
END_TEST

static const struct {
	enum ibv_wc_status status;
	int err;
} statuses[] = {
	{ IBV_WC_REM_ACCESS_ERR, -EACCES }, { IBV_WC_REM_INV_REQ_ERR, -EACCES },
	{ IBV_WC_REM_OP_ERR, -EACCES },     { IBV_WC_RETRY_EXC_ERR, -ETIMEDOUT },
	{ IBV_WC_LOC_PROT_ERR, -EFAULT },   { IBV_WC_LOC_QP_OP_ERR, -EFAULT },
	{ IBV_WC_LOC_LEN_ERR, -EFAULT },    { IBV_WC_GENERAL_ERR, -EIO },
	{ IBV_WC_RNR_RETRY_EXC_ERR, -EIO },
};

START_TEST(poll__tells_what_failed_and_what_is_in_doubt)
{
	struct wc wcs[8];

	setup();
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 5), 5);
	fake_complete(2); /* asks for no entry */
	fake_fail(statuses[_i].status);
	ck_assert_int_eq(wr_poll(CLIENT, cq, wcs, 8), 5);
	for (unsigned i = 0; i < 5; i++) {
		ck_assert_uint_eq(wcs[i].cookie, i);
		ck_assert_int_eq(wcs[i].status, i < 2   ? 0
						: i > 2 ? -ECONNRESET
							: statuses[_i].err);
	}
	ck_assert_uint_eq(wcs[2].vendor, 5);
	ck_assert_str_eq(wcs[2].text, "failed");
	expect_nothing();
	ck_assert_int_eq(post(FABRIC_WRITE, 9, 1), -ECONNRESET);
	ck_assert(!CLIENT->alive(channel));
	teardown();
}
END_TEST

START_TEST(abort__completes_everything_once)
{
	fake.iwarp = _i;
	setup();
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 30), 30);
	fake_complete(3);
	CLIENT->abort(channel);
	expect(0, 30, -ECONNRESET);
	expect_nothing();
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 1), -ECONNRESET);
	CLIENT->abort(channel);
	expect_nothing();
	teardown();
}
END_TEST

START_TEST(post__that_the_device_cuts_short_kills_the_channel)
{
	fake.iwarp = _i;
	setup();
	fake_post_limit(3);
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 10), 3);
	expect(0, 3, -ECONNRESET);
	expect_nothing();
	CLIENT->channel_free(channel);
	ck_assert_int_eq(connect_one(DEPTH, &channel), 0);
	fake_post_limit(0);
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 10), -ECONNRESET);
	expect_nothing();
	teardown();
}
END_TEST

/* ---- iWARP ---- */

START_TEST(iwarp__writes_complete_with_the_read_behind_them)
{
	struct fake_send sends[FAKE_SENDS];
	struct wr wrs[3];

	fake.iwarp = true;
	setup();
	wrs[0] = wr_make(FABRIC_WRITE, 0, 100);
	wrs[1] = wr_make(FABRIC_WRITE, 1, 100);
	wrs[2] = wr_make(FABRIC_READ, 2, 100);
	ck_assert_int_eq(wr_post(CLIENT, channel, wrs, 3), 3);
	ck_assert_uint_eq(fake_sends(sends), 4);
	ck_assert_int_eq(sends[3].opcode, IBV_WR_RDMA_READ);
	ck_assert_uint_eq(sends[3].remote_addr, wrs[1].remote_addr);
	ck_assert_uint_eq(sends[3].bytes, 1);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq((sends[i].flags & IBV_SEND_SIGNALED) != 0, i == 3);
	fake_complete(3);
	expect_nothing();
	fake_complete(1);
	expect(0, 3, 0);
	expect_nothing();
	/* reads speak for themselves */
	ck_assert_int_eq(post(FABRIC_READ, 5, 2), 2);
	ck_assert_uint_eq(fake_sends(sends), 2);
	fake_complete(2);
	expect(5, 2, 0);
	teardown();
}
END_TEST

/* In a batch as long as can be, too: no entry in the middle speaks for writes. */
START_TEST(iwarp__a_long_batch_completes_with_its_last_read)
{
	fake.iwarp = true;
	setup();
	ck_assert_int_eq(post(FABRIC_WRITE, 0, DEPTH), DEPTH);
	fake_complete(DEPTH);
	expect_nothing();
	if (_i) {
		fake_complete(1);
		expect(0, DEPTH, 0);
	} else {
		fake_fail(IBV_WC_WR_FLUSH_ERR);
		expect(0, DEPTH, -ECONNRESET);
	}
	expect_nothing();
	teardown();
}
END_TEST

START_TEST(iwarp__full_depth_one_by_one)
{
	fake.iwarp = true;
	setup_cq();
	ck_assert_int_eq(connect_one(20, &channel), 0);
	for (unsigned round = 0; round < 5; round++) {
		for (unsigned i = 0; i < 20; i++)
			ck_assert_int_eq(post(FABRIC_WRITE, i, 1), 1);
		ck_assert_int_eq(post(FABRIC_WRITE, 0, 1), 0);
		fake_complete(40);
		expect(0, 20, 0);
		expect_nothing();
	}
	teardown();
}
END_TEST

static const struct {
	unsigned done; /* locally, before the failure */
	enum ibv_wc_status status;
	int before, at;
} refusals[] = {
	/* refused writes: the confirming read is flushed, or refused too */
	{ 2, IBV_WC_WR_FLUSH_ERR, -ECONNRESET, -ECONNRESET },
	{ 2, IBV_WC_REM_ACCESS_ERR, -EACCES, -EACCES },
	/* a local fault at the second: the first one is in doubt */
	{ 1, IBV_WC_LOC_PROT_ERR, -ECONNRESET, -EFAULT },
	/* the socket is closed */
	{ 1, IBV_WC_LOC_QP_OP_ERR, -ECONNRESET, -ECONNRESET },
};

START_TEST(iwarp__refused_writes_are_never_done)
{
	fake.iwarp = true;
	setup();
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 2), 2);
	fake_complete(refusals[_i].done);
	expect_nothing();
	fake_fail(refusals[_i].status);
	expect(0, 1, refusals[_i].before);
	expect(1, 1, refusals[_i].at);
	expect_nothing();
	teardown();
}
END_TEST

/* siw answers a read of up to 32 bytes across pages with bytes of the first alone. */
START_TEST(iwarp__short_reads_keep_to_a_page)
{
	static const struct {
		uint64_t at;
		uint32_t bytes, head;
	} reads[] = {
		{ 0x1feb, 25, 21 }, { 0x1fff, 32, 1 }, { 0x1fff, 2, 1 },
		{ 0x1ffe, 2, 0 },   { 0x2000, 32, 0 }, { 0x1feb, 33, 0 },
	};
	struct fake_send sends[FAKE_SENDS];

	fake.iwarp = true;
	setup();
	for (unsigned i = 0; i < sizeof(reads) / sizeof(reads[0]); i++) {
		struct wr wr = wr_make(FABRIC_READ, i, reads[i].bytes);
		unsigned n = reads[i].head ? 2 : 1;

		wr.remote_addr = reads[i].at;
		ck_assert_int_eq(wr_post(CLIENT, channel, &wr, 1), 1);
		ck_assert_uint_eq(fake_sends(sends), n);
		ck_assert_uint_eq(sends[0].remote_addr, reads[i].at);
		ck_assert_uint_eq(sends[n - 1].remote_addr,
				  reads[i].at + reads[i].head);
		ck_assert_uint_eq(sends[n - 1].bytes, reads[i].bytes - reads[i].head);
		fake_complete(n);
		expect(i, 1, 0);
		expect_nothing();
	}
	teardown();
}
END_TEST

/* siw forgets what is posted to a queue pair that it has moved to ERROR. */
START_TEST(iwarp__what_the_device_forgets_completes_all_the_same)
{
	struct pollfd fd = { .events = POLLIN };

	fake.iwarp = true;
	setup();
	fd.fd = CLIENT->cq_fd(cq);
	fake_break(fake_last_id());
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 3), 3);
	ck_assert_int_eq(post(FABRIC_READ, 3, 1), 1);
	ck_assert_int_eq(CLIENT->cq_arm(cq), 0);
	expect_nothing();
	ck_assert_int_eq(poll(&fd, 1, 0), 0);
	fake_forget();
	fake_event(fake_last_id(), RDMA_CM_EVENT_DISCONNECTED);
	ck_assert(!CLIENT->alive(channel));
	ck_assert_int_eq(poll(&fd, 1, 10000), 1);
	expect(0, 4, -ECONNRESET);
	expect_nothing();
	ck_assert_int_eq(CLIENT->cq_arm(cq), 0);
	ck_assert_int_eq(poll(&fd, 1, 0), 0);
	teardown();
}
END_TEST

/* siw can leave what came too early in its socket until more comes. */
START_TEST(iwarp__pushes_a_new_connection)
{
	struct fake_send sends[FAKE_SENDS];
	struct pollfd fd = { .events = POLLIN };

	fake.iwarp = true;
	setup();
	fd.fd = CLIENT->alive_fd(channel);
	ck_assert_int_eq(poll(&fd, 1, 10000), 1);
	ck_assert(CLIENT->alive(channel));
	ck_assert_uint_eq(fake_sends(sends), 1);
	ck_assert_int_eq(sends[0].opcode, IBV_WR_RDMA_WRITE);
	ck_assert_uint_eq(sends[0].bytes, 0);
	/* its end is nobody's */
	CLIENT->abort(channel);
	expect_nothing();
	teardown();
}
END_TEST

/* The first entry that tells of it is enough; nobody need ask whether the peer lives. */
START_TEST(iwarp__an_error_brings_what_was_posted_behind_it)
{
	fake.iwarp = true;
	setup();
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), 1);
	fake_break(fake_last_id());
	ck_assert_int_eq(post(FABRIC_READ, 1, 2), 2);
	fake_forget();
	expect(0, 3, -ECONNRESET);
	expect_nothing();
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
	struct pollfd fd = { .events = POLLIN };

	setup();
	fd.fd = CLIENT->alive_fd(channel);
	ck_assert_int_eq(poll(&fd, 1, 0), 0);
	ck_assert(CLIENT->alive(channel));
	ck_assert_int_eq(post(FABRIC_READ, 0, 2), 2);
	fake_event(fake_last_id(),
		   _i ? RDMA_CM_EVENT_DISCONNECTED : RDMA_CM_EVENT_DEVICE_REMOVAL);
	ck_assert_int_eq(poll(&fd, 1, 10000), 1);
	ck_assert(!CLIENT->alive(channel));
	ck_assert_uint_eq(fake_disconnects(), 1);
	expect(0, 2, -ECONNRESET);
	ck_assert_int_eq(poll(&fd, 1, 0), 0);
	ck_assert(!CLIENT->alive(channel));
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
	if (CLIENT->region_create(domain, memory, sizeof(memory), &region))
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
	CLIENT->region_free(region);
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

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

int main(void)
{
	Suite *suite = suite_create("verbs-client");
	TCase *tcase = tcase_create("client");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, available__needs_an_active_port);
	tcase_add_test(tcase, domain_open__finds_the_device_or_says_why_not);
	tcase_add_test(tcase, region__of_memory_for_reading_only_is_a_source);
	tcase_add_loop_test(tcase, region__on_iwarp_may_be_written_remotely, 0, 2);
	tcase_add_test(tcase, cq_create__keeps_to_the_device);
	tcase_add_test(tcase, connect__presents_the_hello_and_bounds_retries);
	tcase_add_loop_test(tcase, connect__tells_why_it_failed, 0, COUNT(answers));
	tcase_add_test(tcase, connect__ends_in_time);
	tcase_add_loop_test(tcase, connect__shares_the_queue, 0, 2);
	tcase_add_test(tcase, post__is_one_doorbell_and_few_entries);
	tcase_add_loop_test(tcase, post__carries_small_writes_inline_where_it_can, 0,
			    2);
	tcase_add_loop_test(tcase, slices__keep_to_the_device, 0, 2);
	tcase_add_test(tcase, slices__are_of_one_request_only);
	tcase_add_loop_test(tcase, atomics__need_both_devices, 0, 4);
	tcase_add_test(tcase, atomics__go_with_the_others_in_one_batch);
	tcase_add_test(tcase, atomics__take_credits_and_need_alignment);
	tcase_add_loop_test(tcase, atomics__are_refused_where_there_are_none, 0, 2);
	tcase_add_loop_test(tcase, poll__tells_what_failed_and_what_is_in_doubt, 0,
			    COUNT(statuses));
	tcase_add_loop_test(tcase, abort__completes_everything_once, 0, 2);
	tcase_add_loop_test(tcase, post__that_the_device_cuts_short_kills_the_channel,
			    0, 2);
	tcase_add_test(tcase, iwarp__writes_complete_with_the_read_behind_them);
	tcase_add_loop_test(tcase, iwarp__a_long_batch_completes_with_its_last_read, 0,
			    2);
	tcase_add_test(tcase, iwarp__full_depth_one_by_one);
	tcase_add_loop_test(tcase, iwarp__refused_writes_are_never_done, 0,
			    COUNT(refusals));
	tcase_add_test(tcase, iwarp__short_reads_keep_to_a_page);
	tcase_add_test(tcase, iwarp__what_the_device_forgets_completes_all_the_same);
	tcase_add_test(tcase, iwarp__pushes_a_new_connection);
	tcase_add_test(tcase, iwarp__an_error_brings_what_was_posted_behind_it);
	tcase_add_loop_test(tcase, channel_free__takes_its_completions_and_no_others, 0,
			    2);
	tcase_add_loop_test(tcase, alive__flushes_once_the_peer_is_gone, 0, 2);
	tcase_add_test(tcase, cq_arm__wakes_and_consumes);
	tcase_add_loop_test(tcase, sweep__no_failure_leaks, 0, 4);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
