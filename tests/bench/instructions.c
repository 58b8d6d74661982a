/* SPDX-License-Identifier: BSD-3-Clause */
/* What instructions.sh counts: operations through librmem, or the same work requests posted
 * by bare calls, over a device that does nothing.  Only measured() is counted.
 *
 * Operations go through a queue (rmem), or by the synchronous calls, from memory of the program
 * (plain) or from a buffer of the library (registered).  Over iWARP a write that completes may not
 * be placed yet: a chain of writes ends with a read of one byte, by bare calls as through librmem.
 * The program ignores SIGPIPE; otherwise librmem would block that signal for each post.
 *
 * `time` counts nothing: slices of the queue and of bare calls in turn, by the clock.
 *
 *   instructions rmem|plain|registered|bare|time read|write BYTES CHANNELS BATCH OPERATIONS
 * [iwarp] */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rmem/rmem.h>

#include "unit/unit.h"
#include "null-session.h"
#include "null-verbs.h"

#define CHANNELS_MAX 64
#define BATCH_MAX 256
#define WARM_UP 1000
#define PUSHES_MAX UINT64_C(4)
#define SLICES 40 /* of each of three; even */

struct work {
	bool bare, plain, registered, timed, write, iwarp;
	uint32_t bytes;
	unsigned channels, batch;
	unsigned long operations;
};

/* Offsets walk through the lease, so that none is known when the program is compiled. */
static uint64_t offset_next(const struct work *work, uint64_t offset)
{
	offset += work->bytes;
	return offset + work->bytes <= LEASE_BYTES ? offset : 0;
}

/* ---- through the library ---- */

static rmem *session;
static rmem_queue *queue;
static rmem_lease *lease;
static rmem_buffer *buffer;
static struct rmem_op ops[BATCH_MAX];
static struct rmem_completion completions[BATCH_MAX];
static char *memory; /* the buffer's */
static char plain_memory[LEASE_BYTES];

static void library_open(const struct work *work)
{
	struct rmem_alloc_params alloc = rmem_alloc_params_init();
	struct rmem_buffer_params local = rmem_buffer_params_init();
	struct rmem_queue_params params = rmem_queue_params_init();
	int err;

	session = null_session_open();
	alloc.bytes = local.bytes = LEASE_BYTES;
	params.channels = work->channels;
	params.depth = work->batch;
	err = rmem_alloc(session, &alloc, &lease);
	if (!err)
		err = rmem_buffer_create(session, &local, &buffer);
	if (!err)
		err = rmem_queue_create(session, &params, &queue);
	if (err) {
		(void)fprintf(stderr, "instructions: %s\n", rmem_error());
		exit(1);
	}
	memory = rmem_buffer_addr(buffer);
	for (unsigned i = 0; i < work->batch; i++)
		ops[i] = (struct rmem_op){
			.opcode = work->write ? RMEM_OP_WRITE : RMEM_OP_READ,
			.lease = lease,
			.addr = memory,
			.bytes = work->bytes,
			.buffer = buffer,
		};
}

static void library_close(void)
{
	rmem_queue_free(queue);
	null_session_close(session);
}

static uint64_t library_batch(const struct work *work, uint64_t offset, bool *ok)
{
	unsigned got = 0;

	for (unsigned i = 0; i < work->batch; i++) {
		ops[i].offset = offset;
		ops[i].addr = memory + offset;
		ops[i].cookie = i;
		offset = offset_next(work, offset);
	}
	if (rmem_submit(queue, ops, work->batch) != (int)work->batch) {
		*ok = false;
		return offset;
	}
	while (got < work->batch) {
		int n = rmem_poll(queue, completions, work->batch);

		for (int i = 0; i < n; i++)
			*ok &= completions[i].status == 0;
		got += (unsigned)n;
	}
	return offset;
}

/* Synchronous calls, each of which posts one operation and waits for it. */
static bool library_calls(const struct work *work, unsigned long n)
{
	char *base = work->plain ? plain_memory : memory;
	uint64_t offset = 0;
	int err = 0;

	for (unsigned long i = 0; i < n && !err; i++) {
		err = work->write
			      ? rmem_write(lease, offset, base + offset, work->bytes)
			      : rmem_read(lease, offset, base + offset, work->bytes);
		offset = offset_next(work, offset);
	}
	return !err;
}

/* ---- by bare calls ---- */

static struct ibv_cq *bare_cq;
static struct ibv_qp *bare_qps[CHANNELS_MAX];
static struct ibv_send_wr bare_wrs[BATCH_MAX];
static struct ibv_sge bare_sges[BATCH_MAX];
static char bare_sink;
static struct ibv_sge bare_sink_sge = { .length = 1, .lkey = 7 };
static struct ibv_send_wr bare_confirm = {
	.sg_list = &bare_sink_sge,
	.num_sge = 1,
	.opcode = IBV_WR_RDMA_READ,
	.send_flags = IBV_SEND_SIGNALED,
	.wr.rdma.rkey = 9,
};
static char bare_memory[LEASE_BYTES];
static unsigned bare_next;

static void bare_open(const struct work *work)
{
	bare_sink_sge.addr = (uintptr_t)&bare_sink;
	bare_cq = null_cq_create(BATCH_MAX);
	for (unsigned i = 0; i < work->channels; i++)
		bare_qps[i] = null_qp_create(bare_cq);
	for (unsigned i = 0; i < work->batch; i++) {
		bare_sges[i] = (struct ibv_sge){ .length = work->bytes, .lkey = 7 };
		bare_wrs[i] = (struct ibv_send_wr){
			.sg_list = &bare_sges[i],
			.num_sge = 1,
			.opcode = work->write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
		};
		if (work->write && work->bytes <= 64)
			bare_wrs[i].send_flags = IBV_SEND_INLINE;
	}
}

static void bare_close(const struct work *work)
{
	for (unsigned i = 0; i < work->channels; i++)
		free(bare_qps[i]);
	(void)ibv_destroy_cq(bare_cq);
}

static bool confirms(const struct work *work)
{
	return work->iwarp && work->write;
}

/* The requests of a share are chained and posted by one doorbell.  The last one is signaled, or the
 * request `after` it. */
static inline __attribute__((always_inline)) uint64_t bare_shares(
	const struct work *work, uint64_t offset, bool *ok, struct ibv_send_wr *after)
{
	unsigned shares = work->channels < work->batch ? work->channels : work->batch;
	unsigned per = work->batch / shares, waiting = 0;
	struct ibv_send_wr *bad;
	struct ibv_wc wcs[32];

	for (unsigned share = 0, i = 0; share < shares; share++) {
		unsigned first = i, end = share + 1 < shares ? i + per : work->batch;

		for (; i < end; i++) {
			bare_wrs[i].wr_id = i;
			bare_wrs[i].next = &bare_wrs[i + 1];
			bare_sges[i].addr = (uintptr_t)(bare_memory + offset);
			bare_wrs[i].wr.rdma.remote_addr = 0x10000 + offset;
			bare_wrs[i].wr.rdma.rkey = 9;
			bare_wrs[i].send_flags &= ~(unsigned)IBV_SEND_SIGNALED;
			offset = offset_next(work, offset);
		}
		bare_wrs[end - 1].next = after;
		if (!after)
			bare_wrs[end - 1].send_flags |= IBV_SEND_SIGNALED;
		*ok &= ibv_post_send(bare_qps[bare_next], &bare_wrs[first], &bad) == 0;
		bare_next = bare_next + 1 < work->channels ? bare_next + 1 : 0;
		waiting++;
	}
	while (waiting) {
		int n = ibv_poll_cq(bare_cq, 32, wcs);

		for (int i = 0; i < n; i++)
			*ok &= wcs[i].status == IBV_WC_SUCCESS;
		waiting -= (unsigned)n;
	}
	return offset;
}

static __attribute__((noinline)) uint64_t bare_batch(const struct work *work,
						     uint64_t offset, bool *ok)
{
	return bare_shares(work, offset, ok, NULL);
}

static bool bare_run_confirmed(const struct work *work, unsigned long batches)
{
	uint64_t offset = 0;
	bool ok = true;

	bare_confirm.wr.rdma.remote_addr = 0x10000;
	for (unsigned long i = 0; i < batches && ok; i++)
		offset = bare_shares(work, offset, &ok, &bare_confirm);
	return ok;
}

/* ---- both ---- */

static bool run(const struct work *work, unsigned long batches)
{
	uint64_t offset = 0;
	bool ok = true;

	for (unsigned long i = 0; i < batches && ok; i++)
		offset = work->bare ? bare_batch(work, offset, &ok)
				    : library_batch(work, offset, &ok);
	return ok;
}

/* Not static and not inlined: callgrind counts from its entry to its return. */
bool measured(const struct work *work, unsigned long batches);

__attribute__((noinline)) bool measured(const struct work *work, unsigned long batches)
{
	if (work->plain || work->registered)
		return library_calls(work, batches);
	return work->bare && confirms(work) ? bare_run_confirmed(work, batches)
					    : run(work, batches);
}

/* ---- by the clock ---- */

enum loop { LOOP_BARE, LOOP_LIBRARY, LOOP_AGAIN, LOOPS };

static double slice_ns(struct work *work, enum loop loop, unsigned long batches)
{
	struct timespec start, end;

	work->bare = loop != LOOP_LIBRARY;
	(void)clock_gettime(CLOCK_MONOTONIC, &start);
	ck_assert(run(work, batches));
	(void)clock_gettime(CLOCK_MONOTONIC, &end);
	return (double)(end.tv_sec - start.tv_sec) * 1e9 +
	       (double)(end.tv_nsec - start.tv_nsec);
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double median(double *values)
{
	qsort(values, SLICES, sizeof(*values), compare);
	return (values[SLICES / 2 - 1] + values[SLICES / 2]) / 2;
}

/* Each operation of librmem and of the bare loop in ns, and the ratios of the rates: librmem's to
 * the bare loop's, and the bare loop's to itself. */
static void time_print(struct work *work, unsigned long batches)
{
	double ns[LOOPS][SLICES], ratio[SLICES], aa[SLICES];
	double n = (double)batches * work->batch;

	for (unsigned i = 0; i < SLICES; i++) {
		for (unsigned k = 0; k < LOOPS; k++) {
			/* each loop is the first as often as the last */
			enum loop loop = i % 2 ? LOOPS - 1 - k : k;

			ns[loop][i] = slice_ns(work, loop, batches);
		}
		ratio[i] = ns[LOOP_BARE][i] / ns[LOOP_LIBRARY][i];
		aa[i] = ns[LOOP_BARE][i] / ns[LOOP_AGAIN][i];
	}
	(void)printf("bare %.1f librmem %.1f ratio %.3f aa %.3f\n",
		     median(ns[LOOP_BARE]) / n, median(ns[LOOP_LIBRARY]) / n,
		     median(ratio), median(aa));
}

/* ---- the program ---- */

static bool work_parse(int argc, char **argv, struct work *work)
{
	if (argc != 7 && (argc != 8 || strcmp(argv[7], "iwarp") != 0))
		return false;
	*work = (struct work){
		.bare = !strcmp(argv[1], "bare"),
		.plain = !strcmp(argv[1], "plain"),
		.registered = !strcmp(argv[1], "registered"),
		.timed = !strcmp(argv[1], "time"),
		.write = !strcmp(argv[2], "write"),
		.iwarp = argc == 8,
		.bytes = (uint32_t)strtoul(argv[3], NULL, 10),
		.channels = (unsigned)strtoul(argv[4], NULL, 10),
		.batch = (unsigned)strtoul(argv[5], NULL, 10),
		.operations = strtoul(argv[6], NULL, 10),
	};
	return work->bytes > 0 && work->bytes <= LEASE_BYTES && work->channels > 0 &&
	       work->channels <= CHANNELS_MAX && work->batch > 0 &&
	       work->batch <= BATCH_MAX &&
	       (work->batch == 1 || !(work->plain || work->registered)) &&
	       work->operations >= work->batch;
}

static struct work work;

START_TEST(work_time)
{
	null_device(false);
	bare_open(&work);
	library_open(&work);
	for (unsigned i = 0; i < LOOPS; i++)
		(void)slice_ns(&work, (enum loop)i, WARM_UP);
	time_print(&work, work.operations / work.batch);
	library_close();
	bare_close(&work);
}
END_TEST

/* The core speaks through Check, so this is a test case of it. */
START_TEST(work_run)
{
	unsigned long batches = work.operations / work.batch, n = batches * work.batch;
	struct null_counts before;
	const uint64_t pushes_max = PUSHES_MAX * (work.channels + 1);
	uint64_t confirming, requests;

	if (work.iwarp)
		(void)signal(SIGPIPE, SIG_IGN);
	null_device(work.iwarp);
	if (work.bare)
		bare_open(&work);
	else
		library_open(&work);
	ck_assert(work.plain || work.registered ? library_calls(&work, WARM_UP)
						: run(&work, WARM_UP));
	before = null_counts;
	ck_assert(measured(&work, batches));
	/* every operation reached the device, whatever was counted; librmem pushes each new
	 * connection over iWARP, the session's own too, with a few empty writes */
	confirming = confirms(&work) ? null_counts.doorbells - before.doorbells : 0;
	requests = null_counts.requests - before.requests - confirming;
	ck_assert_uint_ge(requests, n);
	ck_assert_uint_le(requests, n + (work.iwarp ? pushes_max : 0));
	(void)printf("signaled %.3f doorbells %.3f\n",
		     (double)(null_counts.signaled - before.signaled) / (double)n,
		     (double)(null_counts.doorbells - before.doorbells) / (double)n);
	if (work.bare)
		bare_close(&work);
	else
		library_close();
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("work");
	Suite *suite = suite_create("instructions");
	SRunner *runner = srunner_create(suite);
	int failed;

	if (!work_parse(argc, argv, &work)) {
		(void)fprintf(stderr,
			      "usage: instructions rmem|plain|registered|bare"
			      "|time read|write BYTES CHANNELS BATCH OPERATIONS "
			      "[iwarp]\n");
		return 2;
	}
	tcase_add_test(tcase, work.timed ? work_time : work_run);
	tcase_set_timeout(tcase, 0);
	suite_add_tcase(suite, tcase);
	srunner_set_fork_status(runner, CK_NOFORK);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
