/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/mates.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "librmem/lease/lease.h"
#include "simulate/checks.h"
#include "simulate/clients.h"
#include "simulate/daemon.h"
#include "simulate/sim.h"

#define BYTES 4096u
/* An attach may take several requests. */
#define REQUESTS 4u
/* Leases whose end was asked for, the latest. */
#define ENDED_MAX 256u

static uint64_t ended[ENDED_MAX];
static unsigned n_ended;

static bool may_have_ended(uint64_t id)
{
	for (unsigned i = 0; i < ENDED_MAX; i++)
		if (ended[i] == id)
			return true;
	return daemon_may_revoke;
}

/* A lease that ends under a thread that holds it was freed by somebody. */
static void look(const struct program *program, unsigned which, unsigned k)
{
	const rmem_lease *lease = program->mates[which].lease[k];

	if (!program->mates[which].leaving[k] &&
	    rmem_lease_reason(lease) == RMEM_REASON_FREED &&
	    !may_have_ended(rmem_lease_id(lease)))
		sim_fail("client %u has lost lease %llu, which nobody has freed",
			 program->number, (unsigned long long)rmem_lease_id(lease));
}

/* Whether an answer of the daemon, or its word that the lease has ended, may be on the way. */
static bool is_in_doubt(const struct program *program, const rmem_lease *lease)
{
	return program->calls > 0 || lease->ending || !client_is_calm(1000) ||
	       may_have_ended(lease->id);
}

/* What the library takes for attached, the daemon has attached. */
static void compare(const struct program *program, const rmem_lease *lease)
{
	struct rmem_info info = rmem_info_init();

	if (!rmem_lease_status(lease) && !is_in_doubt(program, lease) &&
	    !rmem_info(program->session, &info))
		check_attached(program->number, info.session_id, lease->id);
}

/* Some threads have no time to wait for the answer, which comes late. */
static void mate_begin(struct program *program, const char *name)
{
	program->calls++;
	client_call_begin(name, REQUESTS * program->timeout_ms + 3000);
	(void)rmem_thread_timeout(
		!sim_healed && sim_chance(2) ? 1 + (unsigned)sim_random(4) : 0);
}

static void mate_end(struct program *program)
{
	(void)rmem_thread_timeout(0);
	client_call_end();
	program->calls--;
}

static void get(struct program *program, unsigned which, unsigned k)
{
	/* -EBUSY: for reading only, or about to be detached */
	static const int also[] = { -ENOENT, -EBUSY,   -EDQUOT, -ENOSPC,
				    -EEXIST, -ENOTSUP, 0 };
	static const int proven[] = { -ENOENT, -EDQUOT, -ENOSPC, -ENOTSUP, 0 };
	rmem_lease **lease = &program->mates[which].lease[k];
	struct rmem_alloc_params params = rmem_alloc_params_init();
	char name[HELD_NAME_BYTES];
	int err;

	(void)snprintf(name, sizeof(name), "m-%u", k);
	params.name = name;
	params.bytes = BYTES;
	params.flags = RMEM_ALLOC_ATTACH;
	mate_begin(program, "rmem_attach of a mate");
	/* proving: whatever rights the other thread has asked for */
	if (!program->proving && sim_chance(2))
		err = rmem_alloc(program->session, &params, lease);
	else
		err = rmem_attach(
			program->session, name,
			RMEM_READ |
				(program->proving || sim_chance(3) ? 0 : RMEM_WRITE),
			lease);
	mate_end(program);
	program->mates[which].leaving[k] = false;
	if (program_failed(program, "rmem_attach of a mate", err,
			   program->proving ? proven : also))
		*lease = NULL;
}

/* Begin to get it by a call whose answer nobody takes: it may come before the object ends, or
 * after. */
static void get_for_nobody(struct program *program, unsigned k)
{
	struct rmem_request request =
		rmem_request_init(sim_chance(2) ? RMEM_CALL_ALLOC : RMEM_CALL_ATTACH);
	struct rmem_alloc_params params = rmem_alloc_params_init();
	char name[HELD_NAME_BYTES];
	rmem_calls *calls;

	(void)snprintf(name, sizeof(name), "m-%u", k);
	params.name = name;
	params.bytes = BYTES;
	params.flags = RMEM_ALLOC_ATTACH;
	request.session = program->session;
	request.name = name;
	request.params = &params;
	request.value = RMEM_READ | RMEM_WRITE;
	mate_begin(program, "a call of a mate that nobody takes");
	if (!rmem_calls_create(NULL, &calls)) {
		if (rmem_calls_begin(calls, &request, 1) == 1 && !sim_chance(3))
			(void)rmem_ping(program->session, NULL);
		rmem_calls_free(calls);
	}
	mate_end(program);
}

/* Give it back; true: it is gone. */
static bool leave(struct program *program, rmem_lease *lease)
{
	static const int also[] = { -EBUSY, 0 };
	int err;

	mate_begin(program, "rmem_detach of a mate");
	err = rmem_detach(lease);
	mate_end(program);
	return !program_failed(program, "rmem_detach of a mate", err, also);
}

static void destroy(struct program *program, unsigned which, unsigned k)
{
	static const int also[] = { -EBUSY, 0 };
	rmem_lease **lease = &program->mates[which].lease[k];
	int err;

	ended[n_ended++ % ENDED_MAX] = rmem_lease_id(*lease);
	mate_begin(program, "rmem_destroy of a mate");
	err = rmem_destroy(*lease);
	mate_end(program);
	if (!program_failed(program, "rmem_destroy of a mate", err, also))
		*lease = NULL;
}

/* Synchronous operations wait for each other without the simulation: only one thread makes them. */
static void write_to(struct program *program, rmem_lease *lease)
{
	unsigned char byte = pattern(rmem_lease_id(lease), 0, 1);
	int err;

	client_call_begin("rmem_write of a mate", 60000);
	err = rmem_write(lease, 0, &byte, 1);
	client_call_end();
	(void)program_failed(program, "rmem_write of a mate", err, NULL);
}

/* A thread may hold a handle that it could not give back, and attach the lease again. */
static void give_back(struct program *program, unsigned which, unsigned k)
{
	struct mate *mate = &program->mates[which];

	if (leave(program, mate->lease[k])) {
		mate->lease[k] = NULL;
		return;
	}
	mate->leaving[k] = true;
	if (!mate->old[k] && sim_chance(2)) {
		mate->old[k] = mate->lease[k];
		mate->lease[k] = NULL;
	}
}

void mates_prove(struct program *program)
{
	struct mate *mate = &program->mates[0];

	for (unsigned k = 0; k < MATES_LEASES; k++) {
		if (!mate->lease[k])
			get(program, 0, k);
		if (mate->lease[k] && !rmem_lease_status(mate->lease[k]) &&
		    rmem_lease_rights(mate->lease[k]) & RMEM_WRITE)
			write_to(program, mate->lease[k]);
	}
}

void mates_act(struct program *program, unsigned which)
{
	struct mate *mate = &program->mates[which];
	unsigned k = (unsigned)sim_random(MATES_LEASES);

	if (mate->lease[k]) {
		look(program, which, k);
		compare(program, mate->lease[k]);
	}
	if (mate->old[k] && sim_chance(2)) {
		if (leave(program, mate->old[k]))
			mate->old[k] = NULL;
	} else if (!mate->lease[k] && sim_chance(4)) {
		get_for_nobody(program, k);
	} else if (!mate->lease[k]) {
		get(program, which, k);
	} else if (which == 0 && rmem_lease_rights(mate->lease[k]) & RMEM_WRITE &&
		   sim_chance(2)) {
		write_to(program, mate->lease[k]);
	} else if (rmem_lease_rights(mate->lease[k]) & RMEM_WRITE && sim_chance(4)) {
		destroy(program, which, k);
	} else {
		give_back(program, which, k);
	}
}

static bool may_call(const struct program *program)
{
	return program->session && !program->lost && !program->closing;
}

void mates_work(struct program *program)
{
	while (clients_phase == PHASE_WORK) {
		if (may_call(program))
			mates_act(program, 1);
		client_wait(NULL, 0, sim_now_ns + sim_random(20000000));
	}
}

void mates_stop(struct program *program)
{
	program->closing = true;
	while (program->calls > 0)
		client_wait(NULL, 0, sim_now_ns + 5 * SIM_MS);
}
