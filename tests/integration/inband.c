/* SPDX-License-Identifier: BSD-3-Clause */
/* In-band operations through the public API, against a running server:
 *
 *   inband URI SEED
 *
 * Random fills, copies, writes and CRCs of two leases, by synchronous calls and through a queue;
 * the leases must have the bytes of a local model.  One lease has grown, so it has several
 * segments.  The exit status is 1 at the first difference. */
#include <string.h>

#include "program.h"

#define BYTES 3000000
#define ROUNDS 200
#define BATCH 16

static uint64_t seed;
static uint8_t model[2][BYTES], back[BYTES];
static rmem_lease *leases[2];

static uint32_t crc_of(const uint8_t *at, uint64_t bytes)
{
	uint32_t state = UINT32_MAX;

	for (uint64_t i = 0; i < bytes; i++) {
		state ^= at[i];
		for (unsigned bit = 0; bit < 8; bit++)
			state = (state >> 1) ^ (state & 1 ? 0x82f63b78u : 0);
	}
	return ~state;
}

/* ---- synchronous calls ---- */

MODULAR static void fill_once(unsigned which, uint64_t offset, uint64_t bytes)
{
	uint64_t pattern = seed * 7 + 1;

	must(rmem_fill(leases[which], offset, bytes, pattern), "rmem_fill");
	for (uint64_t i = 0; i < bytes; i++)
		memcpy(&model[which][offset + i], (uint8_t *)&pattern + i % 8, 1);
}

static void copy_once(unsigned which, uint64_t offset, uint64_t bytes)
{
	unsigned from = draw(&seed, 2);
	uint64_t at = draw(&seed, (uint32_t)(BYTES - bytes + 1));
	int result = rmem_copy(leases[which], offset, leases[from], at, bytes);

	if (which == from && offset < at + bytes && at < offset + bytes && bytes > 0) {
		if (result != -EINVAL)
			fail("a copy between ranges that overlap", result);
		return;
	}
	must(result, "rmem_copy");
	memcpy(&model[which][offset], &model[from][at], bytes);
}

static void crc_once(unsigned which, uint64_t offset, uint64_t bytes)
{
	uint32_t crc = 0;

	must(rmem_crc32c(leases[which], offset, bytes, &crc), "rmem_crc32c");
	if (crc != crc_of(&model[which][offset], bytes))
		fail("the CRC differs", (int)bytes);
}

static void write_once(unsigned which, uint64_t offset, uint64_t bytes)
{
	memset(&model[which][offset], (int)draw(&seed, 256), bytes);
	must(rmem_write_notify(leases[which], offset, &model[which][offset], bytes,
			       draw(&seed, 1000)),
	     "rmem_write_notify");
}

static void rounds_run(void)
{
	static void (*const once[])(unsigned, uint64_t,
				    uint64_t) = { fill_once, copy_once, crc_once,
						  write_once };

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t bytes =
			draw(&seed, 3) ? draw(&seed, 5000) : draw(&seed, BYTES / 2);

		once[draw(&seed, 4)](draw(&seed, 2),
				     draw(&seed, (uint32_t)(BYTES - bytes + 1)), bytes);
	}
}

static void leases_check(const char *when)
{
	for (unsigned i = 0; i < 2; i++) {
		must(rmem_read(leases[i], 0, back, BYTES), "rmem_read");
		if (memcmp(back, model[i], BYTES) != 0)
			fail(when, i);
	}
}

/* ---- through a queue ---- */

static uint16_t fence(unsigned i)
{
	return i == 0 ? (uint16_t)RMEM_OP_FENCE : 0;
}

/* Fill slices of one lease, copy each to the other lease, and compute its CRC there, with a fence
 * before each kind, and a ping. */
static void batch_run(rmem_queue *queue)
{
	const uint64_t bytes = BYTES / BATCH;
	struct rmem_op ops[3 * BATCH + 1] = { 0 };
	struct rmem_source places[BATCH];
	struct rmem_completion done[3 * BATCH + 1];
	uint32_t crcs[BATCH];
	unsigned n = 0;

	for (unsigned i = 0; i < BATCH; i++, n++)
		ops[n] = (struct rmem_op){ .opcode = RMEM_OP_FILL,
					   .lease = leases[0],
					   .offset = i * bytes,
					   .bytes = bytes,
					   .pattern = RMEM_FILL_BYTE(i + 1) };
	ops[n++] = (struct rmem_op){ .opcode = RMEM_OP_PING };
	for (unsigned i = 0; i < BATCH; i++, n++) {
		places[i] = (struct rmem_source){ leases[0], i * bytes };
		ops[n] = (struct rmem_op){ .opcode = RMEM_OP_COPY,
					   .flags = fence(i),
					   .lease = leases[1],
					   .offset = (BATCH - 1 - i) * bytes,
					   .bytes = bytes,
					   .source = &places[i] };
	}
	for (unsigned i = 0; i < BATCH; i++, n++)
		ops[n] = (struct rmem_op){ .opcode = RMEM_OP_CRC,
					   .flags = fence(i),
					   .lease = leases[1],
					   .offset = i * bytes,
					   .bytes = bytes,
					   .addr = &crcs[i] };
	if (rmem_submit(queue, ops, n) != (int)n)
		fail("rmem_submit", (int)n);
	for (unsigned got = 0; got < n;) {
		int taken = rmem_wait(queue, done, n, 1, 20000);

		if (taken <= 0)
			fail("rmem_wait", taken);
		for (int i = 0; i < taken; i++)
			must_complete(queue, &done[i]);
		got += (unsigned)taken;
	}
	for (unsigned i = 0; i < BATCH; i++) {
		memset(&model[0][i * bytes], (int)i + 1, bytes);
		memset(&model[1][(BATCH - 1 - i) * bytes], (int)i + 1, bytes);
	}
	for (unsigned i = 0; i < BATCH; i++)
		if (crcs[i] != crc_of(&model[1][i * bytes], bytes))
			fail("a CRC of the queue differs", (int)i);
}

int main(int argc, char **argv)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	struct rmem_queue_params queue_params = rmem_queue_params_init();
	rmem_queue *queue;
	rmem *session;
	uint64_t ns;

	if (argc != 3)
		return 2;
	seed = strtoull(argv[2], NULL, 0);
	(void)printf("seed %s\n", argv[2]);
	must(rmem_open(argv[1], NULL, &session), "rmem_open");
	params.bytes = BYTES;
	must(rmem_alloc(session, &params, &leases[0]), "rmem_alloc");
	params.bytes = 10000;
	must(rmem_alloc(session, &params, &leases[1]), "rmem_alloc");
	for (uint64_t bytes = 300000; bytes < BYTES; bytes += 555555)
		must(rmem_grow(leases[1], bytes), "rmem_grow");
	must(rmem_grow(leases[1], BYTES), "rmem_grow");
	must(rmem_ping_data(session, &ns), "rmem_ping_data");
	rounds_run();
	leases_check("a lease differs after synchronous calls");
	queue_params.depth = 64;
	must(rmem_queue_create(session, &queue_params, &queue), "rmem_queue_create");
	batch_run(queue);
	leases_check("a lease differs after operations of a queue");
	rmem_queue_free(queue);
	must(rmem_destroy(leases[0]), "rmem_destroy");
	must(rmem_destroy(leases[1]), "rmem_destroy");
	rmem_close(session);
	return 0;
}
