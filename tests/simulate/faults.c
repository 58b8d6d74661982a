/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/faults.h"

#include "simulate/clients.h"
#include "simulate/daemon.h"
#include "simulate/fabric.h"
#include "simulate/keys.h"
#include "simulate/network.h"
#include "simulate/sim.h"

/* Of the steps, one in as many has a fault. */
#define RARE 150

static uint64_t soon(uint64_t max_ms)
{
	return sim_now_ns + sim_random(max_ms) * SIM_MS;
}

/* Mostly short, sometimes beyond fence and grace time. */
static uint64_t outage(void)
{
	uint64_t fence = daemon_config.fence_ms, grace = daemon_config.grace_ms;

	if (sim_chance(8))
		return soon(fence + 2 * grace);
	return sim_chance(2) ? soon(3 * fence) : soon(fence / 2);
}

/* What is under way waits for the end of a cut, so a later cut must not end it sooner. */
static void cut_direction(unsigned client, enum direction direction, uint64_t until)
{
	uint64_t *down = &links[client].down_until_ns[direction];

	if (!sim_chance(3) && *down < until)
		*down = until;
}

static void cut_link(unsigned client)
{
	uint64_t until = outage();

	sim_note("the link of client %u is cut until %llu ms", client,
		 (unsigned long long)(until / SIM_MS));
	cut_direction(client, TO_DAEMON, until);
	cut_direction(client, TO_CLIENT, until);
}

void faults_step(void)
{
	unsigned client = (unsigned)sim_random(clients_count());

	if (!sim_chance(RARE))
		return;
	switch (sim_random(19)) {
	case 0:
	case 1:
		cut_link(client);
		break;
	case 2:
	case 3:
		sim_note("the control connections of client %u break", client);
		network_cut(client);
		break;
	case 4:
		sim_note("the channels of client %u break", client);
		fabric_cut(client);
		break;
	case 5:
		sim_note("client %u is stopped", client);
		client_pause(client, outage());
		break;
	case 6:
		sim_note("the daemon is paused");
		daemon_pause(sim_chance(4) ? outage() : soon(300));
		break;
	case 7:
	case 8:
		daemon_kill((unsigned)sim_random(sim_chance(2) ? 3 : 60));
		break;
	case 9:
		daemon_stop();
		break;
	case 10:
	case 11:
		daemon_reload();
		break;
	case 12:
		sim_note("the daemon's memory is full");
		sim_faults.daemon_memory_ns = soon(200);
		sim_faults.daemon_memory_was = true;
		break;
	case 13:
		sim_note("registrations fail");
		sim_faults.registration_ns = soon(1000);
		break;
	case 14:
		sim_note("devices are slow");
		sim_faults.slow_device_ns = soon(5000);
		break;
	case 15:
	case 16:
		keys_step();
		daemon_load_keys();
		break;
	case 17:
		daemon_administer();
		break;
	default:
		sim_note("scrubbing is slow");
		sim_faults.slow_scrub_ns = soon(10000);
		break;
	}
}

void faults_heal(void)
{
	sim_note("nothing goes wrong any more");
	sim_healed = true;
	sim_faults.daemon_memory_ns = 0;
	sim_faults.registration_ns = sim_faults.slow_device_ns = 0;
	sim_faults.slow_scrub_ns = 0;
	for (unsigned i = 0; i < SIM_CLIENTS; i++)
		links[i].down_until_ns[TO_DAEMON] = links[i].down_until_ns[TO_CLIENT] =
			0;
	clients_heal();
	keys_heal();
	daemon_heal();
	daemon_load_keys();
}
