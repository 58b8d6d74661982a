/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues over the fake fabric: local memory, waiting, and random operations. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "unit/librmem/librmem-case.h"
#include "librmem/lease/buffer.h"

/* ---- memory ---- */

START_TEST(bounce__copies_unregistered_memory)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 2 * SEG, 1));
	/* the fragments posted so far were copied */
	for (struct fabric_channel *ch = fake.channels; ch; ch = ch->next)
		for (unsigned i = 0; i < ch->n; i++) {
			const struct fabric_local_mr *mr = ch->posted[i].mr;
			unsigned char *addr = ch->posted[i].addr;

			ck_assert_ptr_nonnull(mr);
			ck_assert(addr >= mr->addr &&
				  addr + ch->posted[i].bytes <= mr->addr + mr->bytes);
		}
	complete_until_done(queue);
	ck_assert_int_eq(done[0].status, 0);
	ck_assert_mem_eq(seg_a, local, SEG);
	ck_assert_mem_eq(seg_b, local + SEG, SEG);
	memset(local, 0, sizeof(local));
	submit(queue, op_of(RMEM_OP_READ, 0, local, 2 * SEG, 2));
	complete_until_done(queue);
	ck_assert_mem_eq(local, seg_a, SEG);
	ck_assert_mem_eq(local + SEG, seg_b, SEG);
}
END_TEST

static uint64_t copied(void)
{
	struct rmem_info info = rmem_info_init();

	ck_assert_int_eq(rmem_info(&stage.session, &info), 0);
	return info.copied_bytes;
}

START_TEST(bounce__counts_what_it_copies)
{
	struct rmem_buffer *buffer = case_buffer(local + 1000, 500);
	const struct rmem_vec vec[] = {
		{ .addr = local, .bytes = 300 },
		{ .addr = local + 1000, .bytes = 400, .buffer = buffer },
		{ .addr = local + 2000, .bytes = 70 },
	};
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op op = op_of(RMEM_OP_WRITE, 0, local + 1000, 500, 1);

	op.buffer = buffer;
	submit(queue, op);
	complete_and_expect(queue, 1);
	ck_assert_uint_eq(copied(), 0);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 2 * SEG, 2));
	complete_until_done(queue);
	ck_assert_uint_eq(copied(), 2 * SEG);
	submit(queue, op_of(RMEM_OP_READ, 0, local, 100, 3));
	ck_assert_uint_eq(copied(), 2 * SEG);
	complete_and_expect(queue, 3);
	ck_assert_uint_eq(copied(), 2 * SEG + 100);
	for (unsigned i = 0; i < 2; i++) {
		op = rmem_op_readv(op.lease, 0, vec, 3);
		op.opcode = i ? RMEM_OP_READV : RMEM_OP_WRITEV;
		submit(queue, op);
		complete_until_done(queue);
	}
	ck_assert_uint_eq(copied(), 2 * SEG + 100 + 2 * 370);
	ck_assert_int_eq(rmem_buffer_free(buffer), 0);
}
END_TEST

/* The operation posted last is inline: it reads the caller's memory. */
static void expect_inline(const struct fabric_channel *channel, const void *addr)
{
	const struct fake_wr *wr = &channel->posted[channel->n - 1];

	ck_assert_ptr_null(wr->mr);
	ck_assert_ptr_eq(wr->addr, addr);
}

START_TEST(inline__writes_need_no_copy_and_no_mr)
{
	struct rmem_lease *single = case_lease(6, RMEM_READ | RMEM_WRITE, 1);
	struct rmem_queue *queue;
	struct rmem_op ops[4];

	fake.inline_max = 64;
	queue = stage_queue(8, 1);
	/* _i: several segments, one; alone, in a batch */
	for (unsigned i = 0; i < 4; i++) {
		ops[i] = op_of(RMEM_OP_WRITE, 64 * i, local + 64 * i, 64, i);
		if (_i & 1)
			ops[i].lease = single;
	}
	if (_i & 2) {
		ck_assert_int_eq(rmem_submit(queue, ops, 4), 4);
	} else {
		for (unsigned i = 0; i < 4; i++)
			submit(queue, ops[i]);
	}
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 4);
	expect_inline(stage_channel(queue, 0), local + 64 * 3);
	ck_assert_ptr_null(queue->bounce.memory);
	complete_and_poll(queue, 4);
	ck_assert_mem_eq(seg_a, local, 256);
	/* longer writes and reads need the bounce buffer */
	ops[0].bytes = 65;
	submit(queue, ops[0]);
	ck_assert_ptr_nonnull(queue->bounce.memory);
	ops[0].bytes = 64;
	ops[0].opcode = RMEM_OP_READ;
	submit(queue, ops[0]);
	complete_and_poll(queue, 2);
}
END_TEST

/* _i & 2: the next connection takes no inline data. */
START_TEST(inline__lost_write_is_posted_again)
{
	struct rmem_lease *single = case_lease(6, RMEM_READ | RMEM_WRITE, 1);
	struct rmem_queue *queue;
	struct rmem_op op = op_of(RMEM_OP_WRITE, 0, local, 8, 1);

	fake.inline_max = 64;
	queue = stage_queue(8, 1);
	if (_i & 1)
		op.lease = single;
	submit(queue, op);
	expect_inline(stage_channel(queue, 0), local);
	fake.inline_max = _i & 2 ? 0 : 64;
	complete_quietly(queue, 0, -ECONNRESET);
	reconnect(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	if (_i & 2)
		ck_assert_ptr_nonnull(stage_channel(queue, 0)->posted[0].mr);
	else
		expect_inline(stage_channel(queue, 0), local);
	complete_and_expect(queue, 1);
	ck_assert_mem_eq(seg_a, local, 8);
}
END_TEST

static struct rmem_buffer *buffer_over(const unsigned char *addr, uint64_t bytes)
{
	struct rmem_buffer *buffer = buffer_find(stage.session.buffers, addr, bytes);

	if (buffer)
		(void)atomic_fetch_sub(&buffer->outstanding, 1);
	return buffer;
}

START_TEST(buffers__are_found_by_address)
{
	struct rmem_buffer *small[20], *whole;

	ck_assert_ptr_null(buffer_over(local, 1));
	for (unsigned i = 0; i < 20; i++) /* in no order */
		small[i * 7 % 20] = case_buffer(local + i * 7 % 20 * 100, 50);
	for (unsigned i = 0; i < 20; i++) {
		ck_assert_ptr_eq(buffer_over(local + i * 100, 50), small[i]);
		ck_assert_ptr_eq(buffer_over(local + i * 100 + 49, 1), small[i]);
		ck_assert_ptr_null(buffer_over(local + i * 100 + 49, 2));
		ck_assert_ptr_null(buffer_over(local + i * 100 + 50, 1));
	}
	/* a longer one over all of them */
	whole = case_buffer(local, 2000);
	ck_assert_ptr_eq(buffer_over(local + 1949, 51), whole);
	ck_assert_ptr_eq(buffer_over(local, 2000), whole);
	ck_assert_ptr_null(buffer_over(local + 1, 2000));
	ck_assert_ptr_null(buffer_over(local, UINT64_MAX));
	ck_assert_int_eq(rmem_buffer_free(small[3]), 0);
	ck_assert_ptr_eq(buffer_over(local + 300, 50), whole);
	ck_assert_int_eq(rmem_buffer_free(whole), 0);
	ck_assert_ptr_null(buffer_over(local + 300, 50));
	ck_assert_ptr_eq(buffer_over(local + 410, 40), small[4]);
}
END_TEST

START_TEST(bounce__delays_fragments_beyond_its_size)
{
	static unsigned char sink[1 << 20];
	static unsigned char big[1 << 20];
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, sink, sizeof(sink), 1);

	for (unsigned i = 0; i < sizeof(big); i++)
		big[i] = (unsigned char)(i ^ i >> 8);
	op.lease = case_lease_over(6, big, sizeof(big), 11);
	submit(queue, op);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 16);
	ck_assert_uint_eq(queue->bounce.n_free, 0);
	complete_until_done(queue);
	ck_assert_mem_eq(sink, big, sizeof(big));
	ck_assert_uint_eq(queue->bounce.n_free, 16);
}
END_TEST

/* If that fails, only the operation fails. */
START_TEST(bounce__is_allocated_on_first_use)
{
	const struct rmem_vec vec[] = { { .addr = local, .bytes = 8 } };
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op readv = op_of(RMEM_OP_READV, 0, NULL, 0, 2);

	readv.vec = vec;
	readv.n_vec = 1;
	ck_assert_ptr_null(queue->bounce.memory);
	fake.mr_err = -ENOMEM;
	submit(queue, op_of(RMEM_OP_READ, 0, local, 8, 1));
	submit(queue, readv);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(rmem_poll(queue, done, 1), 1);
		ck_assert_int_eq(done[0].status, -ENOMEM);
		ck_assert_ptr_nonnull(
			strstr(rmem_completion_error(queue, NULL), "RLIMIT_MEMLOCK"));
	}
	ck_assert_ptr_null(queue->bounce.memory);
	fake.mr_err = 0;
	submit(queue, readv);
	complete_until_done(queue);
	ck_assert_int_eq(done[0].status, 0);
	ck_assert_mem_eq(local, seg_a, 8);
	ck_assert_ptr_nonnull(queue->bounce.memory);
}
END_TEST

START_TEST(buffer__is_used_without_a_copy)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_buffer *buffer = case_buffer(local + 100, 1000);
	struct rmem_op op = op_of(RMEM_OP_WRITE, 0, local + 100, 1000, 1);

	ck_assert_ptr_eq(rmem_buffer_addr(buffer), local + 100);
	ck_assert_uint_eq(rmem_buffer_bytes(buffer), 1000);
	op.buffer = buffer;
	submit(queue, op);
	ck_assert_ptr_eq(stage_channel(queue, 0)->posted[0].addr, local + 100);
	ck_assert_ptr_eq(stage_channel(queue, 0)->posted[0].mr, buffer->mrs[0]);
	ck_assert_int_eq(rmem_buffer_free(buffer), -EBUSY);
	complete_and_expect(queue, 1);
	op.bytes = 1001;
	submit(queue, op);
	expect(queue, 1, -EINVAL);
	op.addr = local + 99;
	op.bytes = 1;
	submit(queue, op);
	expect(queue, 1, -EINVAL);
	ck_assert_int_eq(rmem_buffer_free(buffer), 0);
	ck_assert_int_eq(rmem_buffer_free(NULL), 0);
}
END_TEST

/* The last request on the only channel. */
static const struct fake_wr *last_posted(const struct rmem_queue *queue)
{
	const struct fabric_channel *channel = stage_channel(queue, 0);

	return &channel->posted[channel->n - 1];
}

START_TEST(buffer__is_found_if_it_is_not_named)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_buffer *buffer = case_buffer(local + 100, 1000);
	enum rmem_opcode opcode = _i ? RMEM_OP_READ : RMEM_OP_WRITE;

	submit(queue, op_of(opcode, 0, local + 100, 1000, 1));
	ck_assert_ptr_eq(last_posted(queue)->addr, local + 100);
	ck_assert_ptr_eq(last_posted(queue)->mr, buffer->mrs[0]);
	ck_assert_int_eq(rmem_buffer_free(buffer), -EBUSY);
	complete_and_expect(queue, 1);
	ck_assert_ptr_null(queue->bounce.memory);

	/* a byte more than the buffer has; and so few bytes that a copy costs less */
	submit(queue, op_of(opcode, 0, local + 100, 1001, 2));
	ck_assert_ptr_ne(last_posted(queue)->mr, buffer->mrs[0]);
	complete_and_expect(queue, 2);
	submit(queue, op_of(opcode, 0, local + 100, BUFFER_COPY_BYTES, 3));
	ck_assert_ptr_ne(last_posted(queue)->mr, buffer->mrs[0]);
	ck_assert_int_eq(rmem_buffer_free(buffer), 0);
	complete_and_expect(queue, 3);
}
END_TEST

START_TEST(buffer_create__errors)
{
	struct rmem_buffer_params params = rmem_buffer_params_init();
	struct rmem_buffer *buffer = NULL;

	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), -EINVAL);
	params.bytes = 4096;
	fake.mr_err = -ENOMEM;
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), -ENOMEM);
	fake.mr_err = 0;
	params.size = 3;
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), -EINVAL);
	params.size = sizeof(params);
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), 0);
	ck_assert_uint_eq(*(unsigned char *)rmem_buffer_addr(buffer), 0);
	ck_assert_int_eq(rmem_buffer_free(buffer), 0);
}
END_TEST

START_TEST(buffer_create__refuses_unmapped_memory)
{
	struct rmem_buffer_params params = rmem_buffer_params_init();
	struct rmem_buffer *buffer = NULL;

	params.addr = (void *)(uintptr_t)4096;
	params.bytes = 4096;
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), -EFAULT);
	params.addr = (void *)(UINTPTR_MAX - 4095);
	params.bytes = 8192;
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), -EINVAL);
}
END_TEST

/* ---- descriptors and waiting ---- */

START_TEST(wait__returns_available_completions)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	ck_assert_int_eq(rmem_wait(queue, done, 4, 1, -1), 0);
	fake.automatic = true;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 2));
	ck_assert_int_eq(rmem_wait(queue, done, 4, 4, -1), 2);
	fake.automatic = false;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 3));
	ck_assert_int_eq(rmem_wait(queue, done, 4, 1, 0), 0);
}
END_TEST

/* Once the wait has found nothing, and is about to sleep. */
static void *complete_later(void *arg)
{
	while (fake.arms == 0)
		(void)sched_yield();
	fake_complete_all();
	return arg;
}

START_TEST(wait__sleeps_until_a_completion)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	pthread_t thread;

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	ck_assert_int_eq(pthread_create(&thread, NULL, complete_later, NULL), 0);
	ck_assert_int_eq(rmem_wait(queue, done, 4, 1, -1), 1);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

START_TEST(arm__reports_waiting_completions)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	ck_assert_int_eq(rmem_queue_arm(queue), 0);
	ck_assert_int_ge(rmem_queue_fd(queue), 0);
	fake_complete_all();
	ck_assert_int_eq(rmem_queue_arm(queue), 1);
	expect(queue, 1, 0);
}
END_TEST

/* The queue's timer is created by the first call. */
START_TEST(arm__fails_without_free_descriptors)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rlimit limit, none;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	ck_assert_int_eq(rmem_queue_arm(queue), -EMFILE);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "rmem_queue_arm: a queue's timer"));
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_eq(rmem_queue_arm(queue), 0);
}
END_TEST

/* ---- at random ---- */

#define CELL 512
#define CELLS (2 * SEG / CELL)

/* Write and read disjoint cells; completions come in any order, and channels die. */
START_TEST(random_operations__leave_every_byte_right)
{
	unsigned seed = (unsigned)time(NULL) ^ (unsigned)_i << 16;
	struct rmem_queue *queue = stage_queue(16, 3);
	static unsigned char model[2 * SEG], cells[CELLS][CELL];
	bool busy[CELLS] = { false }, writing[CELLS] = { false },
	     unknown[CELLS] = { false };
	unsigned sizes[CELLS], submitted = 0, polled = 0, failed = 0;

	printf("# seed %u\n", seed);
	srand(seed);
	memset(model, 0, sizeof(model));
	while (polled < 4000) {
		/* with few cells, late packets may overwrite newer bytes */
		unsigned cell = (unsigned)rand() % (_i == 2 ? 4 : CELLS);
		int n;

		if (!busy[cell] && submitted < 4000) {
			struct rmem_op op =
				op_of(RMEM_OP_READ, cell * CELL, cells[cell], 0, cell);

			op.bytes = sizes[cell] =
				rand() % 4 ? CELL : 1 + (unsigned)rand() % CELL;
			if (rand() % 8 == 0)
				op.flags = RMEM_OP_FENCE;
			writing[cell] = rand() % 2;
			if (writing[cell]) {
				op.opcode = RMEM_OP_WRITE;
				for (unsigned i = 0; i < sizes[cell]; i++)
					cells[cell][i] = (unsigned char)rand();
			}
			if (rmem_submit(queue, &op, 1) == 1) {
				busy[cell] = true;
				submitted++;
			}
		}
		for (struct fabric_channel *ch = fake.channels; ch; ch = ch->next)
			if (ch->n > 0 && rand() % 3 == 0)
				fake_complete(ch, rand() % 200 == 0 ? -EIO : 0);
		/* packets of dead channels arrive until the server closes the channel */
		fake_apply_late(&queue->channels.sides[rand() % 3]);
		if (rand() % (_i == 2 ? 64 : 16) == 0)
			(void)stage_reconnect(queue);
		n = rmem_poll(queue, done, 4);
		for (int i = 0; i < n; i++) {
			cell = (unsigned)done[i].cookie;
			busy[cell] = false;
			polled++;
			if (done[i].status) {
				failed++;
				unknown[cell] |= writing[cell];
			} else if (writing[cell]) {
				/* a shorter write leaves the rest of the cell unknown */
				unknown[cell] &= sizes[cell] < CELL;
				memcpy(model + cell * CELL, cells[cell], sizes[cell]);
			} else if (!unknown[cell]) {
				ck_assert_mem_eq(cells[cell], model + cell * CELL,
						 sizes[cell]);
			}
		}
	}
	ck_assert_uint_gt(failed, 0);
	ck_assert_uint_lt(failed, 2000);
}
END_TEST

int main(void)
{
	TCase *tcp = tcp_case(NULL), *verbs = verbs_case(NULL);

	tcase_add_test(verbs, bounce__copies_unregistered_memory);
	tcase_add_test(verbs, bounce__counts_what_it_copies);
	tcase_add_loop_test(verbs, inline__writes_need_no_copy_and_no_mr, 0, 4);
	tcase_add_loop_test(verbs, inline__lost_write_is_posted_again, 0, 4);
	tcase_add_test(verbs, buffers__are_found_by_address);
	tcase_add_test(verbs, bounce__delays_fragments_beyond_its_size);
	tcase_add_test(verbs, bounce__is_allocated_on_first_use);
	tcase_add_test(verbs, buffer__is_used_without_a_copy);
	tcase_add_loop_test(verbs, buffer__is_found_if_it_is_not_named, 0, 2);
	tcase_add_test(verbs, buffer_create__errors);
	tcase_add_test(tcp, buffer_create__refuses_unmapped_memory);
	tcase_add_test(tcp, wait__returns_available_completions);
	tcase_add_test(tcp, wait__sleeps_until_a_completion);
	tcase_add_test(tcp, arm__reports_waiting_completions);
	tcase_add_test(tcp, arm__fails_without_free_descriptors);
	tcase_add_loop_test(tcp, random_operations__leave_every_byte_right, 0, 3);
	tcase_add_loop_test(verbs, random_operations__leave_every_byte_right, 0, 3);
	return unit_main();
}
