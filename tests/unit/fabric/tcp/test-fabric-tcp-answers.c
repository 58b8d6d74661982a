/* SPDX-License-Identifier: BSD-3-Clause */
/* What the client of the tcp fabric receives by one call: the answers to many reads, each into its
 * place, also when one in between has no payload, comes in parts, or is a lie. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "unit/fabric/tcp/raw-server.h"
#include "unit/unit.h"

#define DEPTH 64
#define LARGE 4096u
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct fabric_client_ops *const ops = &fabric_tcp_client;

static char memory[DEPTH][LARGE];
static unsigned calls;    /* that received something for the client */
static bool malloc_fails; /* of much memory, as Check needs some */

ssize_t __real_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
	calls++;
	return __real_recvmsg(fd, msg, flags);
}

ssize_t __real_recv(int fd, void *buf, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t bytes, int flags)
{
	calls += fd == raw.client_fd;
	return __real_recv(fd, buf, bytes, flags);
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
	return malloc_fails && bytes > LARGE ? NULL : __real_malloc(bytes);
}

/* The bytes that the server sends, which the operations take in turn. */
static struct {
	char bytes[DEPTH * (sizeof(struct stream_response) + LARGE)];
	size_t n;
} stream;

static void put(const void *data, size_t bytes)
{
	memcpy(stream.bytes + stream.n, data, bytes);
	stream.n += bytes;
}

static void put_done(uint64_t cookie, uint32_t bytes, int value)
{
	const struct stream_response response = raw_done(bytes, cookie);

	put(&response, sizeof(response));
	memset(stream.bytes + stream.n, value, bytes);
	stream.n += bytes;
}

static void put_refusal(uint64_t cookie)
{
	const struct stream_response response = raw_refusal(cookie);

	put(&response, sizeof(response));
}

static void open_channel(void)
{
	memset(memory, 0, sizeof(memory));
	stream.n = 0;
	raw_open(DEPTH);
}

/* Post n reads of this length, each into its own memory. */
static void post_reads(unsigned n, uint32_t bytes)
{
	for (unsigned i = 0; i < n; i++)
		ck_assert(raw_post(FABRIC_READ, memory[i], bytes));
}

static void send_all(void)
{
	ck_assert_uint_eq(raw_send(stream.bytes, stream.n), stream.n);
}

/* Poll once; the next operations have ended so. */
static void expect(const int *statuses, unsigned n)
{
	struct fabric_wc wcs[DEPTH];

	ck_assert_int_eq(ops->poll(raw.cq, wcs, DEPTH), (int)n);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(wcs[i].status, statuses[i]);
}

static void expect_bytes(const char *at, int value, size_t n)
{
	size_t i = 0;

	while (i < n && at[i] == (char)value)
		i++;
	ck_assert_uint_eq(i, n);
}

/* ---- cases ---- */

START_TEST(reads__are_received_by_few_calls)
{
	static const struct {
		unsigned n;
		uint32_t bytes;
		unsigned calls;
	} batches[] = {
		{ 1, LARGE, 1 },
		{ 31, LARGE, 1 },
		/* the last header is among the first answers */
		{ 32, LARGE, 2 },
		{ DEPTH, LARGE, 3 },
		/* small ones are copied, and more than one buffer has */
		{ DEPTH, 100, 1 },
		{ DEPTH, 1024, 5 },
	};
	struct fabric_wc wcs[DEPTH];

	post_reads(batches[_i].n, batches[_i].bytes);
	for (unsigned i = 0; i < batches[_i].n; i++)
		put_done(i, batches[_i].bytes, (int)i + 1);
	send_all();
	calls = 0;
	ck_assert_int_eq(ops->poll(raw.cq, wcs, batches[_i].n), (int)batches[_i].n);
	ck_assert_uint_eq(calls, batches[_i].calls);
	for (unsigned i = 0; i < batches[_i].n; i++) {
		ck_assert_int_eq(wcs[i].status, 0);
		expect_bytes(memory[i], (int)i + 1, batches[_i].bytes);
		expect_bytes(memory[i] + batches[_i].bytes, 0,
			     LARGE - batches[_i].bytes);
	}
}
END_TEST

/* A record and its header, each into its own memory, beside small reads. */
START_TEST(slices__are_received_by_one_call)
{
	enum { N = 10 };
	struct fabric_wc wcs[2 * N];

	for (unsigned i = 0; i < N; i++) {
		ck_assert(raw_post(FABRIC_READ, memory[i], 128));
		ck_assert(raw_post_slices(FABRIC_READ, memory[N + i], LARGE, 3));
		put_done(2 * i, 128, (int)i + 1);
		put_done(2 * i + 1, LARGE, (int)i + 101);
	}
	send_all();
	calls = 0;
	ck_assert_int_eq(ops->poll(raw.cq, wcs, 2 * N), 2 * N);
	ck_assert_uint_eq(calls, 1);
	for (unsigned i = 0; i < N; i++) {
		expect_bytes(memory[i], (int)i + 1, 128);
		expect_bytes(memory[i] + 128, 0, LARGE - 128);
		expect_bytes(memory[N + i], (int)i + 101, LARGE);
	}
}
END_TEST

/* One request, with the bytes of all slices in order. */
START_TEST(slices__are_sent_as_one_write)
{
	static char sent[sizeof(struct stream_request) + LARGE + 1];
	struct stream_request request;

	for (unsigned i = 0; i < LARGE; i++)
		memory[0][i] = (char)(i % 251);
	ck_assert(raw_post_slices(FABRIC_WRITE, memory[0], LARGE, 8));
	ck_assert_int_eq(recv(raw.fd, sent, sizeof(sent), 0), sizeof(sent) - 1);
	memcpy(&request, sent, sizeof(request));
	ck_assert_uint_eq(request.op, STREAM_WRITE);
	ck_assert_uint_eq(request.bytes, LARGE);
	ck_assert_mem_eq(sent + sizeof(request), memory[0], LARGE);
	put_done(0, 0, 0);
	send_all();
	expect(&(int){ 0 }, 1);
}
END_TEST

/* No more is placed than is reported, so none is in doubt between two calls. */
START_TEST(reads__are_placed_when_they_are_reported)
{
	struct fabric_wc wc;

	post_reads(3, LARGE);
	for (unsigned i = 0; i < 3; i++)
		put_done(i, LARGE, 1);
	send_all();
	for (unsigned i = 0; i < 3; i++) {
		expect_bytes(memory[i], 0, LARGE);
		ck_assert_int_eq(ops->poll(raw.cq, &wc, 1), 1);
		expect_bytes(memory[i], 1, LARGE);
	}
}
END_TEST

/* Large and small reads, and a write. */
static const struct {
	enum fabric_opcode opcode;
	uint32_t bytes;
} mixed[] = {
	{ FABRIC_READ, 2049 }, { FABRIC_READ, 100 },   { FABRIC_READ, 3000 },
	{ FABRIC_WRITE, 10 },  { FABRIC_READ, LARGE }, { FABRIC_READ, 2048 },
	{ FABRIC_READ, 2500 },
};
#define MIXED COUNT(mixed)

#define SLICED (1u << MIXED)

/* Post them, and make their answers; the bits of `refused` say which are refused, and whether all
 * have their memory in slices. */
static void mixed_post(unsigned refused)
{
	stream.n = 0;
	memset(memory, 0, MIXED * LARGE);
	for (unsigned i = 0; i < MIXED; i++) {
		uint64_t cookie = raw.posted;

		if (refused & SLICED)
			ck_assert(raw_post_slices(mixed[i].opcode, memory[i],
						  mixed[i].bytes, 2 + i));
		else
			ck_assert(raw_post(mixed[i].opcode, memory[i], mixed[i].bytes));
		if (refused & 1u << i)
			put_refusal(cookie);
		else
			put_done(cookie,
				 mixed[i].opcode == FABRIC_READ ? mixed[i].bytes : 0,
				 (int)i + 1);
	}
	raw_drop_requests();
}

static void mixed_check(unsigned i, unsigned refused, int status)
{
	ck_assert_int_eq(status, refused & 1u << i ? -EACCES : 0);
	if (!status && mixed[i].opcode == FABRIC_READ)
		expect_bytes(memory[i], (int)i + 1, mixed[i].bytes);
	expect_bytes(memory[i] + mixed[i].bytes, 0, LARGE - mixed[i].bytes);
}

/* All that are done have their bytes, wherever the stream was cut. */
START_TEST(answers__come_in_two_parts)
{
	unsigned refused = (unsigned)_i;
	/* at each byte, or at each kind of place */
	unsigned which = refused & ~SLICED;
	size_t step = which == 0 || which == 1 || which == 4 ? 1 : 101;

	for (size_t cut = 0, all = 1; cut < all; cut += step) {
		struct fabric_wc wcs[MIXED + 1];
		int got;

		mixed_post(refused);
		all = stream.n;
		ck_assert_uint_eq(raw_send(stream.bytes, cut), cut);
		got = ops->poll(raw.cq, wcs, MIXED + 1);
		ck_assert_uint_eq(raw_send(stream.bytes + cut, all - cut), all - cut);
		got += ops->poll(raw.cq, wcs + got, MIXED + 1 - (unsigned)got);
		ck_assert_int_eq(got, MIXED);
		for (unsigned i = 0; i < MIXED; i++)
			mixed_check(i, refused, wcs[i].status);
	}
}
END_TEST

/* Refusals among them go to the wrong places; the program may take one completion at a time, and
 * use the memory again. */
START_TEST(memory__of_a_completed_read_is_not_written)
{
	struct fabric_wc wcs[2];
	unsigned done = 0;

	mixed_post((unsigned)_i);
	send_all();
	while (done < MIXED) {
		int got = ops->poll(raw.cq, wcs, 2);

		ck_assert_int_ge(got, 1);
		for (int k = 0; k < got; k++, done++) {
			mixed_check(done, (unsigned)_i, wcs[k].status);
			memset(memory[done], 'p', LARGE);
		}
		for (unsigned i = 0; i < done; i++)
			expect_bytes(memory[i], 'p', LARGE);
	}
}
END_TEST

/* A program that throws the bytes away reads all into the same memory. */
static const struct {
	uint32_t first, bytes; /* of the first read, and of the others */
	size_t shift;          /* from the memory of one read to that of the next */
} same[] = { { LARGE, LARGE, 0 }, { LARGE, LARGE, LARGE - 1 }, { 100, LARGE, 0 } };

START_TEST(memory__may_be_that_of_another_read)
{
	static const int statuses[] = { 0, -EACCES, 0, 0 };
	size_t shift = same[_i].shift;

	for (unsigned i = 0; i < COUNT(statuses); i++) {
		uint32_t bytes = i == 0 ? same[_i].first : same[_i].bytes;

		ck_assert(raw_post(FABRIC_READ, memory[0] + i * shift, bytes));
		if (statuses[i])
			put_refusal(i);
		else
			put_done(i, bytes, (int)i + 1);
	}
	send_all();
	expect(statuses, COUNT(statuses));
	expect_bytes(memory[0] + 2 * shift, 3, shift);
	expect_bytes(memory[0] + 3 * shift, 4, LARGE);
}
END_TEST

/* The kernel says only that some place was not there. */
START_TEST(memory__unmapped_fails_the_right_operation)
{
	static const int statuses[] = { 0, -EFAULT, -ECONNRESET };
	char *unmapped =
		mmap(NULL, LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(unmapped, MAP_FAILED);
	for (unsigned i = 0; i < COUNT(statuses); i++) {
		ck_assert(raw_post(FABRIC_READ, i == 1 ? unmapped : memory[i], LARGE));
		put_done(i, LARGE, 1);
	}
	send_all();
	expect(statuses, COUNT(statuses));
	expect_bytes(memory[0], 1, LARGE);
	(void)munmap(unmapped, LARGE);
}
END_TEST

START_TEST(slice__unmapped_fails_the_right_operation)
{
	static const int statuses[] = { 0, -EFAULT, -ECONNRESET };
	char *place = mmap(NULL, 2 * LARGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(place, MAP_FAILED);
	/* its first slice is there, and the second one is not */
	(void)munmap(place + LARGE, LARGE);
	for (unsigned i = 0; i < COUNT(statuses); i++) {
		ck_assert(raw_post_slices(
			FABRIC_READ, i == 1 ? place + LARGE - 1 : memory[i], LARGE, 2));
		put_done(i, LARGE, 1);
	}
	send_all();
	expect(statuses, COUNT(statuses));
	expect_bytes(memory[0], 1, LARGE);
	(void)munmap(place, LARGE);
}
END_TEST

START_TEST(slices__of_two_reads_may_be_the_same)
{
	static const int statuses[] = { 0, -EACCES, 0, 0 };

	for (unsigned i = 0; i < COUNT(statuses); i++) {
		ck_assert(raw_post_slices(FABRIC_READ, memory[0] + 100 * i, LARGE, 3));
		if (statuses[i])
			put_refusal(i);
		else
			put_done(i, LARGE, (int)i + 1);
	}
	send_all();
	expect(statuses, COUNT(statuses));
	expect_bytes(memory[0], 1, 200);
	expect_bytes(memory[0] + 200, 3, 100);
	expect_bytes(memory[0] + 300, 4, LARGE);
}
END_TEST

/* A loop test: the number of the operation that is refused. */
START_TEST(slices__of_one_read_may_be_the_same)
{
	int statuses[] = { 0, 0, 0 };
	const struct fabric_sge sges[] = {
		{ .addr = memory[0], .bytes = LARGE },
		{ .addr = memory[0] + 1, .bytes = LARGE - 1 },
	};

	statuses[_i] = -EACCES;
	for (unsigned i = 0; i < COUNT(statuses); i++) {
		ck_assert(i < 2 ? raw_post_sges(FABRIC_READ, sges, COUNT(sges))
				: raw_post(FABRIC_READ, memory[i], LARGE));
		if (statuses[i])
			put_refusal(i);
		else
			put_done(i, i < 2 ? 2 * LARGE - 1 : LARGE, (int)i + 1);
	}
	send_all();
	expect(statuses, COUNT(statuses));
	expect_bytes(memory[0], _i == 0 ? 2 : 1, LARGE);
	expect_bytes(memory[2], 3, LARGE);
}
END_TEST

START_TEST(refusals__of_all_reads)
{
	int statuses[DEPTH];

	post_reads(DEPTH, LARGE);
	for (unsigned i = 0; i < DEPTH; i++) {
		put_refusal(i);
		statuses[i] = -EACCES;
	}
	send_all();
	expect(statuses, DEPTH);
	ck_assert(ops->alive(raw.channel));
}
END_TEST

START_TEST(refusal__without_memory_to_rearrange_ends_the_channel)
{
	static const int statuses[] = { 0, -EACCES, -ECONNRESET, -ECONNRESET };

	post_reads(4, LARGE);
	put_done(0, LARGE, 1);
	put_refusal(1);
	put_done(2, LARGE, 1);
	put_done(3, LARGE, 1);
	send_all();
	malloc_fails = true;
	expect(statuses, 4);
	malloc_fails = false;
	ck_assert(!ops->alive(raw.channel));
}
END_TEST

/* The third answer is another one; `bytes` of payload follow it. */
static const struct {
	uint64_t cookie;
	uint32_t bytes;
} lies[] = { { 3, LARGE }, { 1, LARGE }, { 2, LARGE - 1 }, { 2, LARGE + 1 }, { 2, 0 } };

START_TEST(lie__ends_the_channel_behind_what_was_true)
{
	static const int statuses[] = { 0, 0, -EPROTO, -ECONNRESET };

	post_reads(4, LARGE);
	put_done(0, LARGE, 1);
	put_done(1, LARGE, 2);
	put_done(lies[_i].cookie, lies[_i].bytes, 'x');
	put_done(3, LARGE, 4);
	send_all();
	expect(statuses, 4);
	expect_bytes(memory[0], 1, LARGE);
	expect_bytes(memory[1], 2, LARGE);
	expect_bytes(memory[4], 0, LARGE);
	ck_assert(!ops->alive(raw.channel));
}
END_TEST

/* A payload more than was asked for, which no place expects. */
START_TEST(lie__behind_the_last_answer)
{
	static const int statuses[] = { 0, 0 };

	post_reads(2, LARGE);
	for (unsigned i = 0; i < 3; i++)
		put_done(i, LARGE, 1);
	send_all();
	expect(statuses, 2);
	expect(NULL, 0);
	ck_assert(!ops->alive(raw.channel));
	expect_bytes(memory[2], 0, LARGE);
}
END_TEST

/* The channel is ended, as for a cancelled operation, with a payload half received, or behind a
 * refusal. */
START_TEST(abort__gives_all_memory_back)
{
	static const int first[][2] = { { 0, 0 }, { 0, -EACCES } };
	static const int rest[] = { -ECONNRESET, -ECONNRESET };
	struct fabric_wc wc;

	post_reads(4, LARGE);
	put_done(0, LARGE, 1);
	if (first[_i][1])
		put_refusal(1);
	else
		put_done(1, LARGE, 1);
	put_done(2, LARGE, 1);
	stream.n -= 1000;
	send_all();
	expect(first[_i], 2);
	ops->abort(raw.channel);
	expect(rest, 2);
	memset(memory, 'p', sizeof(memory));
	(void)raw_send(stream.bytes, stream.n);
	ck_assert_int_eq(ops->poll(raw.cq, &wc, 1), 0);
	expect_bytes(memory[0], 'p', sizeof(memory));
}
END_TEST

/* ... or freed, with answers that were not taken yet. */
START_TEST(channel_free__behind_a_refusal)
{
	struct fabric_wc wc;

	post_reads(4, LARGE);
	put_refusal(0);
	for (unsigned i = 1; i < 4; i++)
		put_done(i, LARGE, 1);
	send_all();
	ck_assert_int_eq(ops->poll(raw.cq, &wc, 1), 1);
	ck_assert_int_eq(wc.status, -EACCES);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("answers", open_channel, raw_close);

	tcase_add_loop_test(tcase, reads__are_received_by_few_calls, 0, 6);
	tcase_add_test(tcase, reads__are_placed_when_they_are_reported);
	tcase_add_test(tcase, slices__are_received_by_one_call);
	tcase_add_test(tcase, slices__are_sent_as_one_write);
	tcase_add_loop_test(tcase, answers__come_in_two_parts, 0, 2 * SLICED);
	tcase_add_loop_test(tcase, memory__of_a_completed_read_is_not_written, 0,
			    2 * SLICED);
	tcase_add_loop_test(tcase, memory__may_be_that_of_another_read, 0, COUNT(same));
	tcase_add_test(tcase, memory__unmapped_fails_the_right_operation);
	tcase_add_test(tcase, slice__unmapped_fails_the_right_operation);
	tcase_add_test(tcase, slices__of_two_reads_may_be_the_same);
	tcase_add_loop_test(tcase, slices__of_one_read_may_be_the_same, 0, 2);
	tcase_add_test(tcase, refusals__of_all_reads);
	tcase_add_test(tcase, refusal__without_memory_to_rearrange_ends_the_channel);
	tcase_add_loop_test(tcase, lie__ends_the_channel_behind_what_was_true, 0,
			    COUNT(lies));
	tcase_add_test(tcase, lie__behind_the_last_answer);
	tcase_add_loop_test(tcase, abort__gives_all_memory_back, 0, 2);
	tcase_add_test(tcase, channel_free__behind_a_refusal);
	return unit_main();
}
