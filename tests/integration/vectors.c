/* SPDX-License-Identifier: BSD-3-Clause */
/* Vectored operations through the public API, against a running server:
 *
 *   vectors URI SEED
 *
 * Writes and reads lists of random pieces of registered and of plain memory, by synchronous calls
 * and through a queue.  Lease and memory must be as if each piece had been copied by itself; the
 * exit status is 1 at the first difference. */
#include <string.h>

#include "program.h"

#define BYTES 300000
#define PIECES 40
#define ROUNDS 60

static uint64_t seed;
static uint8_t model[BYTES], back[BYTES], expected[BYTES], plain[BYTES];

/* Pieces in rising order with gaps between them; some are empty, some are registered. */
static unsigned list_draw(struct rmem_vec vec[PIECES], rmem_buffer *buffer,
			  uint64_t *ret_total)
{
	uint8_t *registered = rmem_buffer_addr(buffer);
	unsigned n = draw(&seed, PIECES) + 1;
	uint64_t at = draw(&seed, 100), total = 0;

	for (unsigned i = 0; i < n; i++) {
		uint32_t bytes = draw(&seed, 4) ? draw(&seed, 200) : draw(&seed, 7000);
		int registers = draw(&seed, 3) != 0;

		vec[i].addr = (registers ? registered : plain) + at;
		vec[i].bytes = bytes;
		/* the library finds a buffer that is not named */
		vec[i].buffer = registers && draw(&seed, 3) != 0 ? buffer : NULL;
		at += bytes + draw(&seed, 30);
		total += bytes;
	}
	*ret_total = total;
	return n;
}

static void run(rmem_queue *queue, rmem_lease *lease, unsigned opcode, uint64_t offset,
		const struct rmem_vec *vec, unsigned n, uint64_t total)
{
	struct rmem_op op = { .opcode = (uint16_t)opcode,
			      .lease = lease,
			      .offset = offset,
			      .n_vec = n,
			      .vec = vec };
	struct rmem_completion done;

	must(rmem_submit(queue, &op, 1), "submit");
	must(rmem_wait(queue, &done, 1, 1, -1), "wait");
	must_complete(queue, &done);
	if (done.bytes != total)
		fail("the length of a completion differs", (long)done.bytes);
}

static int in_buffer(const rmem_buffer *buffer, const void *addr)
{
	const char *from = rmem_buffer_addr(buffer), *at = addr;

	return at >= from && at < from + BYTES;
}

static void round_trip(rmem_queue *queue, rmem_lease *lease, rmem_buffer *buffer,
		       unsigned round)
{
	uint8_t *registered = rmem_buffer_addr(buffer);
	struct rmem_vec vec[PIECES];
	uint64_t total, offset, at;
	unsigned n = list_draw(vec, buffer, &total);

	offset = draw(&seed, (uint32_t)(BYTES - total));
	for (at = 0; at < BYTES; at++)
		registered[at] = plain[at] = (uint8_t)draw(&seed, 256);
	if (round % 2)
		must(rmem_writev(lease, offset, vec, n), "writev");
	else
		run(queue, lease, RMEM_OP_WRITEV, offset, vec, n, total);
	at = offset;
	for (unsigned i = 0; i < n; at += vec[i++].bytes)
		memcpy(model + at, vec[i].addr, vec[i].bytes);
	must(rmem_read(lease, 0, back, BYTES), "read");
	if (memcmp(back, model, BYTES) != 0)
		fail("the lease differs", (int)round);

	/* read a range into another list */
	n = list_draw(vec, buffer, &total);
	offset = draw(&seed, (uint32_t)(BYTES - total));
	memcpy(expected, registered, BYTES);
	memcpy(back, plain, BYTES);
	at = offset;
	for (unsigned i = 0; i < n; at += vec[i++].bytes)
		memcpy(in_buffer(buffer, vec[i].addr)
			       ? expected + ((uint8_t *)vec[i].addr - registered)
			       : back + ((uint8_t *)vec[i].addr - plain),
		       model + at, vec[i].bytes);
	if (round % 2)
		must(rmem_readv(lease, offset, vec, n), "readv");
	else
		run(queue, lease, RMEM_OP_READV, offset, vec, n, total);
	if (memcmp(registered, expected, BYTES) != 0 || memcmp(plain, back, BYTES) != 0)
		fail("local memory differs", (int)round);
}

int main(int argc, char **argv)
{
	struct rmem_alloc_params want = rmem_alloc_params_init();
	struct rmem_buffer_params memory = rmem_buffer_params_init();
	rmem_buffer *buffer;
	rmem_lease *lease;
	rmem_queue *queue;
	rmem *session;

	if (argc != 3) {
		(void)fprintf(stderr, "usage: vectors URI SEED\n");
		return 2;
	}
	seed = strtoull(argv[2], NULL, 0);
	(void)printf("seed %s\n", argv[2]);
	must(rmem_open(argv[1], NULL, &session), "open");
	want.bytes = BYTES;
	must(rmem_alloc(session, &want, &lease), "alloc");
	memory.bytes = BYTES;
	must(rmem_buffer_create(session, &memory, &buffer), "buffer");
	must(rmem_queue_create(session, NULL, &queue), "queue");
	for (unsigned round = 0; round < ROUNDS; round++)
		round_trip(queue, lease, buffer, round);
	if (rmem_buffer_free(buffer) != 0)
		fail("the buffer is in use", 1);
	must(rmem_destroy(lease), "free");
	rmem_close(session);
	return 0;
}
