/* SPDX-License-Identifier: BSD-3-Clause */
/* In-band operations of queues over a scripted fabric: how they are cut, where they go, what
 * is refused here, and what becomes of them when a channel dies. */
#include <errno.h>
#include <string.h>

#include "base/crc32c.h"
#include "unit/librmem/librmem-case.h"

static const unsigned char raw[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
static unsigned char far_a[SEG], far_b[SEG]; /* what `other` lies in */
static struct rmem_lease *other; /* its segments are of 7777 and SEG bytes */

static void other_new(unsigned rights)
{
	static unsigned char *const at[2] = { far_a, far_b };
	const uint64_t bytes[2] = { 7777, SEG }, other_keys[2] = { 31, 32 };

	other = stage_lease(9, rights, 2, at, bytes, other_keys);
	for (unsigned i = 0; i < SEG; i++) {
		far_a[i] = (unsigned char)(i * 3 + 1);
		far_b[i] = (unsigned char)(i * 5 + i / 256);
	}
}

static void inband_tcp(void)
{
	case_tcp();
	other_new(RMEM_READ | RMEM_WRITE);
}

static void inband_verbs(void)
{
	case_verbs();
	other_new(RMEM_READ | RMEM_WRITE);
}

/* Complete what is posted until nothing more comes; the completion is there. */
static void run_out(struct rmem_queue *queue)
{
	unsigned rounds = 0;

	while (rmem_poll(queue, done, 1) == 0) {
		ck_assert_uint_lt(rounds++, 1000);
		fake_complete_all();
	}
}

static unsigned char lease_byte(uint64_t at)
{
	return at < SEG ? seg_a[at] : seg_b[at - SEG];
}

static unsigned char other_byte(uint64_t at)
{
	return at < 7777 ? far_a[at] : far_b[at - 7777];
}

static struct rmem_op fill_of(uint64_t offset, uint64_t bytes, uint64_t cookie)
{
	struct rmem_op op = op_of(RMEM_OP_FILL, offset, NULL, bytes, cookie);

	memcpy(&op.pattern, raw, sizeof(raw));
	return op;
}

/* ---- what they do ---- */

START_TEST(fill__goes_on_over_segments)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	submit(queue, fill_of(SEG - 1003, 2006, 1));
	run_out(queue);
	ck_assert_int_eq(done[0].status, 0);
	ck_assert_uint_eq(done[0].bytes, 2006);
	for (uint64_t i = 0; i < 2ull * SEG; i++)
		ck_assert_uint_eq(lease_byte(i), i >= SEG - 1003 && i < SEG + 1003
							 ? raw[(i - (SEG - 1003)) % 8]
							 : 0);
	stage_close();
}
END_TEST

/* Three fragments: each side is cut where the other one is, too. */
START_TEST(copy__cuts_at_the_segments_of_both)
{
	const struct rmem_place source = { other, 100 };
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op op = op_of(RMEM_OP_COPY, 3, NULL, 25000, 1);

	op.source = &source;
	submit(queue, op);
	ck_assert_uint_eq(stage_channel(queue, 0)->n + stage_channel(queue, 1)->n, 3);
	ck_assert_int_eq(rmem_detach(other), -EBUSY);
	run_out(queue);
	ck_assert_int_eq(done[0].status, 0);
	for (uint64_t i = 0; i < 25000; i++)
		ck_assert_uint_eq(lease_byte(3 + i), other_byte(100 + i));
	ck_assert_uint_eq(lease_byte(2) + lease_byte(25003), 0);
	ck_assert_uint_eq(lease_inflight(other), 0);
	ck_assert_uint_eq(lease_inflight(lease), 0);
	stage_close();
}
END_TEST

START_TEST(crc__is_of_all_pieces_in_whatever_order_they_end)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	uint32_t crc = 7, expected;

	memcpy(seg_a, local, SEG);
	memcpy(seg_b, local + 77, SEG);
	expected = crc32c(0, seg_a + 9, SEG - 9);
	expected = crc32c(expected, seg_b, SEG - 9);
	submit(queue, op_of(RMEM_OP_CRC, 9, &crc, 2 * SEG - 18, 1));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 1);
	fake_complete(stage_channel(queue, 1 - (unsigned)_i), 0);
	expect_none(queue);
	fake_complete(stage_channel(queue, (unsigned)_i), 0);
	expect(queue, 1, 0);
	ck_assert_uint_eq(crc, expected);
	submit(queue, op_of(RMEM_OP_CRC, 9, &crc, 0, 2));
	expect(queue, 2, 0);
	ck_assert_uint_eq(crc, 0);
	stage_close();
}
END_TEST

START_TEST(ping__needs_no_lease)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op ops[3] = { op_of(RMEM_OP_READ, 0, local, 8, 1),
				  { .opcode = RMEM_OP_PING, .cookie = 2 },
				  op_of(RMEM_OP_READ, 0, local, 8, 3) };

	ck_assert_int_eq(rmem_submit(queue, ops, 3), 3);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 3);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 64), 3);
	ck_assert_uint_eq(fake.notifications, 0);
	stage_close();
}
END_TEST

/* No more requests are on a channel than it takes; whatever waits goes as they end. */
START_TEST(requests__keep_within_their_credits)
{
	struct rmem_queue *queue = stage_queue(64, 2);

	for (unsigned i = 0; i < 40; i++)
		submit(queue, fill_of(i * 16, 16, i));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, FAKE_REQUESTS);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, FAKE_REQUESTS);
	for (unsigned got = 0; got < 40;) {
		int n = rmem_poll(queue, done, 64);

		ck_assert_int_ge(n, 0);
		got += (unsigned)n;
		fake_complete_all();
	}
	for (uint64_t i = 0; i < 640; i++)
		ck_assert_uint_eq(lease_byte(i), raw[i % 8]);
	stage_close();
}
END_TEST

/* ---- write with notification ---- */

START_TEST(notification__goes_out_when_all_of_the_write_is_placed)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op op = op_of(RMEM_OP_WRITE_NOTIFY, SEG - 100, local, 200, 1);

	op.value = 42;
	submit(queue, op);
	fake_complete(stage_channel(queue, 0), 0);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 0);
	fake_complete(stage_channel(queue, 1), 0);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n + stage_channel(queue, 1)->n, 1);
	ck_assert_uint_eq(fake.notifications, 0);
	fake_complete_all();
	expect(queue, 1, 0);
	ck_assert_uint_eq(done[0].bytes, 200);
	ck_assert_uint_eq(fake.notifications, 1);
	ck_assert_uint_eq(fake.notified, 42);
	ck_assert_int_eq(memcmp(seg_a + SEG - 100, local, 100), 0);
	ck_assert_int_eq(memcmp(seg_b, local + 100, 100), 0);
	stage_close();
}
END_TEST

START_TEST(notification__alone_needs_no_bytes)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	/* also behind the last byte */
	struct rmem_op op = op_of(RMEM_OP_WRITE_NOTIFY, _i ? 2 * SEG : 0, NULL, 0, 1);

	op.value = 43;
	submit(queue, op);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	fake_complete_all();
	expect(queue, 1, 0);
	ck_assert_uint_eq(fake.notified, 43);
	stage_close();
}
END_TEST

/* Whether it came is not known: it is never sent again. */
START_TEST(notification__cut_off_is_of_unknown_outcome)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_WRITE_NOTIFY, 0, local, 8, 1);

	submit(queue, op);
	fake_complete_all();
	expect_none(queue);
	fake_complete(stage_channel(queue, 0), -ECONNRESET);
	expect(queue, 1, -ECONNRESET);
	ck_assert_msg(
		strstr(rmem_completion_error(queue), "whether it was done is unknown"),
		"%s", rmem_completion_error(queue));
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 0);
	stage_close();
}
END_TEST

/* A write that loses its channel goes again, and only then the notification. */
START_TEST(notification__waits_for_a_write_that_goes_again)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_WRITE_NOTIFY, 0, local, 8, 1);

	submit(queue, op);
	fake_complete(stage_channel(queue, 0), -ECONNRESET);
	expect_none(queue);
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	ck_assert_uint_eq(fake.notifications, 0);
	run_out(queue);
	ck_assert_int_eq(done[0].status, 0);
	ck_assert_uint_eq(fake.notifications, 1);
	ck_assert_int_eq(memcmp(seg_a, local, 8), 0);
	stage_close();
}
END_TEST

/* Of one that ends before its message is out, nothing hangs on what comes later in its
 * place. */
START_TEST(notification__not_sent_is_not_sent_later)
{
	struct rmem_queue *queue = stage_queue(1, 1);
	struct rmem_op op = op_of(RMEM_OP_WRITE_NOTIFY, 0, local, 8, 1);

	submit(queue, op);
	fake_complete(stage_channel(queue, 0), -EIO);
	expect(queue, 1, -EIO);
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	/* of a lease of one segment: it goes out at once, in the place of the other */
	op = op_of(RMEM_OP_WRITE, 0, local, 8, 2);
	op.lease =
		stage_lease(12, RMEM_READ | RMEM_WRITE, 1, segments, seg_bytes, keys);
	submit(queue, op);
	fake_complete_all();
	/* taken without a place for it first */
	ck_assert_int_eq(rmem_cancel(queue, NULL), 0);
	expect(queue, 2, 0);
	ck_assert_uint_eq(fake.notifications, 0);
	stage_close();
}
END_TEST

/* A ping is of no range, so none is told. */
START_TEST(ping__cancelled_says_so)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, (struct rmem_op){ .opcode = RMEM_OP_PING, .cookie = 1 });
	ck_assert_int_eq(rmem_cancel(queue, NULL), 1);
	expect(queue, 1, -ECANCELED);
	ck_assert_msg(strncmp(rmem_completion_error(queue),
			      "ping at stage:1: it was cancelled", 33) == 0,
		      "%s", rmem_completion_error(queue));
	stage_close();
}
END_TEST

/* ---- lost channels, keys, leases ---- */

START_TEST(requests__of_a_dead_channel_go_again)
{
	static const enum rmem_opcode opcodes[] = { RMEM_OP_FILL, RMEM_OP_COPY,
						    RMEM_OP_CRC, RMEM_OP_PING };
	const struct rmem_place source = { other, 0 };
	struct rmem_queue *queue = stage_queue(8, 1);
	uint32_t crc = 1;
	struct rmem_op op = op_of(opcodes[_i], 0, NULL, 100, 1);

	if (op.opcode == RMEM_OP_COPY)
		op.source = &source;
	if (op.opcode == RMEM_OP_CRC)
		op.addr = &crc;
	submit(queue, op);
	fake_complete(stage_channel(queue, 0), -ECONNRESET);
	expect_none(queue);
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	run_out(queue);
	ck_assert_int_eq(done[0].status, 0);
	ck_assert(op.opcode != RMEM_OP_CRC || crc == crc32c(0, seg_a, 100));
	stage_close();
}
END_TEST

/* A refusal waits for what the server says of both leases. */
START_TEST(copy__refused_goes_again_with_other_keys)
{
	static unsigned char *const at[2] = { far_a, far_b };
	const uint64_t bytes[2] = { 7777, SEG }, others[2] = { 41, 42 };
	const struct rmem_place source = { other, 0 };
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_COPY, 0, NULL, 100, 1);

	op.source = &source;
	submit(queue, op);
	ck_assert_uint_eq(stage_channel(queue, 0)->posted[0].request.source.rkey, 31);
	fake_complete(stage_channel(queue, 0), -EACCES);
	expect_none(queue);
	stage_rekey(lease, 2, segments, seg_bytes, keys);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 0);
	stage_rekey(other, 2, at, bytes, others);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	ck_assert_uint_eq(stage_channel(queue, 0)->posted[0].request.source.rkey, 41);
	fake_complete_all();
	expect(queue, 1, 0);
	stage_close();
}
END_TEST

START_TEST(copy__ends_with_either_lease)
{
	const struct rmem_place source = { other, 0 };
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_COPY, 0, NULL, 100, 1);

	op.source = &source;
	submit(queue, op);
	atomic_store(&(_i ? lease : other)->status, -ESTALE);
	fake_complete(stage_channel(queue, 0), -EACCES);
	expect(queue, 1, -ESTALE);
	submit(queue, op);
	expect(queue, 1, -ESTALE);
	ck_assert_uint_eq(lease_inflight(other), 0);
	stage_close();
}
END_TEST

START_TEST(cancel__finds_a_copy_by_its_source)
{
	const struct rmem_place source = { other, 0 };
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_COPY, 0, NULL, 100, 1);

	op.source = &source;
	submit(queue, op);
	ck_assert_int_eq(rmem_cancel(queue, other), 1);
	expect(queue, 1, -ECANCELED);
	/* whether it was done is as unknown as of a write, which is nothing to be said */
	ck_assert_ptr_null(strstr(rmem_completion_error(queue), "unknown"));
	stage_close();
}
END_TEST

/* The queue goes on with what can be put. */
START_TEST(request__that_cannot_be_put_ends_with_the_reason)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	fake.request_err = -ENOMEM;
	submit(queue, fill_of(0, 2 * SEG, 1));
	expect(queue, 1, -ENOMEM);
	ck_assert_msg(strstr(rmem_completion_error(queue), "Cannot allocate memory"),
		      "%s", rmem_completion_error(queue));
	fake.request_err = 0;
	submit(queue, fill_of(0, 8, 2));
	fake_complete_all();
	expect(queue, 2, 0);
	stage_close();
}
END_TEST

/* ---- what is refused here ---- */

START_TEST(submit__refuses_what_makes_no_sense)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op op = op_of(RMEM_OP_COPY, 0, NULL, 8, 1);
	struct rmem_place source = { NULL, 0 };

	ck_assert_int_eq(rmem_submit(queue, &op, 1), -EINVAL);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "without its source"));
	op.source = &source;
	ck_assert_int_eq(rmem_submit(queue, &op, 1), -EINVAL);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "source's lease"));
	op = fill_of(0, 8, 1);
	op.lease = NULL;
	ck_assert_int_eq(rmem_submit(queue, &op, 1), -EINVAL);
	op = fill_of(0, 8, 1);
	fake.no_inband[0] = '\0';
	ck_assert_int_eq(rmem_submit(queue, &op, 1), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "no in-band requests"));
	ck_assert_uint_eq(fake.posts, 0);
	stage_close();
}
END_TEST

START_TEST(operation__at_fault_completes_with_its_error)
{
	static const struct {
		enum rmem_opcode opcode;
		uint64_t offset, bytes, from;
		unsigned rights, other_rights;
		int err;
		const char *text;
	} bad[] = {
		{ RMEM_OP_FILL, 2 * SEG, 1, 0, 3, 3, -EINVAL, "beyond the lease" },
		{ RMEM_OP_FILL, 0, 8, 0, RMEM_READ, 3, -EACCES, "right" },
		{ RMEM_OP_COPY, 0, 8, 0, RMEM_READ, 3, -EACCES, "right" },
		{ RMEM_OP_COPY, 0, 8, 0, 3, RMEM_WRITE, -EACCES, "source" },
		{ RMEM_OP_COPY, 0, 8, 7777 + SEG - 7, 3, 3, -EINVAL, "the source" },
		{ RMEM_OP_COPY, 0, 8, UINT64_MAX - 3, 3, 3, -EINVAL, "the source" },
		{ RMEM_OP_CRC, 0, 8, 0, RMEM_WRITE, 3, -EACCES, "right" },
		{ RMEM_OP_CRC, 0, 8, 0, 3, 3, -EINVAL, "no place" },
		{ RMEM_OP_WRITE_NOTIFY, 0, 0, 0, RMEM_READ, 3, -EACCES, "right" },
		{ RMEM_OP_WRITE_NOTIFY, 0, 8, 0, 3, 3, -EINVAL, "NULL" },
	};
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op =
		op_of(bad[_i].opcode, bad[_i].offset, NULL, bad[_i].bytes, 1);
	struct rmem_place source;

	other_new(bad[_i].other_rights);
	op.lease = stage_lease(11, bad[_i].rights, 2, segments, seg_bytes, keys);
	source = (struct rmem_place){ other, bad[_i].from };
	if (op.opcode == RMEM_OP_COPY)
		op.source = &source;
	submit(queue, op);
	expect(queue, 1, bad[_i].err);
	ck_assert_msg(strstr(rmem_completion_error(queue), bad[_i].text), "%s",
		      rmem_completion_error(queue));
	ck_assert_uint_eq(fake.posts, 0);
	stage_close();
}
END_TEST

START_TEST(copy__onto_itself_is_refused_where_it_overlaps)
{
	static const struct {
		uint64_t to, from, bytes;
		int err;
	} cases[] = {
		{ 0, 0, 8, -EINVAL }, { 0, 7, 8, -EINVAL }, { 7, 0, 8, -EINVAL },
		{ 0, 8, 8, 0 },       { 8, 0, 8, 0 },       { 100, 50, 200, -EINVAL },
	};
	const struct rmem_place source = { lease, cases[_i].from };
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_COPY, cases[_i].to, NULL, cases[_i].bytes, 1);

	op.source = &source;
	submit(queue, op);
	run_out(queue);
	ck_assert_int_eq(done[0].status, cases[_i].err);
	stage_close();
}
END_TEST

/* An endpoint that serves none is passed by, for requests alone. */
START_TEST(requests__go_only_where_they_are_served)
{
	struct rmem_queue *queue = stage_queue(64, 2);

	/* the second one's device */
	(void)strcpy(stage.session.domains.domains[1].fabric->endpoint.device, "lame");
	(void)strcpy(fake.no_inband, "lame");
	submit(queue, fill_of(0, 8, 1));
	submit(queue, fill_of(0, 8, 2));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 2);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 0);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 64), 2);
	stage_close();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-inband");
	TCase *tcp = tcase_create("tcp"), *verbs = tcase_create("verbs");

	tcase_set_timeout(tcp, 60);
	tcase_set_timeout(verbs, 60);
	tcase_add_checked_fixture(tcp, inband_tcp, NULL);
	tcase_add_checked_fixture(verbs, inband_verbs, NULL);
	tcase_add_test(tcp, fill__goes_on_over_segments);
	tcase_add_test(verbs, fill__goes_on_over_segments);
	tcase_add_test(tcp, copy__cuts_at_the_segments_of_both);
	tcase_add_loop_test(tcp, crc__is_of_all_pieces_in_whatever_order_they_end, 0,
			    2);
	tcase_add_loop_test(verbs, crc__is_of_all_pieces_in_whatever_order_they_end, 0,
			    2);
	tcase_add_test(tcp, ping__needs_no_lease);
	tcase_add_test(tcp, requests__keep_within_their_credits);
	tcase_add_test(tcp, notification__goes_out_when_all_of_the_write_is_placed);
	tcase_add_test(verbs, notification__goes_out_when_all_of_the_write_is_placed);
	tcase_add_loop_test(tcp, notification__alone_needs_no_bytes, 0, 2);
	tcase_add_test(tcp, notification__cut_off_is_of_unknown_outcome);
	tcase_add_test(tcp, notification__waits_for_a_write_that_goes_again);
	tcase_add_test(tcp, notification__not_sent_is_not_sent_later);
	tcase_add_loop_test(tcp, requests__of_a_dead_channel_go_again, 0, 4);
	tcase_add_test(tcp, copy__refused_goes_again_with_other_keys);
	tcase_add_loop_test(tcp, copy__ends_with_either_lease, 0, 2);
	tcase_add_test(tcp, cancel__finds_a_copy_by_its_source);
	tcase_add_test(tcp, ping__cancelled_says_so);
	tcase_add_test(tcp, request__that_cannot_be_put_ends_with_the_reason);
	tcase_add_test(tcp, submit__refuses_what_makes_no_sense);
	tcase_add_loop_test(tcp, operation__at_fault_completes_with_its_error, 0, 10);
	tcase_add_loop_test(tcp, copy__onto_itself_is_refused_where_it_overlaps, 0, 6);
	tcase_add_test(tcp, requests__go_only_where_they_are_served);
	suite_add_tcase(suite, tcp);
	suite_add_tcase(suite, verbs);
	return unit_main(suite);
}
