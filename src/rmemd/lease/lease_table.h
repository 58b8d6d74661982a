/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of leases and what is in it; for lease/ alone.  Threads: [loop]. */
#ifndef RMEMD_LEASE_LEASE_TABLE_H
#define RMEMD_LEASE_LEASE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

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
	bool closing; /* what ends now is not over */
	const struct leases_events *events;
	void *ctx;
	uint64_t next_id;
	struct map by_id;
	struct list all;     /* in the order of their ids */
	struct list ended;   /* their keys are still dying */
	struct list waiting; /* for memory, the longest first */
	struct deadlines deadlines;
	struct list releasing; /* segments given up, under keys that are dying */
	uint64_t granted_ever, expired_ever;
	uint64_t waited_ever, waited_ms; /* requests that waited for clean memory */
	bool reclaiming;        /* something may be wanted back, or was told to be */
	bool reclaim_all;       /* all leases are looked at for that */
	uint64_t reclaim_after; /* behind the one with this id, the next time */
	bool reclaim_found;     /* something is wanted back of those before it */
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

	struct segment **segments;
	unsigned n_segments;
	uint64_t align; /* as asked for, for segments added later too */
	enum wire_placement placement;
	int node;

	struct list attachments;
	unsigned n_attachments;
	struct list watchers; /* struct attachment, those whose clients watch it */
	struct list dying;    /* mrs being withdrawn */
	struct list waiters;  /* struct lease_waiter */
	bool resizing;        /* one at a time */
	bool cut;             /* keys that reach behind the end are still dying */

	struct lease_atomic_device home;

	uint64_t granted_ms;
	uint64_t ttl_ms;
	struct deadline deadline;

	/* While it waits for memory. */
	struct list waiting; /* in leases->waiting */
	struct lease_waiter *memory_waiter;
	uint64_t wanted_bytes; /* its length to be */
	uint64_t give_up_ms;
};

/* What the client has attached, if that lease is granted, or NULL. */
struct attachment *leases_find(const struct leases *leases,
			       const struct lease_client *client, uint64_t id);
/* The same with an error where there is none.  -ESTALE */
int leases_find_attached(const struct leases *leases, const struct lease_client *client,
			 uint64_t id, struct attachment **ret_attachment);
/* The lease, in whatever state, or NULL. */
struct lease *leases_find_id(const struct leases *leases, uint64_t id);
/* Where to go on behind an id: the node of a lease, or the list's head.  It takes long where
 * that lease does not exist. */
const struct list *leases_behind(const struct leases *leases, uint64_t after);
/* The lease that has this name, granted or not, or NULL. */
struct lease *leases_find_name(const struct tenant *tenant, const char *name);
/* A lease that is in no table, all zero.  NULL: no memory. */
struct lease *lease_blank(struct leases *leases, uint64_t id);
/* A new lease without memory, not granted yet.  -EEXIST, -EDQUOT, -ENOMEM */
int lease_create(struct leases *leases, struct lease_client *client,
		 const struct lease_params *params, struct lease **ret_lease);
void lease_fill_status(const struct lease *lease, struct lease_status *ret_status);
/* Nothing refers to it any more, and it is in no list or map. */
void lease_delete(struct lease *lease);
/* Give it a name that is free.  -ENOMEM */
int lease_set_name(struct lease *lease, const char *name);
/* Its time to live starts, or starts anew.  -ENOMEM */
int lease_set_ttl(struct lease *lease, uint64_t ttl_ms);

/* End the lease for everybody; tells all that have it attached, except one (may be
 * NULL). The caller calls lease_settle() next. */
void lease_end(struct lease *lease, enum wire_reason reason,
	       const struct lease_client *except);
/* Take away everything behind `bytes`; tells all that have it attached, except one. The
 * caller calls lease_settle() next. */
void lease_cut(struct lease *lease, uint64_t bytes, const struct lease_client *except);

/* ---- wait.c ---- */

/* Something of the lease has come to rest: finish what waited for that.  A lease that
 * has ended, with all its keys dead, is freed here. */
void lease_settle(struct lease *lease);
/* Wait for the lease to come to rest; the caller calls lease_settle() next. */
void lease_wait(struct lease *lease, struct attachment *attachment,
		enum lease_wait kind, struct lease_waiter *waiter);
/* The request fails and is undone.  The caller calls lease_settle() next. */
void lease_fail(struct lease_waiter *waiter, int err, const char *text);
/* All requests that wait for this attachment's keys fail.  The caller calls
 * lease_settle() next. */
void lease_fail_waiters(struct lease *lease, const struct attachment *attachment,
			int err, const char *text);

/* ---- reclaim.c ---- */

/* Tell those who have the lease attached what is wanted back of it, where that has changed. */
void lease_tell_wanted(struct lease *lease);
/* A turn of what leases_reclaim() began. */
void leases_reclaim_some(struct leases *leases, uint64_t now_ms);

/* ---- memory.c ---- */

/* Make the lease `bytes` long, now or when the memory is clean; then it waits for its
 * keys.  Ends in done(). */
void lease_await_memory(struct lease *lease, struct attachment *attachment,
			enum lease_wait kind, uint64_t bytes,
			struct lease_waiter *waiter);
/* Wait for memory no more.  Returns the waiter, or NULL when there was none. */
struct lease_waiter *lease_stop_waiting(struct lease *lease);
/* Requests that waited too long fail. */
void leases_give_up(struct leases *leases, uint64_t now_ms);

#endif
