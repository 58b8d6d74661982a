/* SPDX-License-Identifier: BSD-3-Clause */
/* One history of the daemon and its clients in one thread: time, chance, and who runs.
 *
 * A history is a list of numbered steps.  The choices of step n come from the seed and n alone, so
 * that a history replays exactly, and with steps left out the others choose from the same numbers.
 *
 * Time stands still while somebody has something to do; then it moves to the next moment at which
 * somebody has. */
#ifndef TESTS_SIMULATE_SIM_H
#define TESTS_SIMULATE_SIM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_CLIENTS 6
#define SIM_NEVER UINT64_MAX
#define SIM_MS UINT64_C(1000000)

extern uint64_t sim_now_ns;

/* Whose code runs: who waits, and whose memory may be full. */
enum sim_actor { SIM_NOBODY, SIM_DAEMON, SIM_CLIENT };
extern enum sim_actor sim_actor;

/* The next number of the present step, below `below`. */
uint64_t sim_random(uint64_t below);
static inline bool sim_chance(unsigned one_in)
{
	return sim_random(one_in) == 0;
}
void sim_random_begin(uint64_t seed, uint64_t step);

/* A rule is broken: print the text with time and step, and end the process. */
_Noreturn void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void sim_vfail(const char *format, va_list args)
	__attribute__((format(printf, 1, 0)));
/* Describe what happens, where a history is printed. */
void sim_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern bool sim_verbose;
extern uint64_t sim_step; /* the present one */

/* Memory of the simulation itself, which never fails; zeroed. */
void *sim_alloc(size_t bytes);

/* Faults of one kind happen until this time. */
struct sim_faults {
	uint64_t daemon_memory_ns; /* allocations of the daemon fail */
	bool daemon_memory_was;    /* they have failed before */
	uint64_t registration_ns;  /* registrations fail */
	uint64_t slow_device_ns;   /* registrations and deregistrations are slow */
	uint64_t slow_scrub_ns;
	unsigned one_in; /* allocations or registrations */
};
extern struct sim_faults sim_faults;
/* All faults end: what waits must be answered. */
extern bool sim_healed;

#endif
