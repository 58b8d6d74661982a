/* SPDX-License-Identifier: BSD-3-Clause */
/* Work in slices goes on by tenants in turn, until the turn is over. */
#include "base/clock.h"
#include "rmemd/loop/slices.h"
#include "unit/unit.h"

#define WORKS 4

static struct turn turn;
static struct slices slices;
static struct slice_queue queues[2];
static uint64_t now_ns, slice_ns;
static unsigned wakes;

/* Work of some slices, which is recorded. */
static struct job {
	struct slice_work work;
	unsigned slices, done;
} jobs[WORKS];
static char record[64];
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

	now_ns += slice_ns;
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
		slice_queue_init(&queues[i]);
	for (unsigned i = 0; i < WORKS; i++) {
		jobs[i] = (struct job){ .slices = 2 };
		slice_work_init(&jobs[i].work, job_run);
	}
	now_ns = 1;
	slice_ns = wakes = recorded = 0;
	record[0] = '\0';
	starts = NULL;
}

static void teardown(void)
{
	ck_assert(list_empty(&slices.queues));
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
	slice_ns = TURN_WORK_NS / 2;
	for (unsigned i = 0; i < 3; i++)
		slices_add(&slices, &queues[0], &jobs[i].work);
	turn_begin(&turn, 0);
	slices_run(&slices);
	ck_assert_str_eq(record, "ab");
	ck_assert_uint_eq(wakes, 2);
	/* what begins now waits too */
	slices_start(&slices, &queues[1], &jobs[3].work);
	ck_assert_uint_eq(jobs[3].done, 0);
	/* a turn that is over already does one slice all the same */
	slices_run(&slices);
	ck_assert_str_eq(record, "abc");
	turn_begin(&turn, 0);
	slices_run(&slices);
	ck_assert_str_eq(record, "abcda");
	while (slices_busy(&slices)) {
		turn_begin(&turn, 0);
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
	/* the queue is in no list, and may be freed */
	ck_assert(list_empty(&queues[0].link));
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
	return unit_main();
}
