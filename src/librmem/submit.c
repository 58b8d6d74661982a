/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls on a queue: submit, poll, wait, cancel, arm.  [owner of the queue] */
#include <rmem/rmem.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "base/err.h"
#include "librmem/buffer.h"
#include "librmem/flow.h"
#include "librmem/lease.h"
#include "librmem/queue.h"
#include "librmem/session.h"
#include "librmem/settle.h"

#define NS_PER_MS UINT64_C(1000000)
#define SPIN_NS UINT64_C(20000)

/* ---- counting what is outstanding, a run of operations at a time ---- */

struct run {
	struct rmem_lease *lease;
	struct rmem_buffer *buffer;
	unsigned n;
};

static void run_start(struct run *run)
{
	if (run->n == 0)
		return;
	/* from here on the lease's table stays */
	(void)atomic_fetch_add_explicit(&run->lease->outstanding, run->n,
					memory_order_acquire);
	if (run->buffer)
		(void)atomic_fetch_add_explicit(&run->buffer->outstanding, run->n,
						memory_order_relaxed);
	run->n = 0;
}

/* Who sees the counters at 0 sees all that was done before. */
static void run_end(struct run *run)
{
	if (run->n == 0)
		return;
	(void)atomic_fetch_sub_explicit(&run->lease->outstanding, run->n,
					memory_order_release);
	if (run->buffer)
		(void)atomic_fetch_sub_explicit(&run->buffer->outstanding, run->n,
						memory_order_release);
	run->n = 0;
}

static void run_count(struct run *run, const struct rmem_op *op,
		      void (*flush)(struct run *))
{
	if (run->lease != op->lease || run->buffer != op->buffer) {
		flush(run);
		run->lease = op->lease;
		run->buffer = op->buffer;
	}
	run->n++;
}

/* ---- submitting ---- */

static int op_check(const struct rmem_queue *queue, const struct rmem_op *op)
{
	if (op->opcode != RMEM_OP_READ && op->opcode != RMEM_OP_WRITE)
		return err_set(-EINVAL, "rmem_submit: opcode %d is unknown",
			       (int)op->opcode);
	if (op->flags & ~RMEM_OP_FENCE)
		return err_set(-EINVAL, "rmem_submit: flags 0x%x are unknown",
			       op->flags);
	if (!op->lease || op->lease->session != queue->session)
		return err_set(-EINVAL,
			       "rmem_submit: the lease is not of this session");
	if (op->buffer && op->buffer->session != queue->session)
		return err_set(-EINVAL,
			       "rmem_submit: the buffer is not of this session");
	return 0;
}

int rmem_submit(rmem_queue *queue, const struct rmem_op *ops, unsigned n)
{
	uint64_t now = clock_now_ns();
	struct run run = { NULL, NULL, 0 };
	unsigned accepted = 0;
	int err = 0;

	queue->now_ns = now;
	while (accepted < n && queue->outstanding < queue->table.n_ops) {
		err = op_check(queue, &ops[accepted]);
		if (err)
			break;
		run_count(&run, &ops[accepted], run_start);
		flow_add(queue, &ops[accepted], now);
		accepted++;
	}
	run_start(&run);
	if (accepted > 0) {
		if (atomic_load_explicit(&queue->news, memory_order_acquire))
			settle_news(queue);
		flow_pump(queue, now);
		return (int)accepted;
	}
	if (!err && n > 0)
		err = err_set(-EOVERFLOW,
			      "rmem_submit: %u operations are outstanding, as "
			      "many as the queue holds",
			      queue->outstanding);
	return err;
}

/* ---- completing ---- */

static void error_keep(struct rmem_queue *queue, const struct op *op)
{
	char vendor[32] = "";
	const char *what = op->todo.opcode == RMEM_OP_READ ? "read" : "write";
	const char *words = op->why ? op->why : strerrordesc_np(-op->status);

	if (op->vendor)
		(void)snprintf(vendor, sizeof(vendor), " (vendor error 0x%x)",
			       op->vendor);
	(void)snprintf(queue->error, sizeof(queue->error),
		       "%s of %" PRIu64 " bytes at offset %" PRIu64 " of lease %" PRIu64
		       " at %s: %s%s: %s",
		       what, op->todo.bytes, op->todo.offset, op->todo.lease->id,
		       queue->session->server, words, vendor,
		       strerrorname_np(-op->status));
}

static const char *verdict_text(int status)
{
	if (status == -ETIMEDOUT)
		return "its time was over";
	return status == -ECANCELED ? "it was cancelled" : NULL;
}

static unsigned done_take(struct rmem_queue *queue, struct rmem_completion *completions,
			  unsigned n)
{
	struct run run = { NULL, NULL, 0 };
	unsigned taken = 0;
	struct op *op;

	while (taken < n && (op = list_first(&queue->table.done, struct op, node))) {
		completions[taken++] = (struct rmem_completion){
			.cookie = op->todo.cookie,
			.status = op->status,
			.vendor = op->vendor,
			.bytes = op->todo.bytes,
		};
		if (op->status) {
			if (op->verdict == op->status)
				op->why = verdict_text(op->status);
			error_keep(queue, op);
		}
		run_count(&run, &op->todo, run_end);
		list_remove(&op->node);
		op->state = OP_FREE;
		list_append(&queue->table.free, &op->node);
	}
	run_end(&run);
	queue->outstanding -= taken;
	return taken;
}

int rmem_poll(rmem_queue *queue, struct rmem_completion *completions, unsigned n)
{
	if (queue->outstanding == 0 &&
	    !atomic_load_explicit(&queue->news, memory_order_acquire))
		return 0;
	flow_progress(queue, clock_now_ns());
	return (int)done_take(queue, completions, n);
}

/* ---- waiting ---- */

/* Arm the cqs; then look once more for what came in between.  True: there is something,
 * don't sleep. */
static bool queue_arm(struct rmem_queue *queue)
{
	for (unsigned i = 0; i < queue->n_cqs; i++)
		if (queue->ops->cq_arm(queue->cqs[i]))
			return true;
	flow_progress(queue, clock_now_ns());
	return !list_empty(&queue->table.done);
}

/* A device completes small operations sooner than a sleeper wakes.  True: something is
 * there. */
static bool queue_spin(struct rmem_queue *queue)
{
	uint64_t now, until;

	if (!queue->ops->needs_region)
		return false;
	now = clock_now_ns();
	until = now + SPIN_NS;
	do {
		flow_progress(queue, now);
		if (!list_empty(&queue->table.done))
			return true;
		now = clock_now_ns();
	} while (now < until);
	return false;
}

/* Sleep until something may have happened.  Without the service thread nobody else keeps
 * the session alive meanwhile. */
static void queue_sleep(struct rmem_queue *queue, uint64_t until_ns)
{
	struct rmem *session = queue->session;
	uint64_t now = clock_now_ns(), ns;
	struct pollfd fds[2] = { { .fd = queue->epfd, .events = POLLIN },
				 { .fd = session->epfd, .events = POLLIN } };
	struct timespec timeout;

	if (queue->next_deadline_ns < until_ns)
		until_ns = queue->next_deadline_ns;
	if (until_ns <= now)
		return;
	ns = until_ns - now;
	timeout.tv_sec = (time_t)(ns / 1000000000u);
	timeout.tv_nsec = (long)(ns % 1000000000u);
	if (until_ns != UINT64_MAX || session->no_thread) {
		if (ppoll(fds, session->no_thread ? 2 : 1,
			  until_ns == UINT64_MAX ? NULL : &timeout, NULL) <= 0)
			return;
	} else if (poll(fds, 1, -1) <= 0) {
		return;
	}
	if (fds[1].revents) {
		(void)pthread_mutex_lock(&session->lock);
		session_work(session);
		(void)pthread_mutex_unlock(&session->lock);
	}
}

int rmem_wait(rmem_queue *queue, struct rmem_completion *completions, unsigned n,
	      unsigned min, int timeout_ms)
{
	uint64_t until = UINT64_MAX;
	unsigned got = 0;

	/* completions may always be at hand, and then nothing below sleeps */
	session_nudge(queue->session);
	if (min > n)
		min = n;
	if (min > queue->outstanding)
		min = queue->outstanding;
	if (timeout_ms >= 0)
		until = clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
	for (;;) {
		got += (unsigned)rmem_poll(queue, completions + got, n - got);
		if (got >= min || (timeout_ms >= 0 && clock_now_ns() >= until))
			return (int)got;
		if (!queue_spin(queue) && !queue_arm(queue))
			queue_sleep(queue, until);
	}
}

int rmem_queue_fd(const rmem_queue *queue)
{
	return queue->epfd;
}

int rmem_queue_arm(rmem_queue *queue)
{
	struct itimerspec when = { .it_value = { 0, 0 } };

	if (queue_arm(queue))
		return 1;
	if (queue->outstanding > 0 && queue->next_deadline_ns != UINT64_MAX) {
		when.it_value.tv_sec = (time_t)(queue->next_deadline_ns / 1000000000u);
		when.it_value.tv_nsec = (long)(queue->next_deadline_ns % 1000000000u);
	}
	if (timerfd_settime(queue->timer_fd, TFD_TIMER_ABSTIME, &when, NULL) < 0)
		return err_errno(-errno, "rmem_queue_arm: timerfd_settime");
	return 0;
}

/* ---- the rest ---- */

int rmem_cancel(rmem_queue *queue, const rmem_lease *lease)
{
	unsigned n = 0;

	/* what has completed on the wire keeps its result */
	queue->now_ns = clock_now_ns();
	settle_completions(queue);
	for (unsigned i = 0; i < queue->table.n_ops; i++) {
		struct op *op = &queue->table.ops[i];

		if ((op->state != OP_PENDING && op->state != OP_FLYING) ||
		    (lease && op->todo.lease != lease))
			continue;
		n++;
		settle_verdict(queue, op, -ECANCELED);
	}
	flow_progress(queue, clock_now_ns());
	return (int)n;
}

const char *rmem_completion_error(const rmem_queue *queue)
{
	return queue->error;
}

unsigned rmem_queue_outstanding(const rmem_queue *queue)
{
	return queue->outstanding;
}
