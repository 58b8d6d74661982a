/* SPDX-License-Identifier: BSD-3-Clause */
/* In-band requests of the verbs client over the fake libraries: the messages that it
 * sends, and valid, missing and malformed answers. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "fabric/inband.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-client-stage.h"

static uint32_t crcs[16];

static void setup_inband(void)
{
	endpoint.flags = FABRIC_ENDPOINT_INBAND;
	setup();
}

static struct wr request_make(enum fabric_opcode opcode, uint64_t cookie)
{
	return (struct wr){
		.opcode = opcode,
		.bytes = opcode == FABRIC_PING || opcode == FABRIC_NOTIFY ? 0 : 100,
		.remote_addr = 0x1000,
		.rkey = 9,
		.cookie = cookie,
		.addr = &crcs[cookie % 16],
		.request = { .source = { 0x2000, 10 }, .pattern = 7, .value = 42 },
	};
}

static int request_post(enum fabric_opcode opcode, uint64_t cookie)
{
	const struct wr wr = request_make(opcode, cookie);

	return wr_post(CLIENT, channel, &wr, 1);
}

/* Deliver the server's answer to its request number `cookie`. */
static void answer_as(uint32_t status, uint64_t cookie, uint64_t result, uint32_t bytes)
{
	const struct inband_answer answer = {
		.status = htole32(status),
		.cookie = htole64(cookie),
		.result = htole64(result),
	};

	fake_receive(fake_last_id(), &answer, bytes);
}

static void answer(uint32_t status, uint64_t cookie, uint64_t result)
{
	answer_as(status, cookie, result, sizeof(struct inband_answer));
}

START_TEST(requests__are_sent_as_messages)
{
	struct fake_send sends[FAKE_SENDS];
	struct inband_request request;

	verbs_fake.iwarp = _i;
	setup_inband();
	ck_assert_int_eq(request_post(FABRIC_COPY, 0), 1);
	ck_assert_uint_eq(fake_sends(sends), 1);
	ck_assert_int_eq(sends[0].opcode, IBV_WR_SEND);
	ck_assert(sends[0].flags & IBV_SEND_SIGNALED);
	/* on iWARP its completion would overtake that of a read before it */
	ck_assert_int_eq((sends[0].flags & IBV_SEND_FENCE) != 0, _i);
	ck_assert_uint_eq(sends[0].bytes, sizeof(request));
	memcpy(&request, sends[0].addr, sizeof(request));
	ck_assert_uint_eq(le16toh(request.op), FABRIC_COPY);
	ck_assert_uint_eq(le32toh(request.bytes), 100);
	ck_assert_uint_eq(le64toh(request.addr), 0x1000);
	ck_assert_uint_eq(le64toh(request.rkey), 9);
	ck_assert_uint_eq(le64toh(request.operands.source_addr), 0x2000);
	ck_assert_uint_eq(le64toh(request.operands.source_rkey), 10);
	/* the completion of the message is not the answer */
	fake_complete_sends(1);
	expect_nothing();
	answer(FABRIC_DONE, 0, 0);
	expect_only(0, 1, 0);
}
END_TEST

/* The answer arrives before or after the completion of the request's message. */
START_TEST(operations__complete_in_order)
{
	setup_inband();
	ck_assert_int_eq(post(FABRIC_READ, 0, 3), 3);
	ck_assert_int_eq(request_post(FABRIC_CRC, 3), 1);
	ck_assert_int_eq(post(FABRIC_READ, 4, 3), 3);
	ck_assert_int_eq(request_post(FABRIC_CRC, 7), 1);
	ck_assert_int_eq(post(FABRIC_WRITE, 8, 2), 2);
	if (_i) {
		answer(FABRIC_DONE, 0, 0x11111111);
		expect_nothing();
	}
	fake_complete_sends(10);
	if (!_i) {
		expect_only(0, 3, 0);
		answer(FABRIC_DONE, 0, 0x11111111);
		expect(3, 4, 0);
	} else {
		expect(0, 7, 0);
	}
	expect_nothing();
	ck_assert_uint_eq(crcs[3], 0x11111111);
	answer(FABRIC_DONE, 1, 0x22222222);
	expect(7, 3, 0);
	ck_assert_uint_eq(crcs[7], 0x22222222);
	/* without outstanding requests, too */
	ck_assert_int_eq(post(FABRIC_READ, 10, 5), 5);
	fake_complete_sends(5);
	expect_only(10, 5, 0);
}
END_TEST

START_TEST(refusal__fails_only_its_request)
{
	static const uint32_t statuses[] = { FABRIC_DONE, FABRIC_FORBIDDEN,
					     FABRIC_INVALID, FABRIC_OUTSIDE,
					     FABRIC_STALE };

	setup_inband();
	for (unsigned i = 0; i < 40; i += 2) {
		ck_assert_int_eq(request_post(FABRIC_FILL, i), 1);
		ck_assert_int_eq(post(FABRIC_READ, i + 1, 1), 1);
		fake_complete_sends(2);
		answer(statuses[i / 2 % 5], i / 2, 0);
		expect(i, 1, i / 2 % 5 ? -EACCES : 0);
		expect(i + 1, 1, 0);
	}
}
END_TEST

START_TEST(requests__keep_to_their_credits)
{
	struct wr wrs[INBAND_CREDITS + 2];

	setup_inband();
	ck_assert_uint_eq(CLIENT->inband_max, INBAND_CREDITS);
	for (unsigned i = 0; i < INBAND_CREDITS + 2; i++)
		wrs[i] = request_make(FABRIC_PING, i);
	ck_assert_int_eq(wr_post(CLIENT, channel, wrs, INBAND_CREDITS + 2),
			 INBAND_CREDITS);
	ck_assert_int_eq(request_post(FABRIC_PING, 0), 0);
	fake_complete_sends(INBAND_CREDITS);
	ck_assert_int_eq(request_post(FABRIC_PING, 0), 0);
	ck_assert_uint_eq(fake_receives(fake_last_id()), INBAND_CREDITS);
	answer(FABRIC_DONE, 0, 0);
	expect(0, 1, 0);
	/* a receive for each answer that may arrive */
	ck_assert_uint_eq(fake_receives(fake_last_id()), INBAND_CREDITS);
	ck_assert_int_eq(request_post(FABRIC_PING, INBAND_CREDITS), 1);
	fake_complete_sends(1);
	for (unsigned i = 1; i <= INBAND_CREDITS; i++)
		answer(FABRIC_DONE, i, 0);
	expect(1, INBAND_CREDITS, 0);
}
END_TEST

#define WRONG 6

START_TEST(answer__malformed_ends_the_channel)
{
	static const struct {
		uint32_t status, bytes;
		uint64_t cookie;
	} wrong[WRONG] = {
		{ FABRIC_DONE, 24, 1 },  { FABRIC_DONE, 23, 0 },
		{ FABRIC_DONE, 0, 0 },   { FABRIC_STALE, 23, 0 },
		{ FABRIC_STALE, 24, 1 }, { FABRIC_DONE, 24, UINT64_MAX },
	};

	verbs_fake.iwarp = _i >= WRONG;
	setup_inband();
	ck_assert_int_eq(request_post(FABRIC_PING, 0), 1);
	ck_assert_int_eq(post(FABRIC_READ, 1, 1), 1);
	fake_complete_sends(1);
	answer_as(wrong[_i % WRONG].status, wrong[_i % WRONG].cookie, 0,
		  wrong[_i % WRONG].bytes);
	expect(0, 1, -EPROTO);
	expect_only(1, 1, -ECONNRESET);
	ck_assert_int_eq(request_post(FABRIC_PING, 0), -ECONNRESET);
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), -ECONNRESET);
}
END_TEST

START_TEST(answer__without_request_ends_the_channel)
{
	setup_inband();
	ck_assert_int_eq(request_post(FABRIC_PING, 0), 1);
	fake_complete_sends(1);
	answer(FABRIC_DONE, 0, 0);
	answer(FABRIC_DONE, 1, 0);
	expect_only(0, 1, 0);
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), -ECONNRESET);
}
END_TEST

/* Requests that the server received and did not answer. */
START_TEST(requests__on_a_dead_channel_are_flushed)
{
	setup_inband();
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(request_post(FABRIC_PING, i), 1);
	fake_complete_sends(2);
	answer(FABRIC_DONE, 0, 0);
	if (_i == 0)
		fake_break(fake_last_id());
	else
		CLIENT->abort(channel);
	expect(0, 1, 0);
	expect_only(1, 2, -ECONNRESET);
}
END_TEST

/* Unread answers of a freed channel, valid or not, are dropped; another channel keeps
 * its own. */
START_TEST(channel_free__drops_unread_answers)
{
	struct fabric_channel *freed = NULL;
	struct rdma_cm_id *id;
	const struct wr wr = request_make(FABRIC_CRC, 5);

	setup_inband();
	ck_assert_int_eq(request_post(FABRIC_CRC, 0), 1);
	fake_complete_sends(1);
	answer(FABRIC_DONE, 0, 0x33333333);
	id = fake_last_id();
	ck_assert_int_eq(connect_one(DEPTH, &freed), 0);
	ck_assert_ptr_ne(fake_last_id(), id);
	ck_assert_int_eq(wr_post(CLIENT, freed, &wr, 1), 1);
	crcs[5] = 7;
	answer(FABRIC_DONE, (unsigned)_i, 0x44444444);
	CLIENT->channel_free(freed);
	ck_assert_uint_eq(crcs[5], 7);
	expect(0, 1, 0);
	ck_assert_uint_eq(crcs[0], 0x33333333);
	expect_nothing();
}
END_TEST

START_TEST(request__not_posted_is_dropped)
{
	struct wr wrs[3] = { request_make(FABRIC_PING, 0), request_make(FABRIC_PING, 1),
			     request_make(FABRIC_PING, 2) };

	setup_inband();
	fake_post_limit(1);
	ck_assert_int_eq(wr_post(CLIENT, channel, wrs, 3), 1);
	ck_assert_int_eq(request_post(FABRIC_PING, 5), -ECONNRESET);
}
END_TEST

START_TEST(cq_arm__wakes_for_answers)
{
	setup_inband();
	ck_assert_int_eq(request_post(FABRIC_PING, 0), 1);
	fake_complete_sends(1);
	expect_nothing();
	ck_assert_int_eq(CLIENT->cq_arm(cq), 0);
	ck_assert(!readable(CLIENT->cq_fd(cq), 0));
	answer(FABRIC_DONE, 0, 0);
	ck_assert(readable(CLIENT->cq_fd(cq), 0));
	expect(0, 1, 0);
	ck_assert_int_eq(CLIENT->cq_arm(cq), 0);
	ck_assert(!readable(CLIENT->cq_fd(cq), 0));
}
END_TEST

START_TEST(server__without_inband_is_named)
{
	setup();
	ck_assert_int_eq(CLIENT->domain_supports(domain, FABRIC_CAN_INBAND), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(err_text(), "theirs0"));
	ck_assert_int_eq(request_post(FABRIC_PING, 0), -ENOTSUP);
	ck_assert_uint_eq(fake_posts(), 0);
}
END_TEST

/* Each call that can fail, at the first request of a channel. */
START_TEST(sweep__no_failure_leaks)
{
	bool failed = true;

	for (unsigned n = 1; failed; n++) {
		int result;

		setup_inband();
		fake_fail_at(n);
		result = request_post(FABRIC_PING, 0);
		failed = fake_failed();
		fake_fail_at(0);
		if (failed) {
			/* nothing was sent */
			ck_assert_int_lt(result, 0);
			ck_assert_uint_eq(fake_posts(), 0);
		} else {
			ck_assert_int_eq(result, 1);
			ck_assert_uint_gt(n, INBAND_CREDITS);
		}
		teardown();
	}
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("inband", NULL, teardown);

	tcase_add_loop_test(tcase, requests__are_sent_as_messages, 0, 2);
	tcase_add_loop_test(tcase, operations__complete_in_order, 0, 2);
	tcase_add_test(tcase, refusal__fails_only_its_request);
	tcase_add_test(tcase, requests__keep_to_their_credits);
	tcase_add_loop_test(tcase, answer__malformed_ends_the_channel, 0, 2 * WRONG);
	tcase_add_test(tcase, answer__without_request_ends_the_channel);
	tcase_add_loop_test(tcase, requests__on_a_dead_channel_are_flushed, 0, 2);
	tcase_add_loop_test(tcase, channel_free__drops_unread_answers, 0, 2);
	tcase_add_test(tcase, request__not_posted_is_dropped);
	tcase_add_test(tcase, cq_arm__wakes_for_answers);
	tcase_add_test(tcase, server__without_inband_is_named);
	tcase_add_test(tcase, sweep__no_failure_leaks);
	return unit_main();
}
