/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma-loop.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static rmem_queue *queue;
static struct rmem_op ops[LOOP_DEPTH_MAX];
static unsigned char *memory; /* of the buffer */

void library_open(struct bench_env *env, const char *uri)
{
	struct rmem_alloc_params alloc = rmem_alloc_params_init();
	struct rmem_buffer_params local = rmem_buffer_params_init();
	struct rmem_queue_params params = rmem_queue_params_init();

	alloc.bytes = local.bytes = (uint64_t)LOOP_DEPTH_MAX * LOOP_BYTES_MAX;
	params.depth = LOOP_DEPTH_MAX;
	params.channels = 1;
	if (rmem_open(uri, NULL, &env->session) ||
	    rmem_alloc(env->session, &alloc, &env->lease) ||
	    rmem_buffer_create(env->session, &local, &env->buffer) ||
	    rmem_queue_create(env->session, &params, &queue))
		give_up(rmem_error());
	memory = rmem_buffer_addr(env->buffer);
}

void library_close(struct bench_env *env)
{
	rmem_queue_free(queue);
	rmem_close(env->session);
}

/* Submit n operations, the first for slot `at` of lease and buffer; returns the slot that
 * follows. */
static unsigned submit(const struct work *work, unsigned at, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		ops[i].offset = (uint64_t)at * work->bytes;
		ops[i].addr = memory + ops[i].offset;
		ops[i].cookie = at;
		at = at + 1 < LOOP_DEPTH_MAX ? at + 1 : 0;
	}
	if (rmem_submit(queue, ops, n) != (int)n)
		give_up(rmem_error());
	return at;
}

static unsigned completions_poll(const struct bench_env *env)
{
	struct rmem_completion completions[LOOP_DEPTH_MAX];
	int n = rmem_poll(queue, completions, LOOP_DEPTH_MAX);

	if (n < 0)
		give_up(rmem_error());
	for (int i = 0; i < n; i++)
		if (completions[i].status)
			give_up(rmem_completion_error(queue, NULL));
	if (n == 0 && env->yields)
		(void)sched_yield();
	return (unsigned)n;
}

void library_run(struct bench_env *env, const struct work *work,
		 struct slice *ret_slice)
{
	struct stopwatch watch;
	unsigned at = 0;

	for (unsigned i = 0; i < LOOP_DEPTH_MAX; i++)
		ops[i] = (struct rmem_op){
			.opcode = work->write ? RMEM_OP_WRITE : RMEM_OP_READ,
			.lease = env->lease,
			.buffer = env->buffer,
			.bytes = work->bytes,
		};
	stopwatch_start(&watch, work);
	while (watch.done < work->n) {
		unsigned n_post = work->depth - (watch.posted - watch.done);
		unsigned left = work->n - watch.posted, n;

		if (n_post > left)
			n_post = left;
		if (n_post > 0) {
			uint64_t now_ns = stopwatch_rest(&watch);

			at = submit(work, at, n_post);
			stopwatch_posted(&watch, n_post, now_ns);
		}
		n = completions_poll(env);
		if (n > 0)
			stopwatch_done(&watch, n);
	}
	stopwatch_stop(&watch, ret_slice);
}
