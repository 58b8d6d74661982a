/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/held.h"

#include <errno.h>
#include <string.h>

#include "simulate/clients.h"
#include "simulate/daemon.h"
#include "simulate/history.h"
#include "simulate/sim.h"

bool program_failed(const struct program *program, const char *call, int err,
		    const int *also)
{
	static const int always[] = { -ETIMEDOUT, -ESTALE, -ENOMEM, -EIO, 0 };

	if (err >= 0)
		return false;
	for (; also && *also; also++)
		if (err == *also)
			return true;
	/* a server without memory gives no new keys, and the old ones are refused */
	if (err == -EACCES && !client_is_calm(1000))
		return true;
	for (unsigned i = 0; always[i] && !program->proving; i++)
		if (err == always[i])
			return true;
	outcome->error = err;
	sim_fail("client %u: %s: %s", program->number, call, rmem_error());
}

void held_drop(struct held *held)
{
	held->used = false;
	held->lease = NULL;
}

unsigned held_ephemeral(const struct program *program, bool doubtful)
{
	unsigned n = 0;

	for (unsigned i = 0; i < HELD_MAX; i++) {
		const struct held *held = &program->held[i];

		n += held->used && held->lease && !*held->name &&
		     !rmem_lease_status(held->lease) && (doubtful || !held->may_end);
	}
	return n;
}

struct held *held_pick(struct program *program)
{
	struct held *picked = NULL;
	unsigned n = 0;

	for (unsigned i = 0; i < HELD_MAX; i++)
		if (program->held[i].used && program->held[i].lease && sim_chance(++n))
			picked = &program->held[i];
	return picked;
}

struct held *held_free_place(struct program *program)
{
	for (unsigned i = 0; i < HELD_MAX; i++)
		if (!program->held[i].used)
			return &program->held[i];
	return NULL;
}

static bool has_expired(const struct held *held)
{
	/* the daemon counts whole milliseconds */
	return held->ttl_ms && sim_now_ns - held->ttl_ns >= (held->ttl_ms - 1) * SIM_MS;
}

/* Why a lease may end without the program's doing. */
static bool may_end(const struct held *held)
{
	return held->may_end || daemon_may_revoke || has_expired(held);
}

static bool reason_holds(const struct program *program, const struct held *held,
			 enum rmem_reason reason)
{
	switch (reason) {
	case RMEM_REASON_LOST:
		return !client_is_calm(daemon_config.fence_ms + 8000) ||
		       daemon_may_kick;
	case RMEM_REASON_EXPIRED:
		return has_expired(held) || held->may_end;
	case RMEM_REASON_REVOKED:
		return daemon_may_revoke;
	case RMEM_REASON_FREED:
		return held->may_end || held->detaching;
	case RMEM_REASON_UNKNOWN:
		return may_end(held) || held->detaching || program->lost;
	default:
		return false;
	}
}

void held_ended(struct program *program, struct held *held)
{
	enum rmem_reason reason = rmem_lease_reason(held->lease);

	program->lost |= reason == RMEM_REASON_LOST;
	if (!reason_holds(program, held, reason))
		sim_fail("client %u: lease %llu \"%s\" has ended, reason %d",
			 program->number, (unsigned long long)held->model.id,
			 held->name, reason);
	/* the handles go with the session; a named lease may live on */
	if (program->lost)
		return;
	(void)rmem_detach(held->lease);
	if (held->detaching && *held->name)
		held->lease = NULL;
	else
		held_drop(held);
	held->detaching = false;
}

void held_failed(struct program *program, struct held *held, int err)
{
	if (err == -ESTALE && rmem_lease_status(held->lease))
		held_ended(program, held);
}

void held_session_gone(struct program *program)
{
	for (unsigned i = 0; i < HELD_MAX; i++) {
		struct held *held = &program->held[i];

		held->lease = NULL;
		if (!*held->name)
			held_drop(held);
	}
	program->session = NULL;
	program->queue = NULL;
	program->visited = NULL;
	program->lost = false;
	memset(program->mates, 0, sizeof(program->mates));
}
