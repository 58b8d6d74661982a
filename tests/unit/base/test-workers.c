/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that take jobs from queues: one job of a queue at a time, on several threads, that which
 * has used the least time first; what is posted before the end is run; a job that no thread has
 * begun can be taken back. */
#include "base/workers.h"

#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/mailbox.h"
#include "unit/unit.h"

#define QUEUES 3
#define JOBS 60

struct job {
	struct workers_job job;
	struct list done;
	unsigned queue;
};

static struct workers workers;
static struct mailbox mailbox;
static struct workers_queue queues[QUEUES];
static struct job jobs[JOBS];
static atomic_uint running[QUEUES], n_run, overlaps;
static sem_t begun, go;
static _Atomic uint64_t now_ns;
static char record[JOBS];

static void job_count(struct workers_job *workers_job)
{
	const struct job *job = container_of(workers_job, struct job, job);

	if (atomic_fetch_add(&running[job->queue], 1) > 0)
		(void)atomic_fetch_add(&overlaps, 1);
	(void)atomic_fetch_add(&n_run, 1);
	(void)atomic_fetch_sub(&running[job->queue], 1);
}

static void job_hold(struct workers_job *job)
{
	ck_assert_int_eq(sem_post(&begun), 0);
	ck_assert_int_eq(sem_wait(&go), 0);
	job_count(job);
}

static uint64_t fake_clock(void)
{
	return atomic_load(&now_ns);
}

/* One of the first queue takes a second. */
static void job_record(struct workers_job *workers_job)
{
	const struct job *job = container_of(workers_job, struct job, job);

	if (job->queue == 0)
		(void)atomic_fetch_add(&now_ns, 1000 * NS_PER_MS);
	record[atomic_fetch_add(&n_run, 1)] = (char)('a' + job->queue);
}

static void setup(void)
{
	ck_assert_int_eq(mailbox_init(&mailbox), 0);
	ck_assert_int_eq(sem_init(&begun, 0, 0) | sem_init(&go, 0, 0), 0);
	for (unsigned i = 0; i < QUEUES; i++)
		workers_queue_init(&queues[i]);
}

static void start(unsigned n_threads)
{
	ck_assert_int_eq(workers_start(&workers, "test", n_threads, 1, &mailbox), 0);
}

static void teardown(void)
{
	mailbox_destroy(&mailbox);
}

static void post(unsigned i, unsigned queue, void (*run)(struct workers_job *job))
{
	jobs[i].job.run = run;
	jobs[i].job.done = &jobs[i].done;
	jobs[i].queue = queue;
	list_init(&jobs[i].job.link);
	workers_post(&workers, &queues[queue], &jobs[i].job);
}

static void receive(unsigned n)
{
	struct pollfd pollfd = { .fd = mailbox_fd(&mailbox), .events = POLLIN };
	struct list done = LIST_INIT(done);

	for (; n > 0; n--) {
		ck_assert_int_eq(poll(&pollfd, 1, 60000), 1);
		mailbox_receive_some(&mailbox, &done, 1);
		list_remove(done.next);
	}
}

START_TEST(queue__has_one_job_under_way)
{
	start(4);
	for (unsigned i = 0; i < JOBS; i++)
		post(i, i % QUEUES, job_count);
	receive(JOBS);
	workers_stop(&workers);
	ck_assert_uint_eq(atomic_load(&n_run), JOBS);
	ck_assert_uint_eq(atomic_load(&overlaps), 0);
}
END_TEST

/* Whoever posts many jobs leaves the other threads to others. */
START_TEST(queue__that_is_full_holds_no_second_thread)
{
	start(2);
	for (unsigned i = 0; i < 4; i++)
		post(i, 0, job_hold);
	ck_assert_int_eq(sem_wait(&begun), 0);
	post(4, 1, job_count);
	receive(1);
	ck_assert_uint_eq(atomic_load(&n_run), 1);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(sem_post(&go), 0);
	receive(4);
	workers_stop(&workers);
}
END_TEST

START_TEST(queues__get_equal_time)
{
	clock_set_source(fake_clock);
	start(1);
	post(0, 2, job_hold);
	ck_assert_int_eq(sem_wait(&begun), 0);
	for (unsigned i = 1; i <= 6; i++)
		post(i, i > 3, job_record);
	ck_assert_int_eq(sem_post(&go), 0);
	workers_stop(&workers);
	/* behind that of the job that was held */
	ck_assert_str_eq(record + 1, "abbbaa");
}
END_TEST

START_TEST(stop__runs_what_was_posted)
{
	start(2);
	post(0, 0, job_hold);
	ck_assert_int_eq(sem_wait(&begun), 0);
	for (unsigned i = 1; i < JOBS; i++)
		post(i, i % QUEUES, job_count);
	ck_assert_int_eq(sem_post(&go), 0);
	workers_stop(&workers);
	ck_assert_uint_eq(atomic_load(&n_run), JOBS);
}
END_TEST

START_TEST(cancel__takes_back_what_is_not_begun)
{
	start(1);
	post(0, 0, job_hold);
	ck_assert_int_eq(sem_wait(&begun), 0);
	post(1, 0, job_count);
	post(2, 1, job_count);
	ck_assert(!workers_cancel(&workers, &jobs[0].job));
	ck_assert(workers_cancel(&workers, &jobs[1].job));
	ck_assert(workers_cancel(&workers, &jobs[2].job));
	ck_assert(!workers_cancel(&workers, &jobs[2].job));
	ck_assert_int_eq(sem_post(&go), 0);
	receive(1);
	workers_stop(&workers);
	ck_assert_uint_eq(atomic_load(&n_run), 1);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("workers", setup, teardown);

	tcase_add_test(tcase, queue__has_one_job_under_way);
	tcase_add_test(tcase, queue__that_is_full_holds_no_second_thread);
	tcase_add_test(tcase, queues__get_equal_time);
	tcase_add_test(tcase, stop__runs_what_was_posted);
	tcase_add_test(tcase, cancel__takes_back_what_is_not_begun);
	return unit_main();
}
