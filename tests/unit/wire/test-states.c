/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of states, of the server and in librmem: each row, and that there is no other move. */
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/moves.h"
#include "librmem/channel/channel.h"
#include "librmem/lease/lease.h"
#include "librmem/session/session.h"
#include "unit/unit.h"
#include "wire/states.h"

#define ROW(machine, from, step, to) \
	{ WIRE_##machine##_##from, WIRE_STEP_##step, WIRE_##machine##_##to },
#define ONE(...) +1

/* ---- of the server ---- */

static const struct move session_rows[] = { WIRE_SESSION_MOVES(ROW) };
static const struct move channel_rows[] = { WIRE_CHANNEL_MOVES(ROW) };
static const struct move lease_rows[] = { WIRE_LEASE_MOVES(ROW) };

static unsigned server_session_move(unsigned state, unsigned step)
{
	enum wire_session_state at = state;

	wire_session_move(&at, step);
	return at;
}

static unsigned server_channel_move(unsigned state, unsigned step)
{
	enum wire_channel_state at = state;

	wire_channel_move(&at, step);
	return at;
}

static unsigned server_lease_move(unsigned state, unsigned step)
{
	enum wire_lease_state at = state;

	wire_lease_move(&at, step);
	return at;
}

/* ---- of librmem ---- */

#define SESSION_ROW(from, step, to) \
	{ SESSION_##from, SESSION_STEP_##step, SESSION_##to },
#define CHANNEL_ROW(from, step, to) \
	{ CHANNEL_##from, CHANNEL_STEP_##step, CHANNEL_##to },
#define LEASE_ROW(from, step, to) { LEASE_##from, LEASE_STEP_##step, LEASE_##to },

static const struct move own_session_rows[] = { SESSION_MOVES(SESSION_ROW) };
static const struct move own_channel_rows[] = { CHANNEL_MOVES(CHANNEL_ROW) };
static const struct move own_lease_rows[] = { LEASE_MOVES(LEASE_ROW) };

static unsigned own_session_move(unsigned state, unsigned step)
{
	return MOVES_NEXT(own_session_rows, state, step);
}

static unsigned own_channel_move(unsigned state, unsigned step)
{
	return MOVES_NEXT(own_channel_rows, state, step);
}

static unsigned own_lease_move(unsigned state, unsigned step)
{
	return MOVES_NEXT(own_lease_rows, state, step);
}

/* ---- all ---- */

#define MACHINE(rows, states, steps, move) \
	{ rows, sizeof(rows) / sizeof((rows)[0]), 0 states(ONE), 0 steps(ONE), move }
static const struct machine {
	const struct move *rows;
	unsigned n_rows, n_states, n_steps;
	unsigned (*move)(unsigned state, unsigned step);
} machines[] = {
	MACHINE(session_rows, WIRE_SESSION_STATES, WIRE_STEPS, server_session_move),
	MACHINE(channel_rows, WIRE_CHANNEL_STATES, WIRE_STEPS, server_channel_move),
	MACHINE(lease_rows, WIRE_LEASE_STATES, WIRE_STEPS, server_lease_move),
	MACHINE(own_session_rows, SESSION_STATES, SESSION_STEPS, own_session_move),
	MACHINE(own_channel_rows, CHANNEL_STATES, CHANNEL_STEPS, own_channel_move),
	MACHINE(own_lease_rows, LEASE_STATES, LEASE_STEPS, own_lease_move),
};
#define N_MACHINES (sizeof(machines) / sizeof(machines[0]))

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

	tcase_add_loop_test(tcase, machine__moves_by_its_rows_alone, 0, N_MACHINES);
	tcase_add_loop_test(tcase, state__is_reached_and_left, 0, N_MACHINES);
	return unit_main();
}
