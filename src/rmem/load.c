/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/load.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/random.h"
#include "base/thread.h"
#include "rmem/session.h"

#define COMPLETIONS 64
#define WAIT_MS 200
#define NS_PER_S UINT64_C(1000000000)

struct load {
	struct load_plan *plan;
	unsigned index;
	rmem_buffer *buffer; /* a slot for each operation outstanding */
	rmem_queue *queue;
	struct rmem_op *ops;  /* one batch */
	uint64_t *started_ns; /* of the operation in each slot */
	unsigned *free_slots; /* a stack */
	unsigned n_free;
	/* of the lease, in operations */
	uint64_t first, n, next;
	uint64_t random;
	uint64_t start_ns, n_submitted; /* with a rate */
	pthread_t thread;
	int err; /* of the thread */
	char err_text[256];
	struct load_result result;
	pthread_mutex_t recent_lock;
	struct histogram recent;
};

/* ---- operations ---- */

/* Random ones are anywhere; else each thread has a part of the region. */
static void offsets_set(struct load *load)
{
	const struct load_plan *plan = load->plan;
	uint64_t n = plan->region_bytes / plan->size_bytes;

	if (plan->random) {
		load->n = n;
		return;
	}
	load->first = n * load->index / plan->threads;
	load->n = n * (load->index + 1) / plan->threads - load->first;
}

static uint64_t offset_next(struct load *load)
{
	uint64_t at;

	if (load->plan->random) {
		at = random_next(&load->random) % load->n;
	} else {
		at = load->next;
		load->next = at + 1 < load->n ? at + 1 : 0;
	}
	return (load->first + at) * load->plan->size_bytes;
}

static bool mixed_reads(struct load *load)
{
	return random_next(&load->random) % 100 < load->plan->read_percent;
}

static struct rmem_op op_make(struct load *load, unsigned slot)
{
	static const struct rmem_atomic same = { .compare = 0, .operand = 0 },
					one = { .operand = 1 };
	const struct load_plan *plan = load->plan;
	uint64_t offset = offset_next(load), bytes = plan->size_bytes;
	void *addr = (char *)rmem_buffer_addr(load->buffer) + slot * bytes;
	struct rmem_op op;

	switch (plan->op) {
	case LOAD_CAS:
		op = rmem_op_compare_swap(plan->lease, offset, &same, addr);
		break;
	case LOAD_FETCH_ADD:
		op = rmem_op_fetch_add(plan->lease, offset, &one, addr);
		break;
	case LOAD_READ:
	case LOAD_WRITE:
	case LOAD_MIXED:
	default:
		op = plan->op == LOAD_READ ||
				     (plan->op == LOAD_MIXED && mixed_reads(load))
			     ? rmem_op_read(plan->lease, offset, addr, bytes)
			     : rmem_op_write(plan->lease, offset, addr, bytes);
	}
	op.buffer = load->buffer;
	op.cookie = slot;
	return op;
}

/* Submit n operations, up to a batch.  The queue has room for them. */
static int submit(struct load *load, unsigned n)
{
	int done;

	for (unsigned i = 0; i < n; i++)
		load->ops[i] = op_make(load, load->free_slots[load->n_free - 1 - i]);
	done = rmem_submit(load->queue, load->ops, n);
	if (done < 0)
		return session_result(done);
	load->n_free -= (unsigned)done;
	load->n_submitted += (uint64_t)done;
	return 0;
}

/* ---- without a rate ---- */

static int submit_all(struct load *load)
{
	unsigned batch = load->plan->batch;
	int err = 0;

	while (!err && load->n_free >= batch) {
		uint64_t now = clock_now_ns();

		for (unsigned i = 0; i < batch; i++)
			load->started_ns[load->free_slots[load->n_free - 1 - i]] = now;
		err = submit(load, batch);
	}
	return err;
}

/* ---- with a rate ---- */

/* When the operation that this thread submits next is due: those of all threads are in turn. */
static uint64_t due_ns(const struct load *load, uint64_t ahead)
{
	uint64_t number =
		(load->n_submitted + ahead) * load->plan->threads + load->index;
	uint64_t rate = load->plan->rate;

	return load->start_ns + number / rate * NS_PER_S +
	       number % rate * NS_PER_S / rate;
}

/* Those that are due, as far as the queue has room.  The time of one that had to wait for that
 * counts from when it was due, as a user's would: otherwise a server that stands still would slow
 * down the program that measures it, and hide most of the wait. */
static int submit_due(struct load *load)
{
	uint64_t now = clock_now_ns();
	int err = 0;

	while (!err && load->n_free && due_ns(load, 0) <= now) {
		unsigned n = 0, most = load->plan->batch;

		if (most > load->n_free)
			most = load->n_free;
		for (; n < most && due_ns(load, n) <= now; n++)
			load->started_ns[load->free_slots[load->n_free - 1 - n]] =
				due_ns(load, n);
		err = submit(load, n);
	}
	return err;
}

/* Wait for completions, or until an operation is due. */
static int wait_due(struct load *load)
{
	struct pollfd fd = { .fd = rmem_queue_fd(load->queue), .events = POLLIN };
	int ready = rmem_queue_arm(load->queue);
	uint64_t now = clock_now_ns(), due = due_ns(load, 0), left;
	struct timespec time;

	if (ready || due <= now)
		return session_result(ready);
	left = due - now < WAIT_MS * NS_PER_MS ? due - now : WAIT_MS * NS_PER_MS;
	time.tv_sec = 0;
	time.tv_nsec = (long)left;
	return ppoll(&fd, 1, &time, NULL) < 0 && errno != EINTR
		       ? err_errno(-errno, "ppoll")
		       : 0;
}

/* ---- completions ---- */

static uint64_t latency_ns(const struct load *load,
			   const struct rmem_completion *completion, uint64_t now)
{
	return now - load->started_ns[completion->cookie];
}

static void completion_add(struct load *load, const struct rmem_completion *completion,
			   uint64_t now)
{
	struct load_result *result = &load->result;

	load->free_slots[load->n_free++] = (unsigned)completion->cookie;
	if (completion->status == 0) {
		histogram_add(&result->latency_ns, latency_ns(load, completion, now));
	} else if (result->errors++ == 0) {
		(void)snprintf(result->first_error, sizeof(result->first_error), "%s",
			       rmem_completion_error(load->queue, completion));
		atomic_store(&load->plan->stop, true);
	}
}

static void recent_add(struct load *load, const struct rmem_completion *completions,
		       int n, uint64_t now)
{
	(void)pthread_mutex_lock(&load->recent_lock);
	for (int i = 0; i < n; i++)
		if (completions[i].status == 0)
			histogram_add(&load->recent,
				      latency_ns(load, &completions[i], now));
	(void)pthread_mutex_unlock(&load->recent_lock);
}

/* Take what has completed; wait for one, up to a time-out, or take what is there. */
static int completions_take(struct load *load, bool wait)
{
	struct rmem_completion completions[COMPLETIONS];
	int n = wait ? rmem_wait(load->queue, completions, COMPLETIONS, 1, WAIT_MS)
		     : rmem_poll(load->queue, completions, COMPLETIONS);
	uint64_t now = clock_now_ns();

	if (n <= 0)
		return session_result(n);
	for (int i = 0; i < n; i++)
		completion_add(load, &completions[i], now);
	if (load->plan->has_recent)
		recent_add(load, completions, n, now);
	load->result.end_ns = now;
	return n;
}

/* ---- the thread ---- */

static int step(struct load *load)
{
	int err = load->plan->rate ? submit_due(load) : submit_all(load), n;

	if (err)
		return err;
	n = completions_take(load, !load->plan->rate || !load->n_free);
	return n == 0 && load->plan->rate && load->n_free ? wait_due(load) : n;
}

static void *run(void *ctx)
{
	struct load *load = ctx;
	int err = 0;

	/* the kernel's default of 50 us would be a large part of what is measured */
	(void)prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
	while (err >= 0 &&
	       !atomic_load_explicit(&load->plan->stop, memory_order_relaxed))
		err = step(load);
	while (err >= 0 && rmem_queue_outstanding(load->queue))
		err = completions_take(load, true);
	if (err < 0) {
		load->err = err;
		(void)snprintf(load->err_text, sizeof(load->err_text), "%s",
			       err_text());
		atomic_store(&load->plan->stop, true);
	}
	return NULL;
}

/* ---- the interface ---- */

static int queue_open(struct load *load, rmem *session)
{
	struct rmem_buffer_params buffer = rmem_buffer_params_init();
	struct rmem_queue_params queue = rmem_queue_params_init();
	int err;

	buffer.bytes = load->plan->size_bytes * load->plan->depth;
	queue.depth = load->plan->depth;
	err = rmem_buffer_create(session, &buffer, &load->buffer);
	/* else all of it were the kernel's page of zeros, which is in the cache */
	if (!err)
		memset(rmem_buffer_addr(load->buffer), 'x', buffer.bytes);
	if (!err)
		err = rmem_queue_create(session, &queue, &load->queue);
	return session_result(err);
}

int load_open(rmem *session, struct load_plan *plan, unsigned index,
	      struct load **ret_load)
{
	struct load *load = calloc(1, sizeof(*load));
	int err;

	if (!load)
		return err_set(-ENOMEM, "out of memory");
	load->plan = plan;
	load->index = index;
	load->random = plan->seed + index;
	(void)pthread_mutex_init(&load->recent_lock, NULL);
	load->ops = calloc(plan->batch, sizeof(*load->ops));
	load->started_ns = calloc(plan->depth, sizeof(*load->started_ns));
	load->free_slots = calloc(plan->depth, sizeof(*load->free_slots));
	if (load->ops && load->started_ns && load->free_slots)
		err = queue_open(load, session);
	else
		err = err_set(-ENOMEM, "out of memory");
	if (err) {
		load_close(load);
		return err;
	}
	while (load->n_free < plan->depth) {
		load->free_slots[load->n_free] = load->n_free;
		load->n_free++;
	}
	offsets_set(load);
	*ret_load = load;
	return 0;
}

int load_start(struct load *load, uint64_t start_ns)
{
	load->start_ns = load->result.end_ns = start_ns;
	return thread_start("load", run, load, &load->thread);
}

void load_take_recent(struct load *load, struct histogram *to)
{
	(void)pthread_mutex_lock(&load->recent_lock);
	histogram_merge(to, &load->recent);
	load->recent = (struct histogram){ 0 };
	(void)pthread_mutex_unlock(&load->recent_lock);
}

int load_join(struct load *load, struct load_result *result)
{
	const struct load_result *own = &load->result;

	(void)pthread_join(load->thread, NULL);
	histogram_merge(&result->latency_ns, &own->latency_ns);
	if (own->errors && !result->errors)
		memcpy(result->first_error, own->first_error,
		       sizeof(result->first_error));
	result->errors += own->errors;
	if (own->end_ns > result->end_ns)
		result->end_ns = own->end_ns;
	return load->err ? err_set(load->err, "%s", load->err_text) : 0;
}

void load_close(struct load *load)
{
	if (!load)
		return;
	rmem_queue_free(load->queue);
	(void)rmem_buffer_free(load->buffer);
	free(load->ops);
	free(load->started_ns);
	free(load->free_slots);
	(void)pthread_mutex_destroy(&load->recent_lock);
	free(load);
}
