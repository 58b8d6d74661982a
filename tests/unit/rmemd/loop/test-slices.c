/* SPDX-License-Identifier: BSD-3-Clause */
/* Work in slices goes on by the tenant that has used the least time, until the turn is over. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rmemd/loop/slices.h"
#include "unit/unit.h"

#define WORKS 4

static struct turn turn;
static struct slices slices;
static struct slice_queue queues[2];
static uint64_t now_ns;
static unsigned wakes;

/* Work of some slices, which is recorded. */
static struct job {
	struct slice_work work;
	unsigned slices, done;
	uint64_t slice_ns;
} jobs[WORKS];
static char record[128];
static unsigned recorded;
static struct job *starts; /* started in a slice of another */

static uint64_t fake_clock(void)
{
	return now_ns;
}

static void on_wake(void *)
{
	wakes++;
}

static bool job_run(struct slice_work *work)
{
	struct job *job = container_of(work, struct job, work);

	now_ns += job->slice_ns;
	record[recorded++] = (char)('a' + (job - jobs));
	record[recorded] = '\0';
	/* starting what runs has no effect */
	slices_start(&slices, &queues[0], work);
	if (starts)
		slices_start(&slices, &queues[1], &starts->work);
	starts = NULL;
	return ++job->done < job->slices;
}

static void setup(void)
{
	clock_set_source(fake_clock);
	turn = (struct turn){ 0 };
	slices_init(&slices, &turn, on_wake, NULL);
	for (unsigned i = 0; i < 2; i++)
		slice_queue_init(&queues[i], SLICE_TENANT);
	for (unsigned i = 0; i < WORKS; i++) {
		jobs[i] = (struct job){ .slices = 2 };
		slice_work_init(&jobs[i].work, job_run);
	}
	now_ns = 1;
	wakes = recorded = 0;
	record[0] = '\0';
	starts = NULL;
}

static void teardown(void)
{
	ck_assert(!slices_wait(&slices));
	clock_set_source(NULL);
}

START_TEST(short_work__is_done_at_once)
{
	jobs[0].slices = 1;
	slices_start(&slices, &queues[0], &jobs[0].work);
	ck_assert_str_eq(record, "a");
	ck_assert_uint_eq(wakes, 0);
	ck_assert(!slices_busy(&slices));
}
END_TEST

START_TEST(work__goes_on_by_tenants_in_turn)
{
	/* three works of one tenant, one of another */
	for (unsigned i = 0; i < 3; i++)
		slices_add(&slices, &queues[0], &jobs[i].work);
	slices_start(&slices, &queues[1], &jobs[3].work);
	slices_start(&slices, &queues[1], &jobs[3].work);
	ck_assert_str_eq(record, "");
	ck_assert_uint_eq(wakes, 1);
	slices_run(&slices);
	ck_assert_str_eq(record, "adbdcabc");
	ck_assert_uint_eq(wakes, 1);
}
END_TEST

START_TEST(work__beyond_a_turn_waits_for_the_next)
{
	for (unsigned i = 0; i < WORKS; i++)
		jobs[i].slice_ns = TURN_WORK_NS / 2;
	for (unsigned i = 0; i < 3; i++)
		slices_add(&slices, &queues[0], &jobs[i].work);
	turn_begin(&turn, 0);
	turn_work();
	slices_run(&slices);
	ck_assert_str_eq(record, "ab");
	ck_assert_uint_eq(wakes, 2);
	/* what begins now waits too */
	slices_start(&slices, &queues[1], &jobs[3].work);
	ck_assert_uint_eq(jobs[3].done, 0);
	/* a turn that is over already does one slice all the same */
	slices_run(&slices);
	ck_assert_str_eq(record, "abd");
	turn_begin(&turn, 0);
	turn_work();
	slices_run(&slices);
	ck_assert_str_eq(record, "abdcd");
	while (slices_busy(&slices)) {
		turn_begin(&turn, 0);
		turn_work();
		slices_run(&slices);
		turn.running = false;
	}
}
END_TEST

START_TEST(work__started_by_work_waits_its_turn)
{
	starts = &jobs[1];
	slices_start(&slices, &queues[0], &jobs[0].work);
	ck_assert_str_eq(record, "a");
	slices_run(&slices);
	ck_assert_str_eq(record, "abab");
}
END_TEST

START_TEST(work__can_be_forgotten)
{
	slices_add(&slices, &queues[0], &jobs[0].work);
	slices_add(&slices, &queues[0], &jobs[1].work);
	slices_remove(&jobs[0].work);
	slices_remove(&jobs[0].work);
	ck_assert(!slice_waits(&jobs[0].work));
	slices_run(&slices);
	ck_assert_str_eq(record, "bb");
	slices_add(&slices, &queues[0], &jobs[2].work);
	slices_remove(&jobs[2].work);
	/* the queue waits no more, and may be freed */
	ck_assert(!slices_wait(&slices));
}
END_TEST

/* Two works that have no end, of two queues; how often each was served. */
static void serve_both(uint64_t first_ns, uint64_t second_ns, unsigned n,
		       unsigned ret[2])
{
	jobs[0].slice_ns = first_ns;
	jobs[1].slice_ns = second_ns;
	jobs[0].slices = jobs[1].slices = UINT_MAX;
	for (unsigned i = 0; i < 2; i++)
		slices_add(&slices, &queues[i], &jobs[i].work);
	for (unsigned i = 0; i < n; i++) {
		turn_begin(&turn, 0);
		turn_work();
		now_ns += TURN_WORK_NS;
		slices_run(&slices);
		recorded = 0;
	}
	for (unsigned i = 0; i < 2; i++) {
		slices_remove(&jobs[i].work);
		ret[i] = jobs[i].done;
	}
}

START_TEST(tenants__get_equal_time)
{
	unsigned n[2];

	serve_both(9 * TURN_WORK_NS, TURN_WORK_NS, 1000, n);
	ck_assert_uint_ge(n[0], 98);
	ck_assert_uint_le(n[0], 102);
}
END_TEST

START_TEST(strangers__get_a_small_share)
{
	unsigned n[2];

	slice_queue_init(&queues[0], SLICE_STRANGERS);
	serve_both(TURN_WORK_NS, TURN_WORK_NS, 900, n);
	ck_assert_uint_ge(n[0], 98);
	ck_assert_uint_le(n[0], 102);
}
END_TEST

START_TEST(idle_tenant__saves_up_no_time)
{
	jobs[0].slice_ns = TURN_WORK_NS;
	jobs[0].slices = 20;
	slices_add(&slices, &queues[0], &jobs[0].work);
	slices_run(&slices);
	ck_assert_uint_eq(jobs[0].done, 20);
	recorded = 0;
	jobs[0].slices = 23;
	jobs[1] = (struct job){ .slices = 4, .slice_ns = TURN_WORK_NS };
	slice_work_init(&jobs[1].work, job_run);
	slices_add(&slices, &queues[0], &jobs[0].work);
	slices_add(&slices, &queues[1], &jobs[1].work);
	slices_run(&slices);
	ck_assert_str_eq(record, "bababab");
}
END_TEST

/* Its next events of the same turn wait for those of others. */
START_TEST(work__of_a_tenant_that_is_ahead_waits)
{
	for (unsigned i = 0; i < WORKS; i++) {
		jobs[i].slices = 1;
		jobs[i].slice_ns = 150000;
	}
	for (unsigned i = 0; i < 3; i++)
		slices_start(&slices, &queues[0], &jobs[i].work);
	ck_assert_str_eq(record, "ab");
	slices_start(&slices, &queues[1], &jobs[3].work);
	ck_assert_str_eq(record, "ab");
	slices_run(&slices);
	ck_assert_str_eq(record, "abdc");
	/* nobody else waited, so it is not ahead any more */
	slices_start(&slices, &queues[0], &jobs[0].work);
	ck_assert_str_eq(record, "abdca");
}
END_TEST

static struct slice_queue *last_queue;

static bool last_work_run(struct slice_work *)
{
	now_ns += TURN_WORK_NS;
	slice_queue_end(last_queue);
	memset(last_queue, 0xff, sizeof(*last_queue));
	free(last_queue);
	return false;
}

START_TEST(queue__may_be_freed_by_its_work)
{
	struct slice_work work;

	for (unsigned i = 0; i < 2; i++) {
		last_queue = malloc(sizeof(*last_queue));
		ck_assert_ptr_nonnull(last_queue);
		slice_queue_init(last_queue, SLICE_TENANT);
		slice_work_init(&work, last_work_run);
		(i ? slices_add : slices_start)(&slices, last_queue, &work);
		slices_run(&slices);
	}
	slices_start(&slices, &queues[0], &jobs[0].work);
	slices_run(&slices);
	ck_assert_str_eq(record, "aa");
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("slices", setup, teardown);

	tcase_add_test(tc, short_work__is_done_at_once);
	tcase_add_test(tc, work__goes_on_by_tenants_in_turn);
	tcase_add_test(tc, work__beyond_a_turn_waits_for_the_next);
	tcase_add_test(tc, work__started_by_work_waits_its_turn);
	tcase_add_test(tc, work__can_be_forgotten);
	tcase_add_test(tc, tenants__get_equal_time);
	tcase_add_test(tc, strangers__get_a_small_share);
	tcase_add_test(tc, idle_tenant__saves_up_no_time);
	tcase_add_test(tc, work__of_a_tenant_that_is_ahead_waits);
	tcase_add_test(tc, queue__may_be_freed_by_its_work);
	return unit_main();
}
