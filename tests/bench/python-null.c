/* SPDX-License-Identifier: BSD-3-Clause */
/* To be preloaded: a librmem that does nothing, so that the Python package alone is counted.  Each
 * operation has succeeded when it is submitted.  Threads: one. */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rmem/rmem.h>

#define DEPTH 1024 /* completions and answers that wait at most */

struct rmem {
	int nothing;
};
struct rmem_lease {
	int nothing;
};
struct rmem_queue {
	int fd;
	unsigned n;
	uint64_t cookies[DEPTH];
};
struct rmem_calls {
	int fd;
	unsigned n;
	struct rmem_request requests[DEPTH];
};

/* ---- sessions ---- */

int rmem_open(const char *, const struct rmem_options *, rmem **ret_session)
{
	*ret_session = calloc(1, sizeof(rmem));
	return *ret_session ? 0 : -1;
}

void rmem_close(rmem *session)
{
	free(session);
}

int rmem_info(rmem *, struct rmem_info *)
{
	return 0;
}

int rmem_alloc(rmem *, const struct rmem_alloc_params *, rmem_lease **ret_lease)
{
	static rmem_lease lease; /* ends with the process */

	*ret_lease = &lease;
	return 0;
}

/* ---- operations ---- */

int rmem_read(rmem_lease *, uint64_t, void *, uint64_t)
{
	return 0;
}

int rmem_queue_create(rmem *, const struct rmem_queue_params *, rmem_queue **ret_queue)
{
	*ret_queue = calloc(1, sizeof(rmem_queue));
	if (!*ret_queue)
		return -1;
	(*ret_queue)->fd = eventfd(0, EFD_CLOEXEC);
	return 0;
}

void rmem_queue_free(rmem_queue *queue)
{
	if (!queue)
		return;
	(void)close(queue->fd);
	free(queue);
}

int rmem_queue_fd(const rmem_queue *queue)
{
	return queue->fd;
}

int rmem_queue_arm(rmem_queue *queue)
{
	return queue->n > 0;
}

int rmem_submit(rmem_queue *queue, const struct rmem_op *ops, unsigned n)
{
	uint64_t *cookies = queue->cookies + queue->n;

	for (unsigned i = 0; i < n; i++)
		cookies[i] = ops[i].cookie;
	queue->n += n;
	return (int)n;
}

/* The latest first. */
int rmem_poll(rmem_queue *queue, struct rmem_completion *completions, unsigned n)
{
	if (n > queue->n)
		n = queue->n;
	for (unsigned i = 0; i < n; i++) {
		completions[i].cookie = queue->cookies[queue->n - 1 - i];
		completions[i].status = 0;
	}
	queue->n -= n;
	return (int)n;
}

/* Of a batch, which has no cookies. */
int rmem_wait(rmem_queue *queue, struct rmem_completion *completions, unsigned n,
	      unsigned, int)
{
	if (n > queue->n)
		n = queue->n;
	for (unsigned i = 0; i < n; i++)
		completions[i].status = 0;
	queue->n -= n;
	return (int)n;
}

/* ---- calls ---- */

int rmem_calls_create(const struct rmem_calls_params *, rmem_calls **ret_calls)
{
	*ret_calls = calloc(1, sizeof(rmem_calls));
	if (!*ret_calls)
		return -1;
	(*ret_calls)->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return 0;
}

void rmem_calls_free(rmem_calls *calls)
{
	if (!calls)
		return;
	(void)close(calls->fd);
	free(calls);
}

int rmem_calls_fd(const rmem_calls *calls)
{
	return calls->fd;
}

int rmem_calls_begin(rmem_calls *calls, const struct rmem_request *requests, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		calls->requests[calls->n++] = requests[i];
	return eventfd_write(calls->fd, n) ? -1 : (int)n;
}

int rmem_calls_take(rmem_calls *calls, struct rmem_answer *answers, unsigned n)
{
	eventfd_t begun;
	unsigned got = 0;

	(void)eventfd_read(calls->fd, &begun);
	for (; got < n && calls->n > 0; got++) {
		const struct rmem_request *request = &calls->requests[--calls->n];

		answers[got] = (struct rmem_answer){
			.cookie = request->cookie,
			.call = request->call,
		};
		if (request->call == RMEM_CALL_QUEUE)
			answers[got].status = rmem_queue_create(
				NULL, NULL, (rmem_queue **)&answers[got].object);
	}
	return (int)got;
}
