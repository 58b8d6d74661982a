/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads with a queue each, over a device that does nothing: each with a lease and a buffer of
 * its own, or all with the same two, in slices that alternate.
 *
 *   threads N BATCH SLICES OPERATIONS
 *
 * For each slice a line "KIND NS": how long a thread takes for an operation, on average over its
 * operations and over all threads.  Kinds are "own", "shared", and "again", as "own". */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rmem/rmem.h>

#include "unit/unit.h"
#include "null-session.h"
#include "null-verbs.h"

#define THREADS_MAX 32u
#define BATCH_MAX 64u
#define BYTES 64u

/* On cache lines of its own: the benchmark measures only what the queues share. */
struct worker {
	_Alignas(128) pthread_t thread;
	rmem_queue *queue;
	rmem_lease *lease;
	rmem_buffer *buffer;
	struct rmem_op ops[BATCH_MAX];
	struct rmem_completion completions[BATCH_MAX];
	double ns; /* of an operation in the last slice */
};

static unsigned n_threads, batch, slices, operations;
static struct worker workers[THREADS_MAX];
static pthread_barrier_t start;

static double now_ns(void)
{
	struct timespec ts;

	/* it cannot fail on Linux */
	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	unsigned n;
	int failed = 0;
	double begin;

	(void)pthread_barrier_wait(&start);
	begin = now_ns();
	for (n = 0; n < operations; n += batch) {
		unsigned got = 0;

		/* Check's assertions write to a file each time */
		if (rmem_submit(worker->queue, worker->ops, batch) != (int)batch)
			abort();
		while (got < batch) {
			int now = rmem_poll(worker->queue, worker->completions, batch);

			for (int i = 0; i < now; i++)
				failed |= worker->completions[i].status;
			got += (unsigned)now;
		}
	}
	worker->ns = (now_ns() - begin) / n;
	ck_assert_int_eq(failed, 0);
	return NULL;
}

static void slice(const char *kind, bool shared)
{
	double sum = 0;

	for (unsigned t = 0; t < n_threads; t++) {
		const struct worker *of = &workers[shared ? 0 : t];

		for (unsigned i = 0; i < batch; i++)
			workers[t].ops[i] = (struct rmem_op){
				.opcode = RMEM_OP_READ,
				.lease = of->lease,
				.buffer = of->buffer,
				.addr = (char *)rmem_buffer_addr(of->buffer) +
					(size_t)i * BYTES,
				.offset = (uint64_t)i * BYTES,
				.bytes = BYTES,
			};
		ck_assert_int_eq(
			pthread_create(&workers[t].thread, NULL, work, &workers[t]), 0);
	}
	for (unsigned t = 0; t < n_threads; t++) {
		ck_assert_int_eq(pthread_join(workers[t].thread, NULL), 0);
		sum += workers[t].ns;
	}
	(void)printf("%s %.2f\n", kind, sum / n_threads);
}

static void worker_make(rmem *session, struct worker *worker)
{
	struct rmem_alloc_params alloc = rmem_alloc_params_init();
	struct rmem_buffer_params local = rmem_buffer_params_init();
	struct rmem_queue_params params = rmem_queue_params_init();

	alloc.bytes = local.bytes = LEASE_BYTES;
	params.channels = 1;
	params.depth = batch;
	ck_assert_msg(rmem_alloc(session, &alloc, &worker->lease) == 0, "%s",
		      rmem_error());
	ck_assert_msg(rmem_buffer_create(session, &local, &worker->buffer) == 0, "%s",
		      rmem_error());
	ck_assert_msg(rmem_queue_create(session, &params, &worker->queue) == 0, "%s",
		      rmem_error());
}

/* The core speaks through Check, so this is a test case of it. */
START_TEST(threads_run)
{
	rmem *session;

	null_device(false);
	session = null_session_open();
	for (unsigned t = 0; t < n_threads; t++)
		worker_make(session, &workers[t]);
	ck_assert_int_eq(pthread_barrier_init(&start, NULL, n_threads), 0);
	for (unsigned i = 0; i < slices; i++) {
		/* the order is inverted every second time, so that a drift cancels out */
		slice(i % 2 ? "again" : "own", false);
		slice("shared", true);
		slice(i % 2 ? "own" : "again", false);
	}
	(void)pthread_barrier_destroy(&start);
	for (unsigned t = 0; t < n_threads; t++)
		rmem_queue_free(workers[t].queue);
	null_session_close(session);
}
END_TEST

static bool number_parse(const char *text, unsigned max, unsigned *ret_number)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	*ret_number = (unsigned)number;
	return *text && !*end && number > 0 && number <= max;
}

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("work");
	Suite *suite = suite_create("threads");
	SRunner *runner = srunner_create(suite);
	int failed;

	if (argc != 5 || !number_parse(argv[1], THREADS_MAX, &n_threads) ||
	    !number_parse(argv[2], BATCH_MAX, &batch) ||
	    !number_parse(argv[3], 100000, &slices) ||
	    !number_parse(argv[4], 100000000, &operations)) {
		(void)fprintf(stderr, "usage: threads N BATCH SLICES OPERATIONS\n");
		return 2;
	}
	tcase_add_test(tcase, threads_run);
	tcase_set_timeout(tcase, 0);
	suite_add_tcase(suite, tcase);
	srunner_set_fork_status(runner, CK_NOFORK);
	srunner_run_all(runner, CK_SILENT);
	failed = srunner_ntests_failed(runner);
	if (failed)
		srunner_print(runner, CK_NORMAL);
	srunner_free(runner);
	return failed ? 1 : 0;
}
