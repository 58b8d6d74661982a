/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of leases, for lease/ alone: its structures, lookups, and the work list.
 *
 * A request, an event of the fabric or of the pools, or a timer that changes a lease puts it on the
 * work list with lease_changed() and ends with leases_run(), which alone, at once or in slices,
 * finishes or fails the requests that wait for the lease, and frees a lease that has ended.
 *
 * Threads: [loop]. */
#ifndef RMEMD_LEASE_LEASE_TABLE_H
#define RMEMD_LEASE_LEASE_TABLE_H

#include "base/list.h"
#include "base/map.h"
#include "base/tree.h"
#include "rmemd/lease/lease.h"
#include "rmemd/lease/segment.h"
#include "rmemd/lease/share.h"
#include "rmemd/lease/sweep.h"
#include "wire/states.h"

/* The time limit of a request that waits for memory being scrubbed. */
#define LEASE_MEMORY_WAIT_MS 10000

/* The number of leases, or of requests, that end because of a deadline before other clients are
 * served; the rest stays due. */
#define LEASE_ENDS_PER_TICK 64

struct leases {
	struct pools *pools;
	struct ledger *ledger;
	struct slices *slices;
	bool closing;  /* leases end, and stay in the ledger */
	bool draining; /* nothing is granted */
	const struct leases_events *events;
	void *ctx;
	uint64_t next_id;
	struct tree by_id;
	struct list all;       /* in the order of their ids */
	struct list ended;     /* leases whose keys are still dying */
	struct list changed;   /* the work list */
	bool running;          /* inside leases_run() */
	struct list waiting;   /* waiters for memory, the longest first */
	struct list wanting;   /* tenants that have some */
	struct tree deadlines; /* leases by the time when they are due, and their ids */
	struct list releasing; /* segments without a lease whose keys are dying */
	struct leases_counters counters;
	void (*run)(struct leases *leases); /* leases_run(), for files below it */
	bool reclaiming; /* a pool may want memory back, or sessions were told that it does */
	bool reclaim_all; /* leases_reclaim_some() is checking leases in the order of ids */
	uint64_t reclaim_after; /* the id of the last one checked */
	bool reclaim_found;     /* memory of a checked lease is wanted back */
};

struct lease {
	struct leases *leases;
	struct tenant *tenant;      /* holds a reference */
	struct lease_client *owner; /* NULL: named */
	struct origin *creator;     /* holds a reference; NULL: not known */
	enum wire_lease_state state;
	uint64_t id;
	uint64_t bytes;
	uint32_t generation;
	char *name;                /* NULL: ephemeral */
	struct tree_node by_id;    /* in leases->by_id */
	struct map_node by_name;   /* in tenant->names, if it has a name */
	struct tree_node in_named; /* in tenant->named, if it has a name */
	struct list all;           /* in leases->all or ->ended */
	struct list in_owner;      /* in owner->owned */
	struct list changed;       /* in leases->changed, or tenant->answering */

	struct segment **segments;
	unsigned n_segments;
	uint64_t align; /* as asked for; also applies to segments added later */
	enum wire_placement placement;
	int node;

	struct list attachments;
	struct tree by_session; /* the same, by the ids of their sessions */
	unsigned n_attachments;
	unsigned n_writers;    /* attachments with the right to write */
	struct list watchers;  /* attachments whose clients watch the lease */
	struct fanout *fanout; /* to them; NULL: there were none yet */
	struct sweep sweep;    /* through the attachments */
	struct list dying;     /* memory regions being deregistered */
	struct list waiters;   /* struct lease_waiter */
	bool round;            /* the waiters with this value were checked */
	bool again;            /* it has changed since this round began */
	bool resizing;         /* one request at a time */
	bool cut;              /* keys may still reach behind the lease's end */
	bool visited;          /* it was attached by its name */
	bool unrecorded;       /* it is about to end, and is in the ledger no more */

	struct share *shares; /* with other tenants */
	unsigned n_shares;

	struct lease_atomic_device atomic_device;
	struct fabric_mr_traffic traffic; /* of memory regions that are gone */

	uint64_t granted_ms;
	uint64_t ttl_ms;
	uint64_t due_ms; /* clock_now_ms(); 0: never */
	struct tree_node in_deadlines;
};

/* Put the lease on the work list. */
static inline void lease_changed(struct lease *lease)
{
	lease->again = true;
	if (list_empty(&lease->changed))
		list_append(&lease->leases->changed, &lease->changed);
}

/* ---- lease.c ---- */

/* The lease in any state, or NULL. */
struct lease *leases_find_id(const struct leases *leases, uint64_t id);
/* The lease that has this name, granted or not, or NULL. */
struct lease *leases_find_name(const struct tenant *tenant, const char *name);
/* The first lease with a higher id, or NULL. */
struct lease *leases_next_after(const struct leases *leases, uint64_t after);

#define QUOTE_BYTES 104
/* A lease's name in quotes; a long one is cut and ends in "...", as only WIRE_NAME_MAX bytes of an
 * error text go over the wire.  Returns buf. */
const char *quote_name(const char *name, char buf[QUOTE_BYTES]);
/* In a buffer that lives as long as the enclosing block. */
#define QUOTED(name) quote_name(name, (char[QUOTE_BYTES]){ 0 })

/* A lease of zeros, in no table.  NULL: no memory. */
struct lease *lease_blank(struct leases *leases, uint64_t id);
/* A new lease without memory, not granted yet.  -EEXIST, -EDQUOT, -ENOMEM */
int lease_create(struct leases *leases, struct lease_client *client,
		 const struct lease_params *params, struct lease **ret_lease);
/* Add the lease to the table.  -ENOMEM */
int lease_insert(struct lease *lease);
/* Free a lease without references, in no list or map. */
void lease_delete(struct lease *lease);
/* Give the lease a name that no other lease has.  -ENOMEM */
int lease_set_name(struct lease *lease, const char *name);
/* Set the time to live, which starts now; 0: for ever. */
void lease_set_ttl(struct lease *lease, uint64_t ttl_ms);
struct lease_status lease_status(const struct lease *lease);
/* End the lease, and tell all clients that have it attached, except `except` (may be NULL): see
 * sweep.h. */
void lease_terminate(struct lease *lease, enum wire_reason reason,
		     const struct lease_client *except);
/* The lease has another length. */
void lease_set_bytes(struct lease *lease, uint64_t bytes);
/* Cut the lease to `bytes`, and tell all clients that have it attached, except `except`: see
 * sweep.h. */
void lease_cut(struct lease *lease, uint64_t bytes, const struct lease_client *except);
/* Tell all these clients, except `except`, that the lease grew. */
void lease_send_grown(struct lease *lease, const struct lease_client *except);

/* ---- lease_memory.c ---- */

/* Make the lease of the waiter `bytes` long, now or when memory is clean.  Until then the waiter is
 * in leases->waiting; an error fails the waiter. */
void lease_want_memory(struct lease_waiter *waiter, uint64_t bytes);
/* Serve waiters with the memory that is clean now, those of each tenant in turn, in slices. */
void leases_serve_waiting(struct leases *leases);
/* Fail requests that have waited too long, a limited number at a time. */
void leases_time_out(struct leases *leases, uint64_t now_ms);

/* ---- reclaim.c ---- */

/* Tell clients that have the lease attached how many of its bytes are wanted back, if the number
 * has changed. */
void lease_send_wanted(struct lease *lease);
/* Check some leases after leases_reclaim().  True: all are checked. */
bool leases_reclaim_some(struct leases *leases, uint64_t now_ms);

/* ---- waiter.c ---- */

#define LEASE_ENDED_TEXT "the lease has ended or was detached meanwhile"

/* A request begins to wait for memory or keys of its lease, or for keys to die. */
void waiter_add(struct lease_waiter *waiter, enum lease_wait kind, struct lease *lease,
		struct attachment *attachment);
/* Have leases_run() fail the request; the first error counts. */
void waiter_fail(struct lease_waiter *waiter, int err, const char *text);
/* waiter_fail() for all requests that wait for keys of this attachment, which are of one session;
 * -ESTALE: it has ended.  Returns their number. */
unsigned waiters_fail(struct attachment *attachment, int err, const char *text);
/* Begin or end to wait for memory. */
void waiter_begin_memory(struct lease_waiter *waiter);
void waiter_end_memory(struct lease_waiter *waiter);

/* ---- work_list.c ---- */

/* Run the work list until it is empty: the last step of every event.  Of many requests that wait
 * for one lease the first are looked at, and the others in slices, as work of the lease's
 * tenant. */
void leases_run(struct leases *leases);

#endif
