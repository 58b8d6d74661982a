/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that take a queue's completions, or wait for completions.  [owner of the queue] */
#include <rmem/rmem.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "base/err.h"
#include "librmem/queue/deadlines.h"
#include "librmem/queue/reap.h"
#include "librmem/queue/runs.h"
#include "librmem/queue/schedule.h"
#include "librmem/queue/inband.h"
#include "librmem/lease/lease.h"
#include "librmem/queue/queue.h"
#include "librmem/queue/wait.h"
#include "librmem/session/cancel.h"
#include "librmem/session/session.h"

/* rmem_poll() when poll_single() does not apply. */
static __attribute__((noinline)) int
poll_all(struct rmem_queue *queue, struct rmem_completion *completions, unsigned n)
{
	struct reaper reaper = {
		.queue = queue,
		.next = completions,
		.end = completions + n,
	};

	if (session_own(queue->session))
		return err_prefix(-ESTALE, "rmem_poll");
	if (queue_outstanding(queue) == 0 &&
	    !atomic_load_explicit(&queue->woken, memory_order_acquire))
		return 0;
	/* first the operations complete already, which could wait for ever otherwise */
	if (queue->table.n_done > 0)
		reap_done(&reaper);
	schedule_progress(queue, &reaper);
	if (queue->table.n_done > 0)
		reap_done(&reaper);
	return (int)(reaper.next - completions);
}

int rmem_poll(rmem_queue *queue, struct rmem_completion *completions, unsigned n)
{
	int got = n > 0 ? poll_single(queue, completions) : POLL_MORE;

	return got == POLL_MORE ? poll_all(queue, completions, n) : got;
}

/* ---- waiting ---- */

/* Arm the cqs; then look for completions that came in between.  True: there are some, do not
 * sleep. */
static bool queue_arm(struct rmem_queue *queue)
{
	for (unsigned i = 0; i < queue->n_cqs; i++)
		if (queue->cqs[i] && queue->ops->cq_arm(queue->cqs[i]))
			return true;
	schedule_progress(queue, NULL);
	return queue->table.n_done > 0;
}

/* Take completions until there are `min`, or it is time to sleep. */
static unsigned queue_spin(struct rmem_queue *queue,
			   struct rmem_completion *completions, unsigned n,
			   unsigned min)
{
	unsigned got = (unsigned)rmem_poll(queue, completions, n);

	if (got >= min || !spin_begin(&queue->spin))
		return got;
	while (got < min && spin_more(&queue->spin))
		got += (unsigned)rmem_poll(queue, completions + got, n - got);
	spin_end(&queue->spin, got >= min);
	return got;
}

/* Once it has expired, the timer of rmem_queue_arm() is readable until it is set again. */
static void timer_disarm(const struct rmem_queue *queue)
{
	const struct itimerspec never = { .it_value = { 0, 0 } };

	if (queue->timer_fd >= 0)
		(void)timerfd_settime(queue->timer_fd, 0, &never, NULL);
}

/* Sleep until a descriptor is readable or until_ns.  Without the service thread, this thread keeps
 * the session alive meanwhile.  -EINTR with text: the wait is to end. */
static int queue_sleep(struct rmem_queue *queue, uint64_t until_ns)
{
	struct rmem *session = queue->session;
	uint64_t now = clock_now_ns();
	struct pollfd fds[2] = { { .fd = queue->wake.epfd, .events = POLLIN },
				 { .fd = session->wake.epfd, .events = POLLIN } };
	struct timespec timeout;
	int n;

	if (queue->next_deadline_ns < until_ns)
		until_ns = queue->next_deadline_ns;
	if (until_ns <= now)
		return 0;
	until_ns = session_sleep_ns(until_ns, now);
	timeout = clock_timespec(until_ns - now);
	n = ppoll(fds, session->no_thread ? 2 : 1,
		  until_ns == UINT64_MAX ? NULL : &timeout, NULL);
	if (n > 0 && fds[0].revents)
		timer_disarm(queue);
	if (n > 0 && fds[1].revents) {
		(void)pthread_mutex_lock(&session->lock);
		session_work(session);
		(void)pthread_mutex_unlock(&session->lock);
	}
	return session_interrupted(n < 0);
}

int queue_wait(struct rmem_queue *queue, struct rmem_completion *completions,
	       unsigned n, unsigned min, uint64_t until_ns)
{
	unsigned got = 0;

	for (;;) {
		got += queue_spin(queue, completions + got, n - got, min - got);
		if (got >= min ||
		    (until_ns != UINT64_MAX && clock_now_ns() >= until_ns))
			return (int)got;
		if (!queue_arm(queue) && queue_sleep(queue, until_ns))
			return got > 0 ? (int)got : -EINTR;
	}
}

int rmem_wait(rmem_queue *queue, struct rmem_completion *completions, unsigned n,
	      unsigned min, int timeout_ms)
{
	uint64_t until_ns = UINT64_MAX;
	int before, got;

	if (session_own(queue->session))
		return err_prefix(-ESTALE, "rmem_wait");
	before = cancel_disable();
	/* with completions always at hand nothing below sleeps, nor drives the session */
	session_nudge(queue->session);
	if (min > n)
		min = n;
	if (min > queue_outstanding(queue))
		min = queue_outstanding(queue);
	if (timeout_ms >= 0)
		until_ns = clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
	got = queue_wait(queue, completions, n, min, until_ns);
	cancel_restore(before);
	return got < 0 ? err_prefix(got, "rmem_wait") : got;
}

int rmem_queue_fd(const rmem_queue *queue)
{
	if (session_own(queue->session))
		return err_prefix(-ESTALE, "rmem_queue_fd");
	return queue->wake.epfd;
}

int rmem_queue_arm(rmem_queue *queue)
{
	struct itimerspec when = { .it_value = { 0, 0 } };
	int err = session_own(queue->session);

	if (!err)
		err = queue_timer(queue);
	if (err)
		return err_prefix(err, "rmem_queue_arm");
	if (queue_arm(queue))
		return 1;
	if (queue_outstanding(queue) > 0 && queue->next_deadline_ns != UINT64_MAX)
		when.it_value = clock_timespec(queue->next_deadline_ns);
	if (timerfd_settime(queue->timer_fd, TFD_TIMER_ABSTIME, &when, NULL) < 0)
		return err_errno(-errno, "rmem_queue_arm: timerfd_settime");
	return 0;
}

/* ---- cancelling ---- */

/* The operations to cancel. */
struct selection {
	const struct rmem_lease *lease; /* NULL: on any */
	const uint64_t *cookie;         /* NULL: with any */
};

static bool is_selected(const struct op *op, const struct selection *selection)
{
	if (op->state != OP_PENDING && op->state != OP_POSTED)
		return false;
	if (selection->cookie && op->todo.cookie != *selection->cookie)
		return false;
	return !selection->lease || op->todo.lease == selection->lease ||
	       inband_source_is(op, selection->lease);
}

static int cancel(struct rmem_queue *queue, const struct selection *selection)
{
	int n = 0;

	/* operations that have completed on the wire keep their result */
	queue->now_ns = clock_now_ns();
	attachments_enter(&queue->inflights);
	complete_completions(queue, NULL);
	runs_split_all(queue);
	ops_for_each(op, &queue->table) {
		if (!is_selected(op, selection))
			continue;
		n++;
		deadlines_give_up(queue, op, -ECANCELED);
	}
	attachments_leave(&queue->inflights);
	schedule_progress(queue, NULL);
	return n;
}

int rmem_cancel(rmem_queue *queue, const rmem_lease *lease)
{
	if (session_own(queue->session))
		return err_prefix(-ESTALE, "rmem_cancel");
	return cancel(queue, &(struct selection){ .lease = lease });
}

int rmem_cancel_cookie(rmem_queue *queue, uint64_t cookie)
{
	if (session_own(queue->session))
		return err_prefix(-ESTALE, "rmem_cancel_cookie");
	return cancel(queue, &(struct selection){ .cookie = &cookie });
}

const char *rmem_completion_error(const rmem_queue *queue,
				  const struct rmem_completion *completion)
{
	uint32_t number = completion ? completion->error : queue->errors.last;
	const char *text = error_texts_find(&queue->errors, number);

	if (text)
		return text;
	return completion && completion->status ? strerrordesc_np(-completion->status)
						: "";
}

unsigned rmem_queue_outstanding(const rmem_queue *queue)
{
	return queue_outstanding(queue);
}
