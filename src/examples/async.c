/* SPDX-License-Identifier: BSD-3-Clause */
/* Many operations at once: a queue, memory registered once, writes submitted as one batch,
 * a fence, and reads behind it.
 *
 *   async rmem://HOST[:PORT] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rmem/rmem.h>

#define BLOCKS 32u
#define BLOCK_BYTES 4096u

static int fail(void)
{
	(void)fprintf(stderr, "async: %s\n", rmem_error());
	return -1;
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
static int completions_wait(rmem_queue *queue)
{
	struct rmem_completion done[16];

	while (rmem_queue_outstanding(queue)) {
		int n = rmem_wait(queue, done, 16, 1, -1);

		if (n < 0)
			return fail();
		for (int i = 0; i < n; i++) {
			if (done[i].status == 0)
				continue;
			(void)fprintf(stderr, "async: block %u: %s\n",
				      (unsigned)done[i].cookie,
				      rmem_completion_error(queue, &done[i]));
			return -1;
		}
	}
	return 0;
}

static int blocks_move(rmem_queue *queue, rmem_lease *lease, rmem_buffer *buffer)
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
			return fail();
		submitted += (unsigned)n;
		/* fewer are taken only when the queue is full */
		if (submitted < 2 * BLOCKS && completions_wait(queue))
			return -1;
	}
	if (completions_wait(queue))
		return -1;
	if (memcmp(base, base + BLOCKS * BLOCK_BYTES, BLOCKS * BLOCK_BYTES) != 0) {
		(void)fprintf(stderr, "async: what was read is not what was written\n");
		return -1;
	}
	return 0;
}

static int session_use(rmem *session)
{
	struct rmem_alloc_params alloc = rmem_alloc_params_init();
	struct rmem_buffer_params memory = rmem_buffer_params_init();
	struct rmem_queue_params params = rmem_queue_params_init();
	rmem_lease *lease;
	rmem_buffer *buffer;
	rmem_queue *queue;
	int err;

	alloc.bytes = BLOCKS * BLOCK_BYTES;
	memory.bytes = 2 * BLOCKS * BLOCK_BYTES;
	params.depth = 2 * BLOCKS;
	if (rmem_alloc(session, &alloc, &lease))
		return fail();
	if (rmem_buffer_create(session, &memory, &buffer))
		return fail();
	if (rmem_queue_create(session, &params, &queue))
		return fail();
	err = blocks_move(queue, lease, buffer);
	/* the queue first: it may still have operations on the buffer */
	rmem_queue_free(queue);
	if (rmem_buffer_free(buffer) || rmem_destroy(lease))
		return fail();
	return err;
}

int main(int argc, char **argv)
{
	rmem *session;
	int err;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: async URI\n");
		return 2;
	}
	if (rmem_open(argv[1], NULL, &session)) {
		(void)fail();
		return EXIT_FAILURE;
	}
	/* whatever a failure left open ends with the session */
	err = session_use(session);
	rmem_close(session);
	if (err)
		return EXIT_FAILURE;
	(void)printf("async: OK\n");
	return EXIT_SUCCESS;
}
