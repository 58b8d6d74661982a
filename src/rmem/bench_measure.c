/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmem/bench.h"
#include "rmem/interrupt.h"
#include "rmem/place.h"
#include "rmem/session.h"

#define COMPLETIONS 64
#define WAIT_MS 200

struct run {
	const struct bench_params *params;
	struct bench_result *result;
	rmem_lease *lease;
	rmem_buffer *buffer;
	rmem_queue *queue;
	struct rmem_op *ops;  /* one batch */
	uint64_t *started_ns; /* of the operation in each slot */
	unsigned *free_slots; /* a stack */
	unsigned n_free;
	uint64_t offset;
};

static int run_open(struct run *run, rmem *session)
{
	const struct bench_params *params = run->params;
	struct rmem_buffer_params buffer = RMEM_BUFFER_INIT;
	struct rmem_queue_params queue = RMEM_QUEUE_INIT;
	int err;

	run->ops = calloc(params->batch, sizeof(*run->ops));
	run->started_ns = calloc(params->depth, sizeof(*run->started_ns));
	run->free_slots = calloc(params->depth, sizeof(*run->free_slots));
	if (!run->ops || !run->started_ns || !run->free_slots)
		return err_set(-ENOMEM, "out of memory");
	while (run->n_free < params->depth) {
		run->free_slots[run->n_free] = run->n_free;
		run->n_free++;
	}
	buffer.bytes = params->size_bytes * params->depth;
	queue.depth = params->depth;
	err = rmem_alloc(session, &params->alloc, &run->lease);
	if (!err)
		place_show(params->options, run->lease);
	if (!err)
		err = rmem_buffer_create(session, &buffer, &run->buffer);
	if (!err)
		err = rmem_queue_create(session, &queue, &run->queue);
	return err ? session_failed(err) : 0;
}

static void run_close(struct run *run)
{
	rmem_queue_free(run->queue);
	(void)rmem_buffer_free(run->buffer);
	if (run->lease)
		(void)rmem_free(run->lease);
	free(run->ops);
	free(run->started_ns);
	free(run->free_slots);
}

/* Submit one batch.  The queue has room for it. */
static int batch_submit(struct run *run)
{
	const struct bench_params *params = run->params;
	char *base = rmem_buffer_addr(run->buffer);
	uint64_t now;
	int n;

	for (unsigned i = 0; i < params->batch; i++) {
		unsigned slot = run->free_slots[run->n_free - 1 - i];

		run->ops[i] = (struct rmem_op){
			.opcode = (uint16_t)params->opcode,
			.lease = run->lease,
			.offset = run->offset,
			.addr = base + slot * params->size_bytes,
			.bytes = params->size_bytes,
			.buffer = run->buffer,
			.cookie = slot,
		};
		run->offset += params->size_bytes;
		if (run->offset + params->size_bytes > params->alloc.bytes)
			run->offset = 0;
	}
	now = clock_now_ns();
	n = rmem_submit(run->queue, run->ops, params->batch);
	if (n < 0)
		return session_failed(n);
	for (int i = 0; i < n; i++)
		run->started_ns[run->free_slots[--run->n_free]] = now;
	return 0;
}

static int completions_handle(struct run *run)
{
	struct rmem_completion completions[COMPLETIONS];
	struct bench_result *result = run->result;
	int n = rmem_wait(run->queue, completions, COMPLETIONS, 1, WAIT_MS);
	uint64_t now = clock_now_ns();

	if (n < 0)
		return session_failed(n);
	for (int i = 0; i < n; i++) {
		unsigned slot = (unsigned)completions[i].cookie;

		run->free_slots[run->n_free++] = slot;
		if (completions[i].status == 0) {
			result->operations++;
			histogram_add(&result->latency_ns, now - run->started_ns[slot]);
		} else if (result->errors++ == 0) {
			(void)snprintf(result->first_error, sizeof(result->first_error),
				       "%s", rmem_completion_error(run->queue));
		}
	}
	return 0;
}

static int run_measure(struct run *run)
{
	const struct bench_params *params = run->params;
	uint64_t start = clock_now_ns(), end = start + params->duration_ms * 1000000;
	int err;

	while (clock_now_ns() < end && !run->result->errors && !interrupt_pending()) {
		while (run->n_free >= params->batch) {
			err = batch_submit(run);
			if (err)
				return err;
		}
		err = completions_handle(run);
		if (err)
			return err;
	}
	while (rmem_queue_outstanding(run->queue)) {
		err = completions_handle(run);
		if (err)
			return err;
	}
	run->result->elapsed_ns = clock_now_ns() - start;
	return 0;
}

int bench_measure(rmem *session, const struct bench_params *params,
		  struct bench_result *result)
{
	struct run run = { .params = params, .result = result };
	int err = run_open(&run, session);

	if (!err)
		err = run_measure(&run);
	run_close(&run);
	return err;
}
