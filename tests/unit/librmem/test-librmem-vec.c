/* SPDX-License-Identifier: BSD-3-Clause */
/* Vectored operations of queues over the fake fabric: how the lists are cut, which fragments
 * are copied, and validation. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/librmem/librmem-case.h"
#include "librmem/lease/buffer.h"

#define N 12

static struct rmem_buffer buffer; /* over all of `local` */

/* The fake fabric does not check addresses against the mr. */
static void buffer_setup(void)
{
	static struct fabric_local_mr mr;

	buffer = (struct rmem_buffer){ .session = &stage.session,
				       .addr = local,
				       .bytes = sizeof(local),
				       .mrs = { &mr, &mr } };
}

static struct rmem_op list_of(enum rmem_opcode opcode, uint64_t offset,
			      const struct rmem_vec *vec, unsigned n, uint64_t cookie)
{
	struct rmem_op op = op_of(opcode, offset, NULL, 0, cookie);

	op.n_vec = n;
	op.vec = vec;
	return op;
}

/* Entries of many lengths, also 0, with gaps in the memory.  registered: 0 none of them, 1 all,
 * 2 some.  Returns the sum of the lengths. */
static uint64_t list_fill(struct rmem_vec vec[N], int registered)
{
	static const uint64_t lengths[N] = { 1,   0,    4000, 9000, 2, 3,
					     500, 8192, 0,    7,    1, 100 };
	uint64_t at = 5, total = 0;

	for (unsigned i = 0; i < N; i++) {
		vec[i] = (struct rmem_vec){
			.addr = lengths[i] ? local + at : NULL,
			.bytes = lengths[i],
			.buffer = registered == 1 || (registered == 2 && i % 4 < 2)
					  ? &buffer
					  : NULL,
		};
		if (!lengths[i])
			vec[i].buffer = NULL;
		at += lengths[i] + 3;
		total += lengths[i];
	}
	return total;
}

static void complete_list(struct rmem_queue *queue, uint64_t cookie)
{
	complete_until_done(queue);
	ck_assert_uint_eq(done[0].cookie, cookie);
	ck_assert_msg(done[0].status == 0, "%s", rmem_completion_error(queue, NULL));
}

/* Write a list across two segments, and read it back. */
static void check_round_trip(int registered, unsigned sge_max)
{
	struct rmem_vec vec[N];
	struct rmem_queue *queue;
	uint64_t total, at = SEG - 10000;
	unsigned char written[2 * SEG] = { 0 }, before[2 * SEG];

	fake.sge_max = sge_max;
	queue = stage_queue(8, 2);
	buffer_setup();
	total = list_fill(vec, registered);
	submit(queue, list_of(RMEM_OP_WRITEV, at, vec, N, 1));
	complete_list(queue, 1);
	ck_assert_uint_eq(done[0].bytes, total);
	for (unsigned i = 0; i < N; i++) {
		if (vec[i].bytes)
			memcpy(written + at, vec[i].addr, vec[i].bytes);
		at += vec[i].bytes;
	}
	ck_assert_mem_eq(seg_a, written, SEG);
	ck_assert_mem_eq(seg_b, written + SEG, SEG);

	memcpy(before, local, sizeof(before));
	for (unsigned i = 0; i < N; i++)
		if (vec[i].bytes)
			memset(vec[i].addr, 0xee, vec[i].bytes);
	submit(queue, list_of(RMEM_OP_READV, SEG - 10000, vec, N, 2));
	complete_list(queue, 2);
	/* also the gaps */
	ck_assert_mem_eq(local, before, sizeof(local));
	ck_assert_uint_eq(atomic_load(&buffer.outstanding), 0);
}

START_TEST(lists__round_trip)
{
	static const unsigned sge_max[] = { 1, 3, 8 };

	check_round_trip(_i / 3, sge_max[_i % 3]);
}
END_TEST

START_TEST(entries__share_requests_up_to_the_device_limit)
{
	struct rmem_vec vec[7];
	struct rmem_queue *queue;
	const struct fabric_channel *channel;

	fake.sge_max = 3;
	queue = stage_queue(8, 1);
	channel = stage_channel(queue, 0);
	buffer_setup();
	for (unsigned i = 0; i < 7; i++)
		vec[i] = (struct rmem_vec){ local + 10 * i, 4, &buffer };
	submit(queue, list_of(RMEM_OP_WRITEV, 0, vec, 7, 1));
	/* 3 + 3 + 1 */
	ck_assert_uint_eq(channel->n, 3);
	ck_assert_uint_eq(channel->posted[0].n_sges, 3);
	ck_assert_uint_eq(channel->posted[1].n_sges, 3);
	ck_assert_uint_eq(channel->posted[2].n_sges, 0);
	ck_assert_ptr_eq(channel->posted[2].addr, local + 60);
	ck_assert_uint_eq(fake.posts, 1);
	/* in use until the completion is polled */
	ck_assert_uint_eq(atomic_load(&buffer.outstanding), 7);
	fake_complete_all();
	ck_assert_uint_eq(atomic_load(&buffer.outstanding), 7);
	expect(queue, 1, 0);
	ck_assert_uint_eq(atomic_load(&buffer.outstanding), 0);
	/* or until the queue is freed */
	submit(queue, list_of(RMEM_OP_READV, 0, vec, 7, 2));
	ck_assert_uint_eq(atomic_load(&buffer.outstanding), 7);
	rmem_queue_free(queue);
	ck_assert_uint_eq(atomic_load(&buffer.outstanding), 0);
}
END_TEST

/* Entries that name no buffer: the first large one finds one, which serves all in it. */
START_TEST(buffer__is_found_for_entries)
{
	struct rmem_vec vec[3] = { { local + 4000, 10, NULL },
				   { local + 1000, 1000, NULL },
				   { local + 9000, 1000, NULL } };
	struct rmem_buffer_params params = rmem_buffer_params_init();
	struct rmem_buffer *found;
	struct rmem_queue *queue;
	const struct fabric_channel *channel;

	fake.sge_max = 3;
	queue = stage_queue(8, 1);
	channel = stage_channel(queue, 0);
	params.addr = local;
	params.bytes = 8000;
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &found), 0);
	submit(queue, list_of(RMEM_OP_WRITEV, 0, vec, 3, 1));
	ck_assert_uint_eq(channel->n, 2);
	ck_assert_uint_eq(channel->posted[0].n_sges, 2);
	ck_assert_ptr_eq(channel->posted[0].sges[0].region, found->mrs[0]);
	ck_assert_ptr_eq(channel->posted[0].sges[1].region, found->mrs[0]);
	/* the last entry is in no buffer */
	ck_assert_ptr_eq(channel->posted[1].mr, queue->bounce.mrs[0]);
	ck_assert_int_eq(rmem_buffer_free(found), -EBUSY);
	complete_and_expect(queue, 1);
	ck_assert_mem_eq(seg_a, local + 4000, 10);
	ck_assert_mem_eq(seg_a + 10, local + 1000, 1000);
	ck_assert_mem_eq(seg_a + 1010, local + 9000, 1000);
	/* used until the queue is freed, too */
	submit(queue, list_of(RMEM_OP_READV, 0, vec, 3, 2));
	rmem_queue_free(queue);
	ck_assert_int_eq(rmem_buffer_free(found), 0);
}
END_TEST

/* They use the same local memory. */
START_TEST(lost_fragments__are_posted_again)
{
	struct rmem_vec vec[4];
	struct rmem_queue *queue;

	fake.sge_max = 2;
	queue = stage_queue(8, 2);
	buffer_setup();
	for (unsigned i = 0; i < 4; i++)
		vec[i] = (struct rmem_vec){ local + 100 * i, 50, &buffer };
	submit(queue, list_of(RMEM_OP_WRITEV, 0, vec, 4, 1));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 1);
	/* the second half first: the search in the list has to go back */
	fake_complete(stage_channel(queue, 1), 0);
	complete_quietly(queue, 0, -EACCES);
	stage_rekey(lease, 2, segments, seg_bytes, (const uint64_t[]){ 21, 22 });
	expect_none(queue);
	complete_and_expect(queue, 1);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_mem_eq(seg_a + 50 * i, local + 100 * i, 50);
}
END_TEST

START_TEST(empty_list__completes_at_once)
{
	const struct rmem_vec nothing[2] = { { NULL, 0, NULL }, { NULL, 0, NULL } };
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, list_of(RMEM_OP_READV, 0, NULL, 0, 1));
	expect(queue, 1, 0);
	submit(queue, list_of(RMEM_OP_WRITEV, 2 * SEG, nothing, 2, 2));
	expect(queue, 2, 0);
	ck_assert_uint_eq(done[0].bytes, 0);
	ck_assert_uint_eq(fake.posts, 0);
}
END_TEST

START_TEST(invalid_list__completes_with_an_error)
{
	struct rmem_vec vec[2] = { { local, 10, NULL }, { local + 20, 10, NULL } };
	struct rmem_queue *queue = stage_queue(8, 1);
	uint64_t offset = 0;

	buffer_setup();
	if (_i == 0)
		offset = 2 * SEG - 19;
	else if (_i == 1)
		vec[1].addr = NULL;
	else if (_i == 2)
		vec[1] = (struct rmem_vec){ local + sizeof(local) - 5, 10, &buffer };
	else
		vec[1].bytes = UINT64_MAX - 5; /* the sum overflows */
	submit(queue, list_of(RMEM_OP_WRITEV, offset, vec, 2, 1));
	expect_error(queue, 1, -EINVAL, "vectored write");
	ck_assert_uint_eq(fake.posts, 0);
	ck_assert_uint_eq(atomic_load(&buffer.outstanding), 0);
}
END_TEST

START_TEST(list__needs_the_right_of_its_direction)
{
	const struct rmem_vec vec = { local, 10, NULL };
	struct rmem_queue *queue = stage_queue(8, 1);
	unsigned rights = _i ? RMEM_READ : RMEM_WRITE;

	lease = case_lease(6, rights, 2);
	submit(queue, list_of(_i ? RMEM_OP_WRITEV : RMEM_OP_READV, 0, &vec, 1, 1));
	expect(queue, 1, -EACCES);
	submit(queue, list_of(_i ? RMEM_OP_READV : RMEM_OP_WRITEV, 0, &vec, 1, 2));
	complete_and_expect(queue, 2);
}
END_TEST

START_TEST(submit__refuses_invalid_lists)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_buffer foreign = { .session = NULL };
	const struct rmem_vec vec = { local, 10, &foreign };
	struct rmem_op op = list_of(RMEM_OP_READV, 0, &vec, 1, 1);

	ck_assert_int_eq(rmem_submit(queue, &op, 1), -EINVAL);
	ck_assert_str_eq(rmem_error(),
			 "rmem_submit: a buffer in the list is not of this session");
	op.vec = NULL;
	ck_assert_int_eq(rmem_submit(queue, &op, 1), -EINVAL);
	op.vec = &vec;
	op.n_vec = RMEM_VEC_MAX + 1;
	ck_assert_int_eq(rmem_submit(queue, &op, 1), -EINVAL);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "n_vec"));
	op.n_vec = 1;
	buffer_setup();
	op.buffer = &buffer;
	ck_assert_int_eq(rmem_submit(queue, &op, 1), -EINVAL);
}
END_TEST

int main(void)
{
	TCase *tcp = tcp_case(NULL), *verbs = verbs_case(NULL);

	tcase_add_loop_test(tcp, lists__round_trip, 0, 9);
	tcase_add_loop_test(verbs, lists__round_trip, 0, 9);
	tcase_add_test(verbs, entries__share_requests_up_to_the_device_limit);
	tcase_add_test(verbs, buffer__is_found_for_entries);
	tcase_add_test(verbs, lost_fragments__are_posted_again);
	tcase_add_test(tcp, empty_list__completes_at_once);
	tcase_add_loop_test(tcp, invalid_list__completes_with_an_error, 0, 4);
	tcase_add_loop_test(tcp, list__needs_the_right_of_its_direction, 0, 2);
	tcase_add_test(tcp, submit__refuses_invalid_lists);
	return unit_main();
}
