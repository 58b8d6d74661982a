/* SPDX-License-Identifier: BSD-3-Clause */
/* Many operations at once: a queue, memory registered once, writes submitted as one batch,
 * a fence, and reads behind it.
 *
 *   async rmem://HOST[:PORT] */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rmem/rmem.h>

#define BLOCKS 32u
#define BLOCK_BYTES 4096u

/* rmem_error() tells which call failed and why.  The server frees what the process leaves. */
static _Noreturn void fail(void)
{
	errx(EXIT_FAILURE, "%s", rmem_error());
}

/* The buffer's first half is written, its second half read into. */
static void batch_fill(struct rmem_op *ops, enum rmem_opcode opcode, rmem_lease *lease,
		       rmem_buffer *buffer)
{
	char *base = rmem_buffer_addr(buffer);

	if (opcode == RMEM_OP_READ)
		base += BLOCKS * BLOCK_BYTES;
	for (unsigned i = 0; i < BLOCKS; i++) {
		uint64_t at = (uint64_t)i * BLOCK_BYTES;

		ops[i] = opcode == RMEM_OP_READ
				 ? rmem_op_read(lease, at, base + at, BLOCK_BYTES)
				 : rmem_op_write(lease, at, base + at, BLOCK_BYTES);
		ops[i].buffer = buffer;
		ops[i].cookie = i;
	}
}

/* Take completions until none is outstanding; each has a status of its own. */
static void completions_wait(rmem_queue *queue)
{
	struct rmem_completion done[16];

	while (rmem_queue_outstanding(queue)) {
		int n = rmem_wait(queue, done, 16, 1, -1);

		if (n < 0)
			fail();
		for (int i = 0; i < n; i++)
			if (done[i].status)
				errx(EXIT_FAILURE, "block %u: %s",
				     (unsigned)done[i].cookie,
				     rmem_completion_error(queue, &done[i]));
	}
}

static void blocks_move(rmem_queue *queue, rmem_lease *lease, rmem_buffer *buffer)
{
	struct rmem_op ops[2 * BLOCKS];
	unsigned char *base = rmem_buffer_addr(buffer);
	unsigned submitted = 0;

	for (unsigned i = 0; i < BLOCKS * BLOCK_BYTES; i++)
		base[i] = (unsigned char)(i * 31 + i / BLOCK_BYTES);
	batch_fill(ops, RMEM_OP_WRITE, lease, buffer);
	batch_fill(ops + BLOCKS, RMEM_OP_READ, lease, buffer);
	/* operations complete in any order; the first read waits for all the writes, and
	 * with it what follows */
	ops[BLOCKS].flags = RMEM_OP_FENCE;
	while (submitted < 2 * BLOCKS) {
		int n = rmem_submit(queue, ops + submitted, 2 * BLOCKS - submitted);

		if (n < 0)
			fail();
		submitted += (unsigned)n;
		/* fewer are taken only when the queue is full; at the end nothing is left */
		completions_wait(queue);
	}
	if (memcmp(base, base + BLOCKS * BLOCK_BYTES, BLOCKS * BLOCK_BYTES) != 0)
		errx(EXIT_FAILURE, "what was read is not what was written");
}

int main(int argc, char **argv)
{
	struct rmem_alloc_params alloc = rmem_alloc_params_init();
	struct rmem_buffer_params memory = rmem_buffer_params_init();
	struct rmem_queue_params params = rmem_queue_params_init();
	rmem *session;
	rmem_lease *lease;
	rmem_buffer *buffer;
	rmem_queue *queue;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: async URI\n");
		return 2;
	}
	alloc.bytes = BLOCKS * BLOCK_BYTES;
	memory.bytes = 2 * BLOCKS * BLOCK_BYTES;
	params.depth = 2 * BLOCKS;
	if (rmem_open(argv[1], NULL, &session) || rmem_alloc(session, &alloc, &lease) ||
	    rmem_buffer_create(session, &memory, &buffer) ||
	    rmem_queue_create(session, &params, &queue))
		fail();
	blocks_move(queue, lease, buffer);
	/* the queue first: it may still have operations on the buffer */
	rmem_queue_free(queue);
	if (rmem_buffer_free(buffer) || rmem_destroy(lease))
		fail();
	rmem_close(session);
	(void)printf("async: OK\n");
	return EXIT_SUCCESS;
}
