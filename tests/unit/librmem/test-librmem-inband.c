/* SPDX-License-Identifier: BSD-3-Clause */
/* In-band operations of queues over the fake fabric: how they are cut, the choice of the
 * channel, refused operations, and dead channels. */
#include <errno.h>
#include <string.h>

#include "base/crc32c.h"
#include "unit/librmem/librmem-case.h"

static const unsigned char pattern[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
static unsigned char far_a[SEG], far_b[SEG]; /* the segments of `other` */
static unsigned char *const other_segments[2] = { far_a, far_b };
static const uint64_t other_bytes[2] = { 7777, SEG };
static struct rmem_lease *other;

static void other_create(unsigned rights)
{
	const uint64_t other_keys[2] = { 31, 32 };

	other = stage_lease(9, rights, 2, other_segments, other_bytes, other_keys);
	for (unsigned i = 0; i < SEG; i++) {
		far_a[i] = (unsigned char)(i * 3 + 1);
		far_b[i] = (unsigned char)(i * 5 + i / 256);
	}
}

static void other_setup(void)
{
	other_create(RMEM_READ | RMEM_WRITE);
}

/* Complete whatever is posted until the operation has ended. */
static void run(struct rmem_queue *queue, int status)
{
	complete_until_done(queue);
	ck_assert_int_eq(done[0].status, status);
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

	memcpy(&op.pattern, pattern, sizeof(pattern));
	return op;
}

/* To `lease`, from `other`. */
static struct rmem_op copy_of(uint64_t to, uint64_t from, uint64_t bytes)
{
	static struct rmem_source source;
	struct rmem_op op = op_of(RMEM_OP_COPY, to, NULL, bytes, 1);

	source = (struct rmem_source){ other, from };
	op.source = &source;
	return op;
}

/* ---- requests ---- */

START_TEST(fill__spans_segments)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	submit(queue, fill_of(SEG - 1003, 2006, 1));
	run(queue, 0);
	ck_assert_uint_eq(done[0].bytes, 2006);
	for (uint64_t i = 0; i < 2ull * SEG; i++)
		ck_assert_uint_eq(lease_byte(i),
				  i >= SEG - 1003 && i < SEG + 1003
					  ? pattern[(i - (SEG - 1003)) % 8]
					  : 0);
}
END_TEST

/* Three fragments: each side is also cut where the other is. */
START_TEST(copy__is_cut_at_segments_of_both_leases)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	submit(queue, copy_of(3, 100, 25000));
	ck_assert_uint_eq(stage_posted(queue), 3);
	ck_assert_int_eq(rmem_detach(other), -EBUSY);
	run(queue, 0);
	for (uint64_t i = 0; i < 25000; i++)
		ck_assert_uint_eq(lease_byte(3 + i), other_byte(100 + i));
	ck_assert_uint_eq(lease_byte(2) + lease_byte(25003), 0);
	ck_assert_uint_eq(lease_inflight(other), 0);
	ck_assert_uint_eq(lease_inflight(lease), 0);
}
END_TEST

START_TEST(crc__combines_fragments_completed_in_any_order)
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
	complete_quietly(queue, 1 - (unsigned)_i, 0);
	fake_complete(stage_channel(queue, (unsigned)_i), 0);
	expect(queue, 1, 0);
	ck_assert_uint_eq(crc, expected);
	submit(queue, op_of(RMEM_OP_CRC, 9, &crc, 0, 2));
	expect(queue, 2, 0);
	ck_assert_uint_eq(crc, 0);
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
	complete_and_poll(queue, 3);
	ck_assert_uint_eq(fake.notifications, 0);
}
END_TEST

/* The requests beyond the limit of each channel wait. */
START_TEST(requests__stay_within_their_credits)
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
		ck_assert_uint_eq(lease_byte(i), pattern[i % 8]);
}
END_TEST

/* ---- write with notification ---- */

START_TEST(notification__is_sent_after_the_whole_write)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op op = op_of(RMEM_OP_WRITE_NOTIFY, SEG - 100, local, 200, 1);

	op.value = 42;
	submit(queue, op);
	complete_quietly(queue, 0, 0);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 0);
	complete_quietly(queue, 1, 0);
	ck_assert_uint_eq(stage_posted(queue), 1);
	ck_assert_uint_eq(fake.notifications, 0);
	complete_and_expect(queue, 1);
	ck_assert_uint_eq(done[0].bytes, 200);
	ck_assert_uint_eq(fake.notifications, 1);
	ck_assert_uint_eq(fake.notified, 42);
	ck_assert_int_eq(memcmp(seg_a + SEG - 100, local, 100), 0);
	ck_assert_int_eq(memcmp(seg_b, local + 100, 100), 0);
}
END_TEST

START_TEST(notification__needs_no_data)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	/* also behind the last byte */
	struct rmem_op op = op_of(RMEM_OP_WRITE_NOTIFY, _i ? 2 * SEG : 0, NULL, 0, 1);

	op.value = 43;
	submit(queue, op);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	complete_and_expect(queue, 1);
	ck_assert_uint_eq(fake.notified, 43);
}
END_TEST

/* The server may have received it: it is not sent again. */
START_TEST(notification__interrupted_has_an_unknown_outcome)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_WRITE_NOTIFY, 0, local, 8, 1);

	submit(queue, op);
	fake_complete_all();
	expect_none(queue);
	fake_complete(stage_channel(queue, 0), -ECONNRESET);
	peer_closes(queue, 0);
	expect_error(queue, 1, -ECONNRESET, "whether it was done is unknown");
	reconnect(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 0);
}
END_TEST

/* The write is posted again after its channel died, then the notification. */
START_TEST(notification__waits_for_a_retried_write)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_WRITE_NOTIFY, 0, local, 8, 1);

	submit(queue, op);
	complete_quietly(queue, 0, -ECONNRESET);
	reconnect(queue);
	ck_assert_uint_eq(fake.notifications, 0);
	run(queue, 0);
	ck_assert_uint_eq(fake.notifications, 1);
	ck_assert_int_eq(memcmp(seg_a, local, 8), 0);
}
END_TEST

/* The next operation, which reuses its slot, does not send it either. */
START_TEST(notification__of_a_failed_write_is_never_sent)
{
	struct rmem_queue *queue = stage_queue(1, 1);
	struct rmem_op op = op_of(RMEM_OP_WRITE_NOTIFY, 0, local, 8, 1);

	submit(queue, op);
	fake_complete(stage_channel(queue, 0), -EIO);
	peer_closes(queue, 0);
	expect(queue, 1, -EIO);
	reconnect(queue);
	/* on a lease of one segment: posted at once, in the slot of the failed one */
	op = op_of(RMEM_OP_WRITE, 0, local, 8, 2);
	op.lease = case_lease(12, RMEM_READ | RMEM_WRITE, 1);
	submit(queue, op);
	fake_complete_all();
	/* rmem_cancel() processes completions, too */
	ck_assert_int_eq(rmem_cancel(queue, NULL), 0);
	expect(queue, 2, 0);
	ck_assert_uint_eq(fake.notifications, 0);
}
END_TEST

START_TEST(cancelled_ping__names_no_range)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, (struct rmem_op){ .opcode = RMEM_OP_PING, .cookie = 1 });
	ck_assert_int_eq(rmem_cancel(queue, NULL), 1);
	expect(queue, 1, -ECANCELED);
	ck_assert_msg(strncmp(rmem_completion_error(queue, NULL),
			      "ping at stage:1: it was cancelled", 33) == 0,
		      "%s", rmem_completion_error(queue, NULL));
}
END_TEST

/* ---- lost channels, keys, leases ---- */

START_TEST(requests__of_a_dead_channel_are_posted_again)
{
	static const enum rmem_opcode opcodes[] = { RMEM_OP_FILL, RMEM_OP_COPY,
						    RMEM_OP_CRC, RMEM_OP_PING };
	struct rmem_queue *queue = stage_queue(8, 1);
	uint32_t crc = 1;
	struct rmem_op op = opcodes[_i] == RMEM_OP_COPY
				    ? copy_of(0, 0, 100)
				    : op_of(opcodes[_i], 0, NULL, 100, 1);

	if (op.opcode == RMEM_OP_CRC)
		op.addr = &crc;
	submit(queue, op);
	complete_quietly(queue, 0, -ECONNRESET);
	reconnect(queue);
	run(queue, 0);
	ck_assert(op.opcode != RMEM_OP_CRC || crc == crc32c(0, seg_a, 100));
}
END_TEST

/* It waits for the server's answers about both leases. */
START_TEST(refused_copy__is_posted_again_with_new_rkeys)
{
	const uint64_t new_keys[2] = { 41, 42 };
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, copy_of(0, 0, 100));
	ck_assert_uint_eq(stage_channel(queue, 0)->posted[0].request.source.rkey, 31);
	complete_quietly(queue, 0, -EACCES);
	stage_rekey(lease, 2, segments, seg_bytes, keys);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 0);
	stage_rekey(other, 2, other_segments, other_bytes, new_keys);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	ck_assert_uint_eq(stage_channel(queue, 0)->posted[0].request.source.rkey, 41);
	complete_and_expect(queue, 1);
}
END_TEST

START_TEST(copy__ends_with_either_lease)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = copy_of(0, 0, 100);

	submit(queue, op);
	atomic_store(&(_i ? lease : other)->status, -ESTALE);
	fake_complete(stage_channel(queue, 0), -EACCES);
	expect(queue, 1, -ESTALE);
	submit(queue, op);
	expect(queue, 1, -ESTALE);
	ck_assert_uint_eq(lease_inflight(other), 0);
}
END_TEST

START_TEST(cancel__finds_a_copy_by_its_source)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, copy_of(0, 0, 100));
	ck_assert_int_eq(rmem_cancel(queue, other), 1);
	peer_closes(queue, 0);
	expect(queue, 1, -ECANCELED);
	/* a copy may be repeated, so its error does not report an unknown outcome */
	ck_assert_ptr_null(strstr(rmem_completion_error(queue, NULL), "unknown"));
}
END_TEST

/* The queue still works after that. */
START_TEST(request__that_cannot_be_prepared_fails)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	fake.inband_err = -ENOMEM;
	submit(queue, fill_of(0, 2 * SEG, 1));
	expect_error(queue, 1, -ENOMEM, "Cannot allocate memory");
	fake.inband_err = 0;
	submit(queue, fill_of(0, 8, 2));
	complete_and_expect(queue, 2);
}
END_TEST

/* ---- validation ---- */

START_TEST(submit__refuses_invalid_requests)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op op = op_of(RMEM_OP_COPY, 0, NULL, 8, 1);
	struct rmem_source source = { NULL, 0 };

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
}
END_TEST

START_TEST(invalid_operation__completes_with_an_error)
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
	struct rmem_source source;

	other_create(bad[_i].other_rights);
	op.lease = case_lease(11, bad[_i].rights, 2);
	source = (struct rmem_source){ other, bad[_i].from };
	if (op.opcode == RMEM_OP_COPY)
		op.source = &source;
	submit(queue, op);
	expect(queue, 1, bad[_i].err);
	ck_assert_msg(strstr(rmem_completion_error(queue, NULL), bad[_i].text), "%s",
		      rmem_completion_error(queue, NULL));
	ck_assert_uint_eq(fake.posts, 0);
}
END_TEST

START_TEST(copy__refuses_overlapping_ranges)
{
	static const struct {
		uint64_t to, from, bytes;
		int err;
	} cases[] = {
		{ 0, 0, 8, -EINVAL }, { 0, 7, 8, -EINVAL }, { 7, 0, 8, -EINVAL },
		{ 0, 8, 8, 0 },       { 8, 0, 8, 0 },       { 100, 50, 200, -EINVAL },
	};
	const struct rmem_source source = { lease, cases[_i].from };
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_COPY, cases[_i].to, NULL, cases[_i].bytes, 1);

	op.source = &source;
	submit(queue, op);
	run(queue, cases[_i].err);
}
END_TEST

/* The second endpoint serves none. */
START_TEST(requests__use_only_endpoints_that_serve_them)
{
	struct rmem_queue *queue = stage_queue(64, 2);

	(void)strcpy(stage.session.domains->domains[1].fabric->endpoint.device,
		     "no-inband");
	(void)strcpy(fake.no_inband, "no-inband");
	submit(queue, fill_of(0, 8, 1));
	submit(queue, fill_of(0, 8, 2));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 2);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 0);
	complete_and_poll(queue, 2);
}
END_TEST

int main(void)
{
	TCase *tcp = tcp_case(other_setup), *verbs = verbs_case(other_setup);

	tcase_add_test(tcp, fill__spans_segments);
	tcase_add_test(verbs, fill__spans_segments);
	tcase_add_test(tcp, copy__is_cut_at_segments_of_both_leases);
	tcase_add_loop_test(tcp, crc__combines_fragments_completed_in_any_order, 0, 2);
	tcase_add_loop_test(verbs, crc__combines_fragments_completed_in_any_order, 0,
			    2);
	tcase_add_test(tcp, ping__needs_no_lease);
	tcase_add_test(tcp, requests__stay_within_their_credits);
	tcase_add_test(tcp, notification__is_sent_after_the_whole_write);
	tcase_add_test(verbs, notification__is_sent_after_the_whole_write);
	tcase_add_loop_test(tcp, notification__needs_no_data, 0, 2);
	tcase_add_test(tcp, notification__interrupted_has_an_unknown_outcome);
	tcase_add_test(tcp, notification__waits_for_a_retried_write);
	tcase_add_test(tcp, notification__of_a_failed_write_is_never_sent);
	tcase_add_loop_test(tcp, requests__of_a_dead_channel_are_posted_again, 0, 4);
	tcase_add_test(tcp, refused_copy__is_posted_again_with_new_rkeys);
	tcase_add_loop_test(tcp, copy__ends_with_either_lease, 0, 2);
	tcase_add_test(tcp, cancel__finds_a_copy_by_its_source);
	tcase_add_test(tcp, cancelled_ping__names_no_range);
	tcase_add_test(tcp, request__that_cannot_be_prepared_fails);
	tcase_add_test(tcp, submit__refuses_invalid_requests);
	tcase_add_loop_test(tcp, invalid_operation__completes_with_an_error, 0, 10);
	tcase_add_loop_test(tcp, copy__refuses_overlapping_ranges, 0, 6);
	tcase_add_test(tcp, requests__use_only_endpoints_that_serve_them);
	return unit_main();
}
