/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of leases, for lease/ alone: what it holds, how a lease is found, and the work list.
 *
 * Whatever changes a lease (a request, an event of the fabric or of the pools, a timer) puts it
 * on the work list with lease_changed() and ends with leases_run(), which alone finishes or
 * fails the requests that wait for the lease, and frees a lease that has ended.
 *
 * Threads: [loop]. */
#ifndef RMEMD_LEASE_LEASE_TABLE_H
#define RMEMD_LEASE_LEASE_TABLE_H

#include "base/list.h"
#include "base/map.h"
#include "rmemd/lease/deadlines.h"
#include "rmemd/lease/lease.h"
#include "rmemd/lease/segment.h"

/* How long a request waits for bytes that are being scrubbed. */
#define LEASE_MEMORY_WAIT_MS 10000

struct leases {
	struct pools *pools;
	struct ledger *ledger;
	bool closing; /* the ledger keeps the leases that end now */
	const struct leases_events *events;
	void *ctx;
	uint64_t next_id;
	struct map by_id;
	struct list all;     /* in the order of their ids */
	struct list ended;   /* their keys are still dying */
	struct list changed; /* the work list */
	bool running;        /* leases_run() is at work */
	struct list waiting; /* waiters for memory, the longest first */
	struct deadlines deadlines;
	struct list
		releasing; /* segments that leases gave up, under keys that are dying */
	struct leases_counters counters;
	bool reclaiming;  /* a pool may want memory back, or sessions were told so */
	bool reclaim_all; /* all leases are being looked at for that */
	uint64_t reclaim_after; /* the id of the last one that was */
	bool reclaim_found;     /* memory is wanted back of some of those */
};

enum lease_state { LEASE_GRANTING, LEASE_READY, LEASE_ENDED };

struct lease {
	struct leases *leases;
	struct tenant *tenant;      /* holds a reference */
	struct lease_client *owner; /* NULL: named */
	enum lease_state state;
	uint64_t id;
	uint64_t bytes;
	uint32_t generation;
	char *name; /* NULL: ephemeral */
	struct map_node by_id, by_name;
	struct list all;      /* in leases->all or ->ended */
	struct list in_owner; /* in owner->owned */
	struct list changed;  /* in leases->changed */

	struct segment **segments;
	unsigned n_segments;
	uint64_t align; /* as asked for; counts for segments added later, too */
	enum wire_placement placement;
	int node;

	struct list attachments;
	unsigned n_attachments;
	struct list watchers; /* struct attachment, those whose clients watch it */
	struct list dying;    /* memory regions being deregistered */
	struct list waiters;  /* struct lease_waiter */
	bool resizing;        /* one request at a time */
	bool cut;             /* keys that reach behind the end are still dying */

	struct lease_atomic_device atomic_device;

	uint64_t granted_ms;
	uint64_t ttl_ms;
	struct deadline deadline;
};

/* ---- lease_table.c ---- */

/* The client's attachment of a lease that is granted, or NULL. */
struct attachment *leases_find(const struct leases *leases,
			       const struct lease_client *client, uint64_t id);
/* The same with an error where there is none.  -ESTALE */
int leases_find_attached(const struct leases *leases, const struct lease_client *client,
			 uint64_t id, struct attachment **ret_attachment);
/* The lease, in whatever state, or NULL. */
struct lease *leases_find_id(const struct leases *leases, uint64_t id);
/* The lease that has this name, granted or not, or NULL. */
struct lease *leases_find_name(const struct tenant *tenant, const char *name);
/* The list node of the first lease behind an id, or the list's head.  O(n) where that id does
 * not exist. */
const struct list *leases_behind(const struct leases *leases, uint64_t after);
/* Put the lease on the work list. */
void lease_changed(struct lease *lease);

#define QUOTE_BYTES 104
/* A lease's name in quotes; a long one is cut and ends in "...", as an error text goes over the
 * wire whole only up to WIRE_NAME_MAX bytes.  Returns buf. */
const char *quote_name(const char *name, char buf[QUOTE_BYTES]);

/* ---- lease.c ---- */

/* A lease that is in no table, all zero.  NULL: no memory. */
struct lease *lease_blank(struct leases *leases, uint64_t id);
/* A new lease without memory, not granted yet.  -EEXIST, -EDQUOT, -ENOMEM */
int lease_create(struct leases *leases, struct lease_client *client,
		 const struct lease_params *params, struct lease **ret_lease);
/* Enter it into the maps by id and, if it has a name, by name.  -ENOMEM */
int lease_insert(struct lease *lease);
/* Nothing refers to it any more, and it is in no list or map. */
void lease_delete(struct lease *lease);
/* Give it a name that is free.  -ENOMEM */
int lease_set_name(struct lease *lease, const char *name);
/* Its time to live starts, or starts anew.  -ENOMEM */
int lease_set_ttl(struct lease *lease, uint64_t ttl_ms);
void lease_fill_status(const struct lease *lease, struct lease_status *ret_status);
/* End the lease for every client; tells all that have it attached but `except` (may be NULL). */
void lease_end(struct lease *lease, enum wire_reason reason,
	       const struct lease_client *except);
/* Take away everything behind `bytes`; tells all that have it attached but `except`. */
void lease_cut(struct lease *lease, uint64_t bytes, const struct lease_client *except);
/* Tell all that have it attached but `except` that it became longer. */
void lease_tell_grown(struct lease *lease, const struct lease_client *except);

/* ---- lease_memory.c ---- */

/* Make the lease of the waiter `bytes` long, now or when the memory is clean.  Until then the
 * waiter is in leases->waiting; a failure fails the waiter. */
void lease_want_memory(struct lease_waiter *waiter, uint64_t bytes);
/* Give the memory there is now to those that wait for it. */
void leases_serve_waiting(struct leases *leases);
/* Requests that waited too long fail. */
void leases_time_out(struct leases *leases, uint64_t now_ms);

/* ---- reclaim.c ---- */

/* Tell those that have the lease attached what is wanted back of it, where that has changed. */
void lease_tell_wanted(struct lease *lease);
/* A turn of what leases_reclaim() began.  True: it is over. */
bool leases_reclaim_some(struct leases *leases, uint64_t now_ms);

/* ---- waiter.c ---- */

/* A request waits for its lease's memory or keys to come, or for keys to die; LEASE_WAIT_*. */
void waiter_add(struct lease_waiter *waiter, enum lease_wait kind, struct lease *lease,
		struct attachment *attachment);
/* leases_run() is to fail the request with this; the first error counts. */
void waiter_fail(struct lease_waiter *waiter, int err, const char *text);
/* The same for all requests that wait for this attachment's keys.  -ESTALE: it has ended. */
void waiters_fail(struct lease *lease, const struct attachment *attachment, int err,
		  const char *text);
/* Wait for memory, or no more. */
void waiter_begin_memory(struct lease_waiter *waiter);
void waiter_end_memory(struct lease_waiter *waiter);

/* ---- work_list.c ---- */

/* Run the work list until it is empty: the last step of each event. */
void leases_run(struct leases *leases);

#endif
