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
	(void)keep_stop(lease);
	tree_insert(&lease->session->leases->kept, &lease->keep.node, due_ns,
		    lease->id);
	lease->keep.kept = true;
}

static void enter(struct rmem_lease *lease, uint64_t due_ns)
{
	if (!lease_ended(lease))
		due_set(lease, due_ns);
}

void keep_start(struct rmem_lease *lease, uint64_t ttl_ms, uint64_t sent_ns)
{
	lease->keep.ttl_ms = ttl_ms;
	enter(lease, sent_ns + interval_ns(lease));
}

bool keep_stop(struct rmem_lease *lease)
{
	bool kept = lease->keep.kept;

	if (kept)
		tree_remove(&lease->session->leases->kept, &lease->keep.node);
	lease->keep.kept = false;
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

	(void)reply;
	lease->keep.call = NULL;
	lease->session->leases->keeps_sent--;
	/* after any other error the next renewal may succeed */
	if (err == -ESTALE || err == -ENOENT)
		(void)keep_stop(lease);
	return 0;
}

static void renew(struct rmem_lease *lease, uint64_t now_ns)
{
	struct wire_msg request;

	wire_msg_init(&request, WIRE_TYPE_renew);
	request.renew.lease = lease->id;
	request.renew.ttl_ms = lease->keep.ttl_ms;
	due_set(lease, now_ns + interval_ns(lease));
	if (!connection_call(lease->session->connection, &request, renewed, lease,
			     &lease->keep.call))
		lease->session->leases->keeps_sent++;
}

/* The lease that is to be renewed first, or NULL.  It steps over those whose renewal is under way,
 * of which there are few. */
static struct rmem_lease *keeps_first(const struct rmem *session)
{
	const struct tree *kept = &session->leases->kept;
	struct tree_node *node = tree_above(kept, 0, 0);

	for (; node; node = tree_above(kept, node->major, node->minor)) {
		struct rmem_lease *lease =
			container_of(node, struct rmem_lease, keep.node);

		if (!lease->keep.call)
			return lease;
	}
	return NULL;
}

uint64_t keeps_due(const struct rmem *session)
{
	const struct rmem_lease *first;

	if (session->state != SESSION_UP || session->leases->keeps_sent >= KEEPS_MAX)
		return UINT64_MAX;
	first = keeps_first(session);
	return first ? first->keep.node.major : UINT64_MAX;
}

void keeps_work(struct rmem *session, uint64_t now_ns)
{
	while (now_ns >= keeps_due(session))
		renew(keeps_first(session), now_ns);
}

void keeps_resumed(struct rmem *session)
{
	uint64_t soon_ns = clock_now_ns() + INTERVAL_MIN_MS * NS_PER_MS;
	struct tree_node *node;

	while ((node = tree_above(&session->leases->kept, soon_ns, UINT64_MAX)))
		due_set(container_of(node, struct rmem_lease, keep.node), soon_ns);
}
