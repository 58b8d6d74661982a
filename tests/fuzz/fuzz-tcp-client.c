/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's end of a data stream over TCP: answers in any pieces, refusals among them, and any
 * other bytes.  Operations end once and in order; those that were answered as asked have their
 * bytes; memory is not written beside an operation's, nor after its end. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "fabric/tcp/channel.h"
#include "fuzz/target.h"
#include "unit/fabric/tcp/raw-server.h"

#define DEPTH 8
#define SLOT_BYTES 12288u
#define GUARD 64u
#define STEPS_MAX 128
#define STREAM_BYTES (1u << 20)

const unsigned fuzz_rounds = 20000;

/* The first byte of a step. */
enum step {
	STEP_READ,   /* of so many bytes */
	STEP_SHARED, /* the same, into memory of all such reads */
	STEP_WRITE,
	STEP_ANSWER,
	STEP_REFUSE,
	STEP_BYTES, /* the server makes any bytes */
	STEP_SEND,  /* it sends so many of those that it has made */
	STEP_POLL,  /* for so many completions */
	STEP_ABORT,
	STEP_SLICES, /* a read of so many bytes, into several slices */
	STEPS,
};

/* An operation, and its memory between guards. */
static struct slot {
	char memory[GUARD + SLOT_BYTES + GUARD];
	char before[GUARD + SLOT_BYTES + GUARD]; /* what must not change */
	uint32_t bytes;                          /* of a read */
	bool shared, refused;
	char value; /* of its bytes */
} slots[DEPTH];
static char shared[SLOT_BYTES];

static uint64_t answered, completed;
static bool honest; /* the server is, until now */
static bool aborted;
static char stream[STREAM_BYTES];
static size_t made, sent;

static struct slot *slot_of(uint64_t number)
{
	return &slots[number % DEPTH];
}

/* It is the program's. */
static void slot_check(struct slot *slot)
{
	ck_assert_mem_eq(slot->memory, slot->before, sizeof(slot->memory));
}

/* The operation has ended: its memory is as it will stay. */
static void slot_take(struct slot *slot)
{
	if (!slot->shared)
		memcpy(slot->before + GUARD, slot->memory + GUARD, slot->bytes);
	slot_check(slot);
}

static void post(enum fabric_opcode opcode, uint32_t bytes, bool in_shared,
		 unsigned slices)
{
	struct slot *slot = slot_of(raw.posted);

	if (raw.posted - completed == DEPTH)
		return;
	slot_check(slot);
	slot->bytes = opcode == FABRIC_READ ? bytes : 0;
	slot->shared = in_shared;
	if (slices ? raw_post_slices(opcode, slot->memory + GUARD, bytes, slices)
		   : raw_post(opcode, in_shared ? shared : slot->memory + GUARD, bytes))
		raw_drop_requests();
}

static void make(const void *data, size_t bytes)
{
	if (bytes > STREAM_BYTES - made)
		return;
	memcpy(stream + made, data, bytes);
	made += bytes;
}

static void answer(bool refused)
{
	struct slot *slot = slot_of(answered);
	struct stream_response response =
		refused ? raw_refusal(answered) : raw_done(slot->bytes, answered);
	size_t bytes = refused ? 0 : slot->bytes;

	if (answered == raw.posted || sizeof(response) + bytes > STREAM_BYTES - made)
		return;
	slot->refused = refused;
	slot->value = (char)('A' + answered % 26);
	make(&response, sizeof(response));
	memset(stream + made, slot->value, bytes);
	made += bytes;
	answered++;
}

static void send_some(size_t bytes)
{
	if (bytes > made - sent)
		bytes = made - sent;
	sent += raw_send(stream + sent, bytes);
}

static void check_done(const struct slot *slot)
{
	ck_assert(!slot->refused);
	for (uint32_t i = 0; i < slot->bytes && !slot->shared; i++)
		ck_assert(slot->memory[GUARD + i] == slot->value);
}

static void complete(const struct fabric_wc *wc)
{
	struct slot *slot = slot_of(completed);

	ck_assert_uint_eq(wc->n, 1);
	ck_assert_uint_lt(completed, raw.posted);
	ck_assert(wc->status == 0 || wc->text);
	if (honest && wc->status == 0)
		check_done(slot);
	if (honest && wc->status == -EACCES)
		ck_assert(slot->refused);
	ck_assert(!honest || wc->status != -EPROTO);
	slot_take(slot);
	completed++;
}

static int poll_some(unsigned n)
{
	struct fabric_wc wcs[DEPTH];
	int got = fabric_tcp_client.poll(raw.cq, wcs, 1 + n % DEPTH);

	for (int i = 0; i < got; i++)
		complete(&wcs[i]);
	ck_assert(raw.channel->ahead == 0 || raw.channel->dead);
	for (uint64_t number = raw.posted; number < completed + DEPTH; number++)
		slot_check(slot_of(number));
	return got;
}

static void step_bytes(struct fuzz_input *input)
{
	size_t n;
	const uint8_t *bytes = fuzz_bytes(input, fuzz_number(input, 1), &n);

	honest = honest && n == 0;
	make(bytes, n);
}

static void step_run(struct fuzz_input *input)
{
	enum step step = (enum step)(fuzz_number(input, 1) % STEPS);
	unsigned n;

	switch (step) {
	case STEP_READ:
	case STEP_SHARED:
		post(FABRIC_READ, (uint32_t)fuzz_number(input, 2) % (SLOT_BYTES + 1),
		     step == STEP_SHARED, 0);
		break;
	case STEP_SLICES:
		n = (unsigned)fuzz_number(input, 2);
		post(FABRIC_READ, 8 + (uint32_t)n % (SLOT_BYTES - 7), false, 2 + n % 7);
		break;
	case STEP_WRITE:
		post(FABRIC_WRITE, (uint32_t)fuzz_number(input, 1), false, 0);
		break;
	case STEP_ANSWER:
	case STEP_REFUSE:
		answer(step == STEP_REFUSE);
		break;
	case STEP_BYTES:
		step_bytes(input);
		break;
	case STEP_SEND:
		send_some(fuzz_number(input, 2));
		break;
	case STEP_POLL:
		(void)poll_some((unsigned)fuzz_number(input, 1));
		break;
	case STEP_ABORT:
		aborted = true;
		fabric_tcp_client.abort(raw.channel);
		break;
	case STEPS:
		break;
	}
}

/* All that was answered honestly has ended, and the end of the stream ends the rest. */
static void finish(void)
{
	send_some(made - sent);
	while (poll_some(DEPTH - 1) > 0)
		;
	ck_assert(!honest || aborted || completed == answered);
	fabric_tcp_client.abort(raw.channel);
	while (poll_some(0) > 0)
		;
	ck_assert_uint_eq(completed, raw.posted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };

	fuzz_random_reset();
	memset(slots, 0, sizeof(slots));
	answered = completed = 0;
	made = sent = 0;
	honest = true;
	aborted = false;
	raw_open(DEPTH);
	for (unsigned i = 0; i < STEPS_MAX && input.left > 0; i++)
		step_run(&input);
	finish();
	raw_close();
	return 0;
}

/* ---- valid inputs ---- */

static struct fuzz_output *out;

static void put_step(enum step step, uint64_t number, unsigned bytes)
{
	fuzz_put(out, step, 1);
	fuzz_put(out, number, bytes);
}

static void put_reads(enum step step, unsigned n, uint32_t bytes)
{
	for (unsigned i = 0; i < n; i++)
		put_step(step, bytes, 2);
}

/* Those whose bit is set are refused. */
static void put_answers(unsigned n, unsigned refused)
{
	for (unsigned i = 0; i < n; i++)
		fuzz_put(out, refused & 1u << i ? STEP_REFUSE : STEP_ANSWER, 1);
}

static void seed_moves(void)
{
	put_reads(STEP_READ, 3, 4096);
	put_step(STEP_READ, 100, 2);
	put_step(STEP_WRITE, 200, 1);
	put_reads(STEP_READ, 3, SLOT_BYTES);
	put_answers(8, 0);
	put_step(STEP_SEND, 65535, 2);
	put_step(STEP_POLL, 7, 1);
}

static void seed_refusals(void)
{
	put_reads(STEP_READ, 4, 4096);
	put_step(STEP_READ, 2048, 2);
	put_reads(STEP_READ, 2, 2049);
	put_step(STEP_WRITE, 8, 1);
	put_answers(8, 0x2a);
	put_step(STEP_SEND, 65535, 2);
	put_step(STEP_POLL, 2, 1);
	put_step(STEP_READ, 4096, 2);
	put_step(STEP_POLL, 7, 1);
}

static void seed_shared(void)
{
	put_reads(STEP_SHARED, 4, 4096);
	put_reads(STEP_READ, 4, 3000);
	put_answers(8, 0x12);
	put_step(STEP_SEND, 65535, 2);
	put_step(STEP_POLL, 7, 1);
}

static void seed_parts(void)
{
	put_reads(STEP_READ, 8, 4096);
	put_answers(8, 0x44);
	for (unsigned i = 0; i < 16; i++) {
		put_step(STEP_SEND, 1543, 2);
		put_step(STEP_POLL, i % 4, 1);
	}
}

static void seed_slices(void)
{
	put_reads(STEP_SLICES, 3, 4096);
	put_step(STEP_READ, 128, 2);
	put_reads(STEP_SLICES, 2, 1000);
	put_reads(STEP_SLICES, 2, 3000);
	put_answers(8, 0x24);
	for (unsigned i = 0; i < 16; i++) {
		put_step(STEP_SEND, 1543, 2);
		put_step(STEP_POLL, i % 4, 1);
	}
}

static void seed_lie(void)
{
	const struct stream_response lie = raw_done(4096, 3);

	put_reads(STEP_READ, 6, 4096);
	put_answers(2, 2);
	put_step(STEP_BYTES, sizeof(lie), 1);
	fuzz_put_bytes(out, &lie, sizeof(lie));
	put_answers(4, 0);
	put_step(STEP_SEND, 65535, 2);
	put_step(STEP_POLL, 7, 1);
}

static void seed_abort(void)
{
	put_reads(STEP_READ, 8, 4096);
	put_answers(8, 1);
	put_step(STEP_SEND, 6000, 2);
	put_step(STEP_POLL, 0, 1);
	fuzz_put(out, STEP_ABORT, 1);
	put_step(STEP_SEND, 65535, 2);
	put_step(STEP_POLL, 7, 1);
}

size_t fuzz_seed(uint8_t *input, size_t max, unsigned which)
{
	static void (*const seeds[])(void) = { seed_moves, seed_refusals, seed_shared,
					       seed_parts, seed_slices,   seed_lie,
					       seed_abort };
	struct fuzz_output output = { input, 0, max };

	if (which >= sizeof(seeds) / sizeof(seeds[0]))
		return 0;
	out = &output;
	seeds[which]();
	return output.used;
}
