/* SPDX-License-Identifier: BSD-3-Clause */
/* Traffic over channels whose keys of TLS wear out soon, against a running server:
 *
 *   renewals URI ROUNDS
 *
 * Reads and writes of all lengths, several at a time, are compared; atomics and notices are
 * counted.  The exit status is 1 at the first error: a channel that is replaced leaves no trace. */
#include <stdbool.h>
#include <string.h>

#include "integration/program.h"

#define NAME "integration/renewals"
#define SLOTS 16u
#define SLOT_BYTES (64u << 10)
#define COUNTER ((uint64_t)SLOTS * SLOT_BYTES)
#define WAIT_MS 60000

static struct {
	rmem *session, *watcher;
	rmem_lease *lease, *watched;
	rmem_queue *queue;
	unsigned char out[SLOTS][SLOT_BYTES], in[SLOTS][SLOT_BYTES];
	uint32_t bytes[SLOTS];
	uint64_t found[SLOTS], count;
	uint64_t seed;
} test;

static void check(bool condition, const char *what, long number)
{
	if (!condition)
		fail(what, number);
}

static void run(const struct rmem_op ops[SLOTS])
{
	struct rmem_completion completions[SLOTS];
	unsigned n = 0;

	check(rmem_submit(test.queue, ops, SLOTS) == (int)SLOTS, "submit", 0);
	while (n < SLOTS) {
		int got = rmem_wait(test.queue, completions, SLOTS, 1, WAIT_MS);

		check(got > 0, "wait", got);
		for (int i = 0; i < got; i++)
			must_complete(test.queue, &completions[i]);
		n += (unsigned)got;
	}
}

static void transfer(enum rmem_opcode opcode, unsigned char (*memory)[SLOT_BYTES])
{
	struct rmem_op ops[SLOTS] = { 0 };

	for (unsigned i = 0; i < SLOTS; i++)
		ops[i] = (struct rmem_op){ .opcode = (uint16_t)opcode,
					   .lease = test.lease,
					   .offset = (uint64_t)i * SLOT_BYTES,
					   .addr = memory[i],
					   .bytes = test.bytes[i] };
	run(ops);
}

static void write_and_read(void)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		test.bytes[i] = 1 + draw(&test.seed, i % 2 ? SLOT_BYTES : 100);
		memset(test.out[i], (int)draw(&test.seed, 256), test.bytes[i]);
		test.out[i][test.bytes[i] / 2] ^= 0x55;
	}
	transfer(RMEM_OP_WRITE, test.out);
	transfer(RMEM_OP_READ, test.in);
	for (unsigned i = 0; i < SLOTS; i++)
		check(memcmp(test.in[i], test.out[i], test.bytes[i]) == 0,
		      "other bytes", i);
}

/* Each number is found once. */
static void count(void)
{
	static const struct rmem_atomic one = { .operand = 1 };
	struct rmem_op ops[SLOTS] = { 0 };
	uint64_t seen = 0;

	for (unsigned i = 0; i < SLOTS; i++)
		ops[i] = (struct rmem_op){ .opcode = RMEM_OP_FETCH_ADD,
					   .lease = test.lease,
					   .offset = COUNTER,
					   .addr = &test.found[i],
					   .bytes = 8,
					   .atomic = &one };
	run(ops);
	for (unsigned i = 0; i < SLOTS; i++) {
		check(test.found[i] - test.count < SLOTS, "another number",
		      (long)test.found[i]);
		seen |= UINT64_C(1) << (test.found[i] - test.count);
	}
	check(seen == (1u << SLOTS) - 1, "a number twice", (long)seen);
	test.count += SLOTS;
}

static void notify(uint32_t value)
{
	struct rmem_notice notice;

	must(rmem_write_notify(test.lease, 0, &value, sizeof(value), value),
	     "write_notify");
	check(rmem_notified(test.watcher, &notice, 1, WAIT_MS) == 1, "notified", value);
	check(notice.value == value && notice.lost == 0, "another notice",
	      notice.value);
}

static void open_all(const char *uri)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	struct rmem_queue_params queue_params = rmem_queue_params_init();

	params.bytes = COUNTER + 8;
	params.name = NAME;
	queue_params.depth = 64;
	queue_params.channels = 2;
	must(rmem_open(uri, NULL, &test.session), "open");
	must(rmem_alloc(test.session, &params, &test.lease), "alloc");
	must(rmem_queue_create(test.session, &queue_params, &test.queue), "queue");
	must(rmem_open(uri, NULL, &test.watcher), "open");
	must(rmem_attach(test.watcher, NAME, RMEM_READ, &test.watched), "attach");
	must(rmem_watch(test.watched), "watch");
}

int main(int argc, char **argv)
{
	uint64_t last = 0;

	check(argc == 3, "usage: renewals URI ROUNDS", argc);
	open_all(argv[1]);
	for (uint32_t i = 1; i <= strtoul(argv[2], NULL, 10); i++) {
		write_and_read();
		count();
		notify(i);
	}
	must(rmem_read(test.lease, COUNTER, &last, sizeof(last)), "read");
	check(last == test.count, "the counter", (long)last);
	rmem_queue_free(test.queue);
	rmem_destroy(test.lease);
	rmem_close(test.watcher);
	rmem_close(test.session);
	return 0;
}
