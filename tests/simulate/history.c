/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/history.h"

#include <string.h>

#include "simulate/checks.h"
#include "simulate/clients.h"
#include "simulate/daemon.h"
#include "simulate/fabric.h"
#include "simulate/faults.h"
#include "simulate/fds.h"
#include "simulate/network.h"
#include "simulate/program.h"
#include "simulate/sim.h"

/* Steps within which a calm system must come to an end. */
#define CALM_STEPS_MAX 300000u
#define SOURCES 5u

struct outcome *outcome;

static bool daemon_step(void)
{
	if (!daemon_ready())
		return false;
	daemon_turn();
	return true;
}

/* Let one of those that have something to do run. */
static bool run_one(void)
{
	static bool (*const sources[SOURCES])(void) = {
		network_step, fabric_step, daemon_step, daemon_work, clients_step,
	};
	unsigned first = (unsigned)sim_random(SOURCES);

	for (unsigned i = 0; i < SOURCES; i++)
		if (sources[(first + i) % SOURCES]())
			return true;
	return false;
}

static void earlier(uint64_t *due, uint64_t other)
{
	if (other < *due)
		*due = other;
}

static bool time_pass(uint64_t until_ns)
{
	uint64_t due = until_ns;

	earlier(&due, network_due_ns());
	earlier(&due, fabric_due_ns());
	earlier(&due, daemon_due_ns());
	earlier(&due, daemon_work_due_ns());
	earlier(&due, clients_due_ns());
	if (due == SIM_NEVER || due >= until_ns)
		return false;
	if (due > sim_now_ns)
		sim_now_ns = due;
	return true;
}

static void step(void)
{
	outcome->steps++;
	if (sim_chance(6))
		fabric_attack();
	if (!run_one() && time_pass(SIM_NEVER))
		(void)run_one();
	check_step();
}

/* Steps without faults, until time has passed and `done` says so. */
static void calm(uint64_t seed, uint64_t ms, bool (*done)(void), const char *what)
{
	uint64_t until_ns = sim_now_ns + ms * SIM_MS, n = 0;

	while (sim_now_ns < until_ns || !done()) {
		sim_random_begin(seed, sim_step + 1);
		outcome->steps++;
		if (!run_one() &&
		    !time_pass(until_ns > sim_now_ns ? until_ns : SIM_NEVER))
			sim_now_ns = until_ns > sim_now_ns ? until_ns : sim_now_ns + 1;
		check_step();
		if (++n > CALM_STEPS_MAX)
			sim_fail("nothing is in the way, and it does not end: %s",
				 what);
	}
}

static bool daemon_is_up(void)
{
	return daemon_up;
}

static void world_begin(uint64_t seed)
{
	sim_now_ns = 3600000 * SIM_MS;
	sim_healed = false;
	sim_random_begin(seed, 0);
	memset(&sim_faults, 0, sizeof(sim_faults));
	sim_faults.one_in = 2 + (unsigned)sim_random(20);
	checks_init();
	daemon_init();
	program_init();
	clients_init(2 + (unsigned)sim_random(SIM_CLIENTS - 1));
	clients_phase = PHASE_WORK;
}

static void world_end(void)
{
	daemon_end();
	clients_end();
	fabric_end();
	network_close();
	checks_end();
	if (fabric_client_objects())
		sim_fail("%u objects of the clients' fabric are left",
			 fabric_client_objects());
	if (fds_count())
		sim_fail("%u descriptors are left", fds_count());
}

void history_run(uint64_t seed, uint64_t n, const bool *skipped)
{
	world_begin(seed);
	for (uint64_t i = 1; i <= n; i++) {
		if (skipped && skipped[i])
			continue;
		sim_random_begin(seed, i);
		faults_step();
		step();
		if (i % 500 == 0)
			check_bytes();
	}
	sim_step = n;
	faults_heal();
	clients_phase = PHASE_QUIET;
	calm(seed, 20000, clients_reached, "the clients finish their calls");
	calm(seed, 0, daemon_is_up, "the daemon starts");
	program_check_owned();
	clients_phase = PHASE_PROVE;
	calm(seed, 0, clients_reached, "the clients show that all works");
	clients_phase = PHASE_CLOSE;
	calm(seed, daemon_config.fence_ms + daemon_config.grace_ms + 15000,
	     clients_reached, "the clients close their sessions");
	check_rest();
	world_end();
}
