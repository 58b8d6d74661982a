/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/loop/turn.h"

#include <event2/event.h>

/* The turn that runs; NULL: none. */
static struct turn *present;

void turn_begin(struct turn *turn, uint64_t cpu_ns)
{
	present = turn;
	turn->running = true;
	turn->first_ns = 0;
	turn->cpu_ns = cpu_ns;
}

static void window_move(struct turn_longest *longest)
{
	longest->window_ns[1] = longest->window_ns[0];
	longest->window_ns[0] = 0;
}

static void longest_add(struct turn_longest *longest, uint64_t ns)
{
	if (ns > longest->ever_ns)
		longest->ever_ns = ns;
	if (ns > longest->window_ns[0])
		longest->window_ns[0] = ns;
}

void turn_end(struct turn *turn, uint64_t now_ns, uint64_t cpu_ns)
{
	uint64_t used_ns = cpu_ns - turn->cpu_ns;

	present = NULL;
	if (now_ns - turn->window_ns >= TURN_WINDOW_NS) {
		/* after a long sleep of the loop both windows are over */
		if (now_ns - turn->window_ns >= 2 * TURN_WINDOW_NS) {
			window_move(&turn->cpu);
			window_move(&turn->wall);
		}
		window_move(&turn->cpu);
		window_move(&turn->wall);
		turn->window_ns = now_ns;
	}
	turn->n++;
	turn->n_long += used_ns > TURN_GOAL_NS;
	longest_add(&turn->cpu, used_ns);
	durations_add(&turn->cpu_times, used_ns);
	longest_add(&turn->wall, turn->first_ns ? now_ns - turn->first_ns : 0);
}

void turn_work(void)
{
	if (present && !present->first_ns)
		present->first_ns = clock_now_ns();
}

bool turn_over(struct turn *turn)
{
	uint64_t now_ns;

	if (!turn->running)
		return false;
	now_ns = clock_now_ns();
	if (!turn->first_ns)
		turn->first_ns = now_ns;
	if (now_ns - turn->first_ns < TURN_WORK_NS)
		return false;
	/* fails only without a base */
	if (turn->base)
		(void)event_base_loopbreak(turn->base);
	return true;
}
