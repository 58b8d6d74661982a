/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/shares.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rmemd/lease/lease_table.h"
#include "simulate/checks.h"
#include "simulate/clients.h"
#include "simulate/daemon.h"
#include "simulate/fabric.h"
#include "simulate/sim.h"

/* A lease that is shared, or was. */
struct offer {
	uint64_t lease;
	const char *owner, *guest; /* tenants */
	char name[HELD_NAME_BYTES];
	bool ended;
};

static struct offer *shares;
static size_t n_shares, room;

void shares_init(void)
{
	n_shares = 0;
}

void shares_end(void)
{
	free(shares);
	shares = NULL;
	n_shares = room = 0;
}

static const char *other_tenant(const struct program *program)
{
	return daemon_tenants[program->tenant == daemon_tenants[0]];
}

static struct offer *find(uint64_t lease)
{
	for (size_t i = 0; i < n_shares; i++)
		if (shares[i].lease == lease)
			return &shares[i];
	return NULL;
}

static struct offer *add(void)
{
	if (n_shares == room) {
		struct offer *more = sim_alloc((room * 2 + 16) * sizeof(*more));

		if (n_shares)
			memcpy(more, shares, n_shares * sizeof(*more));
		free(shares);
		shares = more;
		room = room * 2 + 16;
	}
	return &shares[n_shares++];
}

/* ---- the owner ---- */

static void offer_make(struct program *program, struct held *held)
{
	struct offer *share = find(held->model.id);
	int err;

	if (!share)
		share = add();
	*share = (struct offer){ .lease = held->model.id,
				 .owner = program->tenant,
				 .guest = other_tenant(program) };
	memcpy(share->name, held->name, sizeof(share->name));
	client_call_begin("rmem_share", program->timeout_ms + 3000);
	err = rmem_share(held->lease, other_tenant(program), RMEM_READ);
	client_call_end();
	if (program_failed(program, "rmem_share", err, NULL))
		held_failed(program, held, err);
}

static void withdraw(struct program *program, struct held *held)
{
	int err;

	client_call_begin("rmem_unshare", program->timeout_ms + 3000);
	err = rmem_unshare(held->lease, other_tenant(program));
	client_call_end();
	if (program_failed(program, "rmem_unshare", err, NULL))
		held_failed(program, held, err);
	else if (find(held->model.id))
		find(held->model.id)->ended = true;
}

void shares_change(struct program *program, struct held *held)
{
	const struct offer *share = find(held->model.id);

	if (!*held->name)
		return;
	if (!share || share->ended || sim_chance(4))
		offer_make(program, held);
	else
		withdraw(program, held);
}

/* ---- a guest ---- */

static bool is_shared_with(const struct offer *share, const struct program *program)
{
	return !share->ended && share->guest == program->tenant;
}

/* One by chance, mostly of the last ones. */
static const struct offer *pick(const struct program *program)
{
	for (size_t i = n_shares; i > 0; i--)
		if (is_shared_with(&shares[i - 1], program) && !sim_chance(3))
			return &shares[i - 1];
	return NULL;
}

/* The lease is there, and no bytes behind these were cut off. */
static bool is_readable(uint64_t id, uint64_t bytes)
{
	const struct lease *lease =
		daemon_up ? leases_find_id(daemon_control.leases, id) : NULL;

	return lease && lease->bytes >= bytes;
}

static void look(struct program *program, uint64_t id, rmem_lease *lease)
{
	static const int also[] = { -ECONNRESET, -ESTALE, -EACCES, 0 };
	static unsigned char bufs[SIM_CLIENTS][256];
	unsigned char *buf = bufs[program->number];
	uint64_t bytes = rmem_lease_bytes(lease);
	int err;

	if (bytes > sizeof(bufs[0]))
		bytes = sizeof(bufs[0]);
	client_call_begin("rmem_read",
			  2 * (program->timeout_ms + 2 * daemon_config.fence_ms) +
				  4000);
	err = rmem_read(lease, 0, buf, bytes);
	client_call_end();
	/* its owner has made it shorter since its length was asked for */
	if (err == -EINVAL && !is_readable(id, bytes))
		return;
	if (program_failed(program, "rmem_read of a shared lease", err, also) ||
	    !is_readable(id, bytes))
		return;
	for (uint64_t i = 0; i < bytes; i++)
		if (pattern_version(id, i, buf[i]) < 0)
			sim_fail("client %u finds a byte %#x of nobody's in lease %llu",
				 program->number, buf[i], (unsigned long long)id);
}

static void leave(struct program *program)
{
	int err;

	client_call_begin("rmem_detach", program->timeout_ms + 3000);
	err = rmem_detach(program->visited);
	client_call_end();
	/* else the handle is still there */
	if (!program_failed(program, "rmem_detach of a shared lease", err, NULL))
		program->visited = NULL;
}

void shares_visit(struct program *program)
{
	static const int also[] = { -ENOENT, -EACCES, -EDQUOT, -EBUSY, -ENOTSUP, 0 };
	const struct offer *share = pick(program);
	unsigned rights = RMEM_READ | (sim_chance(4) ? RMEM_WRITE : 0);
	uint64_t id;
	int err;

	if (program->visited) {
		leave(program);
		return;
	}
	if (!share)
		return;
	id = share->lease;
	client_call_begin("rmem_attach_shared", program->timeout_ms + 3000);
	err = rmem_attach_shared(program->session, share->owner, share->name, rights,
				 &program->visited);
	client_call_end();
	if (program_failed(program, "rmem_attach_shared", err, also)) {
		program->visited = NULL;
		return;
	}
	if (rights & RMEM_WRITE)
		sim_fail("client %u may write to lease %llu, shared for reading",
			 program->number, (unsigned long long)id);
	if (rmem_lease_id(program->visited) == id)
		look(program, id, program->visited);
	/* some stay for a while */
	if (sim_chance(2))
		leave(program);
}

/* ---- the rule ---- */

static void check_guest(uint64_t lease, const char *owner, const char *tenant)
{
	const struct offer *share = find(lease);

	if (strcmp(owner, tenant) == 0)
		return;
	if (!share || share->ended || strcmp(share->guest, tenant) != 0)
		sim_fail("a key of tenant %s reaches lease %llu of tenant %s, which "
			 "does not share it",
			 tenant, (unsigned long long)lease, owner);
}

void shares_check(void)
{
	fabric_each_guest(check_guest);
}
