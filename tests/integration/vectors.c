/* SPDX-License-Identifier: BSD-3-Clause */
/* Vectored operations through the public API, against a running server:
 *
 *   vectors URI SEED
 *
 * Lists of random pieces, in registered memory and not, are written and read back, waiting
 * and through a queue; lease and memory must be as if each piece had been copied by itself.
 * The exit status is 1 when they are not. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rmem/rmem.h>

#define BYTES 300000
#define PIECES 40
#define ROUNDS 60

static uint64_t seed;
static uint8_t model[BYTES], back[BYTES], expected[BYTES], plain[BYTES];

static void fail(const char *what, int result)
{
	(void)fprintf(stderr, "vectors: %s: %d (%s)\n", what, result, rmem_error());
	exit(1);
}

static void must(int result, const char *what)
{
	if (result < 0)
		fail(what, result);
}

static uint32_t draw(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % below;
}

/* Pieces one behind the other, with gaps; some of nothing, some registered. */
static unsigned list_draw(struct rmem_vec vec[PIECES], rmem_buffer *buffer,
			  uint64_t *ret_total)
{
	uint8_t *registered = rmem_buffer_addr(buffer);
	unsigned n = draw(PIECES) + 1;
	uint64_t at = draw(100), total = 0;

	for (unsigned i = 0; i < n; i++) {
		uint32_t bytes = draw(4) ? draw(200) : draw(7000);
		int in_buffer = draw(3) != 0;

		vec[i].addr = (in_buffer ? registered : plain) + at;
		vec[i].bytes = bytes;
		vec[i].buffer = in_buffer ? buffer : NULL;
		at += bytes + draw(30);
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
	if (done.status || done.bytes != total) {
		(void)fprintf(stderr, "vectors: %s\n", rmem_completion_error(queue));
		exit(1);
	}
}

static void round_trip(rmem_queue *queue, rmem_lease *lease, rmem_buffer *buffer,
		       unsigned round)
{
	uint8_t *registered = rmem_buffer_addr(buffer);
	struct rmem_vec vec[PIECES];
	uint64_t total, offset, at;
	unsigned n = list_draw(vec, buffer, &total);

	offset = draw((uint32_t)(BYTES - total));
	for (at = 0; at < BYTES; at++)
		registered[at] = plain[at] = (uint8_t)draw(256);
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

	/* another list, into which a range is read */
	n = list_draw(vec, buffer, &total);
	offset = draw((uint32_t)(BYTES - total));
	memcpy(expected, registered, BYTES);
	memcpy(back, plain, BYTES);
	at = offset;
	for (unsigned i = 0; i < n; at += vec[i++].bytes)
		memcpy(vec[i].buffer ? expected + ((uint8_t *)vec[i].addr - registered)
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
	struct rmem_alloc_params want = RMEM_ALLOC_INIT;
	struct rmem_buffer_params memory = RMEM_BUFFER_INIT;
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
	must(rmem_free(lease), "free");
	rmem_close(session);
	return 0;
}
