/* SPDX-License-Identifier: BSD-3-Clause */
/* What has to wait in a queue, over a scripted fabric: it holds up nothing that needs not
 * wait, but where a fence says so, and its own turn comes. */
#include <errno.h>
#include <string.h>

#include "unit/librmem/librmem-case.h"
#include "librmem/lease/buffer.h"

#define MANY 4096

static struct rmem_lease *single; /* over seg_a: of one segment, which is for a burst */
static struct rmem_lease *words; /* for atomics: where they are done is not known yet */
static _Alignas(8) unsigned char word[64];
static const struct rmem_atomic one = { .operand = 1 };
static uint64_t old;

static void leases_new(void)
{
	static unsigned char *const at[1] = { word };
	const uint64_t bytes = sizeof(word), key = 31;

	memset(word, 0, sizeof(word));
	single = stage_lease(6, RMEM_READ | RMEM_WRITE, 1, segments, seg_bytes, keys);
	words = stage_lease(7, RMEM_READ | RMEM_WRITE, 1, at, &bytes, &key);
}

static void lanes_tcp(void)
{
	case_tcp();
	leases_new();
}

static void lanes_verbs(void)
{
	case_verbs();
	leases_new();
}

static void lanes_three(void)
{
	case_three();
	leases_new();
}

static void atomic_device_at(unsigned endpoints)
{
	words->atomic_device.endpoints = endpoints;
	atomic_store(&words->atomic_device.state, HOME_KNOWN);
}

static struct rmem_op add_of(uint64_t cookie)
{
	struct rmem_op op = op_of(RMEM_OP_FETCH_ADD, 0, &old, 8, cookie);

	op.lease = words;
	op.atomic = &one;
	return op;
}

static struct rmem_op write_of(struct rmem_lease *to, uint64_t cookie)
{
	struct rmem_op op = op_of(RMEM_OP_WRITE, 0, local, 8, cookie);

	op.lease = to;
	return op;
}

static void fills_submit(struct rmem_queue *queue, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		submit(queue, op_of(RMEM_OP_FILL, i * 8ull, NULL, 8, i));
}

static unsigned posted(const struct rmem_queue *queue)
{
	unsigned n = 0;

	for (unsigned i = 0; i < queue->channels.n; i++)
		n += stage_channel(queue, i) ? stage_channel(queue, i)->n : 0;
	return n;
}

/* So many end well, as all that is posted does, again and again. */
static void run_out(struct rmem_queue *queue, unsigned n)
{
	for (unsigned rounds = 0; n > 0; rounds++) {
		int got = rmem_poll(queue, done, 64);

		ck_assert_uint_lt(rounds, 2 * MANY);
		for (int i = 0; i < got; i++)
			ck_assert_msg(done[i].status == 0, "%s",
				      rmem_completion_error(queue));
		n -= (unsigned)got;
		fake_complete_all();
	}
	ck_assert_uint_eq(rmem_queue_outstanding(queue), 0);
}

/* ---- what waits holds up no other ---- */

START_TEST(requests__hold_up_no_write)
{
	struct rmem_queue *queue = stage_queue(64, 2);

	fills_submit(queue, 10);
	ck_assert_uint_eq(posted(queue), 2 * FAKE_REQUESTS);
	submit(queue, write_of(_i ? single : lease, 100));
	ck_assert_uint_eq(posted(queue), 2 * FAKE_REQUESTS + 1);
	run_out(queue, 11);
	stage_close();
}
END_TEST

START_TEST(atomics__without_a_home_hold_up_no_other)
{
	static _Alignas(8) unsigned char far[8];
	static unsigned char *const at[1] = { far };
	const uint64_t bytes = sizeof(far), key = 32;
	struct rmem_lease *known = stage_lease(8, 3, 1, at, &bytes, &key);
	struct rmem_queue *queue = stage_queue(64, 2);
	struct rmem_op op = add_of(2);

	known->atomic_device.endpoints = 3;
	atomic_store(&known->atomic_device.state, HOME_KNOWN);
	op.lease = known;
	submit(queue, add_of(1));
	submit(queue, op);
	submit(queue, write_of(_i ? single : lease, 3));
	ck_assert_uint_eq(posted(queue), 2);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 64), 2);
	atomic_device_at(3);
	queue_wake(queue);
	expect_none(queue);
	ck_assert_uint_eq(posted(queue), 1);
	run_out(queue, 1);
	ck_assert_uint_eq(word[0], 1);
	stage_close();
}
END_TEST

static struct rmem_queue *told;
static unsigned looks;

/* The server answers in the middle of a call, once the first of three has been looked at. */
static void atomic_device_told(void)
{
	if (++looks != 4)
		return;
	queue_wake(told);
	atomic_device_at(1);
}

START_TEST(atomics__go_in_their_order_when_a_home_is_told)
{
	struct rmem_queue *queue = told = stage_queue(8, 1);
	uint64_t olds[3];
	struct rmem_op ops[3];

	for (unsigned i = 0; i < 3; i++) {
		ops[i] = add_of(i);
		ops[i].addr = &olds[i];
	}
	fake.at_able = atomic_device_told;
	ck_assert_int_eq(rmem_submit(queue, ops, 3), 3);
	ck_assert_uint_ge(looks, 4);
	expect_none(queue);
	ck_assert_uint_eq(posted(queue), 3);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_ptr_eq(stage_channel(queue, 0)->posted[i].addr, &olds[i]);
	run_out(queue, 3);
	stage_close();
}
END_TEST

START_TEST(atomics__of_a_full_home_hold_up_no_other)
{
	struct rmem_queue *queue = stage_queue(64, 2);
	unsigned depth = queue->channels.depth;

	queue->channels.depth = 8;
	atomic_device_at(1);
	for (unsigned i = 0; i < 10; i++)
		submit(queue, add_of(i));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 8);
	submit(queue, write_of(_i ? single : lease, 10));
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 1);
	run_out(queue, 11);
	ck_assert_uint_eq(word[0], 10);
	queue->channels.depth = depth;
	stage_close();
}
END_TEST

/* What has to pass through a bounce buffer that is full. */
START_TEST(chunks__that_are_in_use_hold_up_no_registered_memory)
{
	struct rmem_buffer_params params = RMEM_BUFFER_INIT;
	struct rmem_queue *queue = stage_queue(64, 2);
	struct rmem_op op = write_of(_i ? single : lease, 100);
	unsigned chunks = queue->bounce.n_free;

	params.addr = local;
	params.bytes = sizeof(local);
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &op.buffer), 0);
	for (unsigned i = 0; i < chunks + 3; i++)
		submit(queue, write_of(lease, i));
	ck_assert_uint_eq(posted(queue), chunks);
	submit(queue, op);
	ck_assert_uint_eq(posted(queue), chunks + 1);
	run_out(queue, chunks + 4);
	ck_assert_int_eq(rmem_buffer_free(op.buffer), 0);
	stage_close();
}
END_TEST

/* A large one has all fragments there are, and waits to hear of its keys. */
START_TEST(fragments__that_are_in_use_hold_up_nothing_that_needs_one)
{
	static unsigned char far[64 * FAKE_MAX_BYTES], near[sizeof(far)];
	static unsigned char *const at[1] = { far };
	const uint64_t bytes = sizeof(far), key = 33, other_key = 34;
	struct rmem_lease *large = stage_lease(8, 3, 1, at, &bytes, &key);
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, near, sizeof(near), 1);

	memset(far, 7, sizeof(far));
	op.lease = large;
	submit(queue, op);
	while (posted(queue) > 0) {
		fake_complete(stage_channel(queue, 0), -EACCES);
		expect_none(queue);
	}
	ck_assert(list_empty(&queue->table.free_fragments));
	submit(queue, write_of(single, 2));
	ck_assert_uint_eq(posted(queue), 1);
	fake_complete_all();
	expect(queue, 2, 0);
	stage_rekey(large, 1, at, &bytes, &other_key);
	run_out(queue, 1);
	ck_assert_mem_eq(near, far, sizeof(far));
	stage_close();
}
END_TEST

/* Requests that a dead channel took, which the other one has no room for. */
START_TEST(requests__that_came_back_hold_up_no_write)
{
	struct rmem_queue *queue = stage_queue(64, 2);

	fills_submit(queue, 2 * FAKE_REQUESTS);
	submit(queue, write_of(lease, 100));
	submit(queue, write_of(lease, 101));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, FAKE_REQUESTS + 1);
	for (unsigned i = 0; i <= FAKE_REQUESTS; i++)
		fake_complete(stage_channel(queue, 0), -ECONNRESET);
	expect_none(queue);
	stage_bury(queue, 0, PEER_END_CLOSED);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, FAKE_REQUESTS + 2);
	run_out(queue, 2 * FAKE_REQUESTS + 2);
	stage_close();
}
END_TEST

/* ---- but a fence does ---- */

START_TEST(fence__waits_for_all_that_waits)
{
	struct rmem_queue *queue = stage_queue(64, 2);
	struct rmem_op fenced = write_of(_i ? single : lease, 100);

	fenced.flags = RMEM_OP_FENCE;
	fills_submit(queue, 2 * FAKE_REQUESTS + 1);
	submit(queue, add_of(99));
	submit(queue, fenced);
	submit(queue, write_of(single, 101));
	ck_assert_uint_eq(posted(queue), 2 * FAKE_REQUESTS);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 64), 2 * FAKE_REQUESTS);
	/* the last fill */
	ck_assert_uint_eq(posted(queue), 1);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 64), 1);
	ck_assert_uint_eq(posted(queue), 0);
	atomic_device_at(1);
	queue_wake(queue);
	expect_none(queue);
	ck_assert_uint_eq(posted(queue), 1);
	fake_complete_all();
	expect(queue, 99, 0);
	/* the fenced one and the one behind it */
	ck_assert_uint_eq(posted(queue), 2);
	run_out(queue, 2);
	stage_close();
}
END_TEST

/* What it waits for ends without having been posted. */
START_TEST(fence__goes_when_what_it_waits_for_ends)
{
	struct rmem_queue *queue = stage_queue(64, 2);
	struct rmem_op fenced = write_of(single, 2), op = add_of(1);

	fenced.flags = RMEM_OP_FENCE;
	op.timeout_ms = 10;
	submit(queue, op);
	submit(queue, fenced);
	ck_assert_uint_eq(posted(queue), 0);
	if (_i == 0)
		stage_advance_ms(20);
	else if (_i == 1)
		ck_assert_int_eq(rmem_cancel(queue, words), 1);
	else
		lease_end(words);
	expect(queue, 1, _i == 0 ? -ETIMEDOUT : _i == 1 ? -ECANCELED : -ESTALE);
	expect_none(queue);
	ck_assert_uint_eq(posted(queue), 1);
	run_out(queue, 1);
	stage_close();
}
END_TEST

/* ---- ends before the time ---- */

START_TEST(deadline__of_what_waits)
{
	struct rmem_queue *queue = stage_queue(64, 1);
	struct rmem_op op = op_of(RMEM_OP_FILL, 0, NULL, 8, 50);

	fills_submit(queue, FAKE_REQUESTS);
	op.timeout_ms = 10;
	submit(queue, op);
	op.timeout_ms = 0;
	op.cookie = 51;
	submit(queue, op);
	submit(queue, write_of(single, 100));
	stage_advance_ms(20);
	expect(queue, 50, -ETIMEDOUT);
	/* nothing else of it was ever posted, and the others go on */
	ck_assert_uint_eq(posted(queue), FAKE_REQUESTS + 1);
	ck_assert_uint_eq(fake.aborts, 0);
	run_out(queue, FAKE_REQUESTS + 2);
	stage_close();
}
END_TEST

START_TEST(cancel__of_what_waits)
{
	struct rmem_queue *queue = stage_queue(MANY, 1);

	submit(queue, write_of(single, 100));
	for (unsigned i = 0; i < MANY - 1; i++)
		submit(queue, add_of(i));
	ck_assert_int_eq(rmem_cancel(queue, words), MANY - 1);
	for (unsigned got = 0; got < MANY - 1; got++) {
		ck_assert_int_eq(rmem_poll(queue, done, 1), 1);
		ck_assert_int_eq(done[0].status, -ECANCELED);
	}
	ck_assert_uint_eq(lease_inflight(words), 0);
	ck_assert_uint_eq(fake.aborts, 0);
	run_out(queue, 1);
	stage_close();
}
END_TEST

/* ---- turns ---- */

/* A channel that is always full, with as much waiting: whatever waits beside that gets its
 * credit.  Every round one of the many ends, and is submitted anew. */
START_TEST(waiting__is_not_passed_over_for_ever)
{
	static const enum rmem_opcode kinds[3] = { RMEM_OP_FILL, RMEM_OP_FETCH_ADD,
						   RMEM_OP_WRITE };
	enum rmem_opcode many = kinds[_i / 3], few = kinds[_i % 3];
	struct rmem_queue *queue = stage_queue(64, 1);
	unsigned depth = queue->channels.depth, rounds = 0;
	struct rmem_op op;

	queue->channels.depth = 8;
	atomic_device_at(1);
	for (unsigned i = 0; i < 40; i++) {
		op = many == RMEM_OP_FETCH_ADD ? add_of(i)
					       : op_of(many, 0, local, 8, i);
		submit(queue, op);
	}
	/* and all credits are in use */
	for (unsigned i = 0; many == RMEM_OP_FILL && i < 8; i++)
		submit(queue, write_of(single, i));
	ck_assert_uint_eq(posted(queue), 8);
	op = few == RMEM_OP_FETCH_ADD ? add_of(100) : op_of(few, 0, local, 8, 100);
	submit(queue, op);
	for (done[0].cookie = 0; done[0].cookie != 100; rounds++) {
		ck_assert_uint_lt(rounds, many == few ? 60 : 24);
		fake_complete(stage_channel(queue, 0), 0);
		ck_assert_int_eq(rmem_poll(queue, done, 1), 1);
		op = many == RMEM_OP_FETCH_ADD ? add_of(1)
					       : op_of(many, 0, local, 8, 1);
		submit(queue, op);
	}
	run_out(queue, rmem_queue_outstanding(queue));
	queue->channels.depth = depth;
	stage_close();
}
END_TEST

/* Notifications wait for the same as other requests. */
START_TEST(notifications__leave_turns_to_requests)
{
	struct rmem_queue *queue = stage_queue(64, 1);
	const struct rmem_op notify = op_of(RMEM_OP_WRITE_NOTIFY, 0, NULL, 0, 1);
	unsigned rounds = 0;

	for (unsigned i = 0; i < 2 * FAKE_REQUESTS; i++)
		submit(queue, notify);
	submit(queue, op_of(RMEM_OP_FILL, 0, NULL, 8, 100));
	for (done[0].cookie = 0; done[0].cookie != 100; rounds++) {
		ck_assert_uint_lt(rounds, 2 * FAKE_REQUESTS);
		fake_complete(stage_channel(queue, 0), 0);
		ck_assert_int_eq(rmem_poll(queue, done, 1), 1);
		submit(queue, notify);
	}
	run_out(queue, rmem_queue_outstanding(queue));
	stage_close();
}
END_TEST

START_TEST(thousands__wait_and_go)
{
	struct rmem_queue *queue = stage_queue(MANY, 2);

	atomic_device_at(1);
	for (unsigned i = 0; i < MANY; i++) {
		if (i % 3 == 0)
			submit(queue, op_of(RMEM_OP_FILL, 8, NULL, 8, i));
		else
			submit(queue, i % 3 == 1 ? add_of(i) : write_of(lease, i));
	}
	run_out(queue, MANY);
	/* one of three, modulo 256 */
	ck_assert_uint_eq(word[0] + 256u * word[1], MANY / 3);
	stage_close();
}
END_TEST

/* ---- memory that is lent through some endpoints only ---- */

static unsigned posted_in(const struct rmem_queue *queue, unsigned channel)
{
	return stage_channel(queue, channel)->n;
}

/* A lease over seg_a and seg_b, lent through these endpoints. */
static struct rmem_lease *bound_lease(uint64_t id, unsigned through_a,
				      unsigned through_b)
{
	struct rmem_lease *bound;

	stage.through[0] = through_a;
	stage.through[1] = through_b;
	bound = stage_lease(id, RMEM_READ | RMEM_WRITE, 2, segments, seg_bytes, keys);
	stage.through[0] = stage.through[1] = UINT8_MAX;
	return bound;
}

/* A channel that is full, or away, holds up those alone that need that one. */
START_TEST(bound__hold_up_no_other)
{
	struct rmem_lease *near = bound_lease(8, 1, 1), *far = bound_lease(9, 2, 2);
	struct rmem_queue *queue = stage_queue(512, 2);
	unsigned depth = queue->channels.depth;

	for (unsigned i = 0; i < depth + 5; i++)
		submit(queue, write_of(near, i));
	ck_assert_uint_eq(posted_in(queue, 0), depth);
	ck_assert_uint_eq(posted_in(queue, 1), 0);
	submit(queue, write_of(far, 1000));
	submit(queue, write_of(lease, 1001));
	ck_assert_uint_eq(posted_in(queue, 1), 2);
	run_out(queue, depth + 7);
	stage_close();
}
END_TEST

START_TEST(bound__requests_hold_up_no_other)
{
	struct rmem_lease *near = bound_lease(8, 1, 1), *far = bound_lease(9, 2, 2);
	struct rmem_queue *queue = stage_queue(64, 2);
	struct rmem_op op = op_of(RMEM_OP_FILL, 0, NULL, 8, 1);

	op.lease = near;
	for (unsigned i = 0; i < FAKE_REQUESTS + 2; i++)
		submit(queue, op);
	op.lease = far;
	submit(queue, op);
	submit(queue, write_of(near, 2));
	ck_assert_uint_eq(posted_in(queue, 0), FAKE_REQUESTS + 1);
	ck_assert_uint_eq(posted_in(queue, 1), 1);
	run_out(queue, FAKE_REQUESTS + 4);
	stage_close();
}
END_TEST

/* What goes through two endpoints does not wait for what goes through one of them. */
START_TEST(bound__share_an_endpoint_and_hold_up_no_other)
{
	static const enum rmem_opcode opcodes[] = { RMEM_OP_WRITE, RMEM_OP_FILL,
						    RMEM_OP_FETCH_ADD };
	struct rmem_lease *near = bound_lease(8, 1, 1), *both = bound_lease(9, 3, 3);
	struct rmem_op op = op_of(opcodes[_i], 0, &old, 8, 1);
	struct rmem_queue *queue = stage_queue(512, 3);
	unsigned room =
		opcodes[_i] == RMEM_OP_FILL ? FAKE_REQUESTS : queue->channels.depth;

	if (opcodes[_i] == RMEM_OP_FILL)
		op.addr = NULL;
	op.atomic = &one;
	near->atomic_device.endpoints = both->atomic_device.endpoints = 3;
	atomic_store(&near->atomic_device.state, HOME_KNOWN);
	atomic_store(&both->atomic_device.state, HOME_KNOWN);
	op.lease = near;
	for (unsigned i = 0; i < room + 5; i++)
		submit(queue, op);
	ck_assert_uint_eq(posted_in(queue, 0), room);
	op.lease = both;
	submit(queue, op);
	ck_assert_uint_eq(posted_in(queue, 1), 1);
	ck_assert_uint_eq(posted_in(queue, 2), 0);
	run_out(queue, room + 6);
	stage_close();
}
END_TEST

/* Their device is away, but the chunks they have passed through are there for the others. */
START_TEST(bound__that_are_lost_hold_no_chunks)
{
	struct rmem_lease *near = bound_lease(8, 1, 1), *far = bound_lease(9, 2, 2);
	struct rmem_queue *queue = stage_queue(64, 2);
	struct rmem_op op = op_of(_i ? RMEM_OP_READ : RMEM_OP_WRITE, 0, local, 8, 1);
	static unsigned char got[32][8];
	unsigned chunks = queue->bounce.n_free;

	ck_assert_uint_lt(chunks, 32);
	for (unsigned i = 0; i < SEG; i++)
		seg_a[i] = _i ? (unsigned char)(i * 3) : 0;
	op.lease = near;
	for (unsigned i = 0; i < chunks; i++) {
		op.offset = i * 8ull;
		op.addr = _i ? got[i] : local + i * 8ull;
		submit(queue, op);
	}
	ck_assert_uint_eq(posted_in(queue, 0), chunks);
	for (unsigned i = 0; i < chunks; i++)
		fake_complete(stage_channel(queue, 0), -ECONNRESET);
	expect_none(queue);
	for (unsigned i = 0; i < chunks; i++)
		submit(queue, write_of(far, 1000));
	ck_assert_uint_eq(posted_in(queue, 1), chunks);
	/* also once the others could be posted again */
	stage_bury(queue, 0, PEER_END_CLOSED);
	expect_none(queue);
	for (unsigned i = 0; i < chunks; i++) {
		fake_complete(stage_channel(queue, 1), 0);
		ck_assert_int_eq(rmem_poll(queue, done, 1), 1);
		ck_assert_uint_eq(done[0].cookie, 1000);
		submit(queue, write_of(far, 1000));
	}
	ck_assert_uint_eq(posted_in(queue, 1), chunks);
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	fake_complete_all();
	run_out(queue, 2 * chunks);
	if (_i)
		ck_assert_mem_eq(got[1], seg_a + 8, (chunks - 1) * 8ull);
	else
		ck_assert_mem_eq(seg_a + 8, local + 8, (chunks - 1) * 8ull);
	stage_close();
}
END_TEST

/* Nor does a copy whose source goes on elsewhere. */
START_TEST(bound__source_moves_on_to_another_wait_list)
{
	struct rmem_lease *near = bound_lease(8, 1, 1), *far = bound_lease(9, 2, 2);
	const struct rmem_place source = { bound_lease(10, 1, 2), SEG - 8 };
	struct rmem_queue *queue = stage_queue(64, 2);
	struct rmem_op copy = op_of(RMEM_OP_COPY, 0, NULL, 16, 1);
	struct rmem_op fill = op_of(RMEM_OP_FILL, 0, NULL, 8, 2);

	fill.lease = far;
	for (unsigned i = 0; i < FAKE_REQUESTS; i++)
		submit(queue, fill);
	copy.lease = words;
	copy.source = &source;
	submit(queue, copy);
	ck_assert_uint_eq(posted_in(queue, 0), 1);
	fill.lease = near;
	submit(queue, fill);
	ck_assert_uint_eq(posted_in(queue, 0), 2);
	run_out(queue, FAKE_REQUESTS + 2);
	stage_close();
}
END_TEST

/* One operation over parts that are lent through one endpoint each. */
START_TEST(bound__parts_go_their_ways)
{
	struct rmem_lease *striped = bound_lease(8, 1, 2);
	struct rmem_queue *queue = stage_queue(64, 4);
	struct rmem_op op = op_of(RMEM_OP_WRITE, 100, local, 2 * SEG - 200, 1);

	op.lease = striped;
	submit(queue, op);
	ck_assert_uint_gt(posted_in(queue, 0), 0);
	ck_assert_uint_gt(posted_in(queue, 1), 0);
	for (unsigned i = 0; i < 4; i++)
		for (unsigned k = 0; k < posted_in(queue, i); k++)
			ck_assert_uint_eq(stage_channel(queue, i)->posted[k].rkey,
					  keys[queue->channels.all[i].endpoint]);
	run_out(queue, 1);
	ck_assert_mem_eq(seg_a + 100, local, SEG - 100);
	ck_assert_mem_eq(seg_b, local + SEG - 100, SEG - 100);
	/* a channel to the far one dies: the fragments on it wait for one that leads there */
	op.opcode = RMEM_OP_READ;
	submit(queue, op);
	for (unsigned i = 0; i < 4; i++)
		if (queue->channels.all[i].endpoint == 1)
			fake_complete(stage_channel(queue, i), -ECONNRESET);
	expect_none(queue);
	expect_none(queue);
	ck_assert_uint_eq(stage_reconnect(queue), 2);
	fake_complete_all();
	expect_none(queue);
	run_out(queue, 1);
	stage_close();
}
END_TEST

/* A queue of one channel has one more to where some memory is lent alone. */
START_TEST(bound__are_reached_by_a_queue_of_one)
{
	struct rmem_lease *near = bound_lease(8, 1, 1), *far = bound_lease(9, 2, 2);
	struct rmem_queue *queue = stage_queue(64, 1);

	ck_assert_uint_eq(queue->channels.n, 1);
	submit(queue, write_of(near, 1));
	submit(queue, write_of(far, 2));
	expect(queue, 2, -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(rmem_completion_error(queue),
				     "lent through other RDMA devices"));
	run_out(queue, 1);
	for (unsigned i = 0; i < STAGE_ENDPOINTS; i++)
		stage.session.domains.domains[i].endpoint.flags |= WIRE_ENDPOINT_SOLE;
	queue = stage_queue(64, 1);
	ck_assert_uint_eq(queue->channels.n, 2);
	submit(queue, write_of(near, 1));
	submit(queue, write_of(far, 2));
	run_out(queue, 2);
	/* what goes round has them already */
	queue = stage_queue(64, 3);
	ck_assert_uint_eq(queue->channels.n, 3);
	stage_close();
}
END_TEST

/* Of one part the devices are not served at all. */
START_TEST(bound__to_none_are_refused)
{
	struct rmem_lease *half = bound_lease(8, 1, 0);
	struct rmem_queue *queue = stage_queue(64, 2);
	struct rmem_op op = op_of(RMEM_OP_WRITE, SEG + 8, local, 8, 1);

	op.lease = half;
	submit(queue, op);
	expect(queue, 1, -ENOTSUP);
	op = add_of(2);
	op.lease = half;
	op.offset = SEG;
	submit(queue, op);
	expect(queue, 2, -ENOTSUP);
	submit(queue, write_of(half, 3));
	run_out(queue, 1);
	stage_close();
}
END_TEST

/* No endpoint reaches both ends, nor all that atomics are done in. */
START_TEST(bound__what_needs_one_endpoint_for_all_is_refused)
{
	struct rmem_lease *near = bound_lease(8, 1, 1), *far = bound_lease(9, 2, 2);
	struct rmem_lease *striped = bound_lease(10, 2, 1);
	struct rmem_queue *queue = stage_queue(64, 2);
	const struct rmem_place source = { .lease = far };
	struct rmem_op op = op_of(RMEM_OP_COPY, 0, NULL, 8, 1);

	op.lease = near;
	op.source = &source;
	submit(queue, op);
	expect(queue, 1, -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(rmem_completion_error(queue), "reaches both"));
	/* within one there is a way */
	op.lease = far;
	op.offset = 8;
	submit(queue, op);
	run_out(queue, 1);
	/* the atomic_device of the one whose first part is asked for is there */
	op = add_of(2);
	op.lease = striped;
	submit(queue, op);
	ck_assert_uint_eq(atomic_load(&striped->atomic_device.wanted), 1 + 1);
	striped->atomic_device.endpoints = 2;
	atomic_store(&striped->atomic_device.state, HOME_KNOWN);
	queue_wake(queue);
	expect_none(queue);
	op.offset = SEG;
	op.cookie = 3;
	submit(queue, op);
	expect(queue, 3, -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(rmem_completion_error(queue), "atomic home"));
	run_out(queue, 1);
	stage_close();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-lanes");
	TCase *tcp = tcase_create("tcp"), *verbs = tcase_create("verbs");
	TCase *three = tcase_create("three");

	tcase_set_timeout(tcp, 60);
	tcase_set_timeout(verbs, 60);
	tcase_add_checked_fixture(tcp, lanes_tcp, NULL);
	tcase_add_checked_fixture(verbs, lanes_verbs, NULL);
	tcase_add_checked_fixture(three, lanes_three, NULL);
	tcase_add_loop_test(tcp, requests__hold_up_no_write, 0, 2);
	tcase_add_loop_test(verbs, requests__hold_up_no_write, 0, 2);
	tcase_add_loop_test(tcp, atomics__without_a_home_hold_up_no_other, 0, 2);
	tcase_add_loop_test(verbs, atomics__without_a_home_hold_up_no_other, 0, 2);
	tcase_add_test(tcp, atomics__go_in_their_order_when_a_home_is_told);
	tcase_add_loop_test(tcp, atomics__of_a_full_home_hold_up_no_other, 0, 2);
	tcase_add_loop_test(verbs, chunks__that_are_in_use_hold_up_no_registered_memory,
			    0, 2);
	tcase_add_test(tcp, fragments__that_are_in_use_hold_up_nothing_that_needs_one);
	tcase_add_test(tcp, requests__that_came_back_hold_up_no_write);
	tcase_add_loop_test(tcp, fence__waits_for_all_that_waits, 0, 2);
	tcase_add_loop_test(tcp, fence__goes_when_what_it_waits_for_ends, 0, 3);
	tcase_add_test(tcp, deadline__of_what_waits);
	tcase_add_test(tcp, cancel__of_what_waits);
	tcase_add_loop_test(tcp, waiting__is_not_passed_over_for_ever, 0, 9);
	tcase_add_test(tcp, notifications__leave_turns_to_requests);
	tcase_add_test(tcp, thousands__wait_and_go);
	tcase_add_test(tcp, bound__hold_up_no_other);
	tcase_add_test(tcp, bound__requests_hold_up_no_other);
	tcase_add_loop_test(three, bound__share_an_endpoint_and_hold_up_no_other, 0, 3);
	tcase_add_loop_test(verbs, bound__that_are_lost_hold_no_chunks, 0, 2);
	tcase_add_test(tcp, bound__source_moves_on_to_another_wait_list);
	tcase_add_test(tcp, bound__parts_go_their_ways);
	tcase_add_test(tcp, bound__are_reached_by_a_queue_of_one);
	tcase_add_test(tcp, bound__to_none_are_refused);
	tcase_add_test(tcp, bound__what_needs_one_endpoint_for_all_is_refused);
	suite_add_tcase(suite, tcp);
	suite_add_tcase(suite, verbs);
	suite_add_tcase(suite, three);
	return unit_main(suite);
}
