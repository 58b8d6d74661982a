/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases that the session renews by itself, rmem_keep().  The thread that drives the session sends
 * the requests.  A request that is lost with its connection is sent again, as every other; the
 * server counts from when it received the first one, so each lease is renewed after a resumption
 * once more. */
#include "librmem/lease/lease.h"

#include "base/clock.h"
#include "librmem/session/session.h"
#include "wire/codec.h"

/* A lease is renewed at most this often, and at least once a day: times do not overflow. */
#define INTERVAL_MIN_MS 100u
#define INTERVAL_MAX_MS 86400000u
/* Limit of renewals under way: as with REKEYS_MAX, the program's requests must have room. */
#define KEEPS_MAX 64u

static uint64_t interval_ns(const struct rmem_lease *lease)
{
	uint64_t ms = lease->keep.ttl_ms / 3;

	if (ms < INTERVAL_MIN_MS)
		ms = INTERVAL_MIN_MS;
	return (ms < INTERVAL_MAX_MS ? ms : INTERVAL_MAX_MS) * NS_PER_MS;
}

static void due_set(struct rmem_lease *lease, uint64_t due_ns)
{
	struct lease_table *table = lease->session->leases;

	lease->keep.due_ns = due_ns;
	if (due_ns < table->keep_due_ns)
		table->keep_due_ns = due_ns;
}

static void enter(struct rmem_lease *lease, uint64_t due_ns)
{
	if (lease_ended(lease))
		return;
	list_move(&lease->session->leases->kept, &lease->keep.node);
	due_set(lease, due_ns);
}

void keep_start(struct rmem_lease *lease, uint64_t ttl_ms, uint64_t sent_ns)
{
	lease->keep.ttl_ms = ttl_ms;
	enter(lease, sent_ns + interval_ns(lease));
}

bool keep_stop(struct rmem_lease *lease)
{
	bool kept = !list_empty(&lease->keep.node);

	list_remove(&lease->keep.node);
	return kept;
}

void keep_resume(struct rmem_lease *lease)
{
	enter(lease, clock_now_ns());
}

void keep_abandon(struct rmem_lease *lease)
{
	(void)keep_stop(lease);
	if (!lease->keep.call)
		return;
	(void)connection_abandon(lease->keep.call, NULL, NULL);
	lease->session->leases->keeps_sent--;
}

/* ---- renewals ---- */

static int renewed(void *ctx, int err, const struct wire_msg *reply)
{
	struct rmem_lease *lease = ctx;
	struct lease_table *table = lease->session->leases;

	(void)reply;
	lease->keep.call = NULL;
	table->keeps_sent--;
	/* after any other error the next renewal may succeed */
	if (err == -ESTALE || err == -ENOENT)
		(void)keep_stop(lease);
	/* keeps_work() looks at this lease, and at those that had to wait */
	table->keep_due_ns = 0;
	return 0;
}

static void renew(struct rmem_lease *lease, uint64_t now_ns)
{
	struct wire_msg request;

	wire_msg_init(&request, WIRE_TYPE_renew);
	request.renew.lease = lease->id;
	request.renew.ttl_ms = lease->keep.ttl_ms;
	lease->keep.due_ns = now_ns + interval_ns(lease);
	if (!connection_call(lease->session->connection, &request, renewed, lease,
			     &lease->keep.call))
		lease->session->leases->keeps_sent++;
}

uint64_t keeps_due(const struct rmem *session)
{
	const struct lease_table *table = session->leases;

	return session->state == SESSION_UP && table->keeps_sent < KEEPS_MAX
		       ? table->keep_due_ns
		       : UINT64_MAX;
}

void keeps_work(struct rmem *session, uint64_t now_ns)
{
	struct lease_table *table = session->leases;

	if (now_ns < keeps_due(session))
		return;
	table->keep_due_ns = UINT64_MAX;
	list_for_each_entry(struct rmem_lease, lease, &table->kept, keep.node) {
		if (!lease->keep.call && lease->keep.due_ns <= now_ns &&
		    table->keeps_sent < KEEPS_MAX)
			renew(lease, now_ns);
		/* a renewal under way comes back here when it is answered */
		if (!lease->keep.call)
			due_set(lease, lease->keep.due_ns);
	}
}

void keeps_resumed(struct rmem *session)
{
	uint64_t soon_ns = clock_now_ns() + INTERVAL_MIN_MS * NS_PER_MS;

	list_for_each_entry(struct rmem_lease, lease, &session->leases->kept, keep.node)
		if (soon_ns < lease->keep.due_ns)
			due_set(lease, soon_ns);
}
