/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/program.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rmemd/control/session.h"
#include "rmemd/lease/lease_table.h"
#include "simulate/bytes.h"
#include "simulate/clients.h"
#include "simulate/daemon.h"
#include "simulate/held.h"
#include "simulate/keys.h"
#include "simulate/mates.h"
#include "simulate/shares.h"
#include "simulate/sim.h"
#include "unit/borders.h"

#define PAGE 4096u

static struct program programs[SIM_CLIENTS];
static const int no_room[] = { -ENOSPC, -EDQUOT, 0 };
static const int refused[] = { -EINVAL, 0 };

/* ---- sessions ---- */

static void idle(struct program *program, uint64_t ms)
{
	uint64_t until = sim_now_ns + ms * SIM_MS;
	struct rmem_completion completion;

	while (sim_now_ns < until && program->session) {
		struct pollfd pollfd = { .fd = rmem_fd(program->session),
					 .events = POLLIN };

		if (rmem_process(program->session) == -ESTALE) {
			program->lost = true;
			return;
		}
		/* a device that is opened again waits until every queue has left it */
		if (program->queue)
			(void)rmem_poll(program->queue, &completion, 1);
		client_wait(&pollfd, 1, until);
	}
	if (!program->session)
		client_wait(NULL, 0, until);
}

static void program_open(struct program *program)
{
	static const int also[] = { -ECONNREFUSED, -ECONNRESET, -EDQUOT, -EACCES,
				    -EPIPE,        -ENODEV,     0 };
	static const char *const fabrics[] = { "auto", "tcp", "rdma" };
	struct rmem_options options = rmem_options_init();
	char uri[120];
	int err;

	program->timeout_ms = 1000 + (unsigned)sim_random(4000);
	options.timeout_ms = program->timeout_ms;
	options.flags = RMEM_NO_THREAD;
	options.client = "simulated";
	(void)snprintf(uri, sizeof(uri), "rmem://192.0.2.200?fabric=%s&tenant=%s%s%s",
		       fabrics[sim_random(3)], program->tenant,
		       keys_used() ? "&psk=" : "",
		       keys_used() ? keys_client_path(program->number) : "");
	client_call_begin("rmem_open", program->timeout_ms + 5000);
	err = rmem_open(uri, &options, &program->session);
	client_call_end();
	if (program_failed(program, "rmem_open", err, also)) {
		program->session = NULL;
		idle(program, sim_random(1000));
	}
}

static void program_close(struct program *program)
{
	mates_stop(program);
	client_call_begin("rmem_close", 8000);
	rmem_close(program->session);
	client_call_end();
	held_session_gone(program);
	program->closing = false;
}

/* ---- leases ---- */

static void server_call_begin(const struct program *program, const char *name)
{
	client_call_begin(name, program->timeout_ms + 3000);
}

/* More than the daemon can have, or what the model can hold. */
static uint64_t draw_border_bytes(void)
{
	const uint64_t lengths[] = { MODEL_BYTES_MAX, DAEMON_POOLS_BYTES_MAX };
	const struct borders borders = { lengths, 2 };
	uint64_t bytes;

	do
		bytes = border_at(&borders, sim_random(borders_count(&borders)));
	while (bytes > MODEL_BYTES_MAX && bytes <= DAEMON_POOLS_BYTES_MAX);
	return bytes;
}

static uint64_t draw_bytes(void)
{
	if (sim_chance(16))
		return draw_border_bytes();
	if (sim_chance(16))
		return 0;
	if (sim_chance(6))
		return 1 + sim_random(MODEL_BYTES_MAX);
	return 1 + sim_random(3 * PAGE);
}

/* A lease that no pool has room for must be refused. */
static void check_room(const struct program *program, uint64_t bytes)
{
	if (bytes > DAEMON_POOLS_BYTES_MAX)
		sim_fail(
			"client %u has a lease of %llu bytes, more than the pools have",
			program->number, (unsigned long long)bytes);
}

/* 0, a power of two up to 1 GiB, or one that the library refuses. */
static uint64_t draw_align(void)
{
	static const struct borders borders = { NULL, 0 };

	if (!sim_chance(4))
		return 0;
	if (sim_chance(4))
		return border_at(&borders, sim_random(borders_count(&borders)));
	return UINT64_C(1) << sim_random(31);
}

static bool align_is_good(uint64_t align)
{
	return __builtin_popcountll(align) <= 1 && align <= UINT64_C(1) << 30;
}

/* A name that was never used. */
static void name_make(struct program *program, char *name)
{
	(void)snprintf(name, HELD_NAME_BYTES, "c%u-%u", program->number,
		       program->names++);
}

static void held_alloc(struct program *program)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	struct held *held = held_free_place(program);
	char name[HELD_NAME_BYTES] = "";
	rmem_lease *lease;
	int err;

	if (!held)
		return;
	params.bytes = draw_bytes();
	params.align = draw_align();
	if (sim_chance(3)) {
		name_make(program, name);
		params.name = name;
		if (sim_chance(4))
			params.ttl_ms = 200 + sim_random(8000);
	}
	held->ttl_ns = sim_now_ns;
	server_call_begin(program, "rmem_alloc");
	err = rmem_alloc(program->session, &params, &lease);
	client_call_end();
	if (program_failed(program, "rmem_alloc", err,
			   align_is_good(params.align) ? no_room : refused))
		return;
	if (!align_is_good(params.align))
		sim_fail("client %u: an alignment of %llu is not refused",
			 program->number, (unsigned long long)params.align);
	check_room(program, params.bytes);
	held->used = true;
	held->lease = lease;
	memcpy(held->name, name, sizeof(name));
	held->other_name[0] = '\0';
	held->ttl_ms = params.ttl_ms;
	held->may_end = held->detaching = false;
	model_begin(&held->model, rmem_lease_id(lease), params.bytes);
	if (sim_chance(2))
		bytes_check(program, held, 0, params.bytes);
}

static void held_destroy(struct program *program, struct held *held)
{
	/* one that has ended already, as it has expired or an earlier call had no answer, may have
	 * keys that are still dying */
	bool ended =
		held->may_end || held->detaching || held->ttl_ms || daemon_may_revoke;
	int err;

	server_call_begin(program, "rmem_destroy");
	held->may_end = true;
	err = rmem_destroy(held->lease);
	client_call_end();
	if (!program_failed(program, "rmem_destroy", err, NULL)) {
		/* nor does a client whose session is lost ask the daemon */
		if (!ended && client_is_calm(1000))
			bytes_check_unreached(held->model.id);
		held_drop(held);
	} else {
		held_failed(program, held, err);
	}
}

static void held_detach(struct program *program, struct held *held)
{
	bool named = *held->name;
	int err;

	server_call_begin(program, "rmem_detach");
	held->may_end |= !named;
	held->detaching = true;
	err = rmem_detach(held->lease);
	client_call_end();
	if (program_failed(program, "rmem_detach", err, NULL)) {
		held_failed(program, held, err);
		return;
	}
	held->lease = NULL;
	held->detaching = false;
	if (!named)
		held_drop(held);
}

/* Whether a lease that was not found may have ended. */
static bool may_be_gone(const struct held *held)
{
	return held->may_end || daemon_may_revoke ||
	       (held->ttl_ms &&
		sim_now_ns - held->ttl_ns >= (held->ttl_ms - 1) * SIM_MS);
}

static void held_found(struct program *program, struct held *held, rmem_lease *lease)
{
	held->lease = lease;
	if (rmem_lease_id(lease) != held->model.id)
		sim_fail("client %u: \"%s\" is lease %llu, and was %llu",
			 program->number, held->name,
			 (unsigned long long)rmem_lease_id(lease),
			 (unsigned long long)held->model.id);
	if (held->model.bytes_known && rmem_lease_bytes(lease) != held->model.bytes)
		sim_fail("client %u: lease %llu has %llu bytes, and had %llu",
			 program->number, (unsigned long long)held->model.id,
			 (unsigned long long)rmem_lease_bytes(lease),
			 (unsigned long long)held->model.bytes);
}

/* Attach a named lease that an earlier session had, or this one. */
static void held_attach(struct program *program, struct held *held)
{
	/* -EBUSY: an earlier call, whose answer came too late, is not undone yet */
	static const int also[] = { -ENOENT, -EDQUOT, -ENOTSUP, -EBUSY, 0 },
			 proven[] = { -ENOENT, -EDQUOT, -ENOTSUP, 0 };
	rmem_lease *lease;
	int err;

	server_call_begin(program, "rmem_attach");
	err = rmem_attach(program->session, held->name, RMEM_READ | RMEM_WRITE, &lease);
	client_call_end();
	if (err == -ENOENT && *held->other_name) {
		memcpy(held->name, held->other_name, sizeof(held->name));
		held->other_name[0] = '\0';
		return;
	}
	if (err == -ENOENT && !may_be_gone(held))
		sim_fail("client %u: lease %llu \"%s\" is lost", program->number,
			 (unsigned long long)held->model.id, held->name);
	if (err == -ENOENT)
		held_drop(held);
	else if (!program_failed(program, "rmem_attach", err,
				 program->proving ? proven : also))
		held_found(program, held, lease);
}

static void held_attach_all(struct program *program)
{
	for (unsigned i = 0; i < HELD_MAX; i++) {
		struct held *held = &program->held[i];

		if (held->used && !held->lease && program->session && !program->lost &&
		    (program->proving || sim_chance(2)))
			held_attach(program, held);
	}
}

static void held_resize(struct program *program, struct held *held)
{
	static const int also[] = { -ENOSPC, -EDQUOT, -EINVAL, -EBUSY, 0 };
	uint64_t before = rmem_lease_bytes(held->lease), bytes = draw_bytes();
	bool grows = bytes >= before, known = held->model.bytes_known;
	int err;

	server_call_begin(program, grows ? "rmem_grow" : "rmem_shrink");
	err = grows ? rmem_grow(held->lease, bytes) : rmem_shrink(held->lease, bytes);
	client_call_end();
	/* of this client's own resize that was not answered in time */
	if ((err == -EINVAL || err == -EBUSY) && known)
		sim_fail("client %u: %s", program->number, rmem_error());
	if (!program_failed(program, "rmem_grow or rmem_shrink", err, also)) {
		check_room(program, bytes);
		model_resize(&held->model, bytes, true);
		return;
	}
	if (err != -ENOSPC && err != -EDQUOT && err != -EBUSY)
		model_resize(&held->model, bytes, false);
	held_failed(program, held, err);
	/* at once, while keys of the attempt may be dying */
	if ((err == -EIO || err == -ENOMEM) && held->lease && !program->lost &&
	    sim_chance(2))
		held_resize(program, held);
}

static void held_rename(struct program *program, struct held *held)
{
	static const int also[] = { -EDQUOT, 0 };
	char name[HELD_NAME_BYTES], before[HELD_NAME_BYTES];
	int err;

	/* an ephemeral one whose naming is unknown would be in doubt for ever */
	if (*held->other_name || !*held->name)
		return;
	name_make(program, name);
	memcpy(before, held->name, sizeof(before));
	server_call_begin(program, "rmem_rename");
	err = rmem_rename(held->lease, name, 0);
	client_call_end();
	if (!program_failed(program, "rmem_rename", err, also)) {
		memcpy(held->name, name, sizeof(name));
		return;
	}
	memcpy(held->other_name, name, sizeof(name));
	held_failed(program, held, err);
}

static void held_renew(struct program *program, struct held *held)
{
	uint64_t ttl_ms = sim_chance(3) ? 0 : 300 + sim_random(8000),
		 begun = sim_now_ns;
	int err;

	if (!*held->name)
		return;
	server_call_begin(program, "rmem_renew");
	err = rmem_renew(held->lease, ttl_ms);
	client_call_end();
	if (program_failed(program, "rmem_renew", err, NULL)) {
		/* either time to live may hold */
		held->may_end |= ttl_ms || held->ttl_ms;
		held_failed(program, held, err);
		return;
	}
	held->ttl_ms = ttl_ms;
	held->ttl_ns = begun;
}

/* ---- names ---- */

/* Names of this client that it does not hold: of leases whose allocation had no answer. */
struct strays {
	const struct program *program;
	char name[4][HELD_NAME_BYTES];
	unsigned n;
};

static int look_at_entry(const struct rmem_stat *stat, void *arg)
{
	struct strays *strays = arg;

	for (unsigned i = 0; i < HELD_MAX; i++) {
		const struct held *held = &strays->program->held[i];

		if (held->used && held->model.id == stat->id)
			return 0;
	}
	(void)snprintf(strays->name[strays->n], HELD_NAME_BYTES, "%.*s",
		       HELD_NAME_BYTES - 1, stat->name);
	return ++strays->n == 4;
}

static void names_sweep(struct program *program)
{
	static const int also[] = { -ENOENT, 0 };
	struct strays strays = { .program = program };
	char prefix[8];
	int err;

	(void)snprintf(prefix, sizeof(prefix), "c%u-", program->number);
	server_call_begin(program, "rmem_list");
	err = rmem_list(program->session, prefix, look_at_entry, &strays);
	client_call_end();
	if (program_failed(program, "rmem_list", err, NULL))
		return;
	for (unsigned i = 0; i < strays.n; i++) {
		server_call_begin(program, "rmem_remove");
		err = rmem_remove(program->session, strays.name[i]);
		client_call_end();
		(void)program_failed(program, "rmem_remove", err, also);
	}
}

static void ping(struct program *program)
{
	int err;

	server_call_begin(program, "rmem_ping");
	err = rmem_ping(program->session, NULL);
	client_call_end();
	(void)program_failed(program, "rmem_ping", err, NULL);
}

/* ---- the program ---- */

static void act_on_lease(struct program *program, struct held *held)
{
	/* whose end was asked for has no bytes that mean anything */
	if (held->may_end) {
		held_destroy(program, held);
		return;
	}
	switch (sim_random(40)) {
	case 0:
	case 1:
	case 2:
		held_destroy(program, held);
		break;
	case 3:
	case 4:
		held_detach(program, held);
		break;
	case 5:
	case 6:
	case 7:
		held_resize(program, held);
		break;
	case 8:
		held_rename(program, held);
		break;
	case 9:
		held_renew(program, held);
		break;
	case 10:
	case 11:
	case 12:
		bytes_queue(program, held);
		break;
	case 13:
		bytes_inband(program, held);
		break;
	case 14:
	case 15:
		shares_change(program, held);
		break;
	case 16:
		bytes_use_outside(program, held);
		break;
	default:
		bytes_use(program, held);
		break;
	}
}

static void act(struct program *program)
{
	struct held *held = held_pick(program);

	switch (sim_random(15)) {
	case 14:
	case 13:
		mates_act(program, 0);
		return;
	case 12:
		shares_visit(program);
		return;
	case 0:
	case 1:
	case 2:
		held_alloc(program);
		return;
	case 3:
		idle(program, sim_random(400));
		return;
	case 4:
		held_attach_all(program);
		return;
	case 5:
		if (sim_chance(3))
			names_sweep(program);
		else if (sim_chance(20))
			program_close(program);
		else
			ping(program);
		return;
	default:
		break;
	}
	if (held)
		act_on_lease(program, held);
	else
		held_alloc(program);
}

static void work(struct program *program)
{
	while (clients_phase == PHASE_WORK) {
		if (!program->session)
			program_open(program);
		else if (program->lost)
			program_close(program);
		else
			act(program);
		/* between two calls others run */
		client_wait(NULL, 0, sim_now_ns + sim_random(2000000));
	}
}

static void rest(struct program *program, enum phase phase)
{
	while (clients_phase == phase) {
		client_reached(phase);
		idle(program, 100);
		if (program->lost)
			program_close(program);
	}
}

/* Everything works again. */
static void prove(struct program *program)
{
	unsigned tries = 0;

	while (!program->session && tries++ < 20)
		program_open(program);
	if (!program->session)
		sim_fail("client %u cannot open a session: %s", program->number,
			 rmem_error());
	program->proving = true;
	ping(program);
	held_attach_all(program);
	held_attach_all(program);
	mates_prove(program);
	for (unsigned i = 0; i < HELD_MAX; i++)
		if (program->held[i].used && program->held[i].lease &&
		    !program->held[i].may_end)
			bytes_check(program, &program->held[i], 0,
				    program->held[i].model.bytes);
	held_alloc(program);
	names_sweep(program);
	program->proving = false;
}

void mate_run(unsigned client)
{
	mates_work(&programs[client]);
}

void program_run(unsigned client)
{
	struct program *program = &programs[client];

	work(program);
	rest(program, PHASE_QUIET);
	prove(program);
	rest(program, PHASE_PROVE);
	if (program->session)
		program_close(program);
}

void program_init(void)
{
	for (unsigned i = 0; i < SIM_CLIENTS; i++) {
		struct program *program = &programs[i];

		program->number = i;
		program->tenant = daemon_tenants[i % DAEMON_TENANTS];
		program->names = 0;
		program->proving = program->closing = false;
		program->calls = 0;
		for (unsigned k = 0; k < HELD_MAX; k++)
			held_drop(&program->held[k]);
		held_session_gone(program);
	}
}

void program_check_owned(void)
{
	for (unsigned i = 0; i < clients_count(); i++) {
		struct program *program = &programs[i];
		struct rmem_info info = rmem_info_init();
		const struct session *session;
		unsigned n = 0;

		if (!program->session || rmem_info(program->session, &info))
			continue;
		session = sessions_find(daemon_control.sessions, info.session_id);
		if (!session)
			continue;
		list_for_each_entry(const struct lease, lease,
				    &session->lease_client.owned, in_owner) {
			n += lease->state == WIRE_LEASE_READY;
			sim_note("  client %u owns lease %llu of %llu bytes", i,
				 (unsigned long long)lease->id,
				 (unsigned long long)lease->bytes);
		}
		for (unsigned k = 0; k < HELD_MAX; k++)
			if (program->held[k].used)
				sim_note("  client %u holds lease %llu \"%s\"", i,
					 (unsigned long long)program->held[k].model.id,
					 program->held[k].name);
		if (n < held_ephemeral(program, false) ||
		    n > held_ephemeral(program, true))
			sim_fail("client %u has %u leases, and the daemon has %u of it",
				 i, held_ephemeral(program, false), n);
	}
}
