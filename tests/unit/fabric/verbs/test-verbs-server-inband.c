/* SPDX-License-Identifier: BSD-3-Clause */
/* In-band requests at a verbs server over the fake libraries: what a client may do, and
 * how malformed and excessive requests end.  The poller is a thread. */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "fabric/verbs/server/poller.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-server-stage.h"

#define WAIT_MS 10000
/* Time given to an event that must not happen. */
#define HOLD_MS 100

/* The poller answers from its thread. */
static struct inband_answer await_answer(struct rdma_cm_id *peer)
{
	uint64_t until_ms = clock_now_ms() + WAIT_MS;
	struct inband_answer answer;

	while (!fake_pop_send(peer, &answer, sizeof(answer))) {
		ck_assert_msg(clock_now_ms() < until_ms, "no answer came");
		(void)sched_yield();
	}
	return answer;
}

static struct inband_answer run(struct rdma_cm_id *peer, struct inband_request request)
{
	struct inband_answer answer;

	fake_receive(peer, &request, sizeof(request));
	answer = await_answer(peer);
	ck_assert_uint_eq(answer.cookie, request.cookie);
	return answer;
}

static void expect_status(struct rdma_cm_id *peer, struct inband_request request,
			  uint32_t status)
{
	ck_assert_uint_eq(le32toh(run(peer, request).status), status);
}

static struct fabric_session *session;
static struct rdma_cm_id *id;

/* Open a server with channel 1 and a memory region. */
static void open_channel(void)
{
	session = server_open_session();
	id = channel_new(session, 1);
	(void)mr_new(session);
}

/* Expect that channel 1, on iWARP, ends for this reason, and its queue pair with it. */
static void expect_end(unsigned n_qps, const char *why)
{
	await(&seen.downs, 1);
	ck_assert_uint_eq(live_qps(), n_qps);
	ck_assert_uint_eq(seen.channel, 1);
	ck_assert_msg(strstr(seen.why, why), "%s", seen.why);
}

START_TEST(requests__are_executed_in_memory)
{
	struct inband_answer answer;

	verbs_fake.iwarp = _i;
	open_channel();
	memset(memory, 0, sizeof(memory));
	expect_status(id, inband_make(FABRIC_PING, 0, 0, 1), FABRIC_DONE);
	expect_status(id, inband_make(FABRIC_FILL, 0, 100, 2), FABRIC_DONE);
	expect_status(id, inband_make(FABRIC_COPY, 200, 100, 3), FABRIC_DONE);
	ck_assert(bytes_equal(memory, 100, 0x77) && bytes_equal(memory + 100, 100, 0));
	ck_assert(bytes_equal(memory + 200, 100, 0x77) &&
		  bytes_equal(memory + 300, 3796, 0));
	answer = run(id, inband_make(FABRIC_CRC, 0, sizeof(memory), 4));
	ck_assert_uint_eq(le64toh(answer.result), crc32c(0, memory, sizeof(memory)));
	ck_assert_uint_eq(fake_receives(id), INBAND_CREDITS);
	session_end(session);
}
END_TEST

static const struct {
	enum ibv_wc_status status;
	const char *why;
} causes[] = {
	{ IBV_WC_RETRY_EXC_ERR, "client is lost" },
	{ IBV_WC_RNR_RETRY_EXC_ERR, "client is lost" },
	{ IBV_WC_LOC_PROT_ERR, "failed" },
};

/* The server's own request fails: no access was refused. */
START_TEST(answer__that_fails_tells_why_the_channel_ends)
{
	struct inband_request request;
	struct fake_send sends[FAKE_SENDS];

	open_channel();
	request = inband_make(FABRIC_PING, 0, 0, 1);
	fake_receive(id, &request, sizeof(request));
	while (fake_sends(sends) == 0)
		(void)sched_yield();
	fake_fail(causes[_i].status);
	await(&seen.downs, 1);
	ck_assert_msg(strstr(seen.why, causes[_i].why), "%s", seen.why);
	ck_assert_uint_eq(seen.refused, 0);
}
END_TEST

START_TEST(requests__refused_are_counted)
{
	open_channel();
	for (unsigned i = 0; i < 10; i++)
		expect_status(id, inband_make(FABRIC_CRC, 4097, 8, 1), FABRIC_OUTSIDE);
	await(&seen.refused, 10);
	ck_assert_uint_eq(seen.downs, 0);
	/* those not reported yet are reported before the session is closed */
	expect_status(id, inband_make(FABRIC_CRC, 4097, 8, 1), FABRIC_OUTSIDE);
	session_end(session);
	ck_assert_uint_eq(seen.refused, 11);
}
END_TEST

START_TEST(notification__reaches_the_daemon)
{
	struct inband_request request;

	open_channel();
	request = inband_make(FABRIC_NOTIFY, 4096, 0, 1);
	request.operands.operand = htole64(0xfedcba9876543210);
	expect_status(id, request, FABRIC_DONE);
	await(&seen.notified, 1);
	ck_assert_uint_eq(seen.value, 0x76543210);
	ck_assert_uint_eq(seen.lost, 0);
	/* undelivered notifications are delivered before mr_deregistered() */
	for (unsigned i = 0; i < FABRIC_NOTIFICATIONS_MAX + 10; i++)
		expect_status(id, request, FABRIC_DONE);
	session_end(session);
	ck_assert_uint_eq(seen.notified, 1 + FABRIC_NOTIFICATIONS_MAX);
	ck_assert_uint_eq(seen.lost, 10);
}
END_TEST

/* Each process() delivers the notifications of one memory region. */
START_TEST(notifications__are_delivered_in_turns)
{
	struct fabric_key keys[3];

	open_channel();
	for (unsigned i = 0; i < 3; i++) {
		if (i > 0)
			(void)mr_new(session);
		keys[i] = seen.key;
	}
	for (unsigned i = 0; i < 3; i++) {
		seen.key = keys[i];
		expect_status(id, inband_make(FABRIC_NOTIFY, 0, 0, i), FABRIC_DONE);
	}
	seen.notified_ms = 20;
	for (unsigned i = 1; i <= 3; i++) {
		process_next();
		ck_assert_uint_eq(seen.notified, i);
	}
	seen.notified_ms = 0;
}
END_TEST

START_TEST(requests__reach_only_memory_of_their_session)
{
	struct fabric_mr *mr;
	struct rdma_cm_id *other_id;

	session = server_open_session();
	id = channel_new(session, 1);
	other_id = channel_new(session_new(0), 1);
	mr = mr_new(session);
	memset(memory, 0, sizeof(memory));
	for (uint32_t op = FABRIC_FILL; op <= FABRIC_NOTIFY; op++) {
		uint32_t bytes = op == FABRIC_NOTIFY ? 0 : 8;

		expect_status(other_id, inband_make(op, 0, bytes, 1), FABRIC_STALE);
		expect_status(id, inband_make(op, 4097, bytes, 1), FABRIC_OUTSIDE);
		expect_status(id, inband_make(op, UINT64_MAX, bytes, 1),
			      FABRIC_OUTSIDE);
		if (bytes)
			expect_status(id, inband_make(op, 4089, 8, 1), FABRIC_OUTSIDE);
	}
	/* as soon as dereg_mr() has returned */
	SERVER->dereg_mr(mr);
	for (uint32_t op = FABRIC_FILL; op <= FABRIC_NOTIFY; op++)
		expect_status(id, inband_make(op, 0, op == FABRIC_NOTIFY ? 0 : 8, 1),
			      FABRIC_STALE);
	await(&seen.deregistered, 1);
	ck_assert(bytes_equal(memory, sizeof(memory), 0));
	ck_assert_uint_eq(seen.notified, 0);
	ck_assert_uint_eq(seen.downs, 0);
}
END_TEST

START_TEST(rights__limit_requests)
{
	bool read = (unsigned)_i & FABRIC_RIGHT_READ;
	bool write = (unsigned)_i & FABRIC_RIGHT_WRITE;

	/* also where the device's access flags grant more */
	verbs_fake.iwarp = true;
	session = server_open_session();
	id = channel_new(session, 1);
	(void)mr_request(session, sizeof(memory), (unsigned)_i);
	await(&seen.registered, 1);
	expect_status(id, inband_make(FABRIC_FILL, 0, 8, 1),
		      write ? 0 : FABRIC_FORBIDDEN);
	expect_status(id, inband_make(FABRIC_CRC, 0, 8, 1),
		      read ? 0 : FABRIC_FORBIDDEN);
	expect_status(id, inband_make(FABRIC_COPY, 8, 8, 1),
		      read && write ? 0 : FABRIC_FORBIDDEN);
	expect_status(id, inband_make(FABRIC_NOTIFY, 0, 0, 1),
		      write ? 0 : FABRIC_FORBIDDEN);
}
END_TEST

/* Only the channel of the request ends. */
START_TEST(request__malformed_ends_the_channel)
{
	static const struct {
		uint32_t op, bytes, length;
		const char *why;
	} invalid[] = {
		{ FABRIC_PING, 1, 56, "too many bytes" },
		{ FABRIC_NOTIFY, 1, 56, "too many bytes" },
		{ FABRIC_FILL, 0, 56, "0 bytes" },
		{ FABRIC_COPY, FABRIC_INBAND_BYTES_MAX + 1, 56, "too many bytes" },
		{ FABRIC_CRC, UINT32_MAX, 56, "too many bytes" },
		{ 4, 8, 56, "unknown" },
		{ 0, 8, 56, "unknown" },
		{ FABRIC_PING | 1u << 16, 0, 56, "unknown flags" },
		{ FABRIC_PING, 0, 0, "another length" },
		{ FABRIC_PING, 0, 55, "another length" },
	};
	struct rdma_cm_id *unaffected;
	struct inband_request request;

	verbs_fake.iwarp = true;
	open_channel();
	unaffected = channel_new(session, 2);
	request = inband_make(invalid[_i].op, 0, invalid[_i].bytes, 1);
	fake_receive(id, &request, invalid[_i].length);
	expect_end(1, invalid[_i].why);
	expect_status(unaffected, inband_make(FABRIC_FILL, 0, 8, 1), FABRIC_DONE);
}
END_TEST

/* A write with immediate also completes a receive, but carries no request; an old
 * request in the receive's memory is not executed again. */
START_TEST(immediate__is_not_a_request)
{
	verbs_fake.iwarp = true;
	open_channel();
	for (uint64_t i = 0; i < INBAND_CREDITS; i++)
		expect_status(id, inband_make(FABRIC_FILL, 0, 100, i), FABRIC_DONE);
	memset(memory, 0, sizeof(memory));
	fake_receive_immediate(id, sizeof(struct inband_request));
	expect_end(0, "immediate");
	ck_assert(bytes_equal(memory, sizeof(memory), 0));
}
END_TEST

/* Requests of a client that does not read answers wait when its credits are used up. */
START_TEST(client__that_reads_no_answers_delays_only_itself)
{
	struct inband_request request;
	struct inband_answer answer;
	struct rdma_cm_id *other;

	open_channel();
	other = channel_new(session, 2);
	for (uint64_t i = 0; i < 2 * INBAND_CREDITS; i++) {
		uint64_t until_ms = clock_now_ms() + WAIT_MS;

		/* the receive of an executed request is posted again */
		while (fake_receives(id) == 0) {
			ck_assert_uint_lt(clock_now_ms(), until_ms);
			(void)sched_yield();
		}
		request = inband_make(FABRIC_PING, 0, 0, i);
		fake_receive(id, &request, sizeof(request));
	}
	/* the poller has seen all of them once it has executed a later one of another
	 * channel: half are executed and their answers sent, the other half wait, and
	 * no receive is left */
	expect_status(other, inband_make(FABRIC_PING, 0, 0, 1), FABRIC_DONE);
	ck_assert_uint_eq(fake_receives(id), 0);
	for (uint64_t i = 0; i < 2 * INBAND_CREDITS; i++) {
		answer = await_answer(id);
		ck_assert_uint_eq(le64toh(answer.cookie), i);
	}
	expect_status(id, inband_make(FABRIC_PING, 0, 0, 99), FABRIC_DONE);
}
END_TEST

/* Channels with requests are closed one after the other. */
START_TEST(channel_close__ends_all_access_when_it_returns)
{
	enum { CHANNELS = 12 };
	struct rdma_cm_id *ids[CHANNELS];
	struct inband_request request;

	session = server_open_session();
	(void)mr_new(session);
	for (uint32_t i = 0; i < CHANNELS; i++)
		ids[i] = channel_new(session, i);
	request = inband_make(FABRIC_FILL, 0, sizeof(memory), 1);
	for (uint32_t i = 0; i < CHANNELS; i++) {
		for (unsigned k = 0; k < INBAND_CREDITS; k++)
			fake_receive(ids[i], &request, sizeof(request));
		ck_assert_int_eq(SERVER->channel_close(session, i), 0);
		/* the poller may still poll its completions */
		memset(memory, (char)i, sizeof(memory));
		(void)sched_yield();
		ck_assert(bytes_equal(memory, sizeof(memory), (char)i));
	}
	session_end(session);
}
END_TEST

static atomic_bool hold, held;

/* Hold the poller in the middle of a request, long enough to see its queue pair
 * destroyed, which must not happen. */
static void hold_poller(void)
{
	uint64_t until_ms = clock_now_ms() + HOLD_MS;

	if (!atomic_exchange(&hold, false))
		return;
	atomic_store(&held, true);
	while (live_qps() > 0 && clock_now_ms() < until_ms)
		(void)sched_yield();
}

START_TEST(channel_close__waits_for_a_request_in_progress)
{
	uint64_t until_ms = clock_now_ms() + WAIT_MS;
	struct inband_request request;

	open_channel();
	verbs_fake.before_post_recv = hold_poller;
	atomic_store(&hold, true);
	request = inband_make(FABRIC_FILL, 0, sizeof(memory), 1);
	fake_receive(id, &request, sizeof(request));
	while (!atomic_load(&held)) {
		ck_assert_uint_lt(clock_now_ms(), until_ms);
		(void)sched_yield();
	}
	ck_assert_int_eq(SERVER->channel_close(session, 1), 0);
	ck_assert(bytes_equal(memory, sizeof(memory), 0x77));
	memset(memory, 1, sizeof(memory));
	/* joins the poller's thread */
	server_close();
	ck_assert(bytes_equal(memory, sizeof(memory), 1));
}
END_TEST

static unsigned flushes;

static void on_flushed(void *channel, enum ibv_wc_status status)
{
	ck_assert_int_eq(status, IBV_WC_WR_FLUSH_ERR);
	ck_assert_ptr_eq(channel, &flushes);
	flushes++;
}

static void messages_deliver(struct mailbox *box)
{
	struct verbs_message *message;
	struct list messages;

	list_init(&messages);
	mailbox_receive(box, &messages);
	while ((message = list_first(&messages, struct verbs_message, link))) {
		list_remove(&message->link);
		message->deliver(message);
	}
}

/* The receives of a channel are flushed one after the other; the first one is reported,
 * and none is after another channel has the id. */
START_TEST(channel__flushed_is_reported_once)
{
	struct verbs_channel_ids ids;
	struct mailbox box;
	uint64_t number, next;

	ck_assert_int_eq(mailbox_init(&box), 0);
	ck_assert_int_eq(verbs_channel_ids_init(&ids, 1, &box, on_flushed), 0);
	ck_assert_int_eq(verbs_channel_ids_alloc(&ids, &flushes, &number), 0);
	for (unsigned i = 0; i < INBAND_CREDITS; i++) {
		verbs_channel_ids_flushed(&ids, number, IBV_WC_WR_FLUSH_ERR);
		messages_deliver(&box);
		ck_assert_uint_eq(flushes, 1);
	}
	verbs_channel_ids_free(&ids, number);
	ck_assert_int_eq(verbs_channel_ids_alloc(&ids, &flushes, &next), 0);
	verbs_channel_ids_flushed(&ids, number, IBV_WC_RETRY_EXC_ERR);
	messages_deliver(&box);
	ck_assert_uint_eq(flushes, 1);
	verbs_channel_ids_flushed(&ids, next, IBV_WC_WR_FLUSH_ERR);
	messages_deliver(&box);
	ck_assert_uint_eq(flushes, 2);
	verbs_channel_ids_free(&ids, next);
	verbs_channel_ids_destroy(&ids);
	mailbox_destroy(&box);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("inband", NULL, server_close);

	tcase_add_loop_test(tcase, answer__that_fails_tells_why_the_channel_ends, 0,
			    COUNT(causes));
	tcase_add_test(tcase, requests__refused_are_counted);
	tcase_add_loop_test(tcase, requests__are_executed_in_memory, 0, 2);
	tcase_add_test(tcase, notification__reaches_the_daemon);
	tcase_add_test(tcase, notifications__are_delivered_in_turns);
	tcase_add_test(tcase, requests__reach_only_memory_of_their_session);
	tcase_add_loop_test(tcase, rights__limit_requests, 0, 4);
	tcase_add_loop_test(tcase, request__malformed_ends_the_channel, 0, 10);
	tcase_add_test(tcase, immediate__is_not_a_request);
	tcase_add_test(tcase, client__that_reads_no_answers_delays_only_itself);
	tcase_add_test(tcase, channel__flushed_is_reported_once);
	tcase_add_test(tcase, channel_close__ends_all_access_when_it_returns);
	tcase_add_test(tcase, channel_close__waits_for_a_request_in_progress);
	return unit_main();
}
