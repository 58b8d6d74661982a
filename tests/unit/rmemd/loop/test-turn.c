/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns of the loop are measured, and end. */
#include <event2/event.h>

#include "base/clock.h"
#include "rmemd/loop/turn.h"
#include "unit/unit.h"

static struct turn turn;
static uint64_t now_ns;

static uint64_t fake_clock(void)
{
	return now_ns;
}

static void setup(void)
{
	turn = (struct turn){ 0 };
	now_ns = 1000 * NS_PER_MS;
	clock_set_source(fake_clock);
}

static void teardown(void)
{
	clock_set_source(NULL);
}

/* A turn that waits, then works. */
static void run_turn(uint64_t work_ms, uint64_t cpu_ms)
{
	turn_begin(&turn, 7);
	now_ns += 500 * NS_PER_MS;
	(void)turn_over(&turn);
	now_ns += work_ms * NS_PER_MS;
	turn_end(&turn, now_ns, 7 + cpu_ms * NS_PER_MS);
}

START_TEST(turn__is_measured_from_its_first_work_on)
{
	run_turn(30, 2);
	run_turn(4, 3);
	ck_assert_uint_eq(turn.n, 2);
	ck_assert_uint_eq(turn.n_long, 1);
	ck_assert_uint_eq(turn.cpu.ever_ns, 3 * NS_PER_MS);
	ck_assert_uint_eq(turn.wall.ever_ns, 30 * NS_PER_MS);
	/* one without work only waited */
	turn_begin(&turn, 0);
	now_ns += 900 * NS_PER_MS;
	turn_end(&turn, now_ns, 0);
	ck_assert_uint_eq(turn.wall.ever_ns, 30 * NS_PER_MS);
}
END_TEST

START_TEST(longest_turn__is_forgotten_after_two_windows)
{
	run_turn(9, 9);
	now_ns += TURN_WINDOW_NS;
	run_turn(2, 2);
	ck_assert_uint_eq(turn_recent_ns(&turn.cpu), 9 * NS_PER_MS);
	now_ns += TURN_WINDOW_NS;
	run_turn(1, 1);
	ck_assert_uint_eq(turn_recent_ns(&turn.cpu), 2 * NS_PER_MS);
	ck_assert_uint_eq(turn_recent_ns(&turn.wall), 2 * NS_PER_MS);
	now_ns += 5 * TURN_WINDOW_NS;
	run_turn(1, 1);
	ck_assert_uint_eq(turn_recent_ns(&turn.cpu), 1 * NS_PER_MS);
	ck_assert_uint_eq(turn.cpu.ever_ns, 9 * NS_PER_MS);
}
END_TEST

START_TEST(turn__is_over_after_its_time)
{
	/* outside of the daemon's loop there is always time */
	ck_assert(!turn_over(&turn));
	now_ns += 10 * TURN_WORK_NS;
	ck_assert(!turn_over(&turn));
	turn_begin(&turn, 0);
	now_ns += 10 * TURN_WORK_NS;
	ck_assert(!turn_over(&turn));
	now_ns += TURN_WORK_NS - 1;
	ck_assert(!turn_over(&turn));
	now_ns++;
	ck_assert(turn_over(&turn));
	turn_end(&turn, now_ns, 0);
	turn_begin(&turn, 0);
	ck_assert(!turn_over(&turn));
}
END_TEST

static void on_long_work(evutil_socket_t, short, void *arg)
{
	unsigned *n_run = arg;

	(void)turn_over(&turn);
	now_ns += TURN_WORK_NS;
	ck_assert(turn_over(&turn));
	(*n_run)++;
}

/* Two callbacks are due in one poll: each has a turn of its own. */
START_TEST(over_turn__leaves_other_callbacks_to_the_next)
{
	struct event_base *base = event_base_new();
	unsigned n_run = 0;

	ck_assert_ptr_nonnull(base);
	turn.base = base;
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(event_base_once(base, -1, EV_TIMEOUT, on_long_work,
						 &n_run, &(struct timeval){ 0 }),
				 0);
	for (unsigned i = 1; i <= 2; i++) {
		turn_begin(&turn, 0);
		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
		ck_assert_uint_eq(n_run, i);
	}
	event_base_free(base);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("turn", setup, teardown);

	tcase_add_test(tc, turn__is_measured_from_its_first_work_on);
	tcase_add_test(tc, longest_turn__is_forgotten_after_two_windows);
	tcase_add_test(tc, turn__is_over_after_its_time);
	tcase_add_test(tc, over_turn__leaves_other_callbacks_to_the_next);
	return unit_main();
}
