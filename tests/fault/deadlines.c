/* SPDX-License-Identifier: BSD-3-Clause */
/* Six threads share one session, with time-outs of 1 to 4 ms, while the daemon is stopped and
 * killed:
 *
 *   deadlines URI SEED
 *
 * They allocate, attach, resize, renew and end leases, named ones of each other too, and write and
 * read their own part of each.  Prints "running"; at the first line of standard input the threads
 * give back what they hold, all named leases are removed, and it prints how the calls have ended,
 * and "settled"; at the second line it closes the session.  The exit status is 1 at the first wrong
 * byte, and at an error that no lost answer explains. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "../integration/program.h"

#define THREADS 6
#define NAMES 3
#define TIMEOUT_MAX_MS 4
/* Time-out of what is done when the threads have ended. */
#define SETTLE_MS 10000
#define WORDS 512
#define PART_BYTES (WORDS * sizeof(uint64_t))
/* The first pages, of which each thread has a part, are never cut off. */
#define LEASE_BYTES ((uint64_t)THREADS * PART_BYTES)
#define ERRNO_MAX 134

enum call {
	ALLOC,
	ATTACH,
	WRITE,
	READ,
	GROW,
	SHRINK,
	RENEW,
	STAT,
	DETACH,
	DESTROY,
	REMOVE,
	CALLS,
};

/* Errors of calls besides ETIMEDOUT and ECONNRESET: another thread ends, uses or resizes the
 * lease. */
static const struct {
	const char *name;
	int errors[3];
} calls[CALLS] = {
	[ALLOC] = { "alloc", { EBUSY } },
	[ATTACH] = { "attach", { EBUSY, ENOENT } },
	[WRITE] = { "write", { ESTALE } },
	[READ] = { "read", { ESTALE } },
	[GROW] = { "grow", { ESTALE, EBUSY, EINVAL } },
	[SHRINK] = { "shrink", { ESTALE, EBUSY } },
	[RENEW] = { "renew", { ESTALE } },
	[STAT] = { "stat", { ENOENT } },
	[DETACH] = { "detach", { EBUSY } },
	[DESTROY] = { "destroy", { EBUSY } },
	[REMOVE] = { "remove", { ENOENT } },
};

/* What is in a thread's part of a lease. */
struct part {
	uint64_t lease; /* its id; another one reads as zero */
	uint64_t words[WORDS];
};

struct worker {
	pthread_t thread;
	unsigned number;
	uint64_t seed, value;
	/* parts by name; the last one is of leases without one */
	struct part parts[NAMES + 1];
};

static rmem *session;
static const char *const names[NAMES] = { "a", "b", "c" };
static atomic_bool over;
static atomic_ulong ended[CALLS][ERRNO_MAX]; /* calls, by their results */

static void sleep_ms(unsigned ms)
{
	struct timespec time = { .tv_nsec = (long)ms * 1000000 };

	(void)nanosleep(&time, NULL);
}

/* Count the call, and return its result, which is expected. */
static int result(enum call call, int err)
{
	const int *errors = calls[call].errors;

	if (err > 0)
		err = 0;
	if (err && err != -ETIMEDOUT && err != -ECONNRESET && err != -errors[0] &&
	    err != -errors[1] && err != -errors[2])
		fail(calls[call].name, err);
	atomic_fetch_add(&ended[call][-err], 1);
	return err;
}

static void timeout_draw(struct worker *worker)
{
	(void)rmem_thread_timeout(1 + draw(&worker->seed, TIMEOUT_MAX_MS));
}

/* A lease, by the name of this number or without one; NULL: the call has failed. */
static rmem_lease *lease_get(struct worker *worker, unsigned name)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem_lease *lease = NULL;

	params.bytes = LEASE_BYTES;
	timeout_draw(worker);
	if (name < NAMES && draw(&worker->seed, 2)) {
		(void)result(ATTACH, rmem_attach(session, names[name],
						 RMEM_READ | RMEM_WRITE, &lease));
		return lease;
	}
	if (name < NAMES) {
		params.name = names[name];
		params.flags = RMEM_ALLOC_ATTACH;
	}
	(void)result(ALLOC, rmem_alloc(session, &params, &lease));
	return lease;
}

/* Read the thread's part.  False: the lease has ended. */
static bool part_read(struct worker *worker, rmem_lease *lease, uint64_t *words)
{
	int err;

	do {
		timeout_draw(worker);
		err = result(READ, rmem_read(lease, worker->number * PART_BYTES, words,
					     PART_BYTES));
	} while (err == -ETIMEDOUT || err == -ECONNRESET);
	return !err;
}

/* The part is as it was, but for words that a write which has failed may have changed to `value`.
 * False: the lease has ended. */
static bool part_check(struct worker *worker, rmem_lease *lease, struct part *part,
		       uint64_t value)
{
	uint64_t words[WORDS];

	if (!part_read(worker, lease, words))
		return false;
	for (unsigned i = 0; i < WORDS; i++) {
		if (words[i] == part->words[i] || (value && words[i] == value))
			continue;
		(void)fprintf(stderr,
			      "thread %u, lease %lu: word %u is %lx, not %lx%s\n",
			      worker->number, (unsigned long)part->lease, i,
			      (unsigned long)words[i], (unsigned long)part->words[i],
			      value ? " or newer" : "");
		exit(1);
	}
	memcpy(part->words, words, sizeof(words));
	return true;
}

static void part_find(struct part *part, const rmem_lease *lease)
{
	if (part->lease == rmem_lease_id(lease))
		return;
	memset(part, 0, sizeof(*part));
	part->lease = rmem_lease_id(lease);
}

/* False: the lease has ended. */
static bool part_write(struct worker *worker, rmem_lease *lease, struct part *part)
{
	uint64_t words[WORDS];
	int err;

	worker->value += THREADS;
	for (unsigned i = 0; i < WORDS; i++)
		words[i] = worker->value;
	timeout_draw(worker);
	err = result(WRITE, rmem_write(lease, worker->number * PART_BYTES, words,
				       sizeof(words)));
	if (err == -ESTALE)
		return false;
	if (!err)
		memcpy(part->words, words, sizeof(words));
	else if (!part_check(worker, lease, part, worker->value))
		return false;
	/* of a write that has failed nothing is applied later */
	if (draw(&worker->seed, 4) == 0)
		sleep_ms(draw(&worker->seed, 30));
	return part_check(worker, lease, part, 0);
}

static void lease_call(struct worker *worker, rmem_lease *lease, unsigned name)
{
	struct rmem_stat stat = rmem_stat_init();
	uint64_t bytes = LEASE_BYTES + draw(&worker->seed, 40) * PART_BYTES;

	timeout_draw(worker);
	if (draw(&worker->seed, 2))
		(void)result(GROW, rmem_grow(lease, bytes));
	else if (rmem_lease_bytes(lease) > LEASE_BYTES)
		(void)result(SHRINK, rmem_shrink(lease, LEASE_BYTES));
	if (name == NAMES)
		return;
	timeout_draw(worker);
	if (draw(&worker->seed, 2))
		(void)result(RENEW, rmem_renew(lease, 0));
	else
		(void)result(STAT, rmem_stat(session, names[name], &stat));
}

/* Until the handle is gone. */
static void lease_end(struct worker *worker, rmem_lease *lease)
{
	int err;

	do {
		timeout_draw(worker);
		err = draw(&worker->seed, 3) ? result(DETACH, rmem_detach(lease))
					     : result(DESTROY, rmem_destroy(lease));
		if (err == -EBUSY)
			sleep_ms(1);
	} while (err);
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	while (!atomic_load(&over)) {
		unsigned name = draw(&worker->seed, NAMES + 1);
		struct part *part = &worker->parts[name];
		rmem_lease *lease = lease_get(worker, name);

		if (!lease)
			continue;
		part_find(part, lease);
		if (part_check(worker, lease, part, 0))
			for (unsigned n = draw(&worker->seed, 6);
			     n > 0 && part_write(worker, lease, part); n--)
				lease_call(worker, lease, name);
		lease_end(worker, lease);
		if (name < NAMES && draw(&worker->seed, 10) == 0)
			(void)result(REMOVE, rmem_remove(session, names[name]));
	}
	return NULL;
}

/* Nothing is named any more, and the session is not lost. */
static void settle(void)
{
	struct rmem_info info = rmem_info_init();

	(void)rmem_thread_timeout(SETTLE_MS);
	for (unsigned i = 0; i < NAMES; i++) {
		int err = rmem_remove(session, names[i]);

		if (err != -ENOENT)
			must(err, "remove");
	}
	must(rmem_ping(session, NULL), "ping");
	must(rmem_info(session, &info), "info");
	(void)printf("resumed %lu times\n", (unsigned long)info.resumes);
}

static void ended_print(void)
{
	for (unsigned call = 0; call < CALLS; call++) {
		(void)printf("%s:", calls[call].name);
		for (unsigned i = 0; i < ERRNO_MAX; i++) {
			unsigned long n = atomic_load(&ended[call][i]);

			if (n)
				(void)printf(" %s %lu",
					     i ? strerrorname_np((int)i) : "done", n);
		}
		(void)printf("\n");
	}
}

int main(int argc, char **argv)
{
	static struct worker workers[THREADS];

	if (argc != 3) {
		(void)fprintf(stderr, "usage: deadlines URI SEED\n");
		return 2;
	}
	must(rmem_open(argv[1], NULL, &session), "open");
	for (unsigned i = 0; i < THREADS; i++) {
		struct worker *worker = &workers[i];

		worker->number = i;
		worker->value = i + 1;
		worker->seed = strtoull(argv[2], NULL, 10) * THREADS + i;
		if (pthread_create(&worker->thread, NULL, work, worker))
			fail("pthread_create", 0);
	}
	step("running");
	atomic_store(&over, true);
	for (unsigned i = 0; i < THREADS; i++)
		(void)pthread_join(workers[i].thread, NULL);
	ended_print();
	settle();
	step("settled");
	rmem_close(session);
	return 0;
}
