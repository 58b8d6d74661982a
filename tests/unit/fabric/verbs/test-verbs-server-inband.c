/* SPDX-License-Identifier: BSD-3-Clause */
/* In-band requests at a verbs server over the faked libraries: what a client may do, and what
 * becomes of one that means it no good.  The poller is a thread of its own. */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "fabric/inband.h"
#include "fabric/verbs/common/credits.h"
#include "fabric/verbs/server/channel_ids.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-server-stage.h"

#define WAIT_MS 10000
/* What must not happen has so long to happen. */
#define HOLD_MS 100

static struct inband_request inband(uint32_t op, uint64_t offset, uint32_t bytes,
				    uint64_t cookie)
{
	return (struct inband_request){
		.op = htole32(op),
		.bytes = htole32(bytes),
		.rkey = htole64(seen.key.rkey),
		.addr = htole64(seen.key.addr + offset),
		.cookie = htole64(cookie),
		.operands = { .source_rkey = htole64(seen.key.rkey),
			      .source_addr = htole64(seen.key.addr),
			      .operand = 0x7777777777777777 },
	};
}

/* The poller answers in a time of its own. */
static struct inband_answer answer_await(struct rdma_cm_id *id)
{
	uint64_t until_ms = clock_now_ms() + WAIT_MS;
	struct inband_answer answer;

	while (!fake_sent(id, &answer, sizeof(answer))) {
		ck_assert_msg(clock_now_ms() < until_ms, "no answer came");
		(void)sched_yield();
	}
	return answer;
}

static struct inband_answer run(struct rdma_cm_id *id, struct inband_request request)
{
	struct inband_answer answer;

	fake_receive(id, &request, sizeof(request));
	answer = answer_await(id);
	ck_assert_uint_eq(answer.cookie, request.cookie);
	return answer;
}

static void expect_status(struct rdma_cm_id *id, struct inband_request request,
			  uint32_t status)
{
	ck_assert_uint_eq(le32toh(run(id, request).status), status);
}

static bool memory_is(size_t from, size_t bytes, char value)
{
	for (size_t i = 0; i < bytes; i++)
		if (memory[from + i] != value)
			return false;
	return true;
}

START_TEST(requests__are_served_in_memory)
{
	struct fabric_session *session;
	struct rdma_cm_id *id;
	struct inband_answer answer;

	fake.iwarp = _i;
	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	id = channel_new(session, 1);
	(void)exposure_new(session);
	memset(memory, 0, sizeof(memory));
	expect_status(id, inband(INBAND_PING, 0, 0, 1), INBAND_DONE);
	expect_status(id, inband(INBAND_FILL, 0, 100, 2), INBAND_DONE);
	expect_status(id, inband(INBAND_COPY, 200, 100, 3), INBAND_DONE);
	ck_assert(memory_is(0, 100, 0x77) && memory_is(100, 100, 0));
	ck_assert(memory_is(200, 100, 0x77) && memory_is(300, 3796, 0));
	answer = run(id, inband(INBAND_CRC, 0, sizeof(memory), 4));
	ck_assert_uint_eq(le64toh(answer.result), crc32c(0, memory, sizeof(memory)));
	ck_assert_uint_eq(fake_receives(id), VERBS_CREDITS);
	SERVER->session_close(session);
	await(&seen.closeds, 1);
	close_all();
}
END_TEST

START_TEST(notification__reaches_the_daemon)
{
	struct fabric_session *session;
	struct inband_request request;
	struct rdma_cm_id *id;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	id = channel_new(session, 1);
	(void)exposure_new(session);
	request = inband(INBAND_NOTIFY, 4096, 0, 1);
	request.operands.operand = htole64(0xfedcba9876543210);
	expect_status(id, request, INBAND_DONE);
	await(&seen.notifieds, 1);
	ck_assert_uint_eq(seen.note, 0x76543210);
	ck_assert_uint_eq(seen.lost, 0);
	/* what was not taken when the exposure goes comes before its end */
	for (unsigned i = 0; i < FABRIC_NOTIFICATIONS_MAX + 10; i++)
		expect_status(id, request, INBAND_DONE);
	SERVER->session_close(session);
	await(&seen.closeds, 1);
	ck_assert_uint_eq(seen.notifieds, 1 + FABRIC_NOTIFICATIONS_MAX);
	ck_assert_uint_eq(seen.lost, 10);
	close_all();
}
END_TEST

/* However many exposures have some, and however long each takes, others get their turn. */
START_TEST(notifications__leave_turns_to_others)
{
	struct fabric_session *session;
	struct fabric_key keys[3];
	struct rdma_cm_id *id;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	id = channel_new(session, 1);
	for (unsigned i = 0; i < 3; i++) {
		(void)exposure_new(session);
		keys[i] = seen.key;
	}
	for (unsigned i = 0; i < 3; i++) {
		seen.key = keys[i];
		expect_status(id, inband(INBAND_NOTIFY, 0, 0, i), INBAND_DONE);
	}
	seen.note_ms = 20;
	for (unsigned i = 1; i <= 3; i++) {
		await_readable();
		SERVER->process(server);
		ck_assert_uint_eq(seen.notifieds, i);
	}
	seen.note_ms = 0;
	close_all();
}
END_TEST

START_TEST(requests__reach_what_is_the_sessions_alone)
{
	struct fabric_mr *exposure;
	struct fabric_session *session, *other;
	struct rdma_cm_id *id, *thief;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	other = session_new(0);
	id = channel_new(session, 1);
	thief = channel_new(other, 1);
	exposure = exposure_new(session);
	memset(memory, 0, sizeof(memory));
	for (uint32_t op = INBAND_FILL; op <= INBAND_NOTIFY; op++) {
		uint32_t bytes = op == INBAND_NOTIFY ? 0 : 8;

		expect_status(thief, inband(op, 0, bytes, 1), INBAND_REFUSED);
		expect_status(id, inband(op, 4097, bytes, 1), INBAND_REFUSED);
		expect_status(id, inband(op, UINT64_MAX, bytes, 1), INBAND_REFUSED);
		if (bytes)
			expect_status(id, inband(op, 4089, 8, 1), INBAND_REFUSED);
	}
	/* from when withdraw() returns */
	SERVER->dereg_mr(exposure);
	for (uint32_t op = INBAND_FILL; op <= INBAND_NOTIFY; op++)
		expect_status(id, inband(op, 0, op == INBAND_NOTIFY ? 0 : 8, 1),
			      INBAND_REFUSED);
	await(&seen.withdrawns, 1);
	ck_assert(memory_is(0, sizeof(memory), 0));
	ck_assert_uint_eq(seen.notifieds, 0);
	ck_assert_uint_eq(seen.downs, 0);
	close_all();
}
END_TEST

START_TEST(rights__are_those_that_were_given)
{
	struct fabric_mr *exposure = NULL;
	struct fabric_session *session;
	struct rdma_cm_id *id;
	bool read = (unsigned)_i & FABRIC_RIGHT_READ;
	bool write = (unsigned)_i & FABRIC_RIGHT_WRITE;

	/* also where the device is given more */
	fake.iwarp = true;
	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	id = channel_new(session, 1);
	ck_assert_int_eq(SERVER->reg_mr(session, memory, sizeof(memory), (unsigned)_i,
					NULL, &exposure),
			 0);
	await(&seen.exposeds, 1);
	expect_status(id, inband(INBAND_FILL, 0, 8, 1), write ? 0 : INBAND_REFUSED);
	expect_status(id, inband(INBAND_CRC, 0, 8, 1), read ? 0 : INBAND_REFUSED);
	expect_status(id, inband(INBAND_COPY, 8, 8, 1),
		      read && write ? 0 : INBAND_REFUSED);
	expect_status(id, inband(INBAND_NOTIFY, 0, 0, 1), write ? 0 : INBAND_REFUSED);
	close_all();
}
END_TEST

/* Malformed ones cost the channel, and that one only. */
START_TEST(request__that_breaks_the_rules_ends_the_channel)
{
	static const struct {
		uint32_t op, bytes, length;
		const char *why;
	} broken[] = {
		{ INBAND_PING, 1, 56, "too many bytes" },
		{ INBAND_NOTIFY, 1, 56, "too many bytes" },
		{ INBAND_FILL, 0, 56, "0 bytes" },
		{ INBAND_COPY, FABRIC_INBAND_BYTES_MAX + 1, 56, "too many bytes" },
		{ INBAND_CRC, UINT32_MAX, 56, "too many bytes" },
		{ 4, 8, 56, "unknown" },
		{ 0, 8, 56, "unknown" },
		{ INBAND_PING, 0, 0, "another length" },
		{ INBAND_PING, 0, 55, "another length" },
	};
	struct fabric_session *session;
	struct rdma_cm_id *id, *stays;
	struct inband_request request;

	/* there it is told at once */
	fake.iwarp = true;
	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	(void)exposure_new(session);
	stays = channel_new(session, 2);
	id = channel_new(session, 1);
	request = inband(broken[_i].op, 0, broken[_i].bytes, 1);
	fake_receive(id, &request, broken[_i].length);
	while (fake_live_qps() > 1) {
		await_readable();
		SERVER->process(server);
	}
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
	await(&seen.downs, 1);
	ck_assert_uint_eq(seen.channel, 1);
	ck_assert_msg(strstr(seen.why, broken[_i].why), "%s", seen.why);
	expect_status(stays, inband(INBAND_FILL, 0, 8, 1), INBAND_DONE);
	close_all();
}
END_TEST

/* It takes a receive, too, but brings no request: none that came before is done again. */
START_TEST(immediate__is_no_request)
{
	struct fabric_session *session;
	struct rdma_cm_id *id;

	fake.iwarp = true;
	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	(void)exposure_new(session);
	id = channel_new(session, 1);
	for (uint64_t i = 0; i < VERBS_CREDITS; i++)
		expect_status(id, inband(INBAND_FILL, 0, 100, i), INBAND_DONE);
	memset(memory, 0, sizeof(memory));
	fake_receive_immediate(id, sizeof(struct inband_request));
	while (fake_live_qps() > 0) {
		await_readable();
		SERVER->process(server);
	}
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
	await(&seen.downs, 1);
	ck_assert_msg(strstr(seen.why, "immediate"), "%s", seen.why);
	ck_assert(memory_is(0, sizeof(memory), 0));
	close_all();
}
END_TEST

/* One that does not take the answers has so many requests served, and no more. */
START_TEST(client__that_takes_no_answers_waits_for_itself)
{
	struct fabric_session *session;
	struct inband_request request;
	struct inband_answer answer;
	struct rdma_cm_id *id, *other;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	id = channel_new(session, 1);
	other = channel_new(session, 2);
	(void)exposure_new(session);
	for (uint64_t i = 0; i < 2 * VERBS_CREDITS; i++) {
		uint64_t until_ms = clock_now_ms() + WAIT_MS;

		/* the receive of one that is served is there again */
		while (fake_receives(id) == 0) {
			ck_assert_uint_lt(clock_now_ms(), until_ms);
			(void)sched_yield();
		}
		request = inband(INBAND_PING, 0, 0, i);
		fake_receive(id, &request, sizeof(request));
	}
	/* the poller has been through all of it, as it is through what came later elsewhere:
	 * half is served and has its answers on the wire, the other half waits, and there
	 * are no receives left for more */
	expect_status(other, inband(INBAND_PING, 0, 0, 1), INBAND_DONE);
	ck_assert_uint_eq(fake_receives(id), 0);
	for (uint64_t i = 0; i < 2 * VERBS_CREDITS; i++) {
		answer = answer_await(id);
		ck_assert_uint_eq(le64toh(answer.cookie), i);
	}
	expect_status(id, inband(INBAND_PING, 0, 0, 99), INBAND_DONE);
	close_all();
}
END_TEST

/* Requests of many channels, while they end one after the other. */
START_TEST(channel_close__is_through_when_it_returns)
{
	enum { CHANNELS = 12 };
	struct rdma_cm_id *ids[CHANNELS];
	struct fabric_session *session;
	struct inband_request request;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	(void)exposure_new(session);
	for (uint32_t i = 0; i < CHANNELS; i++)
		ids[i] = channel_new(session, i);
	request = inband(INBAND_FILL, 0, sizeof(memory), 1);
	for (uint32_t i = 0; i < CHANNELS; i++) {
		for (unsigned k = 0; k < VERBS_CREDITS; k++)
			fake_receive(ids[i], &request, sizeof(request));
		ck_assert_int_eq(SERVER->channel_close(session, i), 0);
		/* the poller may still find its completions */
		memset(memory, (char)i, sizeof(memory));
		(void)sched_yield();
		ck_assert(memory_is(0, sizeof(memory), (char)i));
	}
	SERVER->session_close(session);
	await(&seen.closeds, 1);
	close_all();
}
END_TEST

static atomic_bool hold, held;

/* The poller is in the middle of a request: its queue pair must not go, so wait for that. */
static void poller_hold(void)
{
	uint64_t until_ms = clock_now_ms() + HOLD_MS;

	if (!atomic_exchange(&hold, false))
		return;
	atomic_store(&held, true);
	while (fake_live_qps() > 0 && clock_now_ms() < until_ms)
		(void)sched_yield();
}

START_TEST(channel_close__waits_for_a_request_under_way)
{
	uint64_t until_ms = clock_now_ms() + WAIT_MS;
	struct fabric_session *session;
	struct inband_request request;
	struct rdma_cm_id *id;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	(void)exposure_new(session);
	id = channel_new(session, 1);
	fake.at_post_recv = poller_hold;
	atomic_store(&hold, true);
	request = inband(INBAND_FILL, 0, sizeof(memory), 1);
	fake_receive(id, &request, sizeof(request));
	while (!atomic_load(&held)) {
		ck_assert_uint_lt(clock_now_ms(), until_ms);
		(void)sched_yield();
	}
	ck_assert_int_eq(SERVER->channel_close(session, 1), 0);
	ck_assert(memory_is(0, sizeof(memory), 0x77));
	memset(memory, 1, sizeof(memory));
	/* joins the poller */
	close_all();
	ck_assert(memory_is(0, sizeof(memory), 1));
}
END_TEST

static unsigned flushes;

static void on_flushed(void *channel)
{
	ck_assert_ptr_eq(channel, &flushes);
	flushes++;
}

static void messages_deliver(struct mailbox *box)
{
	struct verbs_message *message;
	struct list messages;

	list_init(&messages);
	mailbox_take(box, &messages);
	while ((message = list_first(&messages, struct verbs_message, link))) {
		list_remove(&message->link);
		message->deliver(message);
	}
}

/* Its receives come back one after the other; it ends once, and its place is another's
 * then. */
START_TEST(channel__is_told_of_its_end_once)
{
	struct verbs_channel_ids slots;
	struct mailbox box;
	uint64_t number, next;

	ck_assert_int_eq(mailbox_init(&box), 0);
	ck_assert_int_eq(verbs_channel_ids_init(&slots, 1, &box, on_flushed), 0);
	ck_assert_int_eq(verbs_channel_ids_alloc(&slots, &flushes, &number), 0);
	for (unsigned i = 0; i < VERBS_CREDITS; i++) {
		verbs_channel_ids_flushed(&slots, number);
		messages_deliver(&box);
		ck_assert_uint_eq(flushes, 1);
	}
	verbs_channel_ids_free(&slots, number);
	ck_assert_int_eq(verbs_channel_ids_alloc(&slots, &flushes, &next), 0);
	verbs_channel_ids_flushed(&slots, number);
	messages_deliver(&box);
	ck_assert_uint_eq(flushes, 1);
	verbs_channel_ids_flushed(&slots, next);
	messages_deliver(&box);
	ck_assert_uint_eq(flushes, 2);
	verbs_channel_ids_free(&slots, next);
	verbs_channel_ids_destroy(&slots);
	mailbox_destroy(&box);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("verbs-inband");
	TCase *tcase = tcase_create("inband");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, requests__are_served_in_memory, 0, 2);
	tcase_add_test(tcase, notification__reaches_the_daemon);
	tcase_add_test(tcase, notifications__leave_turns_to_others);
	tcase_add_test(tcase, requests__reach_what_is_the_sessions_alone);
	tcase_add_loop_test(tcase, rights__are_those_that_were_given, 0, 4);
	tcase_add_loop_test(tcase, request__that_breaks_the_rules_ends_the_channel, 0,
			    9);
	tcase_add_test(tcase, immediate__is_no_request);
	tcase_add_test(tcase, client__that_takes_no_answers_waits_for_itself);
	tcase_add_test(tcase, channel__is_told_of_its_end_once);
	tcase_add_test(tcase, channel_close__is_through_when_it_returns);
	tcase_add_test(tcase, channel_close__waits_for_a_request_under_way);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
