/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of states: each row, and that there is no other move. */
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/moves.h"
#include "unit/unit.h"
#include "wire/states.h"

#define ROW(machine, from, step, to) \
	{ WIRE_##machine##_##from, WIRE_STEP_##step, WIRE_##machine##_##to },
#define ONE(...) +1

static const struct move session_rows[] = { WIRE_SESSION_MOVES(ROW) };
static const struct move channel_rows[] = { WIRE_CHANNEL_MOVES(ROW) };
static const struct move lease_rows[] = { WIRE_LEASE_MOVES(ROW) };

static unsigned session_move(unsigned state, unsigned step)
{
	enum wire_session_state at = state;

	wire_session_move(&at, step);
	return at;
}

static unsigned channel_move(unsigned state, unsigned step)
{
	enum wire_channel_state at = state;

	wire_channel_move(&at, step);
	return at;
}

static unsigned lease_move(unsigned state, unsigned step)
{
	enum wire_lease_state at = state;

	wire_lease_move(&at, step);
	return at;
}

#define MACHINE(rows, states, move)                                    \
	{                                                              \
		rows, sizeof(rows) / sizeof((rows)[0]), 0 states(ONE), \
			0 WIRE_STEPS(ONE), move                        \
	}
static const struct machine {
	const struct move *rows;
	unsigned n_rows, n_states, n_steps;
	unsigned (*move)(unsigned state, unsigned step);
} machines[] = {
	MACHINE(session_rows, WIRE_SESSION_STATES, session_move),
	MACHINE(channel_rows, WIRE_CHANNEL_STATES, channel_move),
	MACHINE(lease_rows, WIRE_LEASE_STATES, lease_move),
};

static const struct move *row_of(const struct machine *machine, unsigned state,
				 unsigned step)
{
	const struct move *found = NULL;

	for (unsigned i = 0; i < machine->n_rows; i++) {
		if (machine->rows[i].from != state || machine->rows[i].step != step)
			continue;
		ck_assert_ptr_null(found);
		found = &machine->rows[i];
	}
	return found;
}

/* Whether the move ends the process. */
static bool is_refused(const struct machine *machine, unsigned state, unsigned step)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		const struct rlimit none = { 0, 0 };

		(void)setrlimit(RLIMIT_CORE, &none);
		(void)close(STDERR_FILENO);
		(void)machine->move(state, step);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

START_TEST(machine__moves_by_its_rows_alone)
{
	const struct machine *machine = &machines[_i];

	for (unsigned state = 0; state < machine->n_states; state++)
		for (unsigned step = 0; step < machine->n_steps; step++) {
			const struct move *row = row_of(machine, state, step);

			if (row)
				ck_assert_uint_eq(machine->move(state, step), row->to);
			else
				ck_assert(is_refused(machine, state, step));
		}
}
END_TEST

/* The last state is the end, or the way leads back. */
START_TEST(state__is_reached_and_left)
{
	const struct machine *machine = &machines[_i];
	unsigned reached = 1, left = 0;

	for (unsigned round = 0; round < machine->n_states; round++)
		for (unsigned i = 0; i < machine->n_rows; i++) {
			const struct move *row = &machine->rows[i];

			left |= 1u << row->from;
			if (reached & 1u << row->from)
				reached |= 1u << row->to;
		}
	ck_assert_uint_eq(reached, (1u << machine->n_states) - 1);
	ck_assert_uint_eq(left | 1u << (machine->n_states - 1), reached);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("states", NULL, NULL);

	tcase_add_loop_test(tcase, machine__moves_by_its_rows_alone, 0,
			    sizeof(machines) / sizeof(machines[0]));
	tcase_add_loop_test(tcase, state__is_reached_and_left, 0,
			    sizeof(machines) / sizeof(machines[0]));
	return unit_main();
}
