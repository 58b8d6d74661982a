/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/moves.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/moves.h"
#include "librmem/channel/channel.h"
#include "librmem/lease/lease.h"
#include "librmem/session/session.h"
#include "simulate/sim.h"
#include "wire/states.h"

#define ROWS_MAX 32

#define SERVER(machine, from, step, to)                                         \
	{ { WIRE_##machine##_##from, WIRE_STEP_##step, WIRE_##machine##_##to }, \
	  "server's " #machine " " #from " " #step },
#define SESSION(from, step, to)                                  \
	{ { SESSION_##from, SESSION_STEP_##step, SESSION_##to }, \
	  "session " #from " " #step },
#define CHANNEL(from, step, to)                                  \
	{ { CHANNEL_##from, CHANNEL_STEP_##step, CHANNEL_##to }, \
	  "channel " #from " " #step },
#define LEASE(from, step, to) \
	{ { LEASE_##from, LEASE_STEP_##step, LEASE_##to }, "lease " #from " " #step },
static const struct row {
	struct move move;
	const char *text;
} tables[][ROWS_MAX] = {
	{ WIRE_SESSION_MOVES(SERVER) }, { WIRE_CHANNEL_MOVES(SERVER) },
	{ WIRE_LEASE_MOVES(SERVER) },   { SESSION_MOVES(SESSION) },
	{ CHANNEL_MOVES(CHANNEL) },     { LEASE_MOVES(LEASE) },
};
#define N_TABLES (sizeof(tables) / sizeof(tables[0]))

/* What the simulation does not have: where it is seen instead. */
static const char *const elsewhere[] = {
	/* channels whose connecting takes time: unit/rmemd/control/test-session-channels */
	"server's CHANNEL GRANTED EXPIRE",
	"server's CHANNEL ADMITTED BREAK",
	"server's CHANNEL ADMITTED CLOSE",
	"server's CHANNEL ADMITTED LEAVE",
	/* programs that close descriptors of others: unit/librmem/test-librmem-driven */
	"session HELLO ROB",
	"session REKEY ROB",
	"session UP ROB",
	"session WAIT ROB",
	/* a server that does not answer one request: unit/librmem/test-librmem-session-channels */
	"channel CLOSING SILENCE",
};

static atomic_bool (*seen)[ROWS_MAX];

void moves_init(void)
{
	seen = mmap(NULL, N_TABLES * sizeof(*seen), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static bool table_is(const struct row *table, const struct move *moves, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (memcmp(&table[i].move, &moves[i], sizeof(moves[i])) != 0)
			return false;
	return !table[n].text;
}

static void moves_see(const struct move *moves, size_t n, unsigned from, unsigned step)
{
	size_t of = 0, i = 0;

	while (!table_is(tables[of], moves, n))
		of++;
	while (moves[i].from != from || moves[i].step != step)
		i++;
	atomic_store(&seen[of][i], true);
}

unsigned __real_moves_next(const struct move *moves, size_t n, unsigned from,
			   unsigned step);
unsigned __wrap_moves_next(const struct move *moves, size_t n, unsigned from,
			   unsigned step);
unsigned __wrap_moves_next(const struct move *moves, size_t n, unsigned from,
			   unsigned step)
{
	unsigned to = __real_moves_next(moves, n, from, step);

	moves_see(moves, n, from, step);
	return to;
}

static bool is_elsewhere(const char *text)
{
	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
		if (strcmp(text, elsewhere[i]) == 0)
			return true;
	return false;
}

unsigned moves_missing(bool print)
{
	unsigned n = 0;

	for (size_t of = 0; of < N_TABLES; of++)
		for (size_t i = 0; tables[of][i].text; i++) {
			if (atomic_load(&seen[of][i]) ||
			    is_elsewhere(tables[of][i].text))
				continue;
			if (print)
				(void)printf("no history has come to: %s\n",
					     tables[of][i].text);
			n++;
		}
	return n;
}
