/* SPDX-License-Identifier: BSD-3-Clause */
/* attached URI BYTES: allocates a lease, writes BYTES, reads them back and compares them.  It
 * prints "ready" when the lease is attached, so that a script can stop the server before the
 * transfer, and "transferred" after it, and waits for a line after each.
 * The exit status is 1 when a byte differs or a call fails. */
#include <string.h>

#include "integration/program.h"

#define CHUNK (1u << 20)
#define DEPTH 8

/* Transfer the whole buffer in chunks, DEPTH of them outstanding. */
static void transfer(rmem_queue *queue, rmem_lease *lease, rmem_buffer *buffer,
		     enum rmem_opcode opcode)
{
	uint64_t bytes = rmem_buffer_bytes(buffer), posted = 0, done = 0;

	while (done < bytes) {
		struct rmem_completion completions[DEPTH];
		int n;

		while (posted < bytes && rmem_queue_outstanding(queue) < DEPTH) {
			struct rmem_op op = {
				.opcode = (uint16_t)opcode,
				.lease = lease,
				.offset = posted,
				.addr = (uint8_t *)rmem_buffer_addr(buffer) + posted,
				.bytes =
					bytes - posted < CHUNK ? bytes - posted : CHUNK,
				.buffer = buffer,
			};

			must(rmem_submit(queue, &op, 1), "submit");
			posted += op.bytes;
		}
		n = rmem_wait(queue, completions, DEPTH, 1, -1);
		must(n, "wait");
		for (int i = 0; i < n; i++) {
			must_complete(queue, &completions[i]);
			done += completions[i].bytes;
		}
	}
}

static uint64_t pattern(uint64_t i)
{
	return (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

int main(int argc, char **argv)
{
	struct rmem_alloc_params alloc = rmem_alloc_params_init();
	struct rmem_queue_params params = rmem_queue_params_init();
	struct rmem_buffer_params local = rmem_buffer_params_init();
	rmem *session;
	rmem_lease *lease;
	rmem_queue *queue;
	rmem_buffer *buffer;
	uint64_t *words, n_words;

	if (argc != 3) {
		(void)fprintf(stderr, "usage: attached URI BYTES\n");
		return 2;
	}
	alloc.bytes = local.bytes = strtoull(argv[2], NULL, 10);
	params.depth = DEPTH;
	must(rmem_open(argv[1], NULL, &session), "open");
	must(rmem_alloc(session, &alloc, &lease), "alloc");
	must(rmem_queue_create(session, &params, &queue), "queue");
	must(rmem_buffer_create(session, &local, &buffer), "buffer");
	words = rmem_buffer_addr(buffer);
	n_words = rmem_buffer_bytes(buffer) / sizeof(*words);
	for (uint64_t i = 0; i < n_words; i++)
		words[i] = pattern(i);
	step("ready");
	transfer(queue, lease, buffer, RMEM_OP_WRITE);
	memset(words, 0, rmem_buffer_bytes(buffer));
	transfer(queue, lease, buffer, RMEM_OP_READ);
	for (uint64_t i = 0; i < n_words; i++)
		if (words[i] != pattern(i))
			fail("a word differs", (long)i);
	step("transferred");
	rmem_queue_free(queue);
	must(rmem_buffer_free(buffer), "buffer");
	must(rmem_destroy(lease), "free");
	rmem_close(session);
	return 0;
}
