/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues over a scripted fabric: local memory, waiting, and everything at random. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "unit/librmem/librmem-case.h"
#include "librmem/lease/buffer.h"

/* ---- memory ---- */

START_TEST(bounce__copies_unregistered_memory)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	unsigned rounds = 0;

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 2 * SEG, 1));
	/* the source is copied when it is posted; what does not fit yet is not */
	for (struct fabric_channel *ch = fake.channels; ch; ch = ch->next)
		for (unsigned i = 0; i < ch->n; i++) {
			const struct fabric_local_mr *region = ch->posted[i].region;
			unsigned char *addr = ch->posted[i].addr;

			ck_assert_ptr_nonnull(region);
			ck_assert(addr >= region->addr &&
				  addr + ch->posted[i].bytes <=
					  region->addr + region->bytes);
		}
	while (rmem_poll(queue, done, 1) == 0) {
		ck_assert_uint_lt(rounds++, 100);
		fake_complete_all();
	}
	ck_assert_int_eq(done[0].status, 0);
	ck_assert_mem_eq(seg_a, local, SEG);
	ck_assert_mem_eq(seg_b, local + SEG, SEG);
	memset(local, 0, sizeof(local));
	submit(queue, op_of(RMEM_OP_READ, 0, local, 2 * SEG, 2));
	while (rmem_poll(queue, done, 1) == 0)
		fake_complete_all();
	ck_assert_mem_eq(local, seg_a, SEG);
	ck_assert_mem_eq(local + SEG, seg_b, SEG);
	stage_close();
}
END_TEST

START_TEST(bounce__holds_back_more_than_it_has)
{
	static unsigned char sink[1 << 20];
	static unsigned char big[1 << 20];
	unsigned char *const one[] = { big };
	const uint64_t bytes = sizeof(big);
	struct rmem_lease *large = stage_lease(6, 3, 1, one, &bytes, keys);
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, sink, sizeof(sink), 1);

	for (unsigned i = 0; i < sizeof(big); i++)
		big[i] = (unsigned char)(i ^ i >> 8);
	op.lease = large;
	submit(queue, op);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 16);
	ck_assert_uint_eq(queue->bounce.n_free, 0);
	while (rmem_poll(queue, done, 1) == 0)
		fake_complete_all();
	ck_assert_mem_eq(sink, big, sizeof(big));
	ck_assert_uint_eq(queue->bounce.n_free, 16);
	stage_close();
}
END_TEST

/* It is made when it is needed first; what cannot be had then costs the operation alone. */
START_TEST(bounce__is_made_when_it_is_needed)
{
	const struct rmem_vec vec[] = { { .addr = local, .bytes = 8 } };
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op list = op_of(RMEM_OP_READV, 0, NULL, 0, 2);

	list.vec = vec;
	list.n_vec = 1;
	ck_assert_ptr_null(queue->bounce.memory);
	fake.region_err = -ENOMEM;
	submit(queue, op_of(RMEM_OP_READ, 0, local, 8, 1));
	submit(queue, list);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(rmem_poll(queue, done, 1), 1);
		ck_assert_int_eq(done[0].status, -ENOMEM);
		ck_assert_ptr_nonnull(
			strstr(rmem_completion_error(queue), "RLIMIT_MEMLOCK"));
	}
	ck_assert_ptr_null(queue->bounce.memory);
	fake.region_err = 0;
	submit(queue, list);
	while (rmem_poll(queue, done, 1) == 0)
		fake_complete_all();
	ck_assert_int_eq(done[0].status, 0);
	ck_assert_mem_eq(local, seg_a, 8);
	ck_assert_ptr_nonnull(queue->bounce.memory);
	stage_close();
}
END_TEST

START_TEST(buffer__is_used_without_a_copy)
{
	struct rmem_buffer_params params = RMEM_BUFFER_INIT;
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_buffer *buffer = NULL;
	struct rmem_op op;

	params.addr = local + 100;
	params.bytes = 1000;
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), 0);
	ck_assert_ptr_eq(rmem_buffer_addr(buffer), local + 100);
	ck_assert_uint_eq(rmem_buffer_bytes(buffer), 1000);
	op = op_of(RMEM_OP_WRITE, 0, local + 100, 1000, 1);
	op.buffer = buffer;
	submit(queue, op);
	ck_assert_ptr_eq(stage_channel(queue, 0)->posted[0].addr, local + 100);
	ck_assert_ptr_eq(stage_channel(queue, 0)->posted[0].region, buffer->mrs[0]);
	ck_assert_int_eq(rmem_buffer_free(buffer), -EBUSY);
	fake_complete_all();
	expect(queue, 1, 0);
	op.bytes = 1001;
	submit(queue, op);
	expect(queue, 1, -EINVAL);
	op.addr = local + 99;
	op.bytes = 1;
	submit(queue, op);
	expect(queue, 1, -EINVAL);
	ck_assert_int_eq(rmem_buffer_free(buffer), 0);
	ck_assert_int_eq(rmem_buffer_free(NULL), 0);
	stage_close();
}
END_TEST

START_TEST(buffer__errors)
{
	struct rmem_buffer_params params = RMEM_BUFFER_INIT;
	struct rmem_buffer *buffer = NULL;

	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), -EINVAL);
	params.bytes = 4096;
	fake.region_err = -ENOMEM;
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), -ENOMEM);
	fake.region_err = 0;
	params.dmabuf_fd = 1;
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer),
			 -ENOTSUP);
	params.dmabuf_fd = -1;
	params.size = 3;
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), -EINVAL);
	params.size = sizeof(params);
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), 0);
	ck_assert_uint_eq(*(unsigned char *)rmem_buffer_addr(buffer), 0);
	ck_assert_int_eq(rmem_buffer_free(buffer), 0);
	stage_close();
}
END_TEST

START_TEST(buffer__that_is_not_mapped)
{
	struct rmem_buffer_params params = RMEM_BUFFER_INIT;
	struct rmem_buffer *buffer = NULL;

	params.addr = (void *)(uintptr_t)4096;
	params.bytes = 4096;
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), -EFAULT);
	stage_close();
}
END_TEST

/* ---- descriptors and waiting ---- */

START_TEST(wait__gives_what_is_there)
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
	stage_close();
}
END_TEST

static void *complete_later(void *arg)
{
	struct timespec ms = { .tv_nsec = 20000000 };

	(void)arg;
	(void)nanosleep(&ms, NULL);
	fake_complete_all();
	return NULL;
}

START_TEST(wait__sleeps_until_a_completion)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	pthread_t thread;

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	ck_assert_int_eq(pthread_create(&thread, NULL, complete_later, NULL), 0);
	ck_assert_int_eq(rmem_wait(queue, done, 4, 1, -1), 1);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	stage_close();
}
END_TEST

START_TEST(arm__says_what_waits_already)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	ck_assert_int_eq(rmem_queue_arm(queue), 0);
	ck_assert_int_ge(rmem_queue_fd(queue), 0);
	fake_complete_all();
	ck_assert_int_eq(rmem_queue_arm(queue), 1);
	expect(queue, 1, 0);
	stage_close();
}
END_TEST

/* Its timer is made when it is armed first. */
START_TEST(arm__without_a_descriptor_left)
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
	stage_close();
}
END_TEST

/* ---- at random ---- */

#define CELL 512
#define CELLS (2 * SEG / CELL)

/* Disjoint cells are written and read; completions come in any order, channels die. */
START_TEST(random__every_byte_is_right)
{
	unsigned seed = (unsigned)time(NULL) ^ (unsigned)_i << 16;
	struct rmem_queue *queue = stage_queue(16, 3);
	static unsigned char model[2 * SEG], cells[CELLS][CELL];
	bool busy[CELLS] = { false }, writing[CELLS] = { false },
	     unknown[CELLS] = { false };
	unsigned cut[CELLS], submitted = 0, taken = 0, failed = 0;

	printf("# seed %u\n", seed);
	srand(seed);
	memset(model, 0, sizeof(model));
	while (taken < 4000) {
		/* few cells are written again soon, and late packets meet newer bytes */
		unsigned cell = (unsigned)rand() % (_i == 2 ? 4 : CELLS);
		int n;

		if (!busy[cell] && submitted < 4000) {
			struct rmem_op op =
				op_of(RMEM_OP_READ, cell * CELL, cells[cell], 0, cell);

			op.bytes = cut[cell] =
				rand() % 4 ? CELL : 1 + (unsigned)rand() % CELL;
			if (rand() % 8 == 0)
				op.flags = RMEM_OP_FENCE;
			writing[cell] = rand() % 2;
			if (writing[cell]) {
				op.opcode = RMEM_OP_WRITE;
				for (unsigned i = 0; i < cut[cell]; i++)
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
		/* packets of dead channels arrive late, until those are buried */
		fake_apply_late(&queue->channels.sides[rand() % 3]);
		if (rand() % (_i == 2 ? 64 : 16) == 0)
			(void)stage_reconnect(queue);
		n = rmem_poll(queue, done, 4);
		for (int i = 0; i < n; i++) {
			cell = (unsigned)done[i].cookie;
			busy[cell] = false;
			taken++;
			if (done[i].status) {
				failed++;
				unknown[cell] |= writing[cell];
			} else if (writing[cell]) {
				/* the rest of an unknown one stays unknown */
				unknown[cell] &= cut[cell] < CELL;
				memcpy(model + cell * CELL, cells[cell], cut[cell]);
			} else if (!unknown[cell]) {
				ck_assert_mem_eq(cells[cell], model + cell * CELL,
						 cut[cell]);
			}
		}
	}
	ck_assert_uint_gt(failed, 0);
	ck_assert_uint_lt(failed, 2000);
	stage_close();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-memory");
	TCase *tcp = tcase_create("tcp"), *verbs = tcase_create("verbs");

	tcase_set_timeout(tcp, 60);
	tcase_set_timeout(verbs, 60);
	tcase_add_checked_fixture(tcp, case_tcp, NULL);
	tcase_add_checked_fixture(verbs, case_verbs, NULL);
	tcase_add_test(verbs, bounce__copies_unregistered_memory);
	tcase_add_test(verbs, bounce__holds_back_more_than_it_has);
	tcase_add_test(verbs, bounce__is_made_when_it_is_needed);
	tcase_add_test(verbs, buffer__is_used_without_a_copy);
	tcase_add_test(verbs, buffer__errors);
	tcase_add_test(tcp, buffer__that_is_not_mapped);
	tcase_add_test(tcp, wait__gives_what_is_there);
	tcase_add_test(tcp, wait__sleeps_until_a_completion);
	tcase_add_test(tcp, arm__says_what_waits_already);
	tcase_add_test(tcp, arm__without_a_descriptor_left);
	tcase_add_loop_test(tcp, random__every_byte_is_right, 0, 3);
	tcase_add_loop_test(verbs, random__every_byte_is_right, 0, 3);
	suite_add_tcase(suite, tcp);
	suite_add_tcase(suite, verbs);
	return unit_main(suite);
}
