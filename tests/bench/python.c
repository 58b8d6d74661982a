/* SPDX-License-Identifier: BSD-3-Clause */
/* python URI: the loop in C that python.sh compares with the batches of Python.  For each line "OP
 * BYTES N MILLISECONDS" it reads or writes N ranges at a time, each of them in memory of its own,
 * and prints the operations per second. */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "integration/program.h"

#define MAX 128u

static rmem_queue *queue;
static struct rmem_op ops[MAX];

static uint64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void batch(unsigned n)
{
	struct rmem_completion completions[MAX];
	unsigned done = 0;

	if (rmem_submit(queue, ops, n) != (int)n)
		fail("submit", 0);
	while (done < n) {
		int got = rmem_wait(queue, completions, MAX, n - done, -1);

		must(got, "wait");
		for (int i = 0; i < got; i++)
			must_complete(queue, &completions[i]);
		done += (unsigned)got;
	}
}

static void measure(unsigned n, uint64_t duration_ns)
{
	uint64_t begin = now_ns(), ns, done = 0;

	do {
		batch(n);
		done += n;
		ns = now_ns() - begin;
	} while (ns < duration_ns);
	(void)printf("%.1f\n", (double)done * 1e9 / (double)ns);
	(void)fflush(stdout);
}

int main(int argc, char **argv)
{
	struct rmem_queue_params queue_params = rmem_queue_params_init();
	struct rmem_alloc_params params = rmem_alloc_params_init();
	unsigned n, bytes, ms;
	rmem_lease *lease;
	char line[80], op[8];
	rmem *session;
	char *memory;

	if (argc != 2)
		return 2;
	params.bytes = (uint64_t)MAX << 20;
	queue_params.depth = 1024;
	memory = malloc(params.bytes);
	must(memory ? 0 : -1, "malloc");
	memset(memory, 'x', params.bytes);
	must(rmem_open(argv[1], NULL, &session), "open");
	must(rmem_alloc(session, &params, &lease), "alloc");
	must(rmem_queue_create(session, &queue_params, &queue), "queue");
	while (fgets(line, sizeof(line), stdin) &&
	       sscanf(line, "%7s %u %u %u", op, &bytes, &n, &ms) == 4 && n <= MAX &&
	       bytes <= 1u << 20) {
		for (unsigned i = 0; i < n; i++) {
			ops[i] = rmem_op_init(strcmp(op, "read") == 0 ? RMEM_OP_READ
								      : RMEM_OP_WRITE,
					      lease, (uint64_t)i * bytes, bytes);
			ops[i].addr = memory + (size_t)i * bytes;
		}
		measure(n, ms * UINT64_C(1000000));
	}
	rmem_close(session);
	free(memory);
	return 0;
}
