/* SPDX-License-Identifier: BSD-3-Clause */
/* counted URI ADDS: adds 1 to a number again and again, with writes between the adds, and DEPTH of
 * them at a time.  Nothing else changes the number, so each answer is known before, within limits:
 * it is the number of adds so far, of which those with an unknown outcome may not have been done.
 * Prints "ready" when it is connected, and waits for a line; at the end prints how many outcomes
 * were unknown.  The exit status is 1 at the first wrong answer. */
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "integration/program.h"

#define DEPTH 16
#define WRITE UINT64_MAX /* the cookie of a write */

static rmem_lease *lease;
static rmem_queue *queue;
static uint64_t olds[DEPTH], written;
static uint64_t least, most; /* limits of the number that the next add finds */
static unsigned unknown;

static void add_submit(unsigned i)
{
	static const struct rmem_atomic one = { .operand = 1 };
	const struct rmem_op op = {
		.opcode = RMEM_OP_FETCH_ADD,
		.lease = lease,
		.addr = &olds[i % DEPTH],
		.bytes = sizeof(olds[0]),
		.cookie = i,
		.atomic = &one,
	};

	const struct rmem_op write = {
		.opcode = RMEM_OP_WRITE,
		.lease = lease,
		.offset = 64,
		.addr = &written,
		.bytes = sizeof(written),
		.cookie = WRITE,
	};

	must(rmem_submit(queue, &op, 1), "submit");
	must(rmem_submit(queue, &write, 1), "submit");
}

/* False: the answer is wrong. */
static bool add_check(const struct rmem_completion *completion)
{
	uint64_t old = olds[completion->cookie % DEPTH];

	if (completion->status == -ECONNRESET) {
		unknown++;
		most++;
		return true;
	}
	must_complete(queue, completion);
	if (old < least || old > most) {
		(void)fprintf(stderr,
			      "wrong: add %" PRIu64 " found %" PRIu64 ", not %" PRIu64
			      " to %" PRIu64 "\n",
			      completion->cookie, old, least, most);
		return false;
	}
	least = most = old + 1;
	return true;
}

int main(int argc, char **argv)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	struct rmem_completion completion;
	unsigned adds, submitted = 0;
	rmem *session;

	if (argc != 3)
		return 2;
	adds = (unsigned)strtoul(argv[2], NULL, 10);
	must(rmem_open(argv[1], NULL, &session), "open");
	params.bytes = 4096;
	must(rmem_alloc(session, &params, &lease), "alloc");
	must(rmem_queue_create(session, NULL, &queue), "queue");
	step("ready");
	for (unsigned i = 0; i < adds; i++) {
		while (submitted < adds && submitted < i + DEPTH)
			add_submit(submitted++);
		do {
			must(rmem_wait(queue, &completion, 1, 1, -1), "wait");
		} while (completion.cookie == WRITE);
		if (!add_check(&completion))
			return 1;
	}
	printf("%u adds, %u unknown, none wrong\n", adds, unknown);
	rmem_close(session);
	return 0;
}
